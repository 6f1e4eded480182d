"""Nobody can move any more: who waits for whom, what is missing, and where is the cause?

The machine says what each warp waits for; the judge's books say what that still lacks. Warps wait for the warps whose
arrival their barrier lacks, as far as those are known: by arrivals at earlier phases, and by who takes part in a named
barrier. The cause is looked for where nothing is left to wait for: a phase whose arrivals have all come and whose bytes
do not add up; a phase of which everybody who ever arrived on the barrier has arrived, or exited; a named barrier whose
missing warps have exited. Where every wait is for another waiting warp, the cycle itself is reported, and a warp in it
that never saw the barrier's phase before the one it waits for is said to name the wrong parity.

Not handled: who would arrive on a barrier on which nobody has arrived yet is not known; such a wait is taken for the
cause only if no other is. Checked by: tests/contract/judge/test_deadlock.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.base.diagnostic import Diagnostic, Repair
from tilewright.base.plural import counted
from tilewright.base.span import Span
from tilewright.contract.judge.launch_state import LaunchState
from tilewright.contract.judge.run_state import BarrierState, ClusterState
from tilewright.contract.rules.replay_codes import REPLAY_RULES
from tilewright.machine.core.event import WarpActor
from tilewright.machine.core.fault import Awaited, MachineHang, Waiter

_STEPS_SHOWN = 8
_WARPGROUP_WARPS = 4


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a wait never ends. weight: causes of less weight explain more."""

    weight: int
    code: str
    message: str
    primary: Span
    other: Span | None


def diagnose(state: LaunchState, hang: MachineHang) -> Diagnostic:
    """The finding of a hang: its most likely cause, and who waits for what."""
    groups: dict[Awaited, list[Waiter]] = {}
    for waiter in hang.waiters:
        groups.setdefault(waiter.awaited, []).append(waiter)
    waiting: dict[WarpActor, Waiter] = {}
    for waiter in hang.waiters:
        actor = WarpActor(waiter.cta, waiter.warp)
        if actor not in waiting or waiting[actor].awaited.kind in ("", "lanes"):
            waiting[actor] = waiter
    causes = [
        cause for awaited, waiters in groups.items() if (cause := _cause(state, awaited, waiters, waiting)) is not None
    ]
    if not causes:
        return hang.diagnostic
    cause = _with_suspects(state, min(causes, key=lambda each: each.weight))
    rule = REPLAY_RULES[cause.code]
    return Diagnostic(
        cause.code,
        rule.name,
        cause.message,
        cause.primary,
        cause.other,
        _steps(state, groups, waiting),
        rule.source,
        Repair(rule.remedy),
    )


def _with_suspects(state: LaunchState, cause: Cause) -> Cause:
    """Where warps wait in a circle, an arrival that was suspected before the hang is the better explanation."""
    if cause.code != "LV102":
        return cause
    for finding in state.findings.found.values():
        if finding.code in ("MB107", "MB109") and finding.primary is not None:
            return Cause(0, finding.code, f"{finding.message}; then {cause.message}", finding.primary, cause.primary)
    return cause


