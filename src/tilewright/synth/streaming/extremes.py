"""How does the largest of phi(x, d) follow from the largest of x?

Theory: a function that never decreases commutes with the maximum, exactly, in floats too; one that never increases
turns it into the minimum. phi is followed from the folded operand down to what no longer depends on d, through
additions, signs, exponentials, extremes and products with what is known not to be negative. All else is `Mixed`.

Checked by: tests/synth/streaming/test_extremes.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir.function import Function
from tilewright.ir.tile import operations as tile
from tilewright.synth.streaming.along_axis import without
from tilewright.synth.streaming.factors import Mixed, Moving, described
from tilewright.synth.streaming.graph import Graph, Node, constant_of

_INCREASING = (Function.EXP, Function.TANH, Function.SIGMOID, Function.RELU)
_NOT_NEGATIVE = (Function.EXP, Function.ABS, Function.SQRT, Function.RSQRT, Function.SIGMOID, Function.RELU)
_OPPOSITE = {Function.MAX: Function.MIN, Function.MIN: Function.MAX}


@dataclass(frozen=True, slots=True)
class Peeled:
    """folded: what is folded instead, by `function`; path: the nodes of phi, the outermost first, each with the
    operand through which it depends on `folded`."""

    folded: Node
    function: Function
    path: tuple[tuple[Node, int], ...]


def peeled(node: Node, function: Function, moving: Moving) -> Peeled:
    """The operand of a largest or smallest element, taken apart. Raises Mixed where phi has no known direction."""
    path: list[tuple[Node, int]] = []
    while moving.moves(node):
        along, rises = _step(node, moving)
        path.append((node, along))
        function = function if rises else _OPPOSITE[function]
        node = node.operands[along]
    return Peeled(node, function, tuple(path))


def _step(node: Node, moving: Moving) -> tuple[int, bool]:
    """Which operand leads on, and whether the node rises with it."""
    if node.what is tile.UnaryOp and node.function in (*_INCREASING, Function.NEG):
        return 0, node.function is not Function.NEG
    if node.what is tile.BinaryOp:
        changing = [place for place, each in enumerate(node.operands) if moving.along.changes(each)]
        if len(changing) == 1:
            (along,) = changing
            other = node.operands[1 - along]
            if node.function in (Function.ADD, Function.MAX, Function.MIN):
                return along, True
            if node.function is Function.SUB:
                return along, along == 0
            scales = node.function is Function.MUL or (node.function is Function.DIV and along == 0)
            if scales and _not_negative(other):
                return along, True
    raise Mixed(f"{described(node)} is not known to rise or to fall with what changes", node.place)


def _not_negative(node: Node) -> bool:
    constant = constant_of(node)
    if constant is not None:
        return constant >= 0
    match node.what:
        case tile.BroadcastOp | tile.TransposeOp | tile.CastOp:
            return _not_negative(node.operands[0])
        case tile.UnaryOp:
            return node.function in _NOT_NEGATIVE
        case tile.BinaryOp if node.function in (Function.ADD, Function.MUL, Function.DIV, Function.MIN):
            return all(_not_negative(each) for each in node.operands)
        case tile.BinaryOp if node.function is Function.MAX:
            return any(_not_negative(each) for each in node.operands)
        case _ if node.is_sum and node.function is not None:
            return _not_negative(node.operands[0])
        case _:
            return False


def reapplied(graph: Graph, found: Peeled, extreme: Node, moving: Moving) -> Node:
    """phi of the folded extreme. extreme: over the axes of what was folded, but for the axis."""
    value = extreme
    for node, along in reversed(found.path):
        operands = list(node.operands)
        if len(operands) == 1:
            value = graph.rebuilt_over(node, [value])
            continue
        other = graph.broadcast(without(graph, operands[1 - along], moving.along), value.axes, node.place)
        value = graph.rebuilt_over(node, [other, value] if along else [value, other])
    return value
