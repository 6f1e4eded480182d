"""What is one element of a sum, as a factor that stays in the loop times factors that do not change along it?

Theory: let d be results of the walk that is under way, x what changes along the axis. A sum of f(x, d) can be kept
while d still moves if f(x, d) = g(x, R(d)) h(d): the sum of g is carried and h is applied once, to the final d.
R are references, which g keeps because without them it would leave the range of float32: g = ... exp(u), u = a x - b m,
with m the largest (b > 0; or the smallest, b < 0) of all x so far and b m the bound of a x, so that no exp exceeds 1.
When m moves to m', what was summed is right after a multiplication by exp(b (m - m')), as
exp(a x - b m) exp(b (m - m')) = exp(a x - b m'). (The three laws of such a correction: see `certificate`.)

Factors are found by walking down products, quotients, signs, broadcasts and equal factors of both sides of a sum. An
addition that mixes x and d, a rounding, a comparison or a function other than exp is no product: then `Mixed` says what
stands in the way, and the sum waits for the final d, in a walk of its own. So it does where exp(u) is not known to stay
below 1, and under a selection, whose other side would have to keep out what a factor makes of an empty row.

Checked by: tests/synth/streaming/test_factors.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from tilewright.base.element import Element
from tilewright.ir.function import Function
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.reduce import ReduceOp
from tilewright.synth.streaming.affine import affine, slope
from tilewright.synth.streaming.along_axis import AlongAxis
from tilewright.synth.streaming.graph import Graph, Node, constant_of


class Mixed(Exception):
    """No product: what stands in the way, and at which line."""

    def __init__(self, reason: str, place: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.place = place


@dataclass(frozen=True, slots=True)
class Reference:
    """exp of an argument that follows a running extreme. extreme: the reduction; followed: itself, or the further out
    of it and of what does not move; argument: the exponent, an affine function of `followed`; rate: its slope there."""

    extreme: Node
    followed: Node
    argument: Node
    rate: Fraction


@dataclass(frozen=True, slots=True)
class Factored:
    """inner times all of `over` divided by all of `under`; references: what inner follows."""

    inner: Node
    over: tuple[Node, ...] = ()
    under: tuple[Node, ...] = ()
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class Moving:
    """What is known while sums are factored. moves: whether a node is computed from results of this walk; followed:
    whether a node is a reduction whose running result the loop carries as it is."""

    graph: Graph
    along: AlongAxis
    moves: Callable[[Node], bool]
    followed: Callable[[Node], bool]


def factored(node: Node, moving: Moving) -> Factored:
    """`node` as a product. Raises Mixed where it is none that can be carried."""
    if not moving.moves(node):
        return Factored(node)
    if not moving.along.changes(node):
        return _constant_along(node, moving)
    graph, place = moving.graph, node.place
    match node.what:
        case tile.BroadcastOp:
            part = factored(node.operands[0], moving)
            return replace(part, inner=graph.broadcast(part.inner, node.axes, place))
        case tile.TransposeOp:
            part = factored(node.operands[0], moving)
            return replace(part, inner=graph.transpose(part.inner, place))
        case tile.CastOp if node.element is Element.F32:
            factored(node.operands[0], moving)  # which names the rounding to what is widened here
            raise Mixed(f"{described(node)} of results", place)
        case tile.UnaryOp if node.function is Function.NEG:
            part = factored(node.operands[0], moving)
            return replace(part, inner=graph.unary(Function.NEG, part.inner, place))
        case tile.UnaryOp if node.function is Function.EXP:
            return _exponential(node, moving)
        case tile.BinaryOp if node.function in (Function.MUL, Function.DIV):
            return _product(node, moving)
        case tile.BinaryOp if node.function in (Function.ADD, Function.SUB):
            return _sum(node, moving)
        case _:
            raise Mixed(f"{described(node)} mixes what changes along {moving.along.axis} with its results", place)


def described(node: Node) -> str:
    """A node's operation, as messages name it."""
    if node.what is tile.CastOp:
        return f"the rounding to {node.element.value}"
    if node.function is not None:
        return f"`{node.function.value}`"
    return f"`{node.what.name}`" if isinstance(node.what, type) else "a value"


