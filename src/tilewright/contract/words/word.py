"""What does one agent of a structured program do, in order? Its word: protocol steps with nothing left to evaluate.

An agent is what acts as one: a partition of warps in TTGIR, a warp's lane or lanes in thread-level MLIR. Since no
agent's control flow depends on another's, a program is its agents' words, and what remains is how they meet
(`words.run`). Marks say at which step a trip of a loop begins whose number of trips the program leaves open.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

Barrier = tuple[str, int]
"""An mbarrier: the allocation and the slot in it."""

GROUPS_PENDING_MAX = 16
"""Groups that a wait may leave pending, at most."""

Box = tuple[tuple[int, int], ...]
"""A half-open range along each dimension of an allocation."""


class Piece(NamedTuple):
    """The bytes that one thread of an agent touches; threads have their numbers in the agent."""

    begin: int
    end: int
    thread: int


class Region(NamedTuple):
    """Part of an allocation, of shared memory or of tensor memory. exact: false where it may be more than what is
    touched; pieces: what is touched by thread, sorted, where that is known; `box` is around them."""

    allocation: str
    box: Box
    exact: bool = True
    tensor: bool = False
    pieces: tuple[Piece, ...] = ()


class Part(NamedTuple):
    """Some threads of an agent, who act apart from the others. members: their numbers in the agent, as bits; elected:
    one thread of each warp among them, which one is not known."""

    name: str
    members: int
    elected: bool = False

    @property
    def size(self) -> int:
        """How many threads there are."""
        if not self.elected:
            return self.members.bit_count()
        return sum(1 for warp in range(0, self.members.bit_length(), 32) if self.members >> warp & 0xFFFFFFFF)

    def within(self, other: Part) -> bool:
        """Are all of these threads among the other's?"""
        return not self.members & ~other.members and (self.elected or not other.elected)


class Step(NamedTuple):
    """One thing that an agent does.

    kind, and what `value` then is:
    "init" (arrivals), "inval", "wait" (parity), "arrive" (arrivals), "expect" (bytes; arrives once),
    "expect_only" (bytes; no arrival), "load" (bytes that complete on the barrier), "commit" (arrives once when the
    agent's tensor-core operations so far are done), "read" and "write" (by threads), "free", "dot" (an asynchronous
    wgmma group that reads `regions`), "dot_fence" (wgmma.fence), "dot_wait" (groups that may be pending), "use" (how
    many groups were issued since the one whose result is used), "mma" (reads `regions` but the last, and updates the
    last), "store" (reads), "store_commit", "store_wait" and "store_wait_read" (groups that may be pending), "copy"
    (cp.async), "copy_commit", "copy_wait" (groups that may be pending), "copy_arrive" (arrivals when the copies so far
    are done), "spawn" and "join" (agents), "fence" (towards the async proxy), "sync" (a barrier of all agents),
    "group_sync" (of the agent's own threads, `value` its number). part: the threads of the agent that act; None: all.
    """

    kind: str
    line: int
    barrier: Barrier | None = None
    value: int = 0
    regions: tuple[Region, ...] = ()
    agents: tuple[str, ...] = ()
    part: Part | None = None


class Mark(NamedTuple):
    """Before step `position`, trip `trip` begins of the loop over `symbol` that the agent enters as its `instance`th;
    ends: or the loop ends, after that many trips."""

    position: int
    symbol: Hashable
    instance: int
    trip: int
    ends: bool = False


@dataclass(slots=True)
class Word:
    """An agent's steps and marks."""

    agent: str
    steps: list[Step]
    marks: list[Mark]


@dataclass(frozen=True, slots=True)
class Symbol:
    """A number of trips that the program leaves open: the line of a loop that makes them, and how many there are at
    most, where the program's place in the grid alone is not known."""

    line: int
    most: int | None
