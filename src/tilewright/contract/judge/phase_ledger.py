"""Do the mbarriers of a cluster count what they should, in the phases they should, in every interleaving?

The machine's run shows one order. What makes it stand for all orders, barrier by barrier:

- every use is ordered after init (`initialised`);
- every arrival and every copy that counts in phase p knows that phase p-1 has ended, so it can't count earlier;
- phase p cannot end without all its contributions, since arrivals equal the count and bytes expected equal bytes
  completed, and every bare expect_tx, and every arrival that is added to the count, is followed by an arrival of the
  phase, which holds it open;
- a waiter for phase p knows that phase p-1 has ended (so the parity names no older phase), and phase p+1 ends only
  after that wait (so the parity names no younger one).

Then each contribution and each wait has the same phase in every interleaving. "Knows" is of order in time (a warp's
`order` clock), not of visibility: a phase that ended with a copy's bytes ended after whatever the copy's issuer had
waited for, though complete_tx publishes nothing of it (PTX ISA 8.9.1.1). What must be visible, since executing it does
not perform it at once: init to its users, expect_tx to the arrival that follows it, and any signal to who ends the
barrier's life (inval, or the owner's exit).
Source: PTX ISA 9.7.13.15. Checked by: tests/contract/judge/test_happens_before_rules.py.
"""

from __future__ import annotations

from tilewright.base.diagnostic import Level
from tilewright.base.plural import counted
from tilewright.base.span import Span
from tilewright.contract.judge.initialised import check_init, used
from tilewright.contract.judge.order import lane_order
from tilewright.contract.judge.run_state import (
    Arrivals,
    BarrierState,
    ClusterState,
    CommitState,
    CopyState,
    EngineSignal,
    LateWait,
    Mark,
    PhaseState,
    Signal,
    WarpState,
    name_of,
)
from tilewright.contract.judge.vector_clock import VectorClock
from tilewright.contract.rules.interpretations import Interpretation, Interpretations
from tilewright.contract.rules.replay_codes import RunFindings
from tilewright.machine.barrier.mbarrier import SIGNED_ODD
from tilewright.machine.core.event import (
    AsyncCopyArrive,
    BarrierArrive,
    BarrierComplete,
    BarrierExpect,
    BarrierPeek,
    BarrierWait,
    CommitArrive,
    PhaseEnd,
)

BARRIER_BYTES = 8


def arrive(
    cluster: ClusterState, warp: WarpState, event: BarrierArrive, published: VectorClock, findings: RunFindings
) -> None:
    """mbarrier.arrive in its forms. published: what its lanes publish."""
    barrier = _signalled(cluster, warp, event, findings)
    if barrier is None:
        return
    if event.phase != barrier.phase:
        _doubt_phase(barrier, event.phase, findings)
    if barrier.before is not None and warp.order.at(barrier.track) < barrier.phase:
        _report_arrival(cluster, barrier, barrier.before, warp, warp.clock, event.span, findings)
    if event.elsewhere:
        _report_parted_lanes(
            barrier, warp, event.phase, event.count, event.count + event.elsewhere, event.span, findings
        )
    phase, track, span = barrier.current, warp.track, event.span
    phase.arrivals += event.count
    phase.contributors[track] = barrier.users[track]
    phase.arriving_lanes[track] = phase.arriving_lanes.get(track, 0) | event.lanes
    to = None if event.relaxed else _published_to(phase, warp.actor.cta == event.cta, event.scope)
    if to is None and not event.relaxed:
        _arrive_together(warp, phase, span, phase.published, cluster.out_of_scope.track_of(track))
    else:
        _arrive_together(warp, phase, span, to, track)
    phase.last_span = span
    if event.expect_bytes:
        phase.expected_bytes += event.expect_bytes
        phase.last_expect = span
    phase.order.join(_order_passed(cluster, warp, phase, warp.actor.cta == event.cta, event.scope))
    if phase.arrived is not None:
        phase.arrived.join(warp.clock)
    if to is not None:
        to.join(published)
    elif not event.relaxed:
        phase.published.join(cluster.out_of_scope.of(published))
    if event.drop:
        barrier.next_count -= event.count


