"""A library verb's call: the program for exactly these arrays, or for a range of their rows, compiled once, and
launched at once when they come back.

Three stores answer in turn: calls like this one but for addresses (`runtime.repeated`, microseconds), programs for
these shapes, strides, elements and alignments (here), and compiled programs in memory and on disk (`ready`, `cache`).

Not handled: memory that grows with the number of different shapes is given back at the end of the process alone.
Checked by: tests/driver/compile/test_kernels.py and test_row_ranges.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from tilewright.base.element import Element, element_of
from tilewright.base.error import TilewrightError
from tilewright.base.run_time import extents_of
from tilewright.base.size import Range
from tilewright.driver.compile.ready import alignments_of_misaligned, compile_for, misaligned_names
from tilewright.driver.compile.row_ranges import Kind, Rows, most_rows, range_of, rows_of
from tilewright.driver.run.run import CompiledKernel
from tilewright.frontends.tile.kernel import Kernel
from tilewright.runtime.arrays import ArrayView, current_stream, empty_like_device, view_array
from tilewright.runtime.launch import LoadedPlan
from tilewright.runtime.repeated import Repeated, repeat_key
from tilewright.synth.decide import Wanted

_repeated: dict[tuple[object, ...], Repeated] = {}
_compiled: dict[tuple[object, ...], CompiledKernel] = {}
_launches: dict[tuple[object, ...], tuple[LoadedPlan, tuple[int, ...]]] = {}
_kinds: dict[tuple[object, ...], Kind] = {}


@dataclass(frozen=True, slots=True)
class Verb:
    """A function of the library, and what its programs call its arrays, in the order in which it takes them."""

    name: str
    arrays: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Recalled:
    """What is known of a call: its key, None where it can have none; its arrays by name; how to launch it, if a call
    like it came before."""

    key: tuple[object, ...] | None
    arrays: Mapping[str, Any]
    launch: Repeated | None


def recalled(verb: Verb, arrays: tuple[Any, ...], out: Any, options: tuple[object, ...]) -> Recalled:
    """The call of `verb`, compared with those before."""
    key = repeat_key((*arrays, out))
    if key is not None:
        try:
            launch = _repeated.get((verb.name, options, key))
        except TypeError:  # an option that cannot be looked up is of no type that an option may have
            key = None
        else:
            if launch is not None:
                return Recalled(key, {}, launch)
    return Recalled(
        None if key is None else (verb.name, options, key), dict(zip(verb.arrays, arrays, strict=True)), None
    )


def call(
    kernel: Kernel,
    arrays: Mapping[str, Any],
    out: Any,
    shape: tuple[int, ...],
    element: Element,
    again: Recalled,
    *,
    fast_accumulation: bool = False,
    tune: bool = False,
    rows: Rows | None = None,
    rows_axis: str = "",
) -> Any:
    """Run `kernel` on its inputs by name, in the order of its parameters, into `out` or a new array of `shape`. Nothing
    is compiled or run for a shape without elements.

    An array with more axes than its parameter is taken with all but its last ones as rows. fast_accumulation: whether
    sums are left to the tensor core alone; tune: whether tiles are timed first; rows_axis: the axis of rows that may
    vary from call to call, and rows: how such calls are served (`row_ranges`). Raises TilewrightError for an `out` of
    another shape, or one whose leading axes cannot be written as rows, and all that compiling and running raise.
    """
    axes = {item.name: item.axes for item in kernel.parameters}
    result = kernel.parameters[-1].name
    used: dict[str, Any] = {}
    views: dict[str, ArrayView] = {}
    for name, array in arrays.items():
        used[name], views[name] = _with_positive_strides(_as_rows(array, len(axes[name])), name)
    first = next(iter(views.values()))
    if out is None and first.device == "cpu" and first.library == "torch":
        # The CPU machine's own results are NumPy's.
        out = empty_like_device(first, shape, element)
    target = None
    if out is not None:
        given = view_array(out, name="out")
        if given.shape != shape:
            raise TilewrightError(
                f"out has shape {given.shape}; the product has {shape}", remedy="pass one of its shape"
            )
        target = _as_rows(out, len(axes[result]))
        view = view_array(target, name="out")
        if view.pointer != given.pointer:
            raise TilewrightError(
                f"no single stride leads through the leading axes of out: shape {shape}, strides {given.strides}",
                remedy="pass a dense out, or none",
            )
        views[result] = replace(view, strides=_along_ones(view.shape, view.strides))
    if 0 in shape:
        return empty_like_device(first, shape, element) if out is None else out
    misaligned, aligned = misaligned_names(views), alignments_of_misaligned(views)
    key = (
        kernel,
        element,
        misaligned,
        aligned,
        fast_accumulation,
        tune,
        *[(name, view.shape, view.strides, view.element) for name, view in views.items()],
    )
    compiled = _compiled.get(key)
    if compiled is None or rows == "range":
        accumulation = "fast" if fast_accumulation else None
        wanted = Wanted(misaligned=misaligned, aligned=aligned, accumulation=accumulation)
        kind = _kinds.setdefault(_without_rows(key, views, axes, rows_axis), Kind()) if rows_axis and not tune else None
        if kind is not None:
            compiled = _of_range(kind, kernel, views, element, wanted, rows, rows_axis) or compiled
        if compiled is None:
            compiled = _compile(kernel, views, element, wanted, tune=tune)
            _compiled[key] = compiled
            if kind is not None:
                kind.exact.add(rows_of(views, axes, rows_axis))
    value = compiled(*used.values(), out=target)
    _remember(again, compiled, used, value, shape)
    if out is not None:
        return out
    return value if len(shape) == len(axes[result]) else value.reshape(shape)


def run_into(kernel: Kernel, arrays: Mapping[str, Any], results: Mapping[str, Any]) -> None:
    """Run `kernel` on its inputs by name, in the order of its parameters, into all of its results. No array is without
    elements. A call like an earlier one but for addresses is launched at once. Raises what compiling and running
    raise."""
    given = [*results.values()]
    again = repeat_key((*arrays.values(), *given))
    if again is not None and (known := _launches.get((kernel, again))) is not None:
        loaded, order = known
        everything = (*arrays.values(), *given)
        loaded.run_at((current_stream(view_array(given[0])), *(everything[place].data_ptr() for place in order)))
        return
    used: dict[str, Any] = {}
    views: dict[str, ArrayView] = {}
    for name, array in arrays.items():
        used[name], views[name] = _with_positive_strides(array, name)
    for name, array in results.items():
        view = view_array(array, name=name)
        views[name] = replace(view, strides=_along_ones(view.shape, view.strides))
    wanted = Wanted(misaligned=misaligned_names(views), aligned=alignments_of_misaligned(views))
    layouts = [(name, view.shape, view.strides, view.element) for name, view in views.items()]
    key = (kernel, wanted.misaligned, wanted.aligned, *layouts)
    compiled = _compiled.get(key)
    if compiled is None:
        compiled = _compiled[key] = _compile(kernel, views, None, wanted, tune=False)
    compiled(*used.values(), out=tuple(given) if len(given) > 1 else given[0])
    if again is not None and all(used[name] is array for name, array in arrays.items()):
        loaded, names = compiled.program.loaded(view_array(given[0]).ordinal), [*arrays, *results]
        _launches[kernel, again] = loaded, tuple(names.index(name) for name in loaded.arguments)


def _without_rows(
    key: tuple[object, ...], views: Mapping[str, ArrayView], axes: Mapping[str, tuple[str, ...]], axis: str
) -> tuple[object, ...]:
    """The same key of calls that differ in their number of rows alone."""
    arrays = [
        (name, tuple(None if of == axis else extent for of, extent in zip(axes[name], view.shape, strict=True)))
        for name, view in views.items()
    ]
    return (*key[: len(key) - len(views)], *arrays, *[(view.strides, view.element) for view in views.values()])


def _of_range(
    kind: Kind,
    kernel: Kernel,
    views: Mapping[str, ArrayView],
    element: Element,
    wanted: Wanted,
    wish: Rows | None,
    axis: str,
) -> CompiledKernel | None:
    """The kernel of the range that these rows belong to, where it is to serve them and there can be one."""
    axes = {item.name: item.axes for item in kernel.parameters}
    rows = rows_of(views, axes, axis)
    if not kind.wants_range(rows, wish):
        return None
    values = range_of(rows, most_rows(views, axes, axis))
    if values is None:
        return None
    if values not in kind.ranges:
        try:
            kind.ranges[values] = _compile(kernel, views, element, wanted, tune=False, ranges={axis: values})
        except TilewrightError as error:
            if error.findings:
                raise
            kind.ranges[values] = None  # such as one whose places of tiles cannot be followed
    return kind.ranges[values]


def _compile(
    kernel: Kernel,
    views: Mapping[str, ArrayView],
    element: Element | None,
    wanted: Wanted,
    *,
    tune: bool,
    ranges: Mapping[str, Range] = MappingProxyType({}),
) -> CompiledKernel:
    dims: dict[str, int | Range] = {}
    for item in kernel.parameters:
        if item.name in views:
            named = zip(item.axes, views[item.name].shape, strict=True)
            dims |= {axis: ranges.get(axis, extent) for axis, extent in named if axis in kernel.axes}
    fixed = {item.name for item in kernel.parameters if item.element is not None}
    elements: dict[str, str | Element] = {name: view.element for name, view in views.items() if name not in fixed}
    if element is not None:
        elements[kernel.parameters[-1].name] = element
    strides = {name: view.strides for name, view in views.items()}
    return compile_for(kernel, dims, dtype=elements, strides=strides, wanted=wanted, tune=tune)


def _remember(
    again: Recalled, compiled: CompiledKernel, used: Mapping[str, Any], value: Any, shape: tuple[int, ...]
) -> None:
    """Keep the way for calls like this one, where the program reads the very memory of the caller's arrays."""
    if again.key is None or not compiled.bundle.plan.launches:
        return
    if any(array.data_ptr() != again.arrays[name].data_ptr() for name, array in used.items()):
        return
    view = view_array(value, name="out")
    program = compiled.program
    loaded = program.loaded(view.ordinal)
    if loaded.arguments == tuple(buffer.name for buffer in (*program.inputs, *program.outputs)):
        places = list(again.arrays)
        shapes = {name: view_array(array, name=name).shape for name, array in used.items()}
        extents = loaded.run_time_key(extents_of(compiled.bundle.plan, shapes))
        _repeated[again.key] = Repeated(loaded, [places.index(name) for name in used], view, shape, extents)


