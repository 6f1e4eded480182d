"""A drawn program, compiled and run on the CPU machine: what of its results is out of bounds, or why it is refused."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tests.end_to_end.bounded_numbers import Array, run_program, wrong_places
from tests.end_to_end.drawn_text import Program, drawn_arrays

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.size import Range
from tilewright.driver.compile.compile import Compilation, compile_kernel
from tilewright.driver.run.run import run_on_machine
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.language import dynamic


@dataclass(frozen=True, slots=True)
class Judged:
    """refusal: why the program is not compiled; wrong: by the extents of a launch and the result, one place with what
    stands there and what should, and how many there are; open: the largest share of a result that no bound holds."""

    refusal: TilewrightError | None
    wrong: tuple[str, ...] = ()
    open: float = 0.0


def kernel_of(program: Program, folder: Path, name: str) -> Kernel:
    """The kernel `drawn` of a program's module, written to a folder, so that errors have lines."""
    path = folder / f"{name}.py"
    path.write_text(program.text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.drawn


def judged(program: Program, kernel: Kernel, target: str, seed: int, *, assembled: bool = True) -> Judged:
    """What becomes of a program for one target, with inputs of a seed."""
    dims = {axis: dynamic(*program.ranges[axis]) if axis in program.ranges else n for axis, n in program.dims.items()}
    try:
        made = compile_kernel(
            kernel,
            target=target,
            dims=dims,
            dtype=program.element,
            strides=program.strides or None,
            assembled=assembled,
        )
    except TilewrightError as refusal:
        return Judged(refusal)
    assert made.text_proof is not None
    wrong: list[str] = []
    shares: list[float] = []
    for extents in _launches(program, dims):
        found, share = _out_of_bounds(program, kernel, made, extents, seed)
        wrong += found
        shares.append(share)
    return Judged(None, tuple(wrong), max(shares))


def _launches(program: Program, dims: Mapping[str, int | Range]) -> list[dict[str, int]]:
    """Extents at the ends of each range, beside one, and odd ones between."""
    launches = [dict(program.dims)]
    for axis, (least, most) in program.ranges.items():
        sizes = sorted({least, min(least + 1, most), min((least + most) // 2 | 1, most), most})
        launches = [each | {axis: size} for each in launches for size in sizes]
    assert dims.keys() == program.dims.keys()
    return launches


def _out_of_bounds(
    program: Program, kernel: Kernel, made: Compilation, extents: Mapping[str, int], seed: int
) -> tuple[list[str], float]:
    blocks = {axis: -(-extents[axis.split("/")[0]] // int(axis.split("/")[1])) for axis in kernel.block_axes}
    sizes = {**extents, **blocks}
    bundle = made.bundle()
    stored = [each for each in bundle.plan.buffers if each.role == "output"]
    names = {each.name for each in stored}
    default = Element(program.element)
    listed = [(each.name, each.axes, each.element or default) for each in kernel.parameters]
    shapes = {name: ([sizes[axis] for axis in axes], element) for name, axes, element in listed if name not in names}
    arrays = drawn_arrays(program, shapes, seed)
    given = [_laid_out(array, program.strides.get(name)) for name, array in arrays.items()]
    results = run_on_machine(bundle, given, seed=seed)
    expected = run_program(program.text, kernel.name, listed, extents, arrays)
    plain = run_program(program.meaning, kernel.name, listed, extents, arrays) if program.meaning else expected
    wrong: list[str] = []
    shares = [0.0]
    for buffer, result in zip(stored, results if len(stored) > 1 else (results,), strict=True):
        number, error = plain[buffer.name]
        if program.meaning:
            error = error + expected[buffer.name][1]
        places = wrong_places(result, number, error, buffer.element)
        shares += [float(np.isinf(error).mean())] if error.size else []
        if places.any():
            at = tuple(int(each) for each in np.argwhere(places)[0])
            wrong.append(
                f"{dict(extents)}: {buffer.name}{list(at)} is {float(result[at])!r}, not {float(number[at])!r} to "
                f"{float(error[at])!r}; {int(places.sum())} of {places.size} are out of bounds"
            )
    return wrong, max(shares)


def _laid_out(array: Array, strides: tuple[int, ...] | None) -> Array:
    """An array with these strides, in elements."""
    if strides is None:
        return array
    item = array.dtype.itemsize
    room = np.zeros(
        sum(max(size - 1, 0) * step for size, step in zip(array.shape, strides, strict=True)) + 1, array.dtype
    )
    view = np.lib.stride_tricks.as_strided(room, array.shape, [step * item for step in strides])
    view[...] = array
    return view