def _published_to(phase: PhaseState, own: bool, scope: str) -> VectorClock | None:
    """The clock of a phase that a release goes to; None if its scope does not reach those who wait there."""
    if own:
        return phase.published
    if scope == "cta":
        return None
    if phase.published_by_peers is None:
        phase.published_by_peers = VectorClock()
    return phase.published_by_peers


def _order_passed(cluster: ClusterState, warp: WarpState, phase: PhaseState, own: bool, scope: str) -> VectorClock:
    """What an arrival says has happened. That operations on tensor memory come before those behind the wait, other
    CTAs learn by a scope that has them alone, of relaxed arrivals as well (PTX ISA 9.7.16.6.3)."""
    signals = cluster.tensor.signals
    if own or not signals:
        return warp.order
    passed, by_peers = warp.order.copy(), VectorClock()
    for track in signals:
        by_peers.advance(track, passed.at(track))
        passed.lower(track, 0)
    if scope == "cta":
        passed.join(cluster.out_of_scope.of(by_peers))
    elif phase.signals_by_peers is None:
        phase.signals_by_peers = by_peers
    else:
        phase.signals_by_peers.join(by_peers)
    return passed


def _arrive_together(warp: WarpState, phase: PhaseState, span: Span, to: VectorClock | None, along: int) -> None:
    """Lanes of one instruction arrive at once, on whichever barriers: who learns of one arrival learns of all. to,
    along: the clock that it publishes to, and the warp's track there."""
    last, epoch = warp.arrivals, warp.epoch
    if last is None:
        last = warp.arrivals = Arrivals(span)
    elif last.epoch + 1 != epoch or last.span != span:
        last.span, last.phases = span, []
    else:
        for other, published, track in last.phases:
            other.order.advance(warp.track, epoch)
            if other.arrived is not None:
                other.arrived.advance(warp.track, epoch)
            if published is not None:
                published.advance(track, epoch)
    last.epoch = epoch
    last.phases.append((phase, to, along))


def commit_arrive(cluster: ClusterState, made: CommitState, event: CommitArrive, findings: RunFindings) -> None:
    """The arrival of a tcgen05.commit: the operations that it covers are complete, for whoever waits for the phase."""
    barrier = cluster.barriers.get(event.cta, {}).get(event.address)
    if barrier is None:
        findings.report("MB101", f"a tcgen05.commit signals +{event.address:#x}, which holds no mbarrier", event.span)
        return
    check_init(cluster, barrier, made.clock, made.issuer, event.span, findings)
    mark = _engine_arrives(cluster, barrier, made.issuer, made.clock, made.order, 1, event.phase, event.span, findings)
    barrier.by_engine[made.commits] = EngineSignal(mark, event.phase, made.number)
    phase = barrier.current
    for known in (phase.published, phase.order):
        known.advance(made.track, made.ordinal)
        known.advance(made.commits, made.number)


def add_arrivals(cluster: ClusterState, warp: WarpState, place: tuple[int, int], span: Span) -> None:
    """cp.async.mbarrier.arrive without .noinc: the phase at `place`, a CTA and an address, waits for more arrivals."""
    barrier = cluster.barrier_at(*place)
    if barrier is not None:
        barrier.current.hold_open_for(warp.mark(span), "adds the arrivals of its cp.asyncs")


def deferred_arrive(
    cluster: ClusterState, warp: WarpState, event: AsyncCopyArrive, track: int,
    issued: tuple[VectorClock, VectorClock, int], findings: RunFindings,
) -> None:  # fmt: skip
    """An arrival of cp.async.mbarrier.arrive. issued: what the warp knew at its issue, visible and in order, and how
    many of its cp.asyncs (along `track`) the arrival waits for. Without .noinc the arrival was added to the count of
    its phase when it was issued."""
    barrier = cluster.barriers.get(event.cta, {}).get(event.address)
    if barrier is None:
        findings.report("MB101", f"a deferred arrival at +{event.address:#x}, which holds no mbarrier", event.span)
        return
    clock, order, covered = issued
    check_init(cluster, barrier, clock, warp, event.span, findings)
    if event.count < event.lanes.bit_count():
        lanes = event.lanes.bit_count()
        _report_parted_lanes(barrier, warp, event.phase, event.count, lanes, event.span, findings)
    count = event.count if event.no_increment else 0
    mark = _engine_arrives(cluster, barrier, warp, clock, order, count, event.phase, event.span, findings)
    barrier.by_engine[track] = EngineSignal(mark, event.phase, None)
    for known in (barrier.current.published, barrier.current.order):
        known.advance(track, covered)


