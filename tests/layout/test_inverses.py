"""Complement and inverses against their definitions, by enumeration."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.layout.layout_strategies import layouts, ordered_layouts, swizzled_layouts

from tilewright.base.error import TilewrightError
from tilewright.layout import nested
from tilewright.layout.answer import NotDecided, NotExpressible
from tilewright.layout.coalescing import with_sizes
from tilewright.layout.inverses import complement, inverse, left_inverse, right_inverse
from tilewright.layout.layout import Layout, joined
from tilewright.layout.layout_properties import is_bijective, is_injective, is_surjective, is_tractable
from tilewright.layout.layout_text import parse_layout

ANY = st.one_of(layouts(48), ordered_layouts(48))


def _values(layout: Layout) -> list[int]:
    return layout.offsets().tolist()


@given(ANY, st.integers(1, 200))
def test_complement(layout: Layout, size: int) -> None:
    found = complement(layout, size)
    if not isinstance(found, Layout):
        assert isinstance(found, NotExpressible)
        if any(stride < 0 for n, stride in layout.constant_flat() if n > 1):
            return
        nonzero = [(n, d) for n, d in layout.flat if n != 1 and d != 0]
        assert not is_tractable(Layout(tuple(n for n, _ in nonzero), tuple(d for _, d in nonzero)))
        return
    values = _values(found)
    assert values == sorted(set(values))
    places = {value + other for value in set(_values(layout)) for other in values}
    assert places == set(range(len(set(_values(layout))) * len(values)))
    assert len(places) >= size
    if is_injective(layout) is True:
        assert is_injective(joined([layout, found])) is True


@given(layouts(48), st.integers(1, 200))
def test_partial_complement_is_disjoint(layout: Layout, size: int) -> None:
    found = complement(layout, size, partial=True)
    if isinstance(found, Layout) and is_injective(layout) is True:
        assert is_injective(joined([layout, found])) is True


@given(swizzled_layouts(96))
def test_right_inverse(layout: Layout) -> None:
    found = right_inverse(layout)
    if isinstance(found, Layout):
        places = _values(found)
        size = int(str(layout.size))
        assert all(0 <= place < size for place in places)
        assert [layout.at(place) for place in places] == list(range(len(places)))


@given(ordered_layouts(96, gaps=False))
def test_inverse_of_a_bijection(layout: Layout) -> None:
    found = inverse(layout)
    assert isinstance(found, Layout)
    assert [found.at(value) for value in _values(layout)] == list(range(int(str(layout.size))))
    assert is_bijective(layout) is True
    again = inverse(found)
    assert isinstance(again, Layout) and _values(again) == _values(layout)


@st.composite
def flipped(draw: st.DrawFn) -> Layout:
    """A layout of non-negative values, some of whose axes run backwards, with any multiple of 2 added."""
    layout = draw(ordered_layouts(96))
    signs = draw(st.lists(st.sampled_from([1, -1]), min_size=len(layout.flat), max_size=len(layout.flat)))
    strides = [stride * sign for (_, stride), sign in zip(layout.flat, signs, strict=True)]
    turned = Layout(layout.shape, nested.unflatten(strides, layout.shape))
    return turned.with_values(draw(st.sampled_from([0, 0, 2, 64])) - turned.least, None)


@given(st.one_of(swizzled_layouts(96), flipped()))
def test_refused_right_inverses_do_not_exist(layout: Layout) -> None:
    found = right_inverse(layout)
    if isinstance(found, NotExpressible):
        assert 0 not in _values(layout)


@given(flipped())
def test_inverses_of_flips(layout: Layout) -> None:
    values = _values(layout)
    left = left_inverse(layout)
    if isinstance(left, Layout):
        assert [left.at(value) for value in values] == list(range(len(values)))
    else:
        assert isinstance(left, NotDecided)
    right = right_inverse(layout)
    if isinstance(right, Layout):
        assert [layout.at(place) for place in _values(right)] == list(range(len(_values(right))))
    if sorted(values) == list(range(len(values))):
        assert isinstance(inverse(layout), Layout)


@given(st.one_of(swizzled_layouts(96), ordered_layouts(96)))
def test_left_inverse(layout: Layout) -> None:
    found = left_inverse(layout)
    if isinstance(found, Layout):
        values = _values(layout)
        assert [found.at(value) for value in values] == list(range(len(values)))
        assert max(values) < int(str(found.size))
    elif layout.swizzle is None and layout.offset == 0 and is_tractable(layout) and is_injective(layout) is True:
        raise AssertionError(f"{layout}: {found}")


@given(st.one_of(swizzled_layouts(64), layouts(64)))
def test_properties(layout: Layout) -> None:
    values = _values(layout)
    assert is_injective(layout) is (len(set(values)) == len(values))
    assert is_bijective(layout) is (sorted(values) == list(range(len(values))))
    for onto in (len(values), max(1, max(values) + 1), 16):
        assert is_surjective(layout, onto) is (set(values) == set(range(onto)))


@pytest.mark.parametrize(
    ("layout", "wanted"),
    [
        ("(8,16):(16,1)", "(16,8):(8,1)"),
        ("(4,6):(1,6)", "(6,6):(1,4)"),
        ("Sw<3,4,3> o 0 o (8,128):(128,1)", "Sw<3,0,-7> o 0 o (128,8):(8,1)"),
        ("1 o 4:2", "-4 o (2,4):(4,1)"),
        ("7 o 8:-1", "7 o 8:-1"),
        ("60 o (4,16):(1,-4)", "60 o (4,16):(1,-4)"),
    ],
)
def test_left_inverse_of(layout: str, wanted: str) -> None:
    assert str(left_inverse(parse_layout(layout))) == wanted


def test_symbolic() -> None:
    for text in ("(M,N):(N,1)", "(M,N,4):(N,4*M*N,M*N)", "((2,M),N):((1,2*N),2)"):
        layout = parse_layout(text)
        found = inverse(layout) if "4*" not in text else left_inverse(layout)
        assert isinstance(found, Layout), found
        for sizes in ({"M": 3, "N": 5}, {"M": 1, "N": 4}, {"M": 6, "N": 1}):
            here, there = with_sizes(layout, sizes), with_sizes(found, sizes)
            assert [there.at(value) for value in _values(here)] == list(range(int(str(here.size))))
    assert isinstance(inverse(parse_layout("(M,N):(P,1)")), NotDecided)
    assert str(complement(parse_layout("M:N"))) == "N:1"


def test_overlaps_of_huge_layouts_are_bounded() -> None:
    from tilewright.layout.overlap import overlaps

    assert overlaps(Layout((1 << 20, 1 << 20), (1, 1 << 20))) is False
    assert overlaps(Layout((1 << 20, 1 << 20), (1, 1))) is True
    huge = Layout((1 << 40, 1 << 40, 1 << 40), (1 << 20, (1 << 21) + 1, (1 << 22) + 5))
    assert isinstance(overlaps(huge), bool | NotDecided)


def test_bad_size() -> None:
    with pytest.raises(TilewrightError, match="not positive"):
        complement(Layout(4), 0)
