"""Is there a cycle in an event graph that carries no token?

Theory: Commoner, Holt, Even and Pnueli, "Marked Directed Graphs" (1971): a marked graph is live exactly if every
directed cycle carries a token. Here tokens are vectors, compared lexicographically: iterations of an outer loop first,
then slots. A cycle's sum is zero for events that wait for one another, so it is enough that every cycle's tokens are
above zero. Vectors of integers under this order add up as numbers do, hence shortest paths (Bellman and Ford) find a
cycle that is not above zero, if there is one. An arc whose distance has no bound holds less than any number of tokens.

Shares no code with `solve.scheduling.marked_graph`, which serves the schedules that are judged here.
Checked by: tests/contract/typestate/test_marked_cycles.py, against all cycles of small random graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Tokens = tuple[int | None, ...]
"""By level, outermost first; None: less than any number."""


@dataclass(frozen=True, slots=True)
class Arc:
    """Event number i of `after` waits for an event of `before` that is `tokens` or more back."""

    before: int
    after: int
    tokens: Tokens


def cycle_without_token(count: int, arcs: Sequence[Arc]) -> tuple[Arc, ...]:
    """Arcs of a cycle whose tokens are not above zero, each leading to the next; empty if there is none. All arcs have
    as many levels. Nodes are numbers below `count`."""
    if not arcs:
        return ()
    levels = len(arcs[0].tokens)
    # Of the arcs between two nodes the one with the fewest tokens decides.
    weights = {arc: weight for arc, weight in zip(arcs, _finite(arcs, levels, count), strict=True)}
    fewest: dict[tuple[int, int], Arc] = {}
    for arc in arcs:
        known = fewest.get((arc.before, arc.after))
        if known is None or weights[arc] < weights[known]:
            fewest[arc.before, arc.after] = arc
    # One more level, which every arc lowers: cycles at zero sum up to less than zero, those above stay above.
    reach = [(0,) * (levels + 1)] * count
    into: list[Arc | None] = [None] * count
    changed: int | None = None
    for _ in range(count + 1):
        changed = None
        for arc in fewest.values():
            length = tuple(one + other for one, other in zip(reach[arc.before], (*weights[arc], -1), strict=True))
            if length < reach[arc.after]:
                reach[arc.after], into[arc.after], changed = length, arc, arc.after
        if changed is None:
            return ()
    return _cycle_behind(changed, into, count)


def _finite(arcs: Sequence[Arc], levels: int, count: int) -> list[tuple[int, ...]]:
    """Tokens with a number for None that no cycle can make up for."""
    least: list[int] = []
    for level in range(levels):
        sizes = [abs(number) for arc in arcs if (number := arc.tokens[level]) is not None]
        least.append(-(count + 1) * (1 + max(sizes, default=0)))
    return [
        tuple(least[level] if number is None else number for level, number in enumerate(arc.tokens)) for arc in arcs
    ]


def _cycle_behind(node: int | None, into: Sequence[Arc | None], count: int) -> tuple[Arc, ...]:
    """The cycle that is reached going back from a node whose path still became shorter."""
    for _ in range(count):
        arc = into[node] if node is not None else None
        assert arc is not None, "a path that still becomes shorter comes from a cycle"
        node = arc.before
    cycle: list[Arc] = []
    start = node
    while not cycle or node != start:
        arc = into[node] if node is not None else None
        assert arc is not None
        cycle.append(arc)
        node = arc.before
    return tuple(reversed(cycle))
