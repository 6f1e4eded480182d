# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Products scaled in their loop for Hopper, in batches, groups and beside others: proved twice, assembled, exact."""

from collections.abc import Mapping, Sequence

import pytest
from tests.end_to_end.scaled_programs import CASES, F8, F32, check_scaled

import tilewright as tw
from tilewright.driver.compile.compile import compile_kernel
from tilewright.frontends.tile.kernel import Kernel
from tilewright.ir.cascade import CascadeDecisions


@tw.kernel
def gated_by_steps(
    x: tw.Tensor["M", "K", F8],
    w: tw.Tensor["N", "K", F8],
    v: tw.Tensor["N", "K", F8],
    s: tw.Tensor["M", "K/32", tw.bf16],
    t: tw.Tensor["N", "K/64", F32],
    y: tw.Tensor["M", "N"],
):
    i, j = tw.grid("M", "N")
    gate, up = tw.zeros(i, j), tw.zeros(i, j)
    for k in tw.loop("K"):
        gate += tw.dot(x[i, k], w[j, k].T) * s[i, k // 32] * t[j, k // 64]
        up += tw.dot(x[i, k], v[j, k].T) * s[i, k // 32]
    y[i, j] = tw.silu(gate) * up


@tw.kernel
def rounded_first(
    x: tw.Tensor["M", "K", F8],
    w: tw.Tensor["N", "K", F8],
    s: tw.Tensor["M", "K/128", F32],
    y: tw.Tensor["M", "N"],
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot((x[i, k] * 0.5).to(F8), w[j, k].T) * s[i, k // 128]
    y[i, j] = acc


_MORE: list[tuple[Kernel, dict[str, int], list[list[int]]]] = [
    (gated_by_steps, {"M": 130, "N": 96, "K": 272}, [[]]),
    (rounded_first, {"M": 130, "N": 160, "K": 400}, [[]]),
]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("kernel", "dims", "limits"),
    [*CASES, *_MORE],
    ids=[f"{kernel.name}-{'x'.join(map(str, dims.values()))}" for kernel, dims, _ in [*CASES, *_MORE]],
)
def test_scaled_products(kernel: Kernel, dims: Mapping[str, int], limits: Sequence[Sequence[int]]) -> None:
    made = compile_kernel(kernel, target="sm_90a", dims=dims)
    assert isinstance(made.decisions, CascadeDecisions) and "wgmma" in made.ptx
    check_scaled(made, kernel, dims, limits)
