"""What the lowering asks of a decided program: its sources as arrays, its tiles, its slots."""

from __future__ import annotations

from dataclasses import replace

from xdsl.ir import SSAValue

from tilewright.base.plan import Buffer
from tilewright.ir import tile
from tilewright.ir.decisions import PipelineDecisions
from tilewright.ir.tile_types import tensor_type


def sources_of(program: tile.ProgramOp, arrays: dict[str, SSAValue]) -> dict[SSAValue, SSAValue]:
    """Tensor argument to global array, for those parameters that `arrays` has by name."""
    return {
        argument: arrays[name.data]
        for name, argument in zip(program.parameters, program.body.block.args, strict=True)
        if name.data in arrays
    }


def tile_counts(program: tile.ProgramOp, decisions: PipelineDecisions) -> tuple[int, int, int]:
    """Tiles along rows and columns, and slices of the contracted axis for each CTA that shares a tile."""
    extents = program.extents
    return (
        -(-extents[decisions.rows] // decisions.tile_m),
        -(-extents[decisions.columns] // decisions.tile_n),
        -(-extents[decisions.contracted] // (decisions.tile_k * decisions.shares)),
    )


def stands_in_line(axes: tuple[str, ...], decisions: PipelineDecisions) -> bool:
    """Whether an array over these axes has the rows of groups that stand apart."""
    return any(each.pitch and axes[:2] == (each.axis, decisions.rows) for each in decisions.grouping)


def rows_in_line(program: tile.ProgramOp, buffer: Buffer, decisions: PipelineDecisions) -> Buffer:
    """The array as the rows of all groups in one line, where they stand apart in it; else as it is."""
    axes = next(
        tensor_type(argument).axis_names
        for name, argument in zip(program.parameters, program.body.block.args, strict=True)
        if name.data == buffer.name
    )
    for grouping in decisions.grouping:
        if stands_in_line(axes, decisions):
            groups, rows, *further = buffer.shape
            shape = ((groups - 1) * grouping.pitch + rows, *further)
            return replace(buffer, shape=shape, strides=buffer.strides[1:])
    return buffer


def slot_bytes(decisions: PipelineDecisions) -> tuple[int, int]:
    """Bytes of one slot of A and of B."""
    element_bytes = decisions.a.map.tensor_map().element.bytes
    row_bytes = decisions.tile_k * element_bytes
    return (
        decisions.a.loaded_extent(decisions.tile_m) * row_bytes,
        decisions.products * decisions.b.loaded_extent(decisions.tile_n) * row_bytes,
    )
