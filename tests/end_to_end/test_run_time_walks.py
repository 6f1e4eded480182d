# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""One kernel for a range of lengths of a walk, such as attention's keys or the K of a product: proven once, right at
every length."""

from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pytest

import tilewright as tw
from tilewright.base.size import Range
from tilewright.driver.compile.compile import Compilation, compile_kernel
from tilewright.driver.run.run import CompiledKernel
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.axes import derived_extent
from tilewright.runtime.arrays import numpy_dtype
from tilewright.runtime.bundle import load, save


@tw.kernel
def attended(
    q: tw.Tensor["M", "H", "E"],
    k: tw.Tensor["T", "H/2", "E"],
    v: tw.Tensor["T", "H/2", "N"],
    o: tw.Tensor["M", "H", "N"],
):
    i, h, t, e, j = tw.axes("M H T E N")
    s = tw.dot(q[i, h, e], k[t, h // 2, e], over=e) * 0.2
    o[i, h, j] = tw.dot(tw.softmax(s, over=t), v[t, h // 2, j], over=t)


@tw.kernel
def causal(q: tw.Tensor["M", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "N"], o: tw.Tensor["M", "N"]):
    i, t, e, j = tw.axes("M T E N")
    s = tw.where(t <= i + 30, tw.dot(q[i, e], k[t, e], over=e) * 0.2, -np.inf)
    o[i, j] = tw.dot(tw.softmax(s, over=t), v[t, j], over=t)


@tw.kernel
def biased(
    q: tw.Tensor["M", "E"],
    k: tw.Tensor["T", "E"],
    v: tw.Tensor["T", "N"],
    b: tw.Tensor["T"],
    o: tw.Tensor["M", "N"],
    lse: tw.Tensor["M"],
):
    i, t, e, j = tw.axes("M T E N")
    s = tw.dot(q[i, e], k[t, e], over=e) * 0.2 + b[t]
    o[i, j] = tw.dot(tw.softmax(s, over=t), v[t, j], over=t)
    lse[i] = tw.logsumexp(s, over=t)


@tw.kernel
def nearest(q: tw.Tensor["M", "E"], k: tw.Tensor["T", "E"], y: tw.Tensor["M"]):
    i, t, e = tw.axes("M T E")
    y[i] = tw.min(tw.dot(q[i, e], k[t, e], over=e), over=t)


@tw.kernel
def pooled(
    q: tw.Tensor["M", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "N"], o: tw.Tensor["M", "N"], d: tw.Tensor["M"]
):
    i, t, e, j = tw.axes("M T E N")
    s = tw.dot(q[i, e], k[t, e], over=e) * 0.2
    o[i, j] = tw.dot(tw.softmax(s, over=t), v[t, j], over=t)
    d[i] = tw.logsumexp(s, over=t) + 0.5 * tw.mean(s, over=t)


@tw.kernel
def spread(q: tw.Tensor["M", "E"], k: tw.Tensor["T", "E"], y: tw.Tensor["M"]):
    i, t, e = tw.axes("M T E")
    s = tw.relu(tw.dot(q[i, e], k[t, e], over=e) + 2.0)
    m = tw.mean(s, over=t)
    y[i] = tw.mean((s - m) * (s - m), over=t) + 0.1 * m


@tw.kernel
def linear(q: tw.Tensor["M", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "N"], o: tw.Tensor["M", "N"]):
    i, t, e, j = tw.axes("M T E N")
    o[i, j] = tw.dot(tw.dot(q[i, e], k[t, e], over=e) + 1.0, v[t, j], over=t)


@tw.kernel
def of_many(
    q: tw.Tensor["B", "M", "E"], k: tw.Tensor["B", "T", "E"], v: tw.Tensor["B", "T", "N"], o: tw.Tensor["B", "M", "N"]
):
    b, i, t, e, j = tw.axes("B M T E N")
    s = tw.dot(q[b, i, e], k[b, t, e], over=e) * 0.2
    o[b, i, j] = tw.dot(tw.softmax(s, over=t), v[b, t, j], over=t)


@tw.kernel
def of_a_cache(
    q: tw.Tensor["B", "M", "H", "E"],
    k: tw.Tensor["B", "H/2", "T", "E"],
    v: tw.Tensor["B", "T", "H/2", "E"],
    n: tw.Tensor["B", tw.i32],
    o: tw.Tensor["B", "M", "H", "E"],
):
    b, i, h, t, e = tw.axes("B M H T E")
    s = tw.dot(q[b, i, h, e], k[b, h // 2, t, e], over=e) * 0.2
    o[b, i, h, e] = tw.dot(tw.softmax(tw.where(t < n[b], s, -np.inf), over=t), v[b, t, h // 2, e], over=t)


@tw.kernel
def of_turned_keys(
    q: tw.Tensor["M", "E"],
    k: tw.Tensor["E", "T"],
    s: tw.Tensor["M", "T"],
    v: tw.Tensor["T", "N"],
    o: tw.Tensor["M", "N"],
):
    i, t, e, j = tw.axes("M T E N")
    scores = tw.dot(q[i, e], k[e, t], over=e) * 0.2 + s[i, t]
    o[i, j] = tw.dot(tw.softmax(scores, over=t), v[t, j], over=t)


@tw.kernel
def of_columns(x: tw.Tensor["T", "M"], w: tw.Tensor["T", "N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for t in tw.loop("T"):
        acc += tw.dot(x[t, i].T, w[t, j])
    y[i, j] = acc


@tw.kernel
def gated(x: tw.Tensor["M", "T"], g: tw.Tensor["T", "N"], u: tw.Tensor["T", "N"], y: tw.Tensor["M", "N"]):
    i, j, t = tw.axes("M N T")
    y[i, j] = tw.silu(tw.dot(x[i, t], g[t, j], over=t)) * tw.dot(x[i, t], u[t, j], over=t)


@tw.kernel
def products(x: tw.Tensor["B", "M", "T"], w: tw.Tensor["B", "T", "N"], b: tw.Tensor["N"], y: tw.Tensor["B", "M", "N"]):
    g, i, j, t = tw.axes("B M N T")
    y[g, i, j] = tw.relu(tw.dot(x[g, i, t], w[g, t, j], over=t) + b[j])


@dataclass(frozen=True)
class Kind:
    """walked: the range of T; rows: of M; strides: of arrays that have room for more; within: of a result's norm."""

    kernel: Kernel
    walked: Range
    rows: Range | int
    dims: dict[str, int]
    dtype: dict[str, str] = field(default_factory=dict[str, str])
    strides: dict[str, tuple[int, ...]] | None = None
    within: float = 6e-3


