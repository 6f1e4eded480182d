"""Polynomials agree with the integers they stand for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tilewright.contract.typestate.polynomial import Polynomial, as_polynomial, variable

NAMES = ("K", "tiles", "j")


@st.composite
def polynomials(draw: st.DrawFn) -> Polynomial:
    total = as_polynomial(draw(st.integers(-5, 5)))
    for _ in range(draw(st.integers(0, 3))):
        term = as_polynomial(draw(st.integers(-3, 3)))
        for name in draw(st.lists(st.sampled_from(NAMES), max_size=2)):
            term = term * variable(name)
        total = total + term
    return total


values = st.fixed_dictionaries({name: st.integers(0, 9) for name in NAMES})


@given(polynomials(), polynomials(), values)
def test_arithmetic_commutes_with_evaluation(left: Polynomial, right: Polynomial, at: dict[str, int]) -> None:
    assert (left + right).at(at) == left.at(at) + right.at(at)
    assert (left - right).at(at) == left.at(at) - right.at(at)
    assert (left * right).at(at) == left.at(at) * right.at(at)


@given(polynomials(), polynomials())
def test_equal_polynomials_are_equal_values(left: Polynomial, right: Polynomial) -> None:
    assert (left + right) - right == left
    assert (left - left) == Polynomial()
    assert left * right == right * left


@given(polynomials(), values)
def test_a_constant_does_not_vary(polynomial: Polynomial, at: dict[str, int]) -> None:
    if polynomial.constant is not None:
        assert polynomial.at(at) == polynomial.constant
        assert not polynomial.variables


@given(polynomials(), st.fixed_dictionaries({name: st.integers(0, 3) for name in NAMES}), values)
def test_never_negative_is_sound(polynomial: Polynomial, minima: dict[str, int], above: dict[str, int]) -> None:
    if polynomial.is_never_negative(minima):
        assert polynomial.at({name: minima[name] + above[name] for name in NAMES}) >= 0


@given(polynomials(), st.fixed_dictionaries({name: st.integers(0, 3) for name in NAMES}), values)
def test_most_is_never_exceeded(polynomial: Polynomial, minima: dict[str, int], above: dict[str, int]) -> None:
    most = polynomial.most(minima)
    if most is not None:
        assert polynomial.at({name: minima[name] + above[name] for name in NAMES}) <= most


def test_most_is_reached_where_there_is_one() -> None:
    assert (variable("K") * -2 + 7).most({"K": 2}) == 3
    assert (variable("K") - 7).most({"K": 2}) is None


@given(polynomials(), polynomials(), values)
def test_putting_a_value_in_place_of_a_variable(polynomial: Polynomial, value: Polynomial, at: dict[str, int]) -> None:
    name = NAMES[0]
    assert polynomial.put(name, value).at(at) == polynomial.at({**at, name: value.at(at)})


def test_degrees() -> None:
    k = variable("K")
    assert [(k * k + k).degree("K"), (k * variable("J")).degree("K"), Polynomial().degree("K")] == [2, 1, 0]


def test_never_negative_uses_minima() -> None:
    assert (variable("K") - 1).is_never_negative({"K": 1})
    assert not (variable("K") - 1).is_never_negative({})


def test_text() -> None:
    k, tiles = variable("K"), variable("tiles")
    assert str(k * tiles * 2 - k + 1) == "2*K*tiles - K + 1"
    assert str(-k) == "-K"
    assert str(Polynomial()) == "0"
