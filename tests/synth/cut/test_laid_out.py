# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Copies of arrays that no tensor map describes: the two programs mean what the one did, and are compiled."""

import ml_dtypes
import numpy as np
import pytest
from tests.lower import cascade_programs

import tilewright.frontends.tile.language as tw
from tilewright.base.error import TilewrightError
from tilewright.driver.compile.compile import compile_kernel, elements_of
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.compile.sequence import sequence
from tilewright.driver.run.run import CompiledKernel
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import ElementwiseDecisions
from tilewright.ir.tile.facts import stores, the_program
from tilewright.ir.tile.types import tensor_type
from tilewright.synth.cut.laid_out import laid_out
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")
DIMS = {"M": 6, "N": 5, "K": 7}


@tw.kernel
def by_blocks(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], s: tw.Tensor["M", "K/7"], y: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.dot((x[i, k] * s[i, k // 7]).to(tw.bf16), w[j, k], over=k)


def test_the_copy_and_the_program_of_the_copy_mean_the_same() -> None:
    module = trace(matmul_kernel, DIMS, elements_of(matmul_kernel, "bf16"), None)
    found = laid_out(module, "b", HOPPER)
    assert found is not None
    copy, rest = found
    (workspace,) = {each.data for each in the_program(rest).parameters} - {"a", "c"}
    kind = next(
        tensor_type(each) for each in the_program(rest).body.block.args if tensor_type(each).stride_elements[0] == 8
    )
    assert kind.axis_names == ("K", "N"), "rows of 5 elements begin at multiples of 16 bytes"
    random = np.random.default_rng(0)
    arrays = {name: random.random(shape).astype(ml_dtypes.bfloat16) for name, shape in (("a", (6, 7)), ("b", (7, 5)))}
    copied = evaluate(copy, {"b": arrays["b"]})
    after = evaluate(rest, {"a": arrays["a"], **copied})
    assert list(copied) == [workspace]
    np.testing.assert_array_equal(after["c"], evaluate(module, arrays)["c"])
    assert laid_out(rest, workspace, HOPPER) is None, "it is described as well as an array can be"


@tw.kernel
def displaced(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.dot(x[i - 2, k + 1], w[j, k], over=k) + tw.dot(x[i, k], w[j, k], over=k)


def test_a_displaced_array_is_copied_displaced() -> None:
    module = trace(displaced, DIMS, elements_of(displaced, "bf16"), None)
    found = laid_out(module, "x", HOPPER)
    assert found is not None
    copy, rest = found
    (workspace,) = {each.data for each in the_program(rest).parameters} - {"x", "w", "y"}
    random = np.random.default_rng(0)
    x, w = (random.random(shape).astype(ml_dtypes.bfloat16) for shape in ((6, 7), (5, 7)))
    copied = evaluate(copy, {"x": x})
    expected = np.zeros_like(x)
    expected[2:, :-1] = x[:-2, 1:]
    np.testing.assert_array_equal(copied[workspace], expected)
    after = evaluate(rest, {"x": x, "w": w, **copied})
    np.testing.assert_array_equal(after["y"], evaluate(module, {"x": x, "w": w})["y"])
    again = laid_out(rest, "x", HOPPER)
    assert again is not None, "it is read in place, and its rows of 7 elements are laid out as before"
    assert {each.data for each in the_program(again[1]).parameters}.isdisjoint({"x"})


def test_a_copy_may_have_another_axis_innermost() -> None:
    module = trace(matmul_kernel, DIMS, elements_of(matmul_kernel, "bf16"), None)
    found = laid_out(module, "b", HOPPER, "K")
    assert found is not None
    copy, rest = found
    (workspace,) = (each.data for each in the_program(copy).parameters if each.data != "b")
    kind = next(
        tensor_type(each)
        for each, name in zip(the_program(rest).body.block.args, the_program(rest).parameters, strict=True)
        if name.data == workspace
    )
    assert (kind.axis_names, kind.stride_elements) == (("K", "N"), (1, 8))
    assert laid_out(module, "b", HOPPER, "M") is None, "b has no such axis"
    assert laid_out(rest, workspace, HOPPER, "K") is None


def test_a_dense_array_is_copied_where_it_may_begin_anywhere() -> None:
    """Its copy has the same layout, and begins at a multiple of 16 bytes."""
    module = trace(matmul_kernel, {"M": 64, "N": 64, "K": 64}, elements_of(matmul_kernel, "bf16"), None)
    assert laid_out(module, "b", HOPPER) is None
    assert laid_out(module, "b", HOPPER, misaligned=True) is not None
    parts = sequence(module, HOPPER, Wanted(misaligned=("b",), unmapped="workspace"))
    assert len(parts) == 2 and "b" not in {slot.buffer for slot in parts[-1].decisions.slots}


@tw.kernel
def of_gathered_rows(
    x: tw.Tensor["R", "K"], rows: tw.Tensor["M", tw.i32], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[rows[i], k], w[j, k].T)
    y[i, j] = acc


@tw.kernel
def gathered_twice(
    x: tw.Tensor["R", "K"], rows: tw.Tensor["M", tw.i32], others: tw.Tensor["N", tw.i32], y: tw.Tensor["M", "N"]
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[rows[i], k], x[others[j], k].T)
    y[i, j] = acc


def test_what_integers_lead_to_is_put_together_first() -> None:
    """Numbers that are no place read as zero; the program after knows nothing of the array and its table."""
    module = trace(of_gathered_rows, {**DIMS, "R": 4}, elements_of(of_gathered_rows, "bf16"), None)
    found = laid_out(module, "x", HOPPER)
    assert found is not None
    copy, rest = found
    assert {each.data for each in the_program(rest).parameters} == {"w", "y", "of_gathered_rows_x"}
    random = np.random.default_rng(0)
    x, w = (random.random(shape).astype(ml_dtypes.bfloat16) for shape in ((4, 7), (5, 7)))
    rows = np.array([3, -1, 0, 4, 3, 1], np.int32)
    gathered = evaluate(copy, {"x": x, "rows": rows})
    after = evaluate(rest, {"w": w, **gathered})
    np.testing.assert_array_equal(after["y"], evaluate(module, {"x": x, "rows": rows, "w": w})["y"])
    assert not after["y"][1].any() and not after["y"][3].any()


def test_an_array_that_is_gathered_in_two_ways_is_refused_at_its_line() -> None:
    module = trace(gathered_twice, {**DIMS, "R": 4}, elements_of(gathered_twice, "bf16"), None)
    assert laid_out(module, "x", HOPPER) is None
    for name in ("sm_90a", "sm_100a"):
        with pytest.raises(TilewrightError) as caught:
            sequence(module, target(name), Wanted())
        assert caught.value.span is not None


@pytest.mark.parametrize("name", ["sm_90a", "sm_100a"])
def test_gathered_rows_beside_a_product_in_a_loop(name: str) -> None:
    made = compile_kernel(of_gathered_rows, target=name, dims={"M": 70, "N": 40, "K": 72, "R": 9})
    assert [launch.entry for launch in made.plan.launches] == ["of_gathered_rows_x_gathered", "of_gathered_rows"]
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((9, 72), (40, 72)))
    rows = random.integers(-1, 10, 70).astype(np.int32)
    exact = np.where(((rows >= 0) & (rows < 9))[:, None], x.astype(np.float64)[rows % 9], 0) @ w.astype(np.float64).T
    found = CompiledKernel(made.bundle())(x, rows, w).astype(np.float64)
    assert np.linalg.norm(found - exact) <= 4e-3 * np.linalg.norm(exact)


def test_what_is_read_by_blocks_is_copied_by_its_places() -> None:
    dims = {"M": 6, "N": 5, "K": 40}
    module = trace(by_blocks, dims, elements_of(by_blocks, "bf16"), None)
    found = laid_out(module, "s", HOPPER)
    assert found is not None
    copy, rest = found
    assert the_program(copy).extents == {"M": 6, "K": 6}, "six blocks, the last of five elements"
    random = np.random.default_rng(0)
    x, w, s = (random.random(shape).astype(ml_dtypes.bfloat16) for shape in ((6, 40), (5, 40), (6, 6)))
    after = evaluate(rest, {"x": x, "w": w, **evaluate(copy, {"s": s})})
    np.testing.assert_array_equal(after["y"], evaluate(module, {"x": x, "w": w, "s": s})["y"])


def test_what_is_stored_is_not_copied() -> None:
    module = trace(by_blocks, DIMS, elements_of(by_blocks, "bf16"), None)
    assert laid_out(module, "y", HOPPER) is None and laid_out(module, "z", HOPPER) is None


@pytest.mark.parametrize("name", ["sm_90a", "sm_100a"])
def test_copies_come_before_the_kernel(name: str) -> None:
    """Attention on either target, with heads of 60 elements, which are no multiple of 16 bytes."""
    kernel = cascade_programs.attention
    dims = {"B": 1, "H": 1, "Q": 70, "T": 136, "E": 60, "F": 64}
    module = trace(kernel, dims, elements_of(kernel, "bf16"), None)
    parts = sequence(module, target(name), Wanted())
    assert [type(part.decisions) for part in parts] == [ElementwiseDecisions, CascadeDecisions]
    assert len(stores(the_program(parts[0].module))) == 2, "one kernel copies keys and queries"
    with pytest.raises(TilewrightError, match="no tensor map brings k"):
        sequence(module, target(name), Wanted(mapped=("k",)))
