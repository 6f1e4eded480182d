"""Division and product by what they promise: tiles and rests walk the same elements."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.layout.layout_strategies import layouts, ordered_layouts

from tilewright.base.error import TilewrightError
from tilewright.layout.answer import NotExpressible
from tilewright.layout.coalescing import with_sizes
from tilewright.layout.composition import compose
from tilewright.layout.division import (
    blocked_product,
    flat_divide,
    flat_product,
    logical_divide,
    logical_product,
    raked_product,
    tiled_divide,
    tiled_product,
    zipped_divide,
    zipped_product,
)
from tilewright.layout.layout import Layout
from tilewright.layout.layout_text import parse_layout


def _values(layout: Layout) -> list[int]:
    return layout.offsets().tolist()


@given(st.one_of(layouts(64), ordered_layouts(64)), ordered_layouts(8))
def test_divide_permutes_the_elements(layout: Layout, tile: Layout) -> None:
    found = logical_divide(layout, tile)
    if isinstance(found, Layout):
        assert sorted(_values(found)) == sorted(_values(layout))
        walked = compose(layout, tile)
        assert isinstance(walked, Layout) and _values(found.modes[0]) == _values(walked)
    else:
        assert isinstance(found, NotExpressible)


@given(ordered_layouts(16), ordered_layouts(8))
def test_product_repeats_the_layout(layout: Layout, tile: Layout) -> None:
    found = logical_product(layout, tile)
    if isinstance(found, Layout):
        first, second = found.modes
        assert _values(first) == _values(layout)
        assert second.size == tile.size
        values = _values(found)
        assert len(set(values)) == len(values)
        copies = _values(second)
        order = sorted(range(len(copies)), key=copies.__getitem__)
        wanted = _values(tile)
        assert order == sorted(range(len(wanted)), key=wanted.__getitem__)


@pytest.mark.parametrize(
    ("operation", "left", "right", "wanted"),
    [
        (logical_divide, "(4,2,3):(2,1,8)", "4:2", "((2,2),(2,3)):((4,1),(2,8))"),
        (zipped_divide, "(8,16):(16,1)", (4, 8), "((4,8),(2,2)):((16,1),(64,8))"),
        (tiled_divide, "(8,16):(16,1)", (4, 8), "((4,8),2,2):((16,1),64,8)"),
        (flat_divide, "(8,16):(16,1)", (4, 8), "(4,8,2,2):(16,1,64,8)"),
        (zipped_divide, "(8,16,3):(16,1,128)", (4, 8), "((4,8),(2,2,3)):((16,1),(64,8,128))"),
        (zipped_divide, "Sw<3,4,3> o 0 o (8,64):(64,1)", (8, 32), "Sw<3,4,3> o 0 o ((8,32),(1,2)):((64,1),(0,32))"),
        (logical_product, "(2,2):(4,1)", "6:1", "((2,2),(2,3)):((4,1),(2,8))"),
        (logical_product, "(M,N):(N,1)", "4", "((M,N),4):((N,1),M*N)"),
        (zipped_product, "(2,2):(1,2)", "3", "((2,2),3):((1,2),4)"),
        (tiled_product, "(2,2):(1,2)", "(3,5)", "((2,2),3,5):((1,2),4,12)"),
        (flat_product, "(2,2):(1,2)", "(3,5)", "(2,2,3,5):(1,2,4,12)"),
        (blocked_product, "(2,5):(5,1)", "(3,4)", "(6,(5,4)):(5,(1,30))"),
        (raked_product, "(2,5):(5,1)", "(3,4)", "((3,2),(4,5)):((10,5),(30,1))"),
        (zipped_divide, "(4*M,8*N):(8*N,1)", (4, 8), "((4,8),(M,N)):((8*N,1),(32*N,8))"),
    ],
)
def test_known(operation: object, left: str, right: object, wanted: str) -> None:
    assert callable(operation)
    found = operation(parse_layout(left), parse_layout(right) if isinstance(right, str) else right)
    assert str(found) == wanted


def test_symbolic_tiles_are_right_at_sizes() -> None:
    layout = parse_layout("(4*M,8*N):(8*N,1)")
    found = zipped_divide(layout, (4, 8))
    assert isinstance(found, Layout)
    here, there = (with_sizes(value, {"M": 3, "N": 2}) for value in (layout, found))
    assert there(5, 3) == here(4 * 0 + 1, 8 * 1 + 1)


def test_a_tile_that_does_not_divide() -> None:
    assert isinstance(logical_divide(Layout(10), 4), NotExpressible)
    assert str(logical_divide(Layout(10), 4, extend=True)) == "(4,3):(1,4)"
    with pytest.raises(TilewrightError, match="3 tilers"):
        zipped_divide(Layout((4, 4)), (2, 2, 2))
