"""What is known of an integer: the interval it lies in, and its remainder modulo some number.

Theory: abstract interpretation. A fact stands for the set of integers x with low <= x <= high and x = remainder
(mod modulus); intervals and congruences (Granger 1989) in a reduced product: bounds are members of the residue class,
so that each half sharpens the other. Every operation on facts covers what the operation gives on any members (it may
cover more); a comparison answers yes or no only where it holds for all members or for none.

Not handled: relations between two integers (`tilewright.layout.numbers.integer_expression` keeps those that stay
polynomial); unions with gaps. An empty set is no fact: operations that could give one return None. Checked by
tests/layout/numbers/test_integer_fact.py, every operation against enumeration.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import gcd, inf


class Truth(Enum):
    """A three-valued answer: of all that may be, all, none or some (for what is known) satisfy the question."""

    NO = "no"
    MAYBE = "maybe"
    YES = "yes"

    def __and__(self, other: Truth | bool) -> Truth:
        other = truth_of(other)
        if self is Truth.NO or other is Truth.NO:
            return Truth.NO
        return Truth.YES if self is Truth.YES and other is Truth.YES else Truth.MAYBE

    def __or__(self, other: Truth | bool) -> Truth:
        other = truth_of(other)
        if self is Truth.YES or other is Truth.YES:
            return Truth.YES
        return Truth.NO if self is Truth.NO and other is Truth.NO else Truth.MAYBE

    __rand__ = __and__
    __ror__ = __or__

    def __invert__(self) -> Truth:
        match self:
            case Truth.YES:
                return Truth.NO
            case Truth.NO:
                return Truth.YES
            case Truth.MAYBE:
                return Truth.MAYBE

    def __bool__(self) -> bool:
        raise TypeError("a three-valued answer is not true or false: compare it with Truth.YES or Truth.NO")


def truth_of(value: Truth | bool) -> Truth:
    if isinstance(value, Truth):
        return value
    return Truth.YES if value else Truth.NO


@dataclass(frozen=True, slots=True)
class IntegerFact:
    """The integers from `low` to `high` (None: unbounded) that are `remainder` modulo `modulus`.

    Normal form, which construction brings about: bounds belong to the residue class; modulus 0 for exactly one integer,
    else modulus >= 1 and 0 <= remainder < modulus. Equal sets have equal facts. Raises ValueError for an empty set.
    """

    low: int | None = None
    high: int | None = None
    modulus: int = 1
    remainder: int = 0

    def __post_init__(self) -> None:
        normal = _normal(self.low, self.high, self.modulus, self.remainder)
        if normal is None:
            raise ValueError("no integer satisfies these facts")
        if normal != (self.low, self.high, self.modulus, self.remainder):
            for name, value in zip(("low", "high", "modulus", "remainder"), normal, strict=True):
                object.__setattr__(self, name, value)

    @property
    def constant(self) -> int | None:
        """The integer, where there is but one."""
        return self.remainder if self.modulus == 0 else None

    def __contains__(self, value: int) -> bool:
        return (
            (self.low is None or self.low <= value)
            and (self.high is None or value <= self.high)
            and (value == self.remainder if self.modulus == 0 else value % self.modulus == self.remainder)
        )

    def divisible_by(self, divisor: int) -> Truth:
        """Whether `divisor` (at least 1) divides the integer."""
        return equal(self % divisor, 0)

    def __add__(self, other: IntegerFact | int) -> IntegerFact:
        other = as_fact(other)
        low = None if self.low is None or other.low is None else self.low + other.low
        high = None if self.high is None or other.high is None else self.high + other.high
        return IntegerFact(low, high, gcd(self.modulus, other.modulus), self.remainder + other.remainder)

    def __neg__(self) -> IntegerFact:
        low = None if self.high is None else -self.high
        high = None if self.low is None else -self.low
        return IntegerFact(low, high, self.modulus, -self.remainder)

    def __sub__(self, other: IntegerFact | int) -> IntegerFact:
        return self + (-as_fact(other))

    def __rsub__(self, other: int) -> IntegerFact:
        return as_fact(other) - self

    def __mul__(self, other: IntegerFact | int) -> IntegerFact:
        other = as_fact(other)
        if other.modulus == 0:
            return self._scaled(other.remainder)
        if self.modulus == 0:
            return other._scaled(self.remainder)
        corners = [_times(a, b) for a in _ends(self) for b in _ends(other)]
        # (m j + r)(n k + s) = m n j k + m s j + n r k + r s
        modulus = gcd(self.modulus * other.modulus, self.modulus * other.remainder, other.modulus * self.remainder)
        return IntegerFact(_finite(min(corners)), _finite(max(corners)), modulus, self.remainder * other.remainder)

    def _scaled(self, factor: int) -> IntegerFact:
        low, high = self.low, self.high
        if factor < 0:
            low, high = high, low
        elif factor == 0:
            return as_fact(0)
        low, high = None if low is None else low * factor, None if high is None else high * factor
        return IntegerFact(low, high, self.modulus * factor, self.remainder * factor)

    __radd__ = __add__
    __rmul__ = __mul__

    def __floordiv__(self, other: IntegerFact | int) -> IntegerFact:
        """The quotient rounded down. Where the divisor may be zero, it covers the cases in which it is not."""
        divisor = as_fact(other)
        if divisor.high is not None and divisor.high < 0:
            return (-self) // (-divisor)
        if divisor.low is None or divisor.low <= 0:
            positive = meet(divisor, AT_LEAST_ONE)
            negative = meet(divisor, IntegerFact(None, -1))
            if positive is None or negative is None:
                known = positive or negative
                return self // known if known is not None else ANY
            return join(self // positive, self // negative)
        most = divisor.high
        low, high = self.low, self.high
        if low is not None:
            low = low // divisor.low if low < 0 else (0 if most is None else low // most)
        if high is not None:
            high = high // divisor.low if high >= 0 else (-1 if most is None else high // most)
        if most is not None and most == divisor.low and self.modulus and self.modulus % most == 0:
            # x = m k + r with d dividing m: x // d = (m / d) k + r // d
            return IntegerFact(low, high, self.modulus // most, self.remainder // most)
        return IntegerFact(low, high)

    def __rfloordiv__(self, other: int) -> IntegerFact:
        return as_fact(other) // self

    def __mod__(self, other: IntegerFact | int) -> IntegerFact:
        """The remainder with the divisor's sign. Where the divisor may be zero, it covers the cases where it is not."""
        divisor = as_fact(other)
        if divisor.high is not None and divisor.high < 0:
            return -((-self) % (-divisor))
        if divisor.low is None or divisor.low <= 0:
            positive = meet(divisor, AT_LEAST_ONE)
            negative = meet(divisor, IntegerFact(None, -1))
            if positive is None or negative is None:
                known = positive or negative
                return self % known if known is not None else ANY
            return join(self % positive, self % negative)
        least, most = divisor.low, divisor.high
        if least == most and self.modulus % least == 0:
            return as_fact(self.remainder % least)
        if self.low is not None and self.high is not None:
            quotient = self.low // least
            if least == most and self.high // least == quotient:
                return self - quotient * least
            if self.low >= 0 and self.high < least:
                return self
        # The divisor is a multiple of its congruence's gcd, and so the remainder keeps the class modulo that.
        shared = gcd(self.modulus, divisor.modulus, divisor.remainder)
        high = None if most is None else most - 1
        if self.low is not None and self.low >= 0 and self.high is not None:
            high = self.high if high is None else min(high, self.high)
        return IntegerFact(0, high, shared, self.remainder)

    def __rmod__(self, other: int) -> IntegerFact:
        return as_fact(other) % self

    def __lshift__(self, bits: int) -> IntegerFact:
        return self * (1 << bits)

    def __rshift__(self, bits: int) -> IntegerFact:
        return self // (1 << bits)

    def __lt__(self, other: IntegerFact | int) -> Truth:
        other = as_fact(other)
        if self.high is not None and other.low is not None and self.high < other.low:
            return Truth.YES
        if self.low is not None and other.high is not None and self.low >= other.high:
            return Truth.NO
        return Truth.MAYBE

    def __le__(self, other: IntegerFact | int) -> Truth:
        return ~(as_fact(other) < self)

    def __gt__(self, other: IntegerFact | int) -> Truth:
        return as_fact(other) < self

    def __ge__(self, other: IntegerFact | int) -> Truth:
        return ~(self < other)

    def __str__(self) -> str:
        if self.modulus == 0:
            return str(self.remainder)
        low = "" if self.low is None else f"{self.low} <= "
        high = "" if self.high is None else f" <= {self.high}"
        each = "" if self.modulus == 1 else f", % {self.modulus} == {self.remainder}"
        return f"{low}x{high}{each}"


