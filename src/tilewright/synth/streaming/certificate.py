"""Is what was derived right? It is checked anew, in exact arithmetic, without the rules that derived it.

Laws, for each state that is corrected, at points (values of everything its terms are computed from; an extreme R before
and R' after an iteration, with the term's own element no further out than R). g(x, R) is the product of the terms,
u(a, b) the update of the state a by the tile's part b:
- re-aim: u(g(x, R), 0) = g(x, R') for R to R': what was summed under R becomes what would have been summed under R';
- additive: u(a, b) + u(c, d) = u(a + c, b + d), u(0, b) = b and u(0, 0) = 0 whatever R and R' are: so what holds for
  one element holds for sums, and an empty state stays empty, without a NaN;
- composed: from R to R' to R'' is from R to R'';
- finish: the finished g(x, R) is the definition at x and the final results.
By induction over the elements these give the sum that the program defines, for every cut of the axis into tiles.

Whole: the streamed program and the original give equal numbers at lengths 1 to 3, cut in every way, other axes having
one element. That covers what no law sees: which state is read where, broadcasts, what was moved out of loops.

Points are finite but for elements that an extreme is taken of, which may be -inf or +inf; where a program divides by 0
the two forms may differ, and no point is such. Nor is one at which a root or a logarithm of what stays the same is no
number, as that of a sum of squares never is: then all that the program computes is none. A failure is a fault of this
compiler.
Checked by: tests/synth/streaming/test_certificate.py, which breaks derivations and sees them refuted.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial, reduce

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.ir.function import Function
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import blocks_of
from tilewright.ir.tile.reduce import ReduceOp
from tilewright.synth.streaming.derive import State, Streaming
from tilewright.synth.streaming.exact import FUNCTIONS, ONE, ZERO, Exact, exact, scrambled
from tilewright.synth.streaming.graph import Node, below, constant_of
from tilewright.synth.streaming.made_up import drawn, points
from tilewright.synth.streaming.meaning import Array, cuts, meaning

POINTS = 20
"""Of each state's laws."""
REDRAWN = 100
"""Times that a point of laws is drawn again in part, so that roots and logarithms are numbers."""
LONGEST = 3
"""Elements along the axis for which whole programs are compared."""
_LIMITED = (Function.SQRT, Function.RSQRT, Function.LOG)
"""Functions that have a value at some numbers only."""
Values = dict[Node, Exact]


@dataclass(frozen=True, slots=True)
class Broken:
    """A law that does not hold. place: the author's line of the sum."""

    law: str
    place: str
    detail: str = ""


def require(program: tile.ProgramOp, streamed: tile.ProgramOp, streaming: Streaming) -> None:
    """Raises TilewrightError if the derivation does not hold."""
    for broken in (*broken_laws(streaming), *differences(program, streamed, streaming.axis)):
        raise TilewrightError(
            f"the streamed form of the program breaks the law `{broken.law}` at {broken.place}: {broken.detail}",
            remedy="this is a fault of the compiler; please report the program",
        )


# ---------------------------------------------------------------- laws


def broken_laws(streaming: Streaming, points: int = POINTS, seed: int = 0) -> Iterator[Broken]:
    """The laws that states with corrections or factors break."""
    for state in streaming.states:
        if state.function is Function.ADD and (state.corrections or state.terms != state.definition):
            chance = random.Random(f"{seed} {state.number}")
            laws = _Laws(state, streaming.results[state.number])
            for _ in range(points):
                law = laws.broken_at(chance)
                if law:
                    yield Broken(law, state.place, "at a point of exact arithmetic")
                    break


