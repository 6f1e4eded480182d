"""Bulk copies and their groups: binds `copies` to instructions. Every executing lane issues a copy of its own.

Source: PTX ISA 9.7.9.25 to 9.7.9.27: `cp.async.bulk`, `cp.async.bulk.tensor` (modes tile, tile::gather4,
tile::scatter4, im2col, im2col_no_offs), `cp.reduce.async.bulk`, `commit_group`, `wait_group`. Modes im2col::w and
im2col::w::128 run through unknown tensor maps only.

Checked by: tests/machine/copy/test_copies.py, test_bulk_forms.py, test_copy_im2col.py.
"""

from __future__ import annotations

from tilewright.frontends.ptx.ast import Instruction, Operand, Vector
from tilewright.machine.copy import copies
from tilewright.machine.copy.copies import Combine, Destination
from tilewright.machine.copy.copy_engine import CopyMode
from tilewright.machine.core.decoder import WORD16, WORD32, WORD64, Decoder, Modifiers, expect_operands, unsupported
from tilewright.machine.core.event import BulkCommit, BulkWait
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.lanes import indices
from tilewright.machine.core.state import Block, Warp
from tilewright.machine.core.step import Control, Signal
from tilewright.machine.instruction.copies.bulk_operands import (
    At,
    Tensor,
    TensorPlace,
    barrier_place,
    check_bulk,
    destinations,
    global_place,
    is_empty,
    require_cluster,
    shared_place,
)
from tilewright.machine.numbers.reduction import OPERATIONS, reduction

_RANKS = {"1d": 1, "2d": 2, "3d": 3, "4d": 4, "5d": 5}
_ROWS4 = ("tile::gather4", "tile::scatter4")
_WIDE = ("im2col::w", "im2col::w::128")
_IM2COL = ("im2col", "im2col_no_offs", *_WIDE)
_CACHE_HINT = "L2::cache_hint"
_TARGETS_KEPT = 1024
_ELEMENTS = ("f16", "bf16", "f32", "f64", "b32", "b64", "u32", "s32", "u64", "s64")


def _take_hint(decoder: Decoder, instruction: Instruction, modifiers: Modifiers, operands: list[Operand]) -> None:
    if modifiers.flag(_CACHE_HINT):
        decoder.source(instruction, operands.pop(), WORD64)


def _take_mode(instruction: Instruction, modifiers: Modifiers) -> tuple[int, str]:
    """The rank, and the mode: `tile`, `rows4`, `im2col`, or one of the wide im2col modes by its name."""
    rank = _RANKS.get(modifiers.take(*_RANKS) or "")
    if rank is None:
        raise unsupported(instruction, "it names no rank")
    mode = modifiers.take("tile", *_ROWS4, *_IM2COL)
    if mode in _ROWS4:
        return rank, "rows4"
    return rank, mode if mode in _WIDE else "im2col" if mode in _IM2COL else "tile"


def _copy_mode(mode: str, instruction: Instruction) -> CopyMode:
    if mode == "tile" or mode == "rows4" or mode == "im2col":
        return mode
    raise unsupported(instruction, f"the machine has no model of mode {mode}")


def _pixel_offsets(decoder: Decoder, instruction: Instruction, operand: Operand, rank: int) -> tuple[int, ...]:
    """Where the offsets of an im2col copy stand: of W, then H and D. Raises where they are not rank minus two."""
    items = operand.items if isinstance(operand, Vector) else (operand,)
    if len(items) != rank - 2:
        raise unsupported(instruction, f"an im2col copy of rank {rank} takes {rank - 2} offsets, not {len(items)}")
    return tuple(decoder.source(instruction, item, WORD16) for item in items)


