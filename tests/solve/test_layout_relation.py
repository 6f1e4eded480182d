"""Layouts as relations of integers: against enumeration, beyond normal forms, and within a budget."""

from __future__ import annotations

import time

import islpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.layout.layout_strategies import layouts, ordered_layouts

from tilewright.layout import convert
from tilewright.layout.answer import NotDecided, NotExpressible
from tilewright.layout.coalescing import with_sizes
from tilewright.layout.equality import AnyLayout, Different, Equal, compare, value_at
from tilewright.layout.layout import Layout
from tilewright.layout.linear.maps import LinearLayout
from tilewright.layout.numbers.integer_expression import variable
from tilewright.layout.numbers.integer_fact import IntegerFact
from tilewright.layout.pieces import piecewise as pw
from tilewright.layout.swizzle import Swizzle
from tilewright.solve.bounded import Effort
from tilewright.solve.layout_relation import Relation, equal, relation_of

N, M = variable("N"), variable("M")


def pairs(relation: Relation) -> dict[int, int]:
    """All points of a relation of numbers, by isl."""
    found: dict[int, int] = {}
    mapping = islpy.Map.read_from_str(islpy.Context(), relation.complete)

    def take(point: islpy.Point) -> None:
        at = [int(str(point.get_coordinate_val(islpy.dim_type.set, each))) for each in range(2)]
        found[at[0]] = at[1]

    mapping.wrap().foreach_point(take)
    return found


@settings(max_examples=20, deadline=None)
@given(st.one_of(layouts(most=16), ordered_layouts(most=16)), st.booleans(), st.integers(0, 2))
def test_relations_hold_the_functions_points(layout: Layout, swizzle: bool, kind: int) -> None:
    if swizzle:
        layout = Layout(layout.shape, layout.stride, 3, Swizzle(2, 0, 2))
    given: list[AnyLayout] = [layout]
    for made in (convert.linear_of_layout(layout), convert.piecewise_of_layout(layout)):
        if not isinstance(made, NotExpressible | NotDecided):
            given.append(made)
    each = given[kind % len(given)]
    relation = relation_of(each)
    assert isinstance(relation, Relation)
    size = each.size
    assert isinstance(size, int)
    assert pairs(relation) == {at: value_at(each, at) for at in range(size)}


FACTS = {"N": IntegerFact(1, 64)}

ONLY_BY_RELATION: list[tuple[Layout, Layout]] = [
    # One block of 64 at most: the swizzle reads bits that are always 0.
    (Layout((N,), (1,), 0, Swizzle(3, 0, 6)), Layout(N)),
    # An overlap that is never reached at other than the same value.
    (Layout((N, 2), (0, 0)), Layout((2 * N,), (0,))),
    (Layout((4, N // 4 + (N + 3) // 4), (1, 4)), Layout((4, (N + 3) // 4 + N // 4), (1, 4))),
]


@pytest.mark.parametrize(("left", "right"), ONLY_BY_RELATION, ids=str)
def test_equal_for_all_sizes(left: Layout, right: Layout) -> None:
    assert isinstance(equal(left, right, FACTS), Equal)
    for size in (1, 2, 5, 64):
        assert isinstance(compare(with_sizes(left, {"N": size}), with_sizes(right, {"N": size})), Equal)


def test_normal_forms_leave_a_question_that_isl_settles() -> None:
    left, right = ONLY_BY_RELATION[0]
    assert isinstance(compare(left, right, FACTS), NotDecided)
    assert isinstance(equal(left, right, FACTS), Equal)


def test_a_difference_far_out_is_found() -> None:
    left, right = Layout((N,), (1,), 0, Swizzle(3, 0, 6)), Layout(N)
    facts = {"N": IntegerFact(1, 65)}
    found = equal(left, right, facts)
    assert isinstance(found, Different)
    assert found.sizes == (("N", 65),) and (found.coordinate, found.left, found.right) == (64, 65, 64)
    free = equal(left, right)
    assert isinstance(free, Different)
    sizes = dict(free.sizes)
    assert free.coordinate is not None
    assert with_sizes(left, sizes).at(free.coordinate) == free.left != free.right


@settings(max_examples=60, deadline=None)
@given(layouts(most=24), layouts(most=24))
def test_known_sizes_as_by_enumeration(left: Layout, right: Layout) -> None:
    verdict = equal(left, right)
    assert isinstance(verdict, Equal) == (left.offsets().tolist() == right.offsets().tolist())


def test_products_of_symbols_are_not_decided() -> None:
    verdict = equal(Layout((4, M, N), (N, 4 * N, 1), 0, Swizzle(2, 0, 2)), Layout((4, M, N), (N, 4 * N, 1)))
    assert isinstance(verdict, Different | NotDecided)
    hard = equal(Layout((N, M), (M, 1)), Layout((N, M), (M, 1), N * M // (N + 1) - N * M // (N + 1)))
    assert isinstance(hard, Equal)


def test_the_budget_is_kept() -> None:
    mixed = tuple([3, 5, 7, 11, 13, 17])
    left = Layout(mixed, (7, 1, 12, 5, 9, 31), 0, Swizzle(6, 0, 8))
    right = Layout(mixed[::-1], (31, 9, 5, 12, 1, 7), 0, Swizzle(6, 0, 7))
    start = time.process_time()
    verdict = equal(left, right, effort=Effort(set_operations=20_000))
    assert isinstance(verdict, Different | NotDecided)
    assert time.process_time() - start < 5
    wide = [
        Layout((3, 1 << 20, N), (1 << 21, 1, 1 << 24), 0, Swizzle(3, 4, 3)),
        Layout((3, 1 << 20, N), (1 << 21, 1, 1 << 24), 0, Swizzle(3, 4, 3)).with_values(1 << 40, Swizzle(3, 4, 3)),
    ]
    assert isinstance(equal(wide[0], wide[1]), Different)
    linear = LinearLayout((("i", 30),), (("o", 30),), tuple((1 << 30) - (1 << at) for at in range(30)))
    other = LinearLayout((("i", 30),), (("o", 30),), (*linear.columns[:-1], 1))
    assert isinstance(equal(linear, other), Different)


def test_questions_that_isl_would_take_long_over_are_not_asked() -> None:
    columns = tuple((0x9E3779B97F4A7C15 * (at + 1)) % (1 << 60) for at in range(60))
    linear = LinearLayout((("i", 60),), (("o", 60),), columns)
    relation = relation_of(linear)
    assert isinstance(relation, NotExpressible) and "too many" in relation.reason
    cases: list[tuple[AnyLayout, AnyLayout]] = [
        (linear, pw.identity((1 << 60,))),
        (linear, Layout((2,) * 60)),
        (pw.affine((1000003, 7), [[1, 1000003]]), pw.affine((7, 1000003), [[1, 7]])),
        (Layout((N,), (1,), 0, Swizzle(8, 0, 16)), Layout(N)),
    ]
    for left, right in cases:
        start = time.process_time()
        assert isinstance(equal(left, right, {"N": IntegerFact(1, 1 << 16)}), Equal | Different | NotDecided)
        assert time.process_time() - start < 5
