"""Rows of staged chunks: whole, conflict-free, as long as can be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.layout.swizzle import Swizzle
from tilewright.synth.store_chunks import staged_row

_SWIZZLES = {"none": None, "32B": Swizzle(1, 4, 3), "64B": Swizzle(2, 4, 3), "128B": Swizzle(3, 4, 3)}
widths = st.sampled_from([(2,), (4,), (2, 4), (2, 2), (1,), (1, 2)])


@given(st.integers(1, 32).map(lambda count: 8 * count), widths)
def test_rows_are_whole_pieces_and_chunks_fill_the_columns(columns, element_bytes):
    row = staged_row(columns, element_bytes)
    if row is None:
        assert any(columns * each % 16 for each in element_bytes) or len(set(element_bytes)) > 1
        return
    for each in element_bytes:
        assert row.bytes % 16 == 0 and columns % row.columns(each) == 0 and row.columns(each) <= 256


@given(st.integers(1, 32).map(lambda count: 8 * count), widths)
def test_eight_rows_of_sixteen_bytes_lie_in_different_banks(columns, element_bytes):
    """What one stmatrix of a 128-byte or odd row writes at once; shorter spans repeat and are only asked not to be
    worse than their span allows."""
    row = staged_row(columns, element_bytes)
    if row is None or row.swizzle in ("32B", "64B"):
        return
    swizzle = _SWIZZLES[row.swizzle]
    for piece in range(row.bytes // 16):
        places = [number * row.bytes + 16 * piece for number in range(8)]
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


@pytest.mark.parametrize("columns", range(8, 257, 8))
@pytest.mark.parametrize("widths", [(1,), (2,), (4,), (2, 4)])
def test_chunks_hold_whole_groups_of_fragment_columns(columns: int, widths: tuple[int, ...]) -> None:
    row = staged_row(columns, widths)
    assert row is None or all(row.columns(width) % 8 == 0 for width in widths)
    assert row is not None or widths in ((1,), (2, 4))
