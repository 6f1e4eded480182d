"""In how many walks along an axis is a program computed, and what does each carry?

Theory: a sum over T stands in the first walk in which all results that it reads are known, or can be followed: a sum of
products by `factors`, an extreme by `extremes`. Where neither works it stands in the walk after, in which those results
are final. That choice is made sum by sum, each after those it reads, and gives every sum its first walk; so there are
no more walks than 1 + the largest number of edges that are not followed on a path. A value that changes along T and is
stored is computed in a walk in which all it reads is final.

A state starts as what leaves a sum or an extreme as it is: 0, -inf or +inf. While no element, or only -inf, was seen,
the largest so far is -inf, and -inf - -inf would be NaN; so the reference is 0 as long as the extreme is infinite to
that side. What the state then holds is 0, and exp(-inf - reference) = 0 corrects it. At the end the sum is aimed from
the reference at the extreme itself, by exp(reference - extreme): 1, unless no element was finite; then it is inf, and
0 inf = NaN, which is what the definition gives.

Checked by: tests/synth/streaming/test_streamed.py, and each program's derivation by `certificate`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tilewright.ir.function import Function
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.product import DOT_ELEMENTS
from tilewright.synth.streaming.affine import slope
from tilewright.synth.streaming.along_axis import AlongAxis, normal_form
from tilewright.synth.streaming.extremes import peeled, reapplied
from tilewright.synth.streaming.factors import Factored, Mixed, Moving, Reference, factored
from tilewright.synth.streaming.graph import Graph, Node, Stored, below
from tilewright.synth.streaming.scales import scales_outward

IDENTITIES = {Function.ADD: 0.0, Function.MAX: -math.inf, Function.MIN: math.inf}


@dataclass(frozen=True, slots=True)
class Correction:
    """Why a state is multiplied as its reference moves. step: the factor in each iteration, a function of the extreme
    before and after it; aim: the factor after the loop."""

    extreme: State
    step: Node
    aim: Node


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """What a walk carries of one sum. initial: of every element; old, final: the leaves that stand for it at an
    iteration's begin and after the loop; update: its value at an iteration's end, from `part`, the tile's own sum of
    the product of `terms`; corrections: why it is more than the fold of old and part. definition: what the program
    sums, of final results."""

    number: int
    walk: int
    function: Function
    initial: float
    old: Node
    final: Node
    part: Node
    update: Node
    terms: tuple[Node, ...]
    definition: tuple[Node, ...]
    corrections: tuple[Correction, ...]
    place: str


@dataclass(frozen=True, slots=True)
class Wait:
    """A sum or a store that needs a walk of its own. place: of what stands in the way."""

    what: str
    place: str
    reason: str
    walk: int


@dataclass(frozen=True, slots=True)
class Walked:
    """A store, and the walk in which it stands; None where it stands after all."""

    store: Stored
    walk: int | None


@dataclass(frozen=True, slots=True)
class Streaming:
    """A program's walks along `axis`. results: of each state's number, the value of its sum, of final states."""

    graph: Graph
    axis: str
    states: tuple[State, ...]
    results: Mapping[int, Node]
    stores: tuple[Walked, ...]
    waits: tuple[Wait, ...]

    @property
    def walks(self) -> int:
        numbers = [state.walk for state in self.states]
        numbers += [store.walk for store in self.stores if store.walk is not None]
        return 1 + max(numbers, default=-1)


@dataclass(slots=True)
class _Deriver:
    graph: Graph
    along: AlongAxis
    states: list[State] = field(default_factory=list[State])
    plain: dict[Node, State] = field(default_factory=dict[Node, State])
    """Sums whose running result is the state itself."""
    results: dict[Node, Node] = field(default_factory=dict[Node, Node])
    """Of each sum: its value after the loop, of final states."""
    walk_of: dict[Node, int] = field(default_factory=dict[Node, int])
    finished: dict[int, Node] = field(default_factory=dict[int, Node])
    """Of each state's number, the value of its sum."""
    waits: list[Wait] = field(default_factory=list[Wait])

    # -------------------------------------------------------- what sums read

    def reads(self, roots: Sequence[Node]) -> list[Node]:
        """The sums over the axis that the roots are computed from at once."""
        found = below(roots, self.is_sum)
        return [node for node in found if self.is_sum(node)]

    def is_sum(self, node: Node) -> bool:
        return node.is_sum and node.axis == self.along.axis

    def final(self, node: Node) -> Node:
        """`node` with every sum that is derived in place of its definition."""
        return self.graph.replaced(node, self.results)

    # -------------------------------------------------------- sums

    def derive(self, node: Node) -> None:
        """Give a sum its walk and its state; those it reads have theirs."""
        if node in self.results:
            return
        needed = self.reads(node.operands)
        walk = max((self.walk_of[each] for each in needed), default=0)
        running = [each for each in needed if self.walk_of[each] == walk]
        if running:
            try:
                self._follow(node, walk, running)
                return
            except Mixed as reason:
                walk += 1
                self.waits.append(Wait(_named(node), reason.place or node.place, reason.reason, walk))
        self._plain(node, node, walk)

    def _plain(self, node: Node, over: Node, walk: int) -> State:
        """A sum that reads nothing that moves. over: the same, whose operands are replaced here."""
        operands = [self.final(operand) for operand in over.operands]
        state = self._state(over, operands, walk, ())
        self.plain[node] = state
        self.results[node] = self.finished[state.number] = state.final
        self.walk_of[node] = walk
        return state

    def _follow(self, node: Node, walk: int, running: Sequence[Node]) -> None:
        moving = self._moving(running)
        known = {each: result if self.walk_of[each] < walk else each for each, result in self.results.items()}
        operands = [self.graph.replaced(operand, known) for operand in node.operands]
        if node.function not in (None, Function.ADD):
            self._follow_extreme(node, operands[0], walk, moving)
            return
        parts = [factored(operand, moving) for operand in operands]
        references = [reference for part in parts for reference in part.references]
        guards = {each.followed: self._guard(each, "update") for each in references}
        inner = [self.graph.replaced(part.inner, guards) for part in parts]
        corrections = [self._correction(reference, node) for reference in references]
        state = self._state(node, inner, walk, corrections)
        self.results[node] = self.finished[state.number] = self._finish(node, state, parts, corrections)
        self.walk_of[node] = walk

    def _follow_extreme(self, node: Node, operand: Node, walk: int, moving: Moving) -> None:
        assert node.function is not None
        found = peeled(operand, node.function, moving)
        folded = self.graph.reduce(found.function, found.folded, self.along.axis, node.place)
        if folded not in self.results:
            self._plain(folded, folded, walk)
        try:
            value = reapplied(self.graph, found, folded, moving)
        except ValueError:
            raise Mixed("a broadcast that also permutes its axes", node.place) from None
        self.results[node] = self.final(value)
        self.walk_of[node] = max(walk, self.walk_of[folded])

    def _moving(self, running: Sequence[Node]) -> Moving:
        known: dict[Node, bool] = dict.fromkeys(running, True)

        def moves(node: Node) -> bool:
            for each in below([node], known.__contains__):
                if each not in known:
                    known[each] = not self.is_sum(each) and any(known[operand] for operand in each.operands)
            return known[node]

        return Moving(self.graph, self.along, moves, lambda node: known.get(node, False) and node in self.plain)

    # -------------------------------------------------------- states

    def _state(self, node: Node, operands: Sequence[Node], walk: int, corrections: Sequence[Correction]) -> State:
        graph, number, place = self.graph, len(self.states), node.place
        old = graph.leaf("carried", number, node.type, place)
        function = node.function or Function.ADD
        if node.what is ContractOp:
            left, right = operands
            part = graph.contract(*_narrowed(left, right), node.axis, node.axes, place)
        else:
            part = graph.reduce(function, operands[0], node.axis, place)
        corrected = old
        for each in corrections:
            corrected = graph.binary(Function.MUL, corrected, self._spread(each.step, node), place)
        update = graph.binary(function, corrected, part, place)
        final = graph.leaf("final", number, node.type, place)
        definition = tuple(self.final(operand) for operand in node.operands)
        state = State(
            number,
            walk,
            function,
            IDENTITIES[function],
            old,
            final,
            part,
            update,
            tuple(operands),
            definition,
            tuple(corrections),
            place,
        )
        self.states.append(state)
        return state

    def _spread(self, node: Node, like: Node) -> Node:
        try:
            return self.graph.broadcast(node, like.axes, like.place)
        except ValueError:
            raise Mixed("a broadcast that also permutes its axes", like.place) from None

    def _followed(self, reference: Reference, when: Literal["old", "update", "final"]) -> Node:
        """What is followed, of the extreme before an iteration, after it or after the loop."""
        extreme = self.plain[reference.extreme]
        now = {"old": extreme.old, "update": extreme.update, "final": extreme.final}[when]
        return self.graph.replaced(reference.followed, {reference.extreme: now})

    def _guard(self, reference: Reference, when: Literal["update", "final"]) -> Node:
        """The reference: what is followed, and 0 while that is the identity of the extreme's fold."""
        graph, value = self.graph, self._followed(reference, when)
        empty = graph.constant_like(self.plain[reference.extreme].initial, value)
        zero = graph.constant_like(0.0, value)
        return graph.select(graph.binary(Function.EQ, value, empty, value.place), zero, value, value.place)

    def _correction(self, reference: Reference, node: Node) -> Correction:
        graph, argument = self.graph, reference.argument
        old, final = self._followed(reference, "old"), self._followed(reference, "final")
        moved = graph.binary(Function.SUB, self._guard(reference, "update"), old, node.place)
        aimed = graph.binary(Function.SUB, final, self._guard(reference, "final"), node.place)
        step, aim = (
            graph.unary(Function.EXP, slope(graph, argument, reference.followed, each), argument.place)
            for each in (moved, aimed)
        )
        return Correction(self.plain[reference.extreme], step, aim)

    def _finish(self, node: Node, state: State, parts: Sequence[Factored], corrections: Sequence[Correction]) -> Node:
        """The sum's value: what the state holds at the end, aimed at the final references and times the factors."""
        graph, place = self.graph, node.place
        over = [self.final(factor) for part in parts for factor in part.over]
        under = [self.final(factor) for part in parts for factor in part.under]
        aims = [correction.aim for correction in corrections]
        value = state.final
        # An aim is 1 or inf, so that it may as well meet another factor first, which has fewer elements than the sum.
        if under and aims:
            under[-1] = self._times(Function.DIV, under[-1], aims, node)
            aims = []
        elif over and aims:
            over[-1] = self._times(Function.MUL, over[-1], aims, node)
            aims = []
        for factor in (*over, *aims):
            value = graph.binary(Function.MUL, value, self._spread(factor, node), place)
        for factor in under:
            value = graph.binary(Function.DIV, value, self._spread(factor, node), place)
        return value

    def _times(self, function: Function, value: Node, factors: Sequence[Node], like: Node) -> Node:
        graph = self.graph
        for factor in factors:
            order = [axis for axis in like.axes if axis in {*value.axes, *factor.axes}]
            if not {*value.axes, *factor.axes} <= set(order):
                order = list(like.axes)
            left, right = (graph.broadcast(each, order, like.place) for each in (value, factor))
            value = graph.binary(function, left, right, like.place)
        return value

    # -------------------------------------------------------- stores

    def store(self, stored: Stored) -> Walked:
        """The walk of a store: one in which what it reads is final."""
        needed = self.reads([stored.value])
        value = self.final(stored.value)
        final = Stored(value, stored.tensor, stored.indices, stored.place)
        if not self.along.has(stored.value):
            return Walked(final, None)
        walk = 1 + max((self.walk_of[each] for each in needed), default=-1)
        if walk:
            reason = f"it is stored along {self.along.axis}"
            self.waits.append(Wait("what is stored", stored.place, reason, walk))
        return Walked(final, walk)


