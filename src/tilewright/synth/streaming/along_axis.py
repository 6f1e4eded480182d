"""Which values change along an axis, and what are the others without it?

Theory: a value changes along T if it is loaded at T's index, is a position along T, or is computed element by element
from what changes; a sum over T does not. A value that does not change may still be a tile over T, having been broadcast
before something was computed of it. The normal form computes first and broadcasts after: every value over T that does
not change along it is the broadcast of one without T. So whatever can leave a loop over T stands outside by itself.

Where a broadcast also permutes three or more axes there may be no such form; then the value stays as it is, which costs
time and changes no meaning. Checked by: tests/synth/streaming/test_along_axis.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, covers
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.reduce import ReduceOp
from tilewright.ir.tile.types import GroupType, IndexType
from tilewright.synth.streaming.graph import Graph, Node


class AlongAxis:
    """Which nodes of a graph change along `axis`, remembered."""

    def __init__(self, axis: str) -> None:
        self.axis = axis
        self._known: dict[Node, bool] = {}

    def has(self, node: Node) -> bool:
        """Whether a tile is over the axis, or over blocks of it."""
        return any(base_axis(each) == self.axis for each in node.axes)

    def changes(self, node: Node) -> bool:
        if node not in self._known:
            self._known[node] = self._changes(node)
        return self._known[node]

    def _changes(self, node: Node) -> bool:
        if node.is_sum and node.axis == self.axis:
            return False
        if isinstance(node.what, tuple):
            return isinstance(node.type, IndexType | GroupType) and base_axis(node.type.axis.data) == self.axis
        return any(self.changes(operand) for operand in node.operands)


def normal_form(graph: Graph, roots: Sequence[Node], along: AlongAxis) -> dict[Node, Node]:
    """Every node below the roots in normal form."""

    def rule(node: Node) -> Node:
        if not node.is_tile or not along.has(node) or along.changes(node):
            return node
        try:
            collapsed = without(graph, node, along)
        except ValueError:
            return node
        return graph.broadcast(collapsed, node.axes, node.place)

    return graph.mapped(roots, rule)


def without(graph: Graph, node: Node, along: AlongAxis) -> Node:
    """A value that does not change along the axis, without it and without axes it was only broadcast to.

    node: over operands in normal form. Raises ValueError where there is no such form."""
    if not along.has(node):
        return node
    kept = [axis for axis in node.axes if base_axis(axis) != along.axis]
    match node.what:
        case tile.BroadcastOp:
            return without(graph, node.operands[0], along)
        case tile.TransposeOp:
            return without(graph, node.operands[0], along)
        case tile.UnaryOp | tile.CastOp | tile.BinaryOp | tile.SelectOp:
            operands = [without(graph, operand, along) for operand in node.operands]
            order = [*kept, *(axis for each in operands for axis in each.axes if axis not in kept)]
            return graph.rebuilt_over(node, _joined(graph, operands, order, node.place))
        case _ if node.what in (ReduceOp, ContractOp):
            return _sum_without(graph, node, along, kept)
        case _:
            raise ValueError(f"{node.what} over {node.axes}")


def _joined(graph: Graph, operands: Sequence[Node], order: Sequence[str], place: str) -> list[Node]:
    """The operands over common axes: an axis of blocks gives way to the axis itself."""
    named = dict.fromkeys(axis for each in operands for axis in each.axes)
    axes = [axis for axis in named if not any(other != axis and covers((other,), axis) for other in named)]
    axes.sort(key=list(dict.fromkeys(order)).index)
    return [graph.broadcast(each, axes, place) for each in operands]


def _sum_without(graph: Graph, node: Node, along: AlongAxis, kept: Sequence[str]) -> Node:
    """A sum over another axis, of what does not change along this one."""
    operands: list[Node] = []
    for operand in node.operands:
        axes = [axis for axis in operand.axes if base_axis(axis) != along.axis]
        operands.append(graph.broadcast(without(graph, operand, along), axes, node.place))
    if node.what is ContractOp:
        return graph.contract(operands[0], operands[1], node.axis, kept, node.place)
    assert node.function is not None
    return graph.reduce(node.function, operands[0], node.axis, node.place)
