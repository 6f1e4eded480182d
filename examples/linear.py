"""A linear layer with GELU, as one tile program. See README.md."""

import tilewright as tw


@tw.kernel
def linear(
    x: tw.Tensor["M", "K"],
    w: tw.Tensor["K", "N"],
    bias: tw.Tensor["N"],
    y: tw.Tensor["M", "N"],
):
    i, j = tw.grid("M", "N")          # one program per tile of y
    acc = tw.zeros(i, j)              # float32
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[k, j])
    y[i, j] = tw.gelu(acc + bias[j])  # rounded to y's element
