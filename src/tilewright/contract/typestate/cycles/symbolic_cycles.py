"""Does every cycle of an event graph hold a token, where tokens depend on the symbols of a program?

As `marked_graph`, but for the last level, whose tokens are polynomials: a ring that is read before and after another in
each tile lies K slots on one side of it, and K is any number. Polynomials have no order that holds for all values, so
every simple cycle is looked at, and its sum must be above zero wherever its events are there. Longer circles are made
of simple ones. Of arcs between two nodes those are left out beside which another holds no more tokens, and so are those
whose cycles hold tokens at an outer level.

Not handled: graphs of very many cycles (not shown). Checked by: tests/contract/typestate/test_marked_cycles.py, against
numbers put in place of the symbols.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tilewright.contract.typestate.cycles.marked_graph import Tokens
from tilewright.contract.typestate.polynomial import Polynomial

_MOST_PATHS = 20_000
"""Paths of arcs that are looked at, at most."""


@dataclass(frozen=True, slots=True)
class SymbolicArc:
    """As `marked_graph.Arc`, the last level's tokens as a polynomial (None: less than any number). minima: least values
    of symbols wherever both events are there."""

    before: int
    after: int
    outer: Tokens
    rest: Polynomial | None
    minima: tuple[tuple[str, int], ...]


def all_hold_tokens(arcs: Collection[SymbolicArc]) -> bool:
    """Whether the tokens of every simple cycle are above zero for all values of the symbols; False as well where there
    are too many cycles to look at."""
    kept = _without_outer_tokens(_fewest(arcs))
    if kept is None:
        return False
    leaving: dict[int, list[SymbolicArc]] = {}
    for arc in kept:
        leaving.setdefault(arc.before, []).append(arc)
    steps = 0
    for start in leaving:
        pending: list[tuple[SymbolicArc, ...]] = [(arc,) for arc in leaving[start]]
        while pending:
            steps += 1
            if steps > _MOST_PATHS:
                return False
            path = pending.pop()
            end = path[-1].after
            if end == start:
                if not _holds_token(path):
                    return False
            elif end > start:
                passed = {end, *(arc.before for arc in path[1:])}
                pending += [(*path, arc) for arc in leaving.get(end, ()) if arc.after not in passed]
    return True


def _without_outer_tokens(arcs: Sequence[SymbolicArc]) -> Sequence[SymbolicArc] | None:
    """The arcs whose cycles hold no tokens but at the last level; None where one may hold fewer than none before it.

    Distances from a start that leads to all nodes at no cost make each arc's length, corrected by them, no less than 0,
    and leave a cycle's as it is. So of a cycle at 0 all corrected lengths are 0, and an arc with a greater one is only
    in cycles above 0."""
    for level in range(len(arcs[0].outer) if arcs else 0):
        arcs = _in_cycles(arcs)
        if any(arc.outer[level] is None for arc in arcs):
            return None
        lengths = [(arc, arc.outer[level] or 0) for arc in arcs]
        reach = dict.fromkeys((node for arc in arcs for node in (arc.before, arc.after)), 0)
        for _ in range(len(reach) + 1):
            changed = False
            for arc, length in lengths:
                if reach[arc.before] + length < reach[arc.after]:
                    reach[arc.after], changed = reach[arc.before] + length, True
            if not changed:
                break
        else:
            return None
        arcs = [arc for arc, length in lengths if reach[arc.before] + length == reach[arc.after]]
    return _in_cycles(arcs)


def _in_cycles(arcs: Sequence[SymbolicArc]) -> list[SymbolicArc]:
    """The arcs that are in some cycle: from whose end a path leads to their beginning."""
    leaving: dict[int, set[int]] = {}
    for arc in arcs:
        leaving.setdefault(arc.before, set()).add(arc.after)
    reached: dict[int, set[int]] = {}
    for start in leaving:
        found, pending = {start}, [start]
        while pending:
            further = leaving.get(pending.pop(), set()) - found
            found |= further
            pending += further
        reached[start] = found
    return [arc for arc in arcs if arc.before in reached.get(arc.after, ())]


def _fewest(arcs: Collection[SymbolicArc]) -> list[SymbolicArc]:
    """Of arcs between two nodes those that may hold fewest tokens: where their cycles are above zero, all are."""
    between: dict[tuple[int, int], list[SymbolicArc]] = {}
    for arc in arcs:
        kept = between.setdefault((arc.before, arc.after), [])
        if not any(_holds_as_many(arc, other) for other in kept):
            kept[:] = [other for other in kept if not _holds_as_many(other, arc)]
            kept.append(arc)
    return [arc for kept in between.values() for arc in kept]


def _holds_as_many(arc: SymbolicArc, other: SymbolicArc) -> bool:
    """Whether the other is there wherever an arc is, and holds no more tokens."""
    minima = dict(arc.minima)
    if any(least > minima.get(name, 0) for name, least in other.minima):
        return False
    orders = [[(number is not None, number or 0) for number in each.outer] for each in (arc, other)]
    if orders[0] != orders[1]:
        return orders[0] > orders[1]
    if arc.rest is None or other.rest is None:
        return other.rest is None
    return (arc.rest - other.rest).is_never_negative(minima)


def _holds_token(cycle: Sequence[SymbolicArc]) -> bool:
    for level in range(len(cycle[0].outer)):
        numbers = [arc.outer[level] for arc in cycle]
        known = [number for number in numbers if number is not None]
        if len(known) < len(numbers):
            return False
        if total := sum(known):
            return total > 0
    together, minima = Polynomial() - 1, dict[str, int]()
    for arc in cycle:
        if arc.rest is None:
            return False
        together = together + arc.rest
        for name, least in arc.minima:
            minima[name] = max(least, minima.get(name, 0))
    return together.is_never_negative(minima)
