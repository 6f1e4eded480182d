"""What does a step read and write of a warp's registers, when it is run to see? Checked by: tests/machine/symbolic."""

from __future__ import annotations

from typing import Any

from tilewright.machine.core.lanes import Registers


class NotedRegisters:
    """A register file that notes what is read and keeps what is written to itself."""

    def __init__(self, registers: Registers) -> None:
        self.registers = registers
        self.reads: dict[int, None] = {}
        self.written: dict[int, Any] = {}

    def __getitem__(self, slot: int) -> Any:
        self.reads[slot] = None
        return self.registers[slot]

    def __setitem__(self, slot: int, value: Any) -> None:
        self.written[slot] = value
