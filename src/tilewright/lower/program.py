"""What the lowering asks of a decided program: its sources as arrays, their extents, and those of its maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from xdsl.ir import SSAValue

from tilewright.base.size import Size, computed, value_of
from tilewright.ir.decisions import MapDecision
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import buffers
from tilewright.ir.tile.types import tensor_type
from tilewright.lower.build import Build, global_array


def sources_of(program: tile.ProgramOp, arrays: dict[str, SSAValue]) -> dict[SSAValue, SSAValue]:
    """Tensor argument to global array, for those parameters that `arrays` has by name."""
    return {
        argument: arrays[name.data]
        for name, argument in zip(program.parameters, program.body.block.args, strict=True)
        if name.data in arrays
    }


def arrays_of(build: Build, program: tile.ProgramOp) -> dict[str, SSAValue]:
    """Every array of a program, declared with the extents and the strides that it has at a launch, by name."""
    return {
        each.name: global_array(build, each, shape_of(program, each.name), stride_sizes(program, each.name))
        for each in buffers(program)
    }


Counts: TypeAlias = tuple[Size, Size, Size]
"""Of tiles along rows and columns, and of matrices."""


def shape_of(program: tile.ProgramOp, parameter: str) -> tuple[Size, ...]:
    """The extents of a parameter's array."""
    sizes = program.sizes
    return next(
        tuple(sizes[axis] for axis in tensor_type(argument).axis_names)
        for name, argument in zip(program.parameters, program.body.block.args, strict=True)
        if name.data == parameter
    )


def map_dims(program: tile.ProgramOp, decision: MapDecision, axes: Sequence[str]) -> tuple[Size, ...]:
    """The dimensions of a tensor map over these axes, which it has from the innermost on: as they were decided, but
    for a run-time axis's, which the launch says."""
    sizes, extents = program.sizes, program.extents
    dims: list[Size] = list(decision.dims)
    for at, axis in enumerate(axes):
        if not isinstance(sizes[axis], int):
            assert dims[at] == extents[axis], f"dimension {at} of a map is {dims[at]}, not {axis}"
            dims[at] = sizes[axis]
    return tuple(dims)


def map_strides(
    program: tile.ProgramOp, decision: MapDecision, parameter: str, axes: Sequence[str]
) -> tuple[Size, ...]:
    """Bytes from one element to the next along these axes of a parameter's array, which are those of a map from the
    innermost on: as they were decided, but for those that follow from extents which the launch says."""
    kind = next(
        tensor_type(argument)
        for name, argument in zip(program.parameters, program.body.block.args, strict=True)
        if name.data == parameter
    )
    sized = {
        axis: computed("*", stride, kind.element_kind.bytes)
        for axis, stride in zip(kind.axis_names, kind.stride_sizes, strict=True)
        if not isinstance(stride, int)
    }
    strides: list[Size] = list(decision.strides_bytes)
    for at, axis in enumerate(axes[1:]):
        if axis in sized:
            assert strides[at] == value_of(sized[axis], program.extents), f"stride {at} of a map is not that of {axis}"
            strides[at] = sized[axis]
    assert sized.keys() <= set(axes), f"a map of {parameter} without the axes {sorted(sized.keys() - set(axes))}"
    return tuple(strides)


def stride_sizes(program: tile.ProgramOp, parameter: str) -> tuple[Size, ...]:
    """Elements from one place to the next along each axis of a parameter's array."""
    return next(
        tensor_type(argument).stride_sizes
        for name, argument in zip(program.parameters, program.body.block.args, strict=True)
        if name.data == parameter
    )
