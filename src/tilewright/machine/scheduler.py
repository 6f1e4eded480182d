"""Who moves next? A seeded adversary over runnable warps and pending engine actions.

Each turn runs one warp for a random quantum, or performs one pending action of an engine (a copy's read, its write, its
completion, a wgmma), in any order the ISA permits. The odds change now and then, so that some runs starve the engines,
some the warps, and some one warp. A run ends when every warp has exited and nothing is pending.

A hang (LV201) is exact: no warp can run, nothing is pending, and no diverged warp can be relaxed. A kernel that polls
for ever (`test_wait` in a loop) is given up after many failed polls in a row, as LV202, which is no proof.
Checked by: tests/machine/test_run.py.
"""

from __future__ import annotations

from tilewright.machine.execute import check_stuck, run_warp
from tilewright.machine.fault import MachineHang, Waiter
from tilewright.machine.state import Cluster, Warp

_EPOCH_TURNS = 64
_ENGINE_ODDS = (0.03, 0.2, 0.5, 0.9)
_POLL_LIMIT = 5000
_QUANTA = (3, 24, 200, 2000, 2000)


def run_cluster(cluster: Cluster, step_limit: int) -> None:
    """Run a cluster's warps to their end. Raises MachineHang, MachineFault."""
    random, counts = cluster.random, cluster.counts
    runnable, pending = cluster.runnable, cluster.pending
    program = cluster.program
    engine_odds = 0.5
    starved: Warp | None = None
    turns = 0
    while cluster.live_warps or pending:
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
            if not _relax(cluster):
                raise _hang(cluster)
            continue
        warp = runnable[int(random.random() * len(runnable))]
        if warp is starved and len(runnable) > 1:
            continue
        counts.instructions += run_warp(warp, program, random.choice(_QUANTA))
        if warp.done or not warp.select():
            runnable.remove(warp)
            check_stuck(warp, program)
        if counts.instructions > step_limit:
            raise MachineHang("LV202", f"still running after {step_limit} warp instructions", _waiters(cluster))
        if cluster.failed_polls > _POLL_LIMIT * cluster.live_warps:
            summary = f"{cluster.failed_polls} waits in a row failed, nothing is in flight and no phase ends"
            raise MachineHang("LV202", summary, _waiters(cluster))


def _relax(cluster: Cluster) -> bool:
    """Let strands of diverged warps run ahead of a blocked one. False if there is none to let."""
    found = False
    for cta in cluster.ctas:
        for warp in cta.warps:
            if len(warp.strands) > 1 and not warp.relaxed:
                warp.relaxed = True
                if warp.select():
                    cluster.runnable.append(warp)
                    found = True
    return found


def _hang(cluster: Cluster) -> MachineHang:
    stuck = sum(not warp.done for cta in cluster.ctas for warp in cta.warps)
    summary = f"the kernel hangs: {stuck} warp{'s wait' if stuck != 1 else ' waits'} and nothing is in flight"
    return MachineHang("LV201", summary, _waiters(cluster))


def _waiters(cluster: Cluster) -> tuple[Waiter, ...]:
    found: list[Waiter] = []
    for cta in cluster.ctas:
        for warp in cta.warps:
            for strand in warp.strands:
                span = cluster.program.steps[strand.pc].span
                found.append(Waiter(cta.linear, warp.index, strand.mask.bit_count(), _reason(warp, strand.pc), span))
    return tuple(found)


def _reason(warp: Warp, pc: int) -> str:
    strand = next(strand for strand in warp.strands if strand.pc == pc)
    if strand.block is not None:
        return strand.block.describe()
    return "waits for the other lanes of its warp" if strand.converging else "can run"
