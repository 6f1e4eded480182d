# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""The matrices of a small instance's batch: together where only maps reach them, else where they were."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.reproof.small_batch import moved_together
from tilewright.ir.tile.types import TensorType


@tw.kernel
def residual(
    a: tw.Tensor["B", "M", "K"], b: tw.Tensor["K", "N"], r: tw.Tensor["B", "M", "N"], c: tw.Tensor["B", "M", "N"]
):
    p, i, j = tw.grid("B", "M", "N")
    acc = tw.zeros(p, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[p, i, k], b[k, j])
    c[p, i, j] = acc + r[p, i, j]


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 30), st.integers(0, 5000))
def test_moved_matrices_do_not_overlap(rows, columns, pitch_gap, batch_gap):
    pitch = columns + pitch_gap
    stride = rows * pitch + batch_gap
    tensor = TensorType.of(("B", "M", "N"), (7, rows, columns), (stride, pitch, 1), Element.BF16)
    small = {"B": 2, "M": min(rows, 3), "N": min(columns, 5)}
    strides = moved_together(tensor, (stride, pitch, 1), small, "B")
    assert strides[1:] == (pitch, 1) and strides[0] <= stride
    moved = TensorType.of(("B", "M", "N"), tuple(small.values()), strides, Element.BF16)
    assert moved.is_injective
    if stride % 8 == 0:
        assert strides[0] % 8 == 0


def test_a_tensor_without_the_batch_stays():
    tensor = TensorType.of(("M", "N"), (8, 8), (100, 1), Element.F32)
    assert moved_together(tensor, (100, 1), {"M": 2, "N": 2}, "B") == (100, 1)


@pytest.mark.parametrize("strides", [{}, {"c": (256 * 136 + 1, 136, 1)}])
def test_whole_programs_are_proven_as_text(strides):
    made = compile_kernel(
        residual, dims={"B": 9, "M": 256, "N": 136, "K": 320}, strides=strides, assembled=False, rerun=True
    )
    assert made.text_proof is not None


def test_a_wrong_batch_is_refused():
    with pytest.raises(TilewrightError, match="axis B of kernel residual has extent -1"):
        compile_kernel(residual, dims={"B": -1, "M": 8, "N": 8, "K": 8}, assembled=False)
