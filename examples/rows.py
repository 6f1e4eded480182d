"""Programs that fold each row of a matrix: what is computed is said, how a row is walked is not. See README.md."""

import tilewright as tw


@tw.kernel
def softmax(x: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    y[i, j] = tw.softmax(x[i, j], over=j)


@tw.kernel
def log_softmax(x: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] - tw.logsumexp(x[i, j], over=j)


@tw.kernel
def rms_norm(x: tw.Tensor["M", "N"], weight: tw.Tensor["N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] * tw.rsqrt(tw.mean(x[i, j] * x[i, j], over=j) + 1e-6) * weight[j]


@tw.kernel
def layer_norm(x: tw.Tensor["M", "N"], weight: tw.Tensor["N"], bias: tw.Tensor["N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    centred = x[i, j] - tw.mean(x[i, j], over=j)
    y[i, j] = centred * tw.rsqrt(tw.mean(centred * centred, over=j) + 1e-5) * weight[j] + bias[j]


@tw.kernel
def argmax(x: tw.Tensor["M", "N"], y: tw.Tensor["M", tw.i32]):
    i, j = tw.grid("M", "N")
    y[i] = tw.argmax(x[i, j], over=j)


@tw.kernel
def quantize_int8(x: tw.Tensor["M", "N"], y: tw.Tensor["M", "N", tw.i8], scales: tw.Tensor["M", tw.f32]):
    i, j = tw.grid("M", "N")
    scale = tw.maximum(tw.max(tw.abs(x[i, j]), over=j) / 127.0, 1e-12)  # a row of zeros stays one of zeros
    y[i, j] = x[i, j] / scale
    scales[i] = scale


@tw.kernel
def quantize(x: tw.Tensor["M", "N"], y: tw.Tensor["M", "N", tw.f8e4m3], scales: tw.Tensor["M", tw.f32]):
    i, j = tw.grid("M", "N")
    scale = tw.maximum(tw.max(tw.abs(x[i, j]), over=j) / 448.0, 1e-12)  # 448 is f8e4m3's largest number
    y[i, j] = x[i, j] / scale
    scales[i] = scale
