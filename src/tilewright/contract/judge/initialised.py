"""Does whoever uses an mbarrier see that it has been initialised, in every interleaving?

Init must be ordered before each use; from a peer CTA, and for an engine, the fence that publishes it must be too, since
executing init does not make it visible there. Lanes of the warp that initialises must know that one of them has. What
the uses then count is `phase_ledger`'s question. Source: PTX ISA 9.7.13.15. Not handled: which lane's fence.proxy.async
makes an init visible to its own CTA's engines.
Checked by: tests/contract/judge/test_happens_before_rules.py, tests/coverage_attacks/test_fences_of_lanes.py.
"""

from __future__ import annotations

from tilewright.base.diagnostic import Level
from tilewright.base.span import Span
from tilewright.contract.judge.order import lane_order
from tilewright.contract.judge.run_state import BarrierState, ClusterState, Mark, WarpState, name_of
from tilewright.contract.judge.vector_clock import VectorClock
from tilewright.contract.rules.replay_codes import RunFindings
from tilewright.machine.core.event import (
    BarrierArrive,
    BarrierExpect,
    BarrierInvalidate,
    BarrierPeek,
    BarrierWait,
    MemoryFence,
)


def check_init(
    cluster: ClusterState,
    barrier: BarrierState,
    clock: VectorClock,
    user: WarpState,
    span: Span,
    findings: RunFindings,
    engine: Level | None = None,
) -> None:
    """Is the init visible to a use by `user` (or an engine that works for it) that knows `clock`?

    engine: set if an engine of the barrier's own CTA is to signal it; how grave it is that no fence comes before.
    Within the CTA a fence.proxy.async by who initialised does as well.
    """
    if barrier.release_track < 0:
        known = cluster.tracks.known(("init", barrier.init.track))
        barrier.release_track = -1 if known is None else known
    if barrier.is_released_to(clock):
        return
    for init in (barrier.init, *barrier.repeats.values()):
        _check_one_init(cluster, barrier, init, clock, user, span, findings, engine)


def _check_one_init(
    cluster: ClusterState, barrier: BarrierState, init: Mark, clock: VectorClock, user: WarpState, span: Span,
    findings: RunFindings, engine: Level | None,
) -> None:  # fmt: skip
    """The same of one of the inits of a barrier."""
    if cluster.at(clock, ("init", init.track)) >= init.epoch:
        return
    remote = user.actor.cta != barrier.cta
    who = name_of(user.actor)
    if not init.known_to(clock):
        heard = cluster.at(cluster.out_of_scope.believed(clock), ("init", init.track)) >= init.epoch
        findings.report(
            "MB104",
            f"{who} may use {barrier} before it is initialised",
            span,
            init.span,
            (
                f"{who} reaches {span} before {name_of(init.actor)} reaches {init.span}: nothing orders them",
                f"{who} uses 8 bytes that hold no mbarrier",
                f"{name_of(init.actor)} initialises them",
            ),
            findings.narrow_release if heard else Level.ERROR,
        )
    elif remote:
        findings.report(
            "MB105",
            f"{who} uses {barrier}, whose init no fence.mbarrier_init publishes to the cluster",
            span,
            init.span,
            (
                f"{name_of(init.actor)} initialises {barrier} ({init.span}) and synchronizes, without a fence",
                f"{who} uses the barrier ({span}), possibly before the init has reached the cluster",
            ),
            level=findings.released_init,
            contested="released_init",
        )
    elif engine is not None and not _proxy_fenced(cluster, init, clock):
        findings.report(
            "MB105",
            f"a copy of {who} signals {barrier}, whose init no fence makes visible to the copy engine",
            span,
            init.span,
            (
                f"{name_of(init.actor)} initialises {barrier} ({init.span}) through the generic proxy, without a fence",
                f"{who} issues a copy ({span})",
                "the copy engine signals the barrier through the async proxy, possibly before it sees the init",
            ),
            level=engine,
            contested="fenced_init",
        )


