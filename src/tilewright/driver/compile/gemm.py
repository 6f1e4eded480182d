"""`tw.matmul` and its kin: which tile program computes what is asked of these arrays?

A verb compares its arrays with each other, chooses a program of `kernels` or `kernels_scaled`, and hands both to
`specialised.call`, which compiles the program for exactly these shapes, strides and elements, or finds it compiled.
Nothing is padded; where rows vary, a program serves a range of them (`row_ranges`). A result without elements is one at
once.

Not handled: broadcasting of batches, products of vectors, sums over no elements. Checked by:
tests/driver/compile/test_kernels.py on the CPU machine; tests/gpu/test_operators.py.
"""

from __future__ import annotations

import math
from typing import Any, cast

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.driver.compile import kernels, kernels_scaled
from tilewright.driver.compile.row_ranges import Rows, require_wish
from tilewright.driver.compile.specialised import Verb, call, element_named, recalled, require_elements
from tilewright.frontends.tile.kernel import Kernel, nearest_name
from tilewright.runtime.arrays import ArrayView, UnsupportedElement, view_array

_BLOCK_ELEMENTS = 128
_MULTIPLIED = (Element.BF16, Element.F16, Element.F8E4M3, Element.F8E5M2)

# Each verb, with the names that its programs give to its arrays.
_MATMUL = Verb("matmul", ("a", "b", "bias", "residual", "scale_a", "scale_b"))
_GATED_MATMUL = Verb("gated_matmul", ("x", "w_gate", "w_up"))
_GROUPED_MATMUL = Verb("grouped_matmul", ("x", "w", "ends", "bias"))
_MASKED_MATMUL = Verb("masked_matmul", ("x", "w", "counts"))


def matmul(
    a: Any,
    b: Any,
    *,
    bias: Any = None,
    activation: str | None = None,
    residual: Any = None,
    scale_a: Any = None,
    scale_b: Any = None,
    out: Any = None,
    out_dtype: Any = None,
    fast_accumulation: bool = False,
    tune: bool = False,
    rows: Rows | None = None,
) -> Any:
    """`activation((a @ b) * scales + bias) + residual` in one kernel, accumulated in float32, rounded once.

    NumPy arrays (bf16 and 8-bit floats through ml_dtypes) run on the CPU machine, DLPack arrays (PyTorch, CuPy, JAX)
    where they are. Any strides will do.

    Args:
        a: (M, K), or with any number of leading axes, which count as rows and which the result then has too. Or with
            one axis of a batch before, as `b`. Elements of 16 or 8 bits.
        b: (K, N), of the same element as `a`.
        bias: (N,).
        activation: relu, silu, gelu (its tanh form), sigmoid or tanh.
        residual: Of the result's shape.
        scale_a: float32, only together with `scale_b`. One number for the whole operand; or one for each row, (M,) or
            (M, 1); or one for each block, (M, ceil(K / 128)).
        scale_b: float32. One number; or one for each column, (N,) or (1, N); or one for each block,
            (ceil(K / 128), ceil(N / 128)).
        out: An array to write to.
        out_dtype: The element of a new result. By default that of `a`, or bf16 for operands of 8 bits.
        fast_accumulation: Leave sums of 8-bit operands to the tensor core, which is faster and keeps fewer bits of
            sums over a large K than float32 has. Not with scales of blocks.
        tune: On the first call for such arrays, time the most promising tiles on the GPU and take the quickest, which
            is kept in the cache. That call takes some seconds more.
        rows: "exact" for a kernel of exactly these rows, "range" for the one that serves a range of rows. By default
            the first numbers of rows have kernels of their own, and others that of their range.

    Raises:
        TilewrightError: The arrays do not multiply, or the leading axes of `out` cannot be written as rows.
    """
    given = (a, b, bias, residual, scale_a, scale_b)
    require_wish(rows)
    again = recalled(_MATMUL, given, out, (activation, out_dtype, fast_accumulation, tune, rows))
    if again.launch is not None:
        return again.launch(given, out)
    left, right = _operand(a, "a", _MATMUL), _operand(b, "b", _MATMUL)
    _check_product(left, right)
    element = _result_element(left.element, out, out_dtype)
    name = _activation_name(activation)
    arrays: dict[str, Any] = {"a": a, "b": b}
    if len(right.shape) == 3:
        _check_batches(left, right, ("a", "b"))
        if any(each is not None for each in given[2:]):
            raise TilewrightError(
                "a product of batches takes no bias, residual or scales", remedy="add them to the result"
            )
        shape = (*left.shape[:2], right.shape[2])
        batched = kernels.batched_kernel(name)
        return call(batched, arrays, out, shape, element, again, fast_accumulation=fast_accumulation, tune=tune)
    shape = (*left.shape[:-1], right.shape[1])
    biased, added = bias is not None, residual is not None
    if scale_a is None and scale_b is None:
        kernel = kernels.product_kernel(name, biased, added)
    else:
        kernel, scales = _scaled(left, right, scale_a, scale_b, (name, biased, added))
        arrays |= scales
    if biased:
        _require_shape(view_array(bias, name="bias"), "bias", (right.shape[1],))
        arrays["bias"] = bias
    if added:
        _require_shape(view_array(residual, name="residual"), "residual", shape)
        arrays["residual"] = residual
    return call(
        kernel, arrays, out, shape, element, again,
        fast_accumulation=fast_accumulation, tune=tune, rows=rows, rows_axis="M",
    )  # fmt: skip


