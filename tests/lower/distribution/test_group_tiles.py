# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Products over groups of rows on the CPU machine against NumPy: sizes, remainders, contents of the array of limits."""

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.end_to_end.kernels import consecutive
from tests.lower.lowered_programs import Lowered, instructions, lower, random_inputs, reference, run

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.verdict import Proven
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.compile.compile import compile_kernel
from tilewright.synth.decide import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")


@tw.kernel
def weighed(
    x: tw.Tensor["T", "K"],
    w: tw.Tensor["G", "N", "K"],
    ends: tw.Tensor["G"],
    share: tw.Tensor["T"],
    r: tw.Tensor["T", "N"],
    y: tw.Tensor["T", "N"],
):
    g, i, j = tw.grid(tw.group("G", "T", ends), "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[g, j, k].T)
    y[i, j] = tw.silu(acc) * share[i] + r[i, j]


@tw.kernel
def apart(
    x: tw.Tensor["G", "M", "K"], w: tw.Tensor["G", "K", "N"], counts: tw.Tensor["G"], y: tw.Tensor["G", "M", "N"]
):
    g, i, j = tw.grid("G", tw.within("M", counts), "N")
    acc = tw.zeros(g, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[g, i, k], w[g, k, j])
    y[g, i, j] = acc


@tw.kernel
def bias_of_each(
    x: tw.Tensor["T", "K"],
    w: tw.Tensor["G", "K", "N"],
    b: tw.Tensor["G", "N"],
    ends: tw.Tensor["G"],
    y: tw.Tensor["T", "N"],
):
    g, i, j = tw.grid(tw.group("G", "T", ends), "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[g, k, j])
    y[i, j] = tw.gelu(acc + b[g, j])


@tw.kernel
def gated(
    x: tw.Tensor["T", "K"],
    v: tw.Tensor["G", "N", "K"],
    w: tw.Tensor["G", "N", "K"],
    ends: tw.Tensor["G"],
    y: tw.Tensor["T", "N"],
):
    g, i, j = tw.grid(tw.group("G", "T", ends), "N")
    gate, up = tw.zeros(i, j), tw.zeros(i, j)
    for k in tw.loop("K"):
        gate += tw.dot(x[i, k], v[g, j, k].T)
        up += tw.dot(x[i, k], w[g, j, k].T)
    y[i, j] = tw.silu(gate) * up


@tw.kernel
def weighed_apart(
    x: tw.Tensor["G", "M", "K"],
    w: tw.Tensor["G", "K", "N"],
    b: tw.Tensor["G", "N"],
    share: tw.Tensor["G", "M"],
    r: tw.Tensor["G", "M", "N"],
    counts: tw.Tensor["G"],
    y: tw.Tensor["G", "M", "N"],
):
    g, i, j = tw.grid("G", tw.within("M", counts), "N")
    acc = tw.zeros(g, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[g, i, k], w[g, k, j])
    y[g, i, j] = (acc + b[g, j]) * share[g, i] + r[g, i, j]


ENDS = {"ends": Element.S32}
COUNTS = {"counts": Element.S32}


def build(kernel: tw.Kernel, dims: dict[str, int], tile: tuple[int, int] | None = None, stages: int | None = None):
    limits = COUNTS if kernel in (apart, weighed_apart) else ENDS
    return lower(kernel, dims, dict(limits), wanted=Wanted(tile=tile, stages=stages))


def outcome(lowered: Lowered, limits: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """What the machine computes and what it should, with rows outside every group 0 in both."""
    arrays = random_inputs(lowered)
    name = next(buffer.name for buffer in lowered.plan.buffers if buffer.element is Element.S32)
    arrays[name] = np.array(limits, np.int32)
    return run(lowered, arrays)["y"].astype(np.float64), reference(lowered, arrays)["y"]


def assert_agrees(lowered: Lowered, limits: list[int]) -> None:
    got, expected = outcome(lowered, limits)
    scale = float(np.abs(expected).max()) or 1.0
    assert np.all(np.abs(got - expected) <= 2.0**-8 * np.abs(expected) + 1e-5 * scale)


def test_groups_of_every_sort_are_proven_and_right() -> None:
    lowered = build(consecutive, {"T": 200, "G": 6, "K": 136, "N": 136}, (64, 128))
    assert isinstance(verify(lowered.kernels[0], HOPPER), Proven)
    assert_agrees(lowered, list(accumulate([0, 65, 0, 64, 3, 50])))


def test_a_result_multiplied_by_a_number_for_each_row() -> None:
    lowered = build(weighed, {"T": 150, "G": 3, "K": 72, "N": 192}, (64, 128))
    assert isinstance(verify(lowered.kernels[0], HOPPER), Proven)
    assert_agrees(lowered, [70, 71, 150])


def test_a_bias_for_each_group() -> None:
    lowered = build(bias_of_each, {"T": 150, "G": 3, "K": 72, "N": 200}, (64, 128))
    assert isinstance(verify(lowered.kernels[0], HOPPER), Proven)
    assert_agrees(lowered, [70, 70, 150])


@pytest.mark.sample(2)
@pytest.mark.parametrize("tile", [None, (64, 128), (128, 128)])
def test_two_products_of_one_operand(tile: tuple[int, int] | None) -> None:
    lowered = build(gated, {"T": 150, "G": 3, "K": 136, "N": 200}, tile)
    assert isinstance(verify(lowered.kernels[0], HOPPER), Proven)
    assert_agrees(lowered, [70, 70, 150])


def test_slices_of_two_spans() -> None:
    lowered = lower(
        weighed, {"T": 150, "G": 3, "K": 328, "N": 192}, dict(ENDS), wanted=Wanted(tile=(64, 128), depth=128)
    )
    assert isinstance(verify(lowered.kernels[0], HOPPER), Proven)
    assert_agrees(lowered, [70, 71, 150])


def test_everything_beside_groups_that_stand_apart() -> None:
    lowered = build(weighed_apart, {"M": 100, "G": 3, "K": 72, "N": 136}, (64, 128))
    assert isinstance(verify(lowered.kernels[0], HOPPER), Proven)
    assert_agrees(lowered, [100, 0, 65])


@pytest.mark.parametrize("columns", [7, 129])
def test_rows_that_are_no_whole_vectors_go_in_words(columns: int) -> None:
    lowered = build(weighed, {"T": 90, "G": 2, "K": 64, "N": columns}, (64, 128))
    assert "st.global.v4" not in lowered.ptx
    assert_agrees(lowered, [20, 90])


@pytest.mark.full
@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.integers(0, 150), min_size=1, max_size=9),
    st.sampled_from([(64, 128), (128, 128), (128, 256)]),
    st.integers(1, 3),
    st.integers(0, 20),
)
def test_any_sizes(sizes: list[int], tile: tuple[int, int], slices: int, over: int) -> None:
    rows = max(1, sum(sizes) + over)
    lowered = build(consecutive, {"T": rows, "G": len(sizes), "K": 64 * slices - 8, "N": 200}, tile, 2)
    assert_agrees(lowered, list(accumulate(sizes)))


@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(0, 100), min_size=1, max_size=5), st.sampled_from([(64, 128), (128, 128)]))
def test_groups_that_stand_apart(counts: list[int], tile: tuple[int, int]) -> None:
    lowered = build(apart, {"M": 100, "G": len(counts), "K": 72, "N": 136}, tile)
    assert isinstance(verify(lowered.kernels[0], HOPPER), Proven)
    assert_agrees(lowered, counts)


