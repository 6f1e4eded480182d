"""Where do warps meet? Named barriers of a CTA, the barrier of a cluster, and the CTA's register pool.

Theory: PTX ISA, `bar`/`barrier.cta`: 16 barriers a CTA; a warp's arrival counts 32 threads; without a thread count all
threads that have not exited take part (CUDA Programming Guide, Independent Thread Scheduling), and an exit publishes
nothing. `barrier.cluster`: every thread of the cluster that has not exited arrives, then waits. `setmaxnreg`: registers
given back go to the CTA's pool, an increase waits until the pool has enough; only `.dec` gives registers back, an exit
does not.

A `barrier.sync` without `.aligned` still waits for the warp's live lanes to meet. Checked
by: tests/machine/barrier/test_barriers.py.
"""

from __future__ import annotations

from tilewright.base.span import Span
from tilewright.machine.core.event import (
    ClusterArrive,
    ClusterBarrier,
    ClusterWait,
    NamedBarrier,
    NamedBarrierArrive,
    RegisterBudget,
)
from tilewright.machine.core.fault import Awaited, MachineFault
from tilewright.machine.core.lanes import WARP_SIZE
from tilewright.machine.core.state import Block, Cluster, Cta, Warp
from tilewright.machine.core.step import Signal
from tilewright.machine.tensor_core.tensor_memory import check_exit

_NAMED_SOURCE = "PTX ISA, bar / barrier.cta"


def arrive_named(
    warp: Warp, barrier: int, threads: int | None, waits: bool, span: Span, votes: tuple[int, int] = (0, 0)
) -> Signal | None:
    """`bar.sync` (waits) or `bar.arrive` on named barrier `barrier` of `threads` threads (None: all of the CTA).

    Not for a warp that runs the instruction again since it was woken (`passes_again`).

    votes: of `bar.red`, how many of the warp's threads have a predicate that holds, and how many threads vote; the sums
    are in the warp's `barrier_votes` once it has passed.
    """
    cta = warp.cta
    strand = warp.current
    if not 0 <= barrier < len(cta.named):
        raise MachineFault(
            "NB201",
            "barrier-number",
            f"named barrier {barrier} is not one of 0 to {len(cta.named) - 1}",
            span,
            _NAMED_SOURCE,
        )
    if threads is not None and (threads % WARP_SIZE or threads <= 0):
        raise MachineFault(
            "NB201",
            "barrier-count",
            f"thread count {threads} is not a positive multiple of {WARP_SIZE}",
            span,
            _NAMED_SOURCE,
        )
    state = cta.named[barrier]
    if state.active and state.expected != threads:
        raise MachineFault(
            "NB202",
            "barrier-count-differs",
            f"named barrier {barrier} was entered for {_count(state.expected)} threads, and now for {_count(threads)}",
            span,
            _NAMED_SOURCE,
        )
    observe = cta.cluster.observe
    if observe is not None:
        observe(NamedBarrierArrive(warp.actor, cta.linear, barrier, waits, span))
    state.active = True
    state.expected = threads
    state.arrived_threads += WARP_SIZE
    state.votes = (state.votes[0] + votes[0], state.votes[1] + votes[1])
    if threads is not None and state.arrived_threads > threads:
        raise MachineFault(
            "NB203",
            "barrier-overrun",
            f"named barrier {barrier} takes {threads} threads, and {state.arrived_threads} arrived",
            span,
            _NAMED_SOURCE,
        )
    if waits:
        state.synchronizing.append((warp, strand))
    else:
        state.arrived.append(warp)
    lacks = threads is not None and state.arrived_threads < threads
    if (not lacks and _try_complete_named(cta, barrier, span)) or not waits:
        return None
    awaited = Awaited("named barrier", cta.linear, barrier, threads=-1 if threads is None else threads)
    strand.block = Block(lambda: _describe_named(cta, barrier), span, awaited)
    return Signal.BLOCK


def passes_again(warp: Warp) -> bool:
    """Does the warp run a barrier's instruction again, woken since that is complete? All its live lanes came to it
    (`Control.converged`) and have stood there since, so that what they name is what it was."""
    released = warp.released_barrier
    if released is None or released[1] != warp.current.pc:
        return False
    warp.released_barrier = None
    return True


def _count(threads: int | None) -> str:
    return "all" if threads is None else str(threads)


def _describe_named(cta: Cta, barrier: int) -> str:
    state = cta.named[barrier]
    expected = _live_threads(cta) if state.expected is None else state.expected
    waiting = ", ".join(f"warp {warp.index}" for warp, _ in state.synchronizing)
    arrived = ", ".join(f"warp {warp.index}" for warp in state.arrived)
    return (
        f"waits at named barrier {barrier}: {state.arrived_threads} of {expected} threads are there "
        f"(waiting: {waiting or 'none'}; arrived: {arrived or 'none'})"
    )


def _live_threads(cta: Cta) -> int:
    return WARP_SIZE * len([warp for warp in cta.warps if warp.strands])


