"""Attention, norms and softmax as operators of PyTorch: how do they stand in for PyTorch's own functions?

    from tilewright.integrations.torch_operators import scaled_dot_product_attention, rms_norm

    y = scaled_dot_product_attention(q, k, v, is_causal=True)  # arguments as torch.nn.functional's

Each forward pass and each backward pass is an operator with a schema and a fake implementation; autograd goes from one
to the other, and `torch.compile` traces through both. `attention` returns the logarithm of the sum of each row's
exponentials too, and that has a gradient as well. The functions around the operators have PyTorch's arguments, and what
is not taken is refused with a message.

Not handled: gradients of gradients (going back twice is an error), dropout, masks other than the causal one.
Source: PyTorch, "torch.library", "Custom operators"; "torch.nn.functional".
Checked by: tests/integrations/test_torch_layers.py where PyTorch is installed; tests/gpu/test_attention_gpu.py.
"""

# PyTorch is no dependency, so its types are unknown where it is not installed.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

import tilewright as tw
from tilewright.driver.compile.norms import softmax_rows, softmax_rows_backward
from tilewright.integrations.torch_registration import Operator, no_gradient, plain, register, require

Tensor = Any
_FLOAT32_EPSILON = 2.0**-23


# ---------------------------------------------------------------- attention


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """PyTorch's function of the same name, in Tilewright's kernels; also of keys and values of 8 bits, without
    gradients of them (`tilewright.attention` takes their factors). Raises TilewrightError for a mask or dropout."""
    if attn_mask is not None:
        raise tw.TilewrightError("attention takes no attn_mask", remedy="pass is_causal=True")
    if dropout_p != 0:
        raise tw.TilewrightError("attention has no dropout", remedy="pass dropout_p=0.0")
    by = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    return torch.ops.tilewright.attention(query, key, value, is_causal, by, enable_gqa)[0]


def _attention(
    query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float, enable_gqa: bool
) -> tuple[Tensor, Tensor]:
    arrays = (plain(each) for each in (query, key, value))
    return tw.attention(*arrays, is_causal=causal, scale=scale, enable_gqa=enable_gqa, return_lse=True)


def _fake_attention(
    query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float, enable_gqa: bool
) -> tuple[Tensor, Tensor]:
    require(query.dim() == key.dim() == value.dim() and 2 <= query.dim() <= 4, "tilewright: attention of", query.shape)
    require(query.shape[-1] == key.shape[-1], "tilewright: attention of", query.shape, "and", key.shape)
    require(key.shape[:-1] == value.shape[:-1], "tilewright: keys", key.shape, "and values", value.shape)
    narrow = query.dtype in (torch.float8_e4m3fn, torch.float8_e5m2)
    out = query.new_empty((*query.shape[:-1], value.shape[-1]), dtype=torch.bfloat16 if narrow else query.dtype)
    return out, query.new_empty(query.shape[:-1], dtype=torch.float32)


