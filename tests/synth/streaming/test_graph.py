"""Equal values are one node, and what is rewritten on the way changes no number."""

import math

from tests.synth.streaming.programs import attention, logsumexp

from tilewright.base.element import Element
from tilewright.ir.function import Function
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import the_program
from tilewright.ir.tile.types import ValueType
from tilewright.synth.streaming.graph import Graph, below, constant_of, read


def leaf(graph, *axes, number=0, element=Element.F32):
    return graph.leaf("carried", number, ValueType.of(axes, element))


def test_equal_values_are_one_node():
    graph, stored = read(the_program(attention("causal", lse=True)))
    nodes = below([each.value for each in stored])
    assert len([node for node in nodes if node.function is Function.EXP]) == 1
    assert len([node for node in nodes if node.what is tile.BlockOp]) == 1
    again, _ = graph, read(the_program(logsumexp()))
    assert again is graph


def test_identities():
    graph = Graph()
    x, y = leaf(graph, "M", "N"), leaf(graph, "M", "N", number=1)
    zero, one = graph.constant_like(0.0, x), graph.constant_like(1.0, x)

    def binary(function, left, right):
        return graph.binary(function, left, right, "")

    assert binary(Function.ADD, x, zero) is x and binary(Function.ADD, zero, x) is x
    assert binary(Function.SUB, x, zero) is x and binary(Function.MUL, one, x) is x
    assert binary(Function.DIV, x, one) is x and binary(Function.DIV, one, x) is not x
    assert binary(Function.MUL, x, zero) is not zero, "0 inf is NaN"
    difference = binary(Function.SUB, x, y)
    assert graph.unary(Function.NEG, difference, "") is binary(Function.SUB, y, x)
    assert graph.unary(Function.NEG, graph.unary(Function.NEG, x, ""), "") is x
    assert graph.cast(x, Element.F32, "") is x
    assert graph.transpose(graph.transpose(x, ""), "") is x


def test_broadcasts_are_of_what_was_broadcast():
    graph = Graph()
    x = leaf(graph, "M")
    assert graph.broadcast(graph.broadcast(x, ("M", "N"), ""), ("B", "M", "N"), "").operands == (x,)
    turned = graph.broadcast(leaf(graph, "M", "N"), ("N", "M"), "")
    assert turned.what is tile.TransposeOp and turned.axes == ("N", "M")
    moved = graph.broadcast(leaf(graph, "A", "B", "C"), ("C", "A", "B"), "")
    assert moved.what is tile.BroadcastOp and moved.axes == ("C", "A", "B")


def test_constants():
    graph = Graph()
    x = leaf(graph, "M", "N")
    assert constant_of(graph.constant_like(-math.inf, x)) == -math.inf
    assert constant_of(graph.unary(Function.NEG, graph.constant_like(3.0, x), "")) == -3.0
    assert constant_of(x) is None
    assert constant_of(graph.cast(graph.constant_like(0.1, x), Element.BF16, "")) is None


def test_replacing_goes_to_the_outermost():
    graph = Graph()
    x, y, z = (leaf(graph, "M", number=number) for number in range(3))
    inner = graph.binary(Function.ADD, x, y, "")
    outer = graph.binary(Function.MUL, inner, x, "")
    assert graph.replaced(outer, {inner: z, x: y}) is graph.binary(Function.MUL, z, y, "")
    assert below([outer], lambda node: node is inner) == [inner, x, outer]
