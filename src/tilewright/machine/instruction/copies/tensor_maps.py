"""Tensor maps that a kernel makes or changes: `tensormap.replace` and `tensormap.cp_fenceproxy`.

A replacement reads and writes the whole 128-byte object through the generic proxy. `cp_fenceproxy` copies one from
shared to global memory and is a release fence towards the tensormap proxy; every lane that runs it would copy the same
bytes, so it is done once, by whichever lane. Source: PTX ISA 9.7.9.28 (tensormap.replace), 9.7.13.12
(tensormap.cp_fenceproxy).
Checked by: tests/machine/copy/test_tensor_maps.py.
"""

from __future__ import annotations

import numpy as np

from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.copy.tensor_map_bytes import FIELDS, alignment_bytes, encode_unknown, replaced, size_bytes
from tilewright.machine.core.decoder import WORD32, WORD64, Decoder, Modifiers, expect_operands, unsupported
from tilewright.machine.core.engine_fault import EngineFault
from tilewright.machine.core.event import TOGETHER, Access, TensorMapFence
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.lanes import indices, to_bits
from tilewright.machine.core.memory import SHARED_WINDOW, Region
from tilewright.machine.core.state import Warp
from tilewright.machine.core.step import Control
from tilewright.machine.instruction.copies.bulk_operands import At, global_place, map_bytes, shared_place

_ORDINAL_FIELDS = ("box_dim", "global_dim", "element_stride", "global_stride")
_WIDE_FIELDS = ("global_address", "global_stride")


def _report(
    warp: Warp, where: Region, begin: int, write: bool, instruction: Instruction, lanes: int, *, together: bool = False
) -> None:
    observe = warp.cta.cluster.observe
    if observe is None:
        return
    space, at = ("shared", begin) if where.cta >= 0 else ("global", where.base + begin)
    ranges, places = ((at, at + size_bytes(warp.cta.cluster.target)),), TOGETHER if together else None
    span = instruction.span
    observe(Access(warp.actor, space, where.cta, ranges, write, "generic", span, lanes=lanes, places=places))


def _check_alignment(address: int, alignment: int, instruction: Instruction) -> None:
    if address % alignment:
        raise MachineFault(
            "TM201", "no-tensor-map", f"a tensor map stands at a multiple of {alignment}, not at {address:#x}",
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
    alignment = alignment_bytes(decoder.target)

    def act(warp: Warp, mask: int) -> None:
        for lane in indices(mask).tolist():
            address = at.read(warp, lane)
            ordinal = 0 if ordinal_slot < 0 else int(warp.r[ordinal_slot][lane])
            value = int(warp.r[value_slot][lane])
            _check_alignment(address, alignment, instruction)
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
    facts = warp.cta.cluster.target
    size = size_bytes(facts)
    if space == "shared::cta" or (space is None and address >= SHARED_WINDOW):
        cta, begin = shared_place(warp, address, instruction, own=True)
        where = cta.shared
        if begin + size > where.size_bytes:
            raise MachineFault("MF001", "out-of-bounds", "the tensor map leaves shared memory", instruction.span)
    else:
        where, begin = global_place(warp, address, size, instruction)
    if where.virtual:
        content = map_bytes(warp, address) or encode_unknown(None, address, facts)
        warp.cta.cluster.memory.virtual_maps[address] = replaced(content, field, ordinal, value)
    else:
        content = where.data[begin : begin + size].tobytes()
        where.data[begin : begin + size] = np.frombuffer(replaced(content, field, ordinal, value), np.uint8)
    return where, begin


def _copy(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    for word in ("global", "shared::cta", "tensormap::generic", "release", "sync", "aligned"):
        modifiers.flag(word)
    scope = modifiers.take("cta", "cluster", "gpu", "sys") or "gpu"
    target, source_operand, size_operand = expect_operands(instruction, 3)
    size, alignment = size_bytes(decoder.target), alignment_bytes(decoder.target)
    if decoder.static_value(decoder.source(instruction, size_operand, WORD32)) != size:
        raise unsupported(instruction, f"it copies {size} bytes")
    to, source = At(decoder, instruction, target), At(decoder, instruction, source_operand)

    def act(warp: Warp, mask: int) -> None:
        observe, memory = warp.cta.cluster.observe, warp.cta.cluster.memory
        copied: set[tuple[int, int]] = set()
        for lane in indices(mask).tolist():
            address, origin = to.read(warp, lane), source.read(warp, lane)
            if (address, origin) in copied:
                continue
            copied.add((address, origin))
            _check_alignment(address, alignment, instruction)
            cta, begin = shared_place(warp, origin, instruction, own=True)
            if begin % alignment or begin + size > cta.shared.size_bytes:
                raise MachineFault(
                    "TM201", "no-tensor-map", f"no tensor map stands at shared offset {begin:#x}", instruction.span
                )
            content = cta.shared.data[begin : begin + size].copy()
            where, offset = global_place(warp, address, size, instruction)
            if where.virtual:
                memory.virtual_maps[address] = content.tobytes()
            where.data[offset : offset + size] = content
            # Any lane may be the one that moves a byte.
            _report(warp, cta.shared, begin, False, instruction, to_bits(mask), together=True)
            _report(warp, where, offset, True, instruction, to_bits(mask), together=True)
            if observe is not None:
                observe(TensorMapFence(warp.actor, "release", address, scope, instruction.span, to_bits(mask)))

    return Control(act, converged=True)


HANDLERS = {"tensormap.replace": _replace, "tensormap.cp_fenceproxy": _copy}
