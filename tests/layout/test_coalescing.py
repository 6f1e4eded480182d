"""Normal forms and equality against enumeration."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.layout.layout_strategies import layouts, ordered_layouts, swizzled_layouts

from tilewright.base.error import TilewrightError
from tilewright.layout import nested
from tilewright.layout.answer import NotDecided
from tilewright.layout.coalescing import Difference, canonical, coalesce, difference, equal, with_sizes
from tilewright.layout.layout import Layout
from tilewright.layout.layout_text import parse_layout


def _values(layout: Layout) -> list[int]:
    return layout.offsets().tolist()


@given(swizzled_layouts())
def test_normal_forms_are_the_same_function(layout: Layout) -> None:
    assert _values(coalesce(layout)) == _values(layout)
    assert _values(canonical(layout)) == _values(layout)
    assert canonical(canonical(layout)) == canonical(layout)
    parts = coalesce(layout, (1,) * layout.rank)
    assert _values(parts) == _values(layout)
    assert [mode.size for mode in parts.modes] == [mode.size for mode in layout.modes]


@given(st.one_of(layouts(24), ordered_layouts(24)), st.one_of(layouts(24), ordered_layouts(24)))
def test_equal_decides(left: Layout, right: Layout) -> None:
    assert equal(left, right) is (_values(left) == _values(right))


@given(swizzled_layouts(), swizzled_layouts())
def test_difference_is_a_witness(left: Layout, right: Layout) -> None:
    found = difference(left, right)
    if found is None:
        assert _values(left) == _values(right)
    else:
        assert isinstance(found, Difference)
        if found.coordinate is None:
            assert left.size != right.size
        else:
            assert (left.at(found.coordinate), right.at(found.coordinate)) == (found.left, found.right)
            assert found.left != found.right


@given(layouts(24), st.randoms())
def test_unequal_by_one_stride(layout: Layout, random: object) -> None:
    flat = list(nested.flatten(layout.stride))
    flat[-1] = flat[-1] + 1
    other = Layout(layout.shape, nested.unflatten(flat, layout.stride))
    assert equal(layout, other) is (_values(layout) == _values(other))


def test_canonical_forms_are_one_object() -> None:
    assert canonical(parse_layout("((2,4),8):((1,2),8)")) is canonical(parse_layout("(8,(4,2)):(1,(8,32))"))


@pytest.mark.parametrize(
    ("layout", "wanted"),
    [
        ("Sw<3,4,3> o 0 o 128", "128:1"),
        ("Sw<1,0,3> o 0 o (2,2):(8,16)", "(2,2):(9,16)"),
        ("Sw<0,4,3> o 0 o (8,8)", "64:1"),
        ("(2,1,6):(4,7,8)", "12:4"),
        ("(3,7):(0,0)", "21:0"),
        ("(M,N):(1,M)", "M*N:1"),
    ],
)
def test_known(layout: str, wanted: str) -> None:
    assert str(canonical(parse_layout(layout))) == wanted


@pytest.mark.parametrize(
    ("left", "right", "wanted"),
    [
        ("(M,N):(N,1)", "((M,1),N):((N,0),1)", True),
        ("(M,N)", "(N,M)", True),
        ("(M,N):(N,1)", "(M,N)", False),
        ("(M,4):(4,1)", "(M,(2,2)):(4,(1,2))", True),
        ("(4*M,N):(N,1)", "((4,M),N):((N,4*N),1)", True),
        ("M:1", "M+1:1", False),
        ("(1099511627776,3):(5,1)", "(1099511627776,3):(5,2)", False),
        ("((1048576,1048576),3):((1,1048576),7)", "(1099511627776,3):(1,7)", True),
    ],
)
def test_equal_for_all_sizes(left: str, right: str, wanted: bool) -> None:
    assert equal(parse_layout(left), parse_layout(right)) is wanted


def test_a_difference_names_the_sizes() -> None:
    found = difference(parse_layout("(M,N):(N,1)"), parse_layout("(M,N)"))
    assert isinstance(found, Difference) and found.coordinate is not None
    sizes = dict(found.sizes)
    left, right = (with_sizes(parse_layout(text), sizes) for text in ("(M,N):(N,1)", "(M,N)"))
    assert (left(found.coordinate), right(found.coordinate)) == (found.left, found.right)


def test_what_is_too_large_is_undecided() -> None:
    left = Layout((3, 1 << 30), (1 << 31, 1), 0, parse_layout("Sw<3,4,3> o 0 o 1").swizzle)
    right = Layout((3, 1 << 30), (1 << 31, 1), 0, parse_layout("Sw<3,4,3> o 0 o 1").swizzle)
    assert equal(left, right) is True
    split = Layout((3, 1 << 20, 1 << 10), (5, 1 << 31, 1 << 4), 0, left.swizzle)
    assert isinstance(equal(split, split.with_values(0, None)), bool | NotDecided)
    with pytest.raises(TypeError):
        bool(NotDecided("for no reason"))


def test_profile_longer_than_the_layout() -> None:
    with pytest.raises(TilewrightError, match="coalesce"):
        coalesce(Layout(4), (1, 1))
