"""Can waits on rings ever go round in a circle, for any trip count?

What a wait waits for: everything that its unit does before it, and the signals that complete its phase, with all that
their units do before them. If no wait so reaches itself, no unit is stuck forever: of a stuck one, one of those that it
waits for is stuck as well, and so on round.

The event graph has a node for each role and side of a ring on which it waits: wait number i of it is an event. Units of
one role, and CTAs of one cluster, do the same, so their events are mapped to one node; a circle of theirs is one of
roles. From each wait and each signal of a role an arc leads to what the role waited for last on each of its rings. Its
tokens are how much further back, in slots, that wait lies than the one that depends on it: of a filler that prepares
`ahead` slots before it fills one and a reader that holds `held` slots, in a ring of S, the circle has
S - ahead - held tokens. Positions and counts are polynomials in the same loop counters (`walk`), and the least number
of tokens is found over the whole range of each. Round a circle of events the distances add up to zero, so there is none
if every cycle holds a token (`marked_graph`).

Rings that move at different speeds (one slot a tile beside one a slice), or one after the other in each tile, have no
such distance in slots alone. Then positions are taken apart: iteration of a loop that roles have in common, and rest.
A ring that moves by n slots in each iteration has position p in iteration floor(p / n). Tokens are (iterations, rest),
compared in this order. A circle's iterations add up to zero; where each arc's are the least it can have, the rest is
given by the same polynomials, and adds up to zero as well. So again every cycle has to be above zero. Nests of two
such loops are taken apart twice.

Edges of other kinds go along these arcs, or cannot close a circle: what `steps.split`, `steps.issue_order` and
`steps.turn` add leads from a place of a role's program to the same place, or an earlier one, of the same role in another
unit or CTA; flags (`steps.stream`, `steps.team`) are waited for by one role, after it has set its own.

A ring that is used a fixed number of times has a node for each use, and no number of tokens makes up for a cycle
through one. A cycle that is not shown to hold a token is a doubt, with its arcs; `token_machine` shows whether roles get
there.

Not handled: a peeled iteration that visits rings in another order than its loop does, loops in common in different
nests. Checked by: tests/contract/typestate/test_ring_programs.py (every interleaving of small programs) and
test_several_rings.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from tilewright.contract.typestate.marked_graph import Arc, Tokens, cycle_without_token
from tilewright.contract.typestate.patterns import ALL, Patterns
from tilewright.contract.typestate.polynomial import Polynomial
from tilewright.contract.typestate.program import Kernel
from tilewright.contract.typestate.summary import WAIT, Counter, LoopEvents, RingEvent, RoleSummary

Node = tuple[int, str, str, int]
"""A role's number, a ring and a side on which the role waits; of a ring that is used a fixed number of times, which of
its positions (-1: any)."""

_ANY = -1
_FURTHEST = 4
"""Iterations, at most, between an event and what it waits for, as far as they are told apart."""
_MOST_SINGLE = 32
"""Uses of a ring that are looked at one by one, at most."""


@dataclass(frozen=True, slots=True)
class _Wait:
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
class _Level:
    """A loop in common. loops: by role; base, moved: by ring, its position before the loop, and how far an iteration
    moves it."""

    loops: Mapping[int, LoopEvents]
    base: Mapping[str, Polynomial]
    moved: Mapping[str, Polynomial]


def circle_of_waits(kernel: Kernel, roles: Sequence[RoleSummary], patterns: Patterns) -> tuple[str, ...]:
    """A cycle of waits that is not shown to hold a token, one arc a line; empty if all do, and then no interleaving
    stops, for any trip count."""
    waits = list(_waits(kernel, roles, patterns))
    nodes = list(dict.fromkeys(node for wait in waits for node in (wait.after, wait.before)))
    single = frozenset(node[1] for node in nodes if node[-1] != _ANY)
    graph = _Graph(kernel, roles, patterns, {node: number for number, node in enumerate(nodes)}, single)
    first: tuple[Arc, ...] = ()
    found: Mapping[Arc, _Wait] = {}
    for levels in graph.options():
        arcs: dict[Arc, _Wait] = {}
        for wait in waits:
            tokens = graph.tokens(wait, levels)
            arcs.setdefault(Arc(graph.numbers[wait.before], graph.numbers[wait.after], tokens), wait)
        cycle = cycle_without_token(len(nodes), list(arcs))
        if not cycle:
            return ()
        first, found = first or cycle, found or arcs
    return tuple(_line(roles, found[arc]) for arc in reversed(first))


def _waits(kernel: Kernel, roles: Sequence[RoleSummary], patterns: Patterns) -> Iterator[_Wait]:
    """Every dependence, at a general iteration of the role that makes it."""
    uses = {ring: _uses(ring, roles, patterns) for ring in kernel.rings}
    for number, role in enumerate(roles):
        for place, event in enumerate(role.events):
            at, ring = event.position, event.ring
            if event.kind == "wait":
                dependent, side = [number], event.side
            else:
                side = "full" if event.kind == "fill" else "empty"
                dependent = [other for other, another in enumerate(roles) if (ring, side) in another.waits]
                if event.kind == "release":
                    at = at + kernel.rings[ring].stages
            for before_ring, before_side in role.waits:
                waited = event.waited.get((before_ring, before_side), Polynomial())
                if waited.constant == 0:
                    continue  # nothing yet
                last = patterns.get((number, before_ring, before_side), ALL).position(waited - 1)
                positions = product(dependent, _single(at, uses[ring]), _single(last, uses[before_ring]))
                for other, after_at, before_at in positions:
                    after, before = (other, ring, side, after_at), (number, before_ring, before_side, before_at)
                    yield _Wait(after, before, at, last, number, event, place)


def _uses(ring: str, roles: Sequence[RoleSummary], patterns: Patterns) -> int | None:
    """How often a ring is used, where that is a number and small."""
    counts = {
        (role.total(f"{WAIT}{ring}:{side}") * patterns.get((number, ring, side), ALL).apart).constant
        for number, role in enumerate(roles)
        for name, side in role.waits
        if name == ring
    }
    count = counts.pop() if len(counts) == 1 else None
    return count if count is not None and count <= _MOST_SINGLE else None


def _single(at: Polynomial, uses: int | None) -> Sequence[int]:
    """The positions that one may be, of a ring that is used so often; none where the ring is not used so often."""
    if uses is None:
        return (_ANY,)
    position = at.constant
    if position is None:
        return range(uses)
    return (position,) if position < uses else ()


def _line(roles: Sequence[RoleSummary], wait: _Wait) -> str:
    after, before = roles[wait.after[0]].role.name, roles[wait.before[0]].role.name
    how = {"wait": "which it does", "fill": f"which {before} fills", "release": f"which {before} releases"}
    return f"{after} waits for {_slot(wait.after)}, {how[wait.event.kind]} after it has waited for {_slot(wait.before)}"


def _slot(node: Node) -> str:
    _, ring, side, _ = node
    return f"{'an' if side == 'empty' else 'a'} {side} slot of ring {ring}"


@dataclass(slots=True)
class _Graph:
    kernel: Kernel
    roles: Sequence[RoleSummary]
    patterns: Patterns
    numbers: Mapping[Node, int]
    single: frozenset[str]
    """Rings whose uses are looked at one by one."""

    # ------------------------------------------------------------ loops in common

    def options(self) -> Iterator[tuple[_Level, ...]]:
        """Ways to take positions apart: not at all, by a loop in common, by a nest of two."""
        yield ()
        outer = dict.fromkeys(
            loop.counters[0].symbol for role in self.roles for loop in role.loops if len(loop.counters) == 1
        )
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

    def _level(self, symbols: tuple[str, ...], outside: tuple[_Level, ...]) -> _Level | None:
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
        return _Level(loops, base, moved) if loops else None

    # ------------------------------------------------------------ tokens

    def tokens(self, wait: _Wait, levels: tuple[_Level, ...]) -> Tokens:
        """The least that an arc holds, by level."""
        if _ANY not in (wait.after[-1], wait.before[-1]):
            return (0,) * (len(levels) + 1)
        if wait.after[-1] != _ANY or wait.before[-1] != _ANY:
            # Of one event and any one of many: no number of tokens elsewhere makes up for it.
            return (None,) * (len(levels) + 1)
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
        for level in levels:
            # Iterations, counted from the one that the role is in.
            now = self._iteration(level, wait)
            least, after_rest = self._least(level, wait.after[1], after, now, bounds)
            most, before_rest = self._most(level, wait.before[1], before, now, bounds)
            if least is None or most is None:
                return (*tokens, *([None] * (len(levels) + 1 - len(tokens))))
            tokens.append(least - most)
            after, before = after_rest, before_rest
        tokens.append(bounds.least(after - before))
        return tuple(tokens)

    def _iteration(self, level: _Level, wait: _Wait) -> Polynomial:
        """-1 before the loop, as many as it has behind it."""
        loop = level.loops.get(wait.role)
        if loop is None or wait.place < loop.first:
            return Polynomial() - 1
        counter = loop.counters[-1]
        if wait.place >= loop.last:
            return counter.trips
        return Polynomial(((((counter.name,)), 1),))

    def _least(
        self, level: _Level, ring: str, at: Polynomial, now: Polynomial, bounds: _Bounds
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
        self, level: _Level, ring: str, at: Polynomial, now: Polynomial, bounds: _Bounds
    ) -> tuple[int | None, Polynomial]:
        moved, base = level.moved[ring], level.base[ring]
        if not moved.terms:
            if bounds.is_never_negative(base - 1 - at):
                return (0 if now.constant == -1 else -1), at - base
            return None, at
        if not bounds.is_never_negative(moved - 1):
            return None, at
        rest = at - base - moved * now
        for iterations in range(-_FURTHEST, _FURTHEST + 1):
            if bounds.is_never_negative(moved * (iterations + 1) - 1 - rest):
                return iterations, rest - moved * iterations
        return None, at


def _inside(level: _Level, role: int, counters: Sequence[Counter]) -> Polynomial:
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
        corners = self._corners(-number)
        if corners is None:
            return None
        most = [corner.most(self.minima) for corner in corners]
        known = [value for value in most if value is not None]
        return -max(known) if len(known) == len(most) else None

    def is_never_negative(self, number: Polynomial) -> bool:
        least = self.least(number)
        return least is not None and least >= 0

    def _corners(self, number: Polynomial) -> list[Polynomial] | None:
        corners: list[Polynomial] = [number]
        for counter in self.counters:
            if counter.name not in number.variables:
                continue
            if number.degree(counter.name) > 1:
                return None
            ends = (Polynomial(), counter.trips - 1)
            corners = [corner.put(counter.name, end) for corner in corners for end in ends]
        return corners
