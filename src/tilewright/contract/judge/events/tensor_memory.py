"""Are tcgen05 operations in order: among themselves, with what reads their results, and with the life of their columns?

mma, cp and shift of one thread are complete for whoever has observed a tcgen05.commit that covers them; a warp's loads
and stores once it has executed wait::ld or wait::st and whoever asks has synchronized with it after that. One thread's
mma, cp and shift run in order where the ISA names the pair. Allocation and deallocation count as writes of all cells of
their columns: a cell whose last write is its allocation holds nothing yet. An mbarrier between CTAs orders loads and
stores of tensor memory at the scope of the cluster alone, relaxed or not; what a commit says, any wait hears.
Shared-memory operands are read through the async proxy until the commit is observed.
Source: PTX ISA 9.7.16 (tcgen05), above all 9.7.16.6 (memory consistency). Whether columns are allocated at all, how
many, and in what order, is the machine's to say. Checked by: tests/contract/judge/test_tensor_memory.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.base.diagnostic import Level
from tilewright.base.span import Span
from tilewright.contract.history.shadow_memory import Completion, Record
from tilewright.contract.judge import phase_ledger
from tilewright.contract.judge.launch_state import LaunchState
from tilewright.contract.judge.run_state import ClusterState, CommitState, WarpState, name_of
from tilewright.contract.judge.tensor_state import LANES, TensorOperation, cells_by_cta
from tilewright.machine.core.event import (
    CommitArrive,
    Ranges,
    TensorBlock,
    TensorMemoryAllocate,
    TensorMemoryCommit,
    TensorMemoryDeallocate,
    TensorMemoryFence,
    TensorMemoryIssue,
    TensorMemoryRegisterUse,
    TensorMemoryRelinquish,
    TensorMemoryWait,
    WarpActor,
)

_PIPELINED = {("mma", "mma"), ("cp", "mma"), ("shift", "mma"), ("shift", "cp"), ("mma", "shift")}
"""Pairs of one thread's operations that run in order (PTX ISA 9.7.16.6.2)."""


def allocate(state: LaunchState, event: TensorMemoryAllocate) -> None:
    """tcgen05.alloc: the columns begin to live."""
    cluster, warp = state.step(event.actor)
    _check_group(state, cluster, event.cta_group, event.span)
    cluster.tensor.address_spans.add(event.span)
    if event.cta_group == 2:
        level = state.interpretations.pair_started
        peer = state.pair_of(event.cta)
        if level is not None and not cluster.at(warp.order, ("start", peer)):
            state.findings.report(
                "TC117",
                f"{name_of(warp.actor)} allocates for a pair of CTAs and does not know that CTA {peer} runs",
                event.span,
                None,
                (f"CTA {peer} has not started", f"{name_of(warp.actor)} allocates with it ({event.span})"),
                level,
            )
        cluster.tensor.pairs.setdefault(event.column, []).append((warp.track, warp.epoch))
    _enter_life(state, cluster, warp, event.cta, event.column, event.columns, "allocates", event.span)


def deallocate(state: LaunchState, event: TensorMemoryDeallocate) -> None:
    """tcgen05.dealloc: everything that touched the columns must be complete, in both CTAs of a pair."""
    cluster, warp = state.step(event.actor)
    _check_group(state, cluster, event.cta_group, event.span)
    _enter_life(state, cluster, warp, event.cta, event.column, event.columns, "deallocates", event.span)
    cluster.tensor.pairs.pop(event.column, None)
    peer = state.pair_of(event.cta)
    if event.cta_group == 2 and peer in cluster.tensor.memories:
        cells = _columns(event.column, event.columns)
        for earlier in cluster.tensor.memory(peer).touched(cells):
            operation = cluster.tensor.operations.get(getattr(earlier.actor, "operation", -1))
            if operation is not None:
                _judge_end(state, warp, operation, peer, event.span)


def relinquish(state: LaunchState, event: TensorMemoryRelinquish) -> None:
    """tcgen05.relinquish_alloc_permit."""
    cluster, _ = state.step(event.actor)
    _check_group(state, cluster, event.cta_group, event.span)


