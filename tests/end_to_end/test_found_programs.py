# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""The least programs that draws have found unproven, refuted or wrong, as they are now: within their bounds."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from tests.end_to_end.drawn_text import Program
from tests.end_to_end.held_to_bounds import judged

import tilewright as tw
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.run.run import run_on_machine


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


@tw.kernel
def bytes_by_bytes(
    x: tw.Tensor["M", "K", tw.i8], w: tw.Tensor["N", "K", tw.i8], rows: tw.Tensor["N", tw.i32], y: tw.Tensor["M", "N"]
):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.where(i < rows[j], tw.dot(x[i, k].to(tw.bf16), w[j, k].to(tw.bf16), over=k), -1.0)


@tw.kernel
def bytes_by_bytes_in_a_loop(x: tw.Tensor["M", "K", tw.i8], w: tw.Tensor["N", "K", tw.i8], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k].to(tw.bf16), w[j, k].to(tw.bf16).T)
    y[i, j] = acc


@tw.kernel
def two_rounded_to_bytes(
    x: tw.Tensor["M", "K"], s: tw.Tensor["K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"], z: tw.Tensor["M", "N"]
):
    i, j, k = tw.axes("M N K")
    first = tw.dot((x[i, k] * s[k]).to(tw.f8e4m3), tw.maximum(w[j, k], 0.1).to(tw.f8e4m3), over=k)
    second = tw.dot(x[i, k], w[j, k], over=k)
    y[i, j] = second
    z[i, j] = first * second


@tw.kernel
def batch_innermost(x: tw.Tensor["B", "M", "K"], w: tw.Tensor["K", "N", "B"], y: tw.Tensor["B", "M", "N"]):
    b, i, j, k = tw.axes("B M N K")
    y[b, i, j] = tw.dot(x[b, i, k], w[k, j, b], over=k)


@tw.kernel
def parameters_called_as_parts_of_kernels(
    rows: tw.Tensor["M", "K"], columns: tw.Tensor["N", "K"], producer: tw.Tensor["M", "L"],
    staging: tw.Tensor["N", "L"], rows_ring: tw.Tensor["M", "N"], consumer: tw.Tensor["M"],
    rows_map: tw.Tensor["M", "N"],
):  # fmt: skip
    i, j, k, e = tw.axes("M N K L")
    weights = tw.softmax(tw.dot(rows[i, k], columns[j, k], over=k) + rows_ring[i, j], over=j)
    producer[i, e] = tw.dot(weights, staging[j, e], over=j) + consumer[i]
    rows_map[i, j] = weights


@tw.kernel
def rows_called_as_threads(threads: tw.Tensor["M", "N"], partials: tw.Tensor["M", "N"], turned: tw.Tensor["M"]):
    i, j = tw.axes("M N")
    partials[i, j] = tw.softmax(threads[i, j], over=j)
    turned[i] = tw.sum(threads[i, j], over=j)


