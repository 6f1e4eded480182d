"""Every operation of terms against Python's integers: the solver finds them equal, and never unequal."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.solve.evaluated_terms import BINARY, COMPARISONS, DIVISIONS, value_of

from tilewright.solve.bit_vectors import (
    OPERATIONS,
    Applied,
    Contradiction,
    Number,
    Question,
    Term,
    Unanswered,
    Variable,
    Witness,
    ask,
)

WIDTHS = (1, 5, 8, 16, 32, 64)
UNARY = ("not", "if", "extract", "zero_extend", "sign_extend", "concat")


def numbers(width: int) -> st.SearchStrategy[int]:
    top = 1 << (width - 1)
    most = (1 << width) - 1
    return st.one_of(st.sampled_from([0, 1, top - 1, top, most]), st.integers(0, most)).filter(
        lambda each: each <= most
    )


def compared(operation: str, one: Term, other: Term) -> Term:
    return Applied(operation, (one, other), 1)


def decided(term: Term) -> None:
    """Variables of the term are fixed by the numbers that it has in their place: the solver agrees with Python."""
    expected = Number(value_of(term, {}), term.width)
    assert ask(Question((), (compared("ne", term, expected),))) == Contradiction()
    assert ask(Question((), (compared("eq", term, expected),))) == Witness({})


def test_every_operation_is_checked_here() -> None:
    assert {*BINARY, *UNARY} == OPERATIONS


@pytest.mark.sample(7)
@pytest.mark.parametrize("operation", BINARY)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_two_operands(operation: str, data: st.DataObject) -> None:
    width = data.draw(st.sampled_from(WIDTHS))
    one, other = data.draw(numbers(width)), data.draw(numbers(width))
    if operation in DIVISIONS:
        other = other or 1
    if operation in ("shl", "lshr", "ashr"):
        other = data.draw(st.sampled_from([other, min(width, (1 << width) - 1), 1]))
    found = 1 if operation in COMPARISONS else width
    decided(Applied(operation, (Number(one, width), Number(other, width)), found))


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_other_operations(data: st.DataObject) -> None:
    width = data.draw(st.sampled_from(WIDTHS))
    one, other = data.draw(numbers(width)), data.draw(numbers(width))
    decided(Applied("not", (Number(one, width),), width))
    for predicate in (0, 1):
        decided(Applied("if", (Number(predicate, 1), Number(one, width), Number(other, width)), width))
    low = data.draw(st.integers(0, width - 1))
    high = data.draw(st.integers(low, width - 1))
    decided(Applied("extract", (Number(one, width),), high - low + 1, (high, low)))
    more = data.draw(st.integers(1, 40))
    decided(Applied("zero_extend", (Number(one, width),), width + more, (more,)))
    decided(Applied("sign_extend", (Number(one, width),), width + more, (more,)))
    decided(Applied("concat", (Number(one, width), Number(other, width), Number(1, 3)), 2 * width + 3))


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_a_witness_is_right_and_within_the_largest_values(data: st.DataObject) -> None:
    largest = data.draw(st.integers(1, 200))
    total = data.draw(st.integers(0, 500))
    one, other = Variable(0, 16, largest), Variable(1, 16, largest)
    summed = compared("eq", Applied("add", (one, other), 16), Number(total, 16))
    answer = ask(Question((one, other), (summed,)))
    if total > 2 * largest:
        assert answer == Contradiction()
    else:
        assert isinstance(answer, Witness)
        assert sum(answer.values.values()) == total
        assert max(answer.values.values()) <= largest


def test_the_largest_value_itself_is_allowed_and_the_next_is_not() -> None:
    one = Variable(0, 32, 37)
    assert ask(Question((one,), (compared("eq", one, Number(37, 32)),))) == Witness({0: 37})
    assert ask(Question((one,), (compared("eq", one, Number(38, 32)),))) == Contradiction()
    whole = Variable(0, 32, (1 << 32) - 1)
    assert ask(Question((whole,), (compared("eq", whole, Number((1 << 32) - 1, 32)),))) == Witness({0: (1 << 32) - 1})


def test_conditions_hold_together() -> None:
    one = Variable(0, 8, 255)
    above, below = compared("ult", Number(6, 8), one), compared("ult", one, Number(8, 8))
    assert ask(Question((one,), (above, below))) == Witness({0: 7})
    assert ask(Question((one,), (above, below, compared("ne", one, Number(7, 8))))) == Contradiction()


def test_a_question_that_takes_too_much_has_no_answer() -> None:
    one, other = Variable(0, 64, (1 << 63) - 1), Variable(1, 64, (1 << 63) - 1)
    product = Applied("mul", tuple(Applied("zero_extend", (each,), 128, (64,)) for each in (one, other)), 128)
    # The product of two primes.
    factors = 4_294_967_291 * 4_294_967_279
    more = (compared("ult", Number(1, 64), one), compared("ult", Number(1, 64), other))
    question = Question((one, other), (compared("eq", product, Number(factors, 128)), *more))
    assert ask(question, 20_000) == Unanswered()


def test_what_contradicts_itself_whatever_a_product_is_needs_no_product() -> None:
    """The trips of tiles times those of a tile are 1, and are not, in ways that a solver need not multiply for."""
    one, other = (Variable(index, 64, (1 << 64) - 1) for index in range(2))
    quotient = Applied("lshr", (Applied("add", (one, Number(63, 64)), 64), Number(6, 64)), 64)
    product = Applied("mul", (quotient, Applied("mul", (other, other), 64)), 64)
    least, most = compared("slt", Number(0, 64), product), compared("slt", product, Number(2, 64))
    odd = compared("ne", Applied("and", (product, Number(1, 64)), 64), Number(1, 64))
    assert ask(Question((one, other), (least, most, odd)), 20_000) == Contradiction()
    assert isinstance(ask(Question((one, other), (least, most))), Witness)


def test_a_product_may_still_be_what_contradicts() -> None:
    one = Variable(0, 32, 1000)
    square = Applied("mul", (one, one), 32)
    assert ask(Question((one,), (compared("eq", square, Number(3, 32)),))) == Contradiction()
    assert ask(Question((one,), (compared("eq", square, Number(49, 32)),))) == Witness({0: 7})


def test_a_shared_term_is_one_formula() -> None:
    """A tree of 2^200 leaves if its parts were not shared."""
    term: Term = Variable(0, 32, (1 << 32) - 1)
    first = term
    for _ in range(200):
        term = Applied("add", (term, term), 32)
    assert ask(Question((first,), (compared("ne", term, Number(0, 32)),))) == Contradiction()  # type: ignore[arg-type]
