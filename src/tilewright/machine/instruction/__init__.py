"""What does each instruction do? One handler a row of the instruction table: from syntax to a step.

A handler reads operands and modifiers through the decoder and returns a `Plain` or `Control` step; whatever it does
not ask for is refused. A module of handlers is loaded when a text first has one of its instructions: few texts use more
than half of them. Handlers that only compute are checked by tests/machine/instruction/test_instructions.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module

from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.core.decoder import Decoder, Modifiers
from tilewright.machine.core.step import Control, Plain

Handler = Callable[[Decoder, Instruction, Modifiers], Plain | Control]

_ROWS = {
    "arithmetic.integer": "add sub mul mad fma mul24 mad24 div rem min max neg abs sad dp4a dp2a addc subc madc",
    "arithmetic.bits": "and or xor not cnot lop3 shl shr shf bfe bfi popc clz brev bfind bmsk szext fns prmt",
    "arithmetic.compare": "setp set slct testp",
    "arithmetic.floating": "ex2 lg2 rcp rsqrt sqrt sin cos tanh copysign",
    "arithmetic.convert": "cvt cvt.pack",
    "arithmetic.move": "createpolicy mov cvta isspacep mapa getctarank selp",
    "control": (
        "bra brx.idx call exit ret trap brkpt nanosleep griddepcontrol.wait griddepcontrol.launch_dependents "
        "prefetch prefetchu prefetch.tensormap cp.async.bulk.prefetch cp.async.bulk.prefetch.tensor discard "
        "applypriority pmevent"
    ),
    "memory_access": "ld ldu st",
    "atomic": "atom red",
    "fences": (
        "membar fence fence.mbarrier_init fence.proxy.async fence.proxy.async::generic fence.proxy.alias "
        "fence.proxy.tensormap::generic"
    ),
    "copies.async_copy": (
        "cp.async cp.async.commit_group cp.async.wait_group cp.async.wait_all cp.async.mbarrier.arrive"
    ),
    "warp_wide": "elect.sync shfl.sync vote.sync activemask match.any.sync match.all.sync redux.sync",
    "barriers": (
        "bar.sync bar.arrive bar.cta.sync bar.cta.arrive barrier.sync barrier.arrive barrier.cta.sync "
        "barrier.cta.arrive bar.red bar.cta.red barrier.red barrier.cta.red bar.warp.sync "
        "barrier.cluster.arrive barrier.cluster.wait setmaxnreg"
    ),
    "mbarriers": (
        "mbarrier.check_layout mbarrier.init mbarrier.inval mbarrier.arrive mbarrier.arrive.expect_tx "
        "mbarrier.arrive_drop mbarrier.arrive_drop.expect_tx mbarrier.expect_tx mbarrier.complete_tx "
        "mbarrier.test_wait mbarrier.try_wait mbarrier.pending_count"
    ),
    "copies.bulk": (
        "cp.async.bulk.tensor cp.async.bulk cp.reduce.async.bulk.tensor cp.reduce.async.bulk "
        "cp.async.bulk.commit_group cp.async.bulk.wait_group"
    ),
    "copies.async_store": (
        "st.async red.async st.bulk clusterlaunchcontrol.try_cancel clusterlaunchcontrol.query_cancel"
    ),
    "copies.tensor_maps": "tensormap.replace tensormap.cp_fenceproxy",
    "tensor_core.matrix": "ldmatrix stmatrix movmatrix",
    "tensor_core.mma": "mma.sync",
    "tensor_core.wgmma": "wgmma.fence wgmma.mma_async wgmma.mma_async.sp wgmma.commit_group wgmma.wait_group",
    "tensor_core.tcgen05": (
        "tcgen05.alloc tcgen05.dealloc tcgen05.relinquish_alloc_permit tcgen05.fence::before_thread_sync "
        "tcgen05.fence::after_thread_sync"
    ),
    "tensor_core.tcgen05_copy": "tcgen05.cp tcgen05.shift tcgen05.commit",
    "tensor_core.tcgen05_mma": "tcgen05.mma tcgen05.mma.sp tcgen05.mma.ws tcgen05.mma.ws.sp",
    "tensor_core.tcgen05_move": "tcgen05.ld tcgen05.ld.red tcgen05.st tcgen05.wait::ld tcgen05.wait::st",
}
"""The rows that each module's `HANDLERS` has, by the module's name."""

_MODULES = {row: module for module, rows in _ROWS.items() for row in rows.split()}


@cache
def handler_of(row: str) -> Handler | None:
    """What decodes the instructions of a row; None where the machine does not know them."""
    module = _MODULES.get(row)
    return None if module is None else import_module(f"{__name__}.{module}").HANDLERS[row]
