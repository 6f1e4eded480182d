"""Facts of integers against enumeration: every operation covers what it gives on members, comparisons are right."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tilewright.layout.numbers.integer_fact import (
    ANY,
    IntegerFact,
    Truth,
    as_fact,
    equal,
    join,
    meet,
)

WINDOW = range(-40, 41)
"""Facts drawn here are probed by these members; unbounded ones have members outside, too."""


@st.composite
def facts(draw: st.DrawFn) -> IntegerFact:
    low = draw(st.none() | st.integers(-30, 30))
    high = draw(st.none() | st.integers(-30, 30))
    modulus = draw(st.integers(0, 9))
    try:
        return IntegerFact(low, high, modulus, draw(st.integers(-12, 12)))
    except ValueError:
        assume(False)
        raise


def members(fact: IntegerFact) -> list[int]:
    return [value for value in WINDOW if value in fact]


def sample(fact: IntegerFact) -> list[int]:
    found = members(fact)
    return found if len(found) <= 12 else found[:6] + found[-6:]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "apply",
    [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod],
    ids=["add", "sub", "mul", "floordiv", "mod"],
)
def test_arithmetic_covers_its_members(apply: Callable[..., object]) -> None:
    @given(facts(), facts())
    def covers(left: IntegerFact, right: IntegerFact) -> None:
        divides = apply in (operator.floordiv, operator.mod)
        result = apply(left, right)
        assert isinstance(result, IntegerFact)
        for a in sample(left):
            for b in sample(right):
                if divides and b == 0:
                    continue
                assert apply(a, b) in result, (left, right, a, b, result)

    covers()


@pytest.mark.parametrize("apply", [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod])
def test_plain_integers_stand_on_either_side(apply: Callable[..., object]) -> None:
    fact = IntegerFact(3, 19, 4, 3)
    for value in members(fact):
        for other in (-7, -1, 1, 4, 9):
            for result, exact in ((apply(fact, other), apply(value, other)), (apply(other, fact), apply(other, value))):
                assert isinstance(result, IntegerFact) and isinstance(exact, int)
                assert exact in result


@given(facts(), st.integers(0, 5))
def test_shifts(fact: IntegerFact, bits: int) -> None:
    for value in sample(fact):
        assert value << bits in fact << bits
        assert value >> bits in fact >> bits


@given(facts(), facts())
def test_meet_is_exact_and_join_covers(left: IntegerFact, right: IntegerFact) -> None:
    both, either = meet(left, right), join(left, right)
    for value in WINDOW:
        assert (both is not None and value in both) == (value in left and value in right)
        if value in left or value in right:
            assert value in either


@given(facts(), facts())
def test_comparisons_speak_for_all_members(left: IntegerFact, right: IntegerFact) -> None:
    for answer, holds in (
        (left < right, operator.lt),
        (left <= right, operator.le),
        (left > right, operator.gt),
        (left >= right, operator.ge),
        (equal(left, right), operator.eq),
    ):
        found = {holds(a, b) for a in members(left) for b in members(right)}
        if answer is Truth.YES:
            assert found <= {True}
        if answer is Truth.NO:
            assert found <= {False}


@given(facts(), st.integers(1, 12))
def test_divisibility_is_exact_on_bounded_facts(fact: IntegerFact, divisor: int) -> None:
    found = {value % divisor == 0 for value in members(fact)}
    answer = fact.divisible_by(divisor)
    if answer is not Truth.MAYBE and found:
        assert found == {answer is Truth.YES}
    if fact.low is not None and fact.high is not None and found == {True}:
        # all members divisible: only sets of few members escape the congruence
        assert answer is Truth.YES or len(members(fact)) <= 2


@given(facts())
def test_the_normal_form_is_tight(fact: IntegerFact) -> None:
    assert fact.low is None or fact.low in fact
    assert fact.high is None or fact.high in fact
    assert IntegerFact(fact.low, fact.high, fact.modulus, fact.remainder) == fact
    if len(members(fact)) == 1 and fact.low is not None and fact.high is not None:
        assert fact.constant == members(fact)[0]


@given(facts(), facts())
def test_equal_sets_have_equal_facts(left: IntegerFact, right: IntegerFact) -> None:
    bounded = all(fact.low is not None and fact.high is not None for fact in (left, right))
    if bounded and members(left) == members(right) and len(members(left)) > 2:
        assert left == right


def test_an_empty_set_is_no_fact() -> None:
    for arguments in ((3, 2, 1, 0), (1, 7, 8, 0), (0, 5, 0, 6)):
        with pytest.raises(ValueError, match="no integer"):
            IntegerFact(*arguments)
    assert meet(IntegerFact(0, None, 2, 0), IntegerFact(0, None, 4, 1)) is None


def test_a_stride_of_a_multiple_of_eight_elements_of_two_bytes_is_a_multiple_of_sixteen() -> None:
    columns = IntegerFact(8, 65536, 8, 0)
    assert (columns * 2).divisible_by(16) is Truth.YES
    assert (columns * 2 + 8).divisible_by(16) is Truth.NO
    assert (columns + 4).divisible_by(8) is Truth.NO
    assert (IntegerFact(1, 65536) * 2).divisible_by(16) is Truth.MAYBE
    assert (columns * IntegerFact(2, None, 2, 0)).divisible_by(16) is Truth.YES


def test_truth_is_kleenes() -> None:
    values = (Truth.NO, Truth.MAYBE, Truth.YES)
    for left in values:
        for right in values:
            assert left & right is min(left, right, key=values.index)
            assert left | right is max(left, right, key=values.index)
    assert Truth.MAYBE & False is Truth.NO
    assert True | Truth.MAYBE is Truth.YES
    assert ~Truth.MAYBE is Truth.MAYBE and ~Truth.YES is Truth.NO
    with pytest.raises(TypeError, match="three-valued"):
        bool(Truth.MAYBE)


def test_absurd_sizes_are_exact() -> None:
    huge = IntegerFact(2**400, None, 2**300, 0)
    assert (huge * huge).low == 2**800
    assert (huge * ANY) == IntegerFact(None, None, 2**300, 0)
    assert as_fact(2**64) // 16 == as_fact(2**60)


def test_text() -> None:
    assert str(IntegerFact(1, 63, 8, 0)) == "8 <= x <= 56, % 8 == 0"
    assert str(as_fact(-3)) == "-3"
    assert str(ANY) == "x"
