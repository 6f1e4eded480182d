"""What the lowering asks of a decided program: its sources as arrays, its tiles, its slots."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tilewright.ir import tile
from tilewright.ir.decisions import PipelineDecisions


def sources_of(program: tile.ProgramOp, arrays: dict[str, SSAValue]) -> dict[SSAValue, SSAValue]:
    """Tensor argument to global array, for those parameters that `arrays` has by name."""
    return {
        argument: arrays[name.data]
        for name, argument in zip(program.parameters, program.body.block.args, strict=True)
        if name.data in arrays
    }


def tile_counts(program: tile.ProgramOp, decisions: PipelineDecisions) -> tuple[int, int, int]:
    """Tiles along rows, columns and the contracted axis."""
    extents = program.extents
    return (
        -(-extents[decisions.rows] // decisions.tile_m),
        -(-extents[decisions.columns] // decisions.tile_n),
        -(-extents[decisions.contracted] // decisions.tile_k),
    )


def slot_bytes(decisions: PipelineDecisions) -> tuple[int, int]:
    """Bytes of one slot of A and of B."""
    element_bytes = decisions.a.map.tensor_map().element.bytes
    return (
        decisions.tile_m * decisions.tile_k * element_bytes,
        decisions.tile_n * decisions.tile_k * element_bytes,
    )
