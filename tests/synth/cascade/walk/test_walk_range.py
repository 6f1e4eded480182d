"""Ranges of walks: each tile that is left is walked, and of masks with straight edges no other."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tilewright.ir.cascade import Line, WalkRange, unit_part, walked_part
from tilewright.synth.cascade.walk.walk_range import fitted_end, fitted_range

SMALL = st.tuples(st.integers(1, 7), st.integers(1, 7))


def parts(walked: WalkRange, count: int, most: int) -> list[tuple[int, int]]:
    return [walked_part(walked.begin, walked.end, most, row) for row in range(count)]


@given(
    SMALL.flatmap(lambda shape: arrays(bool, shape)), st.sampled_from([64, 128, 256]), st.sampled_from([32, 64, 128])
)
def test_whatever_is_left_is_walked(left, rows, columns):
    count, most = left.shape
    for walked in fitted_range(left, rows, columns):
        found = parts(walked, count, most)
        assert walked.longest == max(length for _, length in found)
        assert sum(length for _, length in found) < count * most
        for row, (first, length) in enumerate(found):
            assert first >= 0 and length >= 1 and first + length <= most
            outside = np.ones(most, bool)
            outside[first : first + length] = False
            assert not left[row, outside].any()


@given(
    st.integers(1, 12), st.integers(1, 12), st.sampled_from([64, 128]), st.sampled_from([32, 64]), st.integers(0, 400)
)
def test_straight_edges_are_met(count, most, rows, columns, reach):
    """Of row i the columns from i - reach to i."""
    i, t = np.arange(count * rows)[:, None], np.arange(most * columns)[None, :]
    mask = (t <= i) & (i - t <= reach)
    left = mask.reshape(count, rows, most, columns).any(axis=(1, 3))
    for walked in fitted_range(left, rows, columns):
        wanted = [max(1, int(each.sum())) for each in left]
        assert [length for _, length in parts(walked, count, most)] == wanted


def test_causal_walks_as_many_tiles_as_rows_need():
    left = np.tri(32, dtype=bool)
    assert fitted_range(left, 128, 128) == (WalkRange(Line(0, 0, 1), Line(1, 1, 1), 32),)


def test_where_all_is_left_there_is_no_range():
    assert fitted_range(np.ones((4, 4), bool), 128, 64) == ()


@given(
    SMALL.flatmap(lambda shape: arrays(bool, shape)),
    st.integers(1, 3),
    st.sampled_from([64, 128, 256]),
    st.sampled_from([32, 64, 128]),
)
def test_whatever_is_left_of_a_consumers_rows_it_walks(left, units, rows, columns):
    """Of tiles that are several consumers' rows, the last of some perhaps without any."""
    count, most = left.shape
    tiles = -(-count // units)
    padded = np.zeros((tiles * units, most), bool)
    padded[:count] = left
    for walked in fitted_range(padded.reshape(tiles, units, most).any(axis=1), units * rows, columns):
        for end in fitted_end(left, walked, units, rows, columns):
            found = [
                (first, unit_part(end, (first, length), unit, count))
                for unit in range(tiles * units)
                for first, length in [walked_part(walked.begin, walked.end, most, unit // units)]
            ]
            whole = sum(length for _, length in parts(walked, tiles, most)) * units
            assert sum(length for _, length in found) < whole
            for unit, (first, length) in enumerate(found):
                assert length >= 1
                outside = np.ones(most, bool)
                outside[first : first + length] = False
                assert not padded[unit, outside].any()


def test_consumers_of_a_causal_tile_end_at_their_own_diagonals():
    left = np.arange(8)[:, None] // 2 >= np.arange(4)[None]
    (walked,) = fitted_range(np.array([left[:3].any(0), left[3:6].any(0), left[6:].any(0)]), 192, 128)
    (end,) = fitted_end(left, walked, 3, 64, 128)
    lengths = [walked_part(walked.begin, walked.end, 4, row) for row in range(3)]
    found = [unit_part(end, lengths[unit // 3], unit, 8) for unit in range(9)]
    assert found == [1, 1, 2, 2, 3, 3, 4, 4, 1]


def test_consumers_that_need_what_their_tile_needs_have_no_end():
    left = np.tri(8, dtype=bool).repeat(2, axis=0)
    (walked,) = fitted_range(np.tri(8, dtype=bool), 128, 128)
    assert fitted_end(left, walked, 2, 64, 128) == ()
