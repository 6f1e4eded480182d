"""Which terms does a value add up, and how does it follow one of them?

Theory: additions, subtractions, signs, products with numbers and quotients by them. A broadcast or a transposition does
not count: axes have names, so a term is the same whatever it is repeated along. Slopes are rationals, so that equal
ones compare equal. Checked by: tests/synth/streaming/test_factors.py.
"""

from __future__ import annotations

from fractions import Fraction

from tilewright.ir.function import Function
from tilewright.ir.tile import operations as tile
from tilewright.synth.streaming.graph import Graph, Node, constant_of, is_finite_constant

Terms = dict[Node | None, Fraction]
"""Slope of each term; None stands for the number 1."""


def affine(node: Node) -> Terms:
    """The terms of a value; at least itself."""
    constant = constant_of(node)
    if constant is not None and is_finite_constant(node):
        return {None: Fraction(constant)} if constant else {}
    match node.what, node.function:
        case ((tile.BroadcastOp | tile.TransposeOp), _):
            return affine(node.operands[0])
        case tile.UnaryOp, Function.NEG:
            return _scaled(affine(node.operands[0]), Fraction(-1))
        case tile.BinaryOp, Function.ADD:
            return _added(affine(node.operands[0]), affine(node.operands[1]), 1)
        case tile.BinaryOp, Function.SUB:
            return _added(affine(node.operands[0]), affine(node.operands[1]), -1)
        case tile.BinaryOp, (Function.MUL | Function.DIV):
            left, right = node.operands
            if is_finite_constant(right) and constant_of(right):
                rate = Fraction(constant_of(right) or 0)
                return _scaled(affine(left), rate if node.function is Function.MUL else 1 / rate)
            if node.function is Function.MUL and is_finite_constant(left):
                return _scaled(affine(right), Fraction(constant_of(left) or 0))
        case _:
            pass
    return {node: Fraction(1)}


def _scaled(terms: Terms, rate: Fraction) -> Terms:
    return {term: each * rate for term, each in terms.items()} if rate else {}


def _added(left: Terms, right: Terms, sign: int) -> Terms:
    result = dict(left)
    for term, rate in right.items():
        result[term] = result.get(term, Fraction(0)) + sign * rate
    return {term: rate for term, rate in result.items() if rate}


def slope(graph: Graph, node: Node, term: Node, step: Node) -> Node:
    """By how much a value grows when one of its terms grows by `step`, over the axes of `step`: computed by the same
    operations in the same order, so that it is rounded as the value is."""
    found = _slope(graph, node, term, step)
    assert found is not None, "the term is one of the value's"
    return found


def _slope(graph: Graph, node: Node, term: Node, step: Node) -> Node | None:
    if node is term:
        return step
    place, function = node.place, node.function
    match node.what, function:
        case ((tile.BroadcastOp | tile.TransposeOp), _):
            return _slope(graph, node.operands[0], term, step)
        case tile.UnaryOp, Function.NEG:
            part = _slope(graph, node.operands[0], term, step)
            return part and graph.unary(Function.NEG, part, place)
        case tile.BinaryOp, (Function.ADD | Function.SUB):
            left, right = (_slope(graph, operand, term, step) for operand in node.operands)
            if left is None:
                return graph.unary(Function.NEG, right, place) if right and function is Function.SUB else right
            return left if right is None else graph.binary(function, left, right, place)
        case tile.BinaryOp, (Function.MUL | Function.DIV):
            first, second = node.operands
            if is_finite_constant(second):
                part = _slope(graph, first, term, step)
                return part and graph.binary(function, part, _number(graph, second, part), place)
            if function is Function.MUL and is_finite_constant(first):
                part = _slope(graph, second, term, step)
                return part and graph.binary(function, _number(graph, first, part), part, place)
            return None
        case _:
            return None


def _number(graph: Graph, constant: Node, like: Node) -> Node:
    value = constant_of(constant)
    assert value is not None
    return graph.constant_like(value, like)
