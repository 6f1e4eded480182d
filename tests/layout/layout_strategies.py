"""Random layouts, small enough to enumerate."""

from __future__ import annotations

from math import prod

from hypothesis import strategies as st

from tilewright.layout import nested
from tilewright.layout.layout import Layout
from tilewright.layout.nested import Nested
from tilewright.layout.swizzle import Swizzle


@st.composite
def shapes(draw: st.DrawFn, most: int = 96) -> Nested:
    extents = draw(st.lists(st.sampled_from([1, 2, 2, 3, 4, 4, 5, 6, 8]), min_size=1, max_size=5))
    while prod(extents) > most:
        extents.pop()
    return _nested(draw, extents)


def _nested(draw: st.DrawFn, extents: list[int]) -> Nested:
    if len(extents) == 1 and draw(st.booleans()):
        return extents[0]
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(extents) - 1)), max_size=len(extents))))
    pieces = [extents[a:b] for a, b in zip([0, *cuts], [*cuts, len(extents)], strict=True)]
    return tuple(
        piece[0] if len(piece) == 1 else (_nested(draw, piece) if len(cuts) else tuple(piece))
        for piece in pieces
        if piece
    )


@st.composite
def layouts(draw: st.DrawFn, most: int = 96, lowest: int = 0) -> Layout:
    """Any strides at all, from arbitrary numbers and the products that make interesting cases."""
    shape = draw(shapes(most))
    count = len(nested.flatten(shape))
    numbers = st.one_of(st.sampled_from([0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48]), st.integers(max(lowest, -20), 20))
    strides = draw(st.lists(numbers, min_size=count, max_size=count))
    return Layout(shape, nested.unflatten(strides, shape))


@st.composite
def ordered_layouts(draw: st.DrawFn, most: int = 96, gaps: bool = True) -> Layout:
    """Layouts whose strides are the running products in some order, with whole gaps between."""
    shape = draw(shapes(most))
    flat = nested.flatten(shape)
    order = draw(st.permutations(range(len(flat))))
    strides = [0] * len(flat)
    running = 1
    for place in order:
        running *= draw(st.sampled_from([1, 1, 1, 2, 3])) if gaps else 1
        strides[place] = running
        extent = flat[place]
        assert isinstance(extent, int)
        running *= extent
    return Layout(shape, nested.unflatten(strides, shape))


@st.composite
def swizzles(draw: st.DrawFn) -> Swizzle:
    bits = draw(st.integers(0, 3))
    shift = draw(st.integers(bits, 4)) * draw(st.sampled_from([1, -1]))
    return Swizzle(bits, draw(st.integers(0, 3)), shift)


@st.composite
def swizzled_layouts(draw: st.DrawFn, most: int = 96) -> Layout:
    layout = draw(st.one_of(ordered_layouts(most), layouts(most)))
    return layout.with_values(draw(st.sampled_from([0, 0, 0, 1, 5, 8, 64])), draw(st.one_of(st.none(), swizzles())))
