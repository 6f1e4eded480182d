"""How the CTAs of a cluster meet: at a kernel's beginning, before anybody touches another's barriers, and at its end.

At the beginning nothing is handed over but the barriers' inits, and those are published by fence.mbarrier_init, whose
example in the PTX ISA is this one: the arrival after it is relaxed. Releasing there, every thread would fence the whole
device's memory for nothing. What stands between fence and meeting might be something to release, so then it is.
At the end, arrivals at other CTAs' barriers must have been performed before those CTAs' shared memory goes to others:
that is what the release there is for.
Where there is tensor memory, what threads did there comes before what any of them does next.
Source: PTX ISA, barrier.cluster, fence.mbarrier_init, tcgen05.fence. Checked by: tests/lower/test_ptx_text.py;
`contract` proves both.
"""

from __future__ import annotations

from tilewright.ir.ac import operations as ac
from tilewright.lower.ptx.lowering import Lowering
from tilewright.lower.ptx.places import TensorMemoryPlace


def lower_sync(lowering: Lowering, op: ac.CtaSyncOp | ac.ClusterSyncOp) -> None:
    """All threads of the CTA, or of the cluster, arrive and wait."""
    text, publishes_inits = lowering.text, isinstance(op.prev_op, ac.FenceBarrierInitOp)
    in_tensor_memory = any(isinstance(place, TensorMemoryPlace) for place in lowering.places.values())
    in_tensor_memory &= isinstance(op, ac.CtaSyncOp) or not publishes_inits
    if in_tensor_memory:
        text.emit("bar.warp.sync", -1)  # threads of a role of one have gone their own way
        text.emit("tcgen05.fence::before_thread_sync")
    if isinstance(op, ac.ClusterSyncOp):
        text.emit(f"barrier.cluster.arrive.{'relaxed' if publishes_inits else 'release'}")
        text.emit("barrier.cluster.wait.acquire")
    else:
        text.emit("bar.sync", 0)
    if in_tensor_memory:
        text.emit("tcgen05.fence::after_thread_sync")
