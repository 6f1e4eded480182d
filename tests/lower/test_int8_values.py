# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Numbers of 8 bits that rows are scaled to, and integers of 8 bits elsewhere: on the CPU machine, bit for bit what
float32 arithmetic of NumPy gives."""

import ml_dtypes
import numpy as np
import pytest
from examples.rows import quantize, quantize_int8
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.end_to_end.blackwell_programs import check_numbers
from tests.lower.lowered_programs import lower, run

import tilewright as tw
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.driver.compile.compile import compile_kernel
from tilewright.frontends.tile.reference import DTYPES, evaluate
from tilewright.synth.decide import Wanted

MIDDLES = np.concatenate([np.arange(-300, 300) / 2, np.float32([np.inf, -np.inf, np.nan, -0.0, 1e30, 1e-40, 127.49])])


@tw.kernel
def narrowed(x: tw.Tensor["M", "N"], y: tw.Tensor["M", "N", tw.i8], z: tw.Tensor["M", "N", tw.f32]):
    i, j = tw.axes("M N")
    y[i, j] = x[i, j]
    z[i, j] = x[i, j].to(tw.i8) + 0.25


@tw.kernel
def whole(x: tw.Tensor["N"], y: tw.Tensor["N"], z: tw.Tensor["N"]):
    i = tw.grid("N")
    y[i] = tw.round(x[i])
    z[i] = tw.clamp(x[i], -100.5, 3.0)


@tw.kernel
def widened(q: tw.Tensor["M", "N", tw.i8], scales: tw.Tensor["M", tw.f32], y: tw.Tensor["M", "N"]):
    i, j = tw.axes("M N")
    y[i, j] = q[i, j] * scales[i]


@tw.kernel
def transposed(q: tw.Tensor["M", "N", tw.i8], y: tw.Tensor["N", "M", tw.i8]):
    j, i = tw.axes("N M")
    y[j, i] = -q[i, j].T


@tw.kernel
def largest_of_integers(q: tw.Tensor["M", "N", tw.i8], y: tw.Tensor["M", "N", tw.i8], place: tw.Tensor["M", tw.i32]):
    i, j = tw.axes("M N")
    y[i, j] = q[i, j] - tw.max(q[i, j], over=j)
    place[i] = tw.argmax(q[i, j], over=j)


def as_integers(x) -> np.ndarray:
    return np.nan_to_num(np.clip(np.rint(x), -128, 127), nan=0.0).astype(np.int8)


def test_rounding_to_8_bits():
    x = MIDDLES.astype(np.float32)[None]
    lowered = lower(narrowed, {"M": 1, "N": x.size}, {"x": Element.F32, "y": Element.S8, "z": Element.F32})
    found, said = run(lowered, {"x": x}), evaluate(lowered.module, {"x": x})
    np.testing.assert_array_equal(found["y"], as_integers(x))
    np.testing.assert_array_equal(found["z"], as_integers(x) + np.float32(0.25))
    np.testing.assert_array_equal(said["y"], found["y"])
    np.testing.assert_array_equal(said["z"], found["z"])


def test_whole_numbers_and_bounds():
    x = MIDDLES.astype(np.float32)
    lowered = lower(whole, {"N": x.size}, dict.fromkeys("xyz", Element.F32))
    found = run(lowered, {"x": x})
    np.testing.assert_array_equal(found["y"].view(np.int32)[~np.isnan(x)], np.rint(x).view(np.int32)[~np.isnan(x)])
    np.testing.assert_array_equal(found["y"], np.rint(x))
    np.testing.assert_array_equal(found["z"], np.clip(x, np.float32(-100.5), np.float32(3)))


def test_every_integer_of_8_bits_is_read():
    q = np.arange(-128, 128, dtype=np.int8).reshape(2, 128)
    scales = np.float32([0.5, -3.0])
    lowered = lower(widened, {"M": 2, "N": 128}, {"q": Element.S8, "scales": Element.F32, "y": Element.F32})
    np.testing.assert_array_equal(run(lowered, {"q": q, "scales": scales})["y"], q * scales[:, None])


@pytest.mark.parametrize("dims", [(64, 80), (33, 47)])
def test_transposed_integers(dims):
    q = np.random.default_rng(0).integers(-128, 128, dims).astype(np.int8)
    lowered = lower(transposed, dict(zip("MN", dims, strict=True)), {"q": Element.S8, "y": Element.S8})
    np.testing.assert_array_equal(run(lowered, {"q": q})["y"], as_integers(-q.T.astype(np.float32)))


@pytest.mark.parametrize("length", [1, 7, 64, 1000, 4097])
def test_rows_of_integers(length):
    q = np.random.default_rng(length).integers(-128, 128, (3, length)).astype(np.int8)
    elements = {"q": Element.S8, "y": Element.S8, "place": Element.S32}
    lowered = lower(largest_of_integers, {"M": 3, "N": length}, elements)
    found = run(lowered, {"q": q})
    wide = q.astype(np.float32)
    np.testing.assert_array_equal(found["y"], as_integers(wide - wide.max(axis=1, keepdims=True)))
    np.testing.assert_array_equal(found["place"], q.argmax(axis=1))


def assert_quantized(kernel, x, element: Element, **options) -> None:
    """A row of zeros stays one of zeros, whose scale is the least there is."""
    rows, length = x.shape
    elements = {each.name: each.element or element for each in kernel.parameters}
    lowered = lower(kernel, {"M": rows, "N": length}, elements, **options)
    arrays = {"x": x.astype(DTYPES[element])}
    found, wide = run(lowered, arrays), arrays["x"].astype(np.float32)
    most = np.float32(127.0 if kernel is quantize_int8 else 448.0)
    scales = np.maximum(np.abs(wide).max(axis=1) / most, np.float32(1e-12))
    np.testing.assert_array_equal(found["scales"], scales)
    scaled = wide / scales[:, None]
    if kernel is quantize_int8:
        np.testing.assert_array_equal(found["y"], as_integers(scaled))
    else:
        expected = np.clip(scaled, -448, 448).astype(ml_dtypes.float8_e4m3fn)
        np.testing.assert_array_equal(found["y"].view(np.uint8), expected.view(np.uint8))


@pytest.mark.sample(2)
@pytest.mark.parametrize("element", [Element.F32, Element.BF16, Element.F16], ids=lambda each: each.value)
@pytest.mark.parametrize("kernel", [quantize_int8, quantize], ids=lambda each: each.name)
def test_rows_scaled_to_8_bits(kernel, element):
    for length in (1, 2, 7, 8, 9, 31, 33, 127, 129, 1023, 1024, 1025, 4096, 5000):
        x = np.random.default_rng(length).standard_normal((4, length)) * np.array([[1], [0], [1e-3], [100.0]])
        assert_quantized(kernel, x, element)


@pytest.mark.parametrize("kernel", [quantize_int8, quantize], ids=lambda each: each.name)
def test_rows_that_are_walked_by_strips(kernel):
    x, by_one = np.random.default_rng(5).standard_normal((1, 140_000)), Wanted(row_ctas=1, row_kept=False)
    elements = {each.name: each.element or Element.F32 for each in kernel.parameters}
    lowered = lower(kernel, {"M": 1, "N": 140_000}, elements, wanted=by_one)
    assert lowered.decisions.rows[0].streamed
    assert_quantized(kernel, x, Element.F32, wanted=by_one)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([quantize_int8, quantize]),
    st.integers(1, 6),
    st.integers(1, 700),
    st.sampled_from([Element.F32, Element.BF16, Element.F16]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_any_rows(kernel, rows, length, element, misaligned, seed):
    x = np.random.default_rng(seed).standard_normal((rows, length))
    assert_quantized(kernel, x, element, wanted=Wanted(misaligned=("x",)) if misaligned else None)


def test_rows_with_nan_and_infinity():
    """NaN is the largest number of its row; as an integer of 8 bits it is 0."""
    x = np.ones((3, 40), np.float32)
    x[0, 3], x[1, 5] = np.nan, np.inf
    elements = {"x": Element.F32, "y": Element.S8, "scales": Element.F32}
    found = run(lower(quantize_int8, {"M": 3, "N": 40}, elements), {"x": x})
    assert np.isnan(found["scales"][0]) and found["scales"][1] == np.inf
    assert not found["y"][:2].any() and (found["y"][2] == 127).all()


def test_integers_are_stored_in_words():
    elements = {"x": Element.BF16, "y": Element.S8, "scales": Element.F32}
    (row,) = lower(quantize_int8, {"M": 64, "N": 4096}, elements).decisions.rows
    assert row.run == 8 and row.vectors == ("x", "y")


@tw.kernel
def product_of_integers(q: tw.Tensor["M", "K", tw.i8], w: tw.Tensor["K", "N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(q[i, k].to(tw.bf16), w[k, j])
    y[i, j] = acc


@tw.kernel
def integers_multiplied(q: tw.Tensor["M", "K", tw.i8], w: tw.Tensor["N", "K", tw.i8], y: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.dot(q[i, k], w[j, k], over=k)


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (integers_multiplied, "which no tensor core multiplies exactly"),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_products_of_integers_are_refused_at_their_line(kernel, words):
    with pytest.raises(TilewrightError, match=words) as raised:
        compile_kernel(kernel, dims={"M": 64, "N": 64, "K": 64}, assembled=False)
    assert raised.value.span is not None and raised.value.span.file == __file__ and raised.value.remedy


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_a_product_of_integers_that_are_widened(target):
    check_numbers(compile_kernel(product_of_integers, target=target, dims={"M": 40, "N": 72, "K": 64}))


@pytest.mark.parametrize("kernel", [quantize_int8, quantize, narrowed, transposed], ids=lambda each: each.name)
@pytest.mark.parametrize("dims", [{"M": 33, "N": 4096}, {"M": 5, "N": 50257}])
def test_compiles_with_both_proofs(kernel, dims):
    assert compile_kernel(kernel, dims=dims, assembled=False).text_proof is not None