def _try_complete_named(cta: Cta, barrier: int, span: Span) -> bool:
    state = cta.named[barrier]
    expected = _live_threads(cta) if state.expected is None else state.expected
    if not state.active or state.arrived_threads < expected:
        return False
    observe = cta.cluster.observe
    if observe is not None:
        synchronized = tuple(dict.fromkeys(warp.actor for warp, _ in state.synchronizing))
        observe(NamedBarrier(cta.linear, barrier, synchronized, tuple(warp.actor for warp in state.arrived), span))
    for warp, _ in state.synchronizing:
        warp.barrier_votes = state.votes
    sleepers = [(warp, strand) for warp, strand in state.synchronizing if strand.block is not None]
    for warp, strand in sleepers:
        warp.released_barrier = (barrier, strand.pc)
    state.active = False
    state.expected = None
    state.arrived_threads = 0
    state.synchronizing = []
    state.arrived = []
    state.votes = (0, 0)
    cta.cluster.wake(sleepers)
    return True


def cluster_arrive(warp: Warp, relaxed: bool, span: Span) -> None:
    """`barrier.cluster.arrive` by a whole warp."""
    cluster = warp.cta.cluster
    if warp.cluster_arrived is not None:
        raise MachineFault(
            "CL201", "cluster-arrive-twice", "barrier.cluster.arrive twice without a wait between", span,
            "PTX ISA, barrier.cluster",
        )  # fmt: skip
    if cluster.observe is not None:
        cluster.observe(ClusterArrive(warp.actor, cluster.index, relaxed, span))
    warp.cluster_arrived = cluster.cluster_generation
    cluster.cluster_arrivals.append(warp)
    cluster.cluster_relaxed = cluster.cluster_relaxed and relaxed
    _try_complete_cluster(cluster, span)


def cluster_wait(warp: Warp, span: Span) -> Signal | None:
    """`barrier.cluster.wait` by a whole warp: blocks until every live warp of the cluster has arrived."""
    cluster = warp.cta.cluster
    arrived = warp.cluster_arrived
    if arrived is None:
        raise MachineFault(
            "CL201", "cluster-wait-first", "barrier.cluster.wait without an arrive before", span,
            "PTX ISA, barrier.cluster",
        )  # fmt: skip
    if cluster.cluster_generation > arrived:
        warp.cluster_arrived = None
        if cluster.observe is not None:
            cluster.observe(ClusterWait(warp.actor, cluster.index, span))
        return None
    strand = warp.current
    strand.block = Block(lambda: _describe_cluster(cluster), span, Awaited("cluster barrier"))
    cluster.cluster_waiters.append((warp, strand))
    return Signal.BLOCK


def _describe_cluster(cluster: Cluster) -> str:
    missing = [
        f"CTA {warp.cta.linear} warp {warp.index}"
        for cta in cluster.ctas
        for warp in cta.warps
        if not warp.done and warp not in cluster.cluster_arrivals
    ]
    return f"waits at the cluster barrier; not arrived: {', '.join(missing) or 'none'}"


def _try_complete_cluster(cluster: Cluster, span: Span) -> None:
    arrivals = cluster.cluster_arrivals
    if not arrivals or len(arrivals) < cluster.live_warps:
        return
    if any(not warp.done and warp not in arrivals for cta in cluster.ctas for warp in cta.warps):
        return
    if cluster.observe is not None:
        actors = tuple(warp.actor for warp in arrivals)
        cluster.observe(ClusterBarrier(cluster.index, actors, cluster.cluster_relaxed, span))
    cluster.cluster_generation += 1
    cluster.cluster_arrivals = []
    cluster.cluster_relaxed = True
    cluster.wake(cluster.cluster_waiters)


def warp_exited(warp: Warp, span: Span) -> None:
    """A warp is done: barriers that wait for all live threads may complete. Its registers do not return to the pool."""
    cta = warp.cta
    cta.cluster.live_warps -= 1
    if all(each.done for each in cta.warps):
        check_exit(cta, span)
    for barrier, state in enumerate(cta.named):
        if state.active and state.expected is None:
            _try_complete_named(cta, barrier, span)
    _try_complete_cluster(cta.cluster, span)


def set_registers(warp: Warp, registers: int, increase: bool, span: Span) -> Signal | None:
    """`setmaxnreg.inc` / `.dec` for one warp: an increase blocks until the CTA's pool has the registers."""
    cta = warp.cta
    source = "PTX ISA, setmaxnreg"
    delta = (registers - warp.registers) * WARP_SIZE
    if (increase and delta < 0) or (not increase and delta > 0):
        raise MachineFault(
            "SR201",
            "setmaxnreg-direction",
            f"setmaxnreg.{'inc' if increase else 'dec'} to {registers}, but the warp has {warp.registers}",
            span,
            source,
        )
    if delta > cta.free_registers:
        strand = warp.current
        strand.block = Block(
            lambda: f"waits for {delta} registers (setmaxnreg.inc {registers}); the pool has {cta.free_registers}",
            span,
            Awaited("registers", cta.linear),
        )
        cta.register_waiters.append((warp, strand))
        return Signal.BLOCK
    cta.free_registers -= delta
    before, warp.registers = warp.registers, registers
    observe = cta.cluster.observe
    if observe is not None:
        observe(RegisterBudget(warp.actor, registers, increase, span, before))
    if delta < 0:
        cta.cluster.wake(cta.register_waiters)
    return None
