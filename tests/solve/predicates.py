"""Drawn predicates and costs, as plain functions of integers: what the readings of the solver are compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any

from hypothesis import strategies as st

Function = Callable[..., Any]
Nested = Callable[[Sequence[Any]], Any]


def _field(position: int) -> Nested:
    return lambda values: values[position]


def _constant(value: int) -> Nested:
    return lambda values: value


def _joined(operator: Callable[[Any, Any], Any], left: Nested, right: Nested) -> Nested:
    return lambda values: operator(left(values), right(values))


def _divided(left: Nested, divisor: int, remainder: bool) -> Nested:
    return lambda values: left(values) % divisor if remainder else left(values) // divisor


def _terms(arity: int) -> st.SearchStrategy[Nested]:
    leaves = st.one_of(st.builds(_field, st.integers(0, arity - 1)), st.builds(_constant, st.integers(-4, 8)))
    arithmetic = st.sampled_from([lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b])
    divisor = st.sampled_from([-5, -2, 2, 3, 4])
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(_joined, arithmetic, inner, inner), st.builds(_divided, inner, divisor, st.booleans())
        ),
        max_leaves=4,
    )


def _conditions(arity: int) -> st.SearchStrategy[Nested]:
    comparison = st.builds(_joined, st.sampled_from([eq, ne, lt, le, gt, ge]), _terms(arity), _terms(arity))
    return st.recursive(
        comparison, lambda inner: st.builds(_joined, st.sampled_from([and_, or_]), inner, inner), max_leaves=3
    )


def _spread(nested: Nested) -> Function:
    return lambda *values: nested(values)


def drawn_predicates(arity: int) -> st.SearchStrategy[Function]:
    """Conditions of `arity` integers with no division by what may be zero."""
    return _conditions(arity).map(_spread)


def drawn_costs(arity: int) -> st.SearchStrategy[Function]:
    """Integer functions of `arity` integers, defined everywhere."""
    return _terms(arity).map(_spread)
