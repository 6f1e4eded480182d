"""What may a cluster leave behind when it ends? Nothing that outlives its memory.

At a thread's exit its bulk stores must have been read; at a warp's, its wgmmas be done; at a CTA's, every copy into
its shared memory must be known to one of its warps, and so must every access by peers. What a warp knows at its exit is
certain in every interleaving, whatever happened in this one. Source: PTX ISA 9.7.9.25 (async groups), 9.7.15.7, 2.2.2.
Checked by: tests/contract/judge/test_happens_before.py.
"""

from __future__ import annotations

from tilewright.base.diagnostic import Level
from tilewright.contract.judge import barrier_life, phase_ledger
from tilewright.contract.judge.register_budgets import check_budgets
from tilewright.contract.judge.run_state import BulkThread, ClusterState, OperationState, WarpState, name_of
from tilewright.contract.judge.vector_clock import VectorClock
from tilewright.contract.rules.interpretations import Interpretation, Interpretations
from tilewright.contract.rules.replay_codes import RunFindings

_WARPGROUP_WARPS = 4


def check_exit(cluster: ClusterState, interpretations: Interpretations, findings: RunFindings) -> None:
    """Judge a cluster all of whose warps have exited."""
    for warp in cluster.warps.values():
        if warp.exit_span is None:
            findings.doubt(f"{name_of(warp.actor)} does not exit in the run that was judged")
        for thread in warp.bulk.values():
            _check_bulk(warp, thread, interpretations, findings)
    phase_ledger.late_waits(cluster, interpretations, findings)
    _check_copies(cluster, findings)
    _check_wgmmas(cluster, findings)
    _check_remote(cluster, findings)
    check_budgets(cluster, findings)
    _check_tensor_operations(cluster, interpretations, findings)
    barrier_life.left_at_exit(cluster, interpretations, findings)
    _check_async_copies(cluster, interpretations.left_at_exit, findings)
    for barriers in cluster.barriers.values():
        for barrier in barriers.values():
            phase_ledger.at_exit(cluster, barrier, findings)
    for barrier in cluster.ended_barriers:
        phase_ledger.at_exit(cluster, barrier, findings)


def _check_bulk(warp: WarpState, thread: BulkThread, interpretations: Interpretations, findings: RunFindings) -> None:
    who = name_of(warp.actor)
    for copy in thread.uncommitted:
        findings.report(
            "BG101",
            f"{name_of(copy.actor, warp.actor)} is in no committed bulk group when its thread exits",
            copy.span,
            warp.exit_span,
            (
                f"{who} issues the copy ({copy.span})",
                "no cp.async.bulk.commit_group follows, so no wait covers it",
                f"{who} exits ({warp.exit_span}) while the copy may still read shared memory",
            ),
        )
    # A thread that waits for its groups as it goes, and leaves the last ones, is contested; one whose waits wait for
    # nothing is wrong by any reading.
    never = thread.waits == 0 or (thread.read_waited == 0 and thread.waited_after)
    level = Level.ERROR if never else interpretations.level_of("stores_at_exit")
    if thread.read_waited < thread.groups and level is not None:
        findings.report(
            "BG102",
            f"{who} exits with {thread.groups - thread.read_waited} bulk group(s) whose sources may still be read",
            thread.last_span,
            warp.exit_span,
            (
                f"{who} issues and commits bulk stores ({thread.last_span})",
                f"its waits cover {thread.read_waited} of {thread.groups} groups",
                f"{who} exits ({warp.exit_span}); shared memory goes to another CTA while a store reads it",
            ),
            level,
        )


def _check_copies(cluster: ClusterState, findings: RunFindings) -> None:
    known: dict[int, VectorClock] = {}
    for copy in cluster.copies:
        touched = [(cta, done, "write into") for cta, done in copy.writes.items()]
        if copy.source >= 0:
            touched.append((copy.source, next(iter(copy.writes.values())), "read from"))
        for cta, done, verb in touched:
            clock = known.get(cta)
            if clock is None:
                clock = known[cta] = cluster.known_in(cta)
            if done.track < 0 or clock.at(done.track) < done.value:
                findings.report(
                    "TM103",
                    f"{name_of(copy.actor, copy.issuer.actor)} may still {verb} CTA {cta} when that has ended",
                    copy.span,
                    None,
                    (
                        f"{name_of(copy.issuer.actor)} issues a copy that will {verb} CTA {cta} ({copy.span})",
                        f"no warp of CTA {cta} learns that the phase has ended which the copy completes",
                        f"all warps of CTA {cta} exit, and its shared memory goes to another CTA",
                        "the copy is performed only now",
                    ),
                )


