"""What does each instruction do? One handler a row of the instruction table: from syntax to a step.

A handler reads operands and modifiers through the decoder and returns a `Plain` or `Control` step; whatever it does
not ask for is refused. Handlers that only compute are checked by tests/machine/instruction/test_instructions.py.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.core.decoder import Decoder, Modifiers
from tilewright.machine.core.step import Control, Plain
from tilewright.machine.instruction import (
    async_copy,
    async_store,
    atomic,
    barriers,
    bits,
    bulk,
    compare,
    control,
    convert,
    fences,
    floating,
    integer,
    matrix,
    mbarriers,
    memory_access,
    mma,
    move,
    tcgen05,
    tcgen05_copy,
    tcgen05_mma,
    tcgen05_move,
    tensor_maps,
    warp_wide,
    wgmma,
)

Handler = Callable[[Decoder, Instruction, Modifiers], Plain | Control]

HANDLERS: dict[str, Handler] = {
    **integer.HANDLERS,
    **bits.HANDLERS,
    **compare.HANDLERS,
    **floating.HANDLERS,
    **convert.HANDLERS,
    **move.HANDLERS,
    **control.HANDLERS,
    **memory_access.HANDLERS,
    **atomic.HANDLERS,
    **fences.HANDLERS,
    **async_copy.HANDLERS,
    **warp_wide.HANDLERS,
    **barriers.HANDLERS,
    **mbarriers.HANDLERS,
    **bulk.HANDLERS,
    **async_store.HANDLERS,
    **tensor_maps.HANDLERS,
    **matrix.HANDLERS,
    **mma.HANDLERS,
    **wgmma.HANDLERS,
    **tcgen05.HANDLERS,
    **tcgen05_copy.HANDLERS,
    **tcgen05_mma.HANDLERS,
    **tcgen05_move.HANDLERS,
}
