"""What does f64 arithmetic yield in each rounding mode, bit for bit?

Theory: an exact result is a fraction (or, for a square root, is compared by its square); it is rounded once, towards
the mode's side (IEEE 754, 4.3 and 6.3 for the signs of zeros). Infinities and NaN come out as NumPy has them, which no
mode changes. Element by element, so slow: only where NumPy's own operation, which rounds to nearest, will not do.
Checked by: tests/machine/numbers/test_double.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tilewright.machine.numbers.rounding import Float64, Rounding

Operation = Literal["add", "multiply", "divide", "fuse", "square_root"]


def apply(operation: Operation, rounding: Rounding, *operands: Float64) -> Float64:
    """The results of `operation` for each element: x + y, x * y, x / y, x * y + z or the root of x."""
    with np.errstate(all="ignore"):
        found = np.asarray(_ROUGH[operation](*operands), np.float64).copy()
    flat, columns = found.reshape(-1), [each.reshape(-1) for each in operands]
    for index in range(flat.size):
        values = [float(column[index]) for column in columns]
        if math.isfinite(flat[index]) or all(map(math.isfinite, values)):
            flat[index] = _one(operation, rounding, values, float(flat[index]))
    return found


def from_integer(rounding: Rounding, values: NDArray[Any]) -> Float64:
    """Integers as f64."""
    flat = [rounded(Fraction(int(value)), rounding, zero=0.0) for value in values.reshape(-1).tolist()]
    return np.array(flat, np.float64).reshape(values.shape)


def rounded(exact: Fraction, rounding: Rounding, zero: float) -> float:
    """`exact` as f64; `zero` is what an exact zero becomes."""
    if exact == 0:
        return zero
    try:
        nearest = float(exact)
    except OverflowError:
        nearest = math.inf if exact > 0 else -math.inf
    return _towards(nearest, _sign_of(exact, nearest), rounding, exact > 0)


def _sign_of(exact: Fraction, nearest: float) -> int:
    """Is the exact value above (1), below (-1) or at `nearest`?"""
    if math.isinf(nearest):
        return -1 if nearest > 0 else 1
    at = Fraction(nearest)
    return (exact > at) - (exact < at)


def _towards(nearest: float, side: int, rounding: Rounding, positive: bool) -> float:
    """The neighbour of the exact value that the mode takes, where `nearest` is one and the value lies on its `side`."""
    if rounding == "rn" or side == 0:
        return nearest
    below = nearest if side > 0 else math.nextafter(nearest, -math.inf)
    above = nearest if side < 0 else math.nextafter(nearest, math.inf)
    downward = rounding == "rm" or (rounding == "rz" and positive)
    return below if downward else above


def _one(operation: Operation, rounding: Rounding, values: list[float], rough: float) -> float:
    """One element, whose operands are finite unless `rough`, the result to nearest, is a zero of infinities."""
    if not all(map(math.isfinite, values)):
        return rough
    numbers = [Fraction(value) for value in values]
    negative = math.copysign(1, values[0]) != math.copysign(1, values[1]) if len(values) > 1 else False
    signed_zero = -0.0 if negative else 0.0
    match operation:
        case "add":
            return rounded(numbers[0] + numbers[1], rounding, _zero_sum(values[0], values[1], rounding))
        case "multiply":
            return rounded(numbers[0] * numbers[1], rounding, signed_zero)
        case "divide":
            return rough if values[1] == 0 else rounded(numbers[0] / numbers[1], rounding, signed_zero)
        case "fuse":
            product = numbers[0] * numbers[1]
            # A product that is not zero, but cancels, counts as of the other sign than the addend.
            zero = _zero_sum(signed_zero if product == 0 else -values[2], values[2], rounding)
            return rounded(product + numbers[2], rounding, zero)
        case "square_root":
            if values[0] <= 0:
                return rough
            square = Fraction(rough) ** 2
            return _towards(rough, (numbers[0] > square) - (numbers[0] < square), rounding, positive=True)


def _zero_sum(x: float, y: float, rounding: Rounding) -> float:
    """The zero that x + y is, if it is one."""
    if math.copysign(1, x) == math.copysign(1, y):
        return math.copysign(0.0, x)
    return -0.0 if rounding == "rm" else 0.0


def _product_and_sum(x: Float64, y: Float64, z: Float64) -> Float64:
    return x * y + z


_ROUGH: dict[Operation, Callable[..., Any]] = {
    "add": np.add,
    "multiply": np.multiply,
    "divide": np.divide,
    "fuse": _product_and_sum,
    "square_root": np.sqrt,
}