def _is_over(operation: OperationState, waited: int) -> bool:
    """Have all four warps issued it, and waited for its group? waited: for so many groups they all have."""
    done = operation.done
    return len(operation.issuers) == _WARPGROUP_WARPS and done.track >= 0 and done.value <= waited


def _check_wgmmas(cluster: ClusterState, findings: RunFindings) -> None:
    for (cta, index), group in cluster.warpgroups.items():
        warps = [
            warp
            for actor, warp in cluster.warps.items()
            if actor.cta == cta and actor.warp // _WARPGROUP_WARPS == index
        ]
        waited = min((warp.order.at(group.track) for warp in warps), default=0)
        open_ = [each for each in group.operations if not _is_over(each, waited)]
        for operation in open_:
            who, span = name_of(operation.actor, operation.issuer.actor), operation.span
            if len(operation.issuers) < _WARPGROUP_WARPS:
                findings.doubt(f"{span}: {who} was not issued by all four warps of its warpgroup")
            if operation.done.track < 0:
                findings.report(
                    "WG102",
                    f"{who} is in no committed wgmma group when its warp exits",
                    span,
                    operation.issuer.exit_span,
                    (f"{who} is issued ({span})", "no wgmma.commit_group follows", "its warps exit"),
                )
            elif operation.done.value > waited:
                findings.report(
                    "WG103",
                    f"{who} may be in flight when its warps exit",
                    span,
                    operation.issuer.exit_span,
                    (
                        f"{who} is issued ({span})",
                        f"it is in group {operation.done.value - 1}, and wgmma.wait_group has covered {waited} groups",
                        "its warps exit",
                    ),
                )


def _check_remote(cluster: ClusterState, findings: RunFindings) -> None:
    visible: dict[int, VectorClock] = {}
    for (cta, _, by_engine), mark in cluster.remote.items():
        if cta not in visible:
            visible[cta] = cluster.visible_in(cta)
        # What an engine does is done once it was waited for, whatever the scope by which that is told.
        known = cluster.out_of_scope.believed(visible[cta]) if by_engine else visible[cta]
        if not mark.known_to(known):
            phase_ledger.report_after_exit(mark, f"reaches into CTA {cta}", cta, findings)


def _check_tensor_operations(cluster: ClusterState, interpretations: Interpretations, findings: RunFindings) -> None:
    known: dict[int, VectorClock] = {}
    for operation in cluster.tensor.operations.values():
        cta, done = operation.issuer.cta, operation.done
        clock = known.get(cta)
        if clock is None:
            clock = known[cta] = VectorClock()
            for warp in cluster.warps.values():
                clock.join(warp.order)
        if clock.at(done.track) >= done.value:
            continue
        who, kind = name_of(operation.issuer), operation.kind
        exit_span = cluster.warp(operation.issuer).exit_span
        if kind in ("ld", "st"):
            consumed = kind == "ld" and not operation.unread
            level = interpretations.load_wait_before_release if consumed else Level.ERROR
            if level is None:
                continue
            findings.report(
                "TC115",
                f"no tcgen05.wait::{kind} follows the tcgen05.{kind} of {who}",
                operation.span,
                exit_span,
                (f"{who} issues it ({operation.span})", f"{who} exits ({exit_span}) while it may be in flight"),
                level,
            )
            continue
        committed = cluster.tensor.committed.get(operation.thread, 0) >= done.value
        findings.report(
            "TC119" if committed else "TC114",
            f"the tcgen05.{kind} of {who} is covered by a commit that nobody waits for"
            if committed
            else f"no tcgen05.commit follows the tcgen05.{kind} of {who}",
            operation.span,
            exit_span,
            (
                f"{who} issues it ({operation.span})",
                "no warp waits for a barrier that reports its completion",
                f"the CTA ends ({exit_span}) while it may be in flight",
            ),
        )


def _check_async_copies(cluster: ClusterState, level: Interpretation, findings: RunFindings) -> None:
    if level is None:
        return
    clock = VectorClock()
    for warp in cluster.warps.values():
        clock.join(warp.order)
    for copy in cluster.async_copies:
        if clock.at(copy.done.track) < copy.done.value:
            who, exit_span = name_of(copy.issuer.actor), copy.issuer.exit_span
            findings.report(
                "BG104",
                f"{who} exits with a cp.async that nobody waits for",
                copy.span,
                exit_span,
                (f"{who} issues it ({copy.span})", f"{who} exits ({exit_span}); the copy writes later"),
                level,
            )
