"""Which words of constant memory may hold anything, and which of them does a load read?

A `.const` variable without a value is there for the host to fill (`cudaMemcpyToSymbol`): what it holds is as unknown as
a buffer. One with a value keeps it, unless the host writes it all the same; that it does not is an assumption, which
names the variable (`constants_kept`). Checked by: tests/machine/protocol/test_constant_words.py.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tilewright.base.value import dataclass
from tilewright.frontends.ptx.ast import Address, Instruction, Module, Register, Symbol
from tilewright.machine.core.lanes import UNINITIALISED, Registers, indices
from tilewright.machine.core.memory import GlobalMemory
from tilewright.machine.protocol.slicing.slice import Slice
from tilewright.machine.protocol.slicing.slice_operands import symbols_read
from tilewright.machine.protocol.slicing.steering import steering

_SPACES = ("const", "generic")


@dataclass(frozen=True, slots=True)
class LoadAddress:
    """Where a load points: to what the register in a slot holds (-1: none) and an offset."""

    slot: int
    offset: int

    def places(self, r: Registers, mask: int) -> npt.NDArray[np.int64] | None:
        """The addresses of the lanes of `mask`; None where nobody has written the register."""
        lanes = indices(mask)
        if self.slot < 0:
            return np.full(lanes.size, self.offset, np.int64)
        base = r[self.slot]
        return None if base is UNINITIALISED else base[lanes].astype(np.int64) + self.offset


def load_address(instruction: Instruction, slots: Mapping[str, int], symbols: Mapping[str, int]) -> LoadAddress | None:
    """Where a load points. symbols: addresses of variables; None if it is not an address of a register or variable."""
    match instruction.operands[1:2]:
        case [Address(Register(name), offset)] if name in slots:
            return LoadAddress(slots[name], offset)
        case [Address(Symbol(name), offset)] if name in symbols:
            return LoadAddress(-1, symbols[name] + offset)
        case _:
            return None


def may_read_constants(sliced: Slice, position: int) -> bool:
    """Whether an instruction may load from constant memory."""
    facts = sliced.text.facts[position]
    return facts.kind == "load" and facts.space in _SPACES


def reads_open_constants(memory: GlobalMemory, places: npt.NDArray[np.int64], size_bytes: int) -> bool:
    """Whether any of the loads reads a word that the host may have written."""
    return any(bool(((places < end) & (places + size_bytes > begin)).any()) for begin, end in memory.open_constants)


def constants_kept(module: Module, sliced: Slice) -> tuple[str, ...]:
    """Constant variables with a value that may steer a kernel, by name."""
    valued = {
        each.name
        for each in (*module.variables, *sliced.text.kernel.variables)
        if each.space == "const" and each.initial is not None
    }
    if not valued:
        return ()
    steers = steering(sliced).registers
    named = {
        name
        for position in sliced.executed
        if not steers.isdisjoint(sliced.text.facts[position].writes)
        for name, _ in symbols_read(sliced.text.flow.instructions[position])
    }
    return tuple(sorted(valued & named))
