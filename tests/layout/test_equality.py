"""Equality of layouts of any family, of known and of symbolic sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.layout.layout_strategies import layouts, ordered_layouts
from tests.layout.pieces.enumeration import values

from tilewright.base.error import TilewrightError
from tilewright.layout import convert
from tilewright.layout.answer import NotDecided
from tilewright.layout.equality import AnyLayout, Different, Equal, admitted, compare, in_normal_form
from tilewright.layout.layout import Layout
from tilewright.layout.linear.maps import LinearLayout, images
from tilewright.layout.numbers.integer_expression import IntegerExpression, variable
from tilewright.layout.numbers.integer_fact import IntegerFact
from tilewright.layout.pieces import piecewise as pw
from tilewright.layout.pieces.piecewise import Piecewise
from tilewright.layout.swizzle import Swizzle

N, M = variable("N"), variable("M")


def values_of(layout: AnyLayout) -> list[int]:
    match layout:
        case Layout():
            return layout.offsets().tolist()
        case LinearLayout():
            return images(layout, np.arange(layout.size, dtype=np.int64)).tolist()
        case Piecewise():
            return values(layout).reshape(-1, order="F").tolist()


@st.composite
def any_layouts(draw: st.DrawFn) -> AnyLayout:
    layout = draw(st.one_of(layouts(most=24), ordered_layouts(most=24, gaps=False)))
    if draw(st.booleans()):
        layout = Layout(
            layout.shape, layout.stride, 0, Swizzle(draw(st.integers(0, 2)), 0, draw(st.sampled_from([2, -2])))
        )
    made: AnyLayout = layout
    match draw(st.integers(0, 2)):
        case 1:
            found = convert.linear_of_layout(layout)
            made = found if isinstance(found, LinearLayout) else layout
        case 2:
            pieces = convert.piecewise_of_layout(layout)
            made = pieces if isinstance(pieces, Piecewise) else layout
        case _:
            pass
    return made


@given(any_layouts(), any_layouts())
def test_known_sizes_are_decided(left: AnyLayout, right: AnyLayout) -> None:
    one, other = values_of(left), values_of(right)
    match compare(left, right):
        case Equal():
            assert one == other
        case Different(None, size, further):
            assert (size, further) == (len(one), len(other)) and size != further
        case Different(int() as at, here, there):
            assert (one[at], other[at]) == (here, there) and here != there
        case verdict:
            pytest.fail(str(verdict))


@given(st.one_of(layouts(most=24), ordered_layouts(most=24, gaps=False)))
def test_the_families_agree_with_themselves(layout: Layout) -> None:
    pieces = convert.piecewise_of_layout(layout)
    assert isinstance(pieces, Piecewise)
    assert isinstance(compare(layout, pieces), Equal) and isinstance(compare(pieces, layout), Equal)
    linear = convert.linear_of_layout(layout)
    if isinstance(linear, LinearLayout):
        assert isinstance(compare(linear, pieces), Equal) and isinstance(compare(layout, linear), Equal)


FACTS = {"N": IntegerFact(8, None, 8, 0), "M": IntegerFact(1, None)}

EQUAL: list[tuple[Layout, Layout]] = [
    (Layout((N, M), (1, N)), Layout(N * M, 1)),
    (Layout((N // 8, M), (1, N // 8)), Layout(N * M // 8, 1)),
    (Layout((8, N // 8), (N // 8, 1)), Layout((2, 4, N // 8), (N // 8, N // 4, 1))),
    (Layout((M, 4), (4, 1), N % 8), Layout((M, 2, 2), (4, 1, 2))),
    (Layout(M // 4 * 4 + M % 4, 3), Layout(M, 3)),
    (Layout((4, 2 + (M // 2) // 3)), Layout((2, 2, 2 + M // 6))),
    (Layout((N // 8 * 8, 5), (1, N)), Layout((N, 5))),
    (Layout((4, N * M // M)), Layout((4, N))),
]


@pytest.mark.parametrize(("left", "right"), EQUAL, ids=[f"{a} = {b}" for a, b in EQUAL])
def test_symbolic_sizes_are_equal_for_all(left: Layout, right: Layout) -> None:
    assert isinstance(compare(left, right, FACTS), Equal)
    for sizes in admitted(frozenset({"N", "M"}), FACTS):
        try:
            numbers = [
                Layout(
                    tuple(e.at(sizes) if isinstance(e, IntegerExpression) else e for e, _ in each.flat),
                    tuple(d.at(sizes) if isinstance(d, IntegerExpression) else d for _, d in each.flat),
                    each.offset.at(sizes) if isinstance(each.offset, IntegerExpression) else each.offset,
                )
                for each in (left, right)
            ]
        except TilewrightError:
            continue
        assert values_of(numbers[0]) == values_of(numbers[1])


DIFFERENT: list[tuple[Layout, Layout]] = [
    (Layout((N, M), (1, N)), Layout((N, M), (M, 1))),
    (Layout((N, M), (1, N)), Layout(N * M + 8, 1)),
    (Layout((N // 8, 8), (8, 1)), Layout((N // 8, 8), (8, 2))),
    (Layout(M, N // 8), Layout(M, N // 4)),
]


@pytest.mark.parametrize(("left", "right"), DIFFERENT, ids=[f"{a} / {b}" for a, b in DIFFERENT])
def test_symbolic_sizes_that_differ_have_a_counterexample(left: Layout, right: Layout) -> None:
    found = compare(left, right, FACTS)
    assert isinstance(found, Different)
    sizes = dict(found.sizes)
    assert all(sizes[name] in FACTS[name] for name in sizes)
    from tilewright.layout.coalescing import with_sizes

    one, other = with_sizes(left, sizes), with_sizes(right, sizes)
    if found.coordinate is None:
        assert (one.size, other.size) == (found.left, found.right)
    else:
        assert (one.at(found.coordinate), other.at(found.coordinate)) == (found.left, found.right)
    assert found.left != found.right


def test_facts_matter() -> None:
    left, right = Layout((4, N // 4 * 4)), Layout((4, N))
    assert isinstance(compare(left, right), Different)
    assert isinstance(compare(left, right, FACTS), Equal)
    assert isinstance(compare(Layout((2, N)), Layout((2, 7)), {"N": IntegerFact(7, 7)}), Equal)


def test_ragged_maps() -> None:
    lanes = pw.blocked(100, 32)
    found = compare(lanes, Layout(128))
    assert found == Different(100, None, 100)
    assert isinstance(compare(lanes, pw.blocked(100, 16)), Different)  # other sizes
    whole = pw.blocked(96, 32)
    assert isinstance(compare(whole, Layout(96)), Equal)
    assert isinstance(compare(pw.affine((6, 10), [[1, 6]]), pw.affine((4, 15), [[1, 4]])), Equal)


def test_outputs_that_do_not_compare() -> None:
    with pytest.raises(TilewrightError):
        compare(pw.identity((4, 4)), Layout((4, 4)))


def test_adversarial_sizes_end() -> None:
    primes = [2, 3, 5, 7, 11, 13, 17, 19]
    mixed = Layout(tuple(primes), tuple(primes[::-1]))
    other = Layout(tuple(primes[::-1]), tuple(primes), 0, Swizzle(2, 0, 3))
    verdict = compare(mixed, other)
    assert isinstance(verdict, Different | NotDecided)
    large = Layout((3, 1 << 40), (1 << 41, 1), 0, Swizzle(3, 4, 3))
    assert isinstance(compare(large, Layout((3, 1 << 40), (1 << 41, 1), 0, Swizzle(3, 4, 4))), Different | NotDecided)


def test_the_normal_form_is_one_object() -> None:
    assert in_normal_form(Layout((2, 4))) is in_normal_form(Layout((4, 2)))
