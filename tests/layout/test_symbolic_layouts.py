"""Composition with symbolic sizes against enumeration at sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.layout.answer import NotDecided
from tilewright.layout.coalescing import with_sizes
from tilewright.layout.composition import compose
from tilewright.layout.layout import Layout
from tilewright.layout.layout_text import parse_layout
from tilewright.layout.nested import Integer
from tilewright.layout.numbers.integer_expression import IntegerExpression, as_expression, variable
from tilewright.layout.symbolic_composition import exact_quotient

M, N = variable("M"), variable("N")
SIZES = ({"M": 1, "N": 1}, {"M": 2, "N": 3}, {"M": 3, "N": 2}, {"M": 4, "N": 5})


@st.composite
def factored(draw: st.DrawFn) -> list[Integer]:
    return draw(st.permutations([M, N, 2, 2, 3]))[: draw(st.integers(2, 5))]


@st.composite
def permuted(draw: st.DrawFn) -> Layout:
    """The running products of symbolic extents, in some order."""
    extents = draw(factored())
    order = draw(st.permutations(range(len(extents))))
    strides: list[Integer] = [0] * len(extents)
    running: Integer = 1
    for place in order:
        strides[place] = running
        running = running * extents[place]
    return Layout(tuple(extents), tuple(strides))


def _right(answer: object, left: Layout, right: Layout) -> bool:
    """Whether the answer is right at every one of some sizes; what is undecided is not wrong."""
    if not isinstance(answer, Layout):
        return isinstance(answer, NotDecided) or not (left.is_symbolic or right.is_symbolic)
    for sizes in SIZES:
        one, other, both = (with_sizes(value, sizes) for value in (left, right, answer))
        size = other.size
        assert isinstance(size, int)
        if any(one.at(other.at(place)) != both.at(place) or other.at(place) >= one.size for place in range(size)):
            return False
    return True


@given(permuted(), permuted())
def test_every_answer_holds_at_sizes(left: Layout, right: Layout) -> None:
    assert _right(compose(left, right), left, right)


@given(permuted(), st.sampled_from([2, 3, 4]), st.sampled_from([1, 2, 3, "M", "N"]))
def test_one_leaf(left: Layout, extent: int, stride: int | str) -> None:
    right = Layout(extent, variable(stride) if isinstance(stride, str) else stride)
    assert _right(compose(left, right), left, right)


@pytest.mark.parametrize(
    ("left", "right", "wanted"),
    [
        ("(M,N):(N,1)", "(M,N)", "(M,N):(N,1)"),
        ("(M,N):(N,1)", "(N,M):(M,1)", "(N,M):(1,N)"),
        ("(M,N):(N,1)", "M*N", "(M,N):(N,1)"),
        ("(8*M,N):(N,1)", "((4,2),(M,N)):((1,4),(8,8*M))", "((4,2),(M,N)):((N,4*N),(8*N,1))"),
        ("((M,N),4):((4*N,4),1)", "(M*N,4)", "((M,N),4):((4*N,4),1)"),
    ],
)
def test_known(left: str, right: str, wanted: str) -> None:
    assert str(compose(parse_layout(left), parse_layout(right))) == wanted


@pytest.mark.parametrize(("left", "right"), [("(M,N):(N,1)", "4:1"), ("(M,N):(N,1)", "(N,M)"), ("(M,N):(N,1)", "M:-1")])
def test_undecided(left: str, right: str) -> None:
    assert isinstance(compose(parse_layout(left), parse_layout(right)), NotDecided)


def _expression(value: Integer) -> IntegerExpression:
    return as_expression(value)


@given(
    st.lists(st.sampled_from([M, N, M + 1, M + N, _expression(3)]), min_size=1, max_size=3),
    st.sampled_from([M, N, M + 1, _expression(6)]),
)
def test_exact_quotient(factors: list[IntegerExpression], divisor: IntegerExpression) -> None:
    product = _expression(1)
    for factor in factors:
        product = product * factor
    found = exact_quotient(product, divisor)
    if found is not None:
        assert found * divisor == product
    whole = exact_quotient(product * divisor, divisor)
    assert len(divisor.terms) > 1 or (whole is not None and _expression(whole) == product)
