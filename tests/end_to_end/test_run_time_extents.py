# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""One kernel for a range of extents: compiled and proven once, right at every extent on the CPU machine."""

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.end_to_end import kernels as shared

import tilewright as tw
from tilewright.base.element import Element
from tilewright.base.size import Range
from tilewright.driver.compile import kernels, kernels_scaled
from tilewright.driver.compile.compile import Compilation, compile_kernel
from tilewright.driver.run.run import CompiledKernel
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.axes import derived_extent
from tilewright.runtime.arrays import numpy_dtype
from tilewright.runtime.bundle import load, save
from tilewright.synth.tile.wanted import Wanted


@tw.kernel
def neighbours(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], r: tw.Tensor["M", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i + 1, k], b[k, j])
    c[i, j] = acc + r[i - 1, j]


@tw.kernel
def smooth(x: tw.Tensor["M", "N"], s: tw.Tensor["M"], t: tw.Tensor["N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    y[i, j] = tw.silu(x[i, j] * s[i]) + t[j] + x[i + 1, j]


@tw.kernel
def rows_of_8_bits(x: tw.Tensor["M", "N"], y: tw.Tensor["M", "N", tw.i8], scales: tw.Tensor["M"]):
    i, j = tw.grid("M", "N")
    scale = tw.maximum(tw.max(tw.abs(x[i, j]), over=j) / 127.0, 1e-12)
    y[i, j] = x[i, j] / scale
    scales[i] = scale


@tw.kernel
def attended(
    q: tw.Tensor["M", "E"],
    k: tw.Tensor["T", "E"],
    v: tw.Tensor["T", "N"],
    s: tw.Tensor["M", "T"],
    o: tw.Tensor["M", "N"],
):
    i, t, e, j = tw.axes("M T E N")
    scores = tw.where(t <= i + 30, tw.dot(q[i, e], k[t, e], over=e) * 0.2 + s[i, t], -np.inf)
    o[i, j] = tw.dot(tw.softmax(scores, over=t), v[t, j], over=t)


@tw.kernel
def of_normal_rows(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    scale = tw.rsqrt(tw.mean(x[i, k] * x[i, k], over=k) + 1e-5)
    y[i, j] = tw.dot(x[i, k] * scale, w[j, k], over=k)


@tw.kernel
def of_heads(
    q: tw.Tensor["M", "H", "E"],
    k: tw.Tensor["T", "H/2", "E"],
    v: tw.Tensor["T", "H/2", "N"],
    o: tw.Tensor["M", "H", "N"],
):
    i, h, t, e, j = tw.axes("M H T E N")
    s = tw.dot(q[i, h, e], k[t, h // 2, e], over=e) * 0.2
    o[i, h, j] = tw.dot(tw.softmax(tw.where(t <= i, s, -np.inf), over=t), v[t, h // 2, j], over=t)


@tw.kernel
def of_computed(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.dot(tw.relu(x[i, k]).to(tw.bf16), tw.tanh(w[j, k]).to(tw.bf16), over=k)


@dataclass(frozen=True)
class Kind:
    """tile: elements of a tile along the run-time axis, next to which extents are tried."""

    kernel: Kernel
    values: Range
    dims: dict[str, int]
    tile: int
    dtype: Any = "bf16"
    wanted: Wanted = field(default_factory=Wanted)
    strides: dict[str, tuple[int, ...]] | None = None

    def at(self, extent: int) -> dict[str, int]:
        return {**self.dims, "M": extent}


SMALL = {"N": 136, "K": 72}
EIGHT = {"a": "f8e4m3", "b": "f8e4m3", "scale_a": "f32", "scale_b": "f32", "c": "bf16"}
KINDS = {
    "rows, all of the epilogue": Kind(
        kernels.product_kernel("relu", True, True), Range(0, 130), SMALL, 64,
        wanted=Wanted(tile=(64, 64), swapped=False),
    ),
    "columns of a transposed product": Kind(
        kernels.matmul_kernel, Range(1, 200), SMALL, 64, "f16", Wanted(tile=(64, 64), swapped=True)
    ),
    "ping-pong": Kind(
        kernels.matmul_kernel, Range(8, 320, 8), {"N": 128, "K": 192}, 128, wanted=Wanted(tile=(128, 64), turns=True)
    ),
    "plain stores along rows": Kind(
        kernels.matmul_kernel, Range(1, 160), {"N": 67, "K": 72}, 64, {"a": "bf16", "b": "bf16", "c": "f32"},
        Wanted(tile=(64, 64)), {"b": (72, 1)},
    ),
    "numbers of 8 bits": Kind(
        kernels_scaled.scaled_kernel("relu", False, False, (False, False)), Range(1, 160), {"N": 72, "K": 160}, 64,
        EIGHT, Wanted(tile=(64, 64)), {"b": (1, 160)},
    ),
    "one scale for all": Kind(
        kernels_scaled.scaled_kernel("none", False, False, (True, True)), Range(1, 130), {"N": 72, "K": 160}, 64,
        EIGHT, Wanted(tile=(64, 64)), {"b": (1, 160)},
    ),
    "scales of blocks": Kind(
        kernels_scaled.scaled_kernel("none", False, False, "blocks"), Range(1, 130), {"N": 128, "K": 256}, 64,
        EIGHT, Wanted(), {"b": (1, 256)},
    ),
    "gated": Kind(kernels.gated_kernel("silu"), Range(1, 130), {"N": 64, "K": 64}, 64, wanted=Wanted(tile=(64, 64))),
    "few rows": Kind(kernels.matmul_kernel, Range(1, 16), {"N": 192, "K": 1024}, 16),
    "pairs of CTAs": Kind(
        kernels.matmul_kernel, Range(0, 700), {"N": 72, "K": 136}, 256, wanted=Wanted(tile=(128, 96), cluster=(2, 1)),
    ),
    "attention": Kind(attended, Range(0, 130), {"T": 72, "E": 64, "N": 64}, 64),
    "normal rows": Kind(of_normal_rows, Range(1, 130), {"N": 40, "K": 136}, 64),
    "heads of attention": Kind(of_heads, Range(1, 130), {"T": 80, "E": 64, "N": 64, "H": 4}, 64),
    "copied before": Kind(kernels.matmul_kernel, Range(0, 130), {"N": 33, "K": 65}, 64),
    "one element summed": Kind(kernels.matmul_kernel, Range(1, 130), {"N": 64, "K": 1}, 64),
    "displaced and copied": Kind(neighbours, Range(1, 130), {"N": 33, "K": 65}, 64),
    "computed before": Kind(of_computed, Range(0, 130), {"N": 40, "K": 64}, 64),
    "displaced": Kind(neighbours, Range(1, 130), {"N": 64, "K": 64}, 64, wanted=Wanted(tile=(64, 64))),
}  # fmt: skip


@cache
def compiled(name: str, target: str = "sm_90a") -> Compilation:
    """With both proofs; for sm_100a, of which there was no GPU, assembled."""
    kind = KINDS[name]
    return compile_kernel(
        kind.kernel, dims={**kind.dims, "M": kind.values}, dtype=kind.dtype, strides=kind.strides, wanted=kind.wanted,
        rerun=True, assembled=target == "sm_100a", target=target,
    )  # fmt: skip


def extents_of(kind: Kind) -> list[int]:
    values, tile = kind.values, kind.tile
    wanted = (values.least, values.least_launched, tile - 1, tile, tile + 1, values.most)
    return sorted({extent for extent in wanted if extent in values})


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("name", "target"),
    [
        *((name, "sm_90a") for name in KINDS if name != "pairs of CTAs"),
        *((name, "sm_100a") for name in KINDS),
    ],
)
def test_every_extent_is_right(name: str, target: str) -> None:
    made = compiled(name, target)
    assert made.proof.scope == "all trip counts" and made.plan.run_time is not None
    kind, kernel = KINDS[name], CompiledKernel(made.bundle())
    random = np.random.default_rng(0)
    for extent in extents_of(kind):
        inputs = {
            buffer.name: random.standard_normal(
                [derived_extent(axis, kind.at(extent)) for axis in parameter.axes]
            ).astype(numpy_dtype(buffer.element))
            # Workspaces stand behind the program's own arrays.
            for buffer, parameter in zip(made.plan.buffers, kind.kernel.parameters, strict=False)
            if buffer.role == "input"
        }  # fmt: skip
        result = kernel(*inputs.values())
        assert (result.shape[0], result.shape[-1]) == (extent, kind.dims["N"])
        if extent:
            elements = {each.name: each.element for each in made.plan.buffers if each.role != "workspace"}
            module = trace(kind.kernel, kind.at(extent), elements, {})
            (exact,) = evaluate(module, inputs, rounded=False).values()
            difference = np.linalg.norm(result.astype(np.float64) - exact)
            assert difference <= 4e-3 * np.linalg.norm(exact), extent


@pytest.mark.sample(2)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize(("kernel", "columns"), [(smooth, 37), (rows_of_8_bits, 96), (rows_of_8_bits, 1000)])
def test_kernels_without_products(kernel: Kernel, columns: int, target: str) -> None:
    """Element by element, rows that lanes of a warp share, rows of a CTA each: proven, and right at every extent."""
    dtype = {item.name: item.element or Element.F32 for item in kernel.parameters}
    found = compile_kernel(
        kernel, dims={"M": Range(0, 70), "N": columns}, dtype=dtype, assembled=target != "sm_90a", target=target
    )
    assert found.text_proof is not None and found.plan.run_time is not None
    run, random = CompiledKernel(found.bundle()), np.random.default_rng(0)
    for extent in (0, 1, 2, 33, 70):
        dims = {"M": extent, "N": columns}
        inputs = {
            buffer.name: random.standard_normal([dims[axis] for axis in item.axes]).astype("f4")
            for buffer, item in zip(found.plan.buffers, kernel.parameters, strict=True)
            if buffer.role == "input"
        }
        results = run(*inputs.values())
        stored = [buffer.name for buffer in found.plan.buffers if buffer.role == "output"]
        results = dict(zip(stored, results if isinstance(results, tuple) else (results,), strict=True))
        assert results[stored[0]].shape == (extent, columns)
        for name, exact in evaluate(trace(kernel, dims, dtype, {}), inputs).items() if extent else ():
            assert np.abs(results[name].astype(np.float64) - exact.astype(np.float64)).max() < 1e-5, (extent, name)


def test_the_whole_of_it_is_proven_once() -> None:
    kind = KINDS["rows, all of the epilogue"]
    found = compile_kernel(kind.kernel, dims={**kind.dims, "M": kind.values}, wanted=kind.wanted, assembled=False)
    assert found.proof.scope == "all trip counts" and found.text_proof is not None
    assert found.plan.run_time is not None and found.bundle().facts["verdict"] == "proven"


def test_a_bundle_keeps_the_range(tmp_path) -> None:
    bundle = compiled("few rows").bundle()
    again = load(save(bundle, tmp_path / "few.twb"))
    assert again.plan == bundle.plan and again.plan.run_time is not None
    a, b = np.ones((3, 1024), ml_dtypes.bfloat16), np.ones((1024, 192), ml_dtypes.bfloat16)
    assert (CompiledKernel(again)(a, b) == 1024).all()


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (7, "axis M is 7; the program was compiled for 8 to 320 in multiples of 8"),
        (328, "axis M is 328; the program"),
        (12, "axis M is 12; the program"),
    ],
)
def test_a_launch_that_was_not_promised(rows: int, words: str) -> None:
    kernel = CompiledKernel(compiled("ping-pong").bundle())
    with pytest.raises(tw.TilewrightError) as caught:
        kernel(np.ones((rows, 192), ml_dtypes.bfloat16), np.ones((192, 128), ml_dtypes.bfloat16))
    assert words in caught.value.message


def test_arrays_that_disagree() -> None:
    kernel = CompiledKernel(compiled("rows, all of the epilogue").bundle())
    ones = {name: np.ones(shape, ml_dtypes.bfloat16) for name, shape in
            {"a": (5, 72), "b": (72, 136), "bias": (136,), "residual": (6, 136)}.items()}  # fmt: skip
    with pytest.raises(tw.TilewrightError, match="axis M is 5 in a and 6 in residual"):
        kernel(*ones.values())
    with pytest.raises(tw.TilewrightError, match="out"):
        kernel(ones["a"], ones["b"], ones["bias"], np.ones((5, 136), ml_dtypes.bfloat16), out=(1, 2))


def test_one_text_for_other_ranges_too() -> None:
    """What a range changes is its plan, as long as the largest extent, by which tiles are chosen, stays."""
    texts = {
        compile_kernel(
            shared.matmul_bias_gelu, dims={"M": Range(least, 1024, step), **SMALL}, rerun=False, assembled=False
        ).ptx
        for least, step in ((0, 1), (1, 1), (64, 64))
    }
    assert len(texts) == 1
