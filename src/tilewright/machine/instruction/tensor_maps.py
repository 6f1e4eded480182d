"""Tensor maps that a kernel makes or changes: `tensormap.replace` and `tensormap.cp_fenceproxy`.

A replacement reads and writes the whole 128-byte object through the generic proxy. `cp_fenceproxy` copies one from
shared to global memory and is a release fence towards the tensormap proxy; every lane that runs it would copy the same
bytes, so it is done once. Source: PTX ISA 9.7.9.28 (tensormap.replace), 9.7.13.12 (tensormap.cp_fenceproxy).
Checked by: tests/machine/copy/test_tensor_maps.py.
"""

from __future__ import annotations

import numpy as np

from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.copy.tensor_map_bytes import ALIGNMENT_BYTES, FIELDS, SIZE_BYTES, encode_unknown, replaced
from tilewright.machine.core.decoder import WORD32, WORD64, Decoder, Modifiers, expect_operands, unsupported
from tilewright.machine.core.engine_fault import EngineFault
from tilewright.machine.core.event import Access, TensorMapFence
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.lanes import indices, to_bits
from tilewright.machine.core.memory import SHARED_WINDOW, Region
from tilewright.machine.core.state import Warp
from tilewright.machine.core.step import Control
from tilewright.machine.instruction.bulk_operands import At, global_place, map_bytes, shared_place

_ORDINAL_FIELDS = ("box_dim", "global_dim", "element_stride", "global_stride")
_WIDE_FIELDS = ("global_address", "global_stride")


def _report(warp: Warp, where: Region, begin: int, write: bool, instruction: Instruction, lanes: int) -> None:
    observe = warp.cta.cluster.observe
    if observe is None:
        return
    if where.cta >= 0:
        ranges = ((begin, begin + SIZE_BYTES),)
        observe(Access(warp.actor, "shared", where.cta, ranges, write, "generic", instruction.span, lanes=lanes))
    else:
        ranges = ((where.base + begin, where.base + begin + SIZE_BYTES),)
        observe(Access(warp.actor, "global", -1, ranges, write, "generic", instruction.span, lanes=lanes))


def _check_alignment(address: int, instruction: Instruction) -> None:
    if address % ALIGNMENT_BYTES:
        raise MachineFault(
            "TM201", "no-tensor-map", f"a tensor map stands at a multiple of {ALIGNMENT_BYTES}, not at {address:#x}",
            instruction.span,
        )  # fmt: skip


def _replace(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    modifiers.flag("tile")
    field = modifiers.take(*FIELDS)
    space = modifiers.take("global", "shared::cta")
    for word in ("b1024", "b32", "b64"):
        modifiers.flag(word)
    if field is None:
        raise unsupported(instruction, "it names no field")
    operands = expect_operands(instruction, 3 if field in _ORDINAL_FIELDS else 2)
    at = At(decoder, instruction, operands[0])
    ordinal_slot = decoder.source(instruction, operands[1], WORD32) if field in _ORDINAL_FIELDS else -1
    value_slot = decoder.source(instruction, operands[-1], WORD64 if field in _WIDE_FIELDS else WORD32)

    def act(warp: Warp, mask: int) -> None:
        for lane in indices(mask).tolist():
            address = at.read(warp, lane)
            ordinal = 0 if ordinal_slot < 0 else int(warp.r[ordinal_slot][lane])
            value = int(warp.r[value_slot][lane])
            _check_alignment(address, instruction)
            try:
                where, begin = _change(warp, address, space, field, ordinal, value, instruction)
            except EngineFault as fault:
                raise MachineFault(fault.code, fault.name, fault.message, instruction.span) from fault
            lanes = to_bits(1 << (8 * lane))
            _report(warp, where, begin, False, instruction, lanes)
            _report(warp, where, begin, True, instruction, lanes)

    return Control(act)


def _change(
    warp: Warp, address: int, space: str | None, field: str, ordinal: int, value: int, instruction: Instruction
) -> tuple[Region, int]:
    if space == "shared::cta" or (space is None and address >= SHARED_WINDOW):
        cta, begin = shared_place(warp, address, instruction, own=True)
        where = cta.shared
        if begin + SIZE_BYTES > where.size_bytes:
            raise MachineFault("MF001", "out-of-bounds", "the tensor map leaves shared memory", instruction.span)
    else:
        where, begin = global_place(warp, address, SIZE_BYTES, instruction)
    if where.virtual:
        content = map_bytes(warp, address) or encode_unknown(None, address)
        warp.cta.cluster.memory.virtual_maps[address] = replaced(content, field, ordinal, value)
    else:
        content = where.data[begin : begin + SIZE_BYTES].tobytes()
        where.data[begin : begin + SIZE_BYTES] = np.frombuffer(replaced(content, field, ordinal, value), np.uint8)
    return where, begin


def _copy(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    for word in ("global", "shared::cta", "tensormap::generic", "release", "sync", "aligned"):
        modifiers.flag(word)
    scope = modifiers.take("cta", "cluster", "gpu", "sys") or "gpu"
    target, source_operand, size = expect_operands(instruction, 3)
    if decoder.static_value(decoder.source(instruction, size, WORD32)) != SIZE_BYTES:
        raise unsupported(instruction, f"it copies {SIZE_BYTES} bytes")
    to, source = At(decoder, instruction, target), At(decoder, instruction, source_operand)

    def act(warp: Warp, mask: int) -> None:
        observe, memory = warp.cta.cluster.observe, warp.cta.cluster.memory
        copied: set[tuple[int, int]] = set()
        for lane in indices(mask).tolist():
            address, origin = to.read(warp, lane), source.read(warp, lane)
            if (address, origin) in copied:
                continue
            copied.add((address, origin))
            _check_alignment(address, instruction)
            cta, begin = shared_place(warp, origin, instruction, own=True)
            if begin % ALIGNMENT_BYTES or begin + SIZE_BYTES > cta.shared.size_bytes:
                raise MachineFault(
                    "TM201", "no-tensor-map", f"no tensor map stands at shared offset {begin:#x}", instruction.span
                )
            content = cta.shared.data[begin : begin + SIZE_BYTES].copy()
            where, offset = global_place(warp, address, SIZE_BYTES, instruction)
            if where.virtual:
                memory.virtual_maps[address] = content.tobytes()
            where.data[offset : offset + SIZE_BYTES] = content
            lanes = to_bits(1 << (8 * lane))
            _report(warp, cta.shared, begin, False, instruction, lanes)
            _report(warp, where, offset, True, instruction, lanes)
            if observe is not None:
                observe(TensorMapFence(warp.actor, "release", address, scope, instruction.span, to_bits(mask)))

    return Control(act, converged=True)


HANDLERS = {"tensormap.replace": _replace, "tensormap.cp_fenceproxy": _copy}
