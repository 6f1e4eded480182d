# Axis names in annotations are data, not types: checkers of types take them for undefined names.
# ruff: noqa: F821
# pyright: reportUndefinedVariable=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportInvalidTypeForm=false
"""Tile programs of products whose operands have scales.

A scale of a whole row or column, or of the whole operand, is arithmetic after the loop; scales of blocks along the
contracted axis are arithmetic in it. One number for a whole operand is a scale of one block that no extent exceeds.
There is a program for each set of arrays, of which every one is a parameter; what they compute is said once.
Checked by: tests/driver/compile/test_kernels.py.
"""

from functools import cache
from typing import Any, Literal

from tilewright.driver.compile.kernels import ACTIVATIONS
from tilewright.frontends.tile import language as tw

WHOLE = 2**30
"""Elements of a block that is never left: a tensor's last element lies within 2^31 of its first."""
_BLOCK = 128

Scaling = tuple[bool, bool] | Literal["blocks"]
"""Whether each operand has one scale for all of it, rather than one for each row (of a) or column (of b); or "blocks":
one for 128 elements of a row of a, and for 128 x 128 of b."""


@cache
def scaled_kernel(activation: str, biased: bool, added: bool, scaling: Scaling) -> tw.Kernel:
    """c = activation((a @ b) * scales + bias) + residual, with the parameters that there are: a, b, scale_a, scale_b,
    [bias], [residual], c."""
    if scaling == "blocks":
        of_a, of_b = tw.Tensor["M", "K/128", tw.f32], tw.Tensor["K/128", "N/128", tw.f32]
    else:
        rows, columns = (f"{axis}/{WHOLE}" if one else axis for axis, one in zip("MN", scaling, strict=True))
        of_a, of_b = tw.Tensor[rows, tw.f32], tw.Tensor[columns, tw.f32]

    def compute(a: Any, b: Any, scale_a: Any, scale_b: Any, c: Any, bias: Any = None, residual: Any = None) -> None:
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            terms = tw.dot(a[i, k], b[k, j])
            if scaling == "blocks":
                terms = terms * scale_a[i, k // _BLOCK] * scale_b[k // _BLOCK, j // _BLOCK]
            acc += terms
        if scaling != "blocks":
            acc = acc * scale_a[i // WHOLE if scaling[0] else i] * scale_b[j // WHOLE if scaling[1] else j]
        applied = ACTIVATIONS[activation](acc if bias is None else acc + bias[j])
        c[i, j] = applied if residual is None else applied + residual[i, j]

    @tw.kernel
    def scaled_matmul(
        a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], scale_a: of_a, scale_b: of_b, c: tw.Tensor["M", "N"]
    ) -> None:
        compute(a, b, scale_a, scale_b, c)

    @tw.kernel
    def scaled_matmul_biased(
        a: tw.Tensor["M", "K"],
        b: tw.Tensor["K", "N"],
        scale_a: of_a,
        scale_b: of_b,
        bias: tw.Tensor["N"],
        c: tw.Tensor["M", "N"],
    ) -> None:
        compute(a, b, scale_a, scale_b, c, bias)

    @tw.kernel
    def scaled_matmul_added(
        a: tw.Tensor["M", "K"],
        b: tw.Tensor["K", "N"],
        scale_a: of_a,
        scale_b: of_b,
        residual: tw.Tensor["M", "N"],
        c: tw.Tensor["M", "N"],
    ) -> None:
        compute(a, b, scale_a, scale_b, c, residual=residual)

    @tw.kernel
    def scaled_matmul_biased_added(
        a: tw.Tensor["M", "K"],
        b: tw.Tensor["K", "N"],
        scale_a: of_a,
        scale_b: of_b,
        bias: tw.Tensor["N"],
        residual: tw.Tensor["M", "N"],
        c: tw.Tensor["M", "N"],
    ) -> None:
        compute(a, b, scale_a, scale_b, c, bias, residual)

    if biased and added:
        return scaled_matmul_biased_added
    if biased:
        return scaled_matmul_biased
    return scaled_matmul_added if added else scaled_matmul
