"""Conversions between families of layouts: the same function wherever they answer, and refusals only with cause."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.layout.layout_strategies import layouts, ordered_layouts
from tests.layout.pieces.enumeration import flip, rotated

from tilewright.layout import convert
from tilewright.layout.answer import NotDecided, NotExpressible
from tilewright.layout.layout import Layout
from tilewright.layout.linear.maps import LinearLayout, images
from tilewright.layout.pieces import piecewise as pw
from tilewright.layout.pieces.piecewise import Piecewise
from tilewright.layout.swizzle import Swizzle

SWIZZLES = st.builds(Swizzle, st.integers(0, 3), st.integers(0, 4), st.sampled_from([3, 4, -3, -4]))


def values_of(layout: Layout | LinearLayout | Piecewise) -> list[int | None]:
    match layout:
        case Layout():
            return [layout.at(place) for place in range(len(layout.offsets()))]
        case LinearLayout():
            return images(layout, np.arange(layout.size, dtype=np.int64)).tolist()
        case Piecewise():
            found = [layout(*layout.place(place)) for place in range(layout.size)]
            return [None if image is None else image[0] for image in found]


@st.composite
def linear_layouts(draw: st.DrawFn, most_bits: int = 6) -> LinearLayout:
    rows = draw(st.integers(0, most_bits))
    columns = draw(st.lists(st.integers(0, (1 << rows) - 1), max_size=most_bits))
    return LinearLayout((("in", len(columns)),), (("out", rows),), tuple(columns))


def is_linear(values: list[int | None]) -> bool:
    count = len(values)
    if count & count - 1 or None in values:
        return False
    known = [value for value in values if value is not None]
    return all(value >= 0 for value in known) and all(
        known[a ^ b] == known[a] ^ known[b] for a in range(count) for b in range(count)
    )


@st.composite
def swizzled_layouts(draw: st.DrawFn) -> Layout:
    layout = draw(st.one_of(ordered_layouts(gaps=False), layouts()))
    return Layout(layout.shape, layout.stride, draw(st.sampled_from([0, 0, 1, 64])), draw(SWIZZLES))


ANY_LAYOUT = st.one_of(layouts(), ordered_layouts(gaps=False), swizzled_layouts())


@given(ANY_LAYOUT)
def test_linear_exactly_where_the_function_is(layout: Layout) -> None:
    values = values_of(layout)
    match convert.linear_of_layout(layout):
        case LinearLayout() as found:
            assert values_of(found) == values
        case NotExpressible():
            assert not is_linear(values)


@given(ANY_LAYOUT)
def test_pieces_say_the_same(layout: Layout) -> None:
    found = convert.piecewise_of_layout(layout)
    if isinstance(found, Piecewise):
        assert values_of(found) == values_of(layout)
    else:
        assert layout.swizzle is not None and isinstance(found, NotExpressible)


@given(st.integers(0, 6), st.lists(st.integers(0, 4), max_size=4), SWIZZLES)
def test_swizzled_powers_of_two_go_round(start: int, bits: list[int], swizzle: Swizzle) -> None:
    flat: list[tuple[int, int]] = []
    stride = 1 << start % 3
    for each in bits:
        flat.append((1 << each, stride))
        stride <<= each
    layout = Layout(tuple(extent for extent, _ in flat), tuple(step for _, step in flat), 0, swizzle)
    linear = convert.linear_of_layout(layout)
    assert isinstance(linear, LinearLayout)
    back = convert.layout_of_linear(linear)
    assert isinstance(back, Layout) and values_of(back) == values_of(layout)
    pieces = convert.piecewise_of_layout(layout)
    assert isinstance(pieces, Piecewise) and len(pieces.pieces) <= 1 << swizzle.bits
    again = convert.linear_of_piecewise(pieces)
    assert isinstance(again, LinearLayout) and again.columns == linear.columns


@given(linear_layouts())
def test_any_linear_map_as_pieces_and_back(linear: LinearLayout) -> None:
    pieces = convert.piecewise_of_linear(linear)
    assert isinstance(pieces, Piecewise) and values_of(pieces) == values_of(linear)
    back = convert.linear_of_piecewise(pieces)
    assert isinstance(back, LinearLayout) and back.columns == linear.columns


@given(linear_layouts(4))
def test_linear_as_shape_and_strides(linear: LinearLayout) -> None:
    found = convert.layout_of_linear(linear)
    if isinstance(found, Layout):
        assert values_of(found) == values_of(linear)
    else:
        swizzles = [
            Swizzle(bits, base, shift)
            for bits in range(5)
            for base in range(5)
            for shift in range(-5, 6)
            if abs(shift) >= bits
        ]
        for swizzle in swizzles:
            plain = [swizzle(column) for column in linear.columns]
            assert any(a & b for at, a in enumerate(plain) for b in plain[:at])


@given(layouts(), st.data())
def test_shape_and_strides_from_pieces(layout: Layout, data: st.DataObject) -> None:
    whole = convert.piecewise_of_layout(layout)
    assert isinstance(whole, Piecewise)
    cut = whole
    if whole.extents and whole.extents[0] > 1:
        middle = data.draw(st.integers(1, whole.extents[0] - 1))
        full = [(0, extent) for extent in whole.extents]
        halves = [pw.restricted(whole, tuple([side, *full[1:]])) for side in ((0, middle), (middle, whole.extents[0]))]
        cut = Piecewise(whole.extents, 1, halves[0].pieces + halves[1].pieces)
    found = convert.layout_of_piecewise(cut)
    assert isinstance(found, Layout) and values_of(found) == values_of(layout)


@given(st.integers(1, 12), st.integers(1, 12))
def test_ragged_maps_are_no_shape_and_strides(extent: int, block: int) -> None:
    assume(extent % block)
    found = convert.layout_of_piecewise(pw.blocked(extent, block))
    assert isinstance(found, NotExpressible) and "defined at" in found.reason
    refused = convert.layout_of_piecewise(rotated(extent + 1, 1))
    assert isinstance(refused, NotExpressible) or extent == 1


@given(st.sampled_from([(12,), (3, 4), (4, 3), (2, 6), (2, 3, 2)]), st.sampled_from([(12,), (3, 4), (6, 2), (2, 2, 3)]))
def test_other_coordinates_same_function(mine: tuple[int, ...], theirs: tuple[int, ...]) -> None:
    layout = pw.affine(mine, [[3 * at + 1 for at in range(len(mine))]], [5])
    found = convert.refined(layout, theirs)
    assert isinstance(found, Piecewise) and values_of(found) == values_of(layout)


def test_refusals_name_a_cause() -> None:
    cases: list[tuple[object, str]] = [
        (convert.linear_of_layout(Layout((3, 4))), "no power of two"),
        (convert.linear_of_layout(Layout((4, 4), (1, 3))), "carry"),
        (convert.linear_of_layout(Layout(4, 1, 1)), "0 goes to 1"),
        (convert.linear_of_layout(Layout(4, -1)), "below 0"),
        (convert.layout_of_linear(LinearLayout((("i", 3),), (("o", 3),), (0b011, 0b110, 0b101))), "share bits"),
        (convert.linear_of_piecewise(flip((4,), 0)), "0 goes to 3"),
        (convert.linear_of_piecewise(pw.identity((6,))), "no power of two"),
        (convert.linear_of_piecewise(pw.affine((4, 2), [[1, 3]])), "exclusive or is"),
        (convert.layout_of_piecewise(pw.identity((2, 2))), "2 outputs"),
    ]  # fmt: skip
    for answer, said in cases:
        assert isinstance(answer, NotExpressible) and said in answer.reason, answer


def test_many_exclusive_ors_are_not_decided() -> None:
    every = LinearLayout((("i", 40),), (("o", 40),), tuple((1 << 40) - (1 << at) for at in range(40)))
    assert isinstance(convert.piecewise_of_linear(every), NotDecided)
