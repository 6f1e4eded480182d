"""How PTX text is put together: lines, fresh registers and labels, every opcode looked up in the instruction table.

One `Text` collects the body of one kernel. Registers are virtual and typed by their prefix; `declarations` lists how
many of each were taken. Nothing here knows what the instructions mean: an opcode without a row is refused at once, its
modifiers and operands are held against the row's forms when the reader parses the whole text again.
Checked by: tests/lower/test_ptx_text.py and test_values.py.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import cache

from tilewright.targets.ptx import instruction_row

_PREFIXES = {"pred": "%p", "b16": "%h", "b32": "%r", "b64": "%rd", "b128": "%rq", "f32": "%f"}


@dataclass(slots=True)
class Text:
    """The growing body of one kernel."""

    lines: list[str] = field(default_factory=list[str])
    taken: dict[str, int] = field(default_factory=dict[str, int])
    labels: int = 0

    def register(self, kind: str) -> str:
        """A fresh virtual register of type pred, b16, b32, b64, b128 or f32."""
        number = self.taken.get(kind, 0)
        self.taken[kind] = number + 1
        return f"{_PREFIXES[kind]}{number}"

    def kind_of(self, register: str) -> str:
        """The type of a register that was taken here. Raises KeyError for another name."""
        return {prefix: kind for kind, prefix in _PREFIXES.items()}[register.rstrip("0123456789")]

    def label(self, stem: str) -> str:
        self.labels += 1
        return f"{stem}_{self.labels}"

    def place(self, label: str) -> None:
        self.lines.append(f"{label}:")

    def comment(self, words: str) -> None:
        self.lines.append(f"\t// {words}")

    def emit(self, opcode: str, *operands: str | int, guard: str = "") -> None:
        """One instruction. guard: `p` or `!p` without the at-sign, or empty. Raises TilewrightError for an opcode that
        the instruction table does not have."""
        _require_row(opcode)
        prefix = f"@{guard} " if guard else ""
        tail = f" {', '.join([*map(str, operands)])}" if operands else ""
        self.lines.append(f"\t{prefix}{opcode}{tail};")

    def into(self, kind: str, opcode: str, *operands: str | int) -> str:
        """One instruction with a fresh destination of type `kind`, which is returned."""
        _require_row(opcode)
        destination = self.register(kind)
        if len(operands) == 2:  # most have two, and are spelled in half the time so
            self.lines.append(f"\t{opcode} {destination}, {operands[0]}, {operands[1]};")
        else:
            self.lines.append(f"\t{opcode} {', '.join([destination, *map(str, operands)])};")
        return destination

    def declarations(self) -> list[str]:
        return [f"\t.reg .{kind} {_PREFIXES[kind]}<{count}>;" for kind, count in sorted(self.taken.items())]


@cache
def _require_row(opcode: str) -> None:
    instruction_row(opcode)


def float_literal(value: float) -> str:
    """The PTX image `0f........` of a value rounded to float32."""
    return f"0f{struct.unpack('<I', struct.pack('<f', value))[0]:08X}"


def float_bits(bits: int) -> str:
    """The PTX literal of a 32-bit float image."""
    return f"0f{bits & 0xFFFFFFFF:08X}"
