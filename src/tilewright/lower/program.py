"""What the lowering asks of a tile program: its parameters as buffers, its one dot, which global arrays are its
sources."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tilewright.base.plan import Buffer
from tilewright.ir import tile
from tilewright.ir.decisions import PipelineDecisions


def parameters_of(program: tile.ProgramOp) -> tuple[Buffer, ...]:
    stored = {id(store.tensor) for store in stores_of(program)}
    buffers: list[Buffer] = []
    for name, argument in zip(program.parameters, program.body.block.args, strict=True):
        tensor = argument.type
        assert isinstance(tensor, tile.TensorType)
        role = "output" if id(argument) in stored else "input"
        buffers.append(Buffer(name.data, tensor.element_kind, tensor.extents, tensor.stride_elements, role))
    return tuple(buffers)


def stores_of(program: tile.ProgramOp) -> list[tile.StoreOp]:
    return [op for op in program.body.block.ops if isinstance(op, tile.StoreOp)]


def grid_of(program: tile.ProgramOp) -> tile.GridOp:
    (grid,) = [op for op in program.body.block.ops if isinstance(op, tile.GridOp)]
    return grid


def parameter_name(program: tile.ProgramOp, tensor: SSAValue) -> str:
    for name, argument in zip(program.parameters, program.body.block.args, strict=True):
        if argument is tensor:
            return name.data
    raise KeyError("not a parameter")


def dot_of(program: tile.ProgramOp) -> tile.DotOp:
    (dot,) = [op for op in program.walk() if isinstance(op, tile.DotOp)]
    return dot


def sources_of(program: tile.ProgramOp, globals_: dict[str, SSAValue]) -> dict[SSAValue, SSAValue]:
    """Tensor argument to global array."""
    return {
        argument: globals_[name.data]
        for name, argument in zip(program.parameters, program.body.block.args, strict=True)
        if name.data in globals_
    }


def tile_counts(program: tile.ProgramOp, d: PipelineDecisions) -> tuple[int, int, int]:
    """Tiles along rows, columns and the contracted axis."""
    extents = program.extents
    return (
        -(-extents[d.rows] // d.tile_m),
        -(-extents[d.columns] // d.tile_n),
        -(-extents[d.contracted] // d.tile_k),
    )


def slot_bytes(decisions: PipelineDecisions) -> tuple[int, int]:
    """Bytes of one slot of A and of B."""
    element_bytes = decisions.a.map.tensor_map().element.bytes
    return (
        decisions.tile_m * decisions.tile_k * element_bytes,
        decisions.tile_n * decisions.tile_k * element_bytes,
    )