def require_elements(view: ArrayView, name: str, element: Element) -> None:
    """Raises TilewrightError for an array of other elements."""
    if view.element is not element:
        raise TilewrightError(
            f"{name} has elements {view.element.value}; it should have {element.value}", remedy="convert it"
        )


def element_named(dtype: object) -> Element:
    """The element of a result, by a name or a type of another library. Raises TilewrightError."""
    if isinstance(dtype, Element):
        return dtype
    element = element_of(dtype)
    if element is None or not element.is_float or element is Element.F64:
        raise TilewrightError(f"nothing is stored as {dtype!r}", remedy="use bf16, f16, f32, f8e4m3 or f8e5m2")
    return element


def _as_rows(array: Any, axes: int) -> Any:
    """The array with its leading axes taken together, so that `axes` remain."""
    shape = array.shape
    if len(shape) <= axes:
        return array
    rows = 1
    for extent in shape[: len(shape) - axes + 1]:
        rows *= int(extent)
    return array.reshape((rows, *[int(extent) for extent in shape[len(shape) - axes + 1 :]]))


def _with_positive_strides(array: Any, name: str) -> tuple[Any, ArrayView]:
    """The array itself, or a dense copy where it repeats or reverses an axis."""
    view = view_array(array, name=name)
    strides = _along_ones(view.shape, view.strides)
    if min(strides, default=1) >= 1:
        return array, replace(view, strides=strides)
    dense: Any = array.contiguous() if hasattr(array, "contiguous") else np.copy(array, order="C")
    return dense, view_array(dense, name=name)


def _along_ones(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """The strides with those along extents of one as in a dense array, because libraries put anything there."""
    found: list[int] = []
    below = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        found.append(below if extent == 1 else stride)
        below = max(1, extent * found[-1])
    return tuple(reversed(found))
