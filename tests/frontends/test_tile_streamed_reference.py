"""The NumPy reference on contractions, and on loops that the compiler derives: whatever the tiles, the same numbers."""

import re

import numpy as np
import pytest
from xdsl.builder import Builder
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region
from xdsl.rewriter import InsertPoint

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.frontends.tile.reference import evaluate
from tilewright.ir.function import Function
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.operations import (
    BinaryOp,
    BlockOp,
    BroadcastOp,
    CastOp,
    ConstantOp,
    FullOp,
    GridOp,
    LoadOp,
    LoopOp,
    PositionOp,
    ProgramOp,
    ReturnOp,
    ShiftOp,
    StoreOp,
    UnaryOp,
    YieldOp,
)
from tilewright.ir.tile.reduce import ReduceOp
from tilewright.ir.tile.types import IndexType, TensorType

EXTENTS = {"M": 5, "T": 7, "E": 3, "F": 4, "B": 2, "H": 6, "H/3": 2}
AT = "m.py:1"


def tensor(*axes, element=Element.F16):
    extents = tuple(EXTENTS[axis] for axis in axes)
    strides = [1]
    for extent in reversed(extents[1:]):
        strides.append(strides[-1] * extent)
    return TensorType.of(axes, extents, tuple(reversed(strides)), element)


class Writer:
    """Appends ops to a block and gives their results."""

    def __init__(self, block):
        self.builder = Builder(InsertPoint.at_end(block))

    def __call__(self, op):
        self.builder.insert(op)
        results = op.results
        return results[0] if len(results) == 1 else results

    def binary(self, function, left, right, axes):
        sides = [side if side.type.axis_names == axes else self(BroadcastOp(side, axes, AT)) for side in (left, right)]
        return self(BinaryOp(function, *sides, AT))


def module(parameters, fill):
    """A program over these tensors, by name, whose ops `fill(write, arguments)` appends."""
    block = Block(arg_types=list(parameters.values()))
    write = Writer(block)
    fill(write, block.args)
    write.builder.insert(ReturnOp())
    return ModuleOp([ProgramOp("p", list(parameters), EXTENTS, Region(block), AT)])


def arrays(*shapes, seed=0):
    generator = np.random.default_rng(seed)
    return [generator.standard_normal([EXTENTS[axis] for axis in axes]).astype(np.float16) for axes in shapes]


SIDES = [
    (("M", "E"), ("E", "F"), ("M", "F"), "me,ef->mf"),
    (("M", "E"), ("F", "E"), ("F", "M"), "me,fe->fm"),
    (("B", "M", "E"), ("E", "F"), ("M", "B", "F"), "bme,ef->mbf"),
    (("B", "M", "E"), ("B", "E", "F"), ("B", "M", "F"), "bme,bef->bmf"),
    (("B", "H", "E"), ("H", "B", "E"), ("B", "H"), "bhe,hbe->bh"),
    (("E",), ("E",), (), "e,e->"),
]


@pytest.mark.parametrize(("left", "right", "wanted", "formula"), SIDES)
def test_contractions_are_sums_of_products(left, right, wanted, formula):
    def fill(write, arguments):
        names = ("B", "H", "M", "E", "F")
        index = dict(zip(names, write(GridOp(names, AT)), strict=True))
        sides = [
            write(LoadOp(argument, [index[axis] for axis in axes], AT))
            for argument, axes in zip(arguments, (left, right), strict=False)
        ]
        product = write(ContractOp(*sides, "E", wanted, AT))
        product.owner.verify_()
        spread = write(BroadcastOp(product, ("B", "H", "M", "F"), AT)) if len(wanted) < 4 else product
        write(StoreOp(spread, arguments[2], [index[axis] for axis in ("B", "H", "M", "F")], AT))

    x, y = arrays(left, right)
    target = tensor("B", "H", "M", "F", element=Element.F32)
    program = module({"x": tensor(*left), "y": tensor(*right), "z": target}, fill)
    got = evaluate(program, {"x": x, "y": y}, rounded=False)["z"]
    expected = np.einsum(formula, x.astype(float), y.astype(float))
    shape = [EXTENTS[axis] if axis in wanted else 1 for axis in ("B", "H", "M", "F")]
    order = sorted(range(len(wanted)), key=lambda place: ("B", "H", "M", "F").index(wanted[place]))
    np.testing.assert_allclose(got, np.broadcast_to(expected.transpose(order).reshape(shape), got.shape), rtol=1e-12)