WIDE = {"E": 64, "N": 64}
KINDS = {
    "heads": Kind(attended, Range(1, 300), 70, {**WIDE, "H": 4}),
    "lengths of both": Kind(causal, Range(1, 300), Range(0, 130), WIDE),
    "whole tiles": Kind(attended, Range(128, 384, 128), 40, {**WIDE, "H": 2}),
    "numbers of keys": Kind(biased, Range(1, 260), Range(1, 130), WIDE, dict.fromkeys(("b", "lse"), "f32")),
    "folded alone": Kind(nearest, Range(1, 600), 70, {"E": 64}, {"y": "f32"}),
    "means": Kind(pooled, Range(1, 300), 70, WIDE, {"d": "f32"}),
    "means of means": Kind(spread, Range(1, 300), 70, {"E": 64}, {"y": "f32"}),
    "nothing folded": Kind(linear, Range(1, 300), 70, WIDE),
    "numbers of 8 bits": Kind(
        causal, Range(16, 304, 16), 70, WIDE, {**dict.fromkeys("qkv", "f8e4m3"), "o": "f32"}, within=6e-2
    ),
    "odd heads": Kind(causal, Range(1, 300), 70, {"E": 20, "N": 20}),
    "turned keys": Kind(of_turned_keys, Range(8, 304, 8), 70, WIDE),
    "a sum over rows": Kind(of_columns, Range(1, 500), 130, {"N": 72}),
    "a gated sum": Kind(gated, Range(8, 504, 8), Range(1, 130), {"N": 72}),
    "sums of a batch": Kind(products, Range(8, 504, 8), 70, {"N": 72, "B": 3}),
    "several sequences": Kind(of_many, Range(1, 300), 70, {**WIDE, "B": 3}),
    "a cache": Kind(of_a_cache, Range(1, 300), 1, {"B": 2, "H": 4, "E": 64}, {"n": "i32"}),
    "a cache with room": Kind(
        of_a_cache,
        Range(1, 300),
        1,
        {"B": 2, "H": 4, "E": 64},
        {"n": "i32"},
        {"k": (2 * 500 * 64, 500 * 64, 64, 1), "v": (500 * 128, 128, 64, 1)},
    ),
}


