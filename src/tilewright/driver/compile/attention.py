"""`tw.attention` and its gradients: which tile programs compute them for these arrays?

The arguments are those of `torch.nn.functional.scaled_dot_product_attention`, of NumPy arrays or arrays on a GPU; what
of it is not taken is refused. The programs are `kernels_attention`'s, compiled for exactly these shapes and strides.
Arrays without keys, or without queries, need no program: there is nothing to attend to, or nobody who does.

Not handled: dropout, masks other than the causal one, elements that tensor cores do not multiply, head sizes that are
no multiple of 8, or of 16 where keys have 8 bits; gradients of arrays of 8 bits.
Checked by: tests/driver/compile/test_attention.py on the CPU machine; tests/gpu/test_attention_gpu.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.driver.compile import kernels_attention as kernels
from tilewright.driver.compile.kernels_narrow_attention import narrow_forward_kernel
from tilewright.driver.compile.specialised import require_elements, run_into
from tilewright.runtime.arrays import ArrayView, UnsupportedElement, empty_like_device, view_array

_AXES = 4
_ROW_BYTES = 16
"""Of whose multiple a head's row is, so that tensor maps reach it."""
_MULTIPLIED = (Element.BF16, Element.F16)


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked of arrays over (batch, heads, rows, head size). element: of queries; cached: of keys and values;
    like: an array of the caller's, for results."""

    batch: int
    heads: int
    shared_heads: int
    queries: int
    keys: int
    size: int
    value_size: int
    scale: float
    causal: bool
    element: Element
    cached: Element
    like: ArrayView

    @property
    def program(self) -> tuple[float, bool, int]:
        return self.scale, self.causal, self.heads // self.shared_heads

    @property
    def result(self) -> Element:
        """Of what is computed."""
        return Element.BF16 if self.element.is_float8 else self.element

    def made(self, shape: tuple[int, ...], element: Element | None = None) -> Any:
        return empty_like_device(self.like, shape, element or self.result)


def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    key_scale: Any = None,
    value_scale: Any = None,
    return_lse: bool = False,
) -> Any:
    """softmax(query @ key.T * scale) @ value for every head in one kernel, as PyTorch's function of the same arguments.

    Args:
        query: (batch, heads, queries, head size); the batch, and the heads before it, may be absent. bf16 or f16;
            f8e4m3 or f8e5m2 if keys and values have these elements too, and then the result is bf16.
        key: (batch, heads, keys, head size), of the query's element, or of 8 bits.
        value: (batch, heads, keys, value size).
        attn_mask: None.
        dropout_p: 0.
        is_causal: Whether query i attends to keys 0 to i alone.
        scale: Of the scores; 1 / sqrt(head size) by default.
        enable_gqa: Whether keys and values may have fewer heads, each for as many consecutive heads of queries.
        key_scale: Factors of keys that have 8 bits: a number, or float32 ones for each of their heads.
        value_scale: The same of values.
        return_lse: Return (result, logarithm of the sum of each row's exponentials in float32), which
            `attention_backward` takes.

    Raises:
        TilewrightError: The arrays do not fit, or something is asked for that is not taken.
    """
    _require_taken(attn_mask, dropout_p)
    arrays = [_of_four(each, name) for each, name in ((query, "query"), (key, "key"), (value, "value"))]
    asked = _question(*arrays, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa, narrow=True)
    if not asked.cached.is_float8 and (key_scale is not None or value_scale is not None):
        raise TilewrightError("factors of keys and values that have 16 bits", remedy="multiply scale and the result")
    rows = (asked.batch, asked.heads, asked.queries)
    out, lse = asked.made((*rows, asked.value_size)), asked.made(rows, Element.F32)
    if asked.keys == 0:
        out[...], lse[...] = 0.0, -math.inf
    elif 0 not in rows:
        named: dict[str, Any] = dict(zip(("query", "key", "value"), arrays, strict=True))
        kernel = kernels.forward_kernel(*asked.program)
        if asked.cached.is_float8:
            kernel = narrow_forward_kernel(*asked.program, asked.element)
            named["key_scale"] = _factors(asked, key_scale, "key_scale")
            named["value_scale"] = _factors(asked, value_scale, "value_scale")
        run_into(kernel, named, {"out": out, "lse": lse})
    leading = tuple(int(extent) for extent in query.shape[:-1])
    out = out.reshape((*leading, asked.value_size))
    return (out, lse.reshape(leading)) if return_lse else out


