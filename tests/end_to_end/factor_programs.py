# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Products of 8-bit operands with factors of blocks of 32, which a tensor core may take."""

import tilewright.frontends.tile.language as tw


@tw.kernel
def scaled(
    x: tw.Tensor["M", "K"],
    w: tw.Tensor["N", "K"],
    s: tw.Tensor["M", "K/32", tw.ue8m0],
    t: tw.Tensor["N", "K/32", tw.ue8m0],
    y: tw.Tensor["M", "N", tw.f32],
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[j, k].T) * s[i, k // 32] * t[j, k // 32].T
    y[i, j] = acc


@tw.kernel
def of_matrices(
    x: tw.Tensor["B", "M", "K"],
    w: tw.Tensor["B", "N", "K"],
    s: tw.Tensor["B", "M", "K/32", tw.ue8m0],
    t: tw.Tensor["B", "N", "K/32", tw.ue8m0],
    y: tw.Tensor["B", "M", "N"],
):
    b, i, j = tw.grid("B", "M", "N")
    acc = tw.zeros(b, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[b, i, k], w[b, j, k].T) * t[b, j, k // 32].T * s[b, i, k // 32]
    y[b, i, j] = tw.relu(acc)


@tw.kernel
def gated(
    x: tw.Tensor["M", "K"],
    w: tw.Tensor["N", "K"],
    v: tw.Tensor["N", "K"],
    s: tw.Tensor["M", "K/32", tw.ue8m0],
    t: tw.Tensor["N", "K/32", tw.ue8m0],
    u: tw.Tensor["N", "K/32", tw.ue8m0],
    b: tw.Tensor["N", tw.f32],
    y: tw.Tensor["M", "N", tw.bf16],
):
    i, j = tw.grid("M", "N")
    gate, up = tw.zeros(i, j), tw.zeros(i, j)
    for k in tw.loop("K"):
        gate += tw.dot(x[i, k], w[j, k].T) * s[i, k // 32] * t[j, k // 32].T
        up += tw.dot(x[i, k], v[j, k].T) * s[i, k // 32] * u[j, k // 32].T
    y[i, j] = tw.sigmoid(gate) * (up + b[j])


@tw.kernel
def of_experts(
    x: tw.Tensor["M", "K"],
    w: tw.Tensor["G", "N", "K"],
    s: tw.Tensor["M", "K/32", tw.ue8m0],
    t: tw.Tensor["G", "N", "K/32", tw.ue8m0],
    ends: tw.Tensor["G", tw.i32],
    y: tw.Tensor["M", "N", tw.bf16],
):
    g, i, j = tw.grid(tw.group("G", "M", ends), "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[g, j, k].T) * s[i, k // 32] * t[g, j, k // 32].T
    y[i, j] = acc


@tw.kernel
def of_columns(
    x: tw.Tensor["M", "K"],
    w: tw.Tensor["K", "N"],
    s: tw.Tensor["M", "K/32", tw.ue8m0],
    t: tw.Tensor["K/32", "N", tw.ue8m0],
    y: tw.Tensor["M", "N", tw.f32],
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[k, j]) * s[i, k // 32] * t[k // 32, j]
    y[i, j] = acc


@tw.kernel
def of_one_operand(
    x: tw.Tensor["M", "K"],
    w: tw.Tensor["N", "K"],
    s: tw.Tensor["M", "K/32", tw.ue8m0],
    y: tw.Tensor["M", "N", tw.f32],
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[j, k].T) * s[i, k // 32]
    y[i, j] = acc


@tw.kernel
def of_other_operand(
    x: tw.Tensor["M", "K"],
    w: tw.Tensor["N", "K"],
    t: tw.Tensor["N", "K/32", tw.ue8m0],
    y: tw.Tensor["M", "N", tw.f32],
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[j, k].T) * t[j, k // 32].T
    y[i, j] = acc


@tw.kernel
def of_experts_rows(
    x: tw.Tensor["M", "K"],
    w: tw.Tensor["G", "N", "K"],
    t: tw.Tensor["G", "N", "K/32", tw.ue8m0],
    ends: tw.Tensor["G", tw.i32],
    y: tw.Tensor["M", "N", tw.bf16],
):
    g, i, j = tw.grid(tw.group("G", "M", ends), "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[g, j, k].T) * t[g, j, k // 32].T
    y[i, j] = acc


@tw.kernel
def of_wide_blocks_of_one(
    x: tw.Tensor["M", "K"],
    w: tw.Tensor["N", "K"],
    s: tw.Tensor["M", "K/128", tw.ue8m0],
    y: tw.Tensor["M", "N", tw.f32],
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[j, k].T) * s[i, k // 128]
    y[i, j] = acc


@tw.kernel
def of_fine_blocks_of_one(
    x: tw.Tensor["M", "K", tw.f4e2m1x2],
    w: tw.Tensor["N", "K", tw.f4e2m1x2],
    t: tw.Tensor["N", "K/8", tw.ue4m3],
    y: tw.Tensor["M", "N", tw.f32],
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[j, k].T) * t[j, k // 8].T
    y[i, j] = acc


@tw.kernel
def of_wide_blocks(
    x: tw.Tensor["M", "K"],
    w: tw.Tensor["N", "K"],
    s: tw.Tensor["M", "K/128", tw.ue8m0],
    t: tw.Tensor["N", "K/128", tw.ue8m0],
    y: tw.Tensor["M", "N", tw.f32],
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[j, k].T) * s[i, k // 128] * t[j, k // 128].T
    y[i, j] = acc


@tw.kernel
def of_numbers(
    x: tw.Tensor["M", "K"],
    w: tw.Tensor["N", "K"],
    s: tw.Tensor["M", "K/32", tw.f32],
    t: tw.Tensor["N", "K/32", tw.f32],
    y: tw.Tensor["M", "N", tw.f32],
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[j, k].T) * s[i, k // 32] * t[j, k // 32].T
    y[i, j] = acc


@tw.kernel
def stored(x: tw.Tensor["M", "N", tw.f32], y: tw.Tensor["M", "N", tw.ue8m0]):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j]


@tw.kernel
def of_four_bits(
    x: tw.Tensor["M", "K", tw.f4e2m1x2],
    w: tw.Tensor["N", "K", tw.f4e2m1x2],
    s: tw.Tensor["M", "K/16", tw.ue8m0],
    t: tw.Tensor["N", "K/16", tw.ue8m0],
    y: tw.Tensor["M", "N", tw.f32],
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[j, k].T) * s[i, k // 16] * t[j, k // 16].T
    y[i, j] = acc


@tw.kernel
def of_fine_blocks(
    x: tw.Tensor["B", "M", "K", tw.f4e2m1x2],
    w: tw.Tensor["B", "N", "K", tw.f4e2m1x2],
    s: tw.Tensor["B", "M", "K/8", tw.ue4m3],
    t: tw.Tensor["B", "N", "K/8", tw.ue4m3],
    b: tw.Tensor["N", tw.f32],
    y: tw.Tensor["B", "M", "N", tw.f32],
):
    g, i, j = tw.grid("B", "M", "N")
    acc = tw.zeros(g, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[g, i, k], w[g, j, k].T) * s[g, i, k // 8] * t[g, j, k // 8].T
    y[g, i, j] = acc + b[j]


@tw.kernel
def of_bare_pairs(
    x: tw.Tensor["M", "K", tw.f4e2m1x2], w: tw.Tensor["N", "K", tw.f4e2m1x2], y: tw.Tensor["M", "N", tw.f32]
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[j, k].T)
    y[i, j] = acc


@tw.kernel
def of_added_pairs(x: tw.Tensor["M", "N", tw.f4e2m1x2], y: tw.Tensor["M", "N", tw.f32]):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] + 1.0


@tw.kernel
def of_fine_numbers(
    x: tw.Tensor["M", "K"],
    w: tw.Tensor["N", "K"],
    s: tw.Tensor["M", "K/128", tw.ue4m3],
    t: tw.Tensor["N", "K/128", tw.ue4m3],
    y: tw.Tensor["M", "N", tw.f32],
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[j, k].T) * s[i, k // 128] * t[j, k // 128].T
    y[i, j] = acc