def gated_matmul(
    x: Any,
    w_gate: Any,
    w_up: Any,
    activation: str | None = "silu",
    *,
    out: Any = None,
    out_dtype: Any = None,
    rows: Rows | None = None,
) -> Any:
    """`activation(x @ w_gate) * (x @ w_up)` in one kernel: x is read once, and no product goes through memory.

    Elements, strides and errors are those of `matmul`.

    Args:
        x: (M, K), or with any number of leading axes.
        w_gate: (K, N).
        w_up: (K, N).
        activation: As of `matmul`.
        out: As of `matmul`.
        out_dtype: As of `matmul`.
        rows: As of `matmul`.
    """
    given = (x, w_gate, w_up)
    require_wish(rows)
    again = recalled(_GATED_MATMUL, given, out, (activation, out_dtype, rows))
    if again.launch is not None:
        return again.launch(given, out)
    left = _operand(x, "x", _GATED_MATMUL)
    gate, linear = _operand(w_gate, "w_gate", _GATED_MATMUL), _operand(w_up, "w_up", _GATED_MATMUL)
    for view, name in ((gate, "w_gate"), (linear, "w_up")):
        if len(view.shape) != 2:
            raise TilewrightError(f"{name} has shape {view.shape}, no matrix", remedy="give one over (K, N)")
        _check_product(left, view, ("x", name))
    _require_shape(linear, "w_up", gate.shape)
    shape = (*left.shape[:-1], gate.shape[1])
    kernel = kernels.gated_kernel(_activation_name(activation))
    element = _result_element(left.element, out, out_dtype)
    arrays = {"x": x, "w_gate": w_gate, "w_up": w_up}
    return call(kernel, arrays, out, shape, element, again, rows=rows, rows_axis="M")


