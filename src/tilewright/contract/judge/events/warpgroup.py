"""wgmma: are its registers and its shared-memory operands left alone while it may run?

A wgmma starts once the four warps of its warpgroup have issued it, and knows what all of them know; it is done for a
warp that has waited for its group. Of A in shared memory each warp's tensor core reads 16 rows, those of its own part
of the accumulator, which kernels rely on: a contested point. Source: PTX ISA 9.7.15. Checked by:
tests/contract/judge/test_happens_before_rules.py, tests/contract/rules/test_readings.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.base.diagnostic import Level
from tilewright.base.span import Span
from tilewright.contract.history.byte_ranges import union, without
from tilewright.contract.history.operation_batches import add_row_to_batch, add_to_batch, agent_of, batch_of
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
from tilewright.contract.judge.vector_clock import VectorClock
from tilewright.machine.core.event import (
    Ranges,
    RegisterHazard,
    TensorCoreActor,
    WarpActor,
    WgmmaCommit,
    WgmmaFence,
    WgmmaIssue,
    WgmmaRow,
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
    """wgmma.mma_async, by one of its four warps."""
    cluster, warp, view = _view(state, event.actor, 1)
    group = _warpgroup(cluster, warp)
    operation = _operation(state, group, warp, view, event.operation, event.span, event.own_rows)
    if len(operation.issuers) == WARPGROUP_WARPS:
        _begin(state, cluster, group, operation, event)


def issue_row(state: LaunchState, event: WgmmaRow) -> None:
    """Several of them, one right after the other: as `issue` of each, after the `fence` and before the `commit` that
    belong to them."""
    actor = event.actor
    if event.fence is not None:
        _, warp = state.step(actor)
        warp.wgmma_fenced = True
    cluster, warp, view = _view(state, actor, len(event.forms))
    group = _warpgroup(cluster, warp)
    row = _row(state, group, warp, event)
    if row is not None:
        row.issuers.add(actor)
        row.views[actor.warp % WARPGROUP_WARPS] = view
        if len(row.issuers) == WARPGROUP_WARPS:
            add_row_to_batch(state, cluster, batch_of(cluster, group, row), row, event)
            row.views = {}
        if event.commit is not None:
            warp.tick()
            group.committed[actor] = event.group + 1
            _committed(group, row, event.group)
        return
    for number, form in enumerate(event.forms):
        operation = _operation(state, group, warp, view, event.operations[number], form.span, form.own_rows)
        if len(operation.issuers) == WARPGROUP_WARPS:
            _begin(state, cluster, group, operation, event.issue(number))
    if event.commit is not None:
        commit(state, WgmmaCommit(actor, event.group, event.operations, event.commit))


def _view(state: LaunchState, actor: WarpActor, count: int) -> tuple[ClusterState, WarpState, IssueView]:
    """What a warp knows that issues `count` wgmmas next, each an event of its own."""
    cluster = state.cluster_of(actor.cta)
    warp = cluster.warps.get(actor) or cluster.warp(actor)
    view = warp.view
    if view is None or view.epoch != warp.epoch:
        if view is None:
            state.roles.note(actor, "wgmma")
        warp.tick()
        view = warp.view = IssueView(warp.clock.copy(), warp.order.copy(), warp.epoch)
        count -= 1
    # Right after another one: it knows what that one knew.
    warp.epoch = view.epoch = warp.epoch + count
    return cluster, warp, view


def _row(state: LaunchState, group: WarpgroupState, warp: WarpState, event: WgmmaRow) -> OperationState | None:
    """The operations that a warp issues, as one; None where something is to be said of each, or another warp has not
    issued the same ones as one."""
    if not warp.wgmma_fenced or state.readings.wgmma_own_rows is not Level.ERROR:
        return None
    actors, operations = event.operations, state.operations
    found = operations.get(actors[0].operation)
    if found is not None:
        return found if found.actors is actors else None
    if any([actor.operation in operations for actor in actors]):
        return None
    found = OperationState(actors, tuple([form.span for form in event.forms]), warp, Completion())
    operations.update(dict.fromkeys([actor.operation for actor in actors], found))
    group.operations.append(found)
    return found


def _take_apart(state: LaunchState, group: WarpgroupState, row: OperationState) -> None:
    """A warp issues the operations of a row one by one, not all of which have been issued by the others."""
    alone = row.alone()
    for each in alone:
        state.operations[each.actors[0].operation] = each
    at = next(at for at, each in enumerate(group.operations) if each is row)
    group.operations[at : at + 1] = alone
    group.last = {number: alone[-1] if last is row else last for number, last in group.last.items()}


def _operation(
    state: LaunchState, group: WarpgroupState, warp: WarpState, view: IssueView, operation: TensorCoreActor,
    span: Span, own_rows: Ranges,
) -> OperationState:  # fmt: skip
    """The operation that a warp issues, which begins with the first of its four warps."""
    if not warp.wgmma_fenced:
        state.findings.report(
            "WG101",
            f"{name_of(warp.actor)} issues a wgmma without a wgmma.fence before it",
            span,
            None,
            (
                f"{name_of(warp.actor)} sets the registers of a wgmma",
                f"it issues the wgmma ({span}); nothing orders its register accesses before it",
            ),
        )
    found = state.operations.get(operation.operation)
    if found is not None and len(found.actors) > 1:
        _take_apart(state, group, found)
        found = state.operations[operation.operation]
    if found is None:
        found = state.operations[operation.operation] = OperationState((operation,), (span,), warp, Completion())
        group.operations.append(found)
    found.issuers.add(warp.actor)
    place = warp.actor.warp % WARPGROUP_WARPS
    found.views[place] = view
    if own_rows and state.readings.wgmma_own_rows is not Level.ERROR:
        found.own_rows[place] = own_rows
    return found


def _begin(
    state: LaunchState, cluster: ClusterState, group: WarpgroupState, operation: OperationState, event: WgmmaIssue
) -> None:
    """All four warps have issued it, so that the tensor core may start; it knows what all of them know."""
    batch = batch_of(cluster, group, operation)
    rows = union(list(operation.own_rows.values())) if operation.own_rows else ()
    if not rows:
        add_to_batch(state, cluster, batch, operation, event)
    else:
        _enter_rows(state, cluster, operation, batch.clock, rows, event)
    operation.views = {}


def _enter_rows(
    state: LaunchState, cluster: ClusterState, operation: OperationState, clock: VectorClock, rows: Ranges,
    event: WgmmaIssue,
) -> None:  # fmt: skip
    """Enter the reads of an operation of which each warp reads rows of its own."""
    memory = cluster.shared_memory(event.actor.cta)
    agent = agent_of(event.actor)

    def record(ranges: Ranges) -> Record:
        return Record(
            event.operation, agent, False, False, event.span, ranges, completion=operation.done,
            issuer=operation.issuer.actor, operation="reads", by_engine=True,
        )  # fmt: skip

    rest = without(event.shared, rows)
    clocks = [view.clock for view in operation.views.values()]
    if rest:
        state.enter(memory, cluster, record(rest), clock, "shared", clocks)
    for place, own in operation.own_rows.items():
        state.enter(memory, cluster, record(own), operation.views[place].clock, "shared")
    level = state.readings.wgmma_own_rows
    if level is not None:
        _look_at_rows(state, cluster, memory, record(rows), clocks, level)


def _look_at_rows(
    state: LaunchState, cluster: ClusterState, memory: ShadowMemory, record: Record, clocks: list[VectorClock],
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
    before: OperationState | None = None
    for actor in event.operations:
        operation = state.operations.get(actor.operation)
        if operation is None:
            state.findings.doubt(f"{event.span}: wgmma {actor.operation} is committed and was never issued")
            continue
        if operation is before:
            continue
        before = operation
        _committed(group, operation, event.group)


def _committed(group: WarpgroupState, operation: OperationState, number: int) -> None:
    done = operation.done
    done.track = group.track
    done.value = max(done.value, number + 1)
    group.last[number] = operation


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
    span = operation.spans[operation.actors.index(event.operation)] if operation is not None else None
    verb = "writes" if event.write else "reads"
    if event.after_fence:
        level = state.readings.wgmma_fence_last
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
    WgmmaRow: issue_row,
    WgmmaCommit: commit,
    WgmmaWait: wait,
    RegisterHazard: register_hazard,
}
