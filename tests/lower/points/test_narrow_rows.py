"""Quicker forms of what is computed along a row, where results of few bits do not show their error."""

import ml_dtypes
import numpy as np
import pytest
from examples.rows import quantize, softmax
from tests.lower.lowered_programs import lower, random_inputs, run
from tests.lower.row_programs import assert_near

from tilewright.base.element import Element
from tilewright.frontends.tile import language as tw


@tw.kernel
def divided(x: tw.Tensor["M", "N"], s: tw.Tensor["M", tw.f32], y: tw.Tensor["M", "N"], sums: tw.Tensor["M"]):  # noqa: F821
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] / s[i]
    sums[i] = tw.sum(x[i, j], over=j)


def narrow(kernel, **elements) -> bool:
    found = {each.name: each.element or Element.BF16 for each in kernel.parameters} | elements
    return bool(lower(kernel, {"M": 3, "N": 256}, found).decisions.rows[0].narrow)


def test_where_results_do_not_show_the_error():
    assert narrow(softmax) and narrow(quantize) and narrow(divided)
    assert not narrow(softmax, y=Element.F32) and not narrow(divided, y=Element.F32)
    assert narrow(divided, sums=Element.F32)  # of which no quotient is part


def test_values_of_a_softmax():
    for length in (40, 1000, 4096):
        lowered = lower(softmax, {"M": 3, "N": length}, dict.fromkeys("xy", Element.BF16))
        arrays = random_inputs(lowered, length)
        arrays["x"][1] *= 100
        assert_near(lowered, arrays)


def test_quotients_are_rounded_as_a_division_rounds_them():
    """Those of float32, of which none is subnormal: quotients lie next to where bfloat16 rounds up."""
    lowered = lower(divided, {"M": 64, "N": 256}, elements_of_divided() | {"x": Element.F32})
    generator = np.random.default_rng(3)
    x = (generator.standard_normal((64, 256)) * 10.0 ** generator.integers(-12, 12, (64, 256))).astype(np.float32)
    s = (generator.standard_normal(64) * 10.0 ** generator.integers(-18, 18, 64)).astype(np.float32)
    near = (x.view(np.uint32) & 0xFFFF0000 | 0x8000).view(np.float32)
    for each in (x, near * s[:, None]):
        each = each.astype(np.float32)
        got = run(lowered, {"x": each, "s": s})["y"]
        assert np.array_equal(got, (each / s[:, None]).astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize("size", [0.0, 1e-45, 1e-39, 2e-38, 1e-30, 0.3, 7e8, 1e30, 3e38, np.inf, np.nan])
def test_quotients_by_every_size_of_divisor(size):
    """Zeros, infinities and NaN as a division has them, other quotients but for their rounding."""
    lowered = lower(divided, {"M": 2, "N": 64}, elements_of_divided())
    x = np.zeros((2, 64), np.float32)
    exponents = np.linspace(-45, 38, 60)
    x[:, :60] = 10.0**exponents
    x[:, 59:] = 0.0, 0.0, np.inf, -np.inf, np.nan
    x[:, ::2] *= -1
    x = x.astype(ml_dtypes.bfloat16)
    s = np.array([size, -size], np.float32)
    got = run(lowered, {"x": x, "s": s})["y"].astype(np.float32)
    with np.errstate(all="ignore"):
        wanted = (x.astype(np.float32) / s[:, None]).astype(ml_dtypes.bfloat16).astype(np.float32)
        near = np.abs(got - wanted) <= 2.0**-7 * np.abs(wanted) + 1e-40
    same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    zeros = (x == 0) & ~np.isnan(wanted)
    assert np.array_equal(np.signbit(got[zeros]), np.signbit(wanted[zeros]))
    assert np.all(same | near), (got[~(same | near)], wanted[~(same | near)])


def elements_of_divided() -> dict[str, Element]:
    return dict.fromkeys(("x", "y", "sums"), Element.BF16) | {"s": Element.F32}
