"""Named barriers and cluster barriers: who learns what from whom, and may an arrival count in the use before?

Source: PTX ISA 9.7.13.1 (bar, barrier), 9.7.13.3 (barrier.cluster). Checked by:
tests/contract/judge/test_happens_before_rules.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.contract.judge.launch_state import LaunchState
from tilewright.contract.judge.order import lane_order
from tilewright.contract.judge.run_state import ClusterState, NamedState, name_of
from tilewright.contract.judge.vector_clock import VectorClock
from tilewright.machine.core.event import ClusterArrive, ClusterBarrier, ClusterWait, NamedBarrier, NamedBarrierArrive


def _named(cluster: ClusterState, cta: int, barrier: int) -> NamedState:
    found = cluster.named.get((cta, barrier))
    if found is None:
        found = cluster.named[cta, barrier] = NamedState(cluster.tracks.of(("named", cta, barrier)))
    return found


def named_arrive(state: LaunchState, event: NamedBarrierArrive) -> None:
    """A warp reaches bar.sync, after which all of its lanes know each other's accesses, or bar.arrive."""
    cluster, warp = state.step(event.actor)
    if event.waits:
        lane_order.synchronize(warp)
    barrier = _named(cluster, event.cta, event.barrier)
    twice = barrier.arrivals.get(warp.actor)
    if twice is not None and warp.order.at(barrier.track) >= barrier.generation:
        level = state.interpretations.arrive_twice
        if level is not None:
            state.findings.report(
                "NB105",
                f"{name_of(warp.actor)} arrives at named barrier {event.barrier} of CTA {event.cta} twice in one use",
                event.span,
                twice,
                (
                    f"{name_of(warp.actor)} arrives ({twice})",
                    f"it takes part again ({event.span}) before the barrier has completed",
                ),
                level,
            )
    elif warp.order.at(barrier.track) < barrier.generation:
        state.findings.report(
            "NB102",
            f"{name_of(warp.actor)} arrives at named barrier {event.barrier} of CTA {event.cta} without knowing "
            "that its use before has completed",
            event.span,
            barrier.previous,
            (
                f"named barrier {event.barrier} still lacks arrivals of its use before ({barrier.previous})",
                f"{name_of(warp.actor)} arrives for the next use ({event.span})",
                "the arrival counts in the use before, which completes too early",
            ),
        )
    barrier.arrivals[warp.actor] = event.span
    barrier.clock.join(warp.clock)
    barrier.order.join(warp.order)


def named_barrier(state: LaunchState, event: NamedBarrier) -> None:
    """A named barrier completes."""
    cluster = state.cluster_of(event.cta)
    barrier = _named(cluster, event.cta, event.barrier)
    barrier.generation += 1
    barrier.clock.advance(barrier.track, barrier.generation)
    barrier.order.advance(barrier.track, barrier.generation)
    for actor in event.synchronized:
        warp = cluster.warp(actor)
        warp.clock.join(barrier.clock)
        warp.order.join(barrier.order)
    barrier.clock = VectorClock()
    barrier.order = VectorClock()
    barrier.arrivals = {}
    barrier.previous = event.span


def cluster_arrive(state: LaunchState, event: ClusterArrive) -> None:
    """barrier.cluster.arrive."""
    cluster, warp = state.step(event.actor)
    warp.cluster_generation = cluster.cluster_generation
    cluster.arriving_order.join(warp.order)
    if not event.relaxed:
        cluster.arriving.join(warp.clock)
        return
    # A relaxed arrival publishes what a fence before it has released, and the inits of fence.mbarrier_init.
    if warp.release is not None and warp.release_scope in ("cluster", "gpu", "sys"):
        cluster.arriving.join(warp.release)
    if warp.initialises:
        init = ("init", warp.track)
        cluster.advance(cluster.arriving, init, cluster.at(warp.clock, init))


def cluster_barrier(state: LaunchState, event: ClusterBarrier) -> None:
    """All warps of the cluster have arrived."""
    if not event.warps:
        return
    cluster = state.cluster_of(event.warps[0].cta)
    cluster.cluster_published[cluster.cluster_generation] = (cluster.arriving, cluster.arriving_order)
    cluster.cluster_published.pop(cluster.cluster_generation - 2, None)
    cluster.cluster_generation += 1
    cluster.arriving, cluster.arriving_order = VectorClock(), VectorClock()


def cluster_wait(state: LaunchState, event: ClusterWait) -> None:
    """barrier.cluster.wait passes."""
    cluster, warp = state.step(event.actor)
    published = cluster.cluster_published.get(warp.cluster_generation)
    if published is None:
        state.findings.doubt(f"{event.span}: a cluster wait passes before its barrier is complete")
        return
    lane_order.learn(warp, published[0])
    if warp.initialises:
        warp.released_init_epoch = cluster.at(published[0], ("init", warp.track))
    warp.clock.join(published[0])
    warp.order.join(published[1])


HANDLERS: dict[type, Callable[[LaunchState, Any], None]] = {
    NamedBarrierArrive: named_arrive,
    NamedBarrier: named_barrier,
    ClusterArrive: cluster_arrive,
    ClusterBarrier: cluster_barrier,
    ClusterWait: cluster_wait,
}