def attention_backward(
    gradient: Any,
    query: Any,
    key: Any,
    value: Any,
    out: Any,
    lse: Any,
    *,
    lse_gradient: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Any, Any, Any]:
    """The gradients of query, key and value, of the element of each, where `gradient` is that of `attention`'s result.

    Args:
        gradient: Of the shape and element of `out`.
        query: As of `attention`.
        key: As of `attention`.
        value: As of `attention`.
        out: What `attention` returned.
        lse: What it returned beside, with `return_lse=True`.
        lse_gradient: The gradient of `lse`, if that was used too.
        is_causal: As of `attention`.
        scale: As of `attention`.
        enable_gqa: As of `attention`.

    Raises:
        TilewrightError: The arrays do not fit.
    """
    given = (query, key, value)
    arrays = [_of_four(each, name) for each, name in zip(given, ("query", "key", "value"), strict=True)]
    asked = _question(*arrays, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa)
    rows = (asked.batch, asked.heads, asked.queries)
    named: dict[str, Any] = dict(zip(("query", "key", "value"), arrays, strict=True))
    named["gradient"] = _like(gradient, "gradient", (*rows, asked.value_size), asked.element)
    named["lse"] = _like(lse, "lse", rows, Element.F32)
    beside = {"gradient": named["gradient"], "out": _like(out, "out", (*rows, asked.value_size), asked.element)}
    if lse_gradient is not None:
        beside["lse_gradient"] = _like(lse_gradient, "lse_gradient", rows, Element.F32)
    found = tuple(asked.made(tuple(view_array(each).shape)) for each in arrays)
    if 0 in rows or asked.keys == 0:
        for each in found:
            each[...] = 0.0
    else:
        named["delta"] = asked.made(rows, Element.F32)
        run_into(kernels.delta_kernel(lse_gradient is not None), beside, {"delta": named["delta"]})
        _run(kernels.query_gradient_kernel, asked, named, {"query_gradient": found[0]})
        _of_keys(asked, named, found[1], found[2])
    shapes = [tuple(int(extent) for extent in each.shape) for each in given]
    of_query, of_key, of_value = (each.reshape(shape) for each, shape in zip(found, shapes, strict=True))
    return of_query, of_key, of_value


def _of_keys(asked: _Question, named: dict[str, Any], of_key: Any, of_value: Any) -> None:
    """The gradients of keys and values. Of heads that share them, each head's in float32 first."""
    results = {"key_gradient": of_key, "value_gradient": of_value}
    sharing = asked.heads // asked.shared_heads
    own = results
    if sharing > 1:
        shape = (asked.batch, asked.heads, asked.keys)
        sizes = {"key_gradient": asked.size, "value_gradient": asked.value_size}
        own = {name: asked.made((*shape, size), Element.F32) for name, size in sizes.items()}
    _run(kernels.key_gradients_kernel, asked, named, own)
    if sharing > 1:
        for name, total in results.items():
            groups = asked.batch * asked.shared_heads
            parts = own[name].reshape((groups, sharing, -1))
            run_into(kernels.sum_of_groups, {"parts": parts}, {"total": total.reshape((groups, -1))})


def _factors(asked: _Question, given: Any, name: str) -> Any:
    """One float32 number for each head of keys."""
    if given is not None and not isinstance(given, int | float):
        view = view_array(given, name=name)
        require_elements(view, name, Element.F32)
        if view.shape != (asked.shared_heads,):
            raise TilewrightError(
                f"{name} has shape {view.shape}", remedy=f"give a number, or one for each of {asked.shared_heads} heads"
            )
        return given
    found = asked.made((asked.shared_heads,), Element.F32)
    found[...] = 1.0 if given is None else float(given)
    return found


def _run(made: Any, asked: _Question, named: dict[str, Any], results: dict[str, Any]) -> None:
    """Run the program that `made` gives, with the arrays that it has."""
    kernel = made(*asked.program)
    taken = [item.name for item in kernel.parameters if item.name not in results]
    run_into(kernel, {name: named[name] for name in taken}, results)