def _cause(
    state: LaunchState, awaited: Awaited, waiters: list[Waiter], waiting: dict[WarpActor, Waiter]
) -> Cause | None:
    first = waiters[0]
    cluster = state.cluster_of(first.cta)
    who = _names(waiters)
    match awaited.kind:
        case "mbarrier":
            barrier = cluster.barriers.get(awaited.cta, {}).get(awaited.address)
            if barrier is None:
                return None
            return _barrier_cause(cluster, barrier, waiters, waiting)
        case "named barrier":
            found = cluster.named.get((awaited.cta, awaited.address))
            arrived = len(found.arrivals) if found is not None else 0
            missing = [
                actor
                for actor, warp in cluster.warps.items()
                if actor.cta == awaited.cta
                and warp.exit_span is None
                and (found is None or actor not in found.arrivals)
            ]
            elsewhere = [
                actor
                for actor in missing
                if actor in waiting and waiting[actor].awaited.kind in ("mbarrier", "global word")
            ]
            # Roles are made of warpgroups: where a barrier takes a number of threads, a warp of another one is hardly
            # whom it lacks, but may well wait for those who are stuck here.
            groups = {waiter.warp // _WARPGROUP_WARPS for waiter in waiters}
            expected = awaited.threads < 0 or any(actor.warp // _WARPGROUP_WARPS in groups for actor in elsewhere)
            return Cause(
                (9 if expected else 5) if elsewhere else 2,
                "NB103",
                f"named barrier {awaited.address} of CTA {awaited.cta} never completes: {arrived} warps have come, and "
                f"{who} wait{'s' if len(waiters) == 1 else ''}",
                first.span,
                waiting[missing[0]].span if missing and missing[0] in waiting else None,
            )
        case "cluster barrier":
            others = [waiter for waiter in waiting.values() if waiter.awaited.kind != "cluster barrier"]
            return Cause(
                8 if others else 3, "CL105", f"the cluster's barrier never completes; {who} wait for it", first.span,
                others[0].span if others else None,
            )  # fmt: skip
        case "registers":
            return Cause(1, "SR102", f"{who} wait for registers that nobody gives back", first.span, None)
        case "tensor memory":
            return Cause(3, "TC121", f"{who} wait for columns of tensor memory", first.span, None)
        case "global word":
            what, where = state.awaited.describe(awaited.address)
            verb = "wait" if len(waiters) > 1 else "waits"
            reason = first.reason.removeprefix("waits for ")
            return Cause(4, "LV104", f"{who} {verb} for {reason}, and {what}", first.span, where)
        case "lanes":
            return Cause(9, "LV102", f"{who} wait for other lanes of the warp", first.span, None)
        case "":
            return Cause(9, "LV102", f"{who}: {first.reason}", first.span, None)


def _barrier_cause(
    cluster: ClusterState, barrier: BarrierState, waiters: list[Waiter],
    waiting: dict[WarpActor, Waiter],
) -> Cause | None:  # fmt: skip
    phase = barrier.current
    lacking = barrier.count - phase.arrivals
    span, who = waiters[0].span, _names(waiters)
    what = f"{barrier} phase {barrier.phase}: {phase.arrivals} of {counted(barrier.count, 'arrival')}"
    if phase.expected_bytes or phase.completed_bytes:
        what += f", {phase.completed_bytes} of {phase.expected_bytes} bytes"
    unequal = phase.expected_bytes != phase.completed_bytes
    if unequal and (lacking <= 0 or phase.completed_bytes > phase.expected_bytes):
        primary = phase.last_expect or phase.last_copy or span
        other = phase.last_copy if phase.last_expect is not None and phase.last_copy is not None else span
        return Cause(0, "TX104", f"{who} wait forever on {what}", primary, other)
    if lacking <= 0:
        return None
    arrivers = {cluster_actor(cluster, track): mark for track, mark in barrier.signals.items()}
    here = {mark.actor for mark in phase.contributors.values()}
    behind = [actor for actor in arrivers if actor not in here]
    alive = [actor for actor in behind if actor in waiting]
    uncommitted = [
        operation
        for operation in cluster.tensor.operations.values()
        if operation.kind not in ("ld", "st")
        and cluster.tensor.committed.get(operation.thread, 0) < operation.done.value
    ]
    if uncommitted and not phase.arrivals:
        operation = uncommitted[-1]
        return Cause(
            4, "TC114",
            f"{who} wait forever on {what}; no tcgen05.commit follows the tcgen05.{operation.kind} issued last",
            operation.span, span,
        )  # fmt: skip
    first_wait = all(
        barrier.users.get(cluster.warp(WarpActor(waiter.cta, waiter.warp)).track) is None for waiter in waiters
    )
    if phase.arrivals and not alive:
        return Cause(2, "MB113", f"{who} wait forever on {what}, and no more come", barrier.init.span, span)
    if not alive and arrivers:
        return Cause(3, "MB113", f"{who} wait forever on {what}: who arrived before does not again", span, None)
    if not arrivers and first_wait and len(waiters) == 1:
        return Cause(
            5, "MB114",
            f"{who} wait{'s' if len(waiters) == 1 else ''} for the end of phase {barrier.phase} of {barrier}, of which "
            "nobody has arrived; a fresh barrier lets parity 1 pass",
            span, barrier.init.span,
        )  # fmt: skip
    if not arrivers:
        return Cause(6, "MB113", f"{who} wait forever on {what}: nobody ever arrives", span, barrier.init.span)
    return Cause(7, "LV102", f"{who} wait on {what}, and who should arrive waits as well", span, None)


def cluster_actor(cluster: ClusterState, track: int) -> WarpActor:
    """The warp of a track of its events."""
    return next(actor for actor, warp in cluster.warps.items() if warp.track == track)


def _names(waiters: list[Waiter]) -> str:
    names = [f"CTA {waiter.cta} warp {waiter.warp}" for waiter in waiters[:4]]
    if len(waiters) > 4:
        names.append(f"{len(waiters) - 4} more warps")
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _steps(
    state: LaunchState, groups: dict[Awaited, list[Waiter]], waiting: dict[WarpActor, Waiter]
) -> tuple[str, ...]:
    """Who waits for what, a line for each thing that is waited for, and what the books say of it."""
    lines: list[str] = []
    for awaited, waiters in groups.items():
        line = f"{_names(waiters)} ({waiters[0].span}): {waiters[0].reason}"
        if awaited.kind == "mbarrier":
            cluster = state.cluster_of(waiters[0].cta)
            barrier = cluster.barriers.get(awaited.cta, {}).get(awaited.address)
            if barrier is not None:
                here = {mark.actor for mark in barrier.current.contributors.values()}
                late = [
                    waiting[actor]
                    for track in barrier.signals
                    if (actor := cluster_actor(cluster, track)) in waiting and actor not in here
                ]
                if late:
                    line += f"; {_names(late)}, who arrived before, {'wait' if len(late) > 1 else 'waits'} as well"
        lines.append(line)
    shown = lines[:_STEPS_SHOWN]
    if len(lines) > len(shown):
        shown.append(f"{len(lines) - len(shown)} more waits")
    return (*shown, "nothing is in flight, so nobody can move again")
