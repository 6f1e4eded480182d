"""Can a marked graph stop forever, and how fast can it run?

Theory: Commoner, Holt, Even and Pnueli, "Marked Directed Graphs" (1971): a marked graph is live exactly if every
directed cycle carries a token. Its steady rate (Reiter 1968) is bounded by the cycle with the largest ratio of time to
tokens. That cycle is found exactly, by raising a guess of the ratio to that of any cycle which exceeds it: each step
finds a better simple cycle, so it ends, and no fraction is ever rounded.

Nodes are numbers from 0. Not handled: places of several inputs or outputs. Checked by:
tests/solve/scheduling/test_marked_graph.py, against all cycles of small random graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Arc:
    """target of turn i begins no earlier than `time` after the start of source of turn i - tokens. tokens may be
    negative where an arc only bounds times; a marked graph's are not."""

    source: int
    target: int
    time: int
    tokens: int


@dataclass(frozen=True, slots=True)
class CriticalCycle:
    """ratio: time over tokens, exactly; nodes in the order of the cycle."""

    ratio: Fraction
    nodes: tuple[int, ...]


def cycle_without_token(count: int, arcs: Sequence[Arc]) -> tuple[int, ...]:
    """Nodes of a cycle whose arcs carry no token, in order: its tasks wait for one another forever. Empty if there is
    none, and then the graph is live."""
    following: list[list[int]] = [[] for _ in range(count)]
    for arc in arcs:
        if arc.tokens <= 0:
            following[arc.source].append(arc.target)
    state = [0] * count  # 0 unseen, 1 on the path, 2 done
    for root in range(count):
        if state[root]:
            continue
        path, pending = [root], [iter(following[root])]
        state[root] = 1
        while pending:
            target = next(pending[-1], None)
            if target is None:
                pending.pop()
                state[path.pop()] = 2
            elif state[target] == 1:
                return tuple(path[path.index(target) :])
            elif state[target] == 0:
                state[target] = 1
                path.append(target)
                pending.append(iter(following[target]))
    return ()


def critical_cycle(count: int, arcs: Sequence[Arc]) -> CriticalCycle | None:
    """The cycle that bounds the interval; None where there is no cycle. Raises ValueError for a cycle without a token
    that takes time: no interval is long enough."""
    best: CriticalCycle | None = None
    # Above every simple cycle without time there is none to find: begin just below zero, so that such a cycle counts.
    guess = Fraction(-1)
    while True:
        nodes = _cycle_above(count, arcs, guess)
        if not nodes:
            return best
        time, tokens = _sums(arcs, nodes, guess)
        if tokens <= 0:
            raise ValueError(f"the cycle {nodes} takes {time} cycles and carries {tokens} tokens")
        guess = Fraction(time, tokens)
        best = CriticalCycle(guess, nodes)


def _cycle_above(count: int, arcs: Sequence[Arc], ratio: Fraction) -> tuple[int, ...]:
    """A cycle whose time exceeds `ratio` times its tokens, by Bellman and Ford on longest paths."""
    scale = ratio.denominator
    lengths = [scale * arc.time - ratio.numerator * arc.tokens for arc in arcs]
    reach = [0] * count
    parent = [-1] * count
    changed = -1
    for _ in range(count):
        changed = -1
        for arc, length in zip(arcs, lengths, strict=True):
            if reach[arc.source] + length > reach[arc.target]:
                reach[arc.target] = reach[arc.source] + length
                parent[arc.target] = arc.source
                changed = arc.target
        if changed < 0:
            return ()
    node = changed
    for _ in range(count):  # from the last change back, so far that it is on the cycle
        node = parent[node]
    nodes = [node]
    while parent[nodes[-1]] != node:
        nodes.append(parent[nodes[-1]])
    return tuple(reversed(nodes))


def _sums(arcs: Sequence[Arc], nodes: tuple[int, ...], ratio: Fraction) -> tuple[int, int]:
    """(time, tokens) of the cycle, by the arc that binds most where there are several."""
    time = tokens = 0
    for source, target in zip(nodes, (*nodes[1:], nodes[0]), strict=True):
        arc = max(
            (arc for arc in arcs if (arc.source, arc.target) == (source, target)),
            key=lambda arc: arc.time - ratio * arc.tokens,
        )
        time, tokens = time + arc.time, tokens + arc.tokens
    return time, tokens


def earliest_starts(count: int, arcs: Sequence[Arc], interval: int) -> list[int] | None:
    """Least starts from 0 on under all arcs at that interval; None where the interval is too short for a cycle."""
    starts = [0] * count
    for _ in range(count + 1):
        changed = False
        for arc in arcs:
            bound = starts[arc.source] + arc.time - arc.tokens * interval
            if bound > starts[arc.target]:
                starts[arc.target], changed = bound, True
        if not changed:
            return starts
    return None
