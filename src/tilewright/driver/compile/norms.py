"""`tw.rms_norm`, `tw.layer_norm` and a softmax of rows, with their gradients: which tile programs compute them?

The arguments are those of PyTorch's functions of the same names, of NumPy arrays or arrays on a GPU. All sums are in
float32; a result has the element of the array that is normalized. What a forward pass folds is folded again by the
backward one, which has each row in registers anyhow, so nothing is kept but the arrays themselves.

Not handled: rows without elements. Checked by: tests/driver/compile/test_norms.py on the CPU machine;
tests/gpu/test_attention_gpu.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index
from typing import Any, cast

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.driver.compile import kernels_rows as kernels
from tilewright.driver.compile.specialised import Verb, call, recalled, run_into
from tilewright.runtime.arrays import ArrayView, UnsupportedElement, empty_like_device, view_array

_NORMALIZED = (Element.BF16, Element.F16, Element.F32)
_FLOAT32_EPSILON = 2.0**-23
"""PyTorch's default of `eps` for RMS norms: that of the element in which sums are taken."""
_RMS_NORM = Verb("rms_norm", ("x", "weight"))
_LAYER_NORM = Verb("layer_norm", ("x", "weight", "bias"))
_SOFTMAX = Verb("softmax", ("x",))


def rms_norm(x: Any, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Any:
    """x / sqrt(mean(x²) + eps) * weight over the last axes, as PyTorch's function of the same arguments.

    Args:
        x: bf16, f16 or f32.
        normalized_shape: The extents of the axes that a mean is over.
        weight: Of that shape.
        eps: By default float32's, as in PyTorch.

    Raises:
        TilewrightError: The arrays do not fit.
    """
    added = _FLOAT32_EPSILON if eps is None else float(eps)
    return _forward(_RMS_NORM, kernels.rms_norm_kernel(added, weight is not None), x, normalized_shape, weight, None)


def rms_norm_backward(
    gradient: Any, x: Any, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None
) -> tuple[Any, Any]:
    """The gradients of x and weight; None for a weight that there is not. gradient: of the result."""
    rows, like = _rows(x, normalized_shape, "x")
    given, _ = _rows(gradient, normalized_shape, "gradient", like)
    added = _FLOAT32_EPSILON if eps is None else float(eps)
    dx = empty_like_device(like, rows.shape, like.element)
    kernel, inputs, results = (
        kernels.rms_norm_gradient_kernel(added, weight is not None),
        _named(given, rows),
        {"dx": dx},
    )
    if weight is None:
        _run(kernel, inputs, results)
        return _shaped(dx, x), None
    flat, kind = _flat(weight, "weight", normalized_shape)
    factor = empty_like_device(like, rows.shape[:1], Element.F32)
    _run(kernel, {**inputs, "weight": flat}, {**results, "factor": factor})
    dweight = empty_like_device(like, flat.shape, kind)
    _sum(kernels.rms_norm_weight_gradient, {**inputs, "factor": factor}, {"dweight": dweight})
    return _shaped(dx, x), _shaped(dweight, weight)


def layer_norm(x: Any, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """(x - mean(x)) / sqrt(variance(x) + eps) * weight + bias over the last axes, as PyTorch's function of the same
    arguments. A bias needs a weight. Raises TilewrightError for arrays that do not fit."""
    if bias is not None and weight is None:
        raise TilewrightError("layer_norm has a bias and no weight", remedy="pass a weight of ones, or add the bias")
    kernel = kernels.layer_norm_kernel(float(eps), weight is not None, bias is not None)
    return _forward(_LAYER_NORM, kernel, x, normalized_shape, weight, bias)


def layer_norm_backward(
    gradient: Any, x: Any, normalized_shape: Sequence[int], weight: Any = None, eps: float = 1e-5
) -> tuple[Any, Any, Any]:
    """The gradients of x, weight and bias, the latter two of the weight's element; None without a weight. gradient: of
    the result."""
    rows, like = _rows(x, normalized_shape, "x")
    given, _ = _rows(gradient, normalized_shape, "gradient", like)
    dx = empty_like_device(like, rows.shape, like.element)
    kernel, inputs = kernels.layer_norm_gradient_kernel(float(eps), weight is not None), _named(given, rows)
    if weight is None:
        _run(kernel, inputs, {"dx": dx})
        return _shaped(dx, x), None, None
    flat, kind = _flat(weight, "weight", normalized_shape)
    folded = {name: empty_like_device(like, rows.shape[:1], Element.F32) for name in ("centre", "factor")}
    _run(kernel, {**inputs, "weight": flat}, {"dx": dx, **folded})
    dweight, dbias = (empty_like_device(like, flat.shape, kind) for _ in range(2))
    _sum(kernels.layer_norm_weight_gradient, {**inputs, **folded}, {"dweight": dweight, "dbias": dbias})
    return _shaped(dx, x), _shaped(dweight, weight), _shaped(dbias, weight)


def softmax_rows(x: Any) -> Any:
    """softmax(x) along the last axis, of x's element. Raises TilewrightError for arrays that have none."""
    return _forward(_SOFTMAX, kernels.softmax_rows, x, x.shape[-1:], None, None)


def softmax_rows_backward(gradient: Any, y: Any) -> Any:
    """The gradient of x, where y is softmax(x) along the last axis. gradient: of y."""
    rows, like = _rows(y, y.shape[-1:], "y")
    given, _ = _rows(gradient, y.shape[-1:], "gradient", like)
    dx = empty_like_device(like, rows.shape, like.element)
    _run(kernels.softmax_gradient, {"gradient": given, "y": rows}, {"dx": dx})
    return _shaped(dx, y)


def _forward(verb: Verb, kernel: Any, x: Any, normalized_shape: Sequence[int], weight: Any, bias: Any) -> Any:
    rows, like = _rows(x, normalized_shape, "x")
    arrays = {"x": rows}
    for name, array in (("weight", weight), ("bias", bias)):
        if array is not None:
            arrays[name] = _flat(array, name, normalized_shape)[0]
    given = tuple(arrays.get(name) for name in verb.arrays)
    again = recalled(verb, given, None, (kernel,))
    if again.launch is not None:
        found = again.launch(given, None)
    else:
        found = call(kernel, arrays, None, rows.shape, like.element, again, rows_axis="M")
    return _shaped(found, x)


def _named(gradient: Any, rows: Any) -> dict[str, Any]:
    return {"gradient": gradient, "x": rows}


def _run(kernel: Any, inputs: dict[str, Any], results: dict[str, Any]) -> None:
    """Run a program, unless there are no rows."""
    if all(0 not in array.shape for array in inputs.values()):
        run_into(kernel, inputs, results)


def _sum(kernel: Any, inputs: dict[str, Any], results: dict[str, Any]) -> None:
    """Run a program that sums over rows; over none, the sums are 0."""
    _run(kernel, inputs, results)
    if 0 in inputs["x"].shape:
        for each in results.values():
            each[...] = 0.0


def _rows(
    array: Any, normalized_shape: Sequence[int], name: str, like: ArrayView | None = None
) -> tuple[Any, ArrayView]:
    """The array as rows of the elements that are folded together, and its view. like: one whose shape and element it
    must have. Raises TilewrightError."""
    try:
        view = view_array(array, name=name)
    except UnsupportedElement as error:
        raise TilewrightError(f"{error.message}, which is not normalized", remedy="convert it to bf16") from None
    last = _extents(normalized_shape)
    if not last or view.shape[len(view.shape) - len(last) :] != last or 0 in last:
        raise TilewrightError(
            f"{name} has shape {view.shape} and normalized_shape is {last}",
            remedy="give the last extents of the array, none of them 0",
        )
    if view.element not in _NORMALIZED or (like is not None and view.element is not like.element):
        wanted = "bf16, f16 or f32" if like is None else like.element.value
        raise TilewrightError(f"{name} has elements {view.element.value}", remedy=f"convert it to {wanted}")
    if like is not None and view.shape != like.shape:
        raise TilewrightError(f"{name} has shape {view.shape}; it should be {like.shape}")
    length = math.prod(last)
    return array.reshape((math.prod(view.shape) // length, length)), view


def _extents(normalized_shape: object) -> tuple[int, ...]:
    """Raises TilewrightError for what is no sequence of integers, such as a weight in its place."""
    try:
        return tuple(index(extent) for extent in cast("Sequence[Any]", normalized_shape))
    except TypeError:
        raise TilewrightError(
            f"normalized_shape is {type(normalized_shape).__name__}; it is the extents of the axes that are normalized",
            remedy="pass x.shape[-1:] for it, and a weight after it or as weight=",
        ) from None


def _flat(array: Any, name: str, normalized_shape: Sequence[int]) -> tuple[Any, Element]:
    """A weight or a bias as one row, and its element. Raises TilewrightError for another shape."""
    view, wanted = view_array(array, name=name), _extents(normalized_shape)
    if view.shape != wanted:
        raise TilewrightError(f"{name} has shape {view.shape}; it should be {wanted}", remedy="pass one of that shape")
    return array.reshape((math.prod(wanted),)), view.element


def _shaped(array: Any, like: Any) -> Any:
    return array.reshape(tuple(int(extent) for extent in like.shape))