def _constant_along(node: Node, moving: Moving) -> Factored:
    if node.what is not tile.BroadcastOp:
        if moving.along.has(node):
            raise Mixed("a broadcast that also permutes its axes", node.place)
        return Factored(moving.graph.constant_like(1.0, node), over=(node,))
    return Factored(moving.graph.constant_like(1.0, node), over=node.operands)


def _product(node: Node, moving: Moving) -> Factored:
    left, right = (factored(operand, moving) for operand in node.operands)
    assert node.function is not None
    inner = moving.graph.binary(node.function, left.inner, right.inner, node.place)
    if node.function is Function.MUL:
        return Factored(inner, left.over + right.over, left.under + right.under, left.references + right.references)
    if right.references:
        raise Mixed("a division by an exponential that follows a running extreme", node.place)
    return Factored(inner, left.over + right.under, left.under + right.over, left.references)


def _sum(node: Node, moving: Moving) -> Factored:
    left, right = (factored(operand, moving) for operand in node.operands)
    assert node.function is not None

    def key(part: Factored) -> tuple[object, ...]:
        followed = sorted((each.followed.number, each.rate) for each in part.references)
        return (sorted(n.number for n in part.over), sorted(n.number for n in part.under), followed)

    if key(left) != key(right):
        raise Mixed(
            f"{described(node)} of what changes along {moving.along.axis} and of its results is no product", node.place
        )
    return replace(left, inner=moving.graph.binary(node.function, left.inner, right.inner, node.place))


def _exponential(node: Node, moving: Moving) -> Factored:
    """exp(u): one running extreme of u's terms is followed, the other terms that move become factors exp(term)."""
    graph, (argument,) = moving.graph, node.operands
    terms = affine(argument)
    moved = [term for term in terms if term is not None and moving.moves(term)]
    changing = [term for term in moved if moving.along.changes(term)]
    if changing:
        raise Mixed(f"{described(changing[0])} in an exponent mixes terms", changing[0].place)
    still = {term: rate for term, rate in terms.items() if term not in moved}
    for followed in moved:
        extreme = _extreme_of(followed, moving)
        if extreme is not None and _bounds(extreme, -terms[followed], still):
            break
    else:
        raise Mixed("the exponent is not known to stay below 0 while its terms move", node.place)
    others = [term for term in moved if term is not followed]
    over = tuple(graph.unary(Function.EXP, slope(graph, argument, term, term), node.place) for term in others)
    inner = graph.replaced(argument, {term: graph.constant_like(0.0, term) for term in others})
    reference = Reference(extreme, followed, argument, terms[followed])
    return Factored(graph.unary(Function.EXP, inner, node.place), over, (), (reference,))


def _extreme_of(term: Node, moving: Moving) -> Node | None:
    """The running extreme that a term is, or is bounded by: the largest of it and of what does not move."""
    if moving.followed(term):
        return term
    if term.what is tile.BinaryOp and term.function in (Function.MAX, Function.MIN):
        for operand, other in (term.operands, term.operands[::-1]):
            inner = operand.operands[0] if operand.what is tile.BroadcastOp else operand
            if moving.followed(inner) and inner.function is term.function and not moving.moves(other):
                return inner
    return None


def _bounds(extreme: Node, factor: Fraction, terms: dict[Node | None, Fraction]) -> bool:
    """Whether factor times the extreme is at least the sum of the terms, whatever elements came so far."""
    if extreme.what is not ReduceOp or factor == 0:
        return False
    if extreme.function is not (Function.MAX if factor > 0 else Function.MIN):
        return False
    folded = affine(extreme.operands[0])
    if terms == {term: rate * factor for term, rate in folded.items()}:
        return True
    if len(terms) != 1:
        return False
    ((term, rate),) = terms.items()
    return term is not None and rate == factor and _at_most(term, extreme)


def _at_most(node: Node, extreme: Node) -> bool:
    """Whether a node's elements are among those that are folded, or -inf (+inf for a smallest element)."""
    empty = float("-inf") if extreme.function is Function.MAX else float("inf")
    if node is extreme.operands[0]:
        return True
    if node.what is tile.SelectOp:
        return all(constant_of(each) == empty or _at_most(each, extreme) for each in node.operands[1:])
    return False
