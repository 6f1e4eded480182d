"""What instructions read, write and are for, for those who ask of few of a kernel's thousands.

Facts are worked out when they are first asked for, and kept. Not handled: who asks of all is as well off with a tuple.
Checked by: tests/machine/protocol/slicing/test_slice.py, test_polls.py; tests/driver/reproof/test_address_proof.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.protocol.slicing.slice_operands import Facts, facts_of


class FactsAsNeeded(Sequence[Facts]):
    """The facts of instructions, by position."""

    def __init__(self, instructions: Sequence[Instruction]) -> None:
        self._instructions = instructions
        self._known: dict[int, Facts] = {}

    @overload
    def __getitem__(self, at: int) -> Facts: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Facts, ...]: ...
    def __getitem__(self, at: int | slice) -> Facts | tuple[Facts, ...]:
        if isinstance(at, slice):
            return tuple(self[each] for each in range(*at.indices(len(self))))
        found = self._known.get(at)
        if found is None:
            found = self._known[at] = facts_of(self._instructions[at])
        return found

    def __len__(self) -> int:
        return len(self._instructions)
