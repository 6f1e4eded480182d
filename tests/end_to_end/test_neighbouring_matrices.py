# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Operands of products that are tiles of a neighbouring matrix of a batch (`K[b - 1, t, e]`), 0 where there is none."""

import pytest
from tests.end_to_end.blackwell_programs import check_numbers

import tilewright.frontends.tile.language as tw
from tilewright.driver.compile.compile import compile_kernel
from tilewright.frontends.tile.kernel import Kernel


@tw.kernel
def both_operands(x: tw.Tensor["B", "M", "K"], w: tw.Tensor["B", "K", "N"], y: tw.Tensor["B", "M", "N"]):
    b, i, j = tw.grid("B", "M", "N")
    acc = tw.zeros(b, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[b + 1, i, k], w[b - 1, k, j])
    y[b, i, j] = acc


@tw.kernel
def keys(
    Q: tw.Tensor["B", "Q", "E"], K: tw.Tensor["B", "T", "E"], V: tw.Tensor["B", "T", "F"], out: tw.Tensor["B", "Q", "F"]
):
    b, q, t, e, f = tw.axes("B Q T E F")
    s = tw.dot(Q[b, q, e], K[b - 1, t, e], over=e)
    out[b, q, f] = tw.dot(tw.softmax(s, over=t), V[b, t, f], over=t)


@tw.kernel
def also_added(
    Q: tw.Tensor["B", "Q", "E"], K: tw.Tensor["B", "T", "E"], V: tw.Tensor["B", "T", "E"], out: tw.Tensor["B", "Q", "E"]
):
    """The queries that are multiplied are added, too, which threads load by themselves."""
    b, q, t, e = tw.axes("B Q T E")
    s = tw.dot(Q[b - 1, q, e], K[b, t, e], over=e)
    out[b, q, e] = tw.dot(tw.softmax(s, over=t), V[b + 1, t, e], over=t) + Q[b - 1, q, e]


@pytest.mark.sample(2)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize(
    ("kernel", "dims", "launches"),
    [
        (both_operands, {"B": 3, "M": 70, "N": 64, "K": 64}, None),
        (keys, {"B": 3, "Q": 70, "T": 80, "E": 64, "F": 64}, 1),
        (also_added, {"B": 3, "Q": 40, "T": 48, "E": 64}, 2),
    ],
    ids=lambda value: value.name if isinstance(value, Kernel) else None,
)
def test_numbers(kernel: Kernel, dims: dict[str, int], launches: int | None, target: str) -> None:
    made = compile_kernel(kernel, dims=dims, target=target)
    assert made.text_proof is not None and launches in (None, len(made.plan.launches))
    check_numbers(made)
