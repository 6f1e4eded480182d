"""f64 in every rounding mode, against Python's decimal arithmetic, which rounds as it is told to."""

from __future__ import annotations

import decimal
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tilewright.machine.numbers import arithmetic, conversion

FINITE = st.floats(allow_nan=False, allow_infinity=False)
MODES = ("rn", "rz", "rm", "rp")


def image(value: float) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    return np.array([value], np.float64).view(np.uint64)


def number(bits: np.ndarray[tuple[int, ...], np.dtype[np.uint64]]) -> float:
    return float(bits.view(np.float64)[0])


def brackets(found: dict[str, float], exact: Fraction) -> None:
    """The modes' results are the neighbours of the exact value on the sides that they name."""
    down, up = found["rm"], found["rp"]
    if math.isfinite(down):
        assert Fraction(down) <= exact
        assert math.isinf(above := math.nextafter(down, math.inf)) or Fraction(above) > exact or down == exact
    else:
        assert down < 0 and exact < -Fraction(math.nextafter(math.inf, 0))
    if math.isfinite(up):
        assert Fraction(up) >= exact
        assert math.isinf(below := math.nextafter(up, -math.inf)) or Fraction(below) < exact or up == exact
    else:
        assert up > 0 and exact > Fraction(math.nextafter(math.inf, 0))
    assert found["rz"] == (down if exact > 0 else up)
    assert found["rn"] in (down, up)


@given(FINITE, FINITE, FINITE)
@example(1.0, 2.0**-60, 3.0)
@example(1.7e308, 1.7e308, 0.0)
@example(5e-324, 0.5, 0.0)
@example(1e-200, -1e-200, 5e-324)
def test_results_bracket_the_exact_value(x: float, y: float, z: float) -> None:
    a, b, c = image(x), image(y), image(z)
    fx, fy, fz = Fraction(x), Fraction(y), Fraction(z)
    brackets({mode: number(arithmetic.add("f64", a, b, mode)) for mode in MODES}, fx + fy)
    brackets({mode: number(arithmetic.subtract("f64", a, b, mode)) for mode in MODES}, fx - fy)
    brackets({mode: number(arithmetic.multiply("f64", a, b, mode)) for mode in MODES}, fx * fy)
    brackets({mode: number(arithmetic.fused_multiply_add("f64", a, b, c, mode)) for mode in MODES}, fx * fy + fz)
    if y != 0:
        brackets({mode: number(arithmetic.divide("f64", a, b, mode)) for mode in MODES}, fx / fy)


@given(st.floats(min_value=0, allow_infinity=False, exclude_min=True))
@example(2.0)
@example(4.0)
def test_roots(x: float) -> None:
    with decimal.localcontext(decimal.Context(prec=60)):
        root = Fraction(decimal.Decimal(x).sqrt())
    if Fraction(number(arithmetic.square_root("f64", image(x)))) ** 2 == Fraction(x):
        root = Fraction(math.sqrt(x))
    brackets({mode: number(arithmetic.square_root("f64", image(x), mode)) for mode in MODES}, root)


@pytest.mark.parametrize(
    ("x", "y", "mode", "wanted"),
    [
        (1.0, -1.0, "rm", "-0.0"),
        (1.0, -1.0, "rz", "0.0"),
        (-0.0, -0.0, "rp", "-0.0"),
        (0.0, -0.0, "rm", "-0.0"),
        (math.inf, 1.0, "rz", "inf"),
        (math.inf, -math.inf, "rm", "nan"),
    ],
)
def test_signs_of_zeros_and_what_is_not_finite(x: float, y: float, mode: str, wanted: str) -> None:
    found = number(arithmetic.add("f64", image(x), image(y), mode))  # pyright: ignore[reportArgumentType]
    assert str(found) == wanted


def test_quotients_and_roots_at_the_edges() -> None:
    assert number(arithmetic.divide("f64", image(-1.0), image(0.0), "rz")) == -math.inf
    assert math.isnan(number(arithmetic.divide("f64", image(0.0), image(0.0), "rz")))
    assert str(number(arithmetic.divide("f64", image(-1.0), image(math.inf), "rm"))) == "-0.0"
    assert math.isnan(number(arithmetic.square_root("f64", image(-1.0), "rp")))
    assert str(number(arithmetic.square_root("f64", image(-0.0), "rp"))) == "-0.0"


@given(st.integers(-(2**63), 2**63 - 1))
@example(2**53 + 1)
@example(-(2**63) + 1)
def test_integers(value: int) -> None:
    bits = np.array([value], np.int64).view(np.uint64)
    found = {mode: number(conversion.integer_to_float("f64", "s64", bits, mode)) for mode in MODES}
    brackets(found, Fraction(value))