def equal(left: IntegerFact | int, right: IntegerFact | int) -> Truth:
    """Whether the two integers are equal (`==` asks whether the two facts are)."""
    left, right = as_fact(left), as_fact(right)
    if left.modulus == 0 and right.modulus == 0:
        return truth_of(left.remainder == right.remainder)
    return Truth.NO if meet(left, right) is None else Truth.MAYBE


def meet(left: IntegerFact, right: IntegerFact) -> IntegerFact | None:
    """The integers that satisfy both facts, exactly; None where there are none."""
    classes = _common_class(left.modulus, left.remainder, right.modulus, right.remainder)
    if classes is None:
        return None
    low = right.low if left.low is None else left.low if right.low is None else max(left.low, right.low)
    high = right.high if left.high is None else left.high if right.high is None else min(left.high, right.high)
    normal = _normal(low, high, *classes)
    return None if normal is None else IntegerFact(*normal)


def join(left: IntegerFact, right: IntegerFact) -> IntegerFact:
    """The least fact that covers both."""
    low = None if left.low is None or right.low is None else min(left.low, right.low)
    high = None if left.high is None or right.high is None else max(left.high, right.high)
    modulus = gcd(left.modulus, right.modulus, left.remainder - right.remainder)
    return IntegerFact(low, high, modulus, left.remainder)


