# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Kinds of products, each with its program and launch."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.end_to_end import kernels

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.frontends.tile.kernel import Kernel
from tilewright.synth.tile.wanted import Wanted


@tw.kernel
def batched(a: tw.Tensor["B", "M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["B", "M", "N"]):
    p, i, j = tw.grid("B", "M", "N")
    acc = tw.zeros(p, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[p, i, k], b[k, j])
    c[p, i, j] = acc


@tw.kernel
def scaled(
    a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], of_a: tw.Tensor["M"], of_b: tw.Tensor["N"],
    c: tw.Tensor["M", "N"],
):  # fmt: skip
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[j, k].T)
    c[i, j] = acc * of_a[i] * of_b[j]


@tw.kernel
def turned(x: tw.Tensor["M", "N"], y: tw.Tensor["N", "M"]):
    i, j = tw.grid("M", "N")
    y[j, i] = x[i, j].T


@dataclass(frozen=True)
class Kind:
    kernel: Kernel
    dims: Mapping[str, int]
    wanted: Wanted = field(default_factory=Wanted)
    elements: Mapping[str, Element] = field(default_factory=dict[str, Element])
    strides: Mapping[str, tuple[int, ...]] | None = None


SHORT = {"M": 512, "N": 520, "K": 256}


TILE = Wanted(tile=(64, 64), stages=2)


E4M3 = {"a": Element.F8E4M3, "b": Element.F8E4M3, "of_a": Element.F32, "of_b": Element.F32}


KINDS = {
    "plain": Kind(matmul_kernel, SHORT, TILE),
    "direct store": Kind(matmul_kernel, {"M": 512, "N": 515, "K": 256}, TILE, strides={"b": (1, 256)}),
    "few slices": Kind(matmul_kernel, {"M": 512, "N": 520, "K": 64}, Wanted(tile=(64, 64), stages=3)),
    "turns": Kind(matmul_kernel, SHORT, Wanted(tile=(128, 64), stages=2, turns=True)),
    "hilbert": Kind(matmul_kernel, SHORT, Wanted(tile=(64, 64), stages=2, tile_order="hilbert", tile_group=2)),
    "cluster": Kind(matmul_kernel, SHORT, Wanted(tile=(64, 128), stages=2, cluster=(2, 1))),
    "split": Kind(matmul_kernel, {"M": 256, "N": 256, "K": 1024}, Wanted(tile=(64, 64), stages=2, split=2)),
    "streamed": Kind(
        matmul_kernel, {"M": 4096, "N": 2112, "K": 4096},
        Wanted(tile=(128, 128), stages=2, turns=True, stream_k=True),
    ),
    "by threads": Kind(
        matmul_kernel, {"M": 256, "N": 256, "K": 130}, Wanted(tile=(64, 64), stages=2, unmapped="threads"),
        strides={"b": (1, 130)},
    ),
    "copied first": Kind(matmul_kernel, {"M": 256, "N": 256, "K": 131}, TILE),
    "computed": Kind(kernels.operand_expression, SHORT, Wanted(tile=(64, 64), stages=2, computed="workspace")),
    "batch": Kind(batched, {"B": 3, **SHORT}, TILE),
    "groups": Kind(kernels.consecutive, {"T": 512, "G": 8, "K": 256, "N": 512}, TILE, {"ends": Element.S32}),
    "scaled": Kind(scaled, SHORT, Wanted(tile=(64, 64), stages=2), E4M3, {"b": (256, 1)}),
    "elementwise": Kind(kernels.elementwise, {"M": 512, "N": 520}),
    "turned copy": Kind(turned, {"M": 512, "N": 520}),
}  # fmt: skip
