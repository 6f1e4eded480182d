"""Who moves next? A seeded adversary over runnable warps and pending engine actions, or a canonical order.

The adversary: each turn runs a warp for a random quantum, or performs a pending action of an engine (a copy's read,
its write, its completion, a wgmma), in any order the ISA permits. The odds change now and then, so that some runs
starve the engines, some the warps, and some one warp. A run ends when every warp has exited and nothing is pending.

The canonical order has no choice: in every round each warp that can run does so until it blocks, in order of rank and
index; then the engines perform what is pending, first come, first served, and what follows from it. Waits fail only if
they must. So, where a kernel repeats itself, its run does.

A hang (LV201) is exact: no warp can run, nothing is pending, and no diverged warp can be relaxed. A kernel that polls
forever (`test_wait` in a loop) is given up after many failed polls in a row, as LV202, which is no proof.
Checked by: tests/machine/core/test_run.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tilewright.machine.copy.unknown_copies import complete_unknown
from tilewright.machine.core.execute import check_stuck, run_warp
from tilewright.machine.core.fault import Awaited, MachineHang, Waiter
from tilewright.machine.core.state import Cluster, Warp

_EPOCH_TURNS = 64
_ENGINE_ODDS = (0.03, 0.2, 0.5, 0.9)
_POLL_LIMIT = 5000
_CANONICAL_QUANTUM = 20_000
_DRAINS = 8
_QUANTA = (3, 24, 200, 2000, 2000)


class Canonical(Random):
    """The choices of the canonical order: nothing that may fail does so before it must."""

    def random(self) -> float:
        return 1.0


def run_canonically(cluster: Cluster, step_limit: int) -> None:
    """Run a cluster's warps to their end in the canonical order. Raises MachineHang, MachineFault."""
    counts, program, pending = cluster.counts, cluster.program, cluster.pending
    order = {id(warp): place for place, warp in enumerate(warp for cta in cluster.ctas for warp in cta.warps)}
    while cluster.live_warps or pending:
        turn = sorted(cluster.runnable, key=lambda warp: order[id(warp)])
        for warp in turn:
            counts.instructions += run_warp(warp, program, _CANONICAL_QUANTUM)
            if warp.done or not warp.select():
                if warp in cluster.runnable:
                    cluster.runnable.remove(warp)
                check_stuck(warp, program)
            _check_limits(cluster, step_limit)
        if pending:
            cluster.failed_polls = 0
        elif not cluster.runnable and cluster.live_warps and not relax(cluster):
            raise hang((cluster,))
        for _ in range(_DRAINS):
            batch = pending.copy()
            pending.clear()
            for action in batch:
                action()


def run_cluster(cluster: Cluster, step_limit: int, turn_limit: int | None = None) -> None:
    """Run a cluster's warps to their end, or until those left wait for words of global memory (`polling`).

    turn_limit: warp instructions after which others shall have a turn. Raises MachineHang, MachineFault."""
    random, counts = cluster.random, cluster.counts
    runnable, pending = cluster.runnable, cluster.pending
    program = cluster.program
    engine_odds = 0.5
    starved: Warp | None = None
    turns = 0
    begun = counts.instructions
    while cluster.live_warps or pending:
        if turn_limit is not None and counts.instructions - begun > turn_limit:
            return
        if turns % _EPOCH_TURNS == 0:
            engine_odds = random.choice(_ENGINE_ODDS)
            starved = random.choice(runnable) if runnable and random.random() < 0.3 else None
        turns += 1
        if pending and (not runnable or random.random() < engine_odds):
            index = int(random.random() * len(pending))
            action = pending[index]
            pending[index] = pending[-1]
            pending.pop()
            action()
            cluster.failed_polls = 0
            continue
        if not runnable:
            if cluster.polling:
                return
            if not relax(cluster):
                raise hang((cluster,))
            continue
        warp = runnable[int(random.random() * len(runnable))]
        if warp is starved and len(runnable) > 1:
            continue
        counts.instructions += run_warp(warp, program, random.choice(_QUANTA))
        if warp.done or not warp.select():
            runnable.remove(warp)
            check_stuck(warp, program)
        _check_limits(cluster, step_limit)


def _check_limits(cluster: Cluster, step_limit: int) -> None:
    if cluster.counts.instructions > step_limit:
        raise MachineHang("LV202", f"still running after {step_limit} warp instructions", waiters(cluster))
    if cluster.failed_polls > _POLL_LIMIT * cluster.live_warps and not complete_unknown(cluster):
        summary = f"{cluster.failed_polls} waits in a row failed, nothing is in flight and no phase ends"
        raise MachineHang("LV202", summary, waiters(cluster))


def relax(cluster: Cluster) -> bool:
    """Fill a phase that waits for copies of unknown size, or let strands of diverged warps run ahead of a blocked one.

    False if there is none to let."""
    if complete_unknown(cluster):
        return True
    found = False
    for cta in cluster.ctas:
        for warp in cta.warps:
            if len(warp.strands) > 1 and not warp.relaxed:
                warp.relaxed = True
                if warp.select():
                    cluster.runnable.append(warp)
                    found = True
    return found


def hang(clusters: Sequence[Cluster]) -> MachineHang:
    """Nobody in these clusters can move, and no other cluster is left."""
    stuck = sum(not warp.done for cluster in clusters for cta in cluster.ctas for warp in cta.warps)
    summary = f"the kernel hangs: {stuck} warp{'s wait' if stuck != 1 else ' waits'} and nothing is in flight"
    return MachineHang("LV201", summary, tuple(waiter for cluster in clusters for waiter in waiters(cluster)))


def waiters(cluster: Cluster) -> tuple[Waiter, ...]:
    """Who waits in a cluster, and for what."""
    found: list[Waiter] = []
    for cta in cluster.ctas:
        for warp in cta.warps:
            for strand in warp.strands:
                span = cluster.program.steps[strand.pc].span
                awaited = Awaited("lanes") if strand.block is None else strand.block.awaited
                lanes = strand.mask.bit_count()
                found.append(Waiter(cta.linear, warp.index, lanes, _reason(warp, strand.pc), span, awaited))
    return tuple(found)


def _reason(warp: Warp, pc: int) -> str:
    strand = next(strand for strand in warp.strands if strand.pc == pc)
    if strand.block is not None:
        return strand.block.describe()
    return "waits for the other lanes of its warp" if strand.converging else "can run"