def _engine_arrives(
    cluster: ClusterState, barrier: BarrierState, issuer: WarpState, clock: VectorClock, order: VectorClock, count: int,
    phase_index: int, span: Span, findings: RunFindings,
) -> Mark:  # fmt: skip
    """An arrival that a warp caused earlier, when it knew `clock` and `order`: a release of the cluster's scope. count:
    arrivals of the phase's own, 0 of those that were added to it."""
    if phase_index != barrier.phase:
        _doubt_phase(barrier, phase_index, findings)
    if barrier.before is not None and order.at(barrier.track) < barrier.phase:
        _report_arrival(cluster, barrier, barrier.before, issuer, clock, span, findings)
    phase = barrier.current
    phase.arrivals += count
    mark = Mark(issuer.actor, issuer.track, order.at(issuer.track), span)
    phase.contributors[issuer.track] = mark
    phase.by_engine = True
    barrier.signals.setdefault(issuer.track, Signal(mark, phase_index))
    phase.last_span = span
    phase.order.join(order)
    if phase.arrived is not None and count:
        phase.arrived.join(clock)
    to = _published_to(phase, issuer.actor.cta == barrier.cta, "cluster")
    if to is not None:
        to.join(clock)
    return mark


def expect(cluster: ClusterState, warp: WarpState, event: BarrierExpect, findings: RunFindings) -> None:
    """mbarrier.expect_tx."""
    barrier = _signalled(cluster, warp, event, findings)
    if barrier is None:
        return
    if event.phase != barrier.phase:
        _doubt_phase(barrier, event.phase, findings)
    if barrier.before is not None and warp.order.at(barrier.track) < barrier.phase:
        _report_arrival(cluster, barrier, barrier.before, warp, warp.clock, event.span, findings)
    phase = barrier.current
    phase.expected_bytes += event.expect_bytes
    phase.hold_open_for(barrier.users[warp.track], "performs expect_tx")
    phase.last_span = phase.last_expect = event.span


def complete(cluster: ClusterState, copy: CopyState, event: BarrierComplete, findings: RunFindings) -> None:
    """A copy's bytes are counted: the copy is done, for whoever knows that this phase has ended."""
    barrier = cluster.barrier_at(event.cta, event.address)
    if barrier is None:
        findings.report(
            "MB101", f"bulk copy {event.actor.copy} signals +{event.address:#x}, no live mbarrier", event.span
        )
        return
    order, track = copy.order, barrier.track
    if not barrier.is_released_to(copy.clock):
        check_init(cluster, barrier, copy.clock, copy.issuer, event.span, findings)
    if event.phase != barrier.phase:
        _doubt_phase(barrier, event.phase, findings)
    if order.at(track) < barrier.phase:
        last = barrier.before.last_span if barrier.before is not None else None
        findings.report(
            "TX102",
            f"bytes of {name_of(copy.actor, copy.issuer.actor)} for phase {barrier.phase} of {barrier} may arrive in "
            f"phase {barrier.phase - 1}",
            event.span,
            last,
            _steps(
                f"{name_of(copy.issuer.actor)} issues the copy ({event.span}) without knowing that phase "
                f"{barrier.phase - 1} has ended",
                f"the copy completes while phase {barrier.phase - 1} is current",
                f"its {event.bytes} bytes are subtracted there, and phase {barrier.phase} lacks them",
            ),
        )
    phase = barrier.current
    phase.completed_bytes += event.bytes
    phase.last_copy = event.span
    phase.order.join(order)
    phase.last_span = event.span
    told = copy.told_by(event.cta)
    if not told:
        findings.doubt(f"{event.span}: bulk copy {event.actor.copy} completes in CTA {event.cta}, no destination of it")
        return
    for done in told:  # a copy into several CTAs that tells one barrier has completed when the last has
        done.track, done.value = track, event.phase + 1


