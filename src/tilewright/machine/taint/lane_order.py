"""What do several lanes leave in the same bytes of shared memory, and does it depend on which of them comes first?

Of lanes that store different numbers to one address by one instruction, one number stays, and nobody says whose (CUDA
C++ Programming Guide, SIMT architecture). What an atomic operation gives depends on those that came before, of other
lanes and of other warps. What such operations leave does not where all in the kernel are of one kind that is the same
in any order.

Not handled: that operations of several warps may be ordered by barriers, so that the order is no chance: they are
unknown data as well; stores to global memory.
Checked by: tests/driver/check/test_lane_order.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from tilewright.base.value import dataclass
from tilewright.frontends.ptx.ast import Address, Instruction, Register, Vector
from tilewright.machine.core.lanes import UNINITIALISED, Registers, indices
from tilewright.machine.protocol.slicing.slice_operands import Facts

_IN_ANY_ORDER = frozenset({"add", "and", "or", "xor", "min", "max"})
_WHOLE = re.compile(r"([usb])(\d+)")
"""A type of whole numbers. Sums of floating-point numbers depend on their order."""


@dataclass(frozen=True, slots=True)
class LaneStore:
    """What the lanes of a store write, and where. place: the slot of the address's register, -1 where all lanes have
    one address; values: the slots of what is stored."""

    place: int
    values: tuple[int, ...]

    def differs(self, r: Registers, mask: int) -> bool:
        """Do some lanes of `mask` store different numbers to one address?"""
        lanes = indices(mask)
        rows = [r[slot] for slot in self.values]
        if lanes.size < 2 or any(row is UNINITIALISED for row in rows):
            return False
        stored = [row[lanes] for row in rows]
        if all((row == row[0]).all() for row in stored):
            return False
        places = np.zeros(lanes.size, np.int64) if self.place < 0 else r[self.place][lanes]
        _, first, group = np.unique(places, return_index=True, return_inverse=True)
        return first.size < lanes.size and any((row != row[first][group]).any() for row in stored)


def lane_store(instruction: Instruction, slots: Mapping[str, int]) -> LaneStore | None:
    """What a store writes where; None of what is no store of registers."""
    match instruction.row, instruction.operands:
        case "st" | "st.async", (Address(base), Register() | Vector() as stored, *_):
            items = stored.items if isinstance(stored, Vector) else (stored,)
            names = [each.name for each in items if isinstance(each, Register) and each.name in slots]
            place = slots.get(base.name, -1) if isinstance(base, Register) else -1
            return LaneStore(place, tuple(slots[name] for name in names))
        case _:
            return None


def same_in_any_order(instructions: Sequence[Instruction], facts: Sequence[Facts]) -> bool:
    """Whether all atomic operations on shared memory leave the same, whichever comes first."""
    kinds: set[tuple[str, ...]] = set()
    for each, its in zip(instructions, facts, strict=True):
        if each.row in ("atom", "red") and its.space in ("shared", "generic"):
            kinds.add(_kind(each.modifiers))
    return len(kinds) <= 1 and () not in kinds


def _kind(modifiers: Sequence[str]) -> tuple[str, ...]:
    """The operation and the width of an atomic operation, and of an extreme the sign, by which another one is found;
    nothing of what depends on the order."""
    words = tuple(word for word in modifiers if word in _IN_ANY_ORDER)
    number = _WHOLE.fullmatch(modifiers[-1])
    if not words or number is None:
        return ()
    return (*words, number[2], number[1] if {"min", "max"} & {*words} else "")
