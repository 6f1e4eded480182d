"""What does the result of one operation on integers gain, by what its operands gain?

Exact rules, of which `machine.protocol.loops.induction` makes its argument: a quotient, a mask and a field of bits gain
something fixed only where the gain is a multiple of what they cut off. Raises Inexact where no rule gives a number.
Not handled: what an operand holds; `counter_values` does. Checked by: tests/machine/protocol/loops/test_induction.py.
"""

from __future__ import annotations

from fractions import Fraction

from tilewright.frontends.ptx.ast import Immediate, Instruction, Operand
from tilewright.machine.protocol.loops.counter_values import Gain, Inexact

_RECIPROCAL_ERROR = Fraction(1, 1 << 28)
"""By how much of itself a quotient's gain may be wrong: reciprocals are rounded to 31 bits or more."""


def nearly_whole(gain: Fraction) -> Gain:
    """Division by a constant is compiled to the high half of a product with a rounded reciprocal, and perhaps a shift.
    It is exact where compilers use it, so a gain that is whole but for the reciprocal's rounding is whole."""
    whole = round(gain)
    return whole if abs(gain - whole) <= abs(whole) * _RECIPROCAL_ERROR else gain


def product_gain(item: Instruction, one: Gain, other: Gain) -> Gain:
    if not one and not other:
        return 0
    if one and other:
        raise Inexact("a product of two counters")
    factor = item.operands[2] if one else item.operands[1]
    return (one or other) * fixed(factor, "a factor")


def quotient_gain(gain: Gain, divisor: int) -> Gain:
    if isinstance(gain, Fraction) and divisor > 0:
        whole = nearly_whole(gain / divisor)
        if isinstance(whole, int):
            return whole
    if divisor <= 0 or gain % divisor:
        raise Inexact(f"a counter that gains {gain} a period is divided by {divisor}")
    return int(gain) // divisor


def masked_gain(gain: Gain, mask: int) -> Gain:
    if mask >= 0:
        if gain % (1 << mask.bit_length()):
            raise Inexact(f"a counter that gains {gain} a period is masked by {mask:#x}")
        return 0
    low = ~mask
    if low & (low + 1) or gain % (low + 1):
        raise Inexact(f"a counter that gains {gain} a period is masked by {mask:#x}")
    return gain


def gain_above(gain: Gain, bits: int) -> Gain:
    """Bits that are set or turned over below all that a gain moves leave it as it is."""
    if not isinstance(gain, int) or not 0 <= bits < gain & -gain:
        raise Inexact(f"bits {bits:#x} of a counter that gains {gain} a period are set or turned over")
    return gain


def field_gain(gain: Gain, position: int, length: int) -> Gain:
    """Bits `position` to `position + length` - 1 return with a gain of a multiple of the bit above (PTX ISA, bfe: only
    the low 8 bits of both numbers count)."""
    above = (position & 0xFF) + (length & 0xFF)
    if gain % (1 << above):
        raise Inexact(f"bits below {above} are taken from a counter that gains {gain} a period")
    return 0


def fixed(operand: Operand, what: str) -> int:
    if not isinstance(operand, Immediate):
        raise Inexact(f"{what} that is no constant")
    return operand.value
