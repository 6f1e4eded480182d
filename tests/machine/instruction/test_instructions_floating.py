"""Packed, mixed and three-operand floating-point instructions, packed comparisons, reductions over a warp."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tests.machine.instruction.evaluated_floats import Array, evaluate

RNG = np.random.default_rng(31)


def pairs(values: Array) -> Array:
    """[32, 2] elements as 32 words, the first in the low half."""
    flat = np.ascontiguousarray(values).reshape(-1)
    return np.frombuffer(flat.tobytes(), f"u{2 * flat.dtype.itemsize}")


FLOATS = RNG.standard_normal((3, 32, 2)).astype(np.float32)
FLOATS[0, :5, 0] = [np.nan, 0.0, -0.0, 1e-41, np.inf]


@pytest.mark.parametrize("operation", ["add", "sub", "mul", "fma"])
def test_two_floats_in_one_register(operation: str) -> None:
    a, b, c = (pairs(values) for values in FLOATS)
    rounding, third = (".rn", ", %rd3") if operation == "fma" else ("", "")
    text = f"{operation}{rounding}.f32x2 %rd4, %rd1, %rd2{third};"
    found = evaluate(text, {"%rd1": a, "%rd2": b, "%rd3": c}, "%rd4", np.uint64).view(np.float32).reshape(32, 2)
    x, y, z = (values.astype(np.longdouble) for values in FLOATS)
    wanted = {"add": x + y, "sub": x - y, "mul": x * y, "fma": x * y + z}[operation].astype(np.float32)
    assert np.array_equal(found, wanted, equal_nan=True)
    assert int(found.view(np.uint32)[0, 0]) == 0x7FFF_FFFF


@pytest.mark.parametrize(("name", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_mixed_precision_widens_the_narrow_operands(name: str, dtype: type[np.generic]) -> None:
    a, b = (RNG.standard_normal(32).astype(dtype) for _ in range(2))
    c = RNG.standard_normal(32).astype(np.float32)
    x, y, z = (values.astype(np.longdouble) for values in (a, b, c))
    inputs: dict[str, Array] = {"%h1": a.view(np.uint16), "%h2": b.view(np.uint16), "%f3": c}
    for text, wanted in (
        (f"add.f32.{name} %f4, %h1, %f3;", x + z),
        (f"sub.rn.f32.{name} %f4, %h1, %f3;", x - z),
        (f"fma.rn.f32.{name} %f4, %h1, %h2, %f3;", x * y + z),
    ):
        assert np.array_equal(evaluate(text, inputs, "%f4", np.float32), wanted.astype(np.float32)), text
    up = evaluate(f"add.rp.sat.f32.{name} %f4, %h1, %f3;", inputs, "%f4", np.float32)
    assert ((up >= np.clip(x + z, 0, 1)) & (up <= 1)).all()


def test_extrema_of_three() -> None:
    a, b, c = (FLOATS[0, :, 0], FLOATS[1, :, 0], FLOATS[2, :, 0])
    inputs: dict[str, Array] = {"%f1": a, "%f2": b, "%f3": c}
    found = evaluate("max.f32 %f4, %f1, %f2, %f3;", inputs, "%f4", np.float32)
    assert np.array_equal(found, np.fmax(np.fmax(a, b), c))
    found = evaluate("min.NaN.abs.f32 %f4, %f1, %f2, %f3;", inputs, "%f4", np.float32)
    wanted = np.minimum(np.minimum(np.abs(a), np.abs(b)), np.abs(c))
    assert np.array_equal(found, wanted, equal_nan=True) and np.isnan(found[0])


@pytest.mark.parametrize(("name", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_packed_comparisons(name: str, dtype: type[np.generic]) -> None:
    a = RNG.integers(-3, 4, (32, 2)).astype(dtype)
    b = RNG.integers(-3, 4, (32, 2)).astype(dtype)
    a[3, 1] = np.nan
    inputs = {"%r1": pairs(a), "%r2": pairs(b)}
    both = "selp.u32 %r5, 1, 0, %p1; selp.u32 %r6, 2, 0, %p2; or.b32 %r4, %r5, %r6;"
    less = a.astype(np.float32) < b.astype(np.float32)
    found = evaluate(f"setp.lt.{name}x2 %p1|%p2, %r1, %r2; {both}", inputs, "%r4", np.uint32)
    assert found.tolist() == (less[:, 0] + 2 * less[:, 1]).tolist()
    text = f"setp.eq.u32 %p3, %r63, 7; setp.geu.or.{name}x2 %p1|%p2, %r1, %r2, %p3; {both}"
    lane_7 = np.arange(32) == 7
    found = evaluate(text, inputs, "%r4", np.uint32)
    assert found.tolist() == ((~less[:, 0] | lane_7) + 2 * (~less[:, 1] | lane_7)).tolist()
    ones = evaluate(f"set.lt.{name}x2.{name}x2 %r4, %r1, %r2;", inputs, "%r4", np.uint32)
    assert np.array_equal(ones, pairs(less.astype(dtype)))
    masks = evaluate(f"set.lt.u32.{name}x2 %r4, %r1, %r2;", inputs, "%r4", np.uint32)
    assert np.array_equal(masks, pairs(np.where(less, 0xFFFF, 0).astype(np.uint16)))


def test_set_combines_with_a_predicate() -> None:
    a, b = FLOATS[0, :, 0], FLOATS[1, :, 0]
    text = "setp.lt.u32 %p1, %r63, 9; set.gt.xor.f32.f32 %f4, %f1, %f2, !%p1;"
    found = evaluate(text, {"%f1": a, "%f2": b}, "%f4", np.float32)
    assert np.array_equal(found, ((a > b) ^ (np.arange(32) >= 9)).astype(np.float32))


def test_selection_by_a_float() -> None:
    c = np.resize(np.array([0.0, -0.0, np.nan, -1.0, 2.0, -1e-41], np.float32), 32)
    lane = np.arange(32, dtype=np.uint32)
    inputs: dict[str, Array] = {"%r1": lane, "%r2": lane + 100, "%f3": c}
    assert evaluate("slct.u32.f32 %r4, %r1, %r2, %f3;", inputs, "%r4", np.uint32).tolist() == [
        index if value >= 0 else index + 100 for index, value in enumerate(c.tolist())
    ]
    flushed = evaluate("slct.ftz.u32.f32 %r4, %r1, %r2, %f3;", inputs, "%r4", np.uint32)
    assert flushed[5] == 5, "a flushed subnormal is -0, which is not below zero"


def test_classes_of_numbers() -> None:
    values = np.resize(np.array([0.0, -0.0, 1.5, 1e-41, np.inf, -np.inf, np.nan], np.float32), 32)
    tiny = (np.abs(values) > 0) & (np.abs(values) < 2.0**-126)
    for test, wanted in (
        ("finite", np.isfinite(values)),
        ("infinite", np.isinf(values)),
        ("number", ~np.isnan(values)),
        ("notanumber", np.isnan(values)),
        ("subnormal", tiny),
        ("normal", np.isfinite(values) & (values != 0) & ~tiny),
    ):
        text = f"testp.{test}.f32 %p1, %f1; selp.u32 %r4, 1, 0, %p1;"
        assert evaluate(text, {"%f1": values}, "%r4", np.uint32).tolist() == wanted.astype(int).tolist(), test


def test_floating_point_reductions_over_a_warp() -> None:
    values = FLOATS[1, :, 0].copy()
    values[4] = np.nan
    for text, wanted in (
        ("max", np.nanmax(values)),
        ("min", np.nanmin(values)),
        ("max.abs", np.nanmax(np.abs(values))),
    ):
        found = evaluate(f"redux.sync.{text}.f32 %f4, %f1, -1;", {"%f1": values}, "%f4", np.float32)
        assert (found == wanted).all(), text
    nan = evaluate("redux.sync.min.NaN.f32 %f4, %f1, -1;", {"%f1": values}, "%f4", np.uint32)
    assert (nan == 0x7FFF_FFFF).all()


def test_rounding_to_whole_numbers_may_saturate() -> None:
    values = np.resize(np.array([-0.6, 0.4, 0.5, 0.6, 1.5, 7.0, np.nan, -np.inf], np.float32), 32)
    found = evaluate("cvt.rpi.sat.f32.f32 %f4, %f1;", {"%f1": values}, "%f4", np.float32)
    assert found[:8].tolist() == [0, 1, 1, 1, 1, 1, 0, 0]