def grouped_matmul(
    x: Any,
    w: Any,
    ends: Any,
    *,
    bias: Any = None,
    activation: str | None = None,
    out: Any = None,
    out_dtype: Any = None,
) -> Any:
    """Consecutive groups of rows of `x`, each times its own matrix: rows `ends[g - 1]` up to `ends[g]` times `w[g]`.

    Rows at the last end and beyond are not written: they are undefined in a new result, and stay in `out`. Elements,
    strides and errors are those of `matmul`.

    Args:
        x: (T, K), its rows sorted by group.
        w: (G, K, N).
        ends: (G,) int32 where the arrays are, never decreasing, between 0 and T; read when the kernel runs.
        bias: (G, N).
        activation: As of `matmul`.
        out: As of `matmul`.
        out_dtype: As of `matmul`.
    """
    given = (x, w, ends, bias)
    again = recalled(_GROUPED_MATMUL, given, out, (activation, out_dtype))
    if again.launch is not None:
        return again.launch(given, out)
    rows, weights = _operand(x, "x", _GROUPED_MATMUL), _operand(w, "w", _GROUPED_MATMUL)
    if len(rows.shape) != 2 or len(weights.shape) != 3:
        raise TilewrightError(
            f"grouped_matmul of shapes {rows.shape} and {weights.shape}",
            remedy="give x over (T, K) and w over (G, K, N)",
        )
    _check_product(rows, weights, ("x", "w"))
    if weights.shape[0] == 0:
        raise TilewrightError(f"grouped_matmul of w {weights.shape}: no groups", remedy="give at least one")
    _check_integers(ends, "ends", weights.shape[0])
    shape = (rows.shape[0], weights.shape[2])
    arrays: dict[str, Any] = {"x": x, "w": w, "ends": ends}
    if bias is not None:
        _require_shape(view_array(bias, name="bias"), "bias", (weights.shape[0], weights.shape[2]))
        arrays["bias"] = bias
    kernel = kernels.grouped_kernel(_activation_name(activation), bias is not None)
    return call(kernel, arrays, out, shape, _result_element(rows.element, out, out_dtype), again)


def masked_matmul(
    x: Any, w: Any, counts: Any, *, activation: str | None = None, out: Any = None, out_dtype: Any = None
) -> Any:
    """The first `counts[g]` rows of `x[g]`, times `w[g]`, for every group.

    Other rows are not written: they are undefined in a new result, and stay in `out`. Elements, strides and errors are
    those of `matmul`.

    Args:
        x: (G, M, K).
        w: (G, K, N).
        counts: (G,) int32 where the arrays are, between 0 and M; read when the kernel runs.
        activation: As of `matmul`.
        out: As of `matmul`.
        out_dtype: As of `matmul`.
    """
    given = (x, w, counts)
    again = recalled(_MASKED_MATMUL, given, out, (activation, out_dtype))
    if again.launch is not None:
        return again.launch(given, out)
    rows, weights = _operand(x, "x", _MASKED_MATMUL), _operand(w, "w", _MASKED_MATMUL)
    if len(rows.shape) != 3 or len(weights.shape) != 3:
        raise TilewrightError(
            f"masked_matmul of shapes {rows.shape} and {weights.shape}",
            remedy="give x over (G, M, K) and w over (G, K, N)",
        )
    _check_product(rows, weights, ("x", "w"))
    _check_batches(rows, weights, ("x", "w"))
    _check_integers(counts, "counts", weights.shape[0])
    shape = (*rows.shape[:2], weights.shape[2])
    kernel = kernels.masked_kernel(_activation_name(activation))
    arrays = {"x": x, "w": w, "counts": counts}
    return call(kernel, arrays, out, shape, _result_element(rows.element, out, out_dtype), again)


def _operand(array: object, name: str, verb: Verb) -> ArrayView:
    """Raises TilewrightError for elements that tensor cores do not multiply."""
    remedy = "convert it to bf16 or f16, or to f8e4m3 or f8e5m2"
    try:
        view = view_array(array, name=name)
    except UnsupportedElement as error:
        raise TilewrightError(f"{error.message}, which {verb.name} does not multiply", remedy=remedy) from None
    if view.element not in _MULTIPLIED:
        raise TilewrightError(
            f"{name} has elements {view.element.value}, which {verb.name} does not multiply", remedy=remedy
        )
    return view


def _check_product(left: ArrayView, right: ArrayView, names: tuple[str, str] = ("a", "b")) -> None:
    """Raises TilewrightError unless the last two axes of both multiply, and three of the right meet as many."""
    shapes = f"{names[0]} {left.shape} and {names[1]} {right.shape}"
    if len(left.shape) < 2 or len(right.shape) not in (2, 3):
        raise TilewrightError(f"matmul of {shapes}", remedy="give two matrices; the left one may have more axes before")
    if left.shape[-1] != right.shape[-2]:
        raise TilewrightError(
            f"matmul of {shapes}: {left.shape[-1]} against {right.shape[-2]}", remedy="make the inner extents equal"
        )
    if left.element is not right.element:
        raise TilewrightError(f"matmul of {left.element.value} and {right.element.value}", remedy="convert one of them")


