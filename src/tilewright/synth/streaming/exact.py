"""Numbers that keep every identity of fields and of exp, so that equal expressions give equal numbers.

Theory: arithmetic modulo a prime P obeys the laws of fields, and if P = 2 Q + 1 with Q prime, the powers 4^u modulo P,
u modulo Q, obey exp(a + b) = exp(a) exp(b). So a number is kept modulo a chain of primes, each 2 times the next + 1:
modulo the first as a value, modulo the second as an exponent, and so on; the last one's exp is not known, and then
neither is what is computed of it. What has no such laws here (log, tanh, a rounding) is a fixed scrambling of the
operand. Two expressions that are equal by these laws give equal numbers; of two that are not, the numbers differ at a
random point but for one chance in 10^17.

Beside that a number has a float, which says what is larger, what is infinite and what is no number. -inf, +inf and NaN
follow IEEE 754: exp(-inf) = 0, 0 inf = NaN. There are no roundings, no overflow and one zero.

Checked by: tests/synth/streaming/test_exact.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from tilewright.base.value import value
from tilewright.ir.function import Function

PRIMES = (1152921504610699199, 576460752305349599, 288230376152674799, 144115188076337399)
"""Each is 2 times the next + 1."""
_ROOT, _OTHER_ROOT = 4, 9
"""Squares: of prime order modulo each of the first three. One stands for e, the other for 2."""
Residues = tuple[int | None, ...]
_UNKNOWN: Residues = (None,) * len(PRIMES)


@value
class Exact:
    """residues: modulo each prime, None where not known; about: the number as a float, infinite or NaN where it is."""

    residues: Residues
    about: float

    def __add__(self, other: Exact) -> Exact:
        about = self.about + other.about
        if not math.isfinite(about):
            return special(about)
        sums = zip(self.residues, other.residues, PRIMES, strict=True)
        return Exact(tuple([None if a is None or b is None else (a + b) % p for a, b, p in sums]), about)

    def __neg__(self) -> Exact:
        if not math.isfinite(self.about):
            return special(-self.about)
        negated = tuple(None if a is None else -a % p for a, p in zip(self.residues, PRIMES, strict=True))
        return Exact(negated, -self.about)

    def __sub__(self, other: Exact) -> Exact:
        return self + -other

    def __mul__(self, other: Exact) -> Exact:
        if math.isfinite(self.about) and math.isfinite(other.about):
            return Exact(_products(self.residues, other.residues), self.about * other.about)
        if self.is_zero or other.is_zero:
            return NAN
        return special(self.about * other.about)

    def __truediv__(self, other: Exact) -> Exact:
        if math.isnan(self.about) or math.isnan(other.about):
            return NAN
        if math.isinf(other.about):
            return NAN if math.isinf(self.about) else ZERO
        if other.is_zero:
            return NAN if self.is_zero else special(math.copysign(math.inf, self.about))
        if math.isinf(self.about):
            return special(math.copysign(math.inf, self.about) * math.copysign(1, other.about))
        inverse = tuple(None if not a else pow(a, -1, p) for a, p in zip(other.residues, PRIMES, strict=True))
        about = self.about / other.about if other.about else math.inf
        return Exact(_products(self.residues, inverse), about)

    @property
    def is_zero(self) -> bool:
        return math.isfinite(self.about) and (self.residues[0] == 0 if self.residues[0] is not None else not self.about)

    def same(self, other: Exact) -> bool:
        """Whether the two are equal, NaN being equal to NaN; by their floats where nothing else is known."""
        if not (math.isfinite(self.about) and math.isfinite(other.about)):
            return self.about == other.about or (math.isnan(self.about) and math.isnan(other.about))
        if self.residues[0] is None or other.residues[0] is None:
            return math.isclose(self.about, other.about, rel_tol=1e-6, abs_tol=1e-9)
        return self.residues[0] == other.residues[0]


def _products(left: Residues, right: Residues) -> Residues:
    factors = zip(left, right, PRIMES, strict=True)
    return tuple([None if a is None or b is None else a * b % p for a, b, p in factors])


@lru_cache(maxsize=4096)
def exact(value: float | Fraction) -> Exact:
    """A number as it is."""
    if isinstance(value, float) and not math.isfinite(value):
        return special(value)
    whole = Fraction(value)
    residues = tuple([whole.numerator * pow(whole.denominator, -1, p) % p for p in PRIMES])
    return Exact(residues, float(whole))


def special(about: float) -> Exact:
    """An infinity or NaN."""
    assert not math.isfinite(about)
    return Exact(_UNKNOWN, about)


ZERO, ONE, NAN = exact(0.0), exact(1.0), special(math.nan)


def exponential(x: Exact) -> Exact:
    """exp x; exp(-inf) = 0."""
    if math.isinf(x.about):
        return ZERO if x.about < 0 else x
    if math.isnan(x.about):
        return x
    return Exact(_powers(_ROOT, x), math.exp(min(x.about, 700.0)))


def _exponential2(x: Exact) -> Exact:
    """2 to the x."""
    return exponential(x) if not math.isfinite(x.about) else Exact(_powers(_OTHER_ROOT, x), 2.0 ** min(x.about, 1000.0))


def _powers(root: int, x: Exact) -> Residues:
    powers = [
        None if exponent is None else pow(root, exponent, prime)
        for prime, exponent in zip(PRIMES, x.residues[1:], strict=False)
    ]
    return (*powers, None)


def scrambled(name: str, x: Exact, about: float) -> Exact:
    """A function without laws: a number that depends on its operand alone. about: the result as a float."""
    if not math.isfinite(about):
        return special(about)
    if x.residues[0] is None:
        return Exact(_UNKNOWN, about)
    seed = int.from_bytes(name.encode(), "little")
    return Exact(tuple(pow(x.residues[0] * 2654435761 + seed, 5, p) for p in PRIMES), about)


def _compared(left: Exact, right: Exact) -> int | None:
    """-1, 0 or 1; None where an operand is NaN."""
    if math.isnan(left.about) or math.isnan(right.about):
        return None
    return 0 if left.same(right) else -1 if left.about < right.about else 1


def _extreme(sign: int) -> Callable[[Exact, Exact], Exact]:
    def chosen(left: Exact, right: Exact) -> Exact:
        order = _compared(left, right)
        return NAN if order is None else left if order * sign >= 0 else right

    return chosen


def _holds(*orders: int) -> Callable[[Exact, Exact], Exact]:
    return lambda left, right: ONE if _compared(left, right) in orders else ZERO


def _of_float(name: str, function: Callable[[float], float], *fixed: float) -> Callable[[Exact], Exact]:
    """fixed: operands whose result is a number of the field: 0 at 0, say."""

    def applied(x: Exact) -> Exact:
        if math.isnan(x.about):
            return NAN
        value = 0.0 if x.is_zero else x.about
        try:
            about = function(value)
        except (ValueError, ZeroDivisionError, OverflowError):
            about = math.nan
        if value in fixed or math.isinf(value):
            return exact(about)
        return scrambled(name, x, about)

    return applied


def _rsqrt(x: float) -> float:
    return math.inf if x == 0 else 1 / math.sqrt(x)


def _logarithm(x: float) -> float:
    return -math.inf if x == 0 else math.log(x)


def _silu(x: float) -> float:
    return math.nan if x == -math.inf else x / (1 + math.exp(-x))


def _gelu(x: float) -> float:
    return math.nan if x == -math.inf else 0.5 * x * (1 + math.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def _rounded(x: float) -> float:
    return float(round(x)) if math.isfinite(x) else x


def _sigmoid(x: float) -> float:
    return 0.0 if x == -math.inf else 1 / (1 + math.exp(-x))


def _fused(a: Exact, b: Exact, c: Exact) -> Exact:
    return a * b + c


def _where(condition: Exact, chosen: Exact, other: Exact) -> Exact:
    return other if condition.is_zero else chosen


def _absolute(x: Exact) -> Exact:
    return -x if x.about < 0 else x


def _rectified(x: Exact) -> Exact:
    return ZERO if x.about < 0 else x


FUNCTIONS: dict[Function, Callable[..., Exact]] = {
    Function.ADD: Exact.__add__,
    Function.SUB: Exact.__sub__,
    Function.MUL: Exact.__mul__,
    Function.DIV: Exact.__truediv__,
    Function.MAX: _extreme(1),
    Function.MIN: _extreme(-1),
    Function.NEG: Exact.__neg__,
    Function.ABS: _absolute,
    Function.EXP: exponential,
    Function.EXP2: _exponential2,
    Function.TANH: _of_float("tanh", math.tanh, 0.0),
    Function.SIGMOID: _of_float("sigmoid", _sigmoid, 0.0),
    Function.RELU: _rectified,
    Function.GELU: _of_float("gelu", _gelu, 0.0),
    Function.SILU: _of_float("silu", _silu, 0.0),
    Function.SQRT: _of_float("sqrt", math.sqrt, 0.0, 1.0),
    Function.RSQRT: _of_float("rsqrt", _rsqrt, 0.0, 1.0),
    Function.LOG: _of_float("log", _logarithm, 0.0, 1.0),
    Function.ROUND: _of_float("round", _rounded, 0.0),
    Function.LT: _holds(-1),
    Function.LE: _holds(-1, 0),
    Function.EQ: _holds(0),
    Function.WHERE: _where,
    Function.FMA: _fused,
}
"""Every elementwise function, on these numbers."""