def _tensor_copy(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    rank, mode = _take_mode(instruction, modifiers)
    operands = list(instruction.operands)
    _take_hint(decoder, instruction, modifiers, operands)
    if modifiers.flag("bulk_group"):
        if modifiers.take("global") is None or modifiers.take("shared::cta") is None:
            raise unsupported(instruction, "a store goes from shared::cta to global")
        return _tensor_store(decoder, instruction, operands, rank, mode, None)
    if modifiers.take("shared::cluster", "shared::cta") is None or modifiers.take("global") is None:
        raise unsupported(instruction, "a load goes from global to shared memory")
    if not modifiers.flag("mbarrier::complete_tx::bytes"):
        raise unsupported(instruction, "a load completes on an mbarrier")
    multicast = modifiers.flag("multicast::cluster")
    pair = modifiers.take("cta_group::1", "cta_group::2") == "cta_group::2"
    offsets = 1 if mode.startswith("im2col") and rank > 2 and len(operands) == 4 + multicast else 0
    if len(operands) != 3 + offsets + multicast:
        raise unsupported(instruction, f"it has {len(instruction.operands)} operands")
    to = At(decoder, instruction, operands[0])
    tensor = _tensor(decoder, instruction, operands[1], rank, mode)
    barrier = At(decoder, instruction, operands[2])
    pixel_slots = _pixel_offsets(decoder, instruction, operands[3], rank) if mode == "im2col" and offsets else ()
    mask_slot = decoder.source(instruction, operands[-1], WORD16) if multicast else -1

    known: dict[tuple[int, int, int | None, int], tuple[int, int, tuple[tuple[int, int], ...]]] = {}

    def targets_of(warp: Warp, target: int, told_at: int, chosen: int | None) -> tuple[int, list[Destination]]:
        """The offset that is written, and in which CTAs: the same ones again and again, as are their ranks."""
        key = target, told_at, chosen, warp.cta.rank
        found = known.get(key)
        if found is not None:
            offset, at, ranks = found
            ctas = warp.cta.cluster.ctas
            return offset, [Destination(ctas[written], ctas[told], at) for written, told in ranks]
        own, offset = shared_place(warp, target, instruction, own=False)
        told = barrier_place(warp, told_at, target, own, pair, instruction)
        targets = destinations(warp, own, chosen, told, pair, instruction)
        if len(known) < _TARGETS_KEPT:
            known[key] = offset, told[1], tuple((each.cta.rank, each.barrier_cta.rank) for each in targets)
        return offset, targets

    def act(warp: Warp, mask: int) -> None:
        for lane in indices(mask).tolist():
            place = tensor.read(warp, lane)
            chosen = int(warp.r[mask_slot][lane]) if multicast else None
            offset, targets = targets_of(warp, to.read(warp, lane), barrier.read(warp, lane), chosen)
            issued = copies.issue(warp, lane, instruction.span, place.in_memory)
            if place.tensor_map is None or place.buffer is None:
                box_bytes = place.fields.box_bytes if place.fields.box_bytes >= 0 else None
                copies.load_unknown(issued, targets, offset, box_bytes, place.fields.origin)
                continue
            copies.load_tensor(
                issued, place.tensor_map, place.buffer, place.coordinates, targets, offset,
                _copy_mode(mode, instruction),
                tuple(int(warp.r[slot][lane]) & 0xFFFF for slot in pixel_slots) if pixel_slots else (),
            )  # fmt: skip

    return Control(act)


def _tensor(decoder: Decoder, instruction: Instruction, operand: Operand, rank: int, mode: str) -> Tensor:
    return Tensor(decoder, instruction, operand, rank, 5 if mode == "rows4" else rank)


def _tensor_store(
    decoder: Decoder, instruction: Instruction, operands: list[Operand], rank: int, mode: str, operation: str | None
) -> Control:
    if len(operands) != 2:
        raise unsupported(instruction, f"it has {len(instruction.operands)} operands")
    tensor = _tensor(decoder, instruction, operands[0], rank, mode)
    source = At(decoder, instruction, operands[1])

    def combine(place: TensorPlace) -> Combine | None:
        if operation is None or place.tensor_map is None:
            return None
        element = place.tensor_map.element.value
        found = reduction(operation, element, flush=place.tensor_map.variant == "f32_ftz")
        if found is None:
            raise MachineFault("MF007", "reduce-type", f"no bulk reduction {operation} of {element}", instruction.span)
        return found

    def act(warp: Warp, mask: int) -> None:
        for lane in indices(mask).tolist():
            place = tensor.read(warp, lane)
            _, offset = shared_place(warp, source.read(warp, lane), instruction, own=True)
            issued = copies.issue(warp, lane, instruction.span, place.in_memory)
            if place.tensor_map is None or place.buffer is None:
                box_bytes = place.fields.box_bytes if place.fields.box_bytes >= 0 else None
                copies.store_unknown(issued, offset, box_bytes, place.fields.origin)
                continue
            copies.store_tensor(
                issued, place.tensor_map, place.buffer, place.coordinates, offset, combine(place),
                _copy_mode(mode, instruction),
            )  # fmt: skip

    return Control(act)


def _tensor_reduce(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    rank, mode = _take_mode(instruction, modifiers)
    operands = list(instruction.operands)
    _take_hint(decoder, instruction, modifiers, operands)
    for needed in ("global", "shared::cta", "bulk_group"):
        if modifiers.take(needed) is None:
            raise unsupported(instruction, f"only the form with .{needed}")
    operation = modifiers.take(*OPERATIONS)
    if operation is None:
        raise unsupported(instruction, "it names no reduction")
    return _tensor_store(decoder, instruction, operands, rank, mode, operation)


def _bulk_copy(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    operands = list(instruction.operands)
    masked = modifiers.flag("cp_mask")
    byte_mask = decoder.source(instruction, operands.pop(), WORD16) if masked else -1
    _take_hint(decoder, instruction, modifiers, operands)
    if modifiers.flag("bulk_group"):
        for needed in ("global", "shared::cta"):
            if modifiers.take(needed) is None:
                raise unsupported(instruction, "a bulk_group copy goes from shared::cta to global")
        return _bulk_store(decoder, instruction, operands, None, byte_mask)
    return _bulk_load(decoder, instruction, modifiers, operands, None)


def _bulk_load(
    decoder: Decoder, instruction: Instruction, modifiers: Modifiers, operands: list[Operand], combine: Combine | None
) -> Control:
    multicast = modifiers.flag("multicast::cluster")
    ignoring = modifiers.flag("ignore_oob")
    if not modifiers.flag("mbarrier::complete_tx::bytes"):
        raise unsupported(instruction, "it names no completion mechanism")
    spaces = [modifier for modifier in modifiers.left if modifier in ("global", "shared::cta", "shared::cluster")]
    for space in spaces:
        modifiers.left.remove(space)
    if len(spaces) != 2 or not spaces[0].startswith("shared") or len(operands) != 4 + multicast + 2 * ignoring:
        raise unsupported(instruction, "it needs a destination, a source, a size and an mbarrier")
    from_global = spaces[1] == "global"
    to, source = At(decoder, instruction, operands[0]), At(decoder, instruction, operands[1])
    size_slot = decoder.source(instruction, operands[2], WORD32)
    sides = tuple(decoder.source(instruction, operand, WORD32) for operand in operands[3 : 3 + 2 * ignoring])
    barrier = At(decoder, instruction, operands[3 + 2 * ignoring])
    mask_slot = decoder.source(instruction, operands[-1], WORD16) if multicast else -1

    def act(warp: Warp, mask: int) -> None:
        for lane in indices(mask).tolist():
            size, address = int(warp.r[size_slot][lane]), source.read(warp, lane)
            if is_empty(size, warp, instruction, measured=from_global and not multicast):
                continue
            left, right = (int(warp.r[side][lane]) for side in sides) if ignoring else (0, 0)
            target = to.read(warp, lane)
            own, offset = shared_place(warp, target, instruction, own=spaces[0] == "shared::cta")
            check_bulk(size, instruction, address, offset)
            if from_global:
                region, begin = global_place(warp, address + left, max(size - left - right, 0), instruction)
                begin -= left
            else:
                require_cluster(warp, instruction)
                cta, begin = shared_place(warp, address, instruction, own=True)
                region = cta.shared
                if begin + size > region.size_bytes:
                    raise MachineFault("MF001", "out-of-bounds", "the source leaves shared memory", instruction.span)
            told = barrier_place(warp, barrier.read(warp, lane), target, own, False, instruction)
            chosen = int(warp.r[mask_slot][lane]) if multicast else None
            targets = destinations(warp, own, chosen, told, False, instruction)
            issued = copies.issue(warp, lane, instruction.span)
            copies.load_bytes(issued, region, begin, size, targets, offset, combine, (left, right))

    return Control(act)


def _bulk_store(
    decoder: Decoder, instruction: Instruction, operands: list[Operand], combine: Combine | None, byte_mask: int = -1
) -> Control:
    if len(operands) != 3:
        raise unsupported(instruction, f"it has {len(instruction.operands)} operands")
    to, source = At(decoder, instruction, operands[0]), At(decoder, instruction, operands[1])
    size_slot = decoder.source(instruction, operands[2], WORD32)

    def act(warp: Warp, mask: int) -> None:
        for lane in indices(mask).tolist():
            size, address = int(warp.r[size_slot][lane]), to.read(warp, lane)
            if is_empty(size, warp, instruction, measured=True):
                continue
            _, offset = shared_place(warp, source.read(warp, lane), instruction, own=True)
            check_bulk(size, instruction, address, offset)
            region, begin = global_place(warp, address, size, instruction)
            chosen = 0xFFFF if byte_mask < 0 else int(warp.r[byte_mask][lane])
            issued = copies.issue(warp, lane, instruction.span)
            copies.store_bytes(issued, region, begin, size, offset, combine, chosen)

    return Control(act)


def _bulk_reduce(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    operands = list(instruction.operands)
    _take_hint(decoder, instruction, modifiers, operands)
    operation = modifiers.take(*OPERATIONS)
    modifiers.flag("noftz")
    element = modifiers.take(*_ELEMENTS)
    combine = None if operation is None or element is None else reduction(operation, element)
    if combine is None:
        raise unsupported(instruction, "its operation on its element type")
    if modifiers.flag("bulk_group"):
        for needed in ("global", "shared::cta"):
            if modifiers.take(needed) is None:
                raise unsupported(instruction, "a bulk_group reduction goes from shared::cta to global")
        return _bulk_store(decoder, instruction, operands, combine)
    return _bulk_load(decoder, instruction, modifiers, operands, combine)


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
