"""Tilewright's products as operators of PyTorch: how are they used in a module, differentiated, and compiled?

    import tilewright.integrations.torch_operators  # registers torch.ops.tilewright

    y = torch.ops.tilewright.matmul(x, weight.t(), bias, None, "gelu")

Each operator is a function of `tilewright` with a schema, and with a fake implementation, which gives the result's
shape and element without running, so that `torch.compile` traces through it. `matmul` and `gated_matmul` have
gradients, made of products of the same kind: where there is an activation, what it was applied to is computed again
rather than kept. Gradients of operands are products of 16-bit elements, so one that comes in float32 is rounded to the
operands' element before. Attention, norms and softmax are registered by `torch_layers`, whose functions are here too.

Not handled: gradients of scaled and grouped products (going back through them is an error), sums over no elements
(which the gradient of a weight is, where there were no rows), other devices than CUDA and the CPU (there the CPU
machine runs the kernel, which is exact and slow).
Source: PyTorch, "torch.library", "Custom operators".
Checked by: tests/integrations/test_torch_operators.py where PyTorch is installed; tests/gpu/test_operators.py.
"""

# PyTorch is no dependency, so its types are unknown where it is not installed.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

from typing import Any

import torch

import tilewright as tw
from tilewright.integrations.torch_layers import layer_norm, rms_norm, scaled_dot_product_attention, softmax
from tilewright.integrations.torch_registration import Operator, no_gradient, plain, register, require

__all__ = ["LIBRARY", "layer_norm", "rms_norm", "scaled_dot_product_attention", "softmax"]

_SCHEMAS = {
    "matmul": (
        '(Tensor a, Tensor b, Tensor? bias=None, Tensor? residual=None, str activation="none", '
        "ScalarType? out_dtype=None) -> Tensor"
    ),
    "scaled_matmul": (
        "(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, Tensor? bias=None, Tensor? residual=None, "
        'str activation="none", ScalarType? out_dtype=None, bool fast_accumulation=False) -> Tensor'
    ),
    "gated_matmul": '(Tensor x, Tensor w_gate, Tensor w_up, str activation="silu") -> Tensor',
    "grouped_matmul": '(Tensor x, Tensor w, Tensor ends, Tensor? bias=None, str activation="none") -> Tensor',
    "masked_matmul": '(Tensor x, Tensor w, Tensor counts, str activation="none") -> Tensor',
}

Tensor = Any
_EIGHT_BITS = (torch.float8_e4m3fn, torch.float8_e5m2)


def _matmul(
    a: Tensor, b: Tensor, bias: Tensor = None, residual: Tensor = None, activation: str = "none", out_dtype: Any = None
) -> Tensor:
    return tw.matmul(
        plain(a),
        plain(b),
        bias=plain(bias),
        residual=plain(residual),
        activation=activation,
        out_dtype=out_dtype,
    )


def _scaled_matmul(
    a: Tensor,
    b: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor = None,
    residual: Tensor = None,
    activation: str = "none",
    out_dtype: Any = None,
    fast_accumulation: bool = False,
) -> Tensor:
    return tw.matmul(
        plain(a),
        plain(b),
        bias=plain(bias),
        residual=plain(residual),
        scale_a=plain(scale_a),
        scale_b=plain(scale_b),
        activation=activation,
        out_dtype=out_dtype,
        fast_accumulation=fast_accumulation,
    )


def _gated_matmul(x: Tensor, w_gate: Tensor, w_up: Tensor, activation: str = "silu") -> Tensor:
    return tw.gated_matmul(plain(x), plain(w_gate), plain(w_up), activation)


def _grouped_matmul(x: Tensor, w: Tensor, ends: Tensor, bias: Tensor = None, activation: str = "none") -> Tensor:
    return tw.grouped_matmul(plain(x), plain(w), ends, bias=plain(bias), activation=activation)


def _masked_matmul(x: Tensor, w: Tensor, counts: Tensor, activation: str = "none") -> Tensor:
    return tw.masked_matmul(plain(x), plain(w), counts, activation=activation)


def _product_like(a: Tensor, b: Tensor, out_dtype: Any) -> Tensor:
    require(a.dim() >= 2 and b.dim() in (2, 3), "tilewright: matmul of", a.shape, "and", b.shape)
    require(a.shape[-1] == b.shape[-2], "tilewright: matmul of", a.shape, "and", b.shape)
    require(a.dtype == b.dtype, "tilewright: matmul of", a.dtype, "and", b.dtype)
    if b.dim() == 3:
        require(a.dim() == 3 and a.shape[0] == b.shape[0], "tilewright: batches of", a.shape, "and", b.shape)
    dtype = out_dtype or (torch.bfloat16 if a.dtype in _EIGHT_BITS else a.dtype)
    return a.new_empty((*a.shape[:-1], b.shape[-1]), dtype=dtype)


def _fake_matmul(
    a: Tensor, b: Tensor, bias: Tensor = None, residual: Tensor = None, activation: str = "none", out_dtype: Any = None
) -> Tensor:
    return _product_like(a, b, out_dtype)


def _fake_scaled_matmul(
    a: Tensor,
    b: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor = None,
    residual: Tensor = None,
    activation: str = "none",
    out_dtype: Any = None,
    fast_accumulation: bool = False,
) -> Tensor:
    return _product_like(a, b, out_dtype)


def _fake_gated_matmul(x: Tensor, w_gate: Tensor, w_up: Tensor, activation: str = "silu") -> Tensor:
    require(w_gate.dim() == 2 and w_gate.shape == w_up.shape, "tilewright: weights", w_gate.shape, "and", w_up.shape)
    return _product_like(x, w_gate, None)


