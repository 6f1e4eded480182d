"""How may an mbarrier begin and end? Nobody uses it before its init, and nobody after it is invalidated.

Who ends it knows each use, and each arrival that a warp performs. An arrival that an engine performs (tcgen05.commit,
cp.async.mbarrier.arrive) comes at any time after it was asked for: only the end of the phase that counts it shows that
it has come, or, where one thread's commits are held to be performed in order (the contested point
`tensor_pipeline`), that of a later one. What happens between init and end is judged in `phase_ledger`.
Source: PTX ISA 9.7.13.15 (mbarrier.init, mbarrier.inval), 9.7.16.12 (tcgen05.commit).
Checked by: tests/contract/judge/test_barrier_life.py, tests/contract/judge/test_happens_before_rules.py.
"""

from __future__ import annotations

from tilewright.base.diagnostic import Level
from tilewright.base.span import Span
from tilewright.contract.judge.initialised import used
from tilewright.contract.judge.order import lane_order
from tilewright.contract.judge.run_state import BarrierState, ClusterState, EngineSignal, Mark, WarpState, name_of
from tilewright.contract.judge.vector_clock import VectorClock
from tilewright.contract.rules.interpretations import Interpretation, Interpretations
from tilewright.contract.rules.replay_codes import RunFindings
from tilewright.machine.core.event import BarrierInit, BarrierInvalidate

_WARP_LANES = 32


def initialise(
    cluster: ClusterState, warp: WarpState, event: BarrierInit, findings: RunFindings, repeated: Level | None
) -> None:
    """mbarrier.init. repeated: how grave it is that one is executed again with the same count, before any use."""
    live = cluster.barriers.setdefault(event.cta, {})
    old = live.get(event.address)
    mark = warp.mark(event.span)
    warp.initialises = True
    warp.inits.append((mark, event.lane))
    lane_order.note_access(warp)
    if old is not None and _is_repeated(old, event):
        if repeated is not None:
            _report_repeated(old, warp, event, findings, repeated)
        old.initialisers.add((warp.track, event.lane))
        if mark.track == old.init.track:
            old.init = mark
        else:
            old.repeats[mark.track] = mark
        return
    if old is not None:
        findings.report(
            "MB103",
            f"{old} is initialised again while it is live",
            event.span,
            old.init.span,
            (f"{name_of(old.init.actor)} initialises it ({old.init.span})", f"{name_of(warp.actor)} does so again"),
        )
        cluster.ended_barriers.append(old)
    generation = cluster.barrier_generations.get((event.cta, event.address), 0)
    cluster.barrier_generations[event.cta, event.address] = generation + 1
    track = cluster.tracks.of(("barrier", event.cta, event.address, generation))
    live[event.address] = BarrierState(
        event.cta, event.address, track, mark, event.count, event.count, initialisers={(warp.track, event.lane)}
    )


def _is_repeated(barrier: BarrierState, event: BarrierInit) -> bool:
    """Does an init leave a barrier as it was: with the same count, and unused so far?"""
    return barrier.is_unused and barrier.count == barrier.next_count == event.count


def _report_repeated(
    barrier: BarrierState, warp: WarpState, event: BarrierInit, findings: RunFindings, level: Level
) -> None:
    first, span = name_of(barrier.init.actor), barrier.init.span
    if span == event.span and (warp.track, event.lane) not in barrier.initialisers:
        message = f"several threads initialise {barrier} by one instruction, all with count {event.count}"
    else:
        message = f"{barrier} is initialised again with count {event.count}, and nobody has used it"
    steps = (
        f"{first} initialises it ({span})",
        f"{name_of(warp.actor)} initialises the live object again ({event.span})",
    )
    findings.report("MB115", message, event.span, span, steps, level)


def taken_as_data(
    barrier: BarrierState, clock: VectorClock, span: Span, findings: RunFindings, level: Interpretation
) -> bool:  # fmt: skip
    """Is a barrier that a write touches unused, with its inits known to the `clock` of who writes? Then the object is
    gone, which is reported at `level`."""
    inits = (barrier.init, *barrier.repeats.values())
    if not barrier.is_unused or not all(init.known_to(clock) for init in inits):
        return False
    if level is None:
        return True
    findings.report(
        "MB116", f"a write touches the bytes of {barrier}, which was initialised and never used", span,
        barrier.init.span,
        (f"{name_of(barrier.init.actor)} initialises it ({barrier.init.span})",
         f"nobody uses it; its bytes are overwritten ({span})"),
        level,
    )  # fmt: skip
    return True


