"""Asynchronous tensor-memory operations of one thread beside mma: cp and shift, and the commit of them all.

tcgen05.cp copies a K-major tile of shared memory, 16 or 32 bytes a row, into lanes from its address on: 128 rows to as
many lanes; 4 rows to one lane of each quarter, 32 lanes apart; 64 rows to lanes 0 to 63 and again 64 to 127
(warpx2::02_13), or each half of them to two quarters (::01_23); 32 rows to every quarter (warpx4). tcgen05.shift moves
8 columns of every quarter by one lane: lane i takes what lane i + 1 held, and the last keeps its own, which a cp of 4
rows then refreshes. With `.cta_group::2` each CTA of the pair copies or shifts its own. Source: PTX ISA,
`tcgen05.cp`, `shift`, `commit`; CUTLASS, copy_traits_sm100.hpp.

Not handled, and refused where values are wanted: decompressing copies. Checked by:
tests/machine/tensor_core/test_tcgen05_mma.py.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.barrier import signals
from tilewright.machine.core.decoder import WORD16, WORD64, Decoder, Modifiers, expect_operands, unsupported
from tilewright.machine.core.event import Ranges, TensorBlock
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.lanes import indices
from tilewright.machine.core.memory import SHARED_WINDOW, out_of_bounds
from tilewright.machine.core.state import Cta, Warp
from tilewright.machine.core.step import Control
from tilewright.machine.instruction.tensor_core.tcgen05 import take_group
from tilewright.machine.tensor_core.tensor_memory import LANES, blocks_of, group_of, memory_of, require, split
from tilewright.machine.tensor_core.tensor_operand import (
    CHUNK_BYTES,
    chunk_ranges,
    load_chunks,
    read_descriptor,
    row_chunks,
)
from tilewright.machine.tensor_core.tensor_operation import commit, issue
from tilewright.machine.tensor_core.tensor_product import OPERAND_COLUMNS

_ROWS = {"128x256b": (128, 2), "128x128b": (128, 1), "4x256b": (4, 2), "64x128b": (64, 1), "32x128b": (32, 1)}


def only_lane(mask: int, instruction: Instruction) -> int:
    """The one lane that executes. Raises MachineFault if there are more."""
    lanes = indices(mask)
    if lanes.size != 1:
        raise MachineFault(
            "TC213", "many-threads", f"{lanes.size} threads of a warp issue {instruction.opcode}", instruction.span,
            "PTX ISA, tcgen05: Issue granularity",
        )  # fmt: skip
    return int(lanes[0])


def require_shared(ctas: tuple[Cta, ...], ranges: Ranges, instruction: Instruction) -> None:
    for cta in ctas:
        if ranges and ranges[-1][1] > cta.shared.size_bytes:
            begin, end = ranges[-1]
            raise out_of_bounds(cta.shared, begin, begin, end - begin, instruction.span)


def _target_lanes(shape: str, multicast: str | None) -> npt.NDArray[np.int64]:
    """Lanes that each row is copied to, from the address's. [copies, rows]"""
    row = np.arange(_ROWS[shape][0], dtype=np.int64)
    match shape, multicast:
        case "4x256b", _:
            return (32 * row)[None, :]
        case "64x128b", "warpx2::01_23":
            at = row % 32 + 64 * (row // 32)
            return np.stack((at, at + 32))
        case "64x128b", _:
            return np.stack((row, row + 64))
        case "32x128b", _:
            return np.stack([row + 32 * quarter for quarter in range(4)])
        case _:
            return row[None, :]


def _cp(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    cta_group = take_group(instruction, modifiers)
    shape = modifiers.take(*_ROWS)
    multicast = modifiers.take("warpx2::02_13", "warpx2::01_23", "warpx4")
    narrow = modifiers.take("b6x16_p32", "b4x16_p64")
    modifiers.take("b8x16")
    address, source = expect_operands(instruction, 2)
    slot, offset = decoder.address(instruction, address)
    descriptor_slot = decoder.source(instruction, source, WORD64)
    if shape is None:
        raise unsupported(instruction, "it names no shape")
    rows, chunk_count = _ROWS[shape]
    lanes = _target_lanes(shape, multicast)
    columns = chunk_count * CHUNK_BYTES // 4
    mathematics = decoder.mathematics
    if narrow is not None and mathematics:
        raise unsupported(instruction, "a decompressing copy")

    def act(warp: Warp, mask: int) -> None:
        lane = only_lane(mask, instruction)
        group = group_of(warp.cta, cta_group, instruction.opcode, instruction.span)
        first, column = split(int(warp.r[slot][lane]) + offset)
        chunks = row_chunks(read_descriptor(int(warp.r[descriptor_slot][lane])), rows, chunk_count)
        ranges = chunk_ranges(chunks)
        require_shared(group, ranges, instruction)
        written = np.unique(lanes) + first
        blocks: list[TensorBlock] = []
        for cta in group:
            here = blocks_of(cta, written, column, columns)
            require(cta, here, instruction.opcode, instruction.span)
            blocks.extend(here)

        def action() -> None:
            if not mathematics:
                return
            for cta in group:
                cells = load_chunks(cta.shared.data, chunks).reshape(rows, -1).view(np.uint32)
                words = memory_of(cta).words
                for copy in lanes:
                    words[first + copy, column : column + columns] = cells

        shared = tuple((cta, ranges) for cta in group)
        issue(warp, lane, "cp", (), tuple(blocks), shared, cta_group, instruction.span, action)

    return Control(act)


def _shift(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    cta_group = take_group(instruction, modifiers)
    modifiers.flag("down")
    (address,) = expect_operands(instruction, 1)
    slot, offset = decoder.address(instruction, address)
    mathematics = decoder.mathematics

    def act(warp: Warp, mask: int) -> None:
        lane = only_lane(mask, instruction)
        group = group_of(warp.cta, cta_group, instruction.opcode, instruction.span)
        first, column = split(int(warp.r[slot][lane]) + offset)
        if first % 32 or first >= LANES:
            raise MachineFault(
                "TC207", "tensor-memory-lanes", f"{instruction.opcode} at lane {first}, not a multiple of 32",
                instruction.span, "PTX ISA, tcgen05.shift",
            )  # fmt: skip
        reads: list[TensorBlock] = []
        for cta in group:
            here = blocks_of(cta, np.arange(first, LANES), column, OPERAND_COLUMNS)
            require(cta, here, instruction.opcode, instruction.span)
            reads.extend(here)

        def action() -> None:
            if not mathematics:
                return
            for cta in group:
                words = memory_of(cta).words[:, column : column + OPERAND_COLUMNS]
                for quarter in range(first, LANES, 32):
                    words[quarter : quarter + 31] = words[quarter + 1 : quarter + 32].copy()

        issue(warp, lane, "shift", tuple(reads), tuple(reads), (), cta_group, instruction.span, action)

    return Control(act)


def _commit(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    cta_group = take_group(instruction, modifiers)
    if not modifiers.flag("mbarrier::arrive::one"):
        raise unsupported(instruction, "it completes on an mbarrier")
    generic = not modifiers.flag("shared::cluster")
    multicast = modifiers.flag("multicast::cluster")
    modifiers.flag("b64")
    operands = expect_operands(instruction, 1 + multicast)
    slot, offset = decoder.address(instruction, operands[0])
    mask_slot = decoder.source(instruction, operands[1], WORD16) if multicast else -1

    def act(warp: Warp, mask: int) -> None:
        lane = only_lane(mask, instruction)
        group_of(warp.cta, cta_group, instruction.opcode, instruction.span)
        address = int(warp.r[slot][lane]) + offset
        if generic and 1 << 32 <= address < SHARED_WINDOW:
            # A 32-bit shared address without a state space does as well: hardware takes the low half, and shipped
            # kernels (ThunderKittens) rely on it.
            raise MachineFault("MF001", "not-shared", "an mbarrier is not in shared memory", instruction.span)
        cta, at = signals.owner(warp.cta, address, instruction.span, cluster=True)
        barriers = ((cta, at),)
        if multicast:
            chosen = int(warp.r[mask_slot][lane])
            ctas = warp.cta.cluster.ctas
            if not chosen or chosen >> len(ctas):
                raise MachineFault(
                    "MF007", "multicast-mask", f"multicast mask {chosen:#x} in a cluster of {len(ctas)} CTAs",
                    instruction.span,
                )  # fmt: skip
            barriers = tuple((each, at) for each in ctas if chosen >> each.rank & 1)
        commit(warp, lane, barriers, cta_group, instruction.span)

    return Control(act)


HANDLERS = {
    "tcgen05.cp": _cp,
    "tcgen05.shift": _shift,
    "tcgen05.commit": _commit,
}
