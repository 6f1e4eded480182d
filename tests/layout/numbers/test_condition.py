"""Conditions against enumeration: normal forms, simplification and refinement change no answer."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.layout.numbers.drawn_conditions import conditions
from tests.layout.numbers.drawn_expressions import expressions

from tilewright.layout.numbers.condition import (
    Comparison,
    Condition,
    Either,
    Every,
    at_least_zero,
    condition_text,
    holds,
    is_zero,
    names_of,
    negation,
)
from tilewright.layout.numbers.condition_facts import decide, refine, simplify
from tilewright.layout.numbers.integer_expression import IntegerExpression, variable
from tilewright.layout.numbers.integer_fact import IntegerFact, Truth

K, M, N = (variable(name) for name in ("K", "M", "N"))
values = st.fixed_dictionaries({name: st.integers(-9, 40) for name in ("K", "M", "N")})


@given(expressions, values)
def test_comparisons_mean_what_they_say(expression: IntegerExpression, at: dict[str, int]) -> None:
    value = expression.at(at)
    assert holds(is_zero(expression), at) == (value == 0)
    assert holds(at_least_zero(expression), at) == (value >= 0)
    assert holds(negation(is_zero(expression)), at) == (value != 0)
    assert holds(negation(at_least_zero(expression)), at) == (value < 0)


@given(expressions, values, st.integers(1, 16), st.integers(-3, 16))
def test_congruences_are_solved_exactly(
    expression: IntegerExpression, at: dict[str, int], by: int, wanted: int
) -> None:
    assert holds(is_zero(expression % by - wanted), at) == (expression.at(at) % by == wanted)


@given(conditions, values, st.integers(1, 8), st.integers(0, 6))
def test_simplification_is_equivalent_where_the_facts_hold(
    condition: Condition, at: dict[str, int], modulus: int, slack: int
) -> None:
    facts = {name: IntegerFact(value - slack, value + slack, modulus, value) for name, value in at.items()}
    assert holds(simplify(condition, facts), at) == holds(condition, at)
    assert holds(simplify(condition, {"K": facts["K"]}), at) == holds(condition, at)


@given(conditions, conditions, values)
def test_what_is_assumed_may_be_dropped(condition: Condition, given_one: Condition, at: dict[str, int]) -> None:
    assume(holds(given_one, at))
    assumed = frozenset(given_one.parts if isinstance(given_one, Every) else (given_one,))
    facts = {name: IntegerFact(-20, 60) for name in at}
    assert holds(simplify(condition, facts, assumed), at) == holds(condition, at)


@given(conditions, values, st.integers(1, 6))
def test_refined_facts_cover_what_satisfies(condition: Condition, at: dict[str, int], modulus: int) -> None:
    for facts in (
        {name: IntegerFact(value - 5, value + 5, modulus, value) for name, value in at.items()},
        {name: IntegerFact(-9) for name in at},
        {},
    ):
        refined = refine(condition, facts)
        if holds(condition, at):
            assert refined is not None
            assert all(at[name] in fact for name, fact in refined.items())


@given(conditions)
def test_decisions_agree_with_enumeration(condition: Condition) -> None:
    facts = {"K": IntegerFact(0, 6, 2, 0), "M": IntegerFact(1, 3), "N": IntegerFact(8, 24, 8, 0)}
    found = {
        holds(condition, {"K": k, "M": m, "N": n}) for k, m, n in product(range(0, 7, 2), range(1, 4), range(8, 25, 8))
    }
    answer = decide(condition, facts)
    if answer is not Truth.MAYBE:
        assert found == {answer is Truth.YES}


@given(conditions, values)
def test_the_text_means_the_same(condition: Condition, at: dict[str, int]) -> None:
    assert bool(eval(condition_text(condition), {}, dict(at))) == holds(condition, at)


def test_unknowns_are_solved_for() -> None:
    assert str(is_zero((2 * N) % 16)) == "N % 8 == 0"
    assert str(is_zero((2 * N + 8) % 16)) == "N % 8 == 4"
    assert is_zero((2 * N + 1) % 16) is False
    assert is_zero((16 * N * M) % 16) is True
    assert str(at_least_zero(2**40 - 1 - 2 * N)) == "N <= 549755813887"
    assert str(at_least_zero(N // 8 - 3)) == "N >= 24"
    assert str(at_least_zero(3 - (N + 7) // 8)) == "N <= 24"
    assert str(at_least_zero(2 * M - 2 * N - 3)) == "M >= N + 2"
    assert str(is_zero((2 * M * N) % 16)) == "(M*N) % 8 == 0"


def test_facts_of_factors_shorten_a_congruence() -> None:
    facts = {"M": IntegerFact(None, None, 8, 4)}
    assert str(simplify(is_zero((M * N) % 8), facts)) == "N % 2 == 0"
    assert simplify(is_zero((M * N) % 8), {"M": IntegerFact(None, None, 8, 0)}) is True
    assert simplify(is_zero((2 * N) % 16), {"N": IntegerFact(None, None, 16, 4)}) is False


def test_products_are_bounded_by_what_is_known_of_their_factors() -> None:
    positive = {"M": IntegerFact(1), "N": IntegerFact(1)}
    assert simplify(at_least_zero(M * N - N), positive) is True
    assert simplify(at_least_zero(N - M * N - 1), positive) is False
    bounded = {"M": IntegerFact(1, 100), "N": IntegerFact(1, 100)}
    assert simplify(at_least_zero(10000 - M * N), bounded) is True


def test_a_weaker_comparison_follows_from_a_stronger_one() -> None:
    for strong, weak in (
        (at_least_zero(100 - M * N), at_least_zero(200 - M * N)),
        (is_zero((M * N) % 16), is_zero((M * N) % 8)),
        (is_zero((M * N + 3) % 16), is_zero((M * N + 3) % 8)),
    ):
        assert simplify(weak, {}, frozenset((strong,))) is True
        assert not isinstance(simplify(strong, {}, frozenset((weak,))), bool)


def test_logic_takes_plain_truth_on_either_side() -> None:
    one, other = at_least_zero(N - 1), is_zero(M % 8)
    assert (True & one) is one or (True & one) == one
    assert (one & False) is False and (False & one) is False
    assert (one | True) is True and (True | one) is True
    assert isinstance(one & other, Every) and isinstance(one | other, Either)
    assert ~~(one & other) == one & other
    assert isinstance(~one, Comparison)
    assert names_of(one & other) == {"M", "N"}
    with pytest.raises(TypeError, match="undecided"):
        bool(one)
