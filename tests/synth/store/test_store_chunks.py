"""Rows of staged chunks: whole, conflict-free, as long as can be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.layout.swizzle import Swizzle
from tilewright.synth.store.store_chunks import staged_row, turned_columns

_SWIZZLES = {"none": None, "32B": Swizzle(1, 4, 3), "64B": Swizzle(2, 4, 3), "128B": Swizzle(3, 4, 3)}
widths = st.sampled_from([(2,), (4,), (2, 4), (2, 2), (1,), (1, 2)])


@given(st.integers(1, 32).map(lambda count: 8 * count), widths)
def test_rows_are_whole_pieces_and_chunks_fill_the_columns(columns, element_bytes):
    row = staged_row(columns, element_bytes)
    if row is None:
        assert any(columns * each % 16 for each in element_bytes) or len(set(element_bytes)) > 1
        return
    for each in element_bytes:
        chunks = row.chunks(columns * each)
        assert sum(chunks) == columns * each and set(chunks) <= {row.bytes, row.tail_bytes}
        assert all(chunk % 16 == 0 and chunk // each <= 256 for chunk in chunks)


@given(st.integers(1, 32).map(lambda count: 8 * count), widths)
def test_eight_rows_of_sixteen_bytes_lie_in_different_banks(columns, element_bytes):
    """What one stmatrix of a 128-byte or odd row writes at once; shorter spans repeat and are only asked not to be
    worse than their span allows."""
    row = staged_row(columns, element_bytes)
    if row is None or row.swizzle in ("32B", "64B"):
        return
    swizzle = _SWIZZLES[row.swizzle]
    for length in (row.bytes, row.tail_bytes):
        for piece in range(length // 16):
            places = [number * length + 16 * piece for number in range(8)]
            if swizzle is not None:
                places = [swizzle(place) for place in places]
            assert len({place % 128 // 16 for place in places}) == 8


@pytest.mark.parametrize(
    ("columns", "row"),
    [(256, (128, "128B")), (192, (128, "128B")), (176, (176, "none")), (208, (208, "none")), (8, (16, "none"))],
)
def test_the_fewest_chunks_are_taken(columns, row):
    found = staged_row(columns, [2])
    assert found is not None and (found.bytes, found.swizzle) == row


@pytest.mark.parametrize(
    ("columns", "most_bytes", "chunks"),
    [
        (152, 256, (112, 112, 80)),
        (136, 256, (112, 80, 80)),
        (184, 256, (144, 112, 112)),
        (104, 128, (80, 80, 48)),
        (152, 64, (48, 48, 48, 48, 48, 48, 16)),
        (152, 32, (16,) * 19),
        (168, 256, (112, 112, 112)),
        (8, 256, (16,)),
    ],
)
def test_chunks_of_two_lengths_where_one_would_be_half_a_sector(columns, most_bytes, chunks):
    row = staged_row(columns, [2], most_bytes)
    assert row is not None and row.chunks(2 * columns) == chunks


def test_results_of_several_lengths_leave_in_chunks_of_one():
    row = staged_row(152, [2, 4])
    assert row is None or not row.tails


@pytest.mark.parametrize("columns", range(8, 257, 8))
@pytest.mark.parametrize("widths", [(1,), (2,), (4,), (2, 4)])
def test_chunks_hold_whole_groups_of_fragment_columns(columns: int, widths: tuple[int, ...]) -> None:
    row = staged_row(columns, widths)
    assert row is None or all(length // width % 8 == 0 for width in widths for length in (row.bytes, row.tail_bytes))
    assert row is not None or widths in ((1,), (2, 4))


def test_turned_boxes_are_few_and_of_two_lengths_at_most() -> None:
    for columns in range(8, 257, 8):
        boxes = turned_columns(columns)
        assert sum(boxes) == columns and sorted(boxes, reverse=True) == list(boxes)
        assert len(set(boxes)) <= 2 and all(each & each - 1 == 0 and 8 <= each <= 32 for each in boxes)
    assert turned_columns(200) == (32,) * 6 + (8,)
    assert turned_columns(12) == ()
