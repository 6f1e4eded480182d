"""In which order do the clusters of a grid run, some of which may wait for words that others write?

Clusters that never wait for others run one after the other. A cluster whose warps have all exited, blocked, or seen
that a word of global memory does not hold yet what they wait for (`poll_step`) is set aside, and the next one starts:
all clusters of the grid count as resident. When the last has started, those set aside look again, round after round.

A round in which every waiting warp looked once, saw what it had seen before and nothing else moved leaves everything as
it was; so would all later ones. Such a kernel hangs (LV201). Where a loop that waits is not understood, that does not
follow, and the run is given up after many such rounds (LV202). A loop that waits by other means than strong loads
keeps its cluster busy until the step limit.

Not handled: a grid whose CTAs are not all resident at once, on which nobody may rely who lets CTAs wait for others.
Checked by: tests/machine/protocol/loops/test_polls.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tilewright.machine.core.fault import MachineHang
from tilewright.machine.core.scheduler import hang, relax, run_cluster, waiters
from tilewright.machine.core.state import Cluster

_IDLE_ROUNDS = 200
"""Rounds without any progress after which a run is given up, if a loop that waits is not understood."""

_TURN = 300_000
"""Warp instructions of a cluster's first turn, after which it lets others go on; few that wait for nobody need so many.
Each turn is twice as long as the one before."""

Seen = list[tuple[int, int]]
"""The strands that wait for a word, with their lanes."""


def run_grid(starts: Iterable[Callable[[], Cluster]], step_limit: int, ended: Callable[[Cluster], None]) -> None:
    """Run the clusters that `starts` begin, to their end; `ended` is told of each. Raises MachineHang, MachineFault."""
    waiting: list[Cluster] = []
    for start in starts:
        cluster = start()
        run_cluster(cluster, step_limit, _TURN)
        if _is_left(cluster):
            waiting.append(cluster)
        else:
            ended(cluster)
    idle_rounds, turn = 0, _TURN
    while waiting:
        moved, turn = False, 2 * turn
        for cluster in list(waiting):
            moved |= _look_again(cluster, step_limit, turn)
            if not _is_left(cluster):
                waiting.remove(cluster)
                ended(cluster)
        if moved:
            idle_rounds = 0
            continue
        idle_rounds += 1
        if any([relax(cluster) for cluster in waiting]):
            continue
        if not any(cluster.guessed_polls for cluster in waiting):
            raise hang(waiting)
        if idle_rounds >= _IDLE_ROUNDS:
            found = tuple(waiter for cluster in waiting for waiter in waiters(cluster))
            raise MachineHang("LV202", "warps seem to wait for words of global memory that nobody changes", found)


def _is_left(cluster: Cluster) -> bool:
    """Is there anything left for a cluster to do?"""
    return bool(cluster.live_warps or cluster.pending)


def _look_again(cluster: Cluster, step_limit: int, turn: int) -> bool:
    """Begin a cluster's next round; whether anything came of it."""
    before, made, busy = _seen(cluster), cluster.polls_made, bool(cluster.runnable or cluster.pending)
    cluster.poll_round += 1
    cluster.wake(cluster.polling)
    run_cluster(cluster, step_limit, turn)
    return busy or cluster.polls_made - made != len(before) or _seen(cluster) != before


def _seen(cluster: Cluster) -> Seen:
    return sorted((id(strand), strand.mask) for _, strand in cluster.polling)
