"""What does a program compute, as a graph in which equal values are one node?

Theory: hash-consing. A node stands for a value of the `tile` dialect: its operation's class, its properties but for the
author's line, its operands, its type. Of two equal nodes there is one, so that identity is equality, and what is
computed from the same operands is computed once. Leaves are what the program is given (tensors, the grid's indices) and
what a streamed loop has: its index, what it carries and what it leaves.

Nodes are made through `Graph`, which applies a few identities on the way: those that are exact in float32 but for the
sign of zero. Not here: which nodes change along an axis (`along_axis`).
Checked by: tests/synth/streaming/test_graph.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import FloatAttr, StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation

from tilewright.base.element import Element
from tilewright.ir.function import Function
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.elementwise import FunctionAttr, number
from tilewright.ir.tile.reduce import ReduceOp
from tilewright.ir.tile.rules import place_of
from tilewright.ir.tile.types import ValueType

Leaf = tuple[str, int]
"""("tensor", parameter), ("grid", axis's number), ("carried" | "final", state's number)."""


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """One value. what: the class of the operation that computes it, or a leaf; number: order of making."""

    what: type[IRDLOperation] | Leaf
    properties: tuple[tuple[str, Attribute], ...]
    operands: tuple[Node, ...]
    type: Attribute
    place: str
    number: int

    @property
    def is_tile(self) -> bool:
        return isinstance(self.type, ValueType)

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes of a tile; none of what is no tile."""
        return self.type.axis_names if isinstance(self.type, ValueType) else ()

    @property
    def element(self) -> Element:
        assert isinstance(self.type, ValueType)
        return self.type.element_kind

    @property
    def function(self) -> Function | None:
        """Of an elementwise function or a reduction."""
        found = dict(self.properties).get("function")
        return found.data if isinstance(found, FunctionAttr) else None

    @property
    def axis(self) -> str:
        """What a reduction or a contraction sums over, or ""."""
        found = dict(self.properties).get("axis")
        return found.data if isinstance(found, StringAttr) else ""

    @property
    def is_sum(self) -> bool:
        """A reduction or a contraction."""
        return self.what in (ReduceOp, ContractOp)