def as_fact(value: IntegerFact | int) -> IntegerFact:
    return value if isinstance(value, IntegerFact) else IntegerFact(value, value, 0, value)


def _normal(
    low: int | None, high: int | None, modulus: int, remainder: int
) -> tuple[int | None, int | None, int, int] | None:
    modulus = abs(modulus)
    if modulus == 0:
        inside = (low is None or low <= remainder) and (high is None or remainder <= high)
        return (remainder, remainder, 0, remainder) if inside else None
    remainder %= modulus
    if low is not None:
        low += (remainder - low) % modulus
    if high is not None:
        high -= (high - remainder) % modulus
        if low is not None:
            if low > high:
                return None
            if low == high:
                return low, low, 0, low
    return low, high, modulus, remainder


def _common_class(modulus: int, remainder: int, other: int, wanted: int) -> tuple[int, int] | None:
    """Chinese remainders: the class of the integers in both classes; None where there are none."""
    if modulus == 0 or other == 0:
        if modulus == 0:
            modulus, remainder, other, wanted = other, wanted, modulus, remainder
        inside = wanted == remainder if modulus == 0 else (wanted - remainder) % modulus == 0
        return (0, wanted) if inside else None
    shared = gcd(modulus, other)
    if (wanted - remainder) % shared:
        return None
    step = (wanted - remainder) // shared * pow(modulus // shared, -1, other // shared) % (other // shared)
    return modulus // shared * other, remainder + modulus * step


def _ends(fact: IntegerFact) -> tuple[int | float, int | float]:
    return -inf if fact.low is None else fact.low, inf if fact.high is None else fact.high


def _times(left: int | float, right: int | float) -> int | float:
    if left == 0 or right == 0:
        return 0
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    return inf if (left > 0) == (right > 0) else -inf


def _finite(value: int | float) -> int | None:
    return value if isinstance(value, int) else None


ANY = IntegerFact()
"""Nothing is known."""

AT_LEAST_ONE = IntegerFact(1)
