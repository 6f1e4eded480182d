"""Attention of 8-bit arrays, end to end on both targets: proved twice, assembled, and run by the CPU machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import ml_dtypes
import numpy as np
import pytest
from tests.lower.narrow_programs import SCALE, attention, sizes

import tilewright.frontends.tile.language as tw
from tilewright.base.error import TilewrightError
from tilewright.base.verdict import Proven, Refuted
from tilewright.driver.compile.compile import Compilation, compile_kernel, elements_of
from tilewright.driver.compile.sequence import sequence
from tilewright.driver.reproof.reproof import replay_plan
from tilewright.driver.run.run import run_on_machine
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

Arrays = dict[str, Any]
NUMPY = {
    "f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2, "bf16": ml_dtypes.bfloat16, "f16": np.float16,
    "f32": np.float32,
}  # fmt: skip
ROUNDED = {"f8e4m3": 2.0**-4, "f8e5m2": 2.0**-3, "bf16": 2.0**-8, "f16": 2.0**-11}
"""Of a weight that is multiplied as this element, the most that rounding changes, relative. The errors of a row's
weights are independent and at most that, so that a result's is no larger than this over the root of three, as uniform
ones have it; what sums in float32 add is far below."""


def compiled(kernel: Kernel, dims: Mapping[str, int], on: str, wanted: Wanted | None = None) -> Compilation:
    found = compile_kernel(kernel, target=on, dims=dims, wanted=wanted or Wanted())
    assert isinstance(found.text_proof, Proven) and found.assembly is not None
    assert found.assembly.spill_bytes == 0
    return found


def inputs_of(compilation: Compilation, seed: int = 0) -> Arrays:
    generator, found = np.random.default_rng(seed), {}
    for each in compilation.bundle().plan.buffers:
        if each.role == "input":
            numbers = generator.standard_normal(each.shape)
            numbers = np.abs(numbers) + 0.5 if each.name.startswith("of_") else numbers
            found[each.name] = numbers.astype(NUMPY[each.element.value])
    return found


def results(compilation: Compilation, arrays: Arrays) -> tuple[Any, Any]:
    """The result, and the logarithm of each row's sum, in float64."""
    found = dict(zip(("o", "lse"), run_on_machine(compilation.bundle(), tuple(arrays.values())), strict=True))
    return found["o"].astype(np.float64), found["lse"].astype(np.float64)


def expected(arrays: Arrays, *, causal: bool = False, turned: bool = False) -> tuple[Any, Any]:
    q, k, v = (arrays[name].astype(np.float32).astype(np.float64) for name in "qkv")
    v = v.swapaxes(-1, -2) if turned else v
    sharing = q.shape[1] // k.shape[1]
    of_keys, of_values = (arrays.get(name, np.ones(k.shape[1])) for name in ("of_keys", "of_values"))
    k, v = k * of_keys[:, None, None], v * of_values[:, None, None]
    k, v = np.repeat(k, sharing, 1), np.repeat(v, sharing, 1)
    scores = q @ k.swapaxes(-1, -2) * SCALE
    if causal:
        scores = np.where(np.arange(k.shape[2]) <= np.arange(q.shape[2])[:, None], scores, -np.inf)
    with np.errstate(invalid="ignore"):
        most = scores.max(-1, keepdims=True)
        weights = np.exp(scores - most)
        total = weights.sum(-1, keepdims=True)
        return weights / total @ v, (most + np.log(total))[..., 0]


def check_numbers(compilation: Compilation, element: str, arrays: Arrays | None = None, **asked: bool) -> None:
    """Against float64. element: as which the weights are multiplied."""
    arrays = inputs_of(compilation) if arrays is None else arrays
    (found, lse), (wanted, wanted_lse) = results(compilation, arrays), expected(arrays, **asked)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_allclose(lse, wanted_lse, rtol=1e-5, atol=1e-5)
    there = ~np.isnan(wanted)
    error = np.linalg.norm((found - wanted)[there]) / np.linalg.norm(wanted[there])
    assert error <= ROUNDED[element] / np.sqrt(3), error


