"""Which matrices does an epilogue read two neighbouring columns at a time?

Those whose columns lie together along the accumulator's columns, where every pair begins at a multiple of its size and
lies inside the matrix or outside as a whole: even extents, distances and displacements. Half as many accesses, and
words instead of half words. Checked by: tests/lower/fragment/test_paired_loads.py.
"""

from __future__ import annotations

from tilewright.base.size import divisor
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import access_of, parameter_name
from tilewright.ir.tile.types import tensor_type
from tilewright.synth.tile.wanted import Wanted

_PAIR = 2
_SIZES = (2, 4)
"""Bytes of an element."""


def choose_paired_loads(program: tile.ProgramOp, axes: tuple[str, str], wanted: Wanted) -> tuple[str, ...]:
    """Parameters that are read in pairs wherever the epilogue reads them. axes: rows and columns of the accumulator."""
    chosen: dict[str, bool] = {}
    for load in program.body.block.ops:
        if not isinstance(load, tile.LoadOp):
            continue
        name = parameter_name(program, load.tensor)
        fits = name not in wanted.misaligned and _in_pairs(program, load, axes)
        chosen[name] = chosen.get(name, True) and fits
    return tuple(name for name, fits in chosen.items() if fits)


def _in_pairs(program: tile.ProgramOp, load: tile.LoadOp, axes: tuple[str, str]) -> bool:
    tensor, (rows, columns) = tensor_type(load.tensor), axes
    strides = {
        axis: divisor(stride, program.run_time)
        for axis, stride in zip(tensor.axis_names, tensor.stride_sizes, strict=True)
    }
    size = tensor.element_kind.bytes
    if tensor.axis_names[-2:] != (rows, columns) or strides[columns] != 1 or size not in _SIZES:
        return False
    displaced = dict(zip(tensor.axis_names, access_of(load).offsets, strict=True))[columns]
    extent = divisor(program.sizes[columns], program.run_time)
    numbers = (extent, displaced, *(stride for axis, stride in strides.items() if axis != columns))
    return tensor.refinement.alignment_bytes % (_PAIR * size) == 0 and all(each % _PAIR == 0 for each in numbers)
