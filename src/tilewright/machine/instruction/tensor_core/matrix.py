"""`ldmatrix`, `stmatrix` and `movmatrix`: small matrices between shared memory and a warp's registers.

Rows have 16 bytes, and lane i supplies the address of row i of all matrices together. Source: PTX ISA, `ldmatrix`,
`stmatrix`, `movmatrix`. Not handled: expansion of 4- and 6-bit elements (`.b8x16.b4x16_p64`, `.b8x16.b6x16_p32`).
Checked by: tests/machine/instruction/test_instructions.py, test_matrix_instructions.py.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.core.decoder import WORD32, Decoder, Modifiers, expect_operands, unsupported
from tilewright.machine.core.event import TOGETHER, Access
from tilewright.machine.core.lanes import WARP_SIZE, Lanes
from tilewright.machine.core.memory import Located, clear, locate, merge_ranges
from tilewright.machine.core.state import Warp
from tilewright.machine.core.step import Control
from tilewright.machine.tensor_core.fragment import MatrixFragment, MatrixShape, matrix_fragment

_LINE_BYTES = 16
_COUNTS = {"x1": 1, "x2": 2, "x4": 4}
# Shapes by the instruction's shape and element type.
_SHAPES: dict[tuple[str, str, str], MatrixShape] = {
    ("ldmatrix", "m8n8", "b16"): "m8n8",
    ("stmatrix", "m8n8", "b16"): "m8n8",
    ("ldmatrix", "m16n16", "b8"): "m16n16",
    ("stmatrix", "m16n8", "b8"): "m16n8",
}


class _Matrices:
    """What the text of one ldmatrix or stmatrix fixes, and where its lines are."""

    def __init__(
        self, decoder: Decoder, instruction: Instruction, modifiers: Modifiers, address_index: Literal[0, 1]
    ) -> None:
        for needed in ("sync", "aligned"):
            if not modifiers.flag(needed):
                raise unsupported(instruction, f"it lacks .{needed}")
        count = _COUNTS.get(modifiers.take(*_COUNTS) or "")
        transposed = modifiers.flag("trans")
        space = modifiers.take("shared", "shared::cta")
        shape, element = modifiers.take("m8n8", "m16n16", "m16n8"), modifiers.take("b16", "b8")
        kind = _SHAPES.get((instruction.row, shape or "", element or ""))
        if count is None or kind is None:
            raise unsupported(instruction, "it needs .x1, .x2 or .x4, and a shape with its element type")
        if (kind != "m8n8" and not transposed) or (kind == "m16n16" and count == 4):
            raise unsupported(instruction, f"this form of .{kind}")
        self.fragment: MatrixFragment = matrix_fragment(kind, count, transposed)
        operands = expect_operands(instruction, 2)
        self.vector = decoder.vector(operands[1 - address_index])
        if len(self.vector) != len(self.fragment.places):
            raise unsupported(instruction, f"{len(self.vector)} registers for {count} matrices")
        self.space = "generic" if space is None else "shared::cta"
        self.slot, self.offset = decoder.address(instruction, operands[address_index])
        self.span = instruction.span

    def lines(self, warp: Warp, vector: Lanes) -> list[Located]:
        """The lines at the addresses of `vector`, by the memory that holds them. Raises MachineFault for one that is
        misplaced."""
        addresses = vector[: self.fragment.lines].astype(np.uint64) + np.uint64(self.offset & 0xFFFF_FFFF_FFFF_FFFF)
        return locate(warp.cta, self.space, addresses, _LINE_BYTES, self.span)

    def report(self, warp: Warp, found: list[Located], write: bool) -> None:
        observe = warp.cta.cluster.observe
        if observe is None:
            return
        for part in found:
            ranges = merge_ranges(part.offsets, _LINE_BYTES)
            observe(Access(warp.actor, "shared", part.region.cta, ranges, write, "generic", self.span, places=TOGETHER))


def _ldmatrix(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    matrices = _Matrices(decoder, instruction, modifiers, 1)
    targets = [decoder.destination(instruction, item, WORD32) for item in matrices.vector]
    moved = decoder.move(targets, matrices.slot, loads=True)
    nothing = np.zeros(WARP_SIZE, np.uint32)
    places, reach = matrices.fragment.places, np.arange(_LINE_BYTES)

    def act(warp: Warp, _mask: int) -> None:
        found = matrices.lines(warp, warp.r[matrices.slot])
        if not moved.keeps:
            matrices.report(warp, found, False)
            for target in targets:
                warp.r[target] = nothing
            return
        lines = np.empty((matrices.fragment.lines, _LINE_BYTES), np.uint8)
        for part in found:
            moved.load(part.region)
            lines[part.chosen] = part.region.data[part.offsets[:, None] + reach]
        matrices.report(warp, found, False)
        values = lines.reshape(-1)[places].view(np.uint32)[:, :, 0]
        for target, value in zip(targets, values, strict=True):
            warp.r[target] = value

    return Control(act, converged=True)


def _stmatrix(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    matrices = _Matrices(decoder, instruction, modifiers, 0)
    sources = [decoder.source(instruction, item, WORD32) for item in matrices.vector]
    moved = decoder.move(sources, matrices.slot, loads=False)
    places, reach = matrices.fragment.places, np.arange(_LINE_BYTES)

    def act(warp: Warp, _mask: int) -> None:
        found = matrices.lines(warp, warp.r[matrices.slot])
        if not moved.keeps:
            for part in found:
                if moved.dropped is None:
                    moved.require_written(warp.r)
                    clear(part.region, part.offsets, _LINE_BYTES)
                    continue
                first, last = int(part.offsets.min()), int(part.offsets.max())
                moved.skip_store(warp.r, part.region, first, last + _LINE_BYTES)
            matrices.report(warp, found, True)
            return
        lines = np.empty(matrices.fragment.lines * _LINE_BYTES, np.uint8)
        for source, place in zip(sources, places, strict=True):
            lines[place] = np.ascontiguousarray(warp.r[source]).view(np.uint8).reshape(WARP_SIZE, 4)
        for part in found:
            part.region.data[part.offsets[:, None] + reach] = lines.reshape(-1, _LINE_BYTES)[part.chosen]
        matrices.report(warp, found, True)

    return Control(act, converged=True)


def _movmatrix(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    """Transposes an 8x8 matrix of 16-bit elements across the warp."""
    if not all([modifiers.flag(needed) for needed in ("sync", "aligned", "m8n8", "trans", "b16")]):
        raise unsupported(instruction, "it needs .sync.aligned.m8n8.trans.b16")
    target, operand = expect_operands(instruction, 2)
    source = decoder.source(instruction, operand, WORD32)
    to = decoder.destination(instruction, target, WORD32)
    stored = matrix_fragment("m8n8", 1, False).places[0]
    loaded = matrix_fragment("m8n8", 1, True).places[0]

    def act(warp: Warp, _mask: int) -> None:
        matrix = np.empty(8 * _LINE_BYTES, np.uint8)
        matrix[stored] = np.ascontiguousarray(warp.r[source]).view(np.uint8).reshape(WARP_SIZE, 4)
        warp.r[to] = matrix[loaded].view(np.uint32)[:, 0]

    return Control(act, converged=True)


HANDLERS = {"ldmatrix": _ldmatrix, "stmatrix": _stmatrix, "movmatrix": _movmatrix}