def _require_taken(attn_mask: object, dropout_p: float) -> None:
    if attn_mask is not None:
        raise TilewrightError(
            "attention takes no attn_mask", remedy="pass is_causal=True, or write a tile program with the mask"
        )
    if dropout_p != 0:
        raise TilewrightError(f"attention has no dropout, and dropout_p is {dropout_p}", remedy="pass dropout_p=0.0")


def _of_four(array: Any, name: str) -> Any:
    """The array with all four axes, and the elements of a head side by side."""
    view = _view(array, name)
    if not 2 <= len(view.shape) <= _AXES:
        raise TilewrightError(
            f"{name} has shape {view.shape}",
            remedy="give it over (batch, heads, rows, head size)",
        )
    if view.shape[-1] > 1 and view.strides[-1] != 1:
        array = array.contiguous() if hasattr(array, "contiguous") else array.copy()
    return array[(None,) * (_AXES - len(view.shape))]


def _view(array: Any, name: str) -> ArrayView:
    try:
        view = view_array(array, name=name)
    except UnsupportedElement as error:
        raise TilewrightError(f"{error.message}, which attention does not take", remedy="convert it to bf16") from None
    if view.element not in _MULTIPLIED and not view.element.is_float8:
        raise TilewrightError(
            f"{name} has elements {view.element.value}, which attention does not take",
            remedy="convert it to bf16 or f16",
        )
    return view


def _question(
    query: Any, key: Any, value: Any, *, is_causal: bool, scale: float | None, enable_gqa: bool, narrow: bool = False
) -> _Question:
    """What is asked. narrow: whether arrays may have 8 bits. Raises TilewrightError for arrays that do not fit each
    other."""
    q, k, v = (_view(each, name) for each, name in ((query, "query"), (key, "key"), (value, "value")))
    batch, heads, queries, size = q.shape
    shapes = f"query {q.shape}, key {k.shape} and value {v.shape}"
    widened = k.element.is_float8 and not q.element.is_float8
    if k.element is not v.element or (q.element is not k.element and not widened):
        raise TilewrightError(
            f"attention of {q.element.value}, {k.element.value} and {v.element.value}", remedy="convert two of them"
        )
    if k.element.is_float8 and not narrow:
        raise TilewrightError(
            f"gradients of keys and values of {k.element.value}", remedy="convert them to bf16 or f16"
        )
    if k.shape[:3] != v.shape[:3] or k.shape[0] != batch or k.shape[3] != size:
        raise TilewrightError(
            f"attention of {shapes}",
            remedy="let keys have the queries' batch and head size, values the keys' rows",
        )
    shared = k.shape[1]
    if heads != shared and not (enable_gqa and shared and heads % shared == 0):
        remedy = "pass enable_gqa=True" if not enable_gqa else "let the number of heads be a multiple of the keys'"
        raise TilewrightError(f"attention of {shapes}: {heads} heads for {shared}", remedy=remedy)
    multiple = _ROW_BYTES // k.element.bytes
    for extent, name in ((size, "query and key"), (v.shape[3], "value")):
        if extent % multiple or extent == 0:
            raise TilewrightError(
                f"{name} have {extent} elements in a head, no multiple of {multiple}",
                remedy=f"pad heads with zeros to {-(-max(extent, 1) // multiple) * multiple}, and give scale",
            )
    by = 1.0 / math.sqrt(size) if scale is None else float(scale)
    return _Question(
        batch, heads, shared, queries, k.shape[2], size, v.shape[3], by, bool(is_causal), q.element, k.element, q
    )  # fmt: skip


def _like(array: Any, name: str, shape: tuple[int, ...], element: Element) -> Any:
    """An array of the backward pass with all four axes, or three. Raises TilewrightError for another shape."""
    view = view_array(array, name=name)
    require_elements(view, name, element)
    missing = len(shape) - len(view.shape)
    if missing < 0 or (1,) * missing + view.shape != shape:
        raise TilewrightError(f"{name} has shape {view.shape}; it should be {shape}", remedy="pass one of that shape")
    dense = len(shape) < _AXES or view.shape[-1] <= 1 or view.strides[-1] == 1
    if not dense:
        array = array.contiguous() if hasattr(array, "contiguous") else array.copy()
    return array[(None,) * missing]