def _fake_grouped_matmul(x: Tensor, w: Tensor, ends: Tensor, bias: Tensor = None, activation: str = "none") -> Tensor:
    require(x.dim() == 2 and w.dim() == 3, "tilewright: groups of", x.shape, "times", w.shape)
    require(ends.shape == w.shape[:1], "tilewright:", ends.shape, "ends of groups for", w.shape)
    return _product_like(x, w[0], None)


def _fake_masked_matmul(x: Tensor, w: Tensor, counts: Tensor, activation: str = "none") -> Tensor:
    require(x.dim() == 3 and w.dim() == 3, "tilewright: groups of", x.shape, "times", w.shape)
    require(counts.shape == w.shape[:1], "tilewright:", counts.shape, "counts for", w.shape)
    return _product_like(x, w, None)


def _derivative(activation: str, before: Tensor, gradient: Tensor) -> Tensor:
    """The gradient with respect to what the activation was applied to, `before`; both float32."""
    aten = torch.ops.aten
    match activation:
        case "none":
            return gradient
        case "relu":
            return aten.threshold_backward(gradient, before, 0)
        case "silu":
            return aten.silu_backward(gradient, before)
        case "gelu":
            return aten.gelu_backward(gradient, before, approximate="tanh")
        case "sigmoid":
            return aten.sigmoid_backward(gradient, torch.sigmoid(before))
        case "tanh":
            return aten.tanh_backward(gradient, torch.tanh(before))
        case _:
            raise tw.TilewrightError(f"no activation is called {activation!r}", remedy="see tilewright.matmul")


def _applied(activation: str, before: Tensor) -> Tensor:
    """The activation itself. What it is called was judged when the product was made."""
    match activation:
        case "relu":
            return torch.relu(before)
        case "silu":
            return torch.nn.functional.silu(before)
        case "gelu":
            return torch.nn.functional.gelu(before, approximate="tanh")
        case "sigmoid":
            return torch.sigmoid(before)
        case "tanh":
            return torch.tanh(before)
        case _:
            return before


def _left_gradient(gradient: Tensor, b: Tensor) -> Tensor:
    """The gradient of a in a @ b."""
    return torch.ops.tilewright.matmul(gradient, b.transpose(-1, -2))


def _right_gradient(a: Tensor, gradient: Tensor, b: Tensor) -> Tensor:
    """The gradient of b in a @ b: over all rows, however many leading axes a has, or for each of a batch."""
    if b.dim() == 3:
        return torch.ops.tilewright.matmul(a.transpose(-1, -2), gradient)
    rows, columns = a.reshape(-1, a.shape[-1]), gradient.reshape(-1, gradient.shape[-1])
    return torch.ops.tilewright.matmul(rows.t(), columns)


def _keep_matmul(ctx: Any, inputs: Any, output: Tensor) -> None:
    a, b, bias, residual, activation, _ = inputs
    ctx.save_for_backward(a, b, bias)
    ctx.activation = activation
    ctx.residual_dtype = None if residual is None else residual.dtype


def _matmul_backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    a, b, bias = ctx.saved_tensors
    # As long as the arguments that were given; defaults have no gradients.
    needs = (*ctx.needs_input_grad, *[False] * 4)
    of_residual = gradient.to(ctx.residual_dtype) if needs[3] else None
    if ctx.activation != "none" and any(needs[:3]):
        before = torch.ops.tilewright.matmul(a, b, bias, None, "none", torch.float32)
        gradient = _derivative(ctx.activation, before, gradient.float())
    of_bias = None
    if needs[2]:
        rows = gradient.reshape(-1, gradient.shape[-1])
        of_bias = rows.sum(0, dtype=torch.float32).to(bias.dtype)
    rounded = gradient.to(a.dtype)
    return (
        _left_gradient(rounded, b) if needs[0] else None,
        _right_gradient(a, rounded, b) if needs[1] else None,
        of_bias,
        of_residual,
        None,
        None,
    )


def _keep_gated(ctx: Any, inputs: Any, output: Tensor) -> None:
    x, w_gate, w_up, activation = inputs
    ctx.save_for_backward(x, w_gate, w_up)
    ctx.activation = activation


def _gated_backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    x, w_gate, w_up = ctx.saved_tensors
    product = torch.ops.tilewright.matmul
    gate, linear = (product(x, w, None, None, "none", torch.float32) for w in (w_gate, w_up))
    wide = gradient.float()
    of_linear = (wide * _applied(ctx.activation, gate)).to(x.dtype)
    of_gate = _derivative(ctx.activation, gate, wide * linear).to(x.dtype)
    needs = ctx.needs_input_grad
    of_x = None
    if needs[0]:
        of_x = product(of_linear, w_up.t(), None, _left_gradient(of_gate, w_gate))
    return (
        of_x,
        _right_gradient(x, of_gate, w_gate) if needs[1] else None,
        _right_gradient(x, of_linear, w_up) if needs[2] else None,
        None,
    )


LIBRARY = register(
    *(
        Operator(name, _SCHEMAS[name], real, fake, backward, keep)
        for name, real, fake, backward, keep in (
            ("matmul", _matmul, _fake_matmul, _matmul_backward, _keep_matmul),
            ("gated_matmul", _gated_matmul, _fake_gated_matmul, _gated_backward, _keep_gated),
            ("scaled_matmul", _scaled_matmul, _fake_scaled_matmul, no_gradient("scaled_matmul"), None),
            ("grouped_matmul", _grouped_matmul, _fake_grouped_matmul, no_gradient("grouped_matmul"), None),
            ("masked_matmul", _masked_matmul, _fake_masked_matmul, no_gradient("masked_matmul"), None),
        )
    )
)