CASES: dict[str, tuple[Kernel, dict[str, int], str, dict[str, bool]]] = {
    "plain": (attention(), sizes(70, 201), "f8e4m3", {}),
    "e5m2": (attention(tw.f8e5m2, tw.f8e5m2), sizes(70, 136), "f8e5m2", {}),
    "causal-128": (attention(causal=True), sizes(150, 150, 128), "f8e4m3", {"causal": True}),
    "96": (attention(), sizes(65, 129, 96), "f8e4m3", {}),
    "40": (attention(), sizes(33, 40, 40), "f8e4m3", {}),
    "values-turned": (attention(turned=True), sizes(70, 208), "f8e4m3", {"turned": True}),
    "grouped-scaled": (attention(sharing=4, scaled=True), sizes(3, 200, heads=8), "f8e4m3", {}),
    "one-head-scaled": (attention(sharing=4, scaled=True), sizes(3, 70, heads=4), "f8e4m3", {}),
    "decode": (attention(sharing=4), sizes(1, 300, 128, heads=8, batch=2), "f8e4m3", {}),
    "cache": (attention(tw.bf16, widened=tw.bf16), sizes(70, 200, 128), "bf16", {}),
    "cache-e5m2-causal": (
        attention(tw.f16, tw.f8e5m2, widened=tw.f16, causal=True), sizes(130, 130), "f16", {"causal": True},
    ),
    "cache-decode": (attention(tw.bf16, widened=tw.bf16, sharing=4), sizes(1, 300, 128, heads=8), "bf16", {}),
    "8-bit-values-alone": (attention(tw.bf16, tw.bf16), sizes(70, 140), "bf16", {}),
}  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize("on", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("name", CASES)
def test_numbers(name: str, on: str) -> None:
    kernel, dims, element, asked = CASES[name]
    check_numbers(compiled(kernel, dims, on), element, **asked)


@pytest.mark.sample(1)
@pytest.mark.parametrize("keys", [1, 2, 31, 33, 127, 128, 129, 257])
@pytest.mark.parametrize("widened", [False, True], ids=["turned", "widened"])
@pytest.mark.parametrize("on", ["sm_90a", "sm_100a"])
def test_lengths_around_tiles(keys: int, widened: bool, on: str) -> None:
    kernel = attention(tw.bf16, widened=tw.bf16) if widened else attention()
    check_numbers(compiled(kernel, sizes(3, keys), on), "bf16" if widened else "f8e4m3")


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("kernel", "on"),
    [
        (attention(causal=True), "sm_90a"),
        (attention(causal=True, turned=True), "sm_90a"),
        (attention(causal=True), "sm_100a"),
        (attention(tw.bf16, widened=tw.bf16, causal=True), "sm_90a"),
    ],
    ids=["turned", "exchanged", "tensor-memory", "widened"],
)
def test_weights_and_values_meet_in_the_same_order(kernel: Kernel, on: str) -> None:
    """Of equal scores every weight is 1, which all elements have, so that each row is the mean of the values so far."""
    compilation = compiled(kernel, sizes(144, 144), on)
    arrays = inputs_of(compilation)
    arrays["q"] = np.zeros_like(arrays["q"])
    turned = arrays["v"].shape[-1] == 144
    (found, _), (wanted, _) = results(compilation, arrays), expected(arrays, causal=True, turned=turned)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.sample(1)
@pytest.mark.parametrize("on", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("widened", [False, True], ids=["turned", "widened"])
def test_what_is_no_number_stays_where_it_counts(widened: bool, on: str) -> None:
    """A query's row, and a value's column: nothing is masked here, where what a mask leaves out may count or not."""
    kernel = attention(tw.bf16, widened=tw.bf16) if widened else attention()
    compilation = compiled(kernel, sizes(40, 100), on)
    arrays = inputs_of(compilation)
    arrays["q"][0, 0, 17] = np.nan
    arrays["v"][0, 0, 80, 5] = np.nan
    check_numbers(compilation, "bf16" if widened else "f8e4m3", arrays)


def test_sums_have_two_levels_unless_the_tensor_core_is_to_keep_them() -> None:
    """Of 8-bit products Hopper keeps too few bits: threads add what a tile of keys gives."""
    found: dict[str, tuple[int, ...]] = {}
    for name in ("precise", "fast"):
        wanted = Wanted(accumulation=name, unmapped="threads")
        made = compile_kernel(attention(), dims=sizes(64, 256), wanted=wanted, rerun=False, assembled=False)
        assert isinstance(made.decisions, CascadeDecisions)
        found[name] = made.decisions.added
    assert found == {"precise": (1,), "fast": ()}


def test_values_are_turned_by_consumers_or_before_by_what_takes_less_time() -> None:
    """A tile of values that many tiles of rows read is turned once, by a kernel before."""

    def by_consumers(queries: int, asked: Literal["threads", "workspace"] | None = None) -> bool:
        dims = sizes(queries, 4096, 128, heads=16, batch=8)
        kernel = attention()
        module = trace(kernel, dims, elements_of(kernel, "bf16"), None)
        parts = sequence(module, target("sm_90a"), Wanted(unmapped=asked))
        walks = [part.decisions for part in parts if isinstance(part.decisions, CascadeDecisions)]
        return any(slot.remade == "turned" for each in walks for slot in each.slots)

    assert (by_consumers(4096), by_consumers(64)) == (False, True)
    assert (by_consumers(4096, "threads"), by_consumers(64, "workspace")) == (True, False)


@pytest.mark.sample(1)
@pytest.mark.parametrize("widened", [False, True], ids=["turned", "widened"])
def test_a_text_whose_threads_do_not_meet_is_refuted(widened: bool) -> None:
    """Behind what threads write for the tensor core stand a fence and a barrier of the unit."""
    kernel = attention(tw.bf16, widened=tw.bf16) if widened else attention()
    compilation = compile_kernel(kernel, dims=sizes(64, 256), assembled=False, rerun=False)
    lines = compilation.ptx.splitlines()
    at = [number for number, line in enumerate(lines) if line.strip() == "fence.proxy.async.shared::cta;"]
    assert at and all("add.u32" in lines[number + 1] and "bar.sync" in lines[number + 2] for number in at)
    for removed in (at[0], at[0] + 2):
        edited = "\n".join(line for number, line in enumerate(lines) if number != removed) + "\n"
        verdict = replay_plan(read(edited, "edited.ptx"), compilation.plan, dict(compilation.claims), (0,))
        assert isinstance(verdict, Refuted), (lines[removed], verdict)


def test_operands_of_two_elements_are_refused_at_their_line() -> None:
    with pytest.raises(TilewrightError, match=r"bf16|f8e4m3") as refused:
        compile_kernel(attention(tw.bf16), dims=sizes(64, 64), rerun=False, assembled=False)
    assert refused.value.span is not None and refused.value.span.file.endswith("narrow_programs.py")
