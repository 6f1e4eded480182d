# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Tensors over blocks: element by element, in computed operands, and beside products; values on the CPU machine."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.end_to_end.blackwell_programs import check_numbers
from tests.lower.lowered_programs import assert_close, lower, random_inputs, small

import tilewright.frontends.tile.language as tw
from tilewright.base.error import TilewrightError
from tilewright.base.verdict import Proven
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.compile.compile import compile_kernel
from tilewright.ir.tile.facts import the_program
from tilewright.synth.decide import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")


@tw.kernel
def dequantized(x: tw.Tensor["M", "N"], s: tw.Tensor["M", "N/7"], t: tw.Tensor["M/3"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] * s[i, j // 7] + t[i // 3 + 1]


@tw.kernel
def turned(x: tw.Tensor["N", "M"], s: tw.Tensor["N/7", "M/5"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    y[i, j] = x[j, i].T * s[j // 7, i // 5].T


@tw.kernel
def scaled_rows(
    a: tw.Tensor["M", "K"],
    b: tw.Tensor["N", "K"],
    s: tw.Tensor["M/5"],
    t: tw.Tensor["M", "N/24"],
    y: tw.Tensor["M", "N"],
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[j, k].T)
    y[i, j] = acc * s[i // 5] + t[i, j // 24]


@tw.kernel
def scaled_operand(a: tw.Tensor["M", "K"], s: tw.Tensor["M", "K/32"], b: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot((a[i, k] * s[i, k // 32]).to(tw.bf16), b[j, k].T)
    y[i, j] = acc


extent = st.one_of(st.integers(1, 100), st.sampled_from([64, 128, 136]))


@settings(max_examples=10, deadline=None)
@given(st.sampled_from([dequantized, turned, scaled_rows, scaled_operand]), extent, extent, extent)
def test_values(kernel, m, n, k):
    dims = {axis: {"M": m, "N": n, "K": k}[axis] for axis in kernel.axes}
    lowered = lower(kernel, dims)
    for module in lowered.kernels:
        assert isinstance(verify(module, HOPPER), Proven)
    assert_close(lowered, random_inputs(lowered))


def test_the_transposed_product_has_the_same_values():
    lowered = lower(scaled_rows, {"M": 100, "N": 72, "K": 64}, wanted=Wanted((128, 64), swapped=True))
    assert_close(lowered, random_inputs(lowered))


def test_the_small_instance_has_the_blocks_of_its_elements():
    program = the_program(small(lower(dequantized, {"M": 4096, "N": 4096})).module)
    assert program.extents == {"M": 48, "N": 48, "N/7": 7, "M/3": 16}


def test_odd_blocks_of_an_operand():
    @tw.kernel
    def odd(a: tw.Tensor["M", "K"], s: tw.Tensor["K/3"], b: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot((a[i, k] * s[k // 3]).to(tw.bf16), b[j, k].T)
        y[i, j] = acc

    check_numbers(compile_kernel(odd, dims={"M": 64, "N": 64, "K": 64}))


def test_displaced_blocks_beside_a_product_are_refused():
    @tw.kernel
    def displaced(a: tw.Tensor["M", "K"], s: tw.Tensor["M/4"], b: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[i, k], b[j, k].T)
        y[i, j] = acc * s[i // 4 + 1]

    with pytest.raises(TilewrightError, match="a displaced tile over blocks") as caught:
        lower(displaced, {"M": 64, "N": 64, "K": 64})
    assert caught.value.remedy
