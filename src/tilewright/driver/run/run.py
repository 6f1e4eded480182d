"""How a compiled program is called: on GPU arrays where they are, on NumPy arrays by the CPU machine (or, if asked,
the GPU).

On the CPU machine the very PTX text of the bundle runs; results do not depend on the seed, which orders the
asynchronous engines. The machine is exact and slow.
Checked by: tests/end_to_end/test_gemm.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, cast, get_args

import numpy as np

from tilewright.base.error import TilewrightError
from tilewright.base.plan import Buffer
from tilewright.base.run_time import extents_of, plan_at
from tilewright.runtime.arrays import ArrayView, numpy_dtype, view_array
from tilewright.runtime.bundle import Bundle
from tilewright.runtime.call import Program, layout_of, require_match

Place = Literal["auto", "cpu", "gpu"]
Progress = Callable[[float], None]


class CompiledKernel:
    """A bundle that is called with arrays: inputs in the order of the program's parameters, the output returned."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.program = Program(bundle)

    def __repr__(self) -> str:
        return f"<compiled {self.bundle.name} for {self.bundle.target}>"

    def __call__(
        self, *inputs: object, out: object = None, on: Place = "auto", seed: int = 0, **unknown: object
    ) -> Any:
        """Run the kernel.

        Args:
            inputs: Arrays, in the order of the program's parameters.
            out: An array to write to, instead of a new one.
            on: "auto" runs GPU arrays on their GPU and CPU arrays on the CPU machine; "gpu" copies CPU arrays to GPU 0
                and back.
            seed: Order of the CPU machine's engines.

        Raises:
            TilewrightError: The arrays do not fit the program, or `out` cannot be written to.
        """
        if unknown:
            raise TilewrightError(
                f"{self.bundle.name} takes no argument {min(unknown)}",
                remedy=f"pass {', '.join(_inputs(self.bundle))} in this order, and out=, on= or seed= if wanted",
            )
        if on not in get_args(Place):
            raise TilewrightError(f"nothing runs on {on!r}", remedy=f"choose from {', '.join(get_args(Place))}")
        if on == "gpu" or (on == "auto" and any(_is_on_gpu(array) for array in inputs)):
            return self.program(*inputs, out=out)
        return run_on_machine(self.bundle, inputs, out=out, seed=seed)


def _is_on_gpu(array: object) -> bool:
    device = getattr(array, "__dlpack_device__", None)
    # DLPack device types: 1 CPU, 2 CUDA, 3 pinned host, 13 managed.
    return device is not None and int(cast("tuple[int, int]", device())[0]) in (2, 13)


def _inputs(bundle: Bundle) -> list[str]:
    return [buffer.name for buffer in bundle.plan.buffers if buffer.role == "input"]


def run_on_machine(
    bundle: Bundle,
    inputs: Sequence[object],
    *,
    out: object = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Any:
    """Run a bundle's PTX on the CPU machine; returns the output array, or a tuple of several.

    Raises TilewrightError for arrays that do not fit, and for a fault, race or hang, with the line of PTX.
    """
    named = _inputs(bundle)
    if len(inputs) != len(named):
        raise TilewrightError(
            f"{bundle.name} takes {len(named)} arrays and got {len(inputs)}", remedy=f"pass {', '.join(named)}"
        )
    views = [view_array(array, name=name) for array, name in zip(inputs, named, strict=True)]
    extents = extents_of(bundle.plan, {name: view.shape for name, view in zip(named, views, strict=True)})
    plan = plan_at(bundle.plan, extents)
    wanted = [buffer for buffer in plan.buffers if buffer.role == "input"]
    outputs = [buffer for buffer in plan.buffers if buffer.role == "output"]
    arrays: dict[str, np.ndarray[Any, np.dtype[np.uint8]]] = {}
    for view, buffer in zip(views, wanted, strict=True):
        arrays[buffer.name] = _image(view, buffer)
    targets: tuple[object, ...] = ()
    if out is not None:
        targets = cast("tuple[object, ...]", out) if isinstance(out, tuple) else (out,)
        if len(targets) != len(outputs):
            names = ", ".join(buffer.name for buffer in outputs)
            raise TilewrightError(f"out has {len(targets)} arrays for {len(outputs)}", remedy=f"give {names}")
        for target, buffer in zip(targets, outputs, strict=True):
            if not view_array(target, name=buffer.name).numpy().flags.writeable:
                raise TilewrightError(f"{buffer.name} is read-only", remedy="pass an array that may be written to")
    for number, buffer in enumerate(outputs):
        # What a program leaves out of an array that it is given stays as it was.
        arrays[buffer.name] = (
            _image(view_array(targets[number], name=buffer.name), buffer)
            if number < len(targets)
            else np.zeros(buffer.span_bytes, np.uint8)
        )
    run_text(replace(bundle, plan=plan), arrays, seed=seed, progress=progress)
    results = [_array(arrays[buffer.name], buffer) for buffer in outputs]
    if out is not None:
        for result, target, buffer in zip(results, targets, outputs, strict=True):
            view = view_array(target, name=buffer.name)
            require_match(view, buffer)
            view.numpy()[...] = result
        return cast("Any", out)
    return results[0] if len(results) == 1 else tuple(results)


def run_text(
    bundle: Bundle,
    arrays: Mapping[str, np.ndarray[Any, np.dtype[np.uint8]]],
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> None:
    """Run a bundle's launches on byte arrays by buffer name, in place; of run-time axes at their largest extents."""
    from tilewright.frontends.ptx.reader import read
    from tilewright.machine.core.plan import run_plan

    module = read(bundle.ptx, f"<{bundle.name}.ptx>")
    modules = {launch.entry: module for launch in bundle.plan.launches}
    run_plan(modules, bundle.plan, dict(arrays), seed=seed, progress=progress)


def _image(view: ArrayView, buffer: Buffer) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The array's bytes in the layout that the program was compiled for."""
    require_match(view, buffer)
    flat = np.zeros(buffer.span_elements, numpy_dtype(buffer.element))
    layout_of(flat, buffer)[...] = view.numpy()
    return flat.view(np.uint8)


def _array(image: np.ndarray[Any, np.dtype[np.uint8]], buffer: Buffer) -> np.ndarray[Any, Any]:
    return layout_of(image.view(numpy_dtype(buffer.element)), buffer)
