# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Whole programs on the CPU machine against NumPy: shapes, strides, displacements, tiles, stages, clusters."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lower.lowered_programs import (
    assert_close,
    blur,
    gemm,
    lower,
    matmul,
    matmul_bias_relu,
    matmul_gelu,
    product_of_sums,
    random_inputs,
    residual,
    two_results,
)

import tilewright.frontends.tile.language as tw
from tilewright.base.verdict import Proven
from tilewright.contract.typestate.typestate import verify
from tilewright.ir.ac import operations as ac
from tilewright.synth.decide import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")


@tw.kernel
def displaced_operands(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i + 3, k], b[k, j - 8])
    c[i, j] = acc


@tw.kernel
def displaced_in_depth(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k - 1], b[k - 1, j + 5])
    c[i, j] = acc


@tw.kernel
def rows_by_rows(a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[j, k].T)
    c[i, j] = tw.sigmoid(acc)


PRODUCTS = [
    matmul,
    matmul_bias_relu,
    matmul_gelu,
    residual,
    product_of_sums,
    two_results,
    displaced_operands,
    displaced_in_depth,
    rows_by_rows,
]
extent = st.one_of(
    st.integers(1, 3), st.integers(1, 150), st.integers(1, 20).map(lambda n: 8 * n), st.sampled_from([64, 128, 192])
)
wanted = st.builds(
    Wanted,
    st.sampled_from([None, (64, 64), (128, 128), (64, 256), (256, 128)]),
    st.sampled_from([None, 2, 3]),
    st.sampled_from([None, (2, 1), (1, 2)]),
).filter(lambda w: w.cluster is None or w.tile in ((128, 128), (256, 128)))


@st.composite
def strided(draw, kernel, dims):
    """Row-major or column-major strides, with a pitch that may break every alignment."""
    strides = {}
    for parameter in kernel.parameters:
        if len(parameter.axes) == 2 and draw(st.booleans()):
            rows, columns = (dims[axis] for axis in parameter.axes)
            gap = draw(st.sampled_from([0, 1, 8]))
            strides[parameter.name] = (columns + gap, 1) if draw(st.booleans()) else (1, rows + gap)
    return strides


@pytest.mark.full
@settings(max_examples=45, deadline=None)
@given(st.data(), st.sampled_from(PRODUCTS), extent, extent, extent, wanted)
def test_products(data, kernel, m, n, k, choice):
    """Computes what NumPy does, and every kernel with a protocol is proved."""
    dims = {"M": m, "N": n, "K": k}
    operand = tw.bf16 if kernel is product_of_sums else data.draw(st.sampled_from([tw.bf16, tw.f16]))
    elements = {
        parameter.name: operand if parameter.name in "ab" else data.draw(st.sampled_from([tw.bf16, tw.f16, tw.f32]))
        for parameter in kernel.parameters
    }
    lowered = lower(kernel, dims, elements, data.draw(strided(kernel, dims)), choice)
    for module in lowered.kernels:
        if any(isinstance(op, ac.RingOp) for op in module.walk()):
            assert isinstance(verify(module, HOPPER), Proven)
    assert_close(lowered, random_inputs(lowered))


@settings(max_examples=15, deadline=None)
@given(st.data(), extent, extent, st.sampled_from([tw.bf16, tw.f16, tw.f32]))
def test_elementwise(data, m, n, element):
    dims = {"M": m, "N": n}
    lowered = lower(blur, dims, {"y": element}, data.draw(strided(blur, dims)))
    assert_close(lowered, random_inputs(lowered))


def test_the_comparison_can_fail():
    """An operand read without its transposition is seen."""
    lowered = gemm(64, 64, 128, swapped=False)
    arrays = random_inputs(lowered)
    assert_close(lowered, arrays)
    wrong = lowered.ptx.replace(", 0, 1;", ", 0, 0;")
    assert wrong != lowered.ptx
    with pytest.raises(AssertionError):
        assert_close(lowered, arrays, wrong)