def fence(cluster: ClusterState, warp: WarpState, event: MemoryFence, findings: RunFindings) -> None:
    """A fence by a warp that has initialised mbarriers: it publishes them, if the lanes that execute it have made the
    inits or know of them. A fence.mbarrier_init of other lanes is taken for a mistake; another fence may be there for
    something else."""
    strange = [
        init
        for init, lane in warp.inits
        if not event.lanes >> lane & 1 and not lane_order.reaches_any(warp, lane, init.epoch, event.lanes)
    ]
    if strange and event.kind != "mbarrier_init":
        return
    warp.inits = []
    cluster.advance(warp.clock, ("init", warp.track), warp.epoch)
    level, who = findings.lanes_in_step, name_of(warp.actor)
    if level is None:
        return
    for init in strange:
        findings.report(
            "NB106",
            f"a lane of {who} fences the mbarrier.init of another lane, with no bar.warp.sync between",
            event.span,
            init.span,
            (
                f"one lane of {who} has not come to {init.span}",
                f"another lane executes the fence ({event.span}), which publishes nothing of the init",
                "a peer, or a copy engine, uses 8 bytes that hold no mbarrier",
            ),
            level,
        )


def _proxy_fenced(cluster: ClusterState, init: Mark, clock: VectorClock) -> bool:
    """Does `clock` know a fence.proxy.async after an init, by its warp? Which lane is not asked: an init names none."""
    access = cluster.warp(init.actor).access_track
    if clock.at(cluster.fence_track("shared", access)) >= init.epoch:
        return True
    keys = [("fence", "shared", access, lane) for lane in range(32)]
    return any(cluster.at(clock, key) >= init.epoch for key in keys)


def used(
    cluster: ClusterState,
    warp: WarpState,
    event: BarrierArrive | BarrierExpect | BarrierWait | BarrierPeek | BarrierInvalidate,
    findings: RunFindings,
) -> BarrierState | None:
    """The barrier that a warp uses now, its newest user; None if there is none."""
    barrier = cluster.barrier_at(event.cta, event.address)
    if barrier is None:
        findings.report(
            "MB101",
            f"{name_of(warp.actor)} uses +{event.address:#x} of CTA {event.cta}, which holds no live mbarrier",
            event.span,
        )
        return None
    track = warp.track
    if track == barrier.init.track:
        _check_lanes_of_init(warp, barrier, event, findings)
    if track not in barrier.informed:
        check_init(cluster, barrier, warp.clock, warp, event.span, findings)
        if barrier.is_released_to(warp.clock):
            barrier.informed.add(track)
    if isinstance(event, BarrierArrive | BarrierWait | BarrierPeek):
        before = barrier.users.get(track)
        apart = before is not None and before.epoch > warp.synchronized_epoch
        barrier.using_lanes[track] = event.lanes | (barrier.using_lanes.get(track, 0) if apart else 0)
    barrier.users[track] = Mark(warp.actor, track, warp.epoch, event.span)
    return barrier


def _check_lanes_of_init(
    warp: WarpState,
    barrier: BarrierState,
    event: BarrierArrive | BarrierExpect | BarrierWait | BarrierPeek | BarrierInvalidate,
    findings: RunFindings,
) -> None:
    """Do the lanes of the warp that use a barrier now know that another one of them has initialised it? Not asked of
    those that expect bytes or invalidate, nor where several lanes initialised."""
    level, init = findings.lanes_in_step, barrier.init
    if (
        level is None
        or not isinstance(event, BarrierArrive | BarrierWait | BarrierPeek)
        or len(barrier.initialisers) != 1
    ):
        return
    ((_, lane),) = barrier.initialisers
    if lane_order.lanes_know_init(warp, lane, init.epoch, event.lanes):
        return
    who = name_of(warp.actor)
    findings.report(
        "NB106",
        f"a lane of {who} uses {barrier}, which another lane initialises, with no bar.warp.sync between",
        event.span,
        init.span,
        (
            f"one lane of {who} has not come to {init.span}",
            f"nothing makes the lanes wait for each other before {event.span}",
            f"another lane uses 8 bytes that hold no mbarrier ({event.span})",
        ),
        level,
    )
