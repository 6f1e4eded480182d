"""Numbers that are taken out of extremes and selections: which, and that every float32 result stays the same bit."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.synth.streaming.streamed_inputs import inputs
from tests.synth.streaming.tracing import INFINITY, Program

from tilewright.base.element import Element
from tilewright.frontends.tile.reference import evaluate
from tilewright.ir.function import Function
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import the_program
from tilewright.ir.tile.reduce import ReduceOp
from tilewright.ir.tile.types import ValueType
from tilewright.synth.streaming import streamed
from tilewright.synth.streaming.graph import Graph, constant_of
from tilewright.synth.streaming.scales import scales_outward

EXTREMES = {Function.MAX: np.maximum, Function.MIN: np.minimum}


def leaf(graph, number=0):
    return graph.leaf("carried", number, ValueType.of(("M", "N"), Element.F32))


def times(graph, value, factor, swapped=False):
    sides = (value, graph.constant_like(factor, value))
    return graph.binary(Function.MUL, *(sides[::-1] if swapped else sides), "")


def masked(graph, value, other, inverted):
    sides = (value, graph.constant_like(other, value))
    return graph.select(leaf(graph, 1), *(sides[::-1] if inverted else sides), "")


def outward(graph, node):
    return scales_outward(graph, [node])[node]


def numbers_of(node, leaves):
    """What a node is, in float32; leaves: by number."""
    operands = [numbers_of(each, leaves) for each in node.operands]
    if isinstance(node.what, tuple):
        return leaves[node.what[1]]
    with np.errstate(all="ignore"):
        match node.what:
            case tile.BroadcastOp | tile.ConstantOp:
                return np.float32(constant_of(node))
            case tile.BinaryOp:
                assert node.function is Function.MUL
                return operands[0] * operands[1]
            case tile.SelectOp:
                return np.where(operands[0] != 0, operands[1], operands[2])
            case _:
                assert node.what is ReduceOp
                return EXTREMES[node.function].reduce(operands[0], axis=1)


FLOATS = st.floats(width=32) | st.sampled_from([0.0, math.inf, -math.inf, math.nan, 1e-45, 3e38, -3e38])
FACTORS = st.floats(2.0**-130, 2.0**127) | st.sampled_from([0.125, 0.1, 2.0**-126, 1e-45, 1e-50, 3.4e38, math.inf])


@given(st.data(), FACTORS, st.sampled_from(list(EXTREMES)), st.sampled_from([0.0, math.inf, -math.inf]), st.booleans())
def test_the_same_bits_in_float32(data, factor, function, other, inverted):
    graph = Graph()
    scaled = masked(graph, times(graph, leaf(graph), factor), other, inverted)
    node = graph.reduce(function, scaled, "N", "")
    values, conditions = (
        np.array(data.draw(st.lists(each, min_size=12, max_size=12)), np.float32).reshape(3, 4)
        for each in (FLOATS, st.sampled_from([0.0, 1.0]))
    )
    before, after = (numbers_of(each, {0: values, 1: conditions}) for each in (node, outward(graph, node)))
    np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("swapped", [False, True])
def test_a_mask_and_an_extreme_pass_a_scale_on(swapped):
    graph = Graph()
    x = leaf(graph)
    node = graph.reduce(Function.MAX, masked(graph, times(graph, x, 0.125, swapped), -INFINITY, swapped), "N", "")
    found = outward(graph, node)
    inner = graph.reduce(Function.MAX, masked(graph, x, -INFINITY, swapped), "N", "")
    assert found is times(graph, inner, 0.125)


@pytest.mark.parametrize("factor", [math.inf, -math.inf, -0.5, 0.0, -0.0, 1e-50])
def test_other_factors_stay_where_they_are(factor):
    """1e-50 is 0 in float32, and an infinity times 0 is not a number."""
    graph = Graph()
    scaled = times(graph, leaf(graph), factor)
    for node in (graph.reduce(Function.MAX, scaled, "N", ""), masked(graph, scaled, -INFINITY, False)):
        assert outward(graph, node) is node


def test_other_folds_and_selections_keep_their_factors():
    graph = Graph()
    scaled = times(graph, leaf(graph), 0.5)
    for node in (
        graph.reduce(Function.ADD, scaled, "N", ""),
        masked(graph, scaled, 1.0, False),
        masked(graph, scaled, -1.0, True),
        graph.reduce(Function.MAX, graph.binary(Function.MUL, scaled, leaf(graph, 2), ""), "N", ""),
    ):
        assert outward(graph, node) is node


@pytest.mark.parametrize("factor", [0.125, 1.7, -0.5, 0.0])
def test_derivations_are_certified_and_mean_the_same(factor):
    """`streamed` certifies, and raises otherwise."""
    p = Program(M=3, N=7)
    x = p.where(p.load("b", "M", "N") <= p.number(0.5), p.load("x", "M", "N") * factor, -INFINITY)
    p.store(p.softmax(x, "N"), "y", "M", "N")
    p.store(p.max(x, "N"), "m", "M")
    module = p.module()
    found = streamed(the_program(module))
    arrays = inputs(module)
    expected = evaluate(module, arrays, rounded=False)
    for size in (1, 3, 7):
        actual = evaluate(found.module, arrays, rounded=False, tile_elements={found.axis: size})
        for name, values in expected.items():
            np.testing.assert_allclose(actual[name], values, rtol=1e-12)


def test_folds_are_of_what_was_multiplied():
    """The state of the walk is the largest of the products alone."""
    p = Program(M=3, N=7)
    x = p.load("x", "M", "N")
    p.store(p.softmax(x * 0.125, "N"), "y", "M", "N")
    found = streamed(the_program(p.module()))
    folds = [op for op in found.module.walk() if isinstance(op, ReduceOp) and op.function.data is Function.MAX]
    assert folds and all(isinstance(op.operand.owner, tile.LoadOp) for op in folds)
