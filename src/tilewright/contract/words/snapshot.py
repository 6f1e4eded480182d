"""Is a run of words in the same state as before? A state's canonical form, without the agents' positions.

Times and counts stand as what they are compared by: distances where waits count groups or phases, else their order
among the values that can still be compared; what everybody knows to be done, and what is older than anything that can
be compared, is left out. Runs from equal canonical states with equal words ahead do the same, and are judged the same.
Checked by: tests/contract/words/test_structured_run.py.
"""

from __future__ import annotations

from collections.abc import Hashable

from tilewright.contract.words.run import Run
from tilewright.contract.words.state import Actors, Clock, Record, Track
from tilewright.contract.words.word import GROUPS_PENDING_MAX

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


def snapshot(run: Run) -> Hashable:
    """Times and counts as what they are compared by: in order on each track, and no older than anything that can still
    be compared with them."""
    ahead: dict[Track, int] = {}
    oldest: dict[Track, int] = {}
    values: dict[Track, set[int]] = {}

    def compared(track: Track, value: int) -> None:
        if oldest.get(track, value + 1) > value:
            oldest[track] = value
        values.setdefault(track, set()).add(value)

    for name, state in run.agents.items():
        for _, time in state.dot_times:
            compared(("came", name), time)
        ahead["dot", name] = state.dots
        ahead["mma", name] = state.mmas
        for actors in state.actors():
            who = actors.who
            ahead["time", who] = ahead["fence", who] = ahead["came", who] = state.time
            ahead["read by store", who] = actors.stores
            ahead["copy", who] = actors.copies
            for value in (*actors.copy_groups, actors.copied):
                compared(("copy", who), value)
            for value in actors.store_groups:
                compared(("read by store", who), value)
            compared(("fence", who), actors.fenced)
    for barrier, found in run.barriers.items():
        ahead["phase", barrier] = found.done
        for who, time in found.inits.items():
            compared(("time", who), time)
        for wait in found.waits:
            compared(("time", wait.agent), wait.time)
            compared(("came", wait.agent), wait.time)
        for agent, time in found.users.items():
            compared(("time", agent), time)
    for records in run.records.values():
        for record in records:
            if not _is_over(run, record):
                compared(record.track, record.value)
                if run.by_threads and record.kind == "thread":
                    compared(("fence", record.who), record.value)
    clocks = [actors.clock for state in run.agents.values() for actors in state.actors()]
    for found in run.barriers.values():
        clocks += [found.gathering, found.released]
    for clock in clocks:
        for track, value in clock.items():
            if value >= oldest.get(track, value + 1):
                values[track].add(value)
    ranks = {
        track: {value: rank for rank, value in enumerate(sorted(known, reverse=True))}
        for track, known in values.items()
    }

    def seen(track: Track, value: int) -> int:
        """A value on a track as what matters of it: how far it is behind, where that is counted; else its order among
        the values that are left to compare."""
        behind = ahead[track] - value
        if behind <= _COUNTED.get(track[0], 0):
            return -behind
        return -_FAR - ranks[track][value] if value in ranks.get(track, ()) else _UNSEEN

    def clock_form(clock: Clock) -> Hashable:
        form = ((track, seen(track, value)) for track, value in clock.items())
        return frozenset(each for each in form if each[1] != _UNSEEN)

    def actors_form(actors: Actors) -> Hashable:
        who = actors.who
        return (
            who,
            clock_form(actors.clock),
            seen(("fence", who), actors.fenced),
            seen(("copy", who), actors.copied),
            tuple(seen(("copy", who), value) for value in actors.copy_groups),
            tuple(seen(("read by store", who), value) for value in actors.store_groups),
            actors.stores_committed == actors.stores,
            actors.stores > 0,
        )

    agents = tuple(
        (
            name,
            state.running,
            state.done,
            tuple(actors_form(actors) for actors in state.actors()),
            tuple((dot - state.dots, seen(("came", name), time)) for dot, time in state.dot_times),
            state.released,
            state.registers_fenced,
            state.mmas - state.committed > 0,
            state.dots > 0,
        )
        for name, state in run.agents.items()
    )
    barriers = tuple(
        (
            barrier,
            found.live,
            found.count,
            found.pending,
            found.bytes,
            (found.done - found.base) % 2,
            min(found.done - found.base, LATE),
            clock_form(found.gathering),
            clock_form(found.released),
            tuple((who, seen(("time", who), time)) for who, time in found.inits.items()),
            tuple(
                sorted(
                    (wait.target - found.done, wait.agent, seen(("time", wait.agent), wait.time))
                    for wait in found.waits
                )
            ),
            tuple(sorted((agent, seen(("time", agent), time)) for agent, time in found.users.items())),
        )
        for barrier, found in sorted(run.barriers.items())
    )
    records = tuple(
        (
            allocation,
            tuple(
                sorted(
                    (each.region, each.writes, each.kind, each.who, repr(each.track), seen(each.track, each.value))
                    for each in found
                    if not _is_over(run, each)
                )
            ),
        )
        for allocation, found in sorted(run.records.items())
    )
    return agents, barriers, records