class _Laws:
    """Of one state. What a node is computed from, in which order, is the same at every point."""

    def __init__(self, state: State, result: Node) -> None:
        self.state, self.result = state, result
        self.extremes = list(dict.fromkeys(correction.extreme for correction in state.corrections))
        self.held = {node for each in self.extremes for node in (each.update, each.old, each.final)}
        self.held |= {state.old, state.part, state.final}
        self.folded = [_folded(each) for each in self.extremes]
        roots = (*state.terms, *state.definition, state.update, result, *self.folded)
        defined = below([*state.definition, *self.folded], self._is_given)
        self.limited = [node for node in defined if node.function in _LIMITED and not self._is_given(node)]
        self.order = {root: below([root], self._is_given) for root in (*roots, *self.limited)}
        self.limited = [node for node in self.limited if self.held.isdisjoint(self.order[node])]

    def _is_given(self, node: Node) -> bool:
        return node in self.held or not _is_elementwise(node)

    def value(self, node: Node, given: Mapping[Node, Exact]) -> Exact:
        """One element of a node, from values of what it is computed from."""
        known = dict(given)
        for each in self.order[node]:
            if each not in known:
                known[each] = _applied(each, [known[operand] for operand in each.operands])
        return known[node]

    def product(self, nodes: Sequence[Node], given: Mapping[Node, Exact]) -> Exact:
        return reduce(Exact.__mul__, (self.value(node, given) for node in nodes), ONE)

    def broken_at(self, chance: random.Random) -> str:
        """The first law that the state breaks at a random point, or ""."""
        state, extremes = self.state, self.extremes
        point = self._point(chance)
        bounds = {each: self.value(node, point) for each, node in zip(extremes, self.folded, strict=True)}
        before, first, second, third = (
            {each: _beyond(bounds[each], each, chance) for each in extremes} for _ in range(4)
        )
        for each in extremes:
            ordered = sorted((first[each], second[each], third[each]), key=lambda value: value.about)
            ordered = ordered if each.function is Function.MAX else ordered[::-1]
            first[each], second[each], third[each] = ordered

        def around(old: Mapping[State, Exact], new: Mapping[State, Exact]) -> Values:
            extreme = {each.old: value for each, value in old.items()}
            return point | {each.update: value for each, value in new.items()} | extreme

        def updated(old: Exact, part: Exact, before: Mapping[State, Exact], after: Mapping[State, Exact]) -> Exact:
            return self.value(state.update, around(before, after) | {state.old: old, state.part: part})

        if not updated(ZERO, ZERO, first, second).is_zero:
            return "an empty state stays empty"
        summed = self.product(state.terms, around(before, first))
        between = updated(summed, ZERO, first, second)
        if not between.same(self.product(state.terms, around(first, second))):
            return "re-aim"
        a, b, c, d = (drawn(chance) for _ in range(4))
        if not updated(ZERO, b, first, second).same(b):
            return "additive"
        split = updated(a, b, second, third) + updated(c, d, second, third)
        if not updated(a + c, b + d, second, third).same(split):
            return "additive"
        if not updated(between, ZERO, second, third).same(updated(summed, ZERO, first, third)):
            return "composed"
        at_end = point | {each.final: value for each, value in first.items()}
        finished = self.value(self.result, at_end | {state.final: summed})
        return "" if finished.same(self.product(state.definition, at_end)) else "finish"

    def _point(self, chance: random.Random) -> Values:
        """Values of all that the laws' nodes are computed from, but for extremes. An element of an extreme may be such
        that the extreme stays at its identity."""
        roots = [*self.state.terms, *self.state.definition, self.result, *self.folded]
        empty = chance.random() < 0.2
        open_ = (node for node in below(roots, self._is_given) if self._is_given(node) and node.is_tile)
        point = {node: drawn(chance) for node in open_ if node not in self.held}
        for _ in range(REDRAWN):
            undefined = [node for node in self.limited if math.isnan(self.value(node, point).about)]
            if not undefined:
                break
            point |= {node: drawn(chance) for node in self.order[undefined[0]] if node in point}
        if empty:
            point |= {node: exact(each.initial) for each, node in zip(self.extremes, self.folded, strict=True)}
        return point


def _folded(state: State) -> Node:
    (operand,) = state.part.operands
    assert state.part.what is ReduceOp
    return operand


def _beyond(bound: Exact, extreme: State, chance: random.Random) -> Exact:
    """A value that the extreme may have when an element is at `bound`."""
    step = chance.choice((ZERO, exact(Fraction(chance.randint(1, 64), 16))))
    if math.isinf(bound.about) and chance.random() < 0.5:
        return drawn(chance)
    return bound + step if extreme.function is Function.MAX else bound - step


def _is_elementwise(node: Node) -> bool:
    return node.what in (
        tile.ConstantOp, tile.FullOp, tile.BroadcastOp, tile.TransposeOp, tile.CastOp, tile.UnaryOp, tile.BinaryOp,
        tile.SelectOp,
    )  # fmt: skip


def _applied(node: Node, operands: Sequence[Exact]) -> Exact:
    constant = constant_of(node) if node.what in (tile.ConstantOp, tile.FullOp) else None
    if constant is not None:
        return exact(constant)
    if node.what is tile.CastOp:
        (operand,) = operands
        same = node.element in (Element.F32, node.operands[0].element)
        return operand if same else scrambled(f"to {node.element.value}", operand, operand.about)
    if node.what is tile.SelectOp:
        return FUNCTIONS[Function.WHERE](*operands)
    if node.function is None:
        (operand,) = operands
        return operand
    return FUNCTIONS[node.function](*operands)


# ---------------------------------------------------------------- whole programs


def differences(
    program: tile.ProgramOp, streamed: tile.ProgramOp, axis: str, longest: int = LONGEST, seed: int = 0
) -> Iterator[Broken]:
    """Where the two programs differ at few elements, for each cut of the axis."""
    chance = random.Random(seed)
    for length in range(1, longest + 1):
        extents = {each: length if each == axis else 1 for each in program.extents if blocks_of(each) is None}
        of = partial(meaning, program, extents, cut=(length,))
        for inputs, expected in points(program, extents, chance, of):
            yield from compared(program, streamed, extents, inputs, length, expected)


def compared(
    program: tile.ProgramOp,
    streamed: tile.ProgramOp,
    extents: Mapping[str, int],
    inputs: Mapping[str, Array],
    length: int,
    expected: Mapping[str, Array] | None = None,
) -> Iterator[Broken]:
    """Where two programs store different numbers. length: of the axis along which one of them walks; expected: what the
    first stores, where that is known."""
    expected = expected or meaning(program, extents, inputs, (length,))
    for cut in cuts(length):
        actual = meaning(streamed, extents, inputs, cut)
        for name, values in expected.items():
            if not all(a is not None and a.same(b) for a, b in zip(actual[name].flat, values.flat, strict=True)):
                yield Broken("the same numbers", program.place.data, f"{name} differs for tiles of {cut}")
