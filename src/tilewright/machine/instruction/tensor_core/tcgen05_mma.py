"""tcgen05.mma in all its forms: binds `tensor_product` to instructions.

Everything that the operands say is read and judged when a thread issues; the multiply itself is performed later.
Source: PTX ISA, `tcgen05.mma`, `mma.sp`, `mma.ws`, `mma.ws.sp`.

Not handled, and refused where values are wanted: sparse operands, `.ashift`, zero-column masks, A of 4- and 6-bit
elements in tensor memory under kinds of mixed width. Checked by: tests/machine/tensor_core/test_tcgen05_mma.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import cast

import numpy as np
import numpy.typing as npt

from tilewright.base.error import TilewrightError
from tilewright.frontends.ptx.ast import Address, Immediate, Instruction, Operand, Vector
from tilewright.legal.descriptor.tensor_core_descriptor import (
    KINDS,
    InstructionDescriptor,
    Kind,
    OperandElement,
    decode_instruction,
    instruction_problems,
)
from tilewright.machine.core.decoder import WORD32, WORD64, Decoder, Modifiers, unsupported
from tilewright.machine.core.engine_fault import EngineFault
from tilewright.machine.core.event import Ranges, SharedMatrix, TensorBlock
from tilewright.machine.core.state import Cta, Warp
from tilewright.machine.core.step import Control
from tilewright.machine.instruction.tensor_core.tcgen05 import take_group
from tilewright.machine.instruction.tensor_core.tcgen05_copy import only_lane, require_shared
from tilewright.machine.tensor_core.tensor_memory import LANES, blocks_of, group_of, require, split
from tilewright.machine.tensor_core.tensor_operand import (
    Major,
    element_bits,
    tile_ranges,
)
from tilewright.machine.tensor_core.tensor_operation import Matrices, issue
from tilewright.machine.tensor_core.tensor_product import Product, blocks, data_path, multiply

_SCALE_VECTORS = {"scale_vec::1X": 1, "scale_vec::2X": 2, "scale_vec::4X": 4}
_DEFAULT_SCALE_VECTORS = {"mxf8f6f4": 1, "mxf4": 2, "mxf4nvf4": 4}


class _MultiplyText:
    """What the text of a tcgen05.mma fixes."""

    def __init__(
        self, decoder: Decoder, instruction: Instruction, modifiers: Modifiers, weight_stationary: bool, sparse: bool
    ) -> None:
        self.instruction = instruction
        self.weight_stationary = weight_stationary
        self.sparse = sparse
        self.cta_group = take_group(instruction, modifiers)
        kind = modifiers.take(*(f"kind::{each}" for each in KINDS))
        if kind is None:
            raise unsupported(instruction, "it names no .kind")
        self.kind: Kind = cast("Kind", kind.partition("::")[2])
        scaled = modifiers.flag("block_scale")
        vector = modifiers.take(*_SCALE_VECTORS)
        block = modifiers.take("block16", "block32")
        self.scale_vector = _SCALE_VECTORS[vector] if vector else _DEFAULT_SCALE_VECTORS.get(self.kind, 1)
        if block == "block32":
            self.scale_vector = 1 if self.kind == "mxf8f6f4" else 2
        self.shifts_a = modifiers.flag("ashift")
        modifiers.left = [each for each in modifiers.left if not each.startswith("collector::")]
        operands = list(instruction.operands)
        self.d = decoder.address(instruction, self._next(operands))
        a = self._next(operands)
        self.a_in_tensor_memory = isinstance(a, Address)
        self.a = decoder.address(instruction, a) if self.a_in_tensor_memory else (
            decoder.source(instruction, a, WORD64), 0
        )  # fmt: skip
        self.b = decoder.source(instruction, self._next(operands), WORD64)
        self.metadata = decoder.address(instruction, self._next(operands)) if sparse else None
        self.descriptor = decoder.source(instruction, self._next(operands), WORD32)
        self.scales: tuple[tuple[int, int], ...] = ()
        if scaled:
            self.scales = tuple(decoder.address(instruction, self._next(operands)) for _ in range(2))
        self.keep: tuple[int, ...] = ()
        if operands and isinstance(operands[0], Vector):
            items = self._next(operands)
            assert isinstance(items, Vector), "seen to be a vector"
            self.keep = tuple(decoder.source(instruction, each, WORD32) for each in items.items)
            if len(self.keep) != 4 * self.cta_group:
                raise unsupported(instruction, f"a mask of {len(self.keep)} registers, not {4 * self.cta_group}")
        self.enable, self.enable_negated = decoder.predicate(instruction, self._next(operands))
        self.input_shift = 0
        self.zero_columns = -1
        self._last(decoder, operands)

    def _next(self, operands: list[Operand]) -> Operand:
        if not operands:
            raise unsupported(self.instruction, f"it has {len(self.instruction.operands)} operands")
        return operands.pop(0)

    def _last(self, decoder: Decoder, operands: list[Operand]) -> None:
        if not operands:
            return
        last = operands.pop(0)
        if operands:
            raise unsupported(self.instruction, f"it has {len(self.instruction.operands)} operands")
        if self.weight_stationary:
            self.zero_columns = decoder.source(self.instruction, last, WORD64)
            return
        most = decoder.target.limit("tcgen05.scale_input_shift_max")
        if not isinstance(last, Immediate) or not 0 <= last.value <= most:
            raise unsupported(self.instruction, f"the scale of D is a constant from 0 to {most}")
        self.input_shift = last.value

    def refused(self, zero_columns: int) -> str:
        """What of it has no values on the machine, or nothing."""
        if self.sparse:
            return "a sparse operand"
        if self.shifts_a:
            return ".ashift"
        # Bit 39 of a zero-column mask switches it off; one of all zeros skips no column either.
        return "a zero-column mask" if zero_columns and not zero_columns >> 39 & 1 else ""


def _mma(weight_stationary: bool, sparse: bool) -> Callable[[Decoder, Instruction, Modifiers], Control]:
    def handler(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
        text = _MultiplyText(decoder, instruction, modifiers, weight_stationary, sparse)
        mathematics = decoder.mathematics

        def act(warp: Warp, mask: int) -> None:
            lane = only_lane(mask, instruction)
            group = group_of(warp.cta, text.cta_group, instruction.opcode, instruction.span)
            product = _product(text, warp, lane)
            reads: list[TensorBlock] = []
            writes: list[TensorBlock] = []
            for cta in group:
                read, written = blocks(product, cta)
                if text.metadata is not None:
                    read = (*read, *_metadata_blocks(text, warp, lane, cta))
                require(cta, (*read, *written), instruction.opcode, instruction.span)
                reads.extend(read)
                writes.extend(written)
            ranges = _operand_ranges(product)
            require_shared(group, ranges, instruction)
            refused = text.refused(int(warp.r[text.zero_columns][lane]) if text.zero_columns >= 0 else 0)
            if mathematics and refused:
                raise TilewrightError(f"the machine cannot run {instruction.opcode}: {refused}", span=instruction.span)

            def action() -> None:
                if decoder.mathematics:  # known once all steps are: a run without values multiplies nothing
                    multiply(product, group)

            shared = tuple((cta, ranges) for cta in group)
            issue(
                warp, lane, "mma", tuple(reads), tuple(writes), shared, text.cta_group, instruction.span, action,
                _matrices(product, group), product.accumulate,
            )  # fmt: skip

        return Control(act)

    return handler


def _operand_ranges(product: Product) -> Ranges:
    """The shared bytes that each CTA of the group supplies."""
    fields, path = product.fields, product.path
    a = None
    if not product.a_in_tensor_memory:
        depth = fields.k // 2 if fields.sparse else fields.k
        a = (product.a, path.rows, depth, fields.a or "f16", fields.a_major)
    return _both_ranges((product.b, path.b_rows, fields.k, fields.b or "f16", fields.b_major), a)


def _matrices(product: Product, group: tuple[Cta, ...]) -> Matrices:
    """Where the operands lie, of whole bytes an element, or of two elements a byte, which then count as one."""
    fields, path = product.fields, product.path
    elements = fields.a, fields.b
    if (
        fields.sparse
        or fields.a is None
        or fields.b is None
        or (min(element_bits(each) for each in elements if each) < 8 and not product.packed)
    ):
        return ()
    a, depth = None, fields.k // 2 if product.packed else fields.k
    if not product.a_in_tensor_memory:
        a = _matrix(product.a, path.rows, depth, fields.a, fields.a_major)
    b = _matrix(product.b, path.b_rows, depth, fields.b, fields.b_major)
    return tuple((cta.linear, a, b) for cta in group)


@lru_cache(maxsize=4096)
def _matrix(descriptor: int, rows: int, depth: int, element: OperandElement, major: Major) -> SharedMatrix:
    return SharedMatrix(descriptor, rows, depth, max(1, element_bits(element) // 8), major, element)


_Tile = tuple[int, int, int, OperandElement, Major]


@lru_cache(maxsize=4096)
def _both_ranges(b: _Tile, a: _Tile | None) -> Ranges:
    found = list(tile_ranges(*b))
    if a is not None:
        found.extend(tile_ranges(*a))
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(found):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return tuple(joined)


def _product(text: _MultiplyText, warp: Warp, lane: int) -> Product:
    r = warp.r

    def value(place: tuple[int, int]) -> int:
        return int(r[place[0]][lane]) + place[1]

    bits = int(r[text.descriptor][lane])
    fields = decode_instruction(bits, text.kind)
    facts = warp.cta.cluster.target
    problems = instruction_problems(fields, facts, cta_group=text.cta_group, weight_stationary=text.weight_stationary)
    if fields.sparse != text.sparse:
        problems = (*problems, f"its sparsity bit is {int(fields.sparse)}")
    if problems:
        raise EngineFault(
            "TC208", "instruction-descriptor", f"instruction descriptor {bits:#010x}: {'; '.join(problems)}"
        )
    if fields.k == 96:
        raise TilewrightError(
            f"the machine cannot run {text.instruction.opcode}: K of 96", span=text.instruction.span,
            remedy="only sm_103a has it; run this kernel on its GPU",
        )  # fmt: skip
    d_lane, d_column = split(value(text.d))
    half = fields.m == 64 and text.cta_group == 1 and not text.weight_stationary
    if d_lane not in ((0, 16) if half else (0,)):
        raise EngineFault(
            "TC207", "tensor-memory-lanes", f"D begins at lane {d_lane}, not {'0 or 16' if half else '0'}"
        )
    path = data_path(fields.m, fields.n, text.cta_group, text.weight_stationary, d_lane)
    a = value(text.a)
    if text.a_in_tensor_memory:
        _check_a(fields, text, a, d_lane)
    scales = [split(value(each))[1] for each in text.scales] or [-1, -1]
    return Product(
        fields, path, d_column, a, text.a_in_tensor_memory, int(r[text.b][lane]),
        bool(r[text.enable][lane]) != text.enable_negated, text.input_shift, scales[0], scales[1], text.scale_vector,
        _kept(text, warp, lane),
    )  # fmt: skip


def _check_a(fields: InstructionDescriptor, text: _MultiplyText, a: int, d_lane: int) -> None:
    if split(a)[0] != d_lane:
        raise EngineFault("TC207", "tensor-memory-lanes", f"A begins at lane {split(a)[0]}, D at lane {d_lane}")
    if fields.a_major == "mn":
        raise EngineFault("TC208", "instruction-descriptor", "A in tensor memory cannot be transposed")
    if fields.a in ("e2m3", "e3m2", "e2m1") and text.kind in ("f8f6f4", "mxf8f6f4"):
        raise TilewrightError(
            f"the machine cannot run {text.instruction.opcode}: A of {fields.a} in tensor memory",
            span=text.instruction.span,
        )


def _kept(text: _MultiplyText, warp: Warp, lane: int) -> tuple[npt.NDArray[np.bool_], ...]:
    if not text.keep:
        return ()
    words = np.array([int(warp.r[slot][lane]) for slot in text.keep], "<u4")
    bits = np.unpackbits(words.view(np.uint8), bitorder="little").astype(np.bool_)
    return tuple(bits.reshape(text.cta_group, LANES))


def _metadata_blocks(text: _MultiplyText, warp: Warp, lane: int, cta: Cta) -> tuple[TensorBlock, ...]:
    """Where the sparsity metadata lie: 32 bits a lane for 16- and 32-bit elements, 64 for narrower ones."""
    assert text.metadata is not None, "asked of sparse operations only"
    slot, offset = text.metadata
    column = split(int(warp.r[slot][lane]) + offset)[1]
    columns = 1 if text.kind in ("f16", "tf32") else 2
    return blocks_of(cta, np.arange(LANES), column, columns)


HANDLERS = {
    "tcgen05.mma": _mma(False, False),
    "tcgen05.mma.sp": _mma(False, True),
    "tcgen05.mma.ws": _mma(True, False),
    "tcgen05.mma.ws.sp": _mma(True, True),
}