def derived(graph: Graph, stored: Sequence[Stored], axis: str) -> Streaming:
    """The walks along `axis` of a program that stores `stored`."""
    along = AlongAxis(axis)
    outward = scales_outward(graph, [each.value for each in stored])
    normal = normal_form(graph, [outward[each.value] for each in stored], along)
    stored = [Stored(normal[outward[each.value]], each.tensor, each.indices, each.place) for each in stored]
    deriver = _Deriver(graph, along)
    for node in below([each.value for each in stored]):
        if deriver.is_sum(node):
            deriver.derive(node)
    stores = tuple(deriver.store(each) for each in stored)
    states = tuple(_needed(deriver.states, stores))
    return Streaming(graph, axis, states, dict(deriver.finished), stores, tuple(deriver.waits))


def _needed(states: Sequence[State], stores: Sequence[Walked]) -> Iterator[State]:
    """The states that a store reads, or a state that one reads."""
    leaves: Mapping[Node, State] = {leaf: state for state in states for leaf in (state.old, state.final)}
    wanted: set[State] = set()
    roots = [store.store.value for store in stores]
    while roots:
        found = {leaves[node] for node in below(roots) if node in leaves} - wanted
        wanted |= found
        roots = [state.update for state in found]
    return (state for state in states if state in wanted)


def _narrowed(left: Node, right: Node) -> tuple[Node, Node]:
    """A product's operands, without a widening that its rounding to the other's element undoes."""

    def narrow(each: Node, other: Node) -> Node:
        if each.what is tile.CastOp and other.element in DOT_ELEMENTS and each.operands[0].element is other.element:
            return each.operands[0]
        return each

    return narrow(left, right), narrow(right, left)


def _named(node: Node) -> str:
    return "the product" if node.what is ContractOp else f"the reduction by {(node.function or Function.ADD).value}"
