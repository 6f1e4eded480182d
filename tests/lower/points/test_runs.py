"""Workspaces are filled by wide accesses whatever the rows' pitch and the base's alignment, and never from outside the
array."""

# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lower.lowered_programs import Lowered, lower, matmul, product_of_sums

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.plan import PointerParam
from tilewright.base.verdict import Proven, Unknown
from tilewright.contract.typestate.typestate import verify
from tilewright.frontends.ptx.reader import read
from tilewright.ir.ac import operations as ac
from tilewright.ir.tier import IntAttr
from tilewright.machine.core.run import run_launch
from tilewright.synth.decide import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")

FILL_ROWS = 9


def filled(lowered: Lowered, source: np.ndarray, offset: int) -> np.ndarray:
    """The workspace of the left operand, filled from `source` (bytes), whose array begins at element `offset`."""
    fill = lowered.plan.launches[0]
    params = tuple(
        replace(param, offset_bytes=2 * offset) if isinstance(param, PointerParam) and param.buffer == "a" else param
        for param in fill.params
    )
    (name,) = {param.buffer for param in fill.params if isinstance(param, PointerParam)} - {"a"}
    workspace = lowered.plan.buffer(name)
    arrays = {"a": source, name: np.full(workspace.span_bytes, 0xEE, np.uint8)}
    run_launch(read(lowered.ptx), replace(fill, params=params), arrays)
    elements, strides = arrays[name].view(np.uint16), tuple(2 * stride for stride in workspace.strides)
    return np.lib.stride_tricks.as_strided(elements, workspace.shape, strides)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 70), st.integers(0, 9), st.integers(0, 8), st.booleans())
def test_copies_every_element(columns, more, offset, tight):
    """tight: the array ends where the memory does, so one byte too many would be a fault."""
    pitch = columns + more
    dims = {"M": FILL_ROWS, "N": 64, "K": columns}
    lowered = lower(matmul, dims, strides={"a": (pitch, 1)}, wanted=Wanted(misaligned=("a",)))
    span = offset + (FILL_ROWS - 1) * pitch + columns
    source = np.random.default_rng(columns).integers(0, 1 << 16, span + (0 if tight else 64), np.uint16)
    result = filled(lowered, source.view(np.uint8), offset)
    expected = np.lib.stride_tricks.as_strided(source[offset:], (FILL_ROWS, columns), (2 * pitch, 2))
    np.testing.assert_array_equal(result[:FILL_ROWS, :columns], expected)


@pytest.mark.parametrize("stride", [(300, 3), (1, 131)])
def test_strided_sources_are_read_element_by_element(stride):
    lowered = lower(product_of_sums, {"M": FILL_ROWS, "N": 64, "K": 19}, strides={"a": stride})
    a = np.random.default_rng(1).integers(-8, 8, (FILL_ROWS, 19)).astype(ml_dtypes.bfloat16)
    source = np.zeros(1 + (FILL_ROWS - 1) * stride[0] + 18 * stride[1], ml_dtypes.bfloat16)
    np.lib.stride_tricks.as_strided(source, a.shape, (2 * stride[0], 2 * stride[1]))[...] = a
    result = filled(lowered, source.view(np.uint8), 0).copy().view(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(result.astype(np.float32), 2 * a.astype(np.float32) + 1)


@tw.kernel
def rounded(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot((a[i, k] * 0.5).to(tw.f16), b[k, j])
    c[i, j] = acc


@pytest.mark.sample(3)
@pytest.mark.parametrize("offset", range(4))
@pytest.mark.parametrize("pitch", [27, 28])
def test_elements_of_four_bytes_come_in_two_units(offset, pitch):
    kinds = {"a": Element.F32, "b": Element.F16, "c": Element.F16}
    lowered = lower(rounded, {"M": FILL_ROWS, "N": 64, "K": 27}, kinds, {"a": (pitch, 1)})
    source = np.random.default_rng(3).standard_normal(offset + (FILL_ROWS - 1) * pitch + 27).astype(np.float32)
    # `filled` counts offsets in elements of two bytes.
    result = filled(lowered, source.view(np.uint8), 2 * offset).copy().view(np.float16)
    expected = np.lib.stride_tricks.as_strided(source[offset:], (FILL_ROWS, 27), (4 * pitch, 4))
    np.testing.assert_array_equal(result, (expected * np.float32(0.5)).astype(np.float16))


@tw.kernel
def displaced(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i - 2, k + 3], b[k, j])
    c[i, j] = acc


def test_a_displaced_operand_is_zero_outside_its_array():
    lowered = lower(displaced, {"M": FILL_ROWS, "N": 64, "K": 40})
    a = np.random.default_rng(2).integers(1, 1 << 15, (FILL_ROWS, 40), np.uint16)
    result = filled(lowered, a.view(np.uint8).reshape(-1), 0)
    expected = np.zeros_like(a)
    expected[2:, :-3] = a[:-2, 3:]
    np.testing.assert_array_equal(result, expected)


def test_a_run_that_would_begin_inside_a_unit_is_not_proven():
    lowered = lower(matmul, {"M": FILL_ROWS, "N": 64, "K": 41}, strides={"a": (43, 1)})
    fill = lowered.kernels[0]
    assert not isinstance(verify(fill, HOPPER), Unknown)
    for op in fill.walk():
        if isinstance(op, ac.ElementwiseOp):
            op.properties["run"] = IntAttr(5)
    assert isinstance(verify(fill, HOPPER), Unknown)


def test_the_next_grid_may_not_begin_before_this_one_has_waited():
    fill, pipeline = lower(matmul, {"M": 64, "N": 64, "K": 41}).kernels[-2:]
    assert all(isinstance(verify(module, HOPPER), Proven) for module in (fill, pipeline))
    for op in list(fill.walk()):
        if isinstance(op, ac.GridWaitOp):
            op.detach()
    assert isinstance(verify(fill, HOPPER), Unknown)
    (wait,) = [op for op in pipeline.walk() if isinstance(op, ac.GridWaitOp)]
    block = wait.parent_block()
    wait.detach()
    block.add_op(wait)
    assert isinstance(verify(pipeline, HOPPER), Unknown)


@pytest.mark.parametrize(("columns", "hints"), [(4095, ("evict_first", "evict_last")), (12287, ())])
def test_the_cache_keeps_what_it_can_hold(columns, hints):
    """Of 4096 rows: 34 MB of workspace, and 101 MB, which no L2 cache of the target holds."""
    text = lower(matmul, {"M": 4096, "N": 64, "K": columns}, wanted=Wanted(misaligned=("a",))).ptx
    fill = text[: text.index(".entry matmul(")]
    assert (
        tuple(word for word in ("evict_first", "evict_last") if f"createpolicy.fractional.L2::{word}" in fill) == hints
    )
    assert ("st.global.L2::cache_hint.v4" in fill) == ("ld.global.L2::cache_hint.v4" in fill) == bool(hints)
