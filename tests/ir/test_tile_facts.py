# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Facts read off tile programs. `is_zero_past_end` is checked against programs run over a zero-padded extent."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

import tilewright.frontends.tile.language as tw
from tilewright.base.error import TilewrightError
from tilewright.base.plan import Buffer
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir import tile_facts as facts
from tilewright.ir.tile_facts import Access, DotOperand


@tw.kernel
def matmul(a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], bias: tw.Tensor["N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i + 2, k - 1], b[j, k].T)
    c[i, j] = tw.relu(acc + bias[j])


def traced():
    elements = {"a": tw.bf16, "b": tw.bf16, "bias": tw.f32, "c": tw.f16}
    return trace(matmul, {"M": 8, "N": 6, "K": 4}, elements, {"a": (1, 8)})


def test_buffers_are_the_parameters_with_their_roles():
    assert facts.buffers(facts.the_program(traced())) == (
        Buffer("a", tw.bf16, (8, 4), (1, 8), "input"),
        Buffer("b", tw.bf16, (6, 4), (4, 1), "input"),
        Buffer("bias", tw.f32, (6,), (1,), "input"),
        Buffer("c", tw.f16, (8, 6), (6, 1), "output"),
    )


def test_structure():
    program = facts.the_program(traced())
    assert facts.the_grid(program) == ("M", "N")
    assert [loop.axis.data for loop in facts.loops(program)] == ["K"]
    assert [facts.access_of(load) for load in facts.loads(program)] == [
        Access("a", ("M", "K"), (2, -1)),
        Access("b", ("N", "K"), (0, 0)),
        Access("bias", ("N",), (0,)),
    ]
    assert [facts.access_of(store) for store in facts.stores(program)] == [Access("c", ("M", "N"), (0, 0))]
    assert [op.name for op in facts.epilogue_ops(program)] == [
        "tile.load",
        "tile.broadcast",
        "tile.binary",
        "tile.unary",
        "tile.cast",
        "tile.store",
    ]


def test_operands_of_the_product():
    (dot,) = facts.dots(facts.the_program(traced()))
    assert facts.dot_operand(dot.left) == DotOperand(Access("a", ("M", "K"), (2, -1)), False)
    assert facts.dot_operand(dot.right) == DotOperand(Access("b", ("N", "K"), (0, 0)), True)
    assert facts.dot_operand(dot.accumulator) is None
    assert not facts.is_zero_past_end(dot.left, "K")
    assert facts.is_zero_past_end(dot.left, "M")
    assert facts.is_zero_past_end(dot.right, "K")
    assert not facts.is_zero_past_end(dot.right, "M")


def test_a_computed_operand_is_no_plain_one():
    @tw.kernel
    def scaled(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot((a[i, k] * 2).to(tw.bf16), b[k, j])
        c[i, j] = acc

    module = trace(scaled, {"M": 8, "N": 6, "K": 4}, dict.fromkeys("abc", tw.bf16))
    (dot,) = facts.dots(facts.the_program(module))
    assert facts.dot_operand(dot.left) is None
    assert facts.is_zero_past_end(dot.left, "K")


def test_a_module_without_a_program_is_refused():
    with pytest.raises(TilewrightError, match="a module with 0 tile programs"):
        facts.the_program(ModuleOp([]))


# Expressions over x and y as functions of two tiles, of any depth.
LEAVES = st.one_of(
    st.sampled_from([-1, 0, 2]).map(lambda offset: lambda x, y, i: x[i + offset]),
    st.sampled_from([0, 1]).map(lambda offset: lambda x, y, i: y[i + offset]),
    st.sampled_from([0.0, 1.0, -0.5]).map(lambda number: lambda x, y, i: x[i] * 0 + number),
    st.sampled_from([0.0, 3.0]).map(lambda number: lambda x, y, i: tw.maximum(y[i], number)),
    st.sampled_from([0.0, 3.0]).map(lambda number: lambda x, y, i: y[i] / number),
    st.sampled_from([0.0, 3.0]).map(lambda number: lambda x, y, i: number * y[i]),
)
UNARY = [tw.abs, tw.exp, tw.tanh, tw.sigmoid, tw.relu, tw.gelu, tw.silu, tw.sqrt, lambda t: -t, lambda t: t.to(tw.bf16)]
BINARY = [
    tw.maximum,
    tw.minimum,
    lambda s, t: s + t,
    lambda s, t: s - t,
    lambda s, t: s * t,
    lambda s, t: s / t,
]


def combined(inner):
    return st.one_of(
        st.tuples(st.sampled_from(UNARY), inner).map(lambda p: lambda x, y, i: p[0](p[1](x, y, i))),
        st.tuples(st.sampled_from(BINARY), inner, inner).map(
            lambda p: lambda x, y, i: p[0](p[1](x, y, i), p[2](x, y, i))
        ),
    )


EXPRESSIONS = st.recursive(LEAVES, combined, max_leaves=5)
NUMBERS = st.sampled_from([0.0, 1.0, -2.5, 1e30, np.inf, -np.inf, np.nan])


@settings(max_examples=300, deadline=None)
@given(EXPRESSIONS, st.lists(NUMBERS, min_size=8, max_size=8))
def test_what_is_said_to_be_zero_past_the_end_is_zero(expression, numbers):
    @tw.kernel
    def kernel(x: tw.Tensor["N"], y: tw.Tensor["N"], z: tw.Tensor["N"]):
        i = tw.grid("N")
        z[i] = expression(x, y, i) + (x[i] - x[i]) * 0 + (y[i] - y[i]) * 0

    def value_stored(module):
        (store,) = facts.stores(facts.the_program(module))
        return store.value.owner.operands[0].owner.operands[0]

    elements = dict.fromkeys("xyz", tw.f32)
    said_zero = facts.is_zero_past_end(value_stored(trace(kernel, {"N": 4}, elements)), "N")
    # The same program over a longer extent, its arrays zero past the first four: what a partial last tile would hold.
    x, y = (np.concatenate([part, np.zeros(5)]).astype(np.float32) for part in (numbers[:4], numbers[4:]))
    past_end = evaluate(trace(kernel, {"N": 9}, elements), {"x": x, "y": y}, rounded=False)["z"][4:]
    if said_zero:
        np.testing.assert_array_equal(past_end, 0.0)


def test_zero_past_the_end_is_found_where_expected():
    def asked(expression):
        @tw.kernel
        def kernel(x: tw.Tensor["M", "N"], row: tw.Tensor["N"], z: tw.Tensor["M", "N"]):
            i, j = tw.grid("M", "N")
            z[i, j] = expression(x, row, i, j).to(tw.bf16)

        module = trace(kernel, {"M": 4, "N": 4}, {"x": tw.f32, "row": tw.f32, "z": tw.bf16})
        (store,) = facts.stores(facts.the_program(module))
        return [axis for axis in "MN" if facts.is_zero_past_end(store.value, axis)]

    assert asked(lambda x, row, i, j: x[i, j] * 2 + row[j] * x[i, j + 1]) == ["N"]
    assert asked(lambda x, row, i, j: x[i, j] + row[j]) == ["N"]
    assert asked(lambda x, row, i, j: tw.gelu(x[i, j]) / 3 + row[j] * 0) == ["N"]
    assert asked(lambda x, row, i, j: tw.exp(x[i, j]) * row[j]) == []
    assert asked(lambda x, row, i, j: x[i, j] * tw.exp(row[j])) == []
    assert asked(lambda x, row, i, j: x[i, j] * (row[j] / 0.0)) == []
    assert asked(lambda x, row, i, j: x[i - 1, j] * 2 + row[j] * 0.0) == ["N"]
    assert asked(lambda x, row, i, j: x[i, j] / 0.0 + row[j]) == []
