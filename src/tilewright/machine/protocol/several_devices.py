"""What does an access to the memory of several devices (multimem) do to a protocol run?

A multicast address stands for one place in the memory of each device. A protocol run moves no values of global memory
that matter to it, so such an access counts as one of the kernel's own: a read whose value nobody knows, or a write. An
acquire learns nothing by it and a release publishes nothing, since what other devices do is not seen. A run that
computes values refuses these instructions. Source: PTX ISA, multimem.ld_reduce, multimem.st and multimem.red.

Not handled: a multicast address that names the same bytes as another pointer of the launch; while the kernel writes
through one, what it loads from global memory is not known. Checked by: tests/machine/protocol/test_several_devices.py.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.frontends.ptx.ast import Instruction

SUMS = "multimem.ld_reduce"
_WRITES = ("multimem.st", "multimem.red")
_SCOPES = frozenset({"cta", "cluster", "gpu", "sys"})
_STRONG = frozenset({"relaxed", "acquire", "release"})
_VECTORS = frozenset({"v2", "v4", "v8"})


def writes_to_several(instruction: Instruction) -> bool:
    """Whether an instruction writes to the memory of several devices."""
    return instruction.row in _WRITES


def as_own_access(instruction: Instruction) -> Instruction:
    """An instruction, or what stands for it in a protocol run: an ordinary load or store of the same bytes."""
    if instruction.row not in (SUMS, *_WRITES):
        return instruction
    given = instruction.modifiers
    order = ("relaxed", *(each for each in given if each in _SCOPES)) if not _STRONG.isdisjoint(given) else ("weak",)
    vector = tuple(each for each in given if each in _VECTORS)
    row = "ld" if instruction.row == SUMS else "st"
    modifiers = (*order, "global", *vector, f"b{_width_bits(given[-1])}")
    return replace(instruction, row=row, opcode=".".join((row, *modifiers)), modifiers=modifiers)


def _width_bits(element: str) -> int:
    """The width of an element, as its type says: `f16x2` are 32 bits, `e4m3` are 8."""
    base, _, packed = element.partition("x")
    return (8 if base in ("e4m3", "e5m2") else int("".join(filter(str.isdigit, base)))) * int(packed or 1)
