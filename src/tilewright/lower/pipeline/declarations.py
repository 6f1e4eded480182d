"""What a pipeline's kernel declares before its roles: tensor maps, arrays, the ring, places in shared memory.

Checked by: tests/lower/test_ptx_text.py and test_values.py; that nothing overlaps, by `contract`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, SSAValue

from tilewright.base.element import Element
from tilewright.base.plan import Buffer
from tilewright.base.size import Size
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.async_copy import COPYING_THREADS
from tilewright.ir.decisions import OperandDecision, PipelineDecisions
from tilewright.ir.tier import MemoryType
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import buffers, parameter_name, stores
from tilewright.lower.build import Build, global_array, tensor_map
from tilewright.lower.distribution.split_product import declare_meeting
from tilewright.lower.distribution.stream_product import declare_partial_sums, stream_workspaces
from tilewright.lower.distribution.team_sum import team_workspaces
from tilewright.lower.distribution.turns import declare_turns
from tilewright.lower.expression import loads_in
from tilewright.lower.pipeline.epilogue import Pipeline
from tilewright.lower.pipeline.slots import RING
from tilewright.lower.program import map_dims, shape_of, slot_bytes, tile_counts
from tilewright.lower.ptx.spill_slots import declare_spill_slots
from tilewright.lower.staged_store import declare_staging, further_maps

_PAIR_BYTES = 16
"""Of a full and an empty barrier."""


@dataclass(frozen=True, slots=True)
class PipelineMemory:
    """Byte offsets in dynamic shared memory: A and B slots, staging, rows of plain stores, partial sums, slots of
    registers, barriers."""

    a: int
    b: int
    staging: int
    rows: int
    partials: int
    spilled: int
    barriers: int


def memory_of(decisions: PipelineDecisions) -> PipelineMemory:
    a_bytes, b_bytes = slot_bytes(decisions)
    b = a_bytes * decisions.stages
    staging = b + b_bytes * decisions.stages
    rows = staging + decisions.staging_slots * decisions.staging_slot_bytes * decisions.consumers
    partials = rows + decisions.rows_bytes * decisions.consumers
    spilled = partials + decisions.partial_bytes
    return PipelineMemory(0, b, staging, rows, partials, spilled, spilled + decisions.spill_bytes)


def operand_dims(
    program: tile.ProgramOp, d: PipelineDecisions, operand: OperandDecision, outer: str
) -> tuple[Size, ...]:
    """The dimensions of an operand's map. outer: its axis besides the contracted one."""
    return map_dims(program, operand.map, (d.contracted, outer) if operand.major == "K" else (outer, d.contracted))


def stream_arrays(program: tile.ProgramOp, d: PipelineDecisions) -> tuple[Buffer, ...]:
    """The arrays of partial sums of streamed tiles; none where there are no such tiles."""
    return stream_workspaces(program, d.stream, d.tile_units, (d.unit_rows, d.tile_n))


def team_arrays(program: tile.ProgramOp, d: PipelineDecisions) -> tuple[Buffer, ...]:
    """The arrays of partial sums that teams hand over; none where there is one team."""
    return team_workspaces(program, d.team_sum, tile_counts(program, d))


def declare(build: Build, program: tile.ProgramOp, d: PipelineDecisions) -> tuple[Pipeline, dict[str, SSAValue]]:
    memory = memory_of(d)
    a_bytes, b_bytes = slot_bytes(d)
    cluster_size = d.cluster_m * d.cluster_n
    names = [d.a.buffer, f"{d.b.buffer}_right" if d.b.buffer == d.a.buffer else d.b.buffer]
    operands = (d.a, d.b)
    # What threads copy is reached by a pointer, which is declared with the other arrays.
    maps = [
        None
        if operand.piece_bytes
        else tensor_map(build, name, operand.buffer, operand.map, operand_dims(program, d, operand, outer))
        for name, operand, outer in zip(names, operands, (d.rows, d.columns), strict=True)
    ]
    arrays: dict[str, SSAValue] = {}
    for store in d.stores:
        if store.path == "tma":
            axes = (d.rows, d.columns) if store.turned else (d.columns, d.rows)
            dims = map_dims(program, store.map, axes)
            arrays[store.parameter] = tensor_map(build, store.parameter, store.parameter, store.map, dims)
            for kept, name, each in further_maps(program, store):
                arrays[kept] = tensor_map(build, name, store.parameter, each, dims)
    used = {parameter_name(program, load.tensor) for store in stores(program) for load in loads_in(store.value)}
    used |= {store.parameter for store in d.stores if store.path == "direct"}
    used |= {operand.buffer for operand in operands if operand.piece_bytes}
    for buffer in buffers(program):
        if buffer.name in used:
            arrays[buffer.name] = global_array(build, buffer, shape_of(program, buffer.name))
    a_map, b_map = (
        arrays[operand.buffer] if map_ is None else map_ for operand, map_ in zip(operands, maps, strict=True)
    )
    ring = build.value(
        ac.RingOp.create(
            properties={
                "sym_name": RING,
                "stages": IntAttr(d.stages),
                "full_arrivals": IntAttr(1 + COPYING_THREADS * int(d.copies_by_threads)),
                "empty_arrivals": IntAttr((1 if d.turns else d.consumers) * cluster_size),
                "address": IntAttr(memory.barriers),
            },
            result_types=[ac.RingType(RING, IntAttr(d.stages))],
        )
    )

    def buffer_of(
        name: str, element: str, address: int, instances: int, slots: int, size: int, swizzle: str, ring: bool
    ) -> SSAValue:
        properties: dict[str, Attribute] = {
            "sym_name": StringAttr(name),
            "address": IntAttr(address),
            "instances": IntAttr(instances),
        }
        if ring:
            properties["ring"] = RING
        kind = MemoryType(StringAttr("SMEM"), StringAttr(element), IntAttr(slots), IntAttr(size), StringAttr(swizzle))
        return build.value(ac.BufferOp.create(properties=properties, result_types=[kind]))

    a = buffer_of("a_slots", d.a.map.element, memory.a, 1, d.stages, a_bytes, d.a.map.swizzle, ring=True)
    b = buffer_of("b_slots", d.b.map.element, memory.b, 1, d.stages, b_bytes, d.b.map.swizzle, ring=True)
    staging = declare_staging(build, d.stores, d.staging_slots, d.staging_slot_bytes, memory.staging, d.consumers)
    rows = None
    if d.rows_bytes:
        rows = buffer_of("rows", Element.U8.value, memory.rows, d.consumers, 1, d.rows_bytes, "none", ring=False)
    declare_spill_slots(build, d.spill_slots, d.consumers, memory.spilled)
    return Pipeline(
        d,
        ring,
        a,
        b,
        a_map,
        b_map,
        staging,
        rows,
        declare_meeting(build, d.split_sum, memory.partials, memory.barriers + _PAIR_BYTES * d.stages),
        declare_turns(build, memory.barriers + _PAIR_BYTES * d.stages) if d.turns else None,
        declare_partial_sums(build, stream_arrays(program, d) or team_arrays(program, d)),
    ), arrays