def complete_by_hand(cluster: ClusterState, event: BarrierComplete, findings: RunFindings) -> None:
    """mbarrier.complete_tx: its bytes count, and who has to know what by then is not judged."""
    findings.doubt(f"{event.span}: whether mbarrier.complete_tx counts in the phase that it is meant for is not judged")
    barrier = cluster.barrier_at(event.cta, event.address)
    if barrier is not None:
        barrier.current.completed_bytes += event.bytes
        barrier.current.last_span = event.span


def end_phase(cluster: ClusterState, event: PhaseEnd, findings: RunFindings) -> None:
    """A phase has ended: its books are closed."""
    barrier = cluster.barrier_at(event.cta, event.address)
    if barrier is None:
        findings.report("MB101", f"a phase ends at +{event.address:#x} of CTA {event.cta}, no live mbarrier", None)
        return
    if event.phase != barrier.phase:
        _doubt_phase(barrier, event.phase, findings)
    phase = barrier.current
    if phase.arrivals != barrier.count:
        findings.report(
            "MB106",
            f"phase {barrier.phase} of {barrier} ends with {counted(phase.arrivals, 'arrival')}; "
            f"its count is {barrier.count}",
            phase.last_span,
            barrier.init.span,
        )
    if phase.expected_bytes != phase.completed_bytes:
        _report_bytes(barrier, phase, "ends with", findings)
    for mark, what in phase.held_open_for:
        if phase.arrived is None or not mark.known_to(phase.arrived):
            findings.report(
                "TX103",
                f"phase {barrier.phase} of {barrier} may end before {name_of(mark.actor)} {what}",
                mark.span,
                phase.last_span,
                _steps(
                    f"all arrivals of phase {barrier.phase} come in, {barrier.count} of them",
                    "the phase ends",
                    f"{name_of(mark.actor)} {what} ({mark.span}), in phase {barrier.phase + 1}",
                ),
            )
    for mark in barrier.waits.values():
        if not mark.known_to(phase.order):
            barrier.late.append(LateWait(mark, barrier.phase, phase.last_span))
    barrier.earlier, barrier.before = barrier.before, phase
    barrier.current = PhaseState()
    barrier.phase = ended = barrier.phase + 1
    phase.order.advance(barrier.track, ended)  # whoever waits for it learns that it has ended
    phase.published.advance(barrier.track, ended)
    barrier.count = barrier.next_count
    barrier.waits = {}


def late_waits(cluster: ClusterState, interpretations: Interpretations, findings: RunFindings) -> None:
    """Waits that may come when the phase after theirs has ended as well. What the warp did next is known by now: one
    that only waited again, or exited, follows others, and is contested."""
    barriers = [barrier for each in cluster.barriers.values() for barrier in each.values()] + cluster.ended_barriers
    for barrier in barriers:
        for late in barrier.late:
            warp = cluster.warps.get(late.mark.actor)
            follows = warp is not None and warp.only_follows(late.mark.epoch)
            level = interpretations.level_of("idle_followers") if follows else Level.ERROR
            if level is not None:
                _report_late(barrier, late, level, findings)
        barrier.late = []


def _report_late(barrier: BarrierState, late: LateWait, level: Level, findings: RunFindings) -> None:
    who, phase, span = name_of(late.mark.actor), late.phase, late.mark.span
    findings.report(
        "MB108",
        f"{who} may wait for phase {phase - 1} of {barrier} only after phase {phase} has ended as well",
        span,
        late.last_span,
        _steps(
            f"phase {phase - 1} of {barrier} ends; {who} is late",
            f"phase {phase} ends, though {who} has not waited ({late.last_span})",
            f"{who} waits for parity {(phase - 1) & 1} ({span}): phase {phase + 1} has that parity and is not "
            "complete, so the wait blocks",
        ),
        level,
    )


