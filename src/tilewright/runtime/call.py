"""A compiled program as a function of arrays.

GPU arrays are used where they are, on the stream that their library works on; CPU arrays are copied to GPU 0 and back.
What the program was compiled for (shapes, strides, elements, alignment) is compared with what it is given.

Not handled: arrays that overlap each other, arrays on several GPUs.
Checked by: tests/runtime/test_call.py for the comparisons and staging; tests/runtime/test_gpu.py on a GPU.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tilewright.base.error import TilewrightError
from tilewright.base.plan import Buffer, LaunchPlan
from tilewright.base.run_time import extents_of, plan_at
from tilewright.runtime import device as gpu
from tilewright.runtime.arrays import (
    CARRIERS,
    ArrayView,
    contiguous_strides,
    current_stream,
    empty_like_device,
    numpy_dtype,
    view_array,
)
from tilewright.runtime.bundle import Bundle
from tilewright.runtime.launch import LoadedPlan, load_bundle


class Program:
    """A bundle that is called with arrays. Its module is loaded on each GPU at the first call there."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.inputs = tuple(buffer for buffer in bundle.plan.buffers if buffer.role == "input")
        self.outputs = tuple(buffer for buffer in bundle.plan.buffers if buffer.role == "output")
        self._loaded: dict[int, LoadedPlan] = {}
        self._lock = threading.Lock()

    def loaded(self, ordinal: int = 0) -> LoadedPlan:
        """The program on GPU `ordinal`. Raises as LoadedPlan does."""
        with self._lock:
            found = self._loaded.get(ordinal)
            if found is None:
                found = load_bundle(self.bundle, gpu.open_device(ordinal))
                self._loaded[ordinal] = found
            return found

    def __call__(self, *inputs: object, out: object = None) -> Any:
        """Run on the input arrays, in the order of the program's parameters, and return the output, or a tuple of them.

        out: an array, or a tuple of arrays where there are several outputs, to write to instead of new ones. On the GPU
        this returns when the work is queued on the arrays' current stream; for CPU arrays when it is done.
        Raises TilewrightError: other arrays than the program was compiled for, arrays on different devices, and all
        that LoadedPlan raises.
        """
        if len(inputs) != len(self.inputs):
            names = ", ".join(buffer.name for buffer in self.inputs)
            raise TilewrightError(
                f"{self.bundle.name} takes {len(self.inputs)} arrays and got {len(inputs)}", remedy=f"pass {names}"
            )
        views = [view_array(array, name=buffer.name) for array, buffer in zip(inputs, self.inputs, strict=True)]
        given = self._given(out)
        results: list[object] = []
        extents, plan = self._at_run_time(views, given)
        outputs = tuple(buffer for buffer in plan.buffers if buffer.role == "output")
        for buffer, array in zip(outputs, given, strict=True):
            result = array if array is not None else self._allocate(buffer, views)
            view = view_array(result, name=buffer.name)
            if not view.writable:
                raise TilewrightError(f"{buffer.name} is read-only", remedy="pass a writable array for the output")
            results.append(result)
            views.append(view)
        buffers = (*(buffer for buffer in plan.buffers if buffer.role == "input"), *outputs)
        for view, buffer in zip(views, buffers, strict=True):
            require_match(view, buffer)
            self._require_aligned(view, buffer)
        ordinal = same_device(views, buffers)
        if not plan.launches:
            return results[0] if len(results) == 1 else tuple(results)
        loaded = self.loaded(ordinal)
        if views[0].device == "cuda":
            pointers = {buffer.name: view.pointer for view, buffer in zip(views, buffers, strict=True)}
            loaded.run(pointers, current_stream(views[0]), extents)
        else:
            written = {buffer.name for buffer, array in zip(outputs, given, strict=True) if array is not None}
            _run_staged(loaded, views, buffers, written, extents)
        return results[0] if len(results) == 1 else tuple(results)

    def _at_run_time(self, inputs: list[ArrayView], given: tuple[object, ...]) -> tuple[dict[str, int], LaunchPlan]:
        """The extents of run-time axes, as the arrays have them, and the plan of these."""
        plan = self.bundle.plan
        shapes = {buffer.name: view.shape for buffer, view in zip(self.inputs, inputs, strict=True)}
        for buffer, array in zip(self.outputs, given, strict=True):
            if array is not None:
                shapes[buffer.name] = view_array(array, name=buffer.name).shape
        extents = extents_of(plan, shapes)
        return extents, plan_at(plan, extents)

    def _require_aligned(self, view: ArrayView, buffer: Buffer) -> None:
        """Raises TilewrightError where a GPU array begins elsewhere than the program was compiled for."""
        alignments = self.bundle.facts.get("alignment_bytes")
        if view.device == "cpu" or not isinstance(alignments, dict):
            return
        alignment = cast("dict[str, object]", alignments).get(buffer.name)
        if isinstance(alignment, int) and alignment > 0 and view.pointer % alignment:
            raise TilewrightError(
                f"{buffer.name} begins at {view.pointer:#x}; the program was compiled for multiples of {alignment}",
                remedy="align the array, or call the declared kernel with it, which compiles for where it is",
            )

    def _given(self, out: object) -> tuple[object, ...]:
        if out is None:
            return (None,) * len(self.outputs)
        arrays = cast("tuple[object, ...]", out) if isinstance(out, tuple) else (out,)
        if len(arrays) != len(self.outputs):
            names = ", ".join(buffer.name for buffer in self.outputs)
            raise TilewrightError(
                f"{self.bundle.name} writes {len(self.outputs)} arrays and got {len(arrays)} in out",
                remedy=f"pass {names}",
            )
        return arrays

    def _allocate(self, buffer: Buffer, views: list[ArrayView]) -> object:
        if not views:
            raise TilewrightError(f"{self.bundle.name} has no inputs to make outputs like", remedy="pass out")
        if buffer.strides != contiguous_strides(buffer.shape) and views[0].device != "cpu":
            raise TilewrightError(
                f"{buffer.name} has strides {buffer.strides}, not row-major", remedy="pass an array with them as out"
            )
        return empty_like_device(views[0], buffer.shape, buffer.element)


