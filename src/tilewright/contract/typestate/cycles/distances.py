"""How far back does a wait lie that another wait, or a signal, comes after, at least?

Positions and counts are polynomials in the counters of the loops around the place where a role makes them (`walk`); a
distance is their least difference over the whole range of each counter and all values of the symbols. A polynomial that
is linear in each counter is least at an end of each range.

Where distances in slots have no bound, positions are taken apart (`liveness` says why that is sound): by the iteration
of a loop that roles have in common, in which each ring moves by a fixed number of slots, and the rest; by which of
several loops one after the other; by a nest of two.

Not handled: counters in higher powers (no bound). Checked by: tests/contract/typestate/test_several_rings.py and
test_ring_programs.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.contract.typestate.cycles.marked_graph import Tokens
from tilewright.contract.typestate.cycles.patterns import ALL, Patterns
from tilewright.contract.typestate.polynomial import Polynomial
from tilewright.contract.typestate.program import Kernel
from tilewright.contract.typestate.summary import WAIT, Counter, LoopEvents, RingEvent, RoleSummary
from tilewright.ir.ac import operations as ac

Node = tuple[int, str, str, int]
"""A role's number, a ring and a side on which the role waits; of a ring that is used a fixed number of times, which of
its positions (`ANY`: any)."""

ANY = -1
_FURTHEST = 4
"""Iterations, at most, between an event and what it waits for, as far as they are counted."""


@dataclass(frozen=True, slots=True)
class Dependence:
    """Event number `after_at` of `after` waits for `before_at` of `before`, both positions, as role `role` does at
    `event`, its number `place`."""

    after: Node
    before: Node
    after_at: Polynomial
    before_at: Polynomial
    role: int
    event: RingEvent
    place: int


@dataclass(frozen=True, slots=True)
class Level:
    """A loop in common. loops: by role; base, moved: by ring, its position before the loop, and how far an iteration
    moves it."""

    loops: Mapping[int, LoopEvents]
    base: Mapping[str, Polynomial]
    moved: Mapping[str, Polynomial]
    following: Level | None = None
    """The loop in common behind it. Positions from its base on are of that loop, those before of this one."""


@dataclass(frozen=True, slots=True)
class Held:
    """least: by level. rests: what the last level's are one of, or between, as polynomials; None where it is unknown.
    minima: least values of symbols wherever both events are there, sorted."""

    least: Tokens
    rests: tuple[Polynomial | None, ...] = (None,)
    minima: tuple[tuple[str, int], ...] = ()


@dataclass(slots=True)
class Distances:
    kernel: Kernel
    roles: Sequence[RoleSummary]
    patterns: Patterns
    single: frozenset[str]
    """Rings whose uses are looked at one by one."""

    # ------------------------------------------------------------ loops in common

    def options(self) -> Iterator[tuple[Level, ...]]:
        """Ways to take positions apart: not at all, by a loop in common, by a nest of two; by several loops one after
        the other (`Level.following`)."""
        yield ()
        apart = {name for op in self.kernel.operations.of(ac.UnitRangeOp) for name in (op.own.data, op.rest.data)}
        outer = dict.fromkeys(
            loop.counters[0].symbol for role in self.roles for loop in role.loops if len(loop.counters) == 1
        )
        if apart & outer.keys():
            # Units number the iterations of loops differently, so that no loop is one of all.
            return
        for symbol in outer:
            level = self._level((symbol,), ())
            if level is None:
                continue
            yield (level,)
            inner = dict.fromkeys(
                loop.counters[1].symbol
                for role in self.roles
                for loop in role.loops
                if len(loop.counters) == 2 and loop.counters[0].symbol == symbol
            )
            for second in inner:
                nested = self._level((symbol, second), (level,))
                if nested is not None:
                    yield level, nested
        sequences = {
            tuple(loop.counters[0].symbol for loop in sorted(role.loops, key=_begin) if len(loop.counters) == 1)
            for role in self.roles
            if role.loops
        }
        if len(sequences) == 1 and len(outer) > 1:
            last: Level | None = None
            for symbol in reversed(sequences.pop()):
                level = self._level((symbol,), ())
                if level is None:
                    return
                last = replace(level, following=last)
            if last is not None:
                yield (last,)

    def _level(self, symbols: tuple[str, ...], outside: tuple[Level, ...]) -> Level | None:
        """The loop over the last of these symbols, inside those over the others; None where roles have none in common,
        or do not move rings alike in it."""
        loops: dict[int, LoopEvents] = {}
        base: dict[str, Polynomial] = {}
        moved: dict[str, Polynomial] = {}
        for number, role in enumerate(self.roles):
            own = [loop for loop in role.loops if tuple(counter.symbol for counter in loop.counters) == symbols]
            if len(own) > 1:
                return None
            if not own:
                continue
            loops[number] = own[0]
            counters = {counter.name for counter in own[0].counters}
            for ring, side in role.waits:
                if ring in self.single:
                    continue
                pattern = self.patterns.get((number, ring, side), ALL)
                moves = own[0].moved.get((ring, side), Polynomial()) * pattern.apart
                begin = own[0].waited.get((ring, side), Polynomial()) * pattern.apart
                for level in outside:
                    begin = begin - level.base[ring] - level.moved[ring] * _inside(level, number, own[0].counters)
                if moves.variables & counters or begin.variables & counters or moved.setdefault(ring, moves) != moves:
                    return None
                if base.setdefault(ring, begin) != begin:
                    if not moves.terms:
                        return None
                    base[ring] = Polynomial()
        for role in self.roles:
            for ring, _ in role.waits:
                base.setdefault(ring, Polynomial())
                moved.setdefault(ring, Polynomial())
        return Level(loops, base, moved) if loops else None

    # ------------------------------------------------------------ tokens

    def tokens(self, wait: Dependence, levels: tuple[Level, ...]) -> Held:
        """What an arc holds."""
        unknown = (None,) * (len(levels) + 1 + any(level.following for level in levels))
        if ANY not in (wait.after[-1], wait.before[-1]):
            return Held((0,) * len(unknown), (Polynomial(),))
        if wait.after[-1] != ANY or wait.before[-1] != ANY:
            # Of one event and any one of many: no number of tokens elsewhere makes up for it.
            return Held(unknown)
        minima = dict(self.kernel.minima)
        for counter in wait.event.counters:
            minima[counter.symbol] = max(minima.get(counter.symbol, 0), counter.begin + 1)
        for node in (wait.after, wait.before):
            # Neither event is there unless the ring is used at all.
            role, ring, side, _ = node
            uses = self.roles[role].total(f"{WAIT}{ring}:{side}").terms
            if len(uses) == 1:
                for name in uses[0][0]:
                    minima[name] = max(minima.get(name, 0), 1)
        bounds = _Bounds(wait.event.counters, minima)
        after, before = wait.after_at, wait.before_at
        tokens: list[int | None] = []
        for first in levels:
            level = first
            if first.following is not None:
                level, place = _loop_of_least(first, wait.after[1], after, bounds)
                _, other = _loop_of_most(first, wait.before[1], before, bounds)
                tokens.append(place - other)
                if place != other:
                    return Held((*tokens, *unknown[len(tokens) :]))
            # Iterations, counted from the one that the role is in.
            now = self._iteration(level, wait)
            least, after_rest = self._least(level, wait.after[1], after, now, bounds)
            most, before_rest = self._most(level, wait.before[1], before, now, bounds)
            if least is None or most is None:
                return Held((*tokens, *unknown[len(tokens) :]))
            tokens.append(least - most)
            after, before = after_rest, before_rest
        corners = bounds.corners(after - before)
        rests = (None,) if corners is None else tuple(dict.fromkeys(corners))
        return Held((*tokens, bounds.least(after - before)), rests, tuple(sorted(minima.items())))

    def _iteration(self, level: Level, wait: Dependence) -> Polynomial:
        """-1 before the loop, as many as it has behind it."""
        loop = level.loops.get(wait.role)
        if loop is None or wait.place < loop.first:
            return Polynomial() - 1
        counter = loop.counters[-1]
        if wait.place >= loop.last:
            return counter.trips
        return Polynomial(((((counter.name,)), 1),))

    def _least(
        self, level: Level, ring: str, at: Polynomial, now: Polynomial, bounds: _Bounds
    ) -> tuple[int | None, Polynomial]:
        """How many iterations after `now` a position is in, at least, and its rest in that iteration."""
        moved, base = level.moved[ring], level.base[ring]
        if not moved.terms:
            # Used before the loop, in iteration -1, or behind it, in the last.
            behind = bounds.is_never_negative(at - base)
            return (0 if behind or now.constant == -1 else None), at - base
        if not bounds.is_never_negative(moved - 1):
            return None, at
        rest = at - base - moved * now
        for iterations in range(_FURTHEST, -_FURTHEST - 1, -1):
            if bounds.is_never_negative(rest - moved * iterations):
                return iterations, rest - moved * iterations
        return None, at

    def _most(
        self, level: Level, ring: str, at: Polynomial, now: Polynomial, bounds: _Bounds
    ) -> tuple[int | None, Polynomial]:
        moved, base = level.moved[ring], level.base[ring]
        if not moved.terms:
            if bounds.is_never_negative(base - 1 - at):
                return (0 if now.constant == -1 else -1), at - base
            # Behind the loop: no more iterations than the role has made, if all make as many.
            made = {loop.counters[-1].trips for loop in level.loops.values()}
            return (0 if made == {now} else None), at - base
        if not bounds.is_never_negative(moved - 1):
            return None, at
        rest = at - base - moved * now
        for iterations in range(-_FURTHEST, _FURTHEST + 1):
            if bounds.is_never_negative(moved * (iterations + 1) - 1 - rest):
                return iterations, rest - moved * iterations
        return None, at


def _begin(loop: LoopEvents) -> int:
    return loop.first


def _loop_of_least(first: Level, ring: str, at: Polynomial, bounds: _Bounds) -> tuple[Level, int]:
    """The last of several loops, and its number, that a position is in or before."""
    level, number = first, 0
    while (following := level.following) is not None and bounds.is_never_negative(at - following.base[ring]):
        level, number = following, number + 1
    return level, number


def _loop_of_most(first: Level, ring: str, at: Polynomial, bounds: _Bounds) -> tuple[Level, int]:
    """The first of several loops, and its number, that a position is in or behind."""
    level, number = first, 0
    while (following := level.following) is not None and not bounds.is_never_negative(following.base[ring] - 1 - at):
        level, number = following, number + 1
    return level, number


def _inside(level: Level, role: int, counters: Sequence[Counter]) -> Polynomial:
    """The iteration of an outer loop that a loop with these counters stands in."""
    loop = level.loops.get(role)
    if loop is None:
        return Polynomial() - 1
    return Polynomial((((counters[len(loop.counters) - 1].name,), 1),))


@dataclass(slots=True)
class _Bounds:
    """Least values over all iterations of the loops around and all values of the symbols. A polynomial that is linear
    in each counter is least at an end of its range."""

    counters: Sequence[Counter]
    minima: Mapping[str, int]

    def least(self, number: Polynomial) -> int | None:
        corners = self.corners(-number)
        if corners is None:
            return None
        most = [corner.most(self.minima) for corner in corners]
        known = [value for value in most if value is not None]
        return -max(known) if len(known) == len(most) else None

    def is_never_negative(self, number: Polynomial) -> bool:
        least = self.least(number)
        return least is not None and least >= 0

    def corners(self, number: Polynomial) -> list[Polynomial] | None:
        """Values at all ends of the ranges of counters; None of what is not linear in each."""
        corners: list[Polynomial] = [number]
        for counter in self.counters:
            if counter.name not in number.variables:
                continue
            if number.degree(counter.name) > 1:
                return None
            ends = (Polynomial(), counter.trips - 1)
            corners = [corner.put(counter.name, end) for corner in corners for end in ends]
        return corners
