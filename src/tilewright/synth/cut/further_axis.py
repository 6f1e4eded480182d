"""How does a program read with one more axis, along which some of its arrays are seen to lie?

Values that depend on such an array get the axis, in front of their own; all others stay. Nothing else changes: what is
folded and multiplied is so for each place along the axis.

Checked by: tests/synth/cut/test_split.py and tests/synth/joining/test_row_axis.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute

from tilewright.base.element import Element
from tilewright.ir.function import Function
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.gather import GatherOp
from tilewright.ir.tile.types import GatheredType, ValueType
from tilewright.synth.streaming.graph import Graph, Node


class FurtherAxis:
    """Values over `along` too, where they depend on it. known: of leaves and of what is replaced. index: of the axis;
    axis, step: where it has parts of another one, that one and how far the next part begins, since indices of it as
    numbers count on from part to part. places: of a gathered tensor that is replaced by one with other dimensions, and
    of where its own are read: where the others are."""

    def __init__(self, graph: Graph, along: str) -> None:
        self.graph, self.along = graph, along
        self.known: dict[Node, Node] = {}
        self.places: dict[tuple[Node, Attribute], Sequence[str]] = {}
        self.index: Node | None = None
        self.axis, self.step = "", 0

    def value(self, node: Node) -> Node:
        if node not in self.known:
            self.known[node] = self._value(node)
        return self.known[node]

    def _value(self, node: Node) -> Node:
        graph, place = self.graph, node.place
        operands = [self.value(each) for each in node.operands]
        if node.what is tile.PositionOp and node.axes == (self.axis,):
            assert self.index is not None
            part = graph.node(tile.PositionOp, (self.index,), ValueType.of((self.along,), Element.F32), place)
            begin = graph.binary(Function.MUL, part, graph.constant_like(float(self.step), part), place)
            both = (self.along, self.axis)
            within = graph.node(node.what, node.operands, node.type, place, dict(node.properties))
            begin, within = (graph.broadcast(each, both, place) for each in (begin, within))
            return graph.binary(Function.ADD, begin, within, place)
        if operands == list(node.operands) or isinstance(node.what, tuple):
            return node
        if node.what is GatherOp:
            return self._gathered(node, operands)
        if node.what is tile.LoadOp:
            assert self.index is not None
            tensor, *indices = operands
            return graph.node(
                tile.LoadOp, (tensor, self.index, *indices), ValueType.of((self.along, *node.axes), node.element), place
            )
        axes = (self.along, *node.axes)
        if node.what is tile.BroadcastOp:
            return graph.broadcast(operands[0], axes, place)
        if node.what is tile.TransposeOp:
            return graph.transpose(operands[0], place)
        if node.is_sum and node.function is not None:
            return graph.reduce(node.function, operands[0], node.axis, place)
        if node.is_sum:
            return graph.contract(operands[0], operands[1], node.axis, axes, place)
        return graph.rebuilt_over(node, [graph.broadcast(each, axes, place) for each in operands])

    def _gathered(self, node: Node, operands: Sequence[Node]) -> Node:
        """What is gathered of arrays of which some have the axis: as their first, or in blocks of it, where each part
        has whole blocks, so that places in blocks stay; else at other places, in other dimensions."""
        kind, properties = node.type, dict(node.properties)
        places = properties["places"]
        assert isinstance(kind, GatheredType)
        listed = [each.data for each in cast("ArrayAttr[StringAttr]", places)]
        if (operands[0], places) in self.places:
            listed = self.places[operands[0], places]
        elif operands[0] is not node.operands[0]:
            listed = [self.along, *listed]
        wider = GatheredType.of((self.along, *kind.axis_names), kind.element_kind)
        properties["places"] = ArrayAttr([StringAttr(each) for each in listed])
        return self.graph.node(GatherOp, operands, wider, node.place, properties)
