# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""A search for cuts decides what it meets again once, and finds what it finds without."""

from typing import Any

import pytest
from tests.synth.cut.cut_programs import norm_of_product, product_of_norm, traced

import tilewright.frontends.tile.language as tw
from tilewright.driver.compile import sequence as searched
from tilewright.driver.compile.met import Met
from tilewright.driver.compile.sequence import sequence
from tilewright.frontends.tile.kernel import Kernel
from tilewright.ir.tile.facts import the_program
from tilewright.synth.cut.handover import cuts
from tilewright.synth.cut.time import microseconds
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")


@tw.kernel
def contrast(
    x: tw.Tensor["M", "K"], z: tw.Tensor["N", "K"], rows: tw.Tensor["M", tw.f32], columns: tw.Tensor["N", tw.f32]
):
    i, j, k = tw.axes("M N K")
    a = x[i, k] * tw.rsqrt(tw.sum(x[i, k] * x[i, k], over=k) + 1e-6)
    s = tw.dot(a.to(tw.bf16), z[j, k], over=k)
    rows[i] = tw.logsumexp(s, over=j)
    columns[j] = tw.logsumexp(s, over=i)


def found(kernel: Kernel, monkeypatch: Any, **dims: int) -> tuple[float, int, int]:
    """The estimated time of the sequence that is taken, its kernels, and the programs that were decided for it."""
    count = 0
    decide = searched.decided

    def counted(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        return decide(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(searched, "decided", counted)
        parts = sequence(traced(kernel, **dims), HOPPER, Wanted())
    time = sum(microseconds(the_program(part.module), part.decisions, HOPPER) for part in parts)
    return time, len(parts), count


@pytest.mark.parametrize(
    "kernel, dims",
    [
        (contrast, {"M": 65, "N": 65, "K": 64}),  # met in many orders
        (norm_of_product, {"M": 64, "N": 520, "K": 64}),
        (product_of_norm, {"M": 64, "N": 64, "K": 520}),
    ],
)
def test_what_is_met_again_changes_no_result(kernel: Kernel, dims: dict[str, int], monkeypatch: Any) -> None:
    time, kernels, decided = found(kernel, monkeypatch, **dims)
    monkeypatch.setattr(Met, "least_microseconds", lambda *_: 0.0)
    other, of_other, anew = found(kernel, monkeypatch, **dims)
    assert (pytest.approx(time), kernels) == (other, of_other)
    assert decided < anew if kernel is contrast else decided <= anew


def test_cuts_in_either_order_give_programs_of_one_form() -> None:
    module = traced(contrast, M=65, N=65, K=64)
    met = Met(frozenset(name.data for name in the_program(module).parameters))
    forms: list[object] = []
    for first in cuts(the_program(module)):
        forms += [met.form(second.programs[1]) for second in cuts(the_program(first.programs[1]))]
    assert len(set(forms)) < len(forms)
