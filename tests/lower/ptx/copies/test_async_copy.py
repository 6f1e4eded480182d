# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Operands that threads copy: values of ragged products by the CPU machine; the text is proved, and spoiled texts are
refuted."""

import re
from functools import cache

import ml_dtypes
import numpy as np
import pytest
from tests.end_to_end.text_edits import drop, move, rewrite

import tilewright.frontends.tile.language as tw
from tilewright.base.verdict import Proven, Refuted
from tilewright.contract.replay.replay import replay
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.run.run import CompiledKernel
from tilewright.frontends.ptx.reader import read
from tilewright.synth.tile.wanted import Wanted


@tw.kernel
def matmul(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    c[i, j] = acc


@tw.kernel
def batched(a: tw.Tensor["B", "M", "K"], b: tw.Tensor["B", "K", "N"], c: tw.Tensor["B", "M", "N"]):
    h, i, j = tw.grid("B", "M", "N")
    acc = tw.zeros(h, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[h, i, k], b[h, k, j])
    c[h, i, j] = acc


@tw.kernel
def displaced(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i + 3, k], b[k, j])
    c[i, j] = acc


@tw.kernel
def gated(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], g: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    x = tw.zeros(i, j)
    y = tw.zeros(i, j)
    for k in tw.loop("K"):
        x += tw.dot(a[i, k], b[k, j])
        y += tw.dot(a[i, k], g[k, j])
    c[i, j] = x * y


ELEMENTS = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f8e4m3": ml_dtypes.float8_e4m3fn}

CASES = {
    "rows of both": (matmul, {"M": 72, "N": 76, "K": 134}, {}, "bf16", {}, (4, 8), "K MN"),
    "both transposed": (matmul, {"M": 70, "N": 70, "K": 70}, {"a": (1, 70), "b": (1, 70)}, "bf16", {}, (4, 4), "MN K"),
    "the end of a row cuts a piece": (
        matmul, {"M": 66, "N": 71, "K": 69}, {"a": (70, 1), "b": (74, 1)}, "bf16", {}, (4, 4), "K MN"
    ),
    "8 bits": (matmul, {"M": 72, "N": 72, "K": 260}, {"b": (1, 260)}, "f8e4m3", {}, (4, 4), "K K"),
    "bases": (
        matmul, {"M": 72, "N": 72, "K": 72}, {}, "bf16",
        {"misaligned": ("a", "b"), "aligned": (("a", 8), ("b", 4))}, (8, 4), "K MN",
    ),
    "tiles in turn": (
        matmul, {"M": 300, "N": 70, "K": 134}, {}, "bf16",
        {"turns": True, "consumers": 2, "tile": (128, 64)}, (4, 4), "K MN",
    ),
    "a split sum": (matmul, {"M": 72, "N": 70, "K": 198}, {}, "bf16", {"split": 2, "tile": (64, 64)}, (4, 4), "K MN"),
}  # fmt: skip


def laid_out(random, shape, strides, element):
    """Random numbers as a view of a larger allocation."""
    flat = random.standard_normal(1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))).astype(element)
    return np.lib.stride_tricks.as_strided(flat, shape, [stride * flat.itemsize for stride in strides])


def dense(shape):
    return tuple(int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", CASES)
def test_values(name):
    kernel, dims, strides, dtype, wishes, pieces, majors = CASES[name]
    wanted = Wanted(**{"unmapped": "threads", "tile": (64, 64), **wishes})
    kinds = {"a": dtype, "b": dtype, "c": "bf16"}
    compiled = compile_kernel(
        kernel, dims=dims, dtype=kinds, strides=strides, wanted=wanted, rerun=False, assembled=False
    )
    d = compiled.decisions
    of = {slot.buffer: slot for slot in d.slots}
    assert (of["a"].piece_bytes, of["b"].piece_bytes) == pieces
    assert " ".join("K" if of[name].inner == d.streamed else "MN" for name in "ab") == majors
    assert len(compiled.plan.launches) == 1
    random = np.random.default_rng(0)
    arrays = []
    for item in kernel.parameters[:2]:
        shape = [dims[axis] for axis in item.axes]
        arrays.append(laid_out(random, shape, strides.get(item.name, dense(shape)), ELEMENTS[dtype]))
    result = CompiledKernel(compiled.bundle())(*arrays)
    reference = arrays[0].astype(np.float64) @ arrays[1].astype(np.float64)
    assert np.linalg.norm(result.astype(np.float64) - reference) <= 3e-3 * np.linalg.norm(reference)


def test_a_batch_of_products():
    dims = {"B": 2, "M": 40, "N": 70, "K": 66}
    compiled = compile_kernel(batched, dims=dims, wanted=Wanted(unmapped="threads"), rerun=False, assembled=False)
    assert [slot.piece_bytes for slot in compiled.decisions.slots] == [4, 4]
    random = np.random.default_rng(1)
    a, b = (random.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((2, 40, 66), (2, 66, 70)))
    result = CompiledKernel(compiled.bundle())(a, b)
    reference = a.astype(np.float64) @ b.astype(np.float64)
    assert np.linalg.norm(result.astype(np.float64) - reference) <= 3e-3 * np.linalg.norm(reference)


@pytest.mark.parametrize(("way", "pieces"), [("threads", 4), ("workspace", 0)])
def test_operands_of_several_products(way, pieces):
    dims, wanted = {"M": 64, "N": 70, "K": 70}, Wanted(tile=(64, 64), unmapped=way)
    compiled = compile_kernel(gated, dims=dims, wanted=wanted, rerun=False, assembled=False)
    assert {slot.piece_bytes for slot in compiled.decisions.slots} == {pieces}
    assert [slot.among for slot in compiled.decisions.slots] == [1, 2, 2]
    random = np.random.default_rng(3)
    a, b, g = (random.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((64, 70), (70, 70), (70, 70)))
    result = CompiledKernel(compiled.bundle())(a, b, g).astype(np.float64)
    left, first, second = (array.astype(np.float64) for array in (a, b, g))
    reference = (left @ first) * (left @ second)
    assert np.linalg.norm(result - reference) <= 3e-3 * np.linalg.norm(reference)


def test_displaced_rows_end_where_the_array_does():
    dims, wanted = {"M": 60, "N": 64, "K": 66}, Wanted(unmapped="threads", tile=(64, 64), swapped=False)
    compiled = compile_kernel(displaced, dims=dims, wanted=wanted, rerun=False, assembled=False)
    (copied,) = (slot for slot in compiled.decisions.slots if slot.piece_bytes)
    assert copied.buffer == "a" and copied.piece_bytes == 4 and copied.displaced == (0, 3)
    random = np.random.default_rng(2)
    a, b = (random.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((60, 66), (66, 64)))
    result = CompiledKernel(compiled.bundle())(a, b).astype(np.float64)
    reference = a[3:].astype(np.float64) @ b.astype(np.float64)
    assert result.shape == (60, 64)
    assert np.linalg.norm(result[:57] - reference) <= 3e-3 * np.linalg.norm(reference)
    assert not result[57:].any()


@cache
def small():
    """A product whose left operand threads copy, of two tiles and more slices than the ring has slots."""
    wanted = Wanted(unmapped="threads", tile=(64, 64), stages=2)
    return compile_kernel(matmul, dims={"M": 72, "N": 64, "K": 198}, wanted=wanted, rerun=False, assembled=False)


def judged(text):
    random = np.random.default_rng(0)
    plan = small().plan
    buffers = {
        buffer.name: random.integers(0, 64, size=max(1, buffer.span_bytes), dtype=np.uint8) for buffer in plan.buffers
    }
    (claims,) = small().claims.values()
    return replay(read(text, "<small.ptx>"), plan.launches[-1], buffers, claims=claims)


def test_the_text_is_proved():
    assert isinstance(judged(small().ptx), Proven)


def early(lines):
    """One piece is copied while the ring is filled first, and never again."""
    head = next(number for number, line in enumerate(lines) if line.startswith("loop_"))
    counter = re.search(r"setp\.ge\.u32 %p\d+, (%r\d+)", lines[head + 1])[1]
    at = next(number for number, line in enumerate(lines) if re.search(COPY, line))
    spoiled = [f"\tsetp.lt.u32 %early, {counter}, 2;", f"\t@%early {lines[at].strip()}"]
    declared = next(number for number, line in enumerate(lines) if ".reg .pred" in line)
    return [*lines[:declared], "\t.reg .pred %early;", *lines[declared:at], *spoiled, *lines[at + 1 :]]


FENCE, ARRIVE, COPY = r"fence\.proxy\.async\.shared::cta", r"cp\.async\.mbarrier\.arrive", r"cp\.async\.ca"
EDITS = {
    "the first product is not fenced": (drop(FENCE, 0), {"PX103"}),
    "the loop's products are not fenced": (drop(FENCE, 1), {"PX103"}),
    "arrivals that count twice": (rewrite(r"arrive\.noinc", "arrive"), {"MB113"}),
    "no arrival": (drop(ARRIVE), {"MB113"}),
    "a copy after the arrival": (move(COPY, 3, ARRIVE), {"BG105"}),
    "one arrival fewer": (rewrite(r"(mbarrier\.init.*), 129;", r"\1, 128;"), {"MB107"}),
    "one arrival more": (rewrite(r"(mbarrier\.init.*), 129;", r"\1, 130;"), {"MB113"}),
    "pieces of 8 bytes": (rewrite(r"\], 4, %p", "], 8, %p", 0), {"MF002"}),
    "one piece fewer": (drop(COPY, 0), {"LV101"}),
    "one piece in the first slices alone": (early, {"LV101"}),
    "to another row": (rewrite(r"(cp\.async\.ca\S* \[%r\d+)\+1024\]", r"\1+512]"), {"LV101"}),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", EDITS)
def test_a_spoiled_text_is_refuted(name):
    edit, codes = EDITS[name]
    verdict = judged("\n".join(edit(small().ptx.split("\n"))))
    assert isinstance(verdict, Refuted), verdict
    found = {finding.code for finding in verdict.findings}
    assert codes & found, found
