"""Which terms does a value add up, and how does it follow one of them?

Theory: additions, subtractions, signs, products with numbers and quotients by them. A broadcast or a transposition does
not count: axes have names, so a term is the same whatever it is repeated along. Slopes are rationals, so that equal
ones compare equal. Checked by: tests/synth/streaming/test_factors.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

from tilewright.ir.function import Function
from tilewright.ir.tile import operations as tile
from tilewright.synth.streaming.graph import Graph, Node, below, constant_of, is_finite_constant

Terms = dict[Node | None, Fraction]
"""Slope of each term; None stands for the number 1."""


def affine(node: Node) -> Terms:
    """The terms of a value; at least itself."""
    found: dict[Node, Terms] = {}
    for each in below([node], lambda each: not _adds_up(each)):
        found[each] = _terms(each, found.__getitem__)
    return found[node]


def _adds_up(node: Node) -> bool:
    """Whether a value is the sum of its operands' terms, each times a number."""
    match node.what, node.function:
        case ((tile.BroadcastOp | tile.TransposeOp), _) | (tile.UnaryOp, Function.NEG):
            return True
        case tile.BinaryOp, (Function.ADD | Function.SUB):
            return True
        case tile.BinaryOp, (Function.MUL | Function.DIV):
            return any(map(is_finite_constant, node.operands))
        case _:
            return False


def _terms(node: Node, affine: Callable[[Node], Terms]) -> Terms:
    """The terms of a value by those of its operands."""
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
    found: dict[Node, Node | None] = {term: step}
    for each in below([node], lambda each: each is term or not _adds_up(each)):
        if each is not term:
            found[each] = _slope(graph, each, found)
    whole = found[node]
    assert whole is not None, "the term is one of the value's"
    return whole


def _slope(graph: Graph, node: Node, found: Mapping[Node, Node | None]) -> Node | None:
    """The slope of a value, by those of its operands; None where it does not follow the term."""
    if not _adds_up(node):
        return None
    place, function, parts = node.place, node.function, [found[operand] for operand in node.operands]
    match node.what, function:
        case ((tile.BroadcastOp | tile.TransposeOp), _):
            return parts[0]
        case tile.UnaryOp, Function.NEG:
            (part,) = parts
            return part and graph.unary(Function.NEG, part, place)
        case tile.BinaryOp, (Function.ADD | Function.SUB):
            left, right = parts
            if left is None:
                return graph.unary(Function.NEG, right, place) if right and function is Function.SUB else right
            return left if right is None else graph.binary(function, left, right, place)
        case tile.BinaryOp, (Function.MUL | Function.DIV):
            first, second = node.operands
            if is_finite_constant(second):
                part = parts[0]
                return part and graph.binary(function, part, _number(graph, second, part), place)
            if function is Function.MUL and is_finite_constant(first):
                part = parts[1]
                return part and graph.binary(function, _number(graph, first, part), part, place)
            return None
        case _:
            return None


def _number(graph: Graph, constant: Node, like: Node) -> Node:
    value = constant_of(constant)
    assert value is not None
    return graph.constant_like(value, like)
