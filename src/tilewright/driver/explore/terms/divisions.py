"""Which expressions are divisions by a constant, as compilers write them? The high half of a product with a reciprocal.

`x / d` of 32 bits is `x * factor >> 32 + shift`, rounded down, with a factor a little above 2^(32 + shift) / d. A
factor of 32 bits is negative as a signed number: then the dividend is added to the high half, which lacks it. To round
the quotient of a negative number up, a compiler adds its sign bit, which is the dividend's.

Source: H. Warren, "Hacker's Delight", chapter 10.
Not handled: factors of 33 bits, which numbers without sign may need (their sum is halved on the way); divisions of 64
bits. Checked by: tests/driver/explore/terms/test_symbolic_terms.py, against the machine's steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.frontends.ptx.ast import Immediate
from tilewright.machine.symbolic.expression import Applied, Node


def _reciprocal(factor: int, shift: int, *, signed: bool, wide: bool = False) -> int | None:
    """The d for which `x * factor >> 32 + shift` is x / d rounded down: `factor * d` exceeds 2^(32 + shift) by so
    little that no x of 32 bits notices, but for negative multiples of d, of which it is one less. None if there is no
    such d of as many bits. wide: the factor may have as many bits as a number without sign.
    Source: H. Warren, "Hacker's Delight", chapter 10."""
    bits_of_number = 31 if signed else 32
    if factor <= 0 or factor >> (32 if wide else bits_of_number) or not 0 <= shift < 32:
        return None
    power = 1 << (32 + shift)
    divisor = -(-power // factor)
    excess = factor * divisor - power
    within = divisor > 1 and not divisor >> bits_of_number
    return divisor if within and 0 < excess << bits_of_number <= power else None


@dataclass(frozen=True, slots=True)
class Division:
    """An expression that is another one divided by a constant, as compilers write it."""

    dividend: Node
    divisor: int
    signed: bool

    @property
    def key(self) -> tuple[int, int, bool]:
        return self.dividend.number, self.divisor, self.signed


def division_of(node: Node) -> Division | None:
    """The division that a node is, if it is one: the high half of a product, perhaps shifted."""
    shift, shifted, high = 0, None, _high_half(node)
    if high is None:
        if not isinstance(node.operation, Applied) or node.operation.instruction.row != "shr":
            return None
        shifted = node.operation.instruction.modifiers
        amount = node.operation.instruction.operands[2]
        inner = node.sources[0] if node.sources else None
        if not isinstance(amount, Immediate) or not isinstance(inner, Node):
            return None
        shift, high = amount.value, _high_half(inner)
    if high is None:
        return None
    if shifted is not None and (shifted not in (("s32",),) if high.signed else shifted not in (("u32",), ("b32",))):
        return None
    divisor = _reciprocal(high.factor, shift, signed=high.signed, wide=high.added)
    return None if divisor is None else Division(high.dividend, divisor, high.signed)


@dataclass(frozen=True, slots=True)
class _HighHalf:
    """The high half of a product of a number with a positive constant. added: the constant has 32 bits, which are
    negative as a signed number, and the dividend was added to make up for it."""

    dividend: Node
    factor: int
    signed: bool
    added: bool = False


def _high_half(node: Node) -> _HighHalf | None:
    """The high half of a product that a node is, if it is one."""
    if not isinstance(node.operation, Applied):
        return None
    instruction, sources = node.operation.instruction, node.sources
    if instruction.row == "add" and instruction.modifiers in (("s32",), ("u32",)) and len(sources) == 2:
        for product, other in (sources, sources[::-1]):
            found = _product_with_constant(product) if isinstance(product, Node) else None
            if found is not None and found.signed and found.dividend is other and found.factor >> 31:
                return replace(found, added=True)
    found = _product_with_constant(node)
    return None if found is None or (found.signed and found.factor >> 31) else found


def _product_with_constant(node: Node) -> _HighHalf | None:
    if not isinstance(node.operation, Applied) or node.operation.instruction.row != "mul":
        return None
    instruction = node.operation.instruction
    dividends = [each for each in node.sources if isinstance(each, Node)]
    factors = [int(each[0]) for each in node.sources if not isinstance(each, Node) and each.size == 1]
    if "hi" not in instruction.modifiers or len(dividends) != 1 or len(factors) != 1 or not dividends[0].uniform:
        return None
    signed = "s32" in instruction.modifiers
    return _HighHalf(dividends[0], factors[0], signed) if signed or "u32" in instruction.modifiers else None


def sign_of(node: Node) -> Node | None:
    """The number whose sign bit a node is, where it is taken of the high half of a product with a positive constant:
    that is below 0 where the number is."""
    if not isinstance(node.operation, Applied) or node.operation.instruction.row != "shr":
        return None
    instruction, inner = node.operation.instruction, node.sources[0] if node.sources else None
    high = _high_half(inner) if isinstance(inner, Node) else None
    last = instruction.operands[2] == Immediate(31) and instruction.modifiers in (("u32",), ("b32",))
    return high.dividend if high is not None and high.signed and high.factor and last else None