@tw.kernel
def scores_of_grouped_heads(
    q: tw.Tensor["H", "M", "E"], k: tw.Tensor["H/4", "T", "E"], y: tw.Tensor["M", "H", "T", tw.f32]
):
    i, h, t, e = tw.axes("M H T E")
    y[i, h, t] = tw.dot(q[h, i, e], k[h // 4, t, e], over=e)


@tw.kernel
def computed_of_gathered_rows(
    x: tw.Tensor["R", "K"], rows: tw.Tensor["M", tw.i32], g: tw.Tensor["K"], w: tw.Tensor["N", "K"],
    y: tw.Tensor["M", "N"],
):  # fmt: skip
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.dot(tw.silu(x[rows[i], k]) * g[k], w[j, k], over=k)


@tw.kernel
def scores_over_lengths(
    q: tw.Tensor["M", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], by: tw.Tensor["T", tw.f32],
    y: tw.Tensor["M", "F"],
):  # fmt: skip
    i, t, e, f = tw.axes("M T E F")
    of_q = tw.rsqrt(tw.sum(q[i, e] * q[i, e], over=e) + 1e-6)
    of_k = tw.rsqrt(tw.sum(k[t, e] * k[t, e], over=e) + 1e-6)
    s = tw.dot(q[i, e], k[t, e], over=e) * of_q * of_k - tw.sqrt(by[t])
    y[i, f] = tw.dot(tw.softmax(s, over=t), v[t, f], over=t)


def masked_by(number: float) -> tw.Kernel:
    @tw.kernel
    def masked(q: tw.Tensor["M", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], y: tw.Tensor["M", "F"]):
        i, t, e, f = tw.axes("M T E F")
        s = tw.where(t > i - 9, tw.dot(q[i, e], k[t, e], over=e) * 0.25, number)
        y[i, f] = tw.dot(tw.softmax(s, over=t), v[t, f], over=t)

    return masked


@pytest.mark.sample(3)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("number", [-1e9, -1e30, -3.4028234663852886e38])
def test_tiles_of_a_mask_alone_may_have_any_number(number: float, target: str) -> None:
    """Of the first tile's keys many rows see none, so that its largest score is the mask's number; the last rows see
    none at all, and take all alike."""
    dims = {"M": 180, "T": 160, "E": 16, "F": 16}
    made = compile_kernel(masked_by(number), target=target, dims=dims, dtype="f16", assembled=False)
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((rows, 16)).astype(np.float16) for rows in (180, 160, 160))
    seen = np.arange(160) > np.arange(180)[:, None] - 9
    scores = np.where(seen, q.astype("f8") @ k.astype("f8").T * 0.25, number)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = weights / weights.sum(axis=1, keepdims=True) @ v.astype("f8")
    found = run_on_machine(made.bundle(), (q, k, v)).astype("f8")
    assert np.abs(found - expected).max() < 5e-3


@dataclass(frozen=True)
class Found:
    kernel: tw.Kernel
    dims: dict[str, int]
    integers: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])


FOUND = {
    # Waits of two walks one after the other, in more circles than were looked at.
    "two softmaxes": Found(two_softmaxes, {"B": 1, "M": 64, "T": 150, "E": 16, "F": 16}),
    # A sum was begun as what a later product gives, which was then issued twice.
    "half the weights": Found(a_product_of_half_the_weights_and_half_of_one, {"M": 2, "T": 130, "E": 32, "F": 32}),
    # What threads widen was no value that a cut hands over, so that of two such operands none was stored before.
    "bytes by bytes": Found(bytes_by_bytes, {"M": 20, "N": 9, "K": 40}),
    "bytes by bytes in a loop": Found(bytes_by_bytes_in_a_loop, {"M": 20, "N": 9, "K": 40}),
    "two rounded to bytes": Found(two_rounded_to_bytes, {"M": 20, "N": 9, "K": 40}),
    # A copy that is contiguous along a batch serves no tensor map.
    "batch innermost": Found(batch_innermost, {"B": 3, "M": 17, "N": 9, "K": 24}),
    # The second proof took blocks of an axis for an axis of its own.
    "scores of grouped heads": Found(scores_of_grouped_heads, {"H": 8, "M": 20, "T": 16, "E": 16}),
    # Arrays had the names of their parameters, and rings, buffers and roles names of their own.
    "names of parts": Found(parameters_called_as_parts_of_kernels, {"M": 20, "N": 40, "K": 16, "L": 16}),
    "names of rows": Found(rows_called_as_threads, {"M": 4, "N": 5000}),
    # The certificate's points gave sums of squares any sign, and their roots were no numbers.
    "scores over lengths": Found(scores_over_lengths, {"M": 20, "T": 53, "E": 16, "F": 16}),
    # What is gathered was taken for an array as it is asked whether threads compute the operand.
    "gathered rows": Found(computed_of_gathered_rows, {"R": 9, "M": 20, "N": 9, "K": 24}, {"rows": (-1, 9)}),
}


@pytest.mark.sample(10)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("name", FOUND)
def test_a_found_program_is_within_its_bounds(name: str, target: str) -> None:
    found = FOUND[name]
    program = Program(f"import tilewright as tw\n\n\n{found.kernel.source}", found.dims, "bf16", found.integers)
    outcome = judged(program, found.kernel, target, 0, assembled=False)
    assert outcome.refusal is None, outcome.refusal
    assert not outcome.wrong and outcome.open < 0.1, outcome
