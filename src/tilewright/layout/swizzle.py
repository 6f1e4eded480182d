"""Which bits of an index does an exclusive-or swizzle exchange, and when do two indices not notice it?

Theory: `Swizzle(bits, base, shift)` adds, modulo two, the `bits` bits that start at `base + max(0, shift)` (the source)
to those that start at `base + max(0, -shift)` (the target). |shift| >= bits keeps source and target apart, so the
function is its own inverse and a bijection of all integers. It keeps everything below the target, and every block of
`2**(target + bits)` integers in a row, so multiplying by a power of two commutes with it up to `base`.

Not handled: several exclusive-ors at once, hashes of non-adjacent bits (matrices over F2 express those).
Checked by tests/layout/test_layout.py and tests/layout/test_composition.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.base.error import TilewrightError

_MOST_BITS = 62
"""So that every index that a swizzle changes fits a signed machine word."""


@dataclass(frozen=True, slots=True)
class Swizzle:
    """x -> x ^ (bits of x, moved by `shift`). bits, base >= 0; shift: to the right where positive.

    Raises TilewrightError for a negative field, |shift| < bits, or more than 62 bits in all.
    """

    bits: int
    base: int
    shift: int

    def __post_init__(self) -> None:
        fields: tuple[object, ...] = (self.bits, self.base, self.shift)
        if any(type(field) is not int for field in fields):
            raise TilewrightError(f"swizzle {fields}: bits, base and shift are integers")
        if self.bits < 0 or self.base < 0:
            raise TilewrightError(f"{self}: bits and base are not negative")
        if abs(self.shift) < self.bits:
            raise TilewrightError(
                f"{self}: it moves {self.bits} bits by {self.shift}, onto themselves", remedy="use |shift| >= bits"
            )
        if self.bits + self.base + abs(self.shift) > _MOST_BITS:
            raise TilewrightError(f"{self}: it reaches beyond bit {_MOST_BITS}")

    @property
    def source(self) -> int:
        """The lowest bit that is read."""
        return self.base + max(0, self.shift)

    @property
    def target(self) -> int:
        """The lowest bit that is changed."""
        return self.base + max(0, -self.shift)

    @property
    def top(self) -> int:
        """One past the highest bit that is read or changed."""
        return self.base + abs(self.shift) + self.bits

    @property
    def is_identity(self) -> bool:
        return self.bits == 0

    def __call__(self, value: int) -> int:
        return value ^ (value >> self.source & (1 << self.bits) - 1) << self.target

    def scaled(self, bits: int) -> Swizzle:
        """The swizzle of `x << bits` that gives this one's result shifted alike. bits: negative moves down."""
        return Swizzle(self.bits, self.base + bits, self.shift)

    def __str__(self) -> str:
        return f"Sw<{self.bits},{self.base},{self.shift}>"
