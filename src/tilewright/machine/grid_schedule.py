"""In which order do the clusters of a grid run, some of which may wait for words that others write?

Clusters that never wait for others run one after the other. A cluster whose warps have all exited, blocked, or seen
that a word of global memory does not hold yet what they wait for (`poll_step`) is set aside, and the next one starts:
all clusters of the grid count as resident. When the last has started, those set aside look again, round after round.

A round in which every waiting warp looked once, saw what it had seen before and nothing else moved leaves everything as
it was; so would all later ones. Such a kernel hangs (LV201). Where a loop that waits is not understood, that does not
follow, and the run is given up after many such rounds (LV202). So is one of clusters that are for ever busy.

Not handled: a grid whose CTAs are not all resident at once, on which nobody may rely who lets CTAs wait for others.
Checked by: tests/machine/test_polls.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tilewright.machine.fault import MachineHang
from tilewright.machine.scheduler import hang, relax, run_cluster, waiters
from tilewright.machine.state import Cluster

_IDLE_ROUNDS = 200
"""Rounds without any progress after which a run is given up, if a loop that waits is not understood."""

_TURN = 300_000
"""Warp instructions after which a cluster lets others go on; few that wait for nobody need so many."""
_BUSY_ROUNDS = 20
"""Rounds in which clusters use their turns and none ends, after which a run is given up."""

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
    idle_rounds = busy_rounds = 0
    while waiting:
        moved = False
        busy_rounds += 1
        for cluster in list(waiting):
            moved |= _look_again(cluster, step_limit)
            if not _is_left(cluster):
                waiting.remove(cluster)
                ended(cluster)
                busy_rounds = 0
        if moved:
            idle_rounds = 0
            busy_rounds *= any(cluster.runnable for cluster in waiting)
            if busy_rounds >= _BUSY_ROUNDS:
                raise _given_up(waiting)
            continue
        idle_rounds += 1
        if any([relax(cluster) for cluster in waiting]):
            continue
        if not any(cluster.guessed_polls for cluster in waiting):
            raise hang(waiting)
        if idle_rounds >= _IDLE_ROUNDS:
            raise _given_up(waiting)


def _is_left(cluster: Cluster) -> bool:
    """Is there anything left for a cluster to do?"""
    return bool(cluster.live_warps or cluster.pending)


def _given_up(clusters: list[Cluster]) -> MachineHang:
    found = tuple(waiter for cluster in clusters for waiter in waiters(cluster))
    return MachineHang("LV202", "warps seem to wait for words of global memory that nobody changes", found)


def _look_again(cluster: Cluster, step_limit: int) -> bool:
    """Begin a cluster's next round; whether anything came of it."""
    before, made, busy = _seen(cluster), cluster.polls_made, bool(cluster.runnable or cluster.pending)
    cluster.poll_round += 1
    cluster.wake(cluster.polling)
    run_cluster(cluster, step_limit, _TURN)
    return busy or cluster.polls_made - made != len(before) or _seen(cluster) != before


def _seen(cluster: Cluster) -> Seen:
    return sorted((id(strand), strand.mask) for _, strand in cluster.polling)