def _attention_backward(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    lse_gradient: Tensor | None,
    causal: bool,
    scale: float,
    enable_gqa: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    arrays = (plain(each) for each in (gradient, query, key, value, out, lse))
    return tw.attention_backward(
        *arrays, lse_gradient=plain(lse_gradient), is_causal=causal, scale=scale, enable_gqa=enable_gqa
    )


def _fake_attention_backward(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, *_: Any
) -> tuple[Tensor, ...]:
    return tuple(each.new_empty(each.shape) for each in (query, key, value))


def _keep_attention(ctx: Any, inputs: Any, output: tuple[Tensor, Tensor]) -> None:
    query, key, value, *ctx.options = inputs
    ctx.save_for_backward(query, key, value, *output)
    ctx.set_materialize_grads(False)


def _back_through_attention(
    ctx: Any, gradient: Tensor | None, lse_gradient: Tensor | None
) -> tuple[Tensor | None, ...]:
    query, key, value, out, lse = ctx.saved_tensors
    if gradient is None:
        gradient = torch.zeros_like(out)
    found = torch.ops.tilewright.attention_backward(gradient, query, key, value, out, lse, lse_gradient, *ctx.options)
    return *found, None, None, None


# ---------------------------------------------------------------- norms


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """PyTorch's function of the same name, in Tilewright's kernels."""
    added = _FLOAT32_EPSILON if eps is None else eps
    return torch.ops.tilewright.rms_norm(input, list(normalized_shape), weight, added)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """PyTorch's function of the same name, in Tilewright's kernels."""
    return torch.ops.tilewright.layer_norm(input, list(normalized_shape), weight, bias, eps)


def _rms_norm(x: Tensor, normalized_shape: list[int], weight: Tensor | None, eps: float) -> Tensor:
    return tw.rms_norm(plain(x), normalized_shape, plain(weight), eps)


def _layer_norm(
    x: Tensor, normalized_shape: list[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    return tw.layer_norm(plain(x), normalized_shape, plain(weight), plain(bias), eps)


def _fake_norm(x: Tensor, normalized_shape: list[int], *_: Any) -> Tensor:
    last = tuple(normalized_shape)
    require(tuple(x.shape[x.dim() - len(last) :]) == last, "tilewright: normalized_shape", last, "of", x.shape)
    return x.new_empty(x.shape)


def _rms_norm_backward(
    gradient: Tensor, x: Tensor, normalized_shape: list[int], weight: Tensor | None, eps: float
) -> tuple[Tensor, Tensor]:
    dx, dweight = tw.rms_norm_backward(plain(gradient), plain(x), normalized_shape, plain(weight), eps)
    return dx, x.new_empty(0) if dweight is None else dweight


def _fake_rms_norm_backward(
    gradient: Tensor, x: Tensor, normalized_shape: list[int], weight: Tensor | None, eps: float
) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(0) if weight is None else weight.new_empty(weight.shape)


def _layer_norm_backward(
    gradient: Tensor, x: Tensor, normalized_shape: list[int], weight: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    dx, *others = tw.layer_norm_backward(plain(gradient), plain(x), normalized_shape, plain(weight), eps)
    dweight, dbias = (x.new_empty(0) if each is None else each for each in others)
    return dx, dweight, dbias


def _fake_layer_norm_backward(
    gradient: Tensor, x: Tensor, normalized_shape: list[int], weight: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    dx, dweight = _fake_rms_norm_backward(gradient, x, normalized_shape, weight, eps)
    return dx, dweight, dweight.new_empty(dweight.shape)


def _keep_norm(ctx: Any, inputs: Any, output: Tensor) -> None:
    x, ctx.normalized_shape, weight, *others = inputs
    ctx.eps = others[-1]
    ctx.save_for_backward(x, weight)


def _back_through_rms_norm(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    x, weight = ctx.saved_tensors
    of_x, of_weight = torch.ops.tilewright.rms_norm_backward(gradient, x, ctx.normalized_shape, weight, ctx.eps)
    return of_x, None, None if weight is None else of_weight, None


def _back_through_layer_norm(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    x, weight = ctx.saved_tensors
    of_x, of_weight, of_bias = torch.ops.tilewright.layer_norm_backward(
        gradient, x, ctx.normalized_shape, weight, ctx.eps
    )
    has_bias = ctx.needs_input_grad[3]
    return of_x, None, None if weight is None else of_weight, of_bias if has_bias else None, None


# ---------------------------------------------------------------- softmax


def softmax(input: Tensor, dim: int = -1) -> Tensor:
    """torch.softmax along the last axis, in Tilewright's kernels. Raises TilewrightError for another axis."""
    if dim not in (-1, input.dim() - 1):
        raise tw.TilewrightError(f"softmax along axis {dim} of {input.dim()}", remedy="move that axis to the end")
    return torch.ops.tilewright.softmax(input)


def _softmax(x: Tensor) -> Tensor:
    return softmax_rows(plain(x))


def _softmax_backward(gradient: Tensor, y: Tensor) -> Tensor:
    return softmax_rows_backward(plain(gradient), plain(y))


def _keep_result(ctx: Any, inputs: Any, output: Tensor) -> None:
    ctx.save_for_backward(output)


def _back_through_softmax(ctx: Any, gradient: Tensor) -> Tensor:
    (y,) = ctx.saved_tensors
    return torch.ops.tilewright.softmax_backward(gradient, y)


# ---------------------------------------------------------------- registration

_ATTENTION = "Tensor query, Tensor key, Tensor value"
_ASKED = "bool causal, float scale, bool enable_gqa"
_NORM = "Tensor x, SymInt[] normalized_shape, Tensor? weight"


def _like_first(x: Tensor, *_: Any) -> Tensor:
    return x.new_empty(x.shape)


def _backward(name: str, schema: str, real: Callable[..., Any], fake: Callable[..., Any]) -> Operator:
    return Operator(name, schema, real, fake, no_gradient(name))


LIBRARY = register(
    Operator(
        "attention", f"({_ATTENTION}, {_ASKED}) -> (Tensor, Tensor)", _attention, _fake_attention,
        _back_through_attention, _keep_attention,
    ),
    _backward(
        "attention_backward",
        f"(Tensor gradient, {_ATTENTION}, Tensor out, Tensor lse, Tensor? lse_gradient, {_ASKED}) "
        "-> (Tensor, Tensor, Tensor)",
        _attention_backward, _fake_attention_backward,
    ),
    Operator("rms_norm", f"({_NORM}, float eps) -> Tensor", _rms_norm, _fake_norm, _back_through_rms_norm, _keep_norm),
    _backward(
        "rms_norm_backward", f"(Tensor gradient, {_NORM}, float eps) -> (Tensor, Tensor)", _rms_norm_backward,
        _fake_rms_norm_backward,
    ),
    Operator(
        "layer_norm", f"({_NORM}, Tensor? bias, float eps) -> Tensor", _layer_norm, _fake_norm,
        _back_through_layer_norm, _keep_norm,
    ),
    _backward(
        "layer_norm_backward", f"(Tensor gradient, {_NORM}, float eps) -> (Tensor, Tensor, Tensor)",
        _layer_norm_backward, _fake_layer_norm_backward,
    ),
    Operator(
        "softmax", "(Tensor x) -> Tensor", _softmax, _like_first, _back_through_softmax,
        _keep_result,
    ),
    _backward(
        "softmax_backward", "(Tensor gradient, Tensor y) -> Tensor",
        _softmax_backward, _like_first,
    ),
)  # fmt: skip
