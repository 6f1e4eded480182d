"""The whole path without a GPU: compiled, proved, run on the CPU machine, compared with NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tests.end_to_end import kernels

import tilewright as tw
from tilewright.base.element import Element
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.run.run import CompiledKernel, run_on_machine
from tilewright.frontends.tile.reference import evaluate
from tilewright.ir.tile.facts import the_program
from tilewright.runtime.arrays import numpy_dtype
from tilewright.synth.decide import Wanted

SHAPES = ((257, 129, 72), (512, 512, 512), (384, 640, 192), (128, 256, 64), (64, 64, 100), (1, 8, 16))


def random_inputs(compilation, seed=0):
    """Normal random arrays for every input of a compilation, in order, by name."""
    random = np.random.default_rng(seed)
    return {
        buffer.name: random.standard_normal(buffer.shape).astype(numpy_dtype(buffer.element))
        for buffer in compilation.plan.buffers
        if buffer.role == "input"
    }


def relative_error(result, reference):
    difference = result.astype(np.float64) - np.asarray(reference, np.float64)
    return np.linalg.norm(difference) / np.linalg.norm(np.asarray(reference, np.float64))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_bias_gelu_agrees_with_numpy(shape, dtype):
    m, n, k = shape
    compilation = compile_kernel(
        kernels.matmul_bias_gelu, dims={"M": m, "N": n, "K": k}, dtype=dtype, rerun=False, assembled=False
    )
    inputs = random_inputs(compilation)
    result = run_on_machine(compilation.bundle(), tuple(inputs.values()))
    wide = {name: array.astype(np.float64) for name, array in inputs.items()}
    exact = gelu(wide["a"] @ wide["b"] + wide["bias"])
    assert relative_error(result, exact) < 1e-2
    single = {name: array.astype(np.float32) for name, array in inputs.items()}
    rounded = gelu(single["a"] @ single["b"] + single["bias"]).astype(numpy_dtype(Element(dtype)))
    assert relative_error(result, rounded) < 2e-3


@pytest.mark.full
def test_ten_seeds_of_adversarial_order_give_the_same_bits():
    compilation = compile_kernel(
        kernels.matmul_bias_gelu, dims={"M": 257, "N": 129, "K": 72}, rerun=False, assembled=False
    )
    inputs = tuple(random_inputs(compilation).values())
    results = [run_on_machine(compilation.bundle(), inputs, seed=seed).tobytes() for seed in range(10)]
    assert len(set(results)) == 1


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("kernel", "dims", "dtype", "wanted"),
    [
        (kernels.scaled_residual, {"M": 200, "N": 136, "K": 96}, "bf16", None),
        (kernels.scaled_residual, {"M": 200, "N": 135, "K": 91}, {"r": "f32", "c": "f32"}, None),
        (kernels.operand_expression, {"M": 70, "N": 64, "K": 130}, "bf16", None),
        (kernels.elementwise, {"M": 33, "N": 45}, "f16", None),
        (kernels.matmul, {"M": 300, "N": 520, "K": 200}, "bf16", Wanted(tile=(128, 128), cluster=(2, 1))),
        (kernels.matmul, {"M": 300, "N": 520, "K": 200}, "bf16", Wanted(tile=(128, 128), cluster=(1, 2), stages=3)),
        (kernels.matmul, {"M": 300, "N": 264, "K": 72}, "bf16", Wanted(tile=(256, 128))),
        (kernels.matmul, {"M": 130, "N": 200, "K": 72}, "bf16", Wanted(tile=(128, 192), stages=2)),
        (kernels.matmul, {"M": 130, "N": 264, "K": 72}, "f16", Wanted(tile=(64, 256), stages=2)),
    ],
)
def test_programs_and_decisions_agree_with_the_reference(kernel, dims, dtype, wanted):
    compilation = compile_kernel(kernel, dims=dims, dtype=dtype, wanted=wanted, rerun=False, assembled=False)
    inputs = random_inputs(compilation)
    result = run_on_machine(compilation.bundle(), tuple(inputs.values()))
    (reference,) = evaluate(compilation.source, inputs, rounded=False).values()
    assert relative_error(result, reference) < 1e-2


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (Wanted(stages=1), "1 stages of 49152 bytes do not make a pipeline"),
        (Wanted(stages=5), "use 2 to 4 stages"),
        (Wanted(tile=(128, 100)), "no tile shape"),
        (Wanted(cluster=(3, 1)), "no cluster shape"),
    ],
)
def test_decisions_that_cannot_be_had(wanted, words):
    dims = {"M": 4096, "N": 4096, "K": 4096}
    with pytest.raises(tw.TilewrightError, match=words):
        compile_kernel(kernels.matmul, dims=dims, wanted=wanted, rerun=False, assembled=False)


def test_tiles_with_one_staged_box_are_proved_over_many_tiles():
    """Two staging slots used in turn would begin the next tile with the slot whose store is newest."""
    dims = {"M": 1000, "N": 1000, "K": 64}
    compilation = compile_kernel(kernels.matmul, dims=dims, wanted=Wanted(tile=(64, 64)), assembled=False)
    assert compilation.proof.scope == "all trip counts"
    assert compilation.text_proof is not None


@pytest.mark.full
def test_strides_of_every_kind():
    random = np.random.default_rng(0)
    base = random.standard_normal((150, 200)).astype(ml_dtypes.bfloat16)
    other = random.standard_normal((200, 90)).astype(ml_dtypes.bfloat16)
    cases = [
        (base, other),
        (base, np.ascontiguousarray(other.T).T),
        (np.ascontiguousarray(base.T).T, other),
        (base[::2, ::2], other[::2]),
        (base[::-1], other),
        (np.broadcast_to(base[:1], base.shape), other),
        (base[:1], other[:, :1]),
    ]
    for a, b in cases:
        result = tw.matmul(a, b)
        assert result.dtype == ml_dtypes.bfloat16
        assert result.shape == (a.shape[0], b.shape[1])
        assert relative_error(result, a.astype(np.float64) @ b.astype(np.float64)) < 1e-2


def test_out_is_written_in_place():
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((64, 64)).astype(np.float16) for _ in range(2))
    out = np.zeros((64, 64), np.float16, order="F")
    assert tw.matmul(a, b, out=out) is out
    assert relative_error(out, a.astype(np.float64) @ b.astype(np.float64)) < 1e-2


def test_leading_axes_are_rows_whether_or_not_one_stride_leads_through_them():
    random = np.random.default_rng(0)
    whole = random.standard_normal((2, 3, 1, 2, 5, 9, 24)).astype(np.float16)
    b = random.standard_normal((16, 8)).astype(np.float16)
    # Of rank seven; a slice that folds into rows of 24 elements; one that leaves a gap after every group of rows.
    for a in (whole[..., 8:], whole[0, 0, 0, 0, :, :, 3:19], whole[1, :, 0, 1, :, 1:, :16]):
        result = tw.matmul(a, b)
        assert result.shape == (*a.shape[:-1], 8)
        assert relative_error(result, a.astype(np.float64) @ b.astype(np.float64)) < 1e-2
    out = np.zeros((2, 5, 8), np.float16)
    assert tw.matmul(a[:2, :, 0], b, out=out) is out
    assert relative_error(out, a[:2, :, 0].astype(np.float64) @ b.astype(np.float64)) < 1e-2
    with pytest.raises(tw.TilewrightError, match="no single stride"):
        tw.matmul(a[:2, :, 0], b, out=np.zeros((2, 7, 8), np.float16)[:, 1:6])
    with pytest.raises(tw.TilewrightError, match="out has shape"):
        tw.matmul(a[:2, :, 0], b, out=out[:1])


def test_calling_a_kernel_compiles_it_for_its_arrays(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((64, 64)).astype(ml_dtypes.bfloat16) for _ in range(2))
    bias = random.standard_normal(64).astype(ml_dtypes.bfloat16)
    result = kernels.matmul_bias_gelu(a, b, bias)
    assert relative_error(result, gelu(a.astype(float) @ b.astype(float) + bias.astype(float))) < 1e-2
    assert len(list(tmp_path.glob("*.twb"))) == 1


def test_calling_a_kernel_writes_an_output_of_any_layout():
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((64, 72)).astype(np.float16), random.standard_normal((72, 80)).astype(np.float16))
    out = np.zeros((64, 80), np.float32, order="F")
    assert kernels.matmul(a, b, out=out) is out
    assert relative_error(out, a.astype(float) @ b.astype(float)) < 1e-4


def test_a_compiled_kernel_refuses_other_arrays():
    compilation = compile_kernel(kernels.matmul, dims={"M": 64, "N": 64, "K": 64}, rerun=False, assembled=False)
    compiled = CompiledKernel(compilation.bundle())
    square = np.zeros((64, 64), ml_dtypes.bfloat16)
    with pytest.raises(tw.TilewrightError, match="shape"):
        compiled(square[:32], square)
    with pytest.raises(tw.TilewrightError, match="elements f16"):
        compiled(square.astype(np.float16), square)
    with pytest.raises(tw.TilewrightError, match="takes 2 arrays"):
        compiled(square)


def test_products_that_do_not_multiply():
    square = np.zeros((4, 4), np.float16)
    for a, b, words in (
        (square, square[:3], "inner extents"),
        (square, square.astype(ml_dtypes.bfloat16), "convert one"),
        (square[0], square, "two matrices"),
        (square.astype(np.float32), square.astype(np.float32), "bf16"),
    ):
        with pytest.raises(tw.TilewrightError, match=words):
            tw.matmul(a, b)


def test_arrays_at_odd_addresses_go_round_the_tensor_map():
    wanted = Wanted(misaligned=("b", "c"))
    compilation = compile_kernel(kernels.matmul, dims={"M": 64, "N": 64, "K": 64}, wanted=wanted, assembled=False)
    copied, product = compilation.parts
    assert "b" in {name.data for name in the_program(copied.module).parameters}
    assert "a" in {slot.buffer for slot in product.decisions.slots}
    assert not product.decisions.stores, "c leaves by plain stores"
    inputs = random_inputs(compilation)
    result = run_on_machine(compilation.bundle(), tuple(inputs.values()))
    assert relative_error(result, inputs["a"].astype(float) @ inputs["b"].astype(float)) < 1e-2
