"""What does not change along the axis is computed without it."""

import pytest
from tests.synth.streaming.tracing import Program, exp

from tilewright.base.element import Element
from tilewright.ir.function import Function
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import the_program
from tilewright.ir.tile.types import ValueType
from tilewright.synth.streaming.along_axis import AlongAxis, normal_form, without
from tilewright.synth.streaming.graph import Graph, read


def normal(program, axis):
    graph, stored = read(the_program(program.module()))
    along = AlongAxis(axis)
    found = normal_form(graph, [each.value for each in stored], along)
    return along, [found[each.value] for each in stored]


def test_what_changes():
    p = Program(M=3, N=6, **{"N/2": 3})
    x, b, s = p.load("x", "M", "N"), p.load("b", "M"), p.load("s", "N/2")
    p.store(x, "y0", "M", "N")
    p.store(p.spread(b, ("M", "N")), "y1", "M", "N")
    p.store(p.spread(s, ("M", "N")), "y2", "M", "N")
    p.store(p.spread(p.position("N"), ("M", "N")), "y3", "M", "N")
    p.store(p.spread(p.sum(x, "N"), ("M", "N")), "y4", "M", "N")
    along, values = normal(p, "N")
    assert [along.changes(value) for value in values] == [True, False, True, True, False]
    assert all(along.has(value) for value in values)


def test_broadcasts_come_last():
    p = Program(M=3, N=6)
    x, b = p.load("x", "M", "N"), p.load("b", "M")
    wide = p.spread(b, ("M", "N"))
    p.store(x * exp(wide * 2.0 + wide), "y", "M", "N")
    along, (value,) = normal(p, "N")
    _, factor = value.operands
    assert factor.what is tile.BroadcastOp and factor.operands[0].axes == ("M",)
    assert factor.operands[0].function is Function.EXP and not along.has(factor.operands[0])


def test_a_transposed_broadcast_is_none():
    p = Program(M=3, N=6)
    wide = p.spread(p.load("b", "M"), ("N", "M"))
    turned = p.add(tile.TransposeOp(wide.value, p.place()))
    p.store(turned + p.load("x", "M", "N"), "y", "M", "N")
    _, (value,) = normal(p, "N")
    assert value.operands[0].what is tile.BroadcastOp and value.operands[0].operands[0].axes == ("M",)


def test_blocks_give_way_to_their_axis():
    p = Program(M=6, N=4, **{"M/2": 3})
    s, b = p.load("s", "M/2"), p.load("b", "M")
    wide = ("M", "N")
    p.store(p.spread(s, wide) + p.spread(b, wide), "y", "M", "N")
    p.store(p.spread(s, wide) * p.spread(s, wide), "z", "M", "N")
    _, (both, blocks) = normal(p, "N")
    assert both.operands[0].axes == ("M",)
    assert blocks.operands[0].axes == ("M/2",)


def test_a_sum_over_another_axis_leaves_too():
    p = Program(M=3, N=6, K=4)
    wide = p.spread(p.load("b", "M", "K"), ("M", "N", "K"))
    p.store(p.sum(wide, "K"), "y", "M", "N")
    _, (value,) = normal(p, "N")
    assert value.what is tile.BroadcastOp and value.operands[0].axes == ("M",)


def test_a_permutation_of_three_axes_stays():
    graph, along = Graph(), AlongAxis("T")
    b = graph.leaf("tensor", 0, ValueType.of(("C", "A", "B"), Element.F32))
    wide = graph.broadcast(b, ("A", "B", "C", "T"), "")
    with pytest.raises(ValueError, match="over"):
        without(graph, graph.node(tile.LoadOp, (wide,), wide.type, ""), along)
    assert without(graph, wide, along) is b
