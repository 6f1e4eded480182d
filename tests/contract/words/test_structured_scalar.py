"""Integers that stand for all runs with periods inserted: whatever is computed with slopes agrees, for every number of
periods, with the computation without, or is refused."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tilewright.contract.words.scalar import (
    Atoms,
    NotPeriodic,
    Scalar,
    TripCount,
    add,
    bitwise,
    divide,
    is_equal,
    is_less,
    multiply,
    remainder,
    scalar,
    with_slope,
)

SMALL = st.integers(-20, 60)
SLOPE = st.integers(-6, 24)


def at(number, periods):
    """The number after `periods` periods; None where it has unknowns."""
    whole = scalar(number)
    return None if whole.atoms else whole.value + periods * whole.slope


@given(SMALL, SLOPE, SMALL, SLOPE, st.integers(0, 7))
def test_sums_and_products(a, slope_a, b, slope_b, periods):
    one, other = Scalar(a, slope_a), Scalar(b, slope_b)
    assert at(add(one, other, -3), periods) == at(one, periods) - 3 * at(other, periods)
    product = multiply(one, b, Atoms())
    assert at(product, periods) == at(one, periods) * b
    mixed = at(multiply(one, other, Atoms()), periods)
    assert mixed is None or mixed == at(one, periods) * at(other, periods)


@given(st.integers(0, 60), st.integers(0, 24), st.integers(1, 9), st.integers(0, 7))
def test_divisions(a, slope, divisor, periods):
    one, atoms = Scalar(a, slope), Atoms()
    value = a + periods * slope
    for found, expected in (
        (divide(one, divisor, atoms), value // divisor),
        (divide(one, divisor, atoms, up=True), -(-value // divisor)),
        (remainder(one, divisor, atoms), value % divisor),
        (bitwise("and", one, 3, atoms), value & 3),
    ):
        assert at(found, periods) in (None, expected)


@given(st.integers(-50, 50), st.integers(1, 9))
def test_divisions_round_towards_zero(a, divisor):
    quotient, rest = divide(a, divisor, Atoms()), remainder(a, divisor, Atoms())
    assert quotient == int(a / divisor)
    assert quotient * divisor + rest == a


@given(SMALL, SLOPE, SMALL, SLOPE, st.integers(0, 20))
def test_comparisons_hold_for_every_number_of_periods(a, slope_a, b, slope_b, periods):
    one, other = Scalar(a, slope_a), Scalar(b, slope_b)
    for compare, expected in (
        (is_less, at(one, periods) < at(other, periods)),
        (is_equal, at(one, periods) == at(other, periods)),
    ):
        try:
            assert compare(one, other, {}) == expected
        except NotPeriodic:
            continue


@given(st.integers(0, 5), st.integers(1, 70), st.integers(0, 8), st.integers(-3, 9), st.integers(0, 69))
def test_a_loops_trips_decide_comparisons_with_its_end(low, step, count, trip, slack):
    """Against every end for which the loop makes that many trips."""
    assume(slack < step and (count > 0 or slack == 0))
    end = low + count * step - slack
    atoms = Atoms()
    unknown = atoms.of("end")
    trips = {"loop": TripCount(add(unknown, low, -1), step, Scalar(count))}
    index = low + trip * step
    for left, right, expected in ((index, unknown, index < end), (unknown, index, end < index)):
        decided = is_less(left, right, trips)
        assert decided is None or decided == expected
    assert is_less(index, unknown, trips) is not None


def test_a_symbolic_step():
    atoms = Atoms()
    first, end, step = atoms.of("first"), atoms.of("end"), atoms.of("step")
    trips = {"loop": TripCount(add(end, first, -1), step, Scalar(4))}
    for trip in range(8):
        index = add(first, multiply(trip, step, atoms))
        assert is_less(index, end, trips) == (trip < 4)
    assert is_less(add(first, 1), end, trips) is None


def test_equal_expressions_are_equal_unknowns():
    atoms = Atoms()
    end = atoms.of("argument", "K")
    assert divide(add(end, 63), 64, atoms) == divide(add(63, end), 64, atoms)
    assert divide(end, 64, atoms) != divide(end, 32, atoms)
    assert atoms.is_fresh(add(1, atoms.one_of_its_own("load", 1)))
    assert not atoms.is_fresh(end)


def test_what_depends_on_the_number_of_periods_is_refused():
    with pytest.raises(NotPeriodic):
        is_less(Scalar(3), Scalar(5, -1), {})
    with pytest.raises(NotPeriodic):
        is_equal(Scalar(3), Scalar(5, -2), {})
    assert with_slope(4, 6) == Scalar(4, 6)
    assert remainder(Scalar(4, 5), 3, Atoms()) != 1


def test_roots_reach_through_functions_of_unknowns():
    atoms = Atoms()
    place, extent = atoms.place("block", "x"), atoms.of("argument", "K")
    tiles = divide(add(place, 7), 64, atoms)
    steps = divide(add(extent, 63), 64, atoms)
    both = multiply(tiles, steps, atoms)
    assert not atoms.roots(tiles) & atoms.roots(steps)
    assert atoms.roots(place) < atoms.roots(tiles) < atoms.roots(both)
    assert atoms.roots(extent) < atoms.roots(both)
    assert atoms.roots(5) == frozenset()
