"""How the CTAs of a cluster meet: at a kernel's beginning, before anybody touches another's barriers, and at its end.

At the beginning nothing is handed over but the barriers' inits, and those are published by fence.mbarrier_init, whose
example in the PTX ISA is this one: the arrival after it is relaxed. Releasing there, every thread would fence the whole
device's memory for nothing. What stands between fence and meeting might be something to release, so then it is.
At the end, arrivals at other CTAs' barriers must have been performed before those CTAs' shared memory goes to others:
that is what the release there is for.
Source: PTX ISA, barrier.cluster, fence.mbarrier_init. Checked by: tests/lower/test_ptx_text.py; `contract` proves both.
"""

from __future__ import annotations

from tilewright.ir.ac import operations as ac
from tilewright.lower.ptx.emit import Text


def lower_cluster_sync(text: Text, op: ac.ClusterSyncOp) -> None:
    """All threads of the cluster arrive and wait."""
    publishes_inits = isinstance(op.prev_op, ac.FenceBarrierInitOp)
    text.emit(f"barrier.cluster.arrive.{'relaxed' if publishes_inits else 'release'}")
    text.emit("barrier.cluster.wait.acquire")