def issue(state: LaunchState, event: TensorMemoryIssue) -> None:
    """An operation begins."""
    cluster, warp = state.step(event.actor)
    if event.kind not in ("ld", "st"):
        _check_group(state, cluster, event.cta_group, event.span)
    level = state.interpretations.warp_lanes
    if event.other_quarter and level is not None:
        what = f"tcgen05.{event.kind} of {name_of(event.actor)} names lanes of the first quarter, not of its own"
        state.findings.report("TC120", what, event.span, None, (), level)
    if event.kind in ("mma", "ld"):
        state.roles.note(event.actor, "mma" if event.kind == "mma" else "tensor load")
    operation = _new_operation(cluster, warp, event)
    number = event.operation.operation
    state.tensor_operations[number] = operation
    cluster.tensor.operations[number] = operation
    for write, blocks in ((False, event.reads), (True, event.writes)):
        for cta, cells in cells_by_cta(blocks):
            record = Record(
                event.operation, operation.thread if not write else number, write, False, event.span, cells,
                completion=operation.done, issuer=event.actor, operation="writes" if write else "reads",
            )  # fmt: skip
            conflicts = cluster.tensor.memory(cta).conflicts(record)
            if not write and any(earlier.operation == "allocates" for earlier in conflicts):
                _judge_unwritten(state, cluster, operation, event.reads, cta)
            for earlier in conflicts:
                if earlier.actor != event.operation:
                    _judge(state, cluster, warp, earlier, operation, record, cta)
    for cta, ranges in event.shared:
        if cta != event.actor.cta:
            state.remote(cluster, warp, cta, event.span, by_engine=True)
        if ranges:
            record = Record(
                event.operation, operation.thread, False, False, event.span, ranges, completion=operation.done,
                issuer=event.actor, operation="reads", by_engine=True,
            )  # fmt: skip
            state.enter(cluster.shared_memory(cta), cluster, record, warp.clock, "shared")


def _new_operation(cluster: ClusterState, warp: WarpState, event: TensorMemoryIssue) -> TensorOperation:
    if event.kind in ("ld", "st"):
        thread: tuple[object, ...] = ("tensor", event.kind, event.actor)
        signalled = ("tensor signalled", event.kind, event.actor)
    else:
        thread = signalled = ("tensor", event.actor, event.lane)
    ordinal = cluster.tensor.threads.get(thread, 0) + 1
    cluster.tensor.threads[thread] = ordinal
    return TensorOperation(
        event.operation,
        event.kind,
        event.actor,
        warp.track,
        warp.epoch,
        thread,
        Completion(cluster.tracks.of(thread), ordinal),
        Completion(cluster.tracks.of(signalled), ordinal),
        event.writes,
        event.span,
        set(event.registers) if event.kind == "ld" else set(),
    )