@cache
def compiled(name: str, target: str = "sm_90a") -> Compilation:
    """With both proofs; for sm_100a, of which there was no GPU, assembled."""
    kind = KINDS[name]
    dtype = {**{each.name: "bf16" for each in kind.kernel.parameters}, **kind.dtype}
    dims = {**kind.dims, "T": kind.walked, "M": kind.rows}
    return compile_kernel(
        kind.kernel, dims=dims, dtype=dtype, strides=kind.strides, rerun=True, assembled=target == "sm_100a",
        target=target,
    )  # fmt: skip


def lengths(values: Range | int, tile: int) -> list[int]:
    """Of a range, next to a tile and two of them."""
    if isinstance(values, int):
        return [values]
    wanted = (values.least_launched, 2, tile - 1, tile, tile + 1, 2 * tile, values.most)
    return sorted({each for each in wanted if each in values})


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("name", "target"), [*((name, "sm_90a") for name in KINDS), *((name, "sm_100a") for name in KINDS)]
)
def test_every_length_is_right(name: str, target: str) -> None:
    kind, made = KINDS[name], compiled(name, target)
    assert made.proof.scope == "all trip counts" and made.text_proof is not None and made.plan.run_time is not None
    run, random = CompiledKernel(made.bundle()), np.random.default_rng(0)
    rows = lengths(kind.rows, 64)
    for number, walked in enumerate(lengths(kind.walked, made.decisions.tile_streamed)):
        dims = {**kind.dims, "T": walked, "M": rows[number % len(rows)]}
        arrays = {
            buffer.name: random.standard_normal([derived_extent(axis, dims) for axis in parameter.axes])
            # Workspaces stand behind the program's own arrays.
            for buffer, parameter in zip(made.plan.buffers, kind.kernel.parameters, strict=False)
        }
        elements = {each.name: each.element for each in made.plan.buffers if each.role != "workspace"}
        inputs = {
            each.name: (
                random.integers(1, walked + 1, kind.dims["B"]).astype("i4")
                if each.name == "n"
                else arrays[each.name].astype(numpy_dtype(each.element))
            )
            for each in made.plan.buffers
            if each.role == "input"
        }
        found = run(*inputs.values())
        exact = evaluate(trace(kind.kernel, dims, elements, {}), inputs, rounded=False)
        for result, wanted in zip(found if isinstance(found, tuple) else (found,), exact.values(), strict=True):
            apart = np.linalg.norm(result.astype(np.float64) - wanted)
            assert apart <= kind.within * np.linalg.norm(wanted), dims


def test_numbers_past_the_end_are_never_read() -> None:
    """What lies behind the keys that there are has no part in the result, not even as NaN."""
    made, random = compiled("heads"), np.random.default_rng(0)
    run, kind = CompiledKernel(made.bundle()), numpy_dtype(made.plan.buffers[0].element)
    q, k, v = (random.standard_normal(shape).astype(kind) for shape in ((70, 4, 64), (129, 2, 64), (129, 2, 64)))
    room = [np.full((200, 2, 64), np.nan, kind) for _ in (k, v)]
    for one, other in zip(room, (k, v), strict=True):
        one[:129] = other
    assert np.array_equal(run(q, k, v), run(q, room[0][:129], room[1][:129]))


def test_no_mask_where_all_lengths_are_whole_tiles() -> None:
    assert "size_extent_T" in compiled("heads").ptx
    assert "size_extent_T" not in compiled("whole tiles").ptx


def test_a_length_that_was_not_promised() -> None:
    run = CompiledKernel(compiled("whole tiles").bundle())
    ones = [np.ones(shape, numpy_dtype(compiled("whole tiles").plan.buffers[0].element))
            for shape in ((40, 2, 64), (129, 1, 64), (129, 1, 64))]  # fmt: skip
    with pytest.raises(tw.TilewrightError, match="axis T is 129; the program was compiled for 128 to 384 in multiples"):
        run(*ones)


def test_a_bundle_keeps_both_ranges(tmp_path) -> None:
    bundle = compiled("lengths of both").bundle()
    again = load(save(bundle, tmp_path / "both.twb"))
    assert again.plan == bundle.plan and again.plan.run_time is not None
    assert {axis for axis, _ in again.plan.run_time.ranges} == {"M", "T"}
