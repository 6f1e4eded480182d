"""When are the reads of several wgmmas one access?

A warpgroup issues wgmmas one right after the other, all those of a slot of a ring, and nothing that its four warps do
lies between: so all of them know the same, the warps commit them in the same group, and they are done at once. Their
reads are entered into the history of shared memory together, as one access of all their bytes, which remembers its
parts; a finding is about the part that it concerns.

That is what entering each by itself would say. Reads do not conflict with each other, so only when they are entered
among writes matters: they are entered before anything else looks at the CTA's shared memory (`ClusterState.
shared_memory`), and nobody could tell before. What may differ within a batch, the commit, cannot: a commit is an event
of each warp, and an operation that comes after it is of another batch. Should warps disagree about groups, the common
completion is the latest of any.

Not handled (each read is entered by itself): operations of which a warp's tensor core is known to read its own rows.
Checked by: tests/contract/history/test_operation_batches.py, against runs in which each operation is a batch of its
own.
"""

from __future__ import annotations

from functools import partial

from tilewright.contract.history.byte_ranges import union
from tilewright.contract.history.shadow_memory import Record
from tilewright.contract.judge.launch_state import LaunchState
from tilewright.contract.judge.run_state import ClusterState, OperationBatch, OperationState, WarpgroupState
from tilewright.contract.judge.vector_clock import common
from tilewright.machine.core.event import Ranges, WarpActor, WgmmaIssue, WgmmaRow

_WARPGROUP_WARPS = 4
_JOINED_KEPT = 4096


def agent_of(actor: WarpActor) -> tuple[str, int, int]:
    """Whose reads those of a warpgroup's operations are."""
    return "wgmma", actor.cta, actor.warp // _WARPGROUP_WARPS


def batch_of(cluster: ClusterState, group: WarpgroupState, operation: OperationState) -> OperationBatch:
    """The batch of an operation that all four warps have issued, which then is done when the batch is."""
    last = group.batch
    if last is not None and last.views == operation.views:
        operation.order = last.order
        if last.entered:
            last = group.batch = OperationBatch(last.views, last.clock, last.order, operation.done)
        operation.done = last.done
        return last
    views = list(operation.views.values())
    order = views[0].order.copy()
    for view in views[1:]:
        order.join(view.order)
    operation.order = order
    clock = common([view.clock for view in views])
    batch = group.batch = OperationBatch(operation.views, clock, order, operation.done)
    return batch


def add_to_batch(
    state: LaunchState, cluster: ClusterState, batch: OperationBatch, operation: OperationState, event: WgmmaIssue
) -> None:
    """What the operation reads is to be entered with its batch."""
    _be_entered(state, cluster, batch, operation, event.actor)
    batch.parts.append((event.operation, operation.issuer.actor, event.span, event.shared))


def add_row_to_batch(
    state: LaunchState, cluster: ClusterState, batch: OperationBatch, operation: OperationState, event: WgmmaRow
) -> None:
    """The same for several operations at once."""
    _be_entered(state, cluster, batch, operation, event.actor)
    issuer = operation.issuer.actor
    batch.parts += [
        (actor, issuer, form.span, form.shared) for actor, form in zip(event.operations, event.forms, strict=True)
    ]


def _be_entered(
    state: LaunchState, cluster: ClusterState, batch: OperationBatch, first: OperationState, actor: WarpActor
) -> None:
    if not batch.parts:
        cluster.to_enter.setdefault(actor.cta, []).append(partial(_enter, state, cluster, batch, first, actor))


def _enter(
    state: LaunchState, cluster: ClusterState, batch: OperationBatch, first: OperationState, actor: WarpActor
) -> None:
    batch.entered = True
    parts = tuple(batch.parts)
    ranges = _joined(state, tuple([part[3] for part in parts]))
    if not ranges:
        return
    record = Record(
        first.actors[0], agent_of(actor), False, False, first.spans[0], ranges, completion=batch.done,
        issuer=first.issuer.actor, operation="reads", by_engine=True, parts=parts if len(parts) > 1 else (),
    )  # fmt: skip
    clocks = [view.clock for view in batch.views.values()]
    state.enter(cluster.shared_memory(actor.cta), cluster, record, batch.clock, "shared", clocks)


def _joined(state: LaunchState, parts: tuple[Ranges, ...]) -> Ranges:
    """The bytes of all parts: the same object for the same parts, which come again with each round of a ring."""
    if len(parts) == 1:
        return parts[0]
    # By identity: a hash of many ranges costs as much as joining them. The parts are kept, so that theirs stay theirs.
    key = tuple(map(id, parts))
    found = state.joined_ranges.get(key)
    if found is None:
        if len(state.joined_ranges) >= _JOINED_KEPT:
            state.joined_ranges.clear()
        found = state.joined_ranges[key] = parts, union(parts)
    return found[1]
