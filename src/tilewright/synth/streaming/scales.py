"""Which products with a number can be taken after a fold instead of before it?

Theory: multiplication by a positive number never decreases, rounded or not. So it commutes with the largest and the
smallest element exactly, and with a selection whose other side it leaves as it is: 0 and the infinities. What is folded
and selected is then what the tensor core gives, and the number joins the exponent that reads both, where it costs
nothing; one multiplication for each element becomes one for each row.

Checked by: tests/synth/streaming/test_scales.py, and each program's derivation by `certificate`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilewright.ir.function import Function
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.reduce import ReduceOp
from tilewright.synth.streaming.graph import Graph, Node, constant_of

_EXTREMES = (Function.MAX, Function.MIN)


def scales_outward(graph: Graph, roots: Sequence[Node]) -> dict[Node, Node]:
    """Every node below the roots, with positive numbers taken out of extremes and selections."""

    def rule(node: Node) -> Node:
        match node.what:
            case _ if node.what is ReduceOp and node.function in _EXTREMES:
                return _extreme(graph, node)
            case tile.SelectOp:
                return _selection(graph, node)
            case _:
                return node

    return graph.mapped(roots, rule)


def _extreme(graph: Graph, node: Node) -> Node:
    scaled = _scaled(node.operands[0])
    if scaled is None or node.function is None:
        return node
    value, factor = scaled
    folded = graph.reduce(node.function, value, node.axis, node.place)
    return graph.binary(Function.MUL, folded, graph.constant_like(factor, folded), node.place)


def _selection(graph: Graph, node: Node) -> Node:
    condition, *sides = node.operands
    for number, (side, other) in enumerate((sides, sides[::-1])):
        scaled = _scaled(side)
        if scaled is None or constant_of(other) not in (0.0, math.inf, -math.inf):
            continue
        value, factor = scaled
        chosen, rest = (other, value) if number else (value, other)
        selected = graph.select(condition, chosen, rest, node.place)
        return graph.binary(Function.MUL, selected, graph.constant_like(factor, selected), node.place)
    return node


def _scaled(node: Node) -> tuple[Node, float] | None:
    """A value and the positive number that it is multiplied by."""
    if node.what is not tile.BinaryOp or node.function is not Function.MUL:
        return None
    for value, other in (node.operands, node.operands[::-1]):
        factor = constant_of(other)
        if factor is not None and math.isfinite(factor) and factor > 0:
            return value, factor
    return None
