"""How long does a kernel take whose walks only sum, in cycles of the CTA with most tiles?

A tile of a walk takes its products, or what its slots fetch, the longer of both, which is meant softly as in
`synth.cost.time_model`; what is stored of a tile's sums takes its bytes. With two slots for sums in tensor memory these
go on at once, so that each further tile takes the longer of the two, and the first and the last what the other takes
besides. With one slot they follow one another.

A product of fewer rows than the tensor core has lanes takes as long as one of all lanes. Not handled: device memory,
which `synth.cut.time` adds, and what an epilogue computes. Nothing of it was measured on a device with tensor memory.
Checked by: tests/synth/cascade/sums/test_sum_time.py.
"""

from __future__ import annotations

import math

from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.cascade_facts import CascadeAxes, first_alike, slot_sums
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import loads, loops, stores
from tilewright.ir.tile.types import read_type, tensor_type
from tilewright.synth.cascade.groups import tiles_of
from tilewright.synth.cost.time_model import multiply_cycles, parameters_of
from tilewright.synth.tile.long_sum import p_norm
from tilewright.targets import Target


def sum_cycles(program: tile.ProgramOp, axes: CascadeAxes, d: CascadeDecisions, target: Target) -> float:
    """Of all tiles of the CTA that has most."""
    waves = math.ceil(tiles_of(program, d) / d.ctas)
    summed, stored = walk_cycles(program, axes, d, target), _store_cycles(program, axes, d, target)
    further = summed + stored if d.sum_slots == 1 else max(summed, stored)
    return summed + stored + (waves - 1) * further


def walk_cycles(program: tile.ProgramOp, axes: CascadeAxes, d: CascadeDecisions, target: Target) -> float:
    """Of the products of one tile."""
    iterations = -(-program.extents[d.streamed] // d.tile_streamed)
    return iterations * sum(_iteration(program, axes, loop, d, target) for loop in loops(program))


def _iteration(
    program: tile.ProgramOp, axes: CascadeAxes, loop: tile.LoopOp, d: CascadeDecisions, target: Target
) -> float:
    listed, products = loads(program), slot_sums(program, loop)
    multiplied, fetched = 0.0, 0
    for each in products:
        columns = d.columns_along(axes.column_of(axes.kept(each.op.result)))
        element_bytes = read_type(each.brought.tensor).element_kind.bytes
        shape = (d.tile_rows, columns, d.tile_streamed)
        multiplied += multiply_cycles(shape, d.tile_rows, element_bytes, target, d.tile_rows)
    used = {first_alike(program, op) for op in loop.body.block.ops if isinstance(op, tile.LoadOp)}
    fetched = sum(each.slot_bytes for each in d.slots if listed[each.load] in used)
    p = parameters_of(target)
    return p_norm((multiplied, 1000 * fetched / p.fetch_bytes_per_kilocycle), p.slice_norm_permille)


def _store_cycles(program: tile.ProgramOp, axes: CascadeAxes, d: CascadeDecisions, target: Target) -> float:
    """From the last product of a tile until its results are stored."""
    p, stored = parameters_of(target), 0
    for op in stores(program):
        kind = tensor_type(op.tensor)
        column = axes.column_of(kind.axis_names)
        stored += d.tile_rows * (d.columns_along(column) if column else 1) * kind.element_kind.bytes
    return p.latency_cycles + 1000 * stored / (d.consumers * p.scattered_bytes_per_kilocycle)
