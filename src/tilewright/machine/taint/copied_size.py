"""Does a `cp.async` read no more than it copies, whatever data says how much it reads?

The ISA leaves it undefined where it reads more. Compilers compute the size of what data decides without a branch, as
`selp 16, 0` or as `((x & 0x80000000) >> 27) ^ 16`. So the bits are followed that a register may have set, over all of
its definitions: the number that has all of them is the largest.
Where a register is written again, what it held before counts as well.
Not handled: sums and products.
Checked by: tests/machine/taint/test_amount_read.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.frontends.ptx.ast import Immediate, Instruction, Operand, Register
from tilewright.machine.protocol.slicing.slice import Slice

_ALL = (1 << 64) - 1
_REGISTERS_MOST = 32
"""Registers that a size is computed of, beyond which it may be anything."""
_UNSIGNED = frozenset({"b16", "b32", "b64", "u16", "u32", "u64"})
_KINDS = _UNSIGNED | {"s16", "s32", "s64"}
_FOLLOWED = frozenset({"mov", "selp", "and", "or", "xor", "shr"})


def reads_within(sliced: Slice, copy: Instruction) -> bool:
    """Whether a `cp.async` reads no more than it copies, as far as the text says."""
    if len(copy.operands) != 4 or not isinstance(copy.operands[2], Immediate):
        return False
    size = copy.operands[3]
    bits = _bits_of(sliced, size.name) if isinstance(size, Register) else {}
    return _held(size, bits) <= copy.operands[2].value


def _bits_of(sliced: Slice, name: str) -> dict[str, int]:
    """The bits that may be set in a register and in those that it is computed of: the least that fit all definitions.
    Registers that are not followed are left out."""
    written = {name: _definitions(sliced, name)}
    waiting = [name]
    while waiting and len(written) <= _REGISTERS_MOST:
        for item in written[waiting.pop()]:
            for each in item.operands[1:3]:
                if isinstance(each, Register) and each.name not in written:
                    written[each.name] = _definitions(sliced, each.name)
                    waiting.append(each.name)
    bits = {each: 0 for each, items in written.items() if items and not waiting}
    while True:
        before = dict(bits)
        for each in bits:
            for item in written[each]:
                bits[each] |= _written(item, before)
        if bits == before:
            return bits


def _definitions(sliced: Slice, name: str) -> tuple[Instruction, ...]:
    """What writes a register, if each of these is followed."""
    found = tuple(sliced.text.flow.instructions[at] for at in sliced.text.definitions.get(name, ()))
    followed = all(
        each.row in _FOLLOWED and each.modifiers[-1] in _KINDS and isinstance(each.operands[0], Register)
        for each in found
    )
    return found if followed else ()


def _held(operand: Operand, bits: Mapping[str, int]) -> int:
    """The bits that may be set in an operand."""
    match operand:
        case Immediate(value):
            return value & _ALL
        case Register(name):
            return bits.get(name, _ALL)
        case _:
            return _ALL


def _written(item: Instruction, bits: Mapping[str, int]) -> int:
    """The bits that may be set in the register that an instruction writes."""
    kind = item.modifiers[-1]
    width = (1 << int(kind[1:])) - 1
    some = [_held(each, bits) & width for each in item.operands[1:3]]
    match item.row, some:
        case "mov", [one]:
            return one
        case (("selp" | "or" | "xor"), [one, other]):
            return one | other
        case "and", [one, other]:
            return one & other
        case "shr", [one, _] if isinstance(item.operands[2], Immediate) and kind in _UNSIGNED:
            return one >> item.operands[2].value if item.operands[2].value >= 0 else width
        case _:
            return width
