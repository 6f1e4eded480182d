"""wgmma: are its registers and its shared-memory operands left alone while it may run?

A wgmma starts once the four warps of its warpgroup have issued it, and knows what all of them know; it is done for a
warp that has waited for its group. Of A in shared memory each warp's tensor core reads 16 rows, those of its own part
of the accumulator, which kernels rely on: a contested point. Source: PTX ISA 9.7.15. Checked by:
tests/contract/judge/test_happens_before_rules.py, tests/contract/rules/test_interpretations.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.base.diagnostic import Level
from tilewright.contract.history.byte_ranges import union, without
from tilewright.contract.history.shadow_memory import Completion, Record, ShadowMemory
from tilewright.contract.judge.launch_state import LaunchState
from tilewright.contract.judge.race import describe_race
from tilewright.contract.judge.run_state import (
    ClusterState,
    IssueView,
    OperationState,
    WarpgroupState,
    WarpState,
    is_ordered,
    name_of,
)
from tilewright.contract.judge.vector_clock import VectorClock, common
from tilewright.machine.core.event import (
    Ranges,
    RegisterHazard,
    WarpActor,
    WgmmaCommit,
    WgmmaFence,
    WgmmaIssue,
    WgmmaWait,
)

WARPGROUP_WARPS = 4


def _warpgroup(cluster: ClusterState, warp: WarpState) -> WarpgroupState:
    group = warp.warpgroup
    if group is None:
        key = (warp.actor.cta, warp.actor.warp // WARPGROUP_WARPS)
        group = cluster.warpgroups.get(key)
        if group is None:
            group = cluster.warpgroups[key] = WarpgroupState(cluster.tracks.of(("wgmma", *key)))
        warp.warpgroup = group
    return group


def fence(state: LaunchState, event: WgmmaFence) -> None:
    """wgmma.fence."""
    _, warp = state.step(event.actor)
    warp.wgmma_fenced = True


def issue(state: LaunchState, event: WgmmaIssue) -> None:
    """wgmma.mma_async, by one of its four warps. The operation begins with the first of them."""
    actor = event.actor
    cluster, warp, view = _view(state, actor)
    group = _warpgroup(cluster, warp)
    if not warp.wgmma_fenced:
        state.findings.report(
            "WG101",
            f"{name_of(actor)} issues a wgmma without a wgmma.fence before it",
            event.span,
            None,
            (
                f"{name_of(actor)} sets the registers of a wgmma",
                f"it issues the wgmma ({event.span}); nothing orders its register accesses before it",
            ),
        )
    operation = state.operations.get(event.operation.operation)
    if operation is None:
        operation = OperationState(event.operation, event.span, warp, Completion())
        state.operations[event.operation.operation] = operation
        group.operations.append(operation)
    operation.issuers.add(actor)
    place = actor.warp % WARPGROUP_WARPS
    operation.views[place] = view
    if event.own_rows and state.interpretations.wgmma_own_rows is not Level.ERROR:
        operation.own_rows[place] = event.own_rows
    if len(operation.issuers) == WARPGROUP_WARPS:
        _begin(state, cluster, operation, event)


def _view(state: LaunchState, actor: WarpActor) -> tuple[ClusterState, WarpState, IssueView]:
    """What a warp knows that issues a wgmma. Right after another one: what it knew then."""
    cluster = state.cluster_of(actor.cta)
    warp = cluster.warps.get(actor) or cluster.warp(actor)
    view = warp.view
    if view is None or view.epoch != warp.epoch:
        if view is None:
            state.roles.note(actor, "wgmma")
        warp.tick()
        view = warp.view = IssueView(warp.clock.copy(), warp.order.copy(), warp.epoch)
    else:
        warp.epoch = view.epoch = warp.epoch + 1
    return cluster, warp, view


def _begin(state: LaunchState, cluster: ClusterState, operation: OperationState, event: WgmmaIssue) -> None:
    """All four warps have issued it, so that the tensor core may start; it knows what all of them know."""
    views = list(operation.views.values())
    operation.order = views[0].order.copy()
    for view in views[1:]:
        operation.order.join(view.order)
    clocks = [view.clock for view in views]
    memory = cluster.shared_memory(event.actor.cta)
    agent = "wgmma", event.actor.cta, event.actor.warp // WARPGROUP_WARPS

    def record(ranges: Ranges) -> Record:
        return Record(
            event.operation, agent, False, False, event.span, ranges, completion=operation.done,
            issuer=operation.issuer.actor, operation="reads", by_engine=True,
        )  # fmt: skip

    rows = union(list(operation.own_rows.values())) if operation.own_rows else ()
    rest = without(event.shared, rows) if rows else event.shared
    if rest:
        state.enter(memory, cluster, record(rest), common(clocks), "shared", clocks)
    for place, own in operation.own_rows.items():
        state.enter(memory, cluster, record(own), operation.views[place].clock, "shared")
    level = state.interpretations.wgmma_own_rows
    if rows and level is not None:
        _look_at_rows(state, memory, record(rows), clocks, level)
    operation.views = {}


def _look_at_rows(
    state: LaunchState, memory: ShadowMemory, record: Record, clocks: list[VectorClock],
    level: Level,
) -> None:  # fmt: skip
    """Rows of A that were written for their own warp alone: the other warps of the warpgroup do not know of them."""
    for earlier in memory.touched(record.ranges):
        if earlier.write and not all(is_ordered(earlier, clock) for clock in clocks):
            code, message, steps = describe_race(earlier, record, "shared")
            state.findings.report(code, message, record.span, earlier.span, steps, level)


def commit(state: LaunchState, event: WgmmaCommit) -> None:
    """wgmma.commit_group."""
    cluster, warp = state.step(event.actor)
    group = _warpgroup(cluster, warp)
    group.committed[warp.actor] = event.group + 1
    for actor in event.operations:
        operation = state.operations.get(actor.operation)
        if operation is None:
            state.findings.doubt(f"{event.span}: wgmma {actor.operation} is committed and was never issued")
            continue
        done = operation.done
        done.track = group.track
        done.value = max(done.value, event.group + 1)
        group.last[event.group] = operation


def wait(state: LaunchState, event: WgmmaWait) -> None:
    """wgmma.wait_group."""
    cluster, warp = state.step(event.actor)
    group = _warpgroup(cluster, warp)
    done = group.committed.get(warp.actor, 0) - event.pending
    if done <= 0:
        return
    warp.advance(group.track, done)
    # A wgmma is done only after all four warps have come to it, though that makes none of their writes visible.
    for number in range(done - 1, -1, -1):
        last = group.last.get(number)
        if last is not None:
            warp.order.join(last.order)
            return


def register_hazard(state: LaunchState, event: RegisterHazard) -> None:
    """A register of a wgmma in flight is touched."""
    _, warp = state.step(event.actor)
    operation = state.operations.get(event.operation.operation)
    span = operation.span if operation is not None else None
    verb = "writes" if event.write else "reads"
    if event.after_fence:
        level = state.interpretations.wgmma_fence_last
        if level is not None and not state.findings.knows("WG106", event.span, None, level):
            state.findings.report(
                "WG106",
                f"{name_of(warp.actor)} {verb} {event.register} between wgmma.fence and the wgmma that uses it",
                event.span,
                None,
                (
                    f"{name_of(warp.actor)} executes wgmma.fence, then {verb} {event.register}",
                    f"it issues the wgmma ({event.span}); nothing orders the access before it",
                ),
                level,
            )
        return
    state.findings.report(
        "WG104",
        f"{name_of(warp.actor)} {verb} {event.register}, which wgmma {event.operation.operation} may still use",
        event.span,
        span,
        (
            f"wgmma {event.operation.operation} is issued" + (f" ({span})" if span is not None else ""),
            "no wgmma.wait_group covers it",
            f"{name_of(warp.actor)} {verb} {event.register} ({event.span})",
        ),
    )


HANDLERS: dict[type, Callable[[LaunchState, Any], None]] = {
    WgmmaFence: fence,
    WgmmaIssue: issue,
    WgmmaCommit: commit,
    WgmmaWait: wait,
    RegisterHazard: register_hazard,
}
