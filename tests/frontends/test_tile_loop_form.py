# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Products as values that are those of a loop become that loop, to the letter; every other program stays as it is."""

import numpy as np
import pytest

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.driver.compile.compile import compile_kernel
from tilewright.frontends.tile.loop_form import in_loop_form
from tilewright.frontends.tile.reference import DTYPES, evaluate
from tilewright.frontends.tile.trace import fingerprint, trace
from tilewright.frontends.tile.value_form import in_value_form
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.operations import LoopOp

PAIRS = {}
A, B, C = tw.Tensor["M", "K"], tw.Tensor["N", "K"], tw.Tensor["M", "N"]


def pair(function):
    """Register a pair of kernels that must come out the same: of values, and of a loop."""
    PAIRS[function.__name__] = tuple(tw.kernel(each) for each in function())
    return function


@pair
def transposed():
    def program(a: A, b: B, c: C):
        i, j, k = tw.axes("M N K")
        c[i, j] = tw.relu(tw.dot(a[i, k], b[j, k], over=k))

    value = program

    def program(a: A, b: B, c: C):
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[i, k], b[j, k].T)
        c[i, j] = tw.relu(acc)

    return value, program


@pair
def the_other_operand_first():
    def program(a: tw.Tensor["K", "M"], b: tw.Tensor["K", "N"], bias: tw.Tensor["N"], c: C):
        i, j, k = tw.axes("M", "N", "K")
        c[i, j] = tw.dot(b[k, j], a[k, i], over=k) * 0.5 + bias[j]

    value = program

    def program(a: tw.Tensor["K", "M"], b: tw.Tensor["K", "N"], bias: tw.Tensor["N"], c: C):
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[k, i].T, b[k, j])
        c[i, j] = acc * 0.5 + bias[j]

    return value, program


@pair
def gated_and_stored_across():
    def program(x: A, w: B, v: B, y: tw.Tensor["N", "M"]):
        i, j, k = tw.axes("M N K")
        gate = tw.dot(x[i, k], w[j, k], over=k)
        y[j, i] = (tw.silu(gate) * tw.dot(x[i, k], v[j, k], over=k)).T

    value = program

    def program(x: A, w: B, v: B, y: tw.Tensor["N", "M"]):
        i, j = tw.grid("M", "N")
        gate, linear = tw.zeros(i, j), tw.zeros(i, j)
        for k in tw.loop("K"):
            gate += tw.dot(x[i, k], w[j, k].T)
            linear += tw.dot(x[i, k], v[j, k].T)
        y[j, i] = (tw.silu(gate) * linear).T

    return value, program


@pair
def computed_in_float32():
    def program(a: A, s: tw.Tensor["M"], b: B, c: C):
        i, j, k = tw.axes("M N K")
        c[i, j] = tw.dot(tw.exp(a[i, k] * s[i]), b[j, k + 1], over=k)

    value = program

    def program(a: A, s: tw.Tensor["M"], b: B, c: C):
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(tw.exp(a[i, k] * s[i]).to(tw.bf16), b[j, k + 1].T)
        c[i, j] = acc

    return value, program


@pair
def batched():
    def program(a: tw.Tensor["B", "M", "K"], b: tw.Tensor["B", "N", "K"], c: tw.Tensor["B", "M", "N"]):
        p, i, j, k = tw.axes("B M N K")
        c[p, i, j] = tw.dot(a[p, i, k], b[p, j, k], over=k)

    value = program

    def program(a: tw.Tensor["B", "M", "K"], b: tw.Tensor["B", "N", "K"], c: tw.Tensor["B", "M", "N"]):
        p, i, j = tw.grid("B", "M", "N")
        acc = tw.zeros(p, i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[p, i, k], b[p, j, k].T)
        c[p, i, j] = acc

    return value, program


