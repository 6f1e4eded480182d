# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Operands that no walk takes: the program that stores one and the program that loads it mean what the one did."""

from collections.abc import Mapping

import ml_dtypes
import numpy as np
import pytest

import tilewright.frontends.tile.language as tw
from tilewright.driver.compile.compile import elements_of
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import dots, the_program
from tilewright.synth.cut.operand_before import operand_before
from tilewright.synth.streaming.loop_products import as_walk


@tw.kernel
def both(a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], s: tw.Tensor["M"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    twice = s[i] * 2.0
    for k in tw.loop("K"):
        acc += tw.dot((a[i, k] * twice).to(tw.bf16), tw.exp(b[j + 1, k]).to(tw.bf16).T)
    c[i, j] = acc


@tw.kernel
def displaced(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i + 1, k], b[k - 1, j])
    c[i, j] = acc


@tw.kernel
def rounded(a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K", tw.f8e4m3], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k].to(tw.f8e4m3), b[j, k].T)
    c[i, j] = acc


@tw.kernel
def batched(a: tw.Tensor["B", "M", "K"], b: tw.Tensor["B", "K", "N"], c: tw.Tensor["B", "M", "N"]):
    p, i, j = tw.grid("B", "M", "N")
    acc = tw.zeros(p, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(tw.exp(a[p, i, k]).to(tw.bf16), tw.relu(b[p, k, j]).to(tw.bf16))
    c[p, i, j] = acc


@tw.kernel
def one(a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(tw.exp(a[i, k]).to(tw.bf16), b[j, k].T)
    c[i, j] = acc


@tw.kernel
def in_groups(
    x: tw.Tensor["T", "K"], s: tw.Tensor["T"], w: tw.Tensor["G", "N", "K"], ends: tw.Tensor["G", tw.i32],
    y: tw.Tensor["T", "N"],
):  # fmt: skip
    g, i, j = tw.grid(tw.group("G", "T", ends), "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot((x[i, k] * s[i]).to(tw.bf16), w[g, j, k].T)
    y[i, j] = acc


@tw.kernel
def picked(
    x: tw.Tensor["T", "K"], s: tw.Tensor["G", "N"], w: tw.Tensor["G", "N", "K"], ends: tw.Tensor["G", tw.i32],
    y: tw.Tensor["T", "N"],
):  # fmt: skip
    g, i, j = tw.grid(tw.group("G", "T", ends), "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], (w[g, j, k] * s[g, j]).to(tw.bf16).T)
    y[i, j] = acc


DIMS = {"M": 6, "N": 5, "K": 7, "B": 2, "T": 6, "G": 2}


@pytest.mark.parametrize("kernel", [both, displaced, rounded, batched, in_groups], ids=lambda each: each.name)
def test_the_two_programs_mean_what_the_one_did(kernel: Kernel) -> None:
    module = trace(kernel, {axis: DIMS[axis] for axis in kernel.axes}, elements_of(kernel, "bf16"), None)
    found = operand_before(module)
    assert found is not None
    before, after = found
    random = np.random.default_rng(0)
    arrays: dict[str, np.ndarray] = {}
    for item in kernel.parameters[:-1]:
        shape, narrow = [DIMS[axis] for axis in item.axes], item.element is tw.f8e4m3
        values = random.random(shape).astype(ml_dtypes.float8_e4m3fn if narrow else ml_dtypes.bfloat16)
        arrays[item.name] = np.array([2, 6], np.int32) if item.name == "ends" else values
    stored = evaluate(before, of_program(before, arrays))
    result = evaluate(after, of_program(after, {**arrays, **stored}))
    name = kernel.parameters[-1].name
    np.testing.assert_array_equal(result[name], evaluate(module, arrays)[name])
    rest = operand_before(after)
    assert rest is None and as_walk(after) is not None, "the other operand is one that a walk takes"


def of_program(module, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    names = {each.data for each in the_program(module).parameters}
    return {name: array for name, array in arrays.items() if name in names}


def test_what_a_walk_takes_stays_where_it_is() -> None:
    module = trace(one, {axis: DIMS[axis] for axis in one.axes}, elements_of(one, "bf16"), None)
    assert operand_before(module) is None and len(dots(the_program(module))) == 1


def test_what_a_group_picks_is_not_stored_before() -> None:
    module = trace(picked, {axis: DIMS[axis] for axis in picked.axes}, elements_of(picked, "bf16"), None)
    assert operand_before(module) is None
