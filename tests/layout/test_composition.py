"""Composition against enumeration: every answer, yes and no, on small layouts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.layout.layout_strategies import layouts, ordered_layouts, swizzled_layouts, swizzles

from tilewright.base.error import TilewrightError
from tilewright.layout import nested
from tilewright.layout.answer import NotDecided, NotExpressible
from tilewright.layout.coalescing import swizzled
from tilewright.layout.composition import compose, swizzle_after
from tilewright.layout.layout import Layout
from tilewright.layout.layout_text import parse_layout
from tilewright.layout.swizzle import Swizzle


def _values(left: Layout, right: Layout) -> list[int] | None:
    size = left.size
    inner = [right.at(i) for i in range(int(str(right.size)))]
    if min(inner) < 0 or max(inner) >= int(str(size)):
        return None
    return [left.at(i) for i in inner]


def _is_layout(values: list[int], shape: nested.Nested) -> bool:
    """Whether some layout whose shape refines `shape` has these values, by the definition: linear along each axis
    after some factoring of it, and a sum over axes."""
    flat = [int(str(extent)) for extent in nested.flatten(shape)]
    place = 1
    for extent in flat:
        if not _one_leaf([values[i * place] - values[0] for i in range(extent)]):
            return False
        place *= extent
    for index, value in enumerate(values):
        total, left, step = values[0], index, 1
        for extent in flat:
            total += values[left % extent * step] - values[0]
            left, step = left // extent, step * extent
        if total != value:
            return False
    return True


def _one_leaf(values: list[int]) -> bool:
    """By trying every first factor."""
    if len(values) == 1:
        return True
    for run in range(2, len(values) + 1):
        if len(values) % run:
            continue
        heads = values[::run]
        if all(v == heads[i // run] + i % run * values[1] for i, v in enumerate(values)) and _one_leaf(heads):
            return True
    return False


def _refines(fine: nested.Nested, coarse: nested.Nested) -> bool:
    """Whether each entry of `coarse` is one of `fine`, or a nest of such."""
    if not isinstance(coarse, tuple):
        return True
    return isinstance(fine, tuple) and len(fine) == len(coarse) and all(map(_refines, fine, coarse))


@given(st.one_of(layouts(), ordered_layouts()), st.one_of(layouts(lowest=-20), ordered_layouts()), st.integers(0, 9))
def test_answer_is_exact(left: Layout, right: Layout, offset: int) -> None:
    right = right.with_values(offset if right.least + offset >= 0 else -right.least, None)
    wanted = _values(left, right)
    found = compose(left, right)
    if wanted is None:
        assert isinstance(found, NotExpressible)
    elif isinstance(found, Layout):
        assert _refines(found.shape, right.shape)
        assert [found.at(i) for i in range(len(wanted))] == wanted
    else:
        assert isinstance(found, NotExpressible)
        assert not _is_layout(wanted, right.shape)


@given(swizzled_layouts(256), swizzled_layouts())
def test_swizzles(left: Layout, right: Layout) -> None:
    found = compose(left, right)
    if isinstance(found, Layout):
        assert [found.at(i) for i in range(int(str(right.size)))] == _values(left, right)


@given(ordered_layouts(48), ordered_layouts(48), ordered_layouts(48))
def test_associative(a: Layout, b: Layout, c: Layout) -> None:
    inner, outer = compose(b, c), compose(a, b)
    if isinstance(inner, Layout) and isinstance(outer, Layout):
        left, right = compose(a, inner), compose(outer, c)
        if isinstance(left, Layout) and isinstance(right, Layout):
            assert [left.at(i) for i in range(int(str(c.size)))] == [right.at(i) for i in range(int(str(c.size)))]


def test_without_carries_cute_rule_is_right_and_with_them_it_is_refused() -> None:
    found = compose(parse_layout("(2,2):(1,10)"), parse_layout("(2,2):(1,1)"))
    assert isinstance(found, NotExpressible)
    assert "at 3" in found.reason


@pytest.mark.parametrize(
    ("left", "right", "wanted"),
    [
        ("(8,16):(16,1)", "(4,32):(32,1)", "(4,(8,4)):(4,(16,1))"),
        ("8:2", "7 o 8:-1", "14 o 8:-2"),
        ("3 o (4,8):(8,1)", "(8,4):(4,1)", "3 o (8,4):(1,8)"),
        ("4096", "Sw<3,4,3> o 0 o (8,64):(64,1)", "Sw<3,4,3> o 0 o (8,64):(64,1)"),
        ("1024:2", "Sw<3,3,3> o 0 o (8,64):(64,1)", "Sw<3,4,3> o 0 o (8,64):(128,2)"),
        ("6", "Sw<1,0,1> o 0 o 4", "Sw<1,0,1> o 0 o 4:1"),
        ("Sw<3,4,3> o 0 o 4096", "Sw<3,4,3> o 0 o 512", "512:1"),
    ],
)
def test_known(left: str, right: str, wanted: str) -> None:
    assert str(compose(parse_layout(left), parse_layout(right))) == wanted


def test_two_swizzles() -> None:
    found = compose(parse_layout("Sw<2,4,3> o 0 o 4096"), parse_layout("Sw<3,4,3> o 0 o 4096"))
    assert str(found) == "Sw<1,6,3> o 0 o 4096:1"
    left, right = parse_layout("Sw<2,4,3> o 0 o 4096"), parse_layout("Sw<3,4,4> o 0 o 4096")
    assert isinstance(compose(left, right), NotDecided)


@given(swizzles(), swizzles())
def test_two_swizzles_in_a_row(first: Swizzle, second: Swizzle) -> None:
    whole = Layout(1 << 12)
    found = swizzled(whole.with_values(0, first), second)
    if found is not None:
        assert all(found.at(place) == second(first(place)) for place in range(1 << 12))


def test_outside_the_domain_only_when_asked() -> None:
    assert isinstance(compose(Layout(4), Layout(4, 2)), NotExpressible)
    assert str(compose(Layout(4), Layout(4, 2), extend=True)) == "4:2"


def test_two_to_the_forty() -> None:
    big = Layout((1 << 20, 1 << 20), (1 << 20, 1))
    found = compose(big, big)
    assert isinstance(found, Layout)
    assert str(found) == "(1048576,1048576):(1,1048576)"
    assert isinstance(
        compose(Layout((3 << 20, 1 << 20), (5, 1)), Layout((1 << 20, 3 << 18), (5, 1))), NotExpressible | NotDecided
    )


def test_parts() -> None:
    found = compose(parse_layout("(8,16,3):(16,1,128)"), (Layout(4, 2), None))
    assert str(found) == "(4,16,3):(32,1,128)"
    with pytest.raises(TilewrightError, match="2 tilers"):
        compose(Layout(8), (4, 2))


@given(ordered_layouts(256), st.integers(1, 2), st.integers(0, 2), st.integers(1, 3))
def test_swizzle_moves_only_where_it_commutes(layout: Layout, bits: int, base: int, shift: int) -> None:
    swizzle = Swizzle(bits, base, max(bits, shift))
    moved = swizzle_after(layout, swizzle)
    size = int(str(layout.size))
    if isinstance(moved, Swizzle):
        assert all(layout.at(swizzle(i)) == moved(layout.at(i)) for i in range(size) if swizzle(i) < size)