def _check_batches(left: ArrayView, right: ArrayView, names: tuple[str, str]) -> None:
    if len(left.shape) != 3 or left.shape[0] != right.shape[0]:
        raise TilewrightError(
            f"matmul of {names[0]} {left.shape} and {names[1]} {right.shape}: three axes on the right are a batch",
            remedy=f"give {names[0]} the same first axis before its rows",
        )


def _check_integers(array: Any, name: str, groups: int) -> None:
    view = view_array(array, name=name)
    require_elements(view, name, Element.S32)
    _require_shape(view, name, (groups,))


def _require_shape(view: ArrayView, name: str, shape: tuple[int, ...]) -> None:
    if view.shape != shape:
        raise TilewrightError(f"{name} has shape {view.shape}; it should be {shape}", remedy="pass one of that shape")


def _activation_name(activation: object) -> str:
    if activation is None:
        return "none"
    if not isinstance(activation, str) or activation not in kernels.ACTIVATIONS:
        raise TilewrightError(
            f"no activation is called {activation!r}", remedy=nearest_name(str(activation), kernels.ACTIVATIONS)
        )
    return activation


def _result_element(operands: Element, out: object, out_dtype: object) -> Element:
    """The element of the result: of `out`, as wanted, or as the operands suggest."""
    wanted = None if out_dtype is None else element_named(out_dtype)
    if out is None:
        return wanted or (Element.BF16 if operands.is_float8 else operands)
    held = view_array(out, name="out").element
    if wanted not in (None, held):
        raise TilewrightError(
            f"out has elements {held.value} and out_dtype is {wanted.value}", remedy="give one of them"
        )
    return held


def _scaled(
    left: ArrayView, right: ArrayView, scale_a: Any, scale_b: Any, wanted: tuple[str, bool, bool]
) -> tuple[Kernel, dict[str, Any]]:
    """The program for operands with these scales, and the scales in its shapes."""
    if scale_a is None or scale_b is None:
        raise TilewrightError("one operand has a scale", remedy="give scale_a and scale_b, one of them 1 where it must")
    m, depth, columns = math.prod(left.shape[:-1]), left.shape[-1], right.shape[1]
    of_a, of_b = view_array(scale_a, name="scale_a"), view_array(scale_b, name="scale_b")
    require_elements(of_a, "scale_a", Element.F32)
    require_elements(of_b, "scale_b", Element.F32)
    blocks = -(-depth // _BLOCK_ELEMENTS)
    in_blocks = ((m, blocks), (blocks, -(-columns // _BLOCK_ELEMENTS)))
    whole = tuple(all(extent == 1 for extent in view.shape) for view in (of_a, of_b))
    each = (of_a.shape in ((m,), (m, 1)), of_b.shape in ((columns,), (1, columns)))
    # A scale for each row is also one for the only block of each row, and then serves beside blocks of the other.
    if all(one or other for one, other in zip(whole, each, strict=True)):
        arrays = {"scale_a": scale_a.reshape(-1), "scale_b": scale_b.reshape(-1)}
        return kernels_scaled.scaled_kernel(*wanted, cast("tuple[bool, bool]", whole)), arrays
    if (of_a.shape, of_b.shape) == in_blocks:
        return kernels_scaled.scaled_kernel(*wanted, "blocks"), {"scale_a": scale_a, "scale_b": scale_b}
    raise TilewrightError(
        f"scales of shapes {of_a.shape} and {of_b.shape} for operands {left.shape} and {right.shape}",
        remedy=f"give one number each, or ({m},) and ({columns},), or {in_blocks[0]} and {in_blocks[1]} for blocks of "
        f"{_BLOCK_ELEMENTS}",
    )