def require_match(view: ArrayView, buffer: Buffer) -> None:
    """Raises TilewrightError unless the array is what the buffer was compiled for.

    Strides matter on the GPU alone (CPU arrays are copied into the layout asked for), and not along extents of one.
    """
    if view.element not in (buffer.element, CARRIERS.get(buffer.element)):
        raise TilewrightError(
            f"{buffer.name} has elements {view.element.value}; the program was compiled for {buffer.element.value}",
            remedy="convert the array, or compile for its type",
        )
    if view.shape != buffer.shape:
        raise TilewrightError(
            f"{buffer.name} has shape {view.shape}; the program was compiled for {buffer.shape}",
            remedy="compile for this shape",
        )
    if view.device == "cpu" or 0 in view.shape:
        return
    for extent, stride, wanted in zip(view.shape, view.strides, buffer.strides, strict=True):
        if extent > 1 and stride != wanted:
            raise TilewrightError(
                f"{buffer.name} has strides {view.strides}; the program was compiled for {buffer.strides}",
                remedy="make it contiguous, or compile for these strides",
            )


def same_device(views: list[ArrayView], buffers: tuple[Buffer, ...]) -> int:
    """The ordinal that all arrays share. Raises TilewrightError, naming two, where they do not share one device."""
    for view, buffer in zip(views, buffers, strict=True):
        if (view.device, view.ordinal) != (views[0].device, views[0].ordinal):
            raise TilewrightError(
                f"{buffers[0].name} is on {_place(views[0])} and {buffer.name} on {_place(view)}",
                remedy="move them to one device",
            )
    return views[0].ordinal if views else 0


def _place(view: ArrayView) -> str:
    return "the CPU" if view.device == "cpu" else f"cuda:{view.ordinal}"


def _run_staged(
    loaded: LoadedPlan,
    views: list[ArrayView],
    buffers: tuple[Buffer, ...],
    written_outputs: set[str],
    extents: Mapping[str, int],
) -> None:
    pointers: dict[str, int] = {}
    staged: dict[str, npt.NDArray[Any]] = {}
    with gpu.current(loaded.device):
        try:
            for view, buffer in zip(views, buffers, strict=True):
                staged[buffer.name] = flat = np.zeros(buffer.span_elements, numpy_dtype(buffer.element))
                pointers[buffer.name] = gpu.allocate(flat.nbytes, f"a copy of {buffer.name}")
                # What the caller passes as output may be read too, so it goes over with the inputs.
                if buffer.role == "input" or buffer.name in written_outputs:
                    layout_of(flat, buffer)[...] = view.numpy()
                    gpu.copy_to_device(pointers[buffer.name], flat.ctypes.data, flat.nbytes)
            loaded.run(pointers, extents=extents)
            loaded.synchronize()
            for view, buffer in zip(views, buffers, strict=True):
                if buffer.role == "output":
                    flat = staged[buffer.name]
                    gpu.copy_from_device(flat.ctypes.data, pointers[buffer.name], flat.nbytes)
                    view.numpy()[...] = layout_of(flat, buffer)
        finally:
            for pointer in pointers.values():
                gpu.free(pointer)


def layout_of(flat: npt.NDArray[Any], buffer: Buffer) -> npt.NDArray[Any]:
    """The buffer's elements inside `flat`, its whole span as one row."""
    strides_bytes = tuple(stride * flat.itemsize for stride in buffer.strides)
    # By the dtype itself: what NumPy writes for float8_e5m2 as text, it does not read again.
    return np.ndarray(buffer.shape, flat.dtype, flat.view(np.uint8), 0, strides_bytes)