def test_rows_of_a_group_know_nothing_of_its_neighbours() -> None:
    """Rows past a group's end are loaded, and may hold anything."""
    lowered = build(consecutive, {"T": 40, "G": 2, "K": 64, "N": 128}, (64, 128))
    arrays = random_inputs(lowered)
    arrays["ends"] = np.array([10, 40], np.int32)
    arrays["x"][10:] = np.nan
    got = run(lowered, arrays)["y"].astype(np.float64)
    assert np.isnan(got[10:]).all()
    assert np.allclose(got[:10], reference(lowered, arrays)["y"][:10], rtol=2.0**-7, atol=1e-3)


@pytest.mark.parametrize("limits", [[50, 20, 90], [-5, 400, 3], [2**31 - 1, 0, 0], [-(2**31), -1, 30]])
def test_limits_out_of_order_or_out_of_bounds_write_nothing_outside(limits: list[int]) -> None:
    """Each end counts as the last one at least, and as the extent at most."""
    lowered = build(consecutive, {"T": 70, "G": 3, "K": 64, "N": 64}, (64, 128))
    arrays = random_inputs(lowered)
    arrays["ends"] = np.array(limits, np.int32)
    got = run(lowered, arrays)["y"]
    arrays["ends"] = np.minimum(np.maximum.accumulate(np.array(limits, np.int64)).clip(0), 70).astype(np.int32)
    expected = reference(lowered, arrays)["y"]
    assert np.allclose(got.astype(np.float64), expected, rtol=2.0**-7, atol=1e-3)