def wait(
    cluster: ClusterState,
    warp: WarpState,
    event: BarrierWait,
    findings: RunFindings,
    signed: Interpretation = Level.ERROR,
) -> None:
    """A wait that succeeded: acquires what the phase published. signed: how grave a parity of -1 is."""
    barrier = used(cluster, warp, event, findings)
    if barrier is None:
        return
    if event.parity == SIGNED_ODD and signed is not None:
        findings.report("MB117", f"{name_of(warp.actor)} waits for parity -1 of {barrier}", event.span, level=signed)
    if event.phase + 1 != barrier.phase:
        _doubt_phase(barrier, event.phase + 1, findings)
    _check_older_phase(barrier, warp, event, findings)
    warp.follow()
    barrier.waits[warp.track] = barrier.users[warp.track]
    before = barrier.before
    if before is None:
        return
    warp.order.join(before.order)
    signals = before.signals_by_peers
    if signals is not None:
        warp.order.join(signals if event.scope != "cta" else cluster.out_of_scope.of(signals))
    if not event.relaxed:
        if cluster.stored_by_peers and event.scope != "cta":
            cluster.advance(warp.clock, ("wide wait", barrier.track), barrier.phase)
        lane_order.learn(warp, before.published)
        warp.clock.join(before.published)
        peers = before.published_by_peers
        if peers is not None:
            lane_order.learn(warp, peers)
            warp.clock.join(peers if event.scope != "cta" else cluster.out_of_scope.of(peers))


def peek(cluster: ClusterState, warp: WarpState, event: BarrierPeek, findings: RunFindings) -> None:
    """A try that may succeed or fail. Its phase must be clear, as a wait's must; it acquires nothing here, since the
    wait that its success would spare is made."""
    barrier = used(cluster, warp, event, findings)
    if barrier is not None:
        _check_older_phase(barrier, warp, event, findings)
        warp.follow()


def _check_older_phase(
    barrier: BarrierState, warp: WarpState, event: BarrierWait | BarrierPeek, findings: RunFindings
) -> None:
    """Does a warp that waits for a phase know that the one before it has ended?"""
    if event.phase > 0 and warp.order.at(barrier.track) < event.phase and not _knows_arrivals(barrier, warp, event):
        last = barrier.before.last_span if barrier.before is not None else None
        findings.report(
            "MB108",
            f"{name_of(warp.actor)} waits for phase {event.phase} of {barrier} and may be let through by phase "
            f"{event.phase - 2}",
            event.span,
            last,
            _steps(
                f"phase {event.phase - 2} of {barrier} has ended, phase {event.phase - 1} has not, and "
                f"{name_of(warp.actor)} does not know",
                f"{name_of(warp.actor)} waits for parity {event.parity & 1} ({event.span}): the phase before the "
                "current one has that parity, so the wait passes at once",
                f"{name_of(warp.actor)} goes on as if phase {event.phase} had ended",
            ),
        )


def _knows_arrivals(barrier: BarrierState, warp: WarpState, event: BarrierWait | BarrierPeek) -> bool:
    """Do the lanes that wait know all arrivals of the phase before? Of those by lanes of their own warp they do after a
    synchronization of all its lanes, or where one lane made them and waits alone."""
    older = barrier.before if event.phase == barrier.phase else barrier.earlier
    if older is None or not older.has_ended_for(warp.clock):
        return False
    own = older.contributors.get(warp.track)
    if own is None or own.epoch <= warp.synchronized_epoch:
        return True
    lanes = older.arriving_lanes[warp.track]
    return lanes == event.lanes and lanes.bit_count() == 1


def at_exit(cluster: ClusterState, barrier: BarrierState, findings: RunFindings) -> None:
    """What a barrier is left with when its cluster has ended. A phase that no copy signals, for which every warp exited
    without waiting, harms nobody, whether arrivals or bytes are missing."""
    phase = barrier.current
    if phase.completed_bytes and phase.expected_bytes != phase.completed_bytes:
        _report_bytes(barrier, phase, "is left with", findings)
    elif phase.arrivals or phase.expected_bytes:
        lacking = f" and {phase.expected_bytes} bytes expected" if phase.expected_bytes != phase.completed_bytes else ""
        findings.report(
            "MB110",
            f"phase {barrier.phase} of {barrier} is left with {phase.arrivals} of {counted(barrier.count, 'arrival')}"
            f"{lacking}",
            phase.last_span,
            barrier.init.span,
            level=Level.REVIEW,
        )
    if barrier.remote:
        visible = cluster.visible_in(barrier.cta)
        for signal in barrier.remote.values():
            if not barrier.has_counted(signal, visible):
                heard = barrier.has_counted(signal, cluster.out_of_scope.believed(visible))
                level = findings.narrow_release if heard else Level.ERROR
                report_after_exit(signal.mark, f"uses {barrier}", barrier.cta, findings, level)


