# ruff: noqa: F821, E741  (axis names are quoted in annotations; O is the output)
"""Elements, rows and products of what tables lead to: values on the CPU machine, and the kernels that there are."""

import numpy as np
import pytest
from examples.fused import embedding, gathered_matmul
from tests.lower.lowered_programs import lower, random_inputs, run

import tilewright as tw
from tilewright.base.element import Element
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.run.run import run_on_machine
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace


@tw.kernel
def normalized(x: tw.Tensor["R", "N"], ids: tw.Tensor["M", tw.i32], y: tw.Tensor["M", "N"]):
    i, j = tw.axes("M N")
    v = x[ids[i], j]
    y[i, j] = v * tw.rsqrt(tw.mean(v * v, over=j) + 1e-6)


@tw.kernel
def picked(x: tw.Tensor["M", "R"], ids: tw.Tensor["M", "N", tw.i32], y: tw.Tensor["M", tw.f32]):
    i, j = tw.axes("M N")
    y[i] = tw.sum(x[i, ids[i, j]], over=j)


@tw.kernel
def in_pages(x: tw.Tensor["P", "S"], table: tw.Tensor["M", "N/4", tw.i32], y: tw.Tensor["M", "N"]):
    i, j = tw.axes("M N")
    y[i, j] = x[table[i, j // 4], j % 4]


def inputs_of(kernel, dims, lowered):
    arrays = random_inputs(lowered)
    rng = np.random.default_rng(3)
    for each in kernel.parameters:
        if each.element is Element.S32:
            places = dims["R"] if "R" in dims else dims["P"]
            arrays[each.name][...] = rng.integers(-1, places + 1, arrays[each.name].shape)
    return arrays


@pytest.mark.parametrize(
    ("kernel", "dims"),
    [
        (embedding, {"R": 5, "N": 33, "M": 20}),
        (normalized, {"R": 5, "N": 96, "M": 9}),
        (normalized, {"R": 5, "N": 2, "M": 9}),  # rows so short that threads take one each
        (picked, {"R": 50, "N": 40, "M": 7}),
        (in_pages, {"P": 5, "S": 4, "M": 3, "N": 18}),
    ],
)
def test_values(kernel, dims):
    elements = {each.name: each.element or Element.BF16 for each in kernel.parameters}
    lowered = lower(kernel, dims, elements)
    arrays = inputs_of(kernel, dims, lowered)
    ((name, expected),) = evaluate(trace(kernel, dims, elements), arrays, rounded=False).items()
    found = run(lowered, arrays)[name].astype(np.float64)
    assert np.abs(found - expected).max() <= 2.0**-8 * np.abs(expected).max()


@pytest.mark.sample(1)
@pytest.mark.parametrize("rows", [130, 1])
def test_a_product_of_gathered_rows_is_two_kernels(rows):
    dims = {"R": 9, "M": rows, "N": 24, "K": 32}
    made = compile_kernel(gathered_matmul, dims=dims, dtype="bf16", assembled=False)
    assert len(made.plan.launches) == 2 and made.text_proof is not None
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-4, 5, shape).astype("f4").astype("bfloat16") for shape in ((9, 32), (24, 32)))
    ids = rng.integers(0, 9, rows, dtype=np.int32)
    found = run_on_machine(made.bundle(), [x, ids, w])
    assert (np.asarray(found, "f4") == (x.astype("f4")[ids] @ w.astype("f4").T).astype("bfloat16").astype("f4")).all()


@tw.kernel
def rows_one_by_one(
    Q: tw.Tensor["B", "Q", "E"],
    K: tw.Tensor["R", "E"],
    V: tw.Tensor["R", "F"],
    rows: tw.Tensor["B", "T", tw.i32],
    O: tw.Tensor["B", "Q", "F"],
):
    b, q, t, e, f = tw.axes("B Q T E F")
    s = tw.dot(Q[b, q, e], K[rows[b, t], e], over=e) * 0.25
    O[b, q, f] = tw.dot(tw.softmax(s, over=t), V[rows[b, t], f], over=t)


@pytest.mark.full
def test_attention_over_rows_by_number_is_several_kernels():
    dims = {"B": 2, "Q": 4, "T": 40, "E": 16, "F": 16, "R": 9}
    made = compile_kernel(rows_one_by_one, dims=dims, assembled=False)
    assert len(made.plan.launches) > 1 and made.text_proof is not None
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal(shape).astype("f4").astype("bfloat16") for shape in ((2, 4, 16), (9, 16), (9, 16)))
    rows = rng.integers(0, 9, (2, 40), dtype=np.int32)
    arrays = {"Q": q, "K": k, "V": v, "rows": rows}
    elements = {each.name: each.element or Element.BF16 for each in rows_one_by_one.parameters}
    expected = evaluate(trace(rows_one_by_one, dims, elements), arrays, rounded=False)["O"]
    found = np.asarray(run_on_machine(made.bundle(), list(arrays.values())), "f8")
    assert np.abs(found - expected).max() <= 2.0**-7 * np.abs(expected).max()