@settings(max_examples=6, deadline=None)
@given(
    st.lists(st.integers(0, 150), min_size=1, max_size=7),
    st.sampled_from([(128, 128), (128, 192), (64, 256)]),
    st.integers(2, 5),
)
def test_consumers_that_take_tiles_in_turn(sizes: list[int], tile: tuple[int, int], slices: int) -> None:
    dims = {"T": max(1, sum(sizes)), "G": len(sizes), "K": 64 * slices - 8, "N": 328}
    lowered = lower(consecutive, dims, dict(ENDS), wanted=Wanted(tile=tile, turns=True, stages=2))
    assert isinstance(verify(lowered.kernels[0], HOPPER), Proven)
    assert_agrees(lowered, list(accumulate(sizes)))


def test_weights_that_are_read_once_are_given_up_first() -> None:
    """The policy is a hint alone: text with it is proved as text without."""
    dims = {"T": 64, "G": 16, "K": 2048, "N": 2048}
    lowered = lower(consecutive, dims, dict(ENDS))
    assert {slot.buffer: slot.read_once for slot in lowered.decisions.slots} == {"x": 0, "w": 1}
    copies = [item for item in instructions(lowered.parsed) if item.row == "cp.async.bulk.tensor"]
    given_up = ["L2::cache_hint" in item.modifiers for item in copies]
    assert given_up == ["3d" in item.modifiers for item in copies] and {*given_up} == {True, False}
    assert isinstance(verify(lowered.kernels[0], HOPPER), Proven)
    done = compile_kernel(consecutive, dims=dims, dtype={"ends": "i32"}, assembled=False)
    assert done.text_proof is not None and "evict_first" in done.ptx


@tw.kernel
def of_eight_bits(
    x: tw.Tensor["T", "K"],
    w: tw.Tensor["G", "N", "K"],
    ends: tw.Tensor["G"],
    of_x: tw.Tensor["T"],
    of_w: tw.Tensor["G", "N"],
    y: tw.Tensor["T", "N"],
):
    g, i, j = tw.grid(tw.group("G", "T", ends), "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[g, j, k].T)
    y[i, j] = acc * of_x[i] * of_w[g, j]


def test_operands_of_eight_bits_with_a_factor_for_each_row_and_column() -> None:
    elements = {"x": Element.F8E4M3, "w": Element.F8E4M3, "of_x": Element.F32, "of_w": Element.F32} | ENDS
    lowered = lower(of_eight_bits, {"T": 150, "G": 3, "K": 272, "N": 136}, elements, wanted=Wanted(tile=(64, 128)))
    assert isinstance(verify(lowered.kernels[0], HOPPER), Proven)
    assert_agrees(lowered, [70, 70, 150])
