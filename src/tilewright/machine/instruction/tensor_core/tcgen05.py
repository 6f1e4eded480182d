"""Tensor memory: allocation and fences. Binds `tensor_memory` to instructions.

Source: PTX ISA, `tcgen05.alloc`, `dealloc`, `relinquish_alloc_permit`, `fence`. Checked by:
tests/machine/tensor_core/test_tcgen05.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.core.decoder import WORD32, Decoder, Modifiers, expect_operands, unsupported
from tilewright.machine.core.event import (
    Access,
    TensorMemoryAllocate,
    TensorMemoryDeallocate,
    TensorMemoryFence,
    TensorMemoryRelinquish,
)
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.memory import locate
from tilewright.machine.core.state import Warp
from tilewright.machine.core.step import Control, Signal
from tilewright.machine.instruction.barriers import uniform
from tilewright.machine.tensor_core.tensor_memory import allocate, deallocate, group_of, memory_of

_GROUPS = {"cta_group::1": 1, "cta_group::2": 2}


def take_group(instruction: Instruction, modifiers: Modifiers) -> int:
    """The `.cta_group` of an instruction, 1 or 2."""
    name = modifiers.take(*_GROUPS)
    if name is None:
        raise unsupported(instruction, "it names no .cta_group")
    return _GROUPS[name]


def _take_sync(modifiers: Modifiers) -> None:
    modifiers.flag("sync")
    modifiers.flag("aligned")
    modifiers.flag("b32")


def _alloc(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    cta_group = take_group(instruction, modifiers)
    _take_sync(modifiers)
    space = "shared::cta" if modifiers.flag("shared::cta") else "generic"
    to, count = expect_operands(instruction, 2)
    slot, offset = decoder.address(instruction, to)
    columns_slot = decoder.source(instruction, count, WORD32)
    span, opcode = instruction.span, instruction.opcode

    def act(warp: Warp, mask: int) -> Signal | None:
        columns = uniform(warp, columns_slot, mask, "the number of columns", instruction)
        address = uniform(warp, slot, mask, "the destination", instruction) + offset
        column = allocate(warp, columns, cta_group, opcode, span)
        if column is None:
            return Signal.BLOCK
        (found,) = locate(warp.cta, space, np.array([address], np.uint64), 4, span)
        at = int(found.offsets[0])
        if found.region.cta != warp.cta.linear:
            raise MachineFault(
                "MF001", "foreign-shared-memory", f"{opcode} writes its result to {address:#x}, which is not in the "
                "CTA's own shared memory", span, "PTX ISA, tcgen05.alloc",
            )  # fmt: skip
        found.region.words[4][at >> 2] = column
        observe = warp.cta.cluster.observe
        if observe is not None:
            cta = warp.cta.linear
            observe(TensorMemoryAllocate(warp.actor, cta, column, columns, cta_group, span))
            observe(Access(warp.actor, "shared", cta, ((at, at + 4),), True, "generic", span))
        return None

    return Control(act, converged=True)


def _dealloc(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    cta_group = take_group(instruction, modifiers)
    _take_sync(modifiers)
    address, count = expect_operands(instruction, 2)
    slot = decoder.source(instruction, address, WORD32)
    columns_slot = decoder.source(instruction, count, WORD32)

    def act(warp: Warp, mask: int) -> None:
        columns = uniform(warp, columns_slot, mask, "the number of columns", instruction)
        at = uniform(warp, slot, mask, "the address", instruction)
        column = deallocate(warp, at, columns, cta_group, instruction.opcode, instruction.span)
        observe = warp.cta.cluster.observe
        if observe is not None:
            observe(TensorMemoryDeallocate(warp.actor, warp.cta.linear, column, columns, cta_group, instruction.span))

    return Control(act, converged=True)


def _relinquish(_decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Control:
    cta_group = take_group(instruction, modifiers)
    _take_sync(modifiers)
    expect_operands(instruction, 0)

    def act(warp: Warp, _mask: int) -> None:
        group_of(warp.cta, cta_group, instruction.opcode, instruction.span)
        memory_of(warp.cta).permit = False
        observe = warp.cta.cluster.observe
        if observe is not None:
            observe(TensorMemoryRelinquish(warp.actor, cta_group, instruction.span))

    return Control(act, converged=True)


def _fence(side: Literal["before", "after"]) -> Callable[[Decoder, Instruction, Modifiers], Control]:
    def handler(_decoder: Decoder, instruction: Instruction, _modifiers: Modifiers) -> Control:
        expect_operands(instruction, 0)

        def act(warp: Warp, _mask: int) -> None:
            observe = warp.cta.cluster.observe
            if observe is not None:
                observe(TensorMemoryFence(warp.actor, side, instruction.span))

        return Control(act)

    return handler


HANDLERS = {
    "tcgen05.alloc": _alloc,
    "tcgen05.dealloc": _dealloc,
    "tcgen05.relinquish_alloc_permit": _relinquish,
    "tcgen05.fence::before_thread_sync": _fence("before"),
    "tcgen05.fence::after_thread_sync": _fence("after"),
}
