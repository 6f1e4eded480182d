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
such loops are taken apart twice; of loops one after the other, which one an event is in comes first (`distances`).
Last, tokens may be polynomials in the symbols themselves (`symbolic_cycles`).

Edges of other kinds go along these arcs, or cannot close a circle. What `steps.split`, `steps.issue_order` and
`steps.turn` add leads from a place of a role's program to the same place, or an earlier one, of the same role in
another unit or CTA. A signal that a unit makes with the turn of issue comes after all waits up to the turn's end, in
the next iteration as well (`RingEvent.handed_on`; none follows the last). Flags (`steps.stream`, `steps.team`) are
waited for by one role, after it has set its own.

A ring that is used a fixed number of times has a node for each use, and no number of tokens makes up for a cycle
through one. A cycle that is not shown to hold a token is a doubt, with its arcs; `token_machine` shows whether roles
get there.

Not handled: a peeled iteration that visits rings in another order than its loop does, loops in common in different
nests. Checked by: tests/contract/typestate/test_ring_programs.py (every interleaving of small programs) and
test_several_rings.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from tilewright.contract.typestate.cycles.distances import ANY, Dependence, Distances, Held, Node
from tilewright.contract.typestate.cycles.marked_graph import Arc, cycle_without_token
from tilewright.contract.typestate.cycles.patterns import ALL, Patterns
from tilewright.contract.typestate.cycles.symbolic_cycles import SymbolicArc, all_hold_tokens
from tilewright.contract.typestate.polynomial import Polynomial
from tilewright.contract.typestate.program import Kernel
from tilewright.contract.typestate.summary import WAIT, RingEvent, RoleSummary, waited_also
from tilewright.ir.ac import operations as ac

_MOST_SINGLE = 32
"""Uses of a ring that are looked at one by one, at most."""


def circle_of_waits(kernel: Kernel, roles: Sequence[RoleSummary], patterns: Patterns) -> tuple[str, ...]:
    """A cycle of waits that is not shown to hold a token, one arc a line; empty if all do, and then no interleaving
    stops, for any trip count."""
    waits = list(_waits(kernel, roles, patterns))
    nodes = {
        node: number
        for number, node in enumerate(dict.fromkeys(n for wait in waits for n in (wait.after, wait.before)))
    }
    single = frozenset(ring for _, ring, _, position in nodes if position != ANY)
    distances = Distances(kernel, roles, patterns, single)
    shown: dict[Arc, Dependence] = {}
    first: tuple[Arc, ...] = ()
    tried: list[list[tuple[Dependence, Held]]] = []
    for levels in distances.options():
        held = [(wait, distances.tokens(wait, levels)) for wait in waits]
        arcs: dict[Arc, Dependence] = {}
        for wait, tokens in held:
            arcs.setdefault(Arc(nodes[wait.before], nodes[wait.after], tokens.least), wait)
        cycle = cycle_without_token(len(nodes), list(arcs))
        if not cycle:
            return ()
        first, shown = first or cycle, shown or arcs
        if not kernel.operations.of(ac.UnitRangeOp):
            # Else arcs of two units depend on a symbol that is each one's own, and do not add up.
            tried.append(held)
    for held in tried:
        symbolic = {
            SymbolicArc(nodes[wait.before], nodes[wait.after], tokens.least[:-1], rest, tokens.minima)
            for wait, tokens in held
            for rest in tokens.rests
        }
        if all_hold_tokens(symbolic):
            return ()
    return tuple(_line(roles, shown[arc]) for arc in reversed(first))


def _waits(kernel: Kernel, roles: Sequence[RoleSummary], patterns: Patterns) -> Iterator[Dependence]:
    """Every dependence, at a general iteration of the role that makes it."""
    uses = {ring: _uses(ring, roles, patterns) for ring in kernel.rings}
    for number, role in enumerate(roles):
        for place, event in ((place, seen) for place, each in enumerate(role.events) for seen in _seen(each)):
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
                    yield Dependence(after, before, at, last, number, event, place)


def _seen(event: RingEvent) -> Iterator[RingEvent]:
    """An event as it is; and in all iterations but the last, where it comes after waits of the next one."""
    yield event
    if event.handed_on:
        *around, own = event.counters
        counters = (*around, replace(own, begin=own.begin + 1))
        yield replace(event, waited=waited_also(event.waited, event.handed_on), counters=counters)


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
        return (ANY,)
    position = at.constant
    if position is None:
        return range(uses)
    return (position,) if position < uses else ()


def _line(roles: Sequence[RoleSummary], wait: Dependence) -> str:
    after, before = roles[wait.after[0]].role.name, roles[wait.before[0]].role.name
    how = {"wait": "which it does", "fill": f"which {before} fills", "release": f"which {before} releases"}
    return f"{after} waits for {_slot(wait.after)}, {how[wait.event.kind]} after it has waited for {_slot(wait.before)}"


def _slot(node: Node) -> str:
    _, ring, side, _ = node
    return f"{'an' if side == 'empty' else 'a'} {side} slot of ring {ring}"