def _judge(
    state: LaunchState, cluster: ClusterState, warp: WarpState, earlier: Record, later: TensorOperation,
    record: Record, cta: int,
) -> None:  # fmt: skip
    """Is the earlier access of the same cells complete, as far as the issuer of `later` knows?"""
    if isinstance(earlier.actor, WarpActor):
        marks = [(earlier.warp_track, earlier.epoch)]
        if earlier.operation == "allocates":  # who knows of one half of a pair's allocation knows of both
            marks += cluster.tensor.pairs.get(earlier.ranges[0][0] // LANES, [])
        if not any(warp.order.at(track) >= epoch for track, epoch in marks):
            _report_life(state, warp, earlier, later, cta)
        return
    first = cluster.tensor.operations.get(getattr(earlier.actor, "operation", -1))
    if first is None:
        return
    if warp.order.at(first.done.track) >= first.done.value:
        if first.issuer != warp.actor:
            _judge_fences(state, cluster, warp, first, later)
        return
    if first.thread == later.thread and first.kind not in ("ld", "st"):
        same = first.kind != "mma" or later.kind != "mma" or not earlier.write or first.writes == later.writes
        if (first.kind, later.kind) in _PIPELINED and same:
            return
        _report(state, "TC113", first, later, record, cta, state.interpretations.tensor_pipeline)
        return
    aware = first.issuer == warp.actor or warp.order.at(first.issuer_track) >= first.epoch
    if first.kind not in ("ld", "st"):
        _report(state, "TC107", first, later, record, cta)
    elif not aware:
        _report(state, "TC118", first, later, record, cta)
    elif first.kind == "st":
        loads = first.issuer == warp.actor and later.kind == "st"
        _report(
            state, "TC108", first, later, record, cta, state.interpretations.tensor_pipeline if loads else Level.ERROR
        )
    else:
        _report(state, "TC109", first, later, record, cta, _level_of_unwaited(state, warp, first))


def _judge_unwritten(
    state: LaunchState, cluster: ClusterState, operation: TensorOperation, blocks: tuple[TensorBlock, ...], cta: int
) -> None:  # fmt: skip
    """An operation reads cells that nobody has written since their allocation. What it takes from a block of which no
    cell was written is nothing but leftovers; of a block that was written in part, the rest may be thrown away."""
    for block in blocks:
        if block.cta != cta:
            continue
        ((_, cells),) = cells_by_cta((block,))
        writes = [record for record in cluster.tensor.memory(cta).touched(cells) if record.write]
        allocations = [record for record in writes if record.operation == "allocates"]
        whole = len(allocations) == len(writes)
        level = Level.ERROR if whole else state.interpretations.unwritten_tensor_memory
        if allocations and level is not None:
            columns = f"columns [{block.column_begin}, {block.column_end}) of CTA {cta}"
            owner = name_of(allocations[0].actor)
            state.findings.report(
                "TC122",
                f"{_who(operation)} reads {columns}, {'which' if whole else 'some cells of which'} nobody has written",
                operation.span,
                allocations[0].span,
                (
                    f"{owner} allocates the columns ({allocations[0].span}), which hold what was left there",
                    f"{_who(operation)} reads them ({operation.span}); no write comes before, in any order",
                ),
                level,
            )


def _level_of_unwaited(state: LaunchState, warp: WarpState, load: TensorOperation) -> Level | None:
    """How grave is it that no wait::ld covers a load, seen from `warp`? Less, if all its registers were consumed."""
    consumed = not load.unread and (
        load.issuer == warp.actor or warp.order.at(load.issuer_track) >= load.consumed_epoch
    )
    return state.interpretations.load_wait_before_release if consumed else Level.ERROR


def _judge_fences(
    state: LaunchState, cluster: ClusterState, warp: WarpState, first: TensorOperation, later: TensorOperation
) -> None:
    """Completion is known by synchronization; has it the scope for that, and are the tcgen05 fences there as well?"""
    if warp.tensor_order.at(first.signalled.track) >= first.signalled.value:
        return
    heard = cluster.out_of_scope.believed(warp.tensor_order)
    if heard.at(first.signalled.track) >= first.signalled.value:
        _report_scope(state, first, later)
        return
    level = state.interpretations.thread_sync_fence
    if level is None or state.findings.knows("TC111", later.span, first.span, level):
        return
    before = warp.order.at(first.signalled.track) < first.signalled.value
    side = "before" if before else "after"
    state.findings.report(
        "TC111",
        f"no tcgen05.fence::{side}_thread_sync stands between {_who(first)} and {_who(later)}",
        later.span,
        first.span,
        (
            f"{name_of(first.issuer)} issues a tcgen05.{first.kind} ({first.span}), which completes",
            f"the two threads synchronize, but without tcgen05.fence::{side}_thread_sync",
            f"{name_of(later.issuer)} issues a tcgen05.{later.kind} of the same cells ({later.span})",
        ),
        level,
    )


def _report_scope(state: LaunchState, first: TensorOperation, later: TensorOperation) -> None:
    level = state.interpretations.narrow_release
    if level is None:
        return
    state.findings.report(
        "CL104",
        f"{_who(later)} touches cells that {_who(first)} used, and the mbarrier between the CTAs is arrived at or "
        "waited for at the scope of the CTA",
        later.span,
        first.span,
        (
            f"{name_of(first.issuer)} issues a tcgen05.{first.kind} ({first.span}), which completes",
            f"its arrival, or the wait of {name_of(later.issuer)}, orders memory for threads of its own CTA alone",
            f"{name_of(later.issuer)} issues a tcgen05.{later.kind} of the same cells ({later.span})",
        ),
        level,
    )


def _report(
    state: LaunchState, code: str, first: TensorOperation, later: TensorOperation, record: Record, cta: int,
    level: Level | None = Level.ERROR,
) -> None:  # fmt: skip
    if level is None:
        return
    verb = "overwrites" if record.write else "reads"
    state.findings.report(
        code,
        f"{_who(later)} {verb} tensor memory {_cells_text(record)} of CTA {cta} while {_who(first)}, which uses "
        "it, may not be done",
        later.span,
        first.span,
        (
            f"{name_of(first.issuer)} issues a tcgen05.{first.kind} ({first.span})",
            _MISSING[code],
            f"{name_of(later.issuer)} issues a tcgen05.{later.kind} of the same cells ({later.span})",
            f"the tcgen05.{first.kind} is performed only now, or in part",
        ),
        level,
    )


_MISSING = {
    "TC107": "the later thread waits for no mbarrier that a tcgen05.commit covering it signals",
    "TC108": "no tcgen05.wait::st follows it before the threads synchronize",
    "TC109": "no tcgen05.wait::ld follows it before the threads synchronize",
    "TC113": "one thread issues both, which the ISA does not order",
    "TC118": "nothing orders the two threads",
}


def _report_life(state: LaunchState, warp: WarpState, earlier: Record, later: TensorOperation, cta: int) -> None:
    ends = earlier.operation == "deallocates"
    one, other = name_of(earlier.actor), name_of(warp.actor)
    state.findings.report(
        "TC103" if ends else "TC104",
        f"{_who(later)} uses columns of CTA {cta} that {one} {earlier.operation}, and nothing orders the two",
        later.span,
        earlier.span,
        (
            f"{other} reaches {later.span}" + ("" if ends else f" before {one} reaches {earlier.span}"),
            f"{one} {earlier.operation} the columns ({earlier.span})",
            "the columns may belong to another CTA when the operation touches them",
        ),
    )


def _columns(column: int, columns: int) -> Ranges:
    return ((LANES * column, LANES * (column + columns)),)


def _enter_life(
    state: LaunchState, cluster: ClusterState, warp: WarpState, cta: int, column: int, columns: int, verb: str,
    span: Span,
) -> None:  # fmt: skip
    cells = _columns(column, columns)
    record = Record(warp.actor, ("life", cta), True, False, span, cells, warp.track, warp.epoch, operation=verb)
    for earlier in cluster.tensor.memory(cta).conflicts(record):
        operation = cluster.tensor.operations.get(getattr(earlier.actor, "operation", -1))
        if operation is not None and verb == "deallocates":
            _judge_end(state, warp, operation, cta, span)
        elif operation is None and warp.order.at(earlier.warp_track) < earlier.epoch and verb == "deallocates":
            state.findings.report(
                "TC104",
                f"{name_of(warp.actor)} deallocates columns of CTA {cta} and may do so before their allocation",
                span,
                earlier.span,
            )


def _judge_end(state: LaunchState, warp: WarpState, operation: TensorOperation, cta: int, span: Span) -> None:
    """Is an operation on columns complete before they are deallocated?"""
    if warp.order.at(operation.done.track) >= operation.done.value:
        return
    level: Level | None = Level.ERROR
    aware = operation.issuer == warp.actor or warp.order.at(operation.issuer_track) >= operation.epoch
    if operation.kind == "ld" and aware:
        level = _level_of_unwaited(state, warp, operation)
    if level is None:
        return
    state.findings.report(
        "TC103",
        f"{name_of(warp.actor)} deallocates columns of CTA {cta} that {_who(operation)} may still use",
        span,
        operation.span,
        (
            f"{name_of(operation.issuer)} issues a tcgen05.{operation.kind} ({operation.span})",
            f"{name_of(warp.actor)} knows of nothing that reports its completion",
            f"{name_of(warp.actor)} deallocates the columns ({span}), and another CTA allocates them",
            f"the tcgen05.{operation.kind} touches them",
        ),
        level,
    )


def wait(state: LaunchState, event: TensorMemoryWait) -> None:
    """tcgen05.wait::ld or ::st: the warp's earlier loads or stores are complete."""
    cluster, warp = state.step(event.actor)
    thread = ("tensor", event.kind, event.actor)
    issued = cluster.tensor.threads.get(thread, 0)
    if issued:
        warp.advance(cluster.tracks.of(thread), issued)


def fence(state: LaunchState, event: TensorMemoryFence) -> None:
    """tcgen05.fence: what is complete is ordered before later synchronization; what is known, before later
    operations."""
    cluster, warp = state.step(event.actor)
    if event.side == "after":
        warp.tensor_order = warp.order.copy()
        return
    for kind in ("ld", "st"):
        done = cluster.at(warp.order, ("tensor", kind, event.actor))
        if done:
            signalled = cluster.tracks.of(("tensor signalled", kind, event.actor))
            cluster.tensor.signals.add(signalled)
            warp.advance(signalled, done)


def commit(state: LaunchState, event: TensorMemoryCommit) -> None:
    """tcgen05.commit: its arrivals will say that the thread's operations until now are complete."""
    cluster, warp = state.step(event.actor)
    _check_group(state, cluster, event.cta_group, event.span)
    thread = ("tensor", event.actor, event.lane)
    ordinal = cluster.tensor.threads.get(thread, 0)
    level = state.interpretations.commit_nothing
    # An earlier commit takes nothing away: each covers all operations before it that are not complete.
    complete = cluster.at(warp.order, thread) >= ordinal
    if event.cta_group == 2 and level is not None and complete:
        state.findings.report(
            "TC116",
            f"{name_of(warp.actor)} commits for a pair of CTAs with no operation pending",
            event.span,
            level=level,
        )
    cluster.tensor.committed[thread] = ordinal
    number = cluster.tensor.commits[thread] = cluster.tensor.commits.get(thread, 0) + 1
    clock = warp.clock.copy()
    clock.lower(warp.access_track, 0)  # a commit publishes no ordinary access of its issuer
    state.commits[event.commit] = CommitState(
        warp, cluster, clock, warp.order.copy(), cluster.tracks.of(thread), ordinal,
        cluster.tracks.of(("tensor commits", event.actor, event.lane)), number, event.span,
    )  # fmt: skip
    cluster.commits.append(event.commit)
    for cta, _ in event.barriers:
        if cta != event.actor.cta:
            state.remote(cluster, warp, cta, event.span, by_engine=True)


def commit_arrive(state: LaunchState, event: CommitArrive) -> None:
    """A commit's arrival on one of its mbarriers."""
    made = state.commits.get(event.commit)
    if made is None:
        state.findings.doubt(f"{event.span}: tcgen05.commit {event.commit} arrives and was never executed")
        return
    phase_ledger.commit_arrive(made.cluster, made, event, state.findings)


def register_use(state: LaunchState, event: TensorMemoryRegisterUse) -> None:
    """A register of a load or store is touched before its wait."""
    _, warp = state.step(event.actor)
    operation = state.tensor_operations.get(event.operation.operation)
    if operation is None:
        state.findings.doubt(f"{event.span}: a register of tcgen05 operation {event.operation.operation}, never issued")
        return
    if operation.kind == "st" and not event.write:
        return
    level = state.interpretations.load_wait_before_use
    if operation.kind == "ld":
        if event.write and event.register in operation.unread:
            level = Level.ERROR
        operation.unread.discard(event.register)
        if not operation.unread and not operation.consumed_epoch:
            operation.consumed_epoch = warp.epoch
    if level is None or state.findings.knows("TC112", event.span, operation.span, level):
        return
    verb = "writes" if event.write else "reads"
    state.findings.report(
        "TC112",
        f"{name_of(warp.actor)} {verb} {event.register} before tcgen05.wait::{operation.kind} covers the "
        f"tcgen05.{operation.kind} that uses it",
        event.span,
        operation.span,
        (
            f"{name_of(warp.actor)} issues a tcgen05.{operation.kind} of {event.register} ({operation.span})",
            f"no tcgen05.wait::{operation.kind} follows",
            f"{name_of(warp.actor)} {verb} {event.register} ({event.span})",
        ),
        level,
    )


def _check_group(state: LaunchState, cluster: ClusterState, cta_group: int, span: Span) -> None:
    groups = cluster.tensor.groups
    if cta_group not in groups:
        groups[cta_group] = span
        if len(groups) > 1:
            first, other = list(groups.items())[:2]
            state.findings.report(
                "TC106",
                f"cta_group::{other[0]} is used where cta_group::{first[0]} was before",
                other[1],
                first[1],
            )


def _who(operation: TensorOperation) -> str:
    return f"the tcgen05.{operation.kind} of {name_of(operation.issuer)}"


def _cells_text(record: Record) -> str:
    begin, end = record.ranges[0][0] // LANES, -(-record.ranges[-1][1] // LANES)
    return f"columns [{begin}, {end})"


HANDLERS: dict[type, Callable[[LaunchState, Any], None]] = {
    TensorMemoryAllocate: allocate,
    TensorMemoryDeallocate: deallocate,
    TensorMemoryRelinquish: relinquish,
    TensorMemoryIssue: issue,
    TensorMemoryWait: wait,
    TensorMemoryFence: fence,
    TensorMemoryCommit: commit,
    CommitArrive: commit_arrive,
    TensorMemoryRegisterUse: register_use,
}
