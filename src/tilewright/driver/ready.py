"""`tw.compile`, `tw.matmul` and calling a kernel: the verbs of a Python program, with the cache behind them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.driver import cache
from tilewright.driver.compile import Progress, compile_kernel, elements_of
from tilewright.driver.kernels import matmul_kernel
from tilewright.driver.run import CompiledKernel
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import fingerprint, trace
from tilewright.runtime.arrays import ArrayView, view_array
from tilewright.runtime.assemble import find_ptxas
from tilewright.runtime.bundle import Bundle
from tilewright.synth.decide import Wanted
from tilewright.targets import target as target_named

DEFAULT_TARGET = "sm_90a"
"""What is compiled for where the caller names nothing."""

_memory: dict[str, CompiledKernel] = {}
_by_arguments: dict[tuple[object, ...], CompiledKernel] = {}


def compile(  # the verb's name, as users write it: tw.compile
    kernel: Kernel,
    *,
    target: str = DEFAULT_TARGET,
    dtype: str | Element | Mapping[str, str | Element] = "bf16",
    strides: Mapping[str, tuple[int, ...]] | None = None,
    tile: tuple[int, int] | None = None,
    stages: int | None = None,
    cluster: tuple[int, int] | None = None,
    cached: bool = True,
    progress: Progress | None = None,
    **dims: int,
) -> CompiledKernel:
    """Compile and prove `kernel` for extents given by axis name, as in `tw.compile(matmul, M=4096, N=4096, K=4096)`.

    dtype: one for all parameters, or by parameter name; strides: in elements, for parameters that are not row-major;
    tile, stages, cluster: fix a decision instead of leaving it to the synthesiser; cached: use and fill the cache on
    disk. Raises TilewrightError at the author's line.
    """
    return compile_for(kernel, dims, target, dtype, strides, Wanted(tile, stages, cluster), cached, progress)


def compile_for(
    kernel: Kernel,
    dims: Mapping[str, int],
    target: str = DEFAULT_TARGET,
    dtype: str | Element | Mapping[str, str | Element] = "bf16",
    strides: Mapping[str, tuple[int, ...]] | None = None,
    wanted: Wanted | None = None,
    cached: bool = True,
    progress: Progress | None = None,
) -> CompiledKernel:
    """`compile` with the extents as a mapping, and `wanted` for the decisions that are fixed. Raises as it does."""

    def fresh() -> Bundle:
        return compile_kernel(
            kernel, target=target, dims=dims, dtype=dtype, strides=strides, wanted=wanted, progress=progress
        ).bundle()

    if not cached:
        return CompiledKernel(fresh())
    # Tracing is where an author's mistakes show, so it is never skipped; it takes about a millisecond.
    digest = fingerprint(trace(kernel, dims, elements_of(kernel, dtype), strides))
    demanded = [item.name for item in kernel.parameters if item.by_map]
    wishes = f"{wanted or Wanted()!r}{f' by map {demanded}' if demanded else ''}"
    key = cache.cache_key(digest, target, wishes, find_ptxas().version)
    found = _memory.get(key)
    if found is not None:
        return found
    bundle = cache.fetch(key)
    if bundle is None:
        bundle = fresh()
        cache.keep(key, bundle)
    return _memory.setdefault(key, CompiledKernel(bundle))


def matmul(a: Any, b: Any, *, out: Any = None) -> Any:
    """`a @ b` of two matrices of the same 16-bit float type, any positive strides: NumPy arrays (bf16 through
    ml_dtypes) on the CPU machine, DLPack arrays (PyTorch, CuPy, JAX) where they are. The product is accumulated in
    float32.

    `a` may have any number of leading axes, which the result then has too; they are read as rows where they stand, or
    copied together where no single stride leads through them. Raises TilewrightError for arrays that do not multiply,
    and for an `out` whose leading axes cannot be written as rows.
    """
    left, right = view_array(a, name="a"), view_array(b, name="b")
    _check_product(left, right)
    if len(left.shape) > 2:
        return _matmul_of_rows(a, left, b, right, out)
    a, left = _with_positive_strides(a, left, "a")
    b, right = _with_positive_strides(b, right, "b")
    result = view_array(out, name="out") if out is not None else None
    given = result.strides if result is not None else None
    misaligned = misaligned_names({"a": left, "b": right, **({"c": result} if result is not None else {})})
    key = (left.shape, left.strides, right.shape, right.strides, left.element, given, misaligned)
    kernel = _by_arguments.get(key)
    if kernel is None:
        strides: dict[str, tuple[int, ...]] = {"a": left.strides, "b": right.strides}
        if given is not None:
            strides["c"] = given
        extents = {"M": left.shape[0], "N": right.shape[1], "K": left.shape[1]}
        kernel = compile_for(
            matmul_kernel, extents, dtype=left.element, strides=strides, wanted=Wanted(misaligned=misaligned)
        )
        _by_arguments[key] = kernel
    return kernel(a, b, out=out)


def _matmul_of_rows(a: Any, left: ArrayView, b: Any, right: ArrayView, out: Any) -> Any:
    """The product with all leading axes of `a` taken as rows."""
    *leading, depth = left.shape
    rows, shape = math.prod(leading), (*leading, right.shape[1])
    matrix = a.reshape(rows, depth)
    if out is None:
        return matmul(matrix, b).reshape(shape)
    given = view_array(out, name="out")
    if given.shape != shape:
        raise TilewrightError(f"out has shape {given.shape}; the product has {shape}", remedy="pass one of its shape")
    flat = out.reshape(rows, shape[-1])
    if view_array(flat, name="out").pointer != given.pointer:
        raise TilewrightError(
            f"no single stride leads through the leading axes of out: shape {shape}, strides {given.strides}",
            remedy="pass a dense out, or none",
        )
    matmul(matrix, b, out=flat)
    return out


def misaligned_names(views: Mapping[str, ArrayView]) -> tuple[str, ...]:
    """Arrays on a GPU that do not begin where a tensor map may. (CPU arrays are copied to aligned memory.)"""
    alignment = target_named(DEFAULT_TARGET).limit("tensor_map.address_alignment_bytes")
    return tuple(name for name, view in views.items() if view.device == "cuda" and view.pointer % alignment)


def _check_promises(kernel: Kernel, views: Mapping[str, ArrayView]) -> None:
    for item in kernel.parameters:
        view, promised = views.get(item.name), item.alignment_bytes
        if promised is not None and view is not None and view.device == "cuda" and view.pointer % promised:
            raise TilewrightError(
                f"{item.name} begins at {view.pointer:#x}; {kernel.name} promises a multiple of {promised}",
                span=kernel.span,
                remedy=f"align the array, or promise less: align={{{item.name!r}: ...}}",
            )


def _check_product(left: ArrayView, right: ArrayView) -> None:
    if len(left.shape) < 2 or len(right.shape) != 2:
        raise TilewrightError(
            f"matmul of arrays of shapes {left.shape} and {right.shape}",
            remedy="give two matrices; the left one may have more axes before",
        )
    if left.shape[-1] != right.shape[0]:
        raise TilewrightError(
            f"matmul of shapes {left.shape} and {right.shape}: {left.shape[-1]} against {right.shape[0]}",
            remedy="make the inner extents equal",
        )
    if left.element is not right.element:
        raise TilewrightError(f"matmul of {left.element.value} and {right.element.value}", remedy="convert one of them")
    if 0 in left.shape or 0 in right.shape:
        raise TilewrightError(f"matmul of shapes {left.shape} and {right.shape}", remedy="give at least one element")


def _with_positive_strides(array: Any, view: ArrayView, name: str) -> tuple[Any, ArrayView]:
    """The array itself, or a dense copy where it repeats or reverses an axis. Strides along extents of one are
    normalised, because libraries put anything there."""
    rows, columns = view.shape
    row_stride, column_stride = view.strides
    if columns == 1:
        column_stride = 1
    if rows == 1:
        row_stride = max(1, columns * column_stride)
    if row_stride < 1 or column_stride < 1:
        dense: Any = array.contiguous() if hasattr(array, "contiguous") else np.copy(array, order="C")
        return dense, view_array(dense, name=name)
    return array, replace(view, strides=(row_stride, column_stride))


def launch(kernel: Kernel, arguments: tuple[object, ...], keywords: Mapping[str, object]) -> Any:
    """Call a declared kernel with its input arrays in order (and `out`, if wanted): compile it for them and run it.

    Raises TilewrightError where the arrays do not fix every axis, or disagree on one.
    """
    unknown = set(keywords) - {"out"}
    if unknown:
        raise TilewrightError(
            f"{kernel.name} takes no argument {min(unknown)}", remedy="pass arrays in order, and out="
        )
    out = keywords.get("out")
    outputs: tuple[object, ...] = ()
    if out is not None:
        outputs = cast("tuple[object, ...]", out) if isinstance(out, tuple) else (out,)
    # What is written comes after what is read; an output given fixes its own layout and element as an input does.
    given = kernel.parameters[: len(arguments) + len(outputs)]
    dims: dict[str, int] = {}
    strides: dict[str, tuple[int, ...]] = {}
    dtypes: dict[str, str | Element] = {}
    views = [view_array(array, name=item.name) for array, item in zip((*arguments, *outputs), given, strict=False)]
    for view, item in zip(views, given, strict=False):
        if len(view.shape) != len(item.axes):
            raise TilewrightError(
                f"{item.name} has {len(view.shape)} dimensions; {kernel.name} declares {len(item.axes)}",
                span=kernel.span,
                remedy=f"pass an array over ({', '.join(item.axes)})",
            )
        for axis, extent in zip(item.axes, view.shape, strict=True):
            if dims.setdefault(axis, extent) != extent:
                raise TilewrightError(
                    f"axis {axis} is {dims[axis]} elsewhere and {extent} in {item.name}", span=kernel.span
                )
        dtypes[item.name] = view.element
        strides[item.name] = view.strides
    for item in kernel.parameters[len(given) :]:
        dtypes[item.name] = views[0].element if views else Element.BF16
    missing = [axis for axis in kernel.axes if axis not in dims]
    if missing:
        raise TilewrightError(
            f"the arrays given to {kernel.name} do not fix axis {missing[0]}",
            span=kernel.span,
            remedy="pass every input, in the order of the parameters",
        )
    named = {item.name: view for item, view in zip(given, views, strict=False)}
    _check_promises(kernel, named)
    misaligned = misaligned_names(named)
    compiled = compile_for(kernel, dims, dtype=dtypes, strides=strides, wanted=Wanted(misaligned=misaligned))
    return compiled(*arguments, out=cast("object", out))