def report_after_exit(
    mark: Mark, action: str, cta: int, findings: RunFindings, level: Level = Level.ERROR
) -> None:  # fmt: skip
    """A remote access that nothing orders before the owner's end."""
    findings.report(
        "CL103",
        f"{name_of(mark.actor)} {action} and CTA {cta} may have ended by then",
        mark.span,
        None,
        _steps(
            f"all warps of CTA {cta} exit; none of them waits for {name_of(mark.actor)} here",
            "its shared memory is given to another CTA",
            f"{name_of(mark.actor)} {action} ({mark.span})",
        ),
        level,
    )


def _signalled(
    cluster: ClusterState, warp: WarpState, event: BarrierArrive | BarrierExpect, findings: RunFindings
) -> BarrierState | None:
    """The same where the use is one that a phase counts."""
    barrier = used(cluster, warp, event, findings)
    if barrier is not None:
        signal = barrier.signals[warp.track] = Signal(barrier.users[warp.track], event.phase)
        if warp.actor.cta != barrier.cta:
            barrier.remote[warp.track] = signal
    return barrier


def _doubt_phase(barrier: BarrierState, phase: int, findings: RunFindings) -> None:
    findings.doubt(f"{barrier}: an event names phase {phase}, the events before it make phase {barrier.phase} current")


def _report_arrival(
    cluster: ClusterState, barrier: BarrierState, before: PhaseState, warp: WarpState, clock: VectorClock, span: Span,
    findings: RunFindings,
) -> None:  # fmt: skip
    """The warp has not waited for the phase before the current one. clock: what it knew when it caused the arrival."""
    if before.has_ended_for(clock):
        findings.report(
            "MB109",
            f"{name_of(warp.actor)} signals phase {barrier.phase} of {barrier} and no wait on phase "
            f"{barrier.phase - 1} comes before",
            span,
            before.last_span,
            level=Level.REVIEW,
        )
        return
    heard = before.has_ended_for(cluster.out_of_scope.believed(clock))
    findings.report(
        "MB107",
        f"{name_of(warp.actor)} signals phase {barrier.phase} of {barrier} and may do so in phase {barrier.phase - 1}",
        span,
        before.last_span,
        _steps(
            f"phase {barrier.phase - 1} of {barrier} still lacks a contribution ({before.last_span})",
            f"{name_of(warp.actor)}, which does not wait for it, signals ({span})",
            f"the signal counts in phase {barrier.phase - 1}, which ends too early; phase {barrier.phase} lacks it",
        ),
        findings.narrow_release if heard else Level.ERROR,
    )


def _report_parted_lanes(
    barrier: BarrierState, warp: WarpState, phase: int, count: int, total: int, span: Span, findings: RunFindings
) -> None:  # fmt: skip
    """Which lanes come in time is chance: whoever waits for the phase knows nothing of what the others did."""
    findings.report(
        "MB107",
        f"the lanes of one arrival of {name_of(warp.actor)} count in two phases of {barrier}: phase {phase} takes "
        f"{count} of {total}",
        span,
        barrier.init.span,
    )


def _report_bytes(barrier: BarrierState, phase: PhaseState, verb: str, findings: RunFindings) -> None:
    findings.report(
        "TX101",
        f"phase {barrier.phase} of {barrier} {verb} {phase.expected_bytes} bytes expected and {phase.completed_bytes} "
        "completed",
        phase.last_span,
        barrier.init.span,
        _steps(
            f"arrivals of phase {barrier.phase} expect {phase.expected_bytes} bytes",
            f"copies complete {phase.completed_bytes} bytes",
            "the transaction count is not zero, so the phase can't end and its waiters wait forever",
        ),
    )


def _steps(*lines: str) -> tuple[str, ...]:
    return lines
