"""What may a kernel learn of an address, if nobody says where its buffers lie?

Whether a pointer is null, how far two addresses in one buffer are apart, and its bits below `ALIGNMENT_BYTES`, which a
launch chooses. Everything else (its high bits, which of two buffers comes first, a difference of two pointers) depends
on where the driver put the buffers. So an instruction that reads an address gives

- an address, if it moves one, adds an offset to it or chooses between some;
- what its offsets say, if it compares or subtracts two addresses from one pointer;
- a known predicate, if it compares a pointer itself with null;
- part of an address, of which some low bits are those of the address, if it narrows, shifts or displaces one;
- what these bits say, if it masks all others;
- something that is not known otherwise.

Integers are taken not to overflow: of two addresses in one buffer, the one with the greater offset is the greater one.
Not handled: addresses that are put together from halves. Checked by: tests/machine/symbolic/test_addresses.py.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.frontends.ptx.ast import Immediate, Instruction, Operand, Register

ALIGNMENT_BYTES = 256
"""Every pointer is taken to lead somewhere past a multiple of so many bytes, by any number of them."""
_ALIGNMENT_BITS = ALIGNMENT_BYTES.bit_length() - 1
_UNKNOWN = "what an address is beside null or not"
_WIDE = frozenset({"b64", "u64", "s64"})
_INTEGERS = frozenset({"u32", "s32", "u64", "s64"})


@dataclass(frozen=True, slots=True)
class Bases:
    """The pointers that a value is an address from. bare: it is one of them, or no address; single: it is the only one
    and what was added to it; bits: how many of its low bits are those of a part of an address, None for an address."""

    pointers: frozenset[Hashable]
    bare: bool
    single: bool
    bits: int | None = None


class LowBits:
    """A number that the low bits of an address give."""


LOW_BITS = LowBits()


def joined(held: Sequence[Bases | None]) -> Bases | None:
    """Of a choice between values."""
    some = [each for each in held if each is not None]
    if not some:
        return None
    pointers = frozenset[Hashable]().union(*(each.pointers for each in some))
    whole = all(each.bits is None for each in some)
    single = whole and len(some) == len(held) and len(pointers) == 1 and all(each.single for each in some)
    return Bases(pointers, whole and all(each.bare for each in some), single, None if whole else 0)


def bases_of_result(
    instruction: Instruction, names: Sequence[str], sources: Sequence[object], held: Sequence[Bases | None]
) -> Bases | LowBits | str | None:
    """The pointers that a result is an address from, None if it is no address; in words, why it is not known. names:
    of the registers that the sources give; held: of each source."""
    given = dict(zip(names, held, strict=True))
    values = dict(zip(names, sources, strict=True))
    if not isinstance(instruction.operands[0], Register) and instruction.row != "setp":
        return _UNKNOWN
    operands = instruction.operands[1:]
    sides = [given.get(each.name) if isinstance(each, Register) else None for each in operands]
    words = instruction.modifiers
    wide = not _WIDE.isdisjoint(words) and "cc" not in words
    part = _part(instruction, sides, values)
    if part is not None or any(each is not None and each.bits is not None for each in sides):
        return part or _UNKNOWN
    match instruction.row, sides:
        case (("mov" | "cvta"), [Bases() as only]) if wide:
            return only
        case "selp", [one, other, None] if wide:
            return joined((one, other))
        case "add", ([Bases() as one, None] | [None, Bases() as one]) if wide:
            return Bases(one.pointers, False, one.single)
        case "sub", [Bases() as one, None] if wide:
            return Bases(one.pointers, False, one.single)
        case "sub", [Bases() as one, Bases() as other] if wide and _alike(one, other):
            return None
        case "mad", [None, None, Bases() as one] if "hi" not in words:
            return Bases(one.pointers, False, one.single)
        case "setp", [one, other, *rest] if wide and not any(rest):
            if one is not None and other is not None and _alike(one, other):
                return None
            for address, against in ((one, operands[1]), (other, operands[0])):
                alone = (one is None) != (other is None)
                if alone and address is not None and address.bare and {"eq", "ne"} & set(words):
                    return None if _is_null(against, values) else _UNKNOWN
            return _UNKNOWN
        case _:
            return _UNKNOWN


def _part(
    instruction: Instruction, sides: Sequence[Bases | None], values: Mapping[str, object]
) -> Bases | LowBits | None:  # fmt: skip
    """What is made of some low bits of one address, None where that is not known."""
    some = [each for each in sides if each is not None]
    if len(some) != 1 or not some[0].single or "cc" in instruction.modifiers:
        return None
    (one,) = some
    operands = instruction.operands[1:]
    numbers = [_number(each, values) for each, side in zip(operands, sides, strict=True) if side is None]
    bits = _ALIGNMENT_BITS if one.bits is None else one.bits
    partial = Bases(one.pointers, False, True, bits)
    match instruction.row, sides, numbers:
        case "and", _, [int() as mask] if 0 <= mask < 1 << bits:
            return LOW_BITS
        case "shr", [Bases(), None], [int() as shift] if 0 <= shift < bits:
            return Bases(one.pointers, False, True, bits - shift)
        case "cvt", [Bases()], [] if len(instruction.modifiers) == 2 and "u16" not in instruction.modifiers:
            return partial if {*instruction.modifiers} <= _INTEGERS else None
        case (("add" | "sub"), [_, _], [_]) if one.bits is not None and "sat" not in instruction.modifiers:
            return partial
        case (("mov" | "neg" | "not"), [Bases()], []) if one.bits is not None or instruction.row != "mov":
            return partial
        case _:
            return None


def _number(operand: Operand, values: Mapping[str, object]) -> int | None:
    """A constant operand."""
    match operand:
        case Immediate(int() as value):
            return value
        case Register(name):
            found = values.get(name)
            return int(found[0]) if isinstance(found, np.ndarray) and found.size == 1 else None
        case _:
            return None


def _alike(one: Bases, other: Bases) -> bool:
    return one.single and other.single and one.pointers == other.pointers


def _is_null(operand: Operand, values: dict[str, object]) -> bool:
    match operand:
        case Immediate(value):
            return value == 0
        case Register(name):
            found = values.get(name)
            return isinstance(found, np.ndarray) and not found.any()
        case _:
            return False
