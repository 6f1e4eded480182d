"""What is known of agents, barriers and memory in the middle of a run of a structured program, and what went wrong.

A clock says, for each track, how far its owner knows the work on that track to be done; see `words.run`.
Checked by: tests/contract/words/test_structured_run.py.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewright.contract.words.word import Barrier, Part, Region, Word

if TYPE_CHECKING:
    from tilewright.contract.words.run import Run

Track = tuple[str, Hashable]
Clock = dict[Track, int]


@dataclass(frozen=True, slots=True)
class Trouble:
    """A rule that is broken: at a line, in conflict with another (0: none). exact: false where it may be due to memory
    that is told apart too coarsely."""

    code: str
    message: str
    line: int
    other: int = 0
    steps: tuple[str, ...] = ()
    exact: bool = True


@dataclass(slots=True)
class Record:
    """An access, by threads of an agent. kind: "thread", "load", "store", "dot", "mma", "copy"; it is done for a clock
    that has `value` on `track`."""

    region: Region
    writes: bool
    kind: str
    agent: str
    who: str
    track: Track
    value: int
    line: int


@dataclass(slots=True)
class WaitRecord:
    target: int
    agent: str
    time: int
    line: int


@dataclass(slots=True)
class BarrierState:
    """count: arrivals of a phase; pending: that are missing; bytes: expected and not yet brought; done: phases complete
    since the first init, base: of those before the last init; inits: who initialised it, and when."""

    count: int
    pending: int
    line: int
    inits: dict[str, int]
    done: int = 0
    base: int = 0
    bytes: int = 0
    live: bool = True
    gathering: Clock = field(default_factory=dict[Track, int])
    released: Clock = field(default_factory=dict[Track, int])
    waits: list[WaitRecord] = field(default_factory=list[WaitRecord])
    users: dict[str, int] = field(default_factory=dict[str, int])
    expect_line: int = 0
    arrive_line: int = 0
    load_line: int = 0


@dataclass(slots=True)
class Actors:
    """Threads that act together: all of an agent's, or a part of them. who: their name; clock: what each of them knows;
    several: they are more than one, so that what one has done the others know only once they have synchronized;
    fenced, copied: since when each has fenced, and how many copies each knows to be done, of its own."""

    agent: str
    who: str
    clock: Clock
    several: bool = False
    fenced: int = 0
    copied: int = 0
    copies: int = 0
    stores: int = 0
    stores_committed: int = 0
    store_line: int = 0
    store_groups: list[int] = field(default_factory=list[int])
    copy_groups: list[int] = field(default_factory=list[int])

    def published(self, time: int) -> Clock:
        """What whoever synchronizes with all of these threads learns at a time of their agent."""
        if not self.several:
            return self.clock
        own: Clock = {("time", self.who): time, ("fence", self.who): self.fenced, ("copy", self.who): self.copied}
        learned = dict(self.clock)
        join(learned, {track: value for track, value in own.items() if value})
        return learned


@dataclass(slots=True)
class AgentState:
    """acting: whose step is being done; everyone: all threads; parts: those that acted apart from the others."""

    word: Word
    everyone: Actors
    acting: Actors
    parts: dict[Part, Actors] = field(default_factory=dict[Part, Actors])
    position: int = 0
    time: int = 0
    dots: int = 0
    mmas: int = 0
    committed: int = 0
    running: bool = False
    done: bool = False
    lines: dict[str, int] = field(default_factory=dict[str, int])
    watched: list[Callable[[Run, int], None]] = field(default_factory=list["Callable[[Run, int], None]"])
    released: bool = False
    registers_fenced: bool = False
    dot_times: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    @property
    def clock(self) -> Clock:
        return self.acting.clock

    @property
    def who(self) -> str:
        return self.acting.who

    def actors(self) -> list[Actors]:
        return [self.everyone, *self.parts.values()]


def join(clock: Clock, other: Mapping[Track, int]) -> None:
    """Learn all that `other` knows."""
    for track, value in other.items():
        if clock.get(track, 0) < value:
            clock[track] = value


def barrier_name(barrier: Barrier) -> str:
    return f"{barrier[0]}[{barrier[1]}]"


def known_phases(state: AgentState, found: BarrierState, barrier: Barrier) -> int:
    """How many phases the agent knows to be complete."""
    return max(state.clock.get(("phase", barrier), 0), found.base)