def test_blocks_of_an_axis_of_the_other_operand_are_spread():
    def fill(write, arguments):
        h, m, e, f = write(GridOp(("H", "M", "E", "F"), AT))
        group = write(BlockOp(h, 3, AT))
        x = write(LoadOp(arguments[0], [h, m, e], AT))
        y = write(LoadOp(arguments[1], [group, e, f], AT))
        product = write(ContractOp(x, y, "E", ("H", "M", "F"), AT))
        product.owner.verify_()
        write(StoreOp(product, arguments[2], [h, m, f], AT))

    x, y = arrays(("H", "M", "E"), ("H/3", "E", "F"))
    target = tensor("H", "M", "F", element=Element.F32)
    program = module({"x": tensor("H", "M", "E"), "y": tensor("H/3", "E", "F"), "z": target}, fill)
    got = evaluate(program, {"x": x, "y": y}, rounded=False)["z"]
    expected = np.einsum("hme,hef->hmf", x.astype(float), y.astype(float).repeat(3, axis=0))
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def attention(write, arguments):
    """Online softmax along T, weights written in a second loop."""
    m, e, f = write(GridOp(("M", "E", "F"), AT))
    queries = write(LoadOp(arguments[0], [m, e], AT))
    lowest = write(BroadcastOp(write(ConstantOp(-np.inf, AT)), ("M",), AT))
    start = [lowest, write(FullOp(0, ["M"], AT)), write(FullOp(0, ["M", "F"], AT))]

    def scores(inner, t):
        keys = inner(LoadOp(arguments[1], [t, e], AT))
        plain = inner(ContractOp(queries, keys, "E", ("M", "T"), AT))
        return inner.binary(Function.ADD, plain, inner(PositionOp(t, AT)), ("M", "T"))

    body = Block(arg_types=[IndexType.of("T"), *(value.type for value in start)])
    t, largest, total, values = body.args
    inner = Writer(body)
    s = scores(inner, t)
    new = inner(BinaryOp(Function.MAX, largest, inner(ReduceOp(Function.MAX, s, "T", AT)), AT))
    fix = inner(UnaryOp(Function.EXP, inner(BinaryOp(Function.SUB, largest, new, AT)), AT))
    weights = inner(UnaryOp(Function.EXP, inner.binary(Function.SUB, s, new, ("M", "T")), AT))
    more = inner(ReduceOp(Function.ADD, weights, "T", AT))
    total_new = inner(BinaryOp(Function.ADD, inner(BinaryOp(Function.MUL, total, fix, AT)), more, AT))
    product = inner(ContractOp(weights, inner(LoadOp(arguments[2], [t, f], AT)), "T", ("M", "F"), AT))
    values_new = inner(BinaryOp(Function.ADD, inner.binary(Function.MUL, values, fix, ("M", "F")), product, AT))
    inner.builder.insert(YieldOp([new, total_new, values_new]))
    largest, total, values = write(LoopOp("T", start, Region(body), AT, streamed=True))

    write(StoreOp(write.binary(Function.DIV, values, total, ("M", "F")), arguments[3], [m, f], AT))
    body = Block(arg_types=[IndexType.of("T")])
    inner = Writer(body)
    s = scores(inner, body.args[0])
    weights = inner(UnaryOp(Function.EXP, inner.binary(Function.SUB, s, largest, ("M", "T")), AT))
    shown = inner(CastOp(inner.binary(Function.DIV, weights, total, ("M", "T")), Element.F16, AT))
    inner.builder.insert(StoreOp(shown, arguments[4], [m, body.args[0]], AT))
    inner.builder.insert(YieldOp([]))
    write(LoopOp("T", [], Region(body), AT, streamed=True))


PARAMETERS = {
    "q": tensor("M", "E"),
    "k": tensor("T", "E"),
    "v": tensor("T", "F"),
    "o": tensor("M", "F", element=Element.F32),
    "p": tensor("M", "T"),
}


@pytest.mark.parametrize("elements", [1, 2, 3, 6, 7, 8, None])
def test_derived_loops_run_for_tiles_of_any_size(elements):
    inputs = dict(zip("qkv", arrays(("M", "E"), ("T", "E"), ("T", "F")), strict=True))
    tiles = {} if elements is None else {"T": elements}
    got = evaluate(module(PARAMETERS, attention), inputs, rounded=False, tile_elements=tiles)
    q, k, v = (array.astype(float) for array in inputs.values())
    weights = np.exp(q @ k.T + np.arange(EXTENTS["T"]))
    weights /= weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(got["p"], weights, rtol=1e-12)
    np.testing.assert_allclose(got["o"], weights @ v, rtol=1e-12)
    rounded = evaluate(module(PARAMETERS, attention), inputs, tile_elements=tiles)["p"]
    assert rounded.dtype == np.float16
    np.testing.assert_allclose(rounded, weights, rtol=2**-10, atol=2**-24)


def test_the_carried_values_are_those_of_the_tile_before():
    """Without its correction the sum depends on tiles: the evaluator does not hide a wrong derivation."""
    wrong = module(PARAMETERS, attention)
    fix = next(op for op in wrong.walk() if isinstance(op, UnaryOp))
    fix.result.replace_all_uses_with(fix.operand)
    inputs = dict(zip("qkv", arrays(("M", "E"), ("T", "E"), ("T", "F")), strict=True))
    results = [evaluate(wrong, inputs, rounded=False, tile_elements={"T": elements})["o"] for elements in (2, 3)]
    assert not np.allclose(*results)


def test_tiles_of_no_elements_are_refused():
    with pytest.raises(TilewrightError, match=re.escape("tiles of 0 elements along T")):
        evaluate(
            module(PARAMETERS, attention),
            dict(zip("qkv", arrays(("M", "E"), ("T", "E"), ("T", "F")), strict=True)),
            tile_elements={"T": 0},
        )


def test_loads_displaced_along_the_streamed_axis_keep_their_places():
    def fill(write, arguments):
        (m,) = write.builder.insert(GridOp(("M",), AT)).results
        body = Block(arg_types=[IndexType.of("T")])
        inner = Writer(body)
        moved = inner(ShiftOp(body.args[0], 2, AT))
        loaded = inner(LoadOp(arguments[0], [m, moved], AT))
        inner.builder.insert(StoreOp(loaded, arguments[1], [m, body.args[0]], AT))
        inner.builder.insert(YieldOp([]))
        write(LoopOp("T", [], Region(body), AT, streamed=True))

    (x,) = arrays(("M", "T"))
    program = module({"x": tensor("M", "T"), "y": tensor("M", "T")}, fill)
    for elements in range(1, 9):
        got = evaluate(program, {"x": x}, tile_elements={"T": elements})["y"]
        np.testing.assert_array_equal(got[:, :-2], x[:, 2:])
        assert not got[:, -2:].any()
