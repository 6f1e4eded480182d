"""Bulk copies and their groups: binds `copies` to instructions. Every executing lane issues a copy of its own.

Source: PTX ISA, `cp.async.bulk`, `cp.async.bulk.tensor`, `cp.reduce.async.bulk` (add only), `commit_group`,
`wait_group`. Not handled: im2col, gather4 and scatter4 modes, `.cta_group::2`, `.cp_mask`, tensor maps in global
memory. Checked by: tests/machine/test_copies.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.base.plan import TensorMapParam
from tilewright.frontends.ptx.ast import Instruction, Operand, TensorAddress
from tilewright.machine import arithmetic, copies, signals
from tilewright.machine.decoder import WORD16, WORD32, WORD64, Decoder, Modifiers, expect_operands, unsupported
from tilewright.machine.event import BulkCommit, BulkWait
from tilewright.machine.fault import MachineFault
from tilewright.machine.lanes import indices
from tilewright.machine.memory import OFFSET_MASK, RANK_SHIFT, SHARED_WINDOW, Region
from tilewright.machine.state import Block, Cta, Warp
from tilewright.machine.step import Control, Signal

_RANKS = {"1d": 1, "2d": 2, "3d": 3, "4d": 4, "5d": 5}
_CACHE_HINT = "L2::cache_hint"


def _shared_place(warp: Warp, address: int, instruction: Instruction, *, own: bool) -> tuple[Cta, int]:
    """The CTA and offset of a shared address (32-bit, or generic if it lies in the window)."""
    if address >= SHARED_WINDOW:
        address -= SHARED_WINDOW
    rank, offset = address >> RANK_SHIFT, address & OFFSET_MASK
    cluster = warp.cta.cluster
    if own and rank == 0:
        rank = warp.cta.rank
    if rank >= len(cluster.ctas) or (own and rank != warp.cta.rank):
        raise MachineFault(
            "MF001", "foreign-shared-memory", f"shared address {address:#x} is not the CTA's own", instruction.span
        )
    return cluster.ctas[rank], offset


class _At:
    """An address operand, read lane by lane."""

    def __init__(self, decoder: Decoder, instruction: Instruction, operand: Operand) -> None:
        self.slot, self.offset = decoder.address(instruction, operand)

    def read(self, warp: Warp, lane: int) -> int:
        return int(warp.r[self.slot][lane]) + self.offset


class _Tensor:
    """A `[tensorMap, {c0, c1}]` operand."""

    def __init__(self, decoder: Decoder, instruction: Instruction, operand: Operand, rank: int) -> None:
        if not isinstance(operand, TensorAddress) or len(operand.coordinates) != rank:
            raise unsupported(instruction, f"it needs a tensor map and {rank} coordinates")
        self.decoder = decoder
        self.instruction = instruction
        self.address = _At(decoder, instruction, operand.base)
        self.coordinates = tuple(decoder.source(instruction, each, WORD32) for each in operand.coordinates)

    def read(self, warp: Warp, lane: int) -> tuple[TensorMapParam, Region, tuple[int, ...]]:
        address = self.address.read(warp, lane)
        parameter = self.decoder.tensor_maps.get(address)
        if parameter is None:
            raise MachineFault(
                "MF007", "no-tensor-map", f"no tensor map parameter stands at {address:#x}", self.instruction.span
            )
        if parameter.map.rank != len(self.coordinates):
            raise MachineFault(
                "MF007", "tensor-map-rank",
                f"{self.instruction.opcode} takes a tensor map of rank {len(self.coordinates)}, "
                f"this one has rank {parameter.map.rank}", self.instruction.span,
            )  # fmt: skip
        at = tuple(int(warp.r[slot].view(np.int32)[lane]) for slot in self.coordinates)
        return parameter, warp.cta.cluster.memory.by_name[parameter.buffer], at


def _destinations(warp: Warp, own: Cta, mask: int | None, instruction: Instruction) -> list[Cta]:
    if mask is None:
        return [own]
    ctas = warp.cta.cluster.ctas
    if not mask or mask >> len(ctas):
        raise MachineFault(
            "MF007", "multicast-mask", f"multicast mask {mask:#x} in a cluster of {len(ctas)} CTAs", instruction.span
        )
    return [cta for cta in ctas if mask >> cta.rank & 1]


def _barrier(warp: Warp, address: int, destination: Cta, instruction: Instruction) -> int:
    if address >= SHARED_WINDOW:
        address -= SHARED_WINDOW
    if address >> RANK_SHIFT == 0 and destination is warp.cta:
        address |= warp.rank_base
    cta, offset = signals.owner(warp.cta, address, instruction.span, cluster=True)
    if cta is not destination:
        raise MachineFault(
            "TX202", "barrier-elsewhere",
            f"the copy writes CTA rank {destination.rank}, its mbarrier is in CTA rank {cta.rank}", instruction.span,
            "PTX ISA, cp.async.bulk: the mbarrier is in the same CTA as the destination",
        )  # fmt: skip
    return offset


def _take_hint(decoder: Decoder, instruction: Instruction, modifiers: Modifiers, operands: list[Operand]) -> None:
    if modifiers.flag(_CACHE_HINT):
        decoder.source(instruction, operands.pop(), WORD64)


def _tensor_copy(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    rank = _RANKS.get(modifiers.take(*_RANKS) or "")
    if rank is None:
        raise unsupported(instruction, "it names no rank")
    modifiers.flag("tile")
    operands = list(instruction.operands)
    _take_hint(decoder, instruction, modifiers, operands)
    if modifiers.flag("bulk_group"):
        if modifiers.take("global") is None or modifiers.take("shared::cta") is None:
            raise unsupported(instruction, "a store goes from shared::cta to global")
        return _tensor_store(decoder, instruction, operands, rank, None)
    if modifiers.take("shared::cluster", "shared::cta") is None or modifiers.take("global") is None:
        raise unsupported(instruction, "a load goes from global to shared memory")
    if not modifiers.flag("mbarrier::complete_tx::bytes"):
        raise unsupported(instruction, "a load completes on an mbarrier")
    multicast = modifiers.flag("multicast::cluster")
    modifiers.flag("cta_group::1")
    if len(operands) != 3 + multicast:
        raise unsupported(instruction, f"it has {len(instruction.operands)} operands")
    to = _At(decoder, instruction, operands[0])
    tensor = _Tensor(decoder, instruction, operands[1], rank)
    barrier = _At(decoder, instruction, operands[2])
    mask_slot = decoder.source(instruction, operands[3], WORD16) if multicast else -1

    def act(warp: Warp, mask: int) -> None:
        for lane in indices(mask).tolist():
            parameter, buffer, coordinates = tensor.read(warp, lane)
            own, offset = _shared_place(warp, to.read(warp, lane), instruction, own=False)
            at = _barrier(warp, barrier.read(warp, lane), own, instruction)
            chosen = int(warp.r[mask_slot][lane]) if multicast else None
            destinations = _destinations(warp, own, chosen, instruction)
            issued = copies.issue(warp, lane, instruction.span)
            copies.load_tensor(issued, parameter, buffer, coordinates, destinations, offset, at)

    return Control(act)


def _tensor_store(
    decoder: Decoder, instruction: Instruction, operands: list[Operand], rank: int, combine: Any
) -> Control:
    if len(operands) != 2:
        raise unsupported(instruction, f"it has {len(instruction.operands)} operands")
    tensor = _Tensor(decoder, instruction, operands[0], rank)
    source = _At(decoder, instruction, operands[1])

    def act(warp: Warp, mask: int) -> None:
        for lane in indices(mask).tolist():
            parameter, buffer, coordinates = tensor.read(warp, lane)
            _, offset = _shared_place(warp, source.read(warp, lane), instruction, own=True)
            function = None if combine is None else combine(parameter)
            issued = copies.issue(warp, lane, instruction.span)
            copies.store_tensor(issued, parameter, buffer, coordinates, offset, function)

    return Control(act)


def _added(kind: Any, dtype: Any) -> Callable[[Any, Any], Any]:
    """Sum of old and new bytes, element by element, as bytes."""

    def add(old: Any, new: Any) -> Any:
        left, right = np.ascontiguousarray(old).view(dtype), np.ascontiguousarray(new).view(dtype)
        total = left + right if kind is None else arithmetic.add(kind, left, right)
        return total.view(np.uint8)

    return add


_ELEMENTS: dict[str, tuple[Any, Any]] = {
    "f32": ("f32", np.uint32),
    "f16": ("f16", np.uint16),
    "bf16": ("bf16", np.uint16),
    "u32": (None, np.uint32),
    "i32": (None, np.uint32),
    "s32": (None, np.uint32),
    "u64": (None, np.uint64),
}


def _tensor_reduce(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    rank = _RANKS.get(modifiers.take(*_RANKS) or "")
    modifiers.flag("tile")
    operands = list(instruction.operands)
    _take_hint(decoder, instruction, modifiers, operands)
    for needed in ("global", "shared::cta", "add", "bulk_group"):
        if modifiers.take(needed) is None:
            raise unsupported(instruction, f"only the form with .{needed}")
    if rank is None:
        raise unsupported(instruction, "it names no rank")

    def combine(parameter: TensorMapParam) -> Callable[[Any, Any], Any]:
        found = _ELEMENTS.get(parameter.map.element.value)
        if found is None:
            raise MachineFault(
                "MF007", "reduce-type", f"no bulk reduction of {parameter.map.element.value}", instruction.span
            )
        return _added(*found)

    return _tensor_store(decoder, instruction, operands, rank, combine)


def _global_place(warp: Warp, address: int, size: int, instruction: Instruction) -> tuple[Region, int]:
    where = warp.cta.cluster.memory.find(address)
    offset = address - where.base if where is not None else 0
    if where is None or offset + size > where.size_bytes:
        raise MachineFault(
            "MF001", "out-of-bounds", f"{size} bytes at {address:#x} are outside "
            f"{'every buffer' if where is None else where.name}", instruction.span,
        )  # fmt: skip
    return where, offset


def _check_bulk(size: int, instruction: Instruction, *addresses: int) -> None:
    if size % 16 or size <= 0:
        raise MachineFault("MF002", "bulk-size", f"{size} bytes are not a positive multiple of 16", instruction.span)
    for address in addresses:
        if address % 16:
            raise MachineFault(
                "MF002", "misaligned-address", f"address {address:#x} of a bulk copy is not 16-byte aligned",
                instruction.span,
            )  # fmt: skip


def _bulk_copy(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    operands = list(instruction.operands)
    _take_hint(decoder, instruction, modifiers, operands)
    if modifiers.flag("bulk_group"):
        for needed in ("global", "shared::cta"):
            if modifiers.take(needed) is None:
                raise unsupported(instruction, "a bulk_group copy goes from shared::cta to global")
        return _bulk_store(decoder, instruction, operands, None)
    multicast = modifiers.flag("multicast::cluster")
    if not modifiers.flag("mbarrier::complete_tx::bytes"):
        raise unsupported(instruction, "it names no completion mechanism")
    spaces = [modifier for modifier in modifiers.left if modifier in ("global", "shared::cta", "shared::cluster")]
    for space in spaces:
        modifiers.left.remove(space)
    if len(spaces) != 2 or not spaces[0].startswith("shared") or len(operands) != 4 + multicast:
        raise unsupported(instruction, "it needs a destination, a source, a size and an mbarrier")
    from_global = spaces[1] == "global"
    to, source = _At(decoder, instruction, operands[0]), _At(decoder, instruction, operands[1])
    size_slot = decoder.source(instruction, operands[2], WORD32)
    barrier = _At(decoder, instruction, operands[3])
    mask_slot = decoder.source(instruction, operands[4], WORD16) if multicast else -1

    def act(warp: Warp, mask: int) -> None:
        for lane in indices(mask).tolist():
            size, address = int(warp.r[size_slot][lane]), source.read(warp, lane)
            own, offset = _shared_place(warp, to.read(warp, lane), instruction, own=spaces[0] == "shared::cta")
            _check_bulk(size, instruction, address, offset)
            if from_global:
                region, begin = _global_place(warp, address, size, instruction)
            else:
                cta, begin = _shared_place(warp, address, instruction, own=True)
                region = cta.shared
                if begin + size > region.size_bytes:
                    raise MachineFault("MF001", "out-of-bounds", "the source leaves shared memory", instruction.span)
            at = _barrier(warp, barrier.read(warp, lane), own, instruction)
            chosen = int(warp.r[mask_slot][lane]) if multicast else None
            destinations = _destinations(warp, own, chosen, instruction)
            issued = copies.issue(warp, lane, instruction.span)
            copies.load_bytes(issued, region, begin, size, destinations, offset, at)

    return Control(act)


def _bulk_store(decoder: Decoder, instruction: Instruction, operands: list[Operand], combine: Any) -> Control:
    if len(operands) != 3:
        raise unsupported(instruction, f"it has {len(instruction.operands)} operands")
    to, source = _At(decoder, instruction, operands[0]), _At(decoder, instruction, operands[1])
    size_slot = decoder.source(instruction, operands[2], WORD32)

    def act(warp: Warp, mask: int) -> None:
        for lane in indices(mask).tolist():
            size, address = int(warp.r[size_slot][lane]), to.read(warp, lane)
            _, offset = _shared_place(warp, source.read(warp, lane), instruction, own=True)
            _check_bulk(size, instruction, address, offset)
            region, begin = _global_place(warp, address, size, instruction)
            issued = copies.issue(warp, lane, instruction.span)
            copies.store_bytes(issued, region, begin, size, offset, combine)

    return Control(act)


def _bulk_reduce(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    operands = list(instruction.operands)
    _take_hint(decoder, instruction, modifiers, operands)
    for needed in ("global", "shared::cta", "bulk_group", "add"):
        if modifiers.take(needed) is None:
            raise unsupported(instruction, f"only the form with .{needed}")
    modifiers.flag("noftz")
    element = modifiers.take(*_ELEMENTS)
    if element is None:
        raise unsupported(instruction, "its element type")
    return _bulk_store(decoder, instruction, operands, _added(*_ELEMENTS[element]))


def _commit(_decoder: Decoder, instruction: Instruction, _modifiers: Modifiers) -> Control:
    expect_operands(instruction, 0)

    def act(warp: Warp, mask: int) -> None:
        observe = warp.cta.cluster.observe
        for lane in indices(mask).tolist():
            group, members = copies.commit(warp, lane)
            if observe is not None:
                observe(BulkCommit(warp.actor, lane, group, members, instruction.span))

    return Control(act)


def _wait(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    read = modifiers.flag("read")
    (operand,) = expect_operands(instruction, 1)
    pending = decoder.static_value(decoder.source(instruction, operand, WORD32))
    if pending is None:
        raise unsupported(instruction, "the number of groups is a constant")
    groups = pending

    def act(warp: Warp, mask: int) -> Signal | None:
        lanes = indices(mask).tolist()
        if not all(copies.waited(warp, lane, groups, read) for lane in lanes):
            strand = warp.current
            what = "be read" if read else "complete"
            strand.block = Block(lambda: f"waits for bulk groups to {what}, all but {groups}", instruction.span)
            warp.bulk_waiters.append((warp, strand))
            return Signal.BLOCK
        observe = warp.cta.cluster.observe
        if observe is not None:
            for lane in lanes:
                observe(BulkWait(warp.actor, lane, groups, read, instruction.span))
        return None

    return Control(act)


HANDLERS = {
    "cp.async.bulk.tensor": _tensor_copy,
    "cp.async.bulk": _bulk_copy,
    "cp.reduce.async.bulk.tensor": _tensor_reduce,
    "cp.reduce.async.bulk": _bulk_reduce,
    "cp.async.bulk.commit_group": _commit,
    "cp.async.bulk.wait_group": _wait,
}
