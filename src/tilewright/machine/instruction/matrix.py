"""`ldmatrix` and `stmatrix`: 8x8 matrices of 16-bit elements between shared memory and a warp's registers.

Each matrix has eight rows of 16 bytes; lane `8 i + r` supplies the address of row r of matrix i. Source: PTX ISA,
`ldmatrix`, `stmatrix`. Not handled: `.m16n16`, `.m8n16` (sm_100). Checked by: tests/machine/test_instructions.py.
"""

from __future__ import annotations

import numpy as np

from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.decoder import WORD32, Decoder, Modifiers, unsupported
from tilewright.machine.event import Access
from tilewright.machine.fragment import matrix_coordinates, matrix_rows
from tilewright.machine.lanes import WARP_SIZE
from tilewright.machine.memory import Located, locate, merge_ranges
from tilewright.machine.state import Warp
from tilewright.machine.step import Control


def _rows(warp: Warp, slot: int, offset: int, count: int, space: str, instruction: Instruction) -> list[Located]:
    lanes = matrix_rows(count).reshape(-1)
    addresses = warp.r[slot][lanes].astype(np.uint64) + np.uint64(offset & 0xFFFF_FFFF_FFFF_FFFF)
    return locate(warp.cta, space, addresses, 16, instruction.span)


def _parse(
    decoder: Decoder, instruction: Instruction, modifiers: Modifiers, address_index: int
) -> tuple[int, bool, str, int, int]:
    for needed in ("sync", "aligned"):
        if needed not in instruction.opcode:
            raise unsupported(instruction, f"it lacks .{needed}")
        modifiers.flag(needed)
    if not modifiers.flag("m8n8"):
        raise unsupported(instruction, "only shape m8n8")
    count = {"x1": 1, "x2": 2, "x4": 4}.get(modifiers.take("x1", "x2", "x4") or "")
    transposed = modifiers.flag("trans")
    space = modifiers.take("shared", "shared::cta")
    if count is None or not modifiers.flag("b16"):
        raise unsupported(instruction, "it needs .x1, .x2 or .x4, and .b16")
    slot, offset = decoder.address(instruction, instruction.operands[address_index])
    vector = decoder.vector(instruction.operands[1 - address_index])
    if len(vector) != count or len(instruction.operands) != 2:
        raise unsupported(instruction, f"{len(vector)} registers for {count} matrices")
    return count, transposed, "generic" if space is None else "shared::cta", slot, offset


def _emit(warp: Warp, found: list[Located], write: bool, instruction: Instruction) -> None:
    observe = warp.cta.cluster.observe
    if observe is not None:
        for part in found:
            ranges = merge_ranges(part.offsets, 16)
            observe(Access(warp.actor, "shared", part.region.cta, ranges, write, "generic", instruction.span))


def _ldmatrix(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    count, transposed, space, slot, offset = _parse(decoder, instruction, modifiers, 1)
    targets = [decoder.destination(instruction, item, WORD32) for item in decoder.vector(instruction.operands[0])]
    rows, columns = matrix_coordinates(transposed)

    def act(warp: Warp, _mask: int) -> None:
        found = _rows(warp, slot, offset, count, space, instruction)
        matrices = np.empty((count * 8, 16), np.uint8)
        for part in found:
            matrices[part.chosen] = part.region.data[part.offsets[:, None] + np.arange(16)]
        elements = matrices.view(np.uint16).reshape(count, 8, 8)
        _emit(warp, found, False, instruction)
        for target, matrix in zip(targets, elements, strict=True):
            warp.r[target] = np.ascontiguousarray(matrix[rows, columns]).view(np.uint32)[:, 0]

    return Control(act, converged=True)


def _stmatrix(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    count, transposed, space, slot, offset = _parse(decoder, instruction, modifiers, 0)
    sources = [decoder.source(instruction, item, WORD32) for item in decoder.vector(instruction.operands[1])]
    rows, columns = matrix_coordinates(transposed)

    def act(warp: Warp, _mask: int) -> None:
        found = _rows(warp, slot, offset, count, space, instruction)
        elements = np.empty((count, 8, 8), np.uint16)
        for source, matrix in zip(sources, elements, strict=True):
            matrix[rows, columns] = np.ascontiguousarray(warp.r[source]).view(np.uint16).reshape(WARP_SIZE, 2)
        lines = elements.view(np.uint8).reshape(count * 8, 16)
        for part in found:
            part.region.data[part.offsets[:, None] + np.arange(16)] = lines[part.chosen]
        _emit(warp, found, True, instruction)

    return Control(act, converged=True)


HANDLERS = {"ldmatrix": _ldmatrix, "stmatrix": _stmatrix}
