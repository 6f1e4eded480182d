"""Is a run of words in the same state as before? A state's canonical form, without the agents' positions.

Times and counts stand as what they are compared by: distances where waits count groups or phases, else their order
among the values that can still be compared; what everybody knows to be done, and what is older than anything that can
be compared, is left out. Runs from equal canonical states with equal words ahead do the same, and are judged the same.
Checked by: tests/contract/words/test_structured_run.py.
"""

from __future__ import annotations

from collections.abc import Hashable

from tilewright.contract.words.run import Run
from tilewright.contract.words.state import Actors, AgentState, BarrierState, Clock, Record, Track
from tilewright.contract.words.word import GROUPS_PENDING_MAX, Barrier, Region

LATE = 2
"""Whoever knows of two phases fewer than are complete can't use the barrier any more, however many more it misses."""

_COUNTED = {"phase": LATE, "dot": GROUPS_PENDING_MAX, "read by store": 0}
_FAR, _UNSEEN = 1_000_000, -1_000_000_000


def _is_over(run: Run, record: Record) -> bool:
    """Do all agents know that the access is done? Then it conflicts with nothing that follows."""
    if run.by_threads and record.kind == "thread":
        return False
    return all(
        clock.get(record.track, 0) >= record.value
        for state in run.agents.values()
        if state.running and not state.done
        for clock in (actors.clock for actors in state.actors())
    )


class _Times:
    """What times and counts of a run are compared by: in order on each track, and no older than anything that can still
    be compared with them.

    ahead: the newest of each track. ranks: the order of those that something may still be compared with."""

    def __init__(self, run: Run) -> None:
        self.ahead: dict[Track, int] = {}
        self._oldest: dict[Track, int] = {}
        self._values: dict[Track, set[int]] = {}
        for name, state in run.agents.items():
            self._read_agent(name, state)
        for barrier, found in run.barriers.items():
            self._read_barrier(barrier, found)
        for record in (record for records in run.records.values() for record in records):
            if not _is_over(run, record):
                self._compared(record.track, record.value)
                if run.by_threads and record.kind == "thread":
                    self._compared(("fence", record.who), record.value)
        clocks = [actors.clock for state in run.agents.values() for actors in state.actors()]
        for found in run.barriers.values():
            clocks += [found.gathering, found.released]
        for clock in clocks:
            for track, value in clock.items():
                if value >= self._oldest.get(track, value + 1):
                    self._values[track].add(value)
        self.ranks = {
            track: {value: rank for rank, value in enumerate(sorted(known, reverse=True))}
            for track, known in self._values.items()
        }

    def _read_agent(self, name: str, state: AgentState) -> None:
        ahead = self.ahead
        for _, time in state.dot_times:
            self._compared(("came", name), time)
        ahead["dot", name] = state.dots
        ahead["mma", name] = state.mmas
        for actors in state.actors():
            who = actors.who
            ahead["time", who] = ahead["fence", who] = ahead["came", who] = state.time
            ahead["read by store", who] = actors.stores
            ahead["copy", who] = actors.copies
            for value in (*actors.copy_groups, actors.copied):
                self._compared(("copy", who), value)
            for value in actors.store_groups:
                self._compared(("read by store", who), value)
            self._compared(("fence", who), actors.fenced)

    def _read_barrier(self, barrier: Barrier, found: BarrierState) -> None:
        self.ahead["phase", barrier] = found.done
        for who, time in (*found.inits.items(), *found.users.items()):
            self._compared(("time", who), time)
        for wait in found.waits:
            self._compared(("time", wait.agent), wait.time)
            self._compared(("came", wait.agent), wait.time)

    def _compared(self, track: Track, value: int) -> None:
        if self._oldest.get(track, value + 1) > value:
            self._oldest[track] = value
        self._values.setdefault(track, set()).add(value)

    def seen(self, track: Track, value: int) -> int:
        """A value on a track as what matters of it: how far it is behind, where that is counted; else its order among
        the values that are left to compare."""
        behind = self.ahead[track] - value
        if behind <= _COUNTED.get(track[0], 0):
            return -behind
        return -_FAR - self.ranks[track][value] if value in self.ranks.get(track, ()) else _UNSEEN

    def of_clock(self, clock: Clock) -> Hashable:
        form = ((track, self.seen(track, value)) for track, value in clock.items())
        return frozenset(each for each in form if each[1] != _UNSEEN)


def snapshot(run: Run) -> Hashable:
    """The run's state, but for where its agents stand."""
    times = _Times(run)
    records = tuple(
        (allocation, tuple(sorted(_record_form(each, times) for each in found if not _is_over(run, each))))
        for allocation, found in sorted(run.records.items())
    )
    return (
        tuple(_agent_form(name, state, times) for name, state in run.agents.items()),
        tuple(_barrier_form(barrier, found, times) for barrier, found in sorted(run.barriers.items())),
        records,
    )


def _agent_form(name: str, state: AgentState, times: _Times) -> Hashable:
    return (
        name,
        state.running,
        state.done,
        tuple(_actors_form(actors, times) for actors in state.actors()),
        tuple((dot - state.dots, times.seen(("came", name), time)) for dot, time in state.dot_times),
        state.released,
        state.registers_fenced,
        state.mmas - state.committed > 0,
        state.dots > 0,
    )


def _actors_form(actors: Actors, times: _Times) -> Hashable:
    who, seen = actors.who, times.seen
    return (
        who,
        times.of_clock(actors.clock),
        seen(("fence", who), actors.fenced),
        seen(("copy", who), actors.copied),
        tuple(seen(("copy", who), value) for value in actors.copy_groups),
        tuple(seen(("read by store", who), value) for value in actors.store_groups),
        actors.stores_committed == actors.stores,
        actors.stores > 0,
    )


def _barrier_form(barrier: Barrier, found: BarrierState, times: _Times) -> Hashable:
    seen = times.seen
    waits = ((wait.target - found.done, wait.agent, seen(("time", wait.agent), wait.time)) for wait in found.waits)
    return (
        barrier,
        found.live,
        found.count,
        found.pending,
        found.bytes,
        (found.done - found.base) % 2,
        min(found.done - found.base, LATE),
        times.of_clock(found.gathering),
        times.of_clock(found.released),
        tuple((who, seen(("time", who), time)) for who, time in found.inits.items()),
        tuple(sorted(waits)),
        tuple(sorted((agent, seen(("time", agent), time)) for agent, time in found.users.items())),
    )


def _record_form(record: Record, times: _Times) -> tuple[Region, bool, str, str, str, int]:
    seen = times.seen(record.track, record.value)
    return record.region, record.writes, record.kind, record.who, repr(record.track), seen