@pair
def one_matrix_for_a_batch():
    def program(a: tw.Tensor["B", "M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["B", "M", "N"]):
        p, i, j, k = tw.grid("B", "M", "N", "K")
        c[p, i, j] = tw.dot(a[p, i, k], b[k, j], over=k)

    value = program

    def program(a: tw.Tensor["B", "M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["B", "M", "N"]):
        p, i, j = tw.grid("B", "M", "N")
        acc = tw.zeros(p, i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[p, i, k], b[k, j])
        c[p, i, j] = acc

    return value, program


@pair
def grouped():
    def program(x: A, w: tw.Tensor["G", "K", "N"], ends: tw.Tensor["G", tw.i32], y: C):
        g, i, j, k = tw.grid(tw.group("G", "M", ends), "N", "K")
        y[i, j] = tw.dot(x[i, k], w[g, k, j], over=k)

    value = program

    def program(x: A, w: tw.Tensor["G", "K", "N"], ends: tw.Tensor["G", tw.i32], y: C):
        g, i, j = tw.grid(tw.group("G", "M", ends), "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(x[i, k], w[g, k, j])
        y[i, j] = acc

    return value, program


DIMS = {"M": 24, "N": 16, "K": 40, "B": 2, "G": 3, "L": 8}


def traced(kernel, element=Element.BF16):
    elements = {parameter.name: parameter.element or element for parameter in kernel.parameters}
    return trace(kernel, {axis: DIMS[axis] for axis in kernel.axes}, elements)


@pytest.mark.parametrize("name", PAIRS)
def test_products_of_matrices_are_the_loop_that_computes_them(name):
    value, loop = PAIRS[name]
    assert fingerprint(traced(value)) == fingerprint(traced(loop))


@pytest.mark.parametrize("name", ["transposed", "computed_in_float32"])
def test_they_are_compiled_to_the_same_text(name):
    dims = {"M": 200, "N": 96, "K": 72}
    value, loop = (compile_kernel(kernel, dims=dims, rerun=False, assembled=False) for kernel in PAIRS[name])
    assert value.decisions == loop.decisions
    assert value.ptx == loop.ptx


KEPT = {}


def kept(function):
    KEPT[function.__name__] = tw.kernel(function)
    return function


@kept
def folded(a: A, b: B, c: tw.Tensor["M"]):
    i, j, k = tw.axes("M N K")
    c[i] = tw.sum(tw.dot(a[i, k], b[j, k], over=k), over=j)


@kept
def of_a_product(a: A, b: B, v: tw.Tensor["N", "L"], c: tw.Tensor["M", "L"]):
    i, j, k, e = tw.axes("M N K L")
    c[i, e] = tw.dot(tw.relu(tw.dot(a[i, k], b[j, k], over=k)), v[j, e], over=j)


@kept
def over_two_axes(a: A, b: B, x: tw.Tensor["M", "L"], y: tw.Tensor["N", "L"], c: C):
    i, j, k, e = tw.axes("M N K L")
    c[i, j] = tw.dot(a[i, k], b[j, k], over=k) + tw.dot(x[i, e], y[j, e], over=e)


@kept
def of_a_vector(a: A, x: tw.Tensor["K"], c: tw.Tensor["M"]):
    i, k = tw.axes("M K")
    c[i] = tw.dot(a[i, k], x[k], over=k)


@kept
def masked(a: A, b: B, c: C):
    i, j, k = tw.axes("M N K")
    c[i, j] = tw.where(j <= i, tw.dot(a[i, k], b[j, k], over=k), 0.0)


@kept
def whose_axis_is_stored(a: A, b: B, c: C, d: A):
    i, j, k = tw.axes("M N K")
    c[i, j] = tw.dot(a[i, k], b[j, k], over=k)
    d[i, k] = a[i, k] * 2


@kept
def beside_a_result_of_fewer_axes(a: A, b: B, s: tw.Tensor["M"], c: C, d: tw.Tensor["M"]):
    i, j, k = tw.axes("M N K")
    c[i, j] = tw.dot(a[i, k], b[j, k], over=k)
    d[i] = s[i] * 2


@kept
def of_unlike_operands(a: A, b: B, x: A, y: B, c: C):
    i, j, k = tw.axes("M N K")
    c[i, j] = tw.dot(a[i, k], b[j, k], over=k) * tw.dot(x[i, k], y[j, k], over=k)


@kept
def batch_in_the_middle(a: tw.Tensor["M", "B", "K"], b: B, c: tw.Tensor["B", "M", "N"]):
    p, i, j, k = tw.axes("B M N K")
    c[p, i, j] = tw.dot(a[i, p, k], b[j, k], over=k)


@pytest.mark.parametrize("name", KEPT)
def test_other_products_stay(name):
    ops = [type(op) for op in traced(KEPT[name]).walk()]
    assert ContractOp in ops and LoopOp not in ops


def test_both_forms_mean_the_same():
    generator = np.random.default_rng(0)
    shapes = {"x": (24, 40), "w": (16, 40), "v": (16, 40)}
    arrays = {name: generator.standard_normal(shape).astype(DTYPES[Element.BF16]) for name, shape in shapes.items()}
    x, w, v = (array.astype(float) for array in arrays.values())
    gate = x @ w.T
    got = evaluate(traced(PAIRS["gated_and_stored_across"][0]), arrays, rounded=False)["y"]
    np.testing.assert_allclose(got, (gate / (1 + np.exp(-gate)) * (x @ v.T)).T, rtol=1e-12)


@pytest.mark.parametrize("name", sorted(PAIRS.keys() - {"grouped"}))
def test_a_loop_has_its_value_form(name):
    """Without the loop, and with it again: the same program to the letter."""
    module = traced(PAIRS[name][1])
    found = in_value_form(module)
    assert found is not None and any(isinstance(op, ContractOp) for op in found.walk())
    assert not any(isinstance(op, LoopOp) for op in found.walk())
    assert fingerprint(in_loop_form(found)) == fingerprint(module)


def test_groups_have_no_value_form():
    assert in_value_form(traced(PAIRS["grouped"][1])) is None


def test_scaled_and_run_time_loops_have_none():
    @tw.kernel
    def scaled(a: A, b: B, s: tw.Tensor["M", "K/2"], c: C):
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[i, k], b[j, k].T) * s[i, k // 2]
        c[i, j] = acc

    assert in_value_form(trace(scaled, {"M": 4, "N": 4, "K": 4}, dict.fromkeys("absc", Element.BF16))) is None
    _, plain = PAIRS["transposed"]
    elements = dict.fromkeys("abc", Element.BF16)
    assert in_value_form(trace(plain, {"M": tw.dynamic(0, 8), "N": 4, "K": 4}, elements)) is None
