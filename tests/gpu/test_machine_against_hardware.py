"""The same PTX on the CPU machine and on a GPU, the same inputs: the same bits.

What differs, and only that: the order in which one wgmma adds its products in float32. With inputs whose sums are exact
in float32 there is no difference at all. With random inputs fewer than 3 in 100 16-bit results differ, by one unit in
the last place, or by less than 0.001 where a sum is near zero; float32 results differ by less than 1e-4 of their size
or 0.001.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tests.end_to_end import kernels

from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.run.run import CompiledKernel
from tilewright.synth.decide import Wanted

pytestmark = pytest.mark.gpu

CASES = (
    (kernels.matmul, {"M": 512, "N": 512, "K": 512}, "bf16", None),
    (kernels.matmul_bias_gelu, {"M": 257, "N": 129, "K": 72}, "bf16", None),
    (kernels.matmul_bias_gelu, {"M": 300, "N": 520, "K": 100}, "f16", None),
    (kernels.scaled_residual, {"M": 200, "N": 135, "K": 91}, {"r": "f32", "c": "f32"}, None),
    (kernels.operand_expression, {"M": 70, "N": 64, "K": 130}, "bf16", None),
    (kernels.matmul, {"M": 300, "N": 520, "K": 200}, "bf16", Wanted(tile=(128, 128), cluster=(2, 1))),
    (kernels.elementwise, {"M": 333, "N": 451}, "f32", None),
    (kernels.elementwise, {"M": 333, "N": 451}, "bf16", None),
)


def _inputs(compilation, exact):
    random = np.random.default_rng(0)
    arrays = []
    for buffer in compilation.plan.buffers:
        if buffer.role == "input":
            values = random.integers(-4, 5, buffer.shape) if exact else random.standard_normal(buffer.shape)
            kind = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32}[buffer.element.value]
            arrays.append(values.astype(kind))
    return arrays


@pytest.mark.parametrize(("kernel", "dims", "dtype", "wanted"), CASES)
def test_exact_sums_give_equal_bits(torch, kernel, dims, dtype, wanted):
    compilation = compile_kernel(kernel, dims=dims, dtype=dtype, wanted=wanted, rerun=False)
    compiled = CompiledKernel(compilation.bundle())
    inputs = _inputs(compilation, exact=kernel not in (kernels.elementwise, kernels.operand_expression))
    machine, hardware = compiled(*inputs, on="cpu"), compiled(*inputs, on="gpu")
    if kernel is kernels.operand_expression:  # exp makes sums inexact: only the order of addition may show
        _at_most_one_unit_apart(machine, hardware)
    else:
        assert machine.tobytes() == hardware.tobytes()


@pytest.mark.parametrize(("kernel", "dims", "dtype", "wanted"), CASES[:4])
def test_random_sums_differ_by_the_order_of_addition_alone(torch, kernel, dims, dtype, wanted):
    compilation = compile_kernel(kernel, dims=dims, dtype=dtype, wanted=wanted, rerun=False)
    compiled = CompiledKernel(compilation.bundle())
    inputs = _inputs(compilation, exact=False)
    machine, hardware = compiled(*inputs, on="cpu"), compiled(*inputs, on="gpu")
    if machine.dtype.itemsize == 2:
        _at_most_one_unit_apart(machine, hardware)
    else:
        np.testing.assert_allclose(machine, hardware, rtol=1e-4, atol=1e-3)


def _at_most_one_unit_apart(machine, hardware):
    """Neighbouring values of a 16-bit float type have neighbouring images; near zero the sums' absolute error
    counts."""
    images = [array.view(np.int16).astype(np.int32) for array in (machine, hardware)]
    ordered = [np.where(image < 0, -32768 - image, image) for image in images]
    apart = np.abs(ordered[0] - ordered[1])
    near = np.abs(machine.astype(np.float64) - hardware.astype(np.float64)) < 1e-3
    assert np.all((apart <= 1) | near)
    assert np.mean(apart == 0) > 0.97