class Graph:
    """All nodes of one program, so that none is made twice."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Node] = {}

    def node(
        self,
        what: type[IRDLOperation] | Leaf,
        operands: Sequence[Node],
        type_: Attribute,
        place: str,
        properties: Mapping[str, Attribute] | None = None,
    ) -> Node:
        listed = tuple(sorted((properties or {}).items(), key=lambda item: item[0]))
        key = (what, listed, tuple(each.number for each in operands), type_)
        if key not in self._known:
            self._known[key] = Node(what, listed, tuple(operands), type_, place, len(self._known))
        return self._known[key]

    def leaf(self, kind: str, which: int, type_: Attribute, place: str = "") -> Node:
        return self.node((kind, which), (), type_, place)

    # ------------------------------------------------------------ values

    def constant(self, value: float, place: str) -> Node:
        return self.node(tile.ConstantOp, (), ValueType.of((), Element.F32), place, {"value": number(value)})

    def constant_like(self, value: float, like: Node) -> Node:
        """A constant over the axes of `like`."""
        return self.broadcast(self.constant(value, like.place), like.axes, like.place)

    def broadcast(self, operand: Node, axes: Sequence[str], place: str) -> Node:
        """`operand` over `axes`: as it is where it has them, transposed where the last two stand in the other order."""
        axes = tuple(axes)
        if operand.axes == axes:
            return operand
        if operand.axes == (*axes[:-2], *axes[:-3:-1]):
            return self.transpose(operand, place)
        if operand.what is tile.BroadcastOp:
            return self.broadcast(operand.operands[0], axes, place)
        return self.node(tile.BroadcastOp, (operand,), ValueType.of(axes, operand.element), place)

    def transpose(self, operand: Node, place: str) -> Node:
        if operand.what is tile.TransposeOp:
            return operand.operands[0]
        axes = operand.axes
        swapped = ValueType.of((*axes[:-2], *axes[:-3:-1]), operand.element)
        return self.node(tile.TransposeOp, (operand,), swapped, place)

    def cast(self, operand: Node, element: Element, place: str) -> Node:
        if operand.element is element:
            return operand
        return self.node(tile.CastOp, (operand,), ValueType.of(operand.axes, element), place)

    def unary(self, function: Function, operand: Node, place: str) -> Node:
        if function is Function.NEG:
            if operand.function is Function.NEG:
                return operand.operands[0]
            if operand.function is Function.SUB:
                return self.binary(Function.SUB, operand.operands[1], operand.operands[0], place)
        return self.node(tile.UnaryOp, (operand,), operand.type, place, {"function": FunctionAttr(function)})

    def binary(self, function: Function, left: Node, right: Node, place: str) -> Node:
        first, second = constant_of(left), constant_of(right)
        if second == 0 and function in (Function.ADD, Function.SUB):
            return left
        if second == 1 and function in (Function.MUL, Function.DIV):
            return left
        if (first == 0 and function is Function.ADD) or (first == 1 and function is Function.MUL):
            return right
        if first == 0 and function is Function.SUB:
            return self.unary(Function.NEG, right, place)
        return self.node(tile.BinaryOp, (left, right), left.type, place, {"function": FunctionAttr(function)})

    def select(self, condition: Node, chosen: Node, other: Node, place: str) -> Node:
        return self.node(tile.SelectOp, (condition, chosen, other), chosen.type, place)

    def reduce(self, function: Function, operand: Node, axis: str, place: str) -> Node:
        kept = tuple(each for each in operand.axes if each != axis)
        properties = {"function": FunctionAttr(function), "axis": StringAttr(axis)}
        return self.node(ReduceOp, (operand,), ValueType.of(kept, Element.F32), place, properties)

    def contract(self, left: Node, right: Node, axis: str, axes: Sequence[str], place: str) -> Node:
        """A product over `axes`, of operands whose own stand in any order."""
        left, right = map(_in_own_order, (left, right))
        return self.node(ContractOp, (left, right), ValueType.of(axes, Element.F32), place, {"axis": StringAttr(axis)})

    # ------------------------------------------------------------ rebuilding

    def rebuilt(self, node: Node, operands: Sequence[Node]) -> Node:
        """The same operation of other operands, over the same axes."""
        operands = tuple(operands)
        if operands == node.operands:
            return node
        match node.what:
            case tile.BroadcastOp:
                return self.broadcast(operands[0], node.axes, node.place)
            case tile.TransposeOp:
                return self.transpose(operands[0], node.place)
            case tile.CastOp:
                return self.cast(operands[0], node.element, node.place)
            case tile.UnaryOp if node.function is not None:
                return self.unary(node.function, operands[0], node.place)
            case tile.BinaryOp if node.function is not None:
                return self.binary(node.function, operands[0], operands[1], node.place)
            case _ if node.what is ContractOp:
                return self.contract(operands[0], operands[1], node.axis, node.axes, node.place)
            case _:
                return self.node(node.what, operands, node.type, node.place, dict(node.properties))

    def rebuilt_over(self, node: Node, operands: Sequence[Node]) -> Node:
        """The same elementwise operation of operands over other axes."""
        match node.what:
            case tile.UnaryOp if node.function is not None:
                return self.unary(node.function, operands[0], node.place)
            case tile.CastOp:
                return self.cast(operands[0], node.element, node.place)
            case tile.BinaryOp if node.function is not None:
                return self.binary(node.function, operands[0], operands[1], node.place)
            case _:
                assert node.what is tile.SelectOp, "an elementwise operation"
                return self.select(operands[0], operands[1], operands[2], node.place)

    def replaced(self, node: Node, by: Mapping[Node, Node]) -> Node:
        """`node` with some nodes that it is computed from exchanged."""
        done: dict[Node, Node] = dict(by)
        for each in below([node], done.__contains__):
            if each not in done:
                done[each] = self.rebuilt(each, [done[operand] for operand in each.operands])
        return done[node]

    def mapped(self, roots: Sequence[Node], rule: Callable[[Node], Node]) -> dict[Node, Node]:
        """Every node below the roots as `rule` rewrites it, operands first: rule(node over rewritten operands)."""
        done: dict[Node, Node] = {}
        for node in below(roots):
            done[node] = rule(self.rebuilt(node, [done[operand] for operand in node.operands]))
        return done


def _in_own_order(node: Node) -> Node:
    """A value without what only puts its axes into another order."""
    reordered = node.what is tile.BroadcastOp and set(node.axes) == set(node.operands[0].axes)
    return _in_own_order(node.operands[0]) if reordered else node


def below(roots: Sequence[Node], stop: Callable[[Node], bool] = lambda node: False) -> list[Node]:
    """The roots and what they are computed from, operands first; not past nodes where `stop` holds."""
    seen: dict[Node, None] = {}
    open_ = [(root, False) for root in reversed(roots)]
    while open_:
        node, is_complete = open_.pop()
        if is_complete:
            seen[node] = None
        elif node not in seen:
            open_.append((node, True))
            if not stop(node):
                open_ += ((operand, False) for operand in reversed(node.operands))
    return list(seen)


def constant_of(node: Node) -> float | None:
    """The number that every element of a tile is, where it is written as one."""
    match node.what:
        case tile.ConstantOp | tile.FullOp:
            value = dict(node.properties)["value"]
            assert isinstance(value, FloatAttr)
            return value.value.data
        case tile.BroadcastOp | tile.TransposeOp:
            return constant_of(node.operands[0])
        case tile.UnaryOp if node.function is Function.NEG:
            value = constant_of(node.operands[0])
            return None if value is None else -value
        case _:
            return None


def is_finite_constant(node: Node) -> bool:
    value = constant_of(node)
    return value is not None and math.isfinite(value)


@dataclass(frozen=True, slots=True)
class Stored:
    """A store of the program: value, tensor, indices."""

    value: Node
    tensor: Node
    indices: tuple[Node, ...]
    place: str


def read(program: tile.ProgramOp) -> tuple[Graph, tuple[Stored, ...]]:
    """The graph of a program without loops, and what it stores."""
    graph, known = Graph(), dict[SSAValue, Node]()
    for number_, argument in enumerate(program.body.block.args):
        known[argument] = graph.leaf("tensor", number_, argument.type)
    stored: list[Stored] = []
    for op in program.body.block.ops:
        operands = [known[value] for value in op.operands]
        place = place_of(op)
        if isinstance(op, tile.GridOp):
            for number_, index in enumerate(op.indices):
                known[index] = graph.leaf("grid", number_, index.type, place)
        elif isinstance(op, tile.StoreOp):
            stored.append(Stored(operands[0], operands[1], tuple(operands[2:]), place))
        elif isinstance(op, IRDLOperation) and len(op.results) == 1:
            kept = {name: each for name, each in op.properties.items() if name != "place"}
            whole = graph.node(type(op), operands, op.results[0].type, place, kept)
            known[op.results[0]] = whole
    return graph, tuple(stored)
