"""The library's products on the CPU machine: every program against float64, beside what a peer's rounding allows, and
every wrong argument answered by one message."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright.driver.compile import kernels, specialised

BF16, E4M3, E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
ACTIVATIONS = {
    None: lambda z: z,
    "relu": lambda z: np.maximum(z, 0),
    "silu": lambda z: z / (1 + np.exp(-z)),
    "gelu": lambda z: 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))),
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "tanh": np.tanh,
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path_factory.getbasetemp() / "programs"))


def random(seed, *shape, dtype=BF16, scale=1.0):
    values = np.random.default_rng(seed).standard_normal(shape) * scale
    return values.astype(np.float32).astype(dtype)


def exact(array):
    return np.asarray(array).astype(np.float64)


def error(result, reference):
    return np.linalg.norm(exact(result) - reference) / np.linalg.norm(reference)


def rounded_once(reference, dtype):
    """The error that no result of this element can be without."""
    return error(reference.astype(np.float32).astype(dtype), reference)


@pytest.mark.sample(2)
@pytest.mark.parametrize("activation", list(ACTIVATIONS))
def test_bias_activation_and_residual_of_rows(activation):
    a, b = random(0, 3, 12, 72), random(1, 72, 40, scale=0.2)
    bias, residual = random(2, 40, dtype=np.float32), random(3, 3, 12, 40)
    result = tw.matmul(a, b, bias=bias, activation=activation, residual=residual)
    reference = ACTIVATIONS[activation](exact(a) @ exact(b) + bias) + exact(residual)
    assert result.shape == (3, 12, 40) and result.dtype == BF16
    assert error(result, reference) < 1.02 * rounded_once(reference, BF16)


@pytest.mark.sample(2)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("added", [False, True])
def test_every_set_of_parameters(biased, added):
    a, b = random(4, 24, 64, dtype=np.float16), random(5, 40, 64, dtype=np.float16).T
    bias, residual = random(6, 40, dtype=np.float16), random(7, 24, 40, dtype=np.float16)
    given = {**({"bias": bias} if biased else {}), **({"residual": residual} if added else {})}
    reference = exact(a) @ exact(b) + (exact(bias) if biased else 0) + (exact(residual) if added else 0)
    assert error(tw.matmul(a, b, out_dtype=np.float32, **given), reference) < 1e-6


SCALES = {
    "whole": (lambda m, k: (), lambda k, n: (1, 1)),
    "rows": (lambda m, k: (m,), lambda k, n: (1, n)),
    "rows beside the whole": (lambda m, k: (m, 1), lambda k, n: ()),
    "blocks": (lambda m, k: (m, -(-k // 128)), lambda k, n: (-(-k // 128), -(-n // 128))),
}


def spread(scale, shape, blocks):
    """Scales as one number for each element."""
    scale = exact(scale)
    if not blocks:
        return np.broadcast_to(scale.reshape(-1, 1) if shape[0] == scale.size else scale.reshape(1, -1), shape)
    for axis, extent in enumerate(shape):
        if scale.shape[axis] != extent:
            scale = np.repeat(scale, 128, axis=axis).take(range(extent), axis=axis)
    return scale


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", list(SCALES))
@pytest.mark.parametrize("rest", [False, True])
def test_scales_of_every_kind(kind, rest):
    m, n, k = 24, 136, 200
    a, b = random(8, m, k, dtype=E4M3), random(9, n, k, dtype=E4M3).T
    source = np.random.default_rng(10)
    scale_a = (source.random(SCALES[kind][0](m, k)) + 0.5).astype(np.float32)
    scale_b = (source.random(SCALES[kind][1](k, n)) + 0.5).astype(np.float32)
    scale_a, scale_b = np.asarray(scale_a), np.asarray(scale_b)
    given = {"bias": random(11, n), "residual": random(12, m, n), "activation": "silu"} if rest else {}
    blocks = kind == "blocks"
    left, right = spread(scale_a, (m, k), blocks), spread(scale_b, (k, n), blocks)
    reference = (exact(a) * left) @ (exact(b) * right)
    if rest:
        reference = ACTIVATIONS["silu"](reference + exact(given["bias"])) + exact(given["residual"])
    result = tw.matmul(a, b, scale_a=scale_a, scale_b=scale_b, **given)
    assert result.dtype == BF16, "a product of 8-bit numbers is bf16 if nothing else is asked for"
    assert error(result, reference) < 1.02 * rounded_once(reference, BF16)


def test_batches_and_what_serves_them():
    a, b = random(13, 3, 20, 64), random(14, 3, 40, 64).transpose(0, 2, 1)
    assert error(tw.matmul(a, b, activation="relu"), np.maximum(exact(a) @ exact(b), 0)) < 2e-3
    assert error(tw.matmul(a, b[1]), exact(a) @ exact(b[1])) < 2e-3


@pytest.mark.sample(2)
@pytest.mark.parametrize("activation", ["silu", "gelu", None])
def test_gated_products(activation):
    x, gate, up = random(15, 2, 10, 72), random(16, 40, 72, scale=0.2).T, random(17, 40, 72).T
    out = np.zeros((2, 10, 40), np.float32)
    assert tw.gated_matmul(x, gate, up, activation, out=out) is out
    reference = ACTIVATIONS[activation](exact(x) @ exact(gate)) * (exact(x) @ exact(up))
    assert error(out, reference) < 2e-6


def test_groups_leave_what_is_in_none():
    x, w, bias = random(18, 30, 64), random(19, 4, 40, 64).transpose(0, 2, 1), random(20, 4, 40)
    ends = np.array([7, 7, 20, 26], np.int32)
    out = np.full((30, 40), 5, BF16)
    tw.grouped_matmul(x, w, ends, bias=bias, activation="relu", out=out)
    begin = 0
    for group, end in enumerate(ends):
        if end > begin:
            wanted = np.maximum(exact(x[begin:end]) @ exact(w[group]) + exact(bias[group]), 0)
            assert error(out[begin:end], wanted) < 3e-3
        begin = end
    assert (exact(out[26:]) == 5).all()


def test_masked_rows_stay():
    x, w = random(21, 3, 12, 64), random(22, 3, 64, 40)
    counts = np.array([12, 0, 5], np.int32)
    out = np.full((3, 12, 40), 5, BF16)
    tw.masked_matmul(x, w, counts, out=out)
    for group, count in enumerate(counts):
        if count:
            assert error(out[group, :count], exact(x[group, :count]) @ exact(w[group])) < 3e-3
        assert (exact(out[group, count:]) == 5).all()


@pytest.mark.parametrize("dtype", [BF16, np.float16])
def test_large_numbers_and_no_numbers_come_out_as_they_should(dtype):
    a, b = random(23, 24, 64, dtype=dtype), random(24, 64, 40, dtype=dtype)
    a[3, 5], a[7, 9], b[11, 13] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore", over="ignore"):
        reference = exact(a) @ exact(b)
        result = exact(tw.matmul(a, b))
        assert (np.isnan(result) == np.isnan(reference)).all()
        assert (np.isposinf(result) == np.isposinf(reference)).all()
        assert (np.isneginf(result) == np.isneginf(reference)).all()
        numbers = np.isfinite(reference)
        assert error(result[numbers], reference[numbers]) < 1.02 * rounded_once(reference[numbers], dtype)
        large = random(25, 24, 64, dtype=dtype, scale=1e3), random(26, 64, 40, dtype=dtype, scale=1e2)
        reference = exact(large[0]) @ exact(large[1])
        result = exact(tw.matmul(*large))
        fits = np.abs(reference) < 0.99 * float(ml_dtypes.finfo(dtype).max)
        assert (np.isinf(result) == np.isinf(reference.astype(dtype)))[fits | (np.abs(reference) > 70000)].all()
        assert error(result[fits], reference[fits]) < 1.02 * rounded_once(reference[fits], dtype)


A, B3 = random(27, 8, 64), random(28, 2, 64, 16)
B = B3[0]
ONES = np.ones(1, np.float32)
WRONG = [
    (lambda: tw.matmul(A, B, activation="rleu"), "no activation is called 'rleu'", "did you mean relu"),
    (lambda: tw.matmul(A, B, activation=["relu"]), "no activation is called", "relu"),
    (lambda: tw.matmul(A, B, out_dtype="f64"), "nothing is stored as 'f64'", "use bf16"),
    (lambda: tw.matmul(A, B, out_dtype="f32", out=np.zeros((8, 16), BF16)), "out_dtype is f32", "one of them"),
    (lambda: tw.matmul(A, B, bias=A[0]), r"bias has shape \(64,\)", "that shape"),
    (lambda: tw.matmul(A, B, residual=A), r"residual has shape \(8, 64\)", "that shape"),
    (lambda: tw.matmul(A, B, scale_a=ONES), "one operand has a scale", "scale_a and scale_b"),
    (lambda: tw.matmul(A, B, scale_a=ONES, scale_b=np.ones((3, 1), np.float32)), "scales of shapes", "blocks of 128"),
    (lambda: tw.matmul(A, B, scale_a=ONES, scale_b=np.ones(1)), "scale_b has elements f64", "convert it"),
    (lambda: tw.matmul(A, B3), "three axes on the right are a batch", "same first axis"),
    (lambda: tw.matmul(B3.transpose(0, 2, 1), B3, bias=A[0, :16]), "a product of batches takes no bias", "add them"),
    (lambda: tw.matmul(A, B.astype(np.float16)), "matmul of bf16 and f16", "convert one"),
    (lambda: tw.matmul(A, A), "64 against 8", "inner extents"),
    (lambda: tw.grouped_matmul(A, B3[:0], np.zeros(0, np.int32)), "no groups", "at least one"),
    (lambda: tw.matmul(A[:0], B, out=np.zeros((8, 16), BF16)), r"out has shape \(8, 16\)", "one of its shape"),
    (lambda: tw.matmul(A.astype("f4"), B.astype("f4")), "^a has elements f32, which matmul does not", "bf16 or f16"),
    (lambda: tw.matmul(A, B.astype("i1")), "^b has elements i8, which matmul does not", "bf16 or f16"),
    (lambda: tw.matmul(A[:0].astype("f4"), B.astype("f4")), "^a has elements f32, which matmul does not", "bf16"),
    (lambda: tw.gated_matmul(A, B, B.astype("f4")), "^w_up has elements f32, which gated_matmul does not", "bf16"),
    (lambda: tw.grouped_matmul(A, B3.astype("i4"), ONES), "^w has elements i32, which grouped_matmul does", "bf16"),
    (lambda: tw.masked_matmul(B3.astype("f8"), B3, ONES), "^x has elements f64, which masked_matmul does", "bf16"),
    (lambda: tw.matmul(3, B), "a is int, no array", "NumPy"),
    (lambda: tw.gated_matmul(A, B, B[:, :8]), "w_up has shape", "that shape"),
    (lambda: tw.gated_matmul(A, B3, B3), "w_gate has shape .* no matrix", "over \\(K, N\\)"),
    (lambda: tw.grouped_matmul(A, B, np.zeros(2, np.int32)), "grouped_matmul of shapes", "over \\(G, K, N\\)"),
    (lambda: tw.grouped_matmul(A, B3, np.zeros(2, np.int64)), "ends has elements i64", "convert it"),
    (lambda: tw.grouped_matmul(A, B3, np.zeros(3, np.int32)), r"ends has shape \(3,\)", "that shape"),
    (lambda: tw.masked_matmul(A, B3, np.zeros(2, np.int32)), "masked_matmul of shapes", "over \\(G, M, K\\)"),
    (lambda: tw.masked_matmul(A[None], B3, np.zeros(2, np.int32)), "are a batch", "same first axis"),
]


NO_ROWS = [
    (lambda: tw.matmul(A[:0], B), (0, 16)),
    (lambda: tw.matmul(A, B[:, :0]), (8, 0)),
    (lambda: tw.matmul(np.zeros((2, 0, 3, 64), BF16), B, bias=A[0, :16], activation="gelu"), (2, 0, 3, 16)),
    (lambda: tw.matmul(B3[:0].transpose(0, 2, 1), B3[:0]), (0, 16, 16)),
    (lambda: tw.matmul(A[:0].astype(E4M3), B.astype(E4M3), scale_a=ONES, scale_b=ONES), (0, 16)),
    (lambda: tw.gated_matmul(A[:0], B, B), (0, 16)),
    (lambda: tw.grouped_matmul(A[:0], B3, np.zeros(2, np.int32)), (0, 16)),
    (lambda: tw.masked_matmul(A[None, :0], B3[:1], np.zeros(1, np.int32)), (1, 0, 16)),
]


@pytest.mark.parametrize("number", range(len(NO_ROWS)))
def test_a_result_without_elements_is_nothing_to_do(number, monkeypatch):
    def compiled(*_: object, **__: object) -> None:
        raise AssertionError("nothing is compiled for it")

    monkeypatch.setattr(specialised, "compile_for", compiled)
    multiply, shape = NO_ROWS[number]
    result = multiply()
    assert (result.shape, result.dtype) == (shape, BF16)


def test_a_sum_of_nothing_is_zero_before_the_epilogue():
    bias = random(29, 16)
    np.testing.assert_array_equal(tw.matmul(A[:, :0], B[:0], bias=bias), np.broadcast_to(bias, (8, 16)))


def test_an_empty_result_may_be_given():
    out = np.zeros((0, 16), np.float32)
    assert tw.matmul(A[:0], B, out=out) is out
    assert tw.matmul(A[:0], B, out_dtype="f32").dtype == np.float32


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_arguments_are_one_message(number):
    wrong, message, remedy = WRONG[number]
    with pytest.raises(tw.TilewrightError, match=message) as caught:
        wrong()
    assert re.search(remedy, caught.value.remedy)


def test_a_program_is_short_and_made_once():
    assert kernels.product_kernel("gelu", True, False) is kernels.product_kernel("gelu", True, False)
    assert kernels.product_kernel("none", False, False) is kernels.matmul_kernel
    for kernel in (kernels.grouped_kernel("none", True), kernels.gated_kernel("silu"), kernels.masked_kernel("none")):
        assert len(kernel.source.splitlines()) <= 60


def test_fast_accumulation_is_another_program_and_no_choice_for_blocks():
    m, n, k = 24, 136, 272
    a, b = random(18, m, k, dtype=E4M3), random(19, n, k, dtype=E4M3).T
    one = np.ones((), np.float32)
    reference = exact(a) @ exact(b)
    for fast in (False, True):
        result = tw.matmul(a, b, scale_a=one, scale_b=one, fast_accumulation=fast)
        # The machine's tensor core adds in float32.
        assert error(result, reference) < 1.02 * rounded_once(reference, BF16)
    blocks = np.ones((m, 3), np.float32), np.ones((3, 2), np.float32)
    with pytest.raises(tw.TilewrightError, match="cannot be summed by the tensor core alone"):
        tw.matmul(a, b, scale_a=blocks[0], scale_b=blocks[1], fast_accumulation=True)
