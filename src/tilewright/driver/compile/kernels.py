# Axis names in annotations are data, not types: checkers of types take them for undefined names.
# ruff: noqa: F821
# pyright: reportUndefinedVariable=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportInvalidTypeForm=false
"""Tile programs that come with the package, written as any author would.

Which program computes a product with a given epilogue? One for each set of parameters; a function that is applied to
every element is Python that is traced, so it needs no program of its own. `kernels_scaled` has products of operands
with scales. Not handled: what the language does not have. Checked by: tests/driver/compile/test_kernels.py.
"""

from collections.abc import Callable
from functools import cache

from tilewright.frontends.tile import language as tw


@tw.kernel
def matmul_kernel(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]) -> None:
    """c = a @ b."""
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    c[i, j] = acc


def _unchanged(tile: tw.Tile) -> tw.Tile:
    return tile


ACTIVATIONS: dict[str, Callable[..., tw.Tile]] = {
    "none": _unchanged,
    "relu": tw.relu,
    "silu": tw.silu,
    "gelu": tw.gelu,
    "sigmoid": tw.sigmoid,
    "tanh": tw.tanh,
}
"""What may be applied to a product, by name; `gelu` is the tanh form."""


@cache
def product_kernel(activation: str, biased: bool, added: bool) -> tw.Kernel:
    """c = activation(a @ b + bias) + residual, with the parameters that there are: a, b, [bias], [residual], c."""
    apply = ACTIVATIONS[activation]

    @tw.kernel
    def matmul_kernel_activated(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]) -> None:
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[i, k], b[k, j])
        c[i, j] = apply(acc)

    @tw.kernel
    def matmul_kernel_biased(
        a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], bias: tw.Tensor["N"], c: tw.Tensor["M", "N"]
    ) -> None:
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[i, k], b[k, j])
        c[i, j] = apply(acc + bias[j])

    @tw.kernel
    def matmul_kernel_added(
        a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], residual: tw.Tensor["M", "N"], c: tw.Tensor["M", "N"]
    ) -> None:
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[i, k], b[k, j])
        c[i, j] = apply(acc) + residual[i, j]

    @tw.kernel
    def matmul_kernel_biased_added(
        a: tw.Tensor["M", "K"],
        b: tw.Tensor["K", "N"],
        bias: tw.Tensor["N"],
        residual: tw.Tensor["M", "N"],
        c: tw.Tensor["M", "N"],
    ) -> None:
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[i, k], b[k, j])
        c[i, j] = apply(acc + bias[j]) + residual[i, j]

    if not biased and not added:
        return matmul_kernel if activation == "none" else matmul_kernel_activated
    if biased and added:
        return matmul_kernel_biased_added
    return matmul_kernel_biased if biased else matmul_kernel_added


@cache
def batched_kernel(activation: str) -> tw.Kernel:
    """c[p] = activation(a[p] @ b[p]) for every p."""
    apply = ACTIVATIONS[activation]

    @tw.kernel
    def batched_matmul_kernel(
        a: tw.Tensor["B", "M", "K"], b: tw.Tensor["B", "K", "N"], c: tw.Tensor["B", "M", "N"]
    ) -> None:
        p, i, j = tw.grid("B", "M", "N")
        acc = tw.zeros(p, i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[p, i, k], b[p, k, j])
        c[p, i, j] = apply(acc)

    return batched_matmul_kernel


@cache
def gated_kernel(activation: str) -> tw.Kernel:
    """y = activation(x @ w_gate) * (x @ w_up), both products in one kernel."""
    apply = ACTIVATIONS[activation]

    @tw.kernel
    def gated_matmul_kernel(
        x: tw.Tensor["M", "K"], w_gate: tw.Tensor["K", "N"], w_up: tw.Tensor["K", "N"], y: tw.Tensor["M", "N"]
    ) -> None:
        i, j = tw.grid("M", "N")
        gate, linear = tw.zeros(i, j), tw.zeros(i, j)
        for k in tw.loop("K"):
            gate += tw.dot(x[i, k], w_gate[k, j])
            linear += tw.dot(x[i, k], w_up[k, j])
        y[i, j] = apply(gate) * linear

    return gated_matmul_kernel


@cache
def grouped_kernel(activation: str, biased: bool) -> tw.Kernel:
    """Rows of x in consecutive groups, each times its group's weights: x, w, ends, [bias], y."""
    apply = ACTIVATIONS[activation]

    @tw.kernel
    def grouped_matmul_kernel(
        x: tw.Tensor["T", "K"], w: tw.Tensor["G", "K", "N"], ends: tw.Tensor["G", tw.i32], y: tw.Tensor["T", "N"]
    ) -> None:
        g, i, j = tw.grid(tw.group("G", "T", ends), "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(x[i, k], w[g, k, j])
        y[i, j] = apply(acc)

    @tw.kernel
    def grouped_matmul_kernel_biased(
        x: tw.Tensor["T", "K"],
        w: tw.Tensor["G", "K", "N"],
        ends: tw.Tensor["G", tw.i32],
        bias: tw.Tensor["G", "N"],
        y: tw.Tensor["T", "N"],
    ) -> None:
        g, i, j = tw.grid(tw.group("G", "T", ends), "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(x[i, k], w[g, k, j])
        y[i, j] = apply(acc + bias[g, j])

    return grouped_matmul_kernel_biased if biased else grouped_matmul_kernel


@cache
def masked_kernel(activation: str) -> tw.Kernel:
    """The first counts[g] rows of x[g], times w[g]."""
    apply = ACTIVATIONS[activation]

    @tw.kernel
    def masked_matmul_kernel(
        x: tw.Tensor["G", "M", "K"],
        w: tw.Tensor["G", "K", "N"],
        counts: tw.Tensor["G", tw.i32],
        y: tw.Tensor["G", "M", "N"],
    ) -> None:
        g, i, j = tw.grid("G", tw.within("M", counts), "N")
        acc = tw.zeros(g, i, j)
        for k in tw.loop("K"):
            acc += tw.dot(x[g, i, k], w[g, k, j])
        y[g, i, j] = apply(acc)

    return masked_matmul_kernel
