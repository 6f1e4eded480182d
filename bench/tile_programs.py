# Axis names in annotations are data, not types: checkers of types take them for undefined names.
# ruff: noqa: F821
# pyright: basic
"""Tile programs of the measured products that are more than `a @ b`, written as any author would."""

from tilewright.frontends.tile import language as tw


@tw.kernel
def scaled_by_rows(
    a: tw.Tensor["M", "K"],
    b: tw.Tensor["K", "N"],
    of_a: tw.Tensor["M", tw.f32],
    of_b: tw.Tensor["N", tw.f32],
    c: tw.Tensor["M", "N", tw.bf16],
) -> None:
    """Operands of 8 bits with a factor for every row of a and every column of b."""
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    c[i, j] = acc * of_a[i] * of_b[j]


@tw.kernel
def scaled_by_tensors(
    a: tw.Tensor["M", "K"],
    b: tw.Tensor["K", "N"],
    of_a: tw.Tensor["M/1073741824", tw.f32],
    of_b: tw.Tensor["N/1073741824", tw.f32],
    c: tw.Tensor["M", "N", tw.bf16],
) -> None:
    """Operands of 8 bits with a factor each: one for a block of rows, or columns, that no matrix fills."""
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    c[i, j] = acc * of_a[i // 1073741824] * of_b[j // 1073741824]


@tw.kernel
def scaled_by_blocks(
    a: tw.Tensor["M", "K"],
    b: tw.Tensor["N", "K"],
    of_a: tw.Tensor["M", "K/128", tw.f32],
    of_b: tw.Tensor["N/128", "K/128", tw.f32],
    c: tw.Tensor["M", "N", tw.bf16],
) -> None:
    """Operands of 8 bits with a factor for 128 elements of a row of a and for 128 x 128 of b."""
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[j, k].T) * of_a[i, k // 128] * of_b[j // 128, k // 128]
    c[i, j] = acc


@tw.kernel
def experts(
    x: tw.Tensor["T", "K"], w: tw.Tensor["G", "N", "K"], ends: tw.Tensor["G", tw.i32], y: tw.Tensor["T", "N"]
) -> None:
    """Rows of x in consecutive groups, each times its group's weights."""
    g, i, j = tw.grid(tw.group("G", "T", ends), "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[g, j, k].T)
    y[i, j] = acc


@tw.kernel
def rows_scaled_first(
    a: tw.Tensor["M", "K"], of_a: tw.Tensor["M"], b: tw.Tensor["N", "K"], c: tw.Tensor["M", "N"]
) -> None:
    """Each row of a times a number before the product, as after a normalization."""
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot((a[i, k] * of_a[i]).to(tw.bf16), b[j, k].T)
    c[i, j] = acc


@tw.kernel
def converted_first(a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], c: tw.Tensor["M", "N"]) -> None:
    """An operand of another type."""
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k].to(tw.bf16), b[j, k].T)
    c[i, j] = acc


@tw.kernel
def both_scaled_first(
    a: tw.Tensor["M", "K"],
    of_a: tw.Tensor["M"],
    along: tw.Tensor["K"],
    b: tw.Tensor["N", "K"],
    c: tw.Tensor["M", "N"],
) -> None:
    """Rows and columns of a scaled before the product, as by a normalization with weights."""
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot((a[i, k] * of_a[i] * along[k]).to(tw.bf16), b[j, k].T)
    c[i, j] = acc
