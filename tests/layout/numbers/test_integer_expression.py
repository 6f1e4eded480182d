"""Expressions agree with the integers they stand for, and their facts cover every value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.layout.numbers.drawn_expressions import NAMES, K, M, N, expressions

from tilewright.layout.numbers.integer_expression import IntegerExpression, as_expression, substitute, text
from tilewright.layout.numbers.integer_fact import IntegerFact, Truth

values = st.fixed_dictionaries({name: st.integers(-9, 40) for name in NAMES})


@given(expressions, expressions, values, st.integers(1, 16))
def test_arithmetic_commutes_with_evaluation(
    left: IntegerExpression, right: IntegerExpression, at: dict[str, int], divisor: int
) -> None:
    a, b = left.at(at), right.at(at)
    assert (left + right).at(at) == a + b
    assert (left - right).at(at) == a - b
    assert (left * right).at(at) == a * b
    assert (left // divisor).at(at) == a // divisor
    assert (left % divisor).at(at) == a % divisor
    assert (left // -divisor).at(at) == a // -divisor
    assert (left % -divisor).at(at) == a % -divisor
    if b:
        assert (left // right).at(at) == a // b
        assert (left % right).at(at) == a % b


@given(expressions, values)
def test_the_text_means_the_same(expression: IntegerExpression, at: dict[str, int]) -> None:
    assert eval(text(expression), {}, dict(at)) == expression.at(at)


@given(expressions, st.fixed_dictionaries({name: st.integers(0, 40) for name in NAMES}))
def test_facts_cover_every_value(expression: IntegerExpression, at: dict[str, int]) -> None:
    for facts in (
        {name: IntegerFact(value - 3, value + 5) for name, value in at.items()},
        {name: IntegerFact(0, None, 4, value) for name, value in at.items()},
        {},
    ):
        assert expression.at(at) in expression.fact(facts)


@given(expressions, values)
def test_substitution_evaluates_partly(expression: IntegerExpression, at: dict[str, int]) -> None:
    partly = substitute(expression, {"K": at["K"]})
    assert "K" not in partly.names
    assert partly.at(at) == expression.at(at)
    assert substitute(expression, at).constant == expression.at(at)


def test_relations_between_terms_are_kept() -> None:
    assert (2 * N - N - N).constant == 0
    assert ((8 * N + 3) % 8).constant == 3
    assert (16 * N * M + 8) // 8 == 2 * M * N + 1
    assert (2 * N) % 16 == 2 * (N % 8)
    assert (2 * N + 1) // 4 == N // 2
    facts = {"N": IntegerFact(0, None, 8, 0)}
    assert (2 * N).fact(facts).divisible_by(16) is Truth.YES
    assert (N * M).fact(facts).divisible_by(8) is Truth.YES
    assert (N + 4).fact(facts).divisible_by(8) is Truth.NO


def test_dividing_by_zero_is_an_error() -> None:
    for divide in (lambda: N // 0, lambda: N % 0):
        with pytest.raises(ZeroDivisionError):
            divide()


def test_text() -> None:
    assert str(2 * N + M - 1) == "M + 2*N - 1"
    assert str((N + 7) // 8 * 16) == "16*((N + 7)//8)"
    assert str((N * M) % 8) == "(M*N) % 8"
    assert text((N + 7) // 8, "c") == "(N + 7)/8"
    assert str(-(K // 2)) == "-(K//2)"
    assert str(as_expression(0)) == "0"
