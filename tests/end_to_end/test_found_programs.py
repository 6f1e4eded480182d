# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""The least programs that draws have found unproven, refuted or wrong, as they are now: within their bounds."""

from dataclasses import dataclass

import pytest
from tests.end_to_end.drawn_text import Program
from tests.end_to_end.held_to_bounds import judged

import tilewright as tw


@tw.kernel
def two_softmaxes(
    q: tw.Tensor["B", "M", "E"], k: tw.Tensor["B", "T", "E"], r: tw.Tensor["B", "M", "E"],
    u: tw.Tensor["B", "T", "E"], v: tw.Tensor["B", "T", "F"], y: tw.Tensor["B", "M", "F"],
):  # fmt: skip
    b, i, t, e, f = tw.axes("B M T E F")
    first = tw.dot(q[b, i, e], k[b, t, e], over=e) * 0.25
    second = tw.dot(r[b, i, e], u[b, t, e], over=e) * 0.25
    y[b, i, f] = tw.dot(tw.softmax(first, over=t) - 0.5 * tw.softmax(second, over=t), v[b, t, f], over=t)


@tw.kernel
def a_product_of_half_the_weights_and_half_of_one(
    q: tw.Tensor["M", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], y: tw.Tensor["M", "F"]
):
    t, i, e, f = tw.axes("T M E F")
    s = tw.where(t <= i + 3, tw.dot(q[i, e] * 0.25, k[t, e], over=e), -1e30)
    p = tw.softmax(s, over=t)
    y[i, f] = tw.dot(p * 0.5, v[t, f], over=t) + 0.5 * tw.dot(p, v[t, f], over=t)


@dataclass(frozen=True)
class Found:
    kernel: tw.Kernel
    dims: dict[str, int]


FOUND = {
    # Waits of two walks one after the other, in more circles than were looked at.
    "two softmaxes": Found(two_softmaxes, {"B": 4, "M": 128, "T": 256, "E": 32, "F": 32}),
    # A sum was begun as what a later product gives, which was then issued twice.
    "half the weights": Found(a_product_of_half_the_weights_and_half_of_one, {"M": 2, "T": 130, "E": 32, "F": 32}),
}


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("name", FOUND)
def test_a_found_program_is_within_its_bounds(name: str, target: str) -> None:
    found = FOUND[name]
    program = Program(f"import tilewright as tw\n\n\n{found.kernel.source}", found.dims, "bf16")
    outcome = judged(program, found.kernel, target, 0, assembled=False)
    assert outcome.refusal is None, outcome.refusal
    assert not outcome.wrong and outcome.open < 0.1, outcome
