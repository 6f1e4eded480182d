# Axis names in annotations are data, not types: checkers of types take them for undefined names.
# ruff: noqa: F821
# pyright: reportUndefinedVariable=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportInvalidTypeForm=false, reportGeneralTypeIssues=false
"""Tile programs of products whose operands have scales.

A scale of a whole row or column, or of the whole operand, is arithmetic after the loop; scales of blocks along the
contracted axis are arithmetic in it. One number for a whole operand is a scale of one block that no extent exceeds.
Checked by: tests/driver/test_kernels.py.
"""

from functools import cache
from typing import Any

from tilewright.driver.kernels import ACTIVATIONS
from tilewright.frontends.tile import language as tw

WHOLE = 2**30
"""Elements of a block that is never left: a tensor's last element lies within 2^31 of its first."""


@cache
def scaled_kernel(activation: str, biased: bool, added: bool, whole: tuple[bool, bool]) -> tw.Kernel:
    """c = activation((a @ b) * scale_a * scale_b + bias) + residual, as `kernels.product_kernel`.

    whole: whether each operand has one scale for all of it, rather than one for each row (of a) or column (of b).
    """
    apply = ACTIVATIONS[activation]
    of_rows = f"M/{WHOLE}" if whole[0] else "M"
    of_columns = f"N/{WHOLE}" if whole[1] else "N"

    def row(scale: Any, i: tw.Index) -> Any:
        return scale[i // WHOLE if whole[0] else i]

    def column(scale: Any, j: tw.Index) -> Any:
        return scale[j // WHOLE if whole[1] else j]

    @tw.kernel
    def scaled_matmul_kernel(
        a: tw.Tensor["M", "K"],
        b: tw.Tensor["K", "N"],
        scale_a: tw.Tensor[of_rows, tw.f32],
        scale_b: tw.Tensor[of_columns, tw.f32],
        c: tw.Tensor["M", "N"],
    ) -> None:
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[i, k], b[k, j])
        c[i, j] = apply(acc * row(scale_a, i) * column(scale_b, j))

    @tw.kernel
    def scaled_matmul_kernel_biased(
        a: tw.Tensor["M", "K"],
        b: tw.Tensor["K", "N"],
        scale_a: tw.Tensor[of_rows, tw.f32],
        scale_b: tw.Tensor[of_columns, tw.f32],
        bias: tw.Tensor["N"],
        c: tw.Tensor["M", "N"],
    ) -> None:
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[i, k], b[k, j])
        c[i, j] = apply(acc * row(scale_a, i) * column(scale_b, j) + bias[j])

    @tw.kernel
    def scaled_matmul_kernel_added(
        a: tw.Tensor["M", "K"],
        b: tw.Tensor["K", "N"],
        scale_a: tw.Tensor[of_rows, tw.f32],
        scale_b: tw.Tensor[of_columns, tw.f32],
        residual: tw.Tensor["M", "N"],
        c: tw.Tensor["M", "N"],
    ) -> None:
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[i, k], b[k, j])
        c[i, j] = apply(acc * row(scale_a, i) * column(scale_b, j)) + residual[i, j]

    @tw.kernel
    def scaled_matmul_kernel_biased_added(
        a: tw.Tensor["M", "K"],
        b: tw.Tensor["K", "N"],
        scale_a: tw.Tensor[of_rows, tw.f32],
        scale_b: tw.Tensor[of_columns, tw.f32],
        bias: tw.Tensor["N"],
        residual: tw.Tensor["M", "N"],
        c: tw.Tensor["M", "N"],
    ) -> None:
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[i, k], b[k, j])
        c[i, j] = apply(acc * row(scale_a, i) * column(scale_b, j) + bias[j]) + residual[i, j]

    if biased and added:
        return scaled_matmul_kernel_biased_added
    if biased:
        return scaled_matmul_kernel_biased
    return scaled_matmul_kernel_added if added else scaled_matmul_kernel


@cache
def block_scaled_kernel(activation: str, biased: bool, added: bool) -> tw.Kernel:
    """c = activation(a @ b + bias) + residual, with a scale for 128 elements of a row of a and for 128 x 128 of b."""
    apply = ACTIVATIONS[activation]

    @tw.kernel
    def block_scaled_matmul_kernel(
        a: tw.Tensor["M", "K"],
        b: tw.Tensor["K", "N"],
        scale_a: tw.Tensor["M", "K/128", tw.f32],
        scale_b: tw.Tensor["K/128", "N/128", tw.f32],
        c: tw.Tensor["M", "N"],
    ) -> None:
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[i, k], b[k, j]) * scale_a[i, k // 128] * scale_b[k // 128, j // 128]
        c[i, j] = apply(acc)

    @tw.kernel
    def block_scaled_matmul_kernel_biased(
        a: tw.Tensor["M", "K"],
        b: tw.Tensor["K", "N"],
        scale_a: tw.Tensor["M", "K/128", tw.f32],
        scale_b: tw.Tensor["K/128", "N/128", tw.f32],
        bias: tw.Tensor["N"],
        c: tw.Tensor["M", "N"],
    ) -> None:
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[i, k], b[k, j]) * scale_a[i, k // 128] * scale_b[k // 128, j // 128]
        c[i, j] = apply(acc + bias[j])

    @tw.kernel
    def block_scaled_matmul_kernel_added(
        a: tw.Tensor["M", "K"],
        b: tw.Tensor["K", "N"],
        scale_a: tw.Tensor["M", "K/128", tw.f32],
        scale_b: tw.Tensor["K/128", "N/128", tw.f32],
        residual: tw.Tensor["M", "N"],
        c: tw.Tensor["M", "N"],
    ) -> None:
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[i, k], b[k, j]) * scale_a[i, k // 128] * scale_b[k // 128, j // 128]
        c[i, j] = apply(acc) + residual[i, j]

    @tw.kernel
    def block_scaled_matmul_kernel_biased_added(
        a: tw.Tensor["M", "K"],
        b: tw.Tensor["K", "N"],
        scale_a: tw.Tensor["M", "K/128", tw.f32],
        scale_b: tw.Tensor["K/128", "N/128", tw.f32],
        bias: tw.Tensor["N"],
        residual: tw.Tensor["M", "N"],
        c: tw.Tensor["M", "N"],
    ) -> None:
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[i, k], b[k, j]) * scale_a[i, k // 128] * scale_b[k // 128, j // 128]
        c[i, j] = apply(acc + bias[j]) + residual[i, j]

    if biased and added:
        return block_scaled_matmul_kernel_biased_added
    if biased:
        return block_scaled_matmul_kernel_biased
    return block_scaled_matmul_kernel_added if added else block_scaled_matmul_kernel