def invalidate(
    cluster: ClusterState, warp: WarpState, event: BarrierInvalidate, findings: RunFindings, in_order: Interpretation
) -> None:
    """mbarrier.inval: must follow every other use. in_order: how grave it is to rely on the order of one thread's
    commits."""
    live = cluster.barrier_at(event.cta, event.address)
    last = None if live is None else live.users.get(warp.track)
    barrier = used(cluster, warp, event, findings)
    if barrier is None:
        return
    if last is not None:
        _check_lanes_of_use(barrier, warp, last, event, findings)
    unordered = [use for use in barrier.users.values() if not use.known_to(warp.order)]
    unordered += [signal.mark for signal in barrier.signals.values() if not barrier.has_counted(signal, warp.clock)]
    for use in unordered:
        findings.report(
            "MB103",
            f"{barrier} is invalidated while {name_of(use.actor)} may still use it",
            event.span,
            use.span,
            (
                f"{name_of(warp.actor)} invalidates it ({event.span})",
                f"nothing orders that after {name_of(use.actor)}",
                f"{name_of(use.actor)} uses it ({use.span})",
            ),
        )
    for track, signal in barrier.by_engine.items():
        if warp.clock.at(barrier.track) <= signal.phase:
            followed = signal.number is not None and warp.clock.at(track) > signal.number
            level = in_order if followed else Level.ERROR
            if level is not None:
                _report_pending(barrier, signal, warp, event, findings, level)
    del cluster.barriers[event.cta][event.address]
    cluster.ended_barriers.append(barrier)


def _check_lanes_of_use(
    barrier: BarrierState, warp: WarpState, last: Mark, event: BarrierInvalidate, findings: RunFindings
) -> None:  # fmt: skip
    """Does the lane that invalidates a barrier know that other lanes of its warp have arrived, and waited?"""
    level, others = findings.lanes_in_step, barrier.using_lanes.get(warp.track, 0) & ~(1 << event.lane)
    lanes = [lane for lane in range(_WARP_LANES) if others >> lane & 1]
    if level is None or all(lane_order.lanes_know(warp, lane, last.epoch, 1 << event.lane) for lane in lanes):
        return
    who = name_of(warp.actor)
    findings.report(
        "NB106",
        f"a lane of {who} invalidates {barrier}, which other lanes use, with no bar.warp.sync between",
        event.span,
        last.span,
        (
            f"one lane of {who} has not passed {last.span}",
            f"another lane invalidates the barrier ({event.span})",
            f"the first uses 8 bytes that hold no mbarrier ({last.span})",
        ),
        level,
    )


def _report_pending(
    barrier: BarrierState, signal: EngineSignal, warp: WarpState, event: BarrierInvalidate, findings: RunFindings,
    level: Level,
) -> None:  # fmt: skip
    who, ends = name_of(signal.mark.actor), name_of(warp.actor)
    findings.report(
        "MB103",
        f"{barrier} is invalidated while an asynchronous arrival that {who} asked for may not have come",
        event.span,
        signal.mark.span,
        (
            f"{who} asks for an arrival at {barrier} ({signal.mark.span}), which is performed at any later time",
            f"{ends} does not know that phase {signal.phase} has ended, which counts it",
            f"{ends} invalidates the barrier ({event.span})",
            "the arrival comes at bytes that hold no mbarrier",
        ),
        level,
    )


def left_at_exit(cluster: ClusterState, interpretations: Interpretations, findings: RunFindings) -> None:
    """A tcgen05.commit whose arrival may come when its issuer's CTA has ended, and its barrier's bytes belong to
    another. Operations that it covers, arrivals at peers and cp.asyncs are judged by themselves (`exit_rules`)."""
    level, in_order = interpretations.left_at_exit, interpretations.tensor_pipeline is not Level.ERROR
    if level is None:
        return
    for cta, barriers in cluster.barriers.items():
        known = cluster.known_in(cta)
        for barrier in barriers.values():
            for track, signal in barrier.by_engine.items():
                if signal.number is None or signal.mark.actor.cta != cta:
                    continue
                arrived = known.at(barrier.track) > signal.phase
                if arrived or (in_order and known.at(track) > signal.number):
                    continue
                who = name_of(signal.mark.actor)
                findings.report(
                    "TC119",
                    f"CTA {cta} may end before a tcgen05.commit of {who} arrives at {barrier}",
                    signal.mark.span,
                    None,
                    (
                        f"{who} asks for an arrival at {barrier} ({signal.mark.span}), which comes at any later time",
                        f"no warp of CTA {cta} learns that it has come, nor that a later commit has",
                        f"all warps of CTA {cta} exit, and its shared memory goes to another CTA",
                        "the arrival comes at bytes of another CTA",
                    ),
                    level,
                )
