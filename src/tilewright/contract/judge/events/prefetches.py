"""May a kernel ask for boxes of a tensor to be brought into the cache?

A prefetch of a tensor map changes nothing that a thread or a copy sees: L2 is the point of coherence of a device's
memory, so it may come before `griddepcontrol.wait`. What remains is that the engine takes its coordinates: along the
innermost dimension only multiples of 16 bytes, as for copies. Which boxes are asked for is of no consequence.
Source: PTX ISA, cp.async.bulk.prefetch.tensor. Checked by: tests/lower/ptx/copies/test_prefetch.py.
"""

from __future__ import annotations

from tilewright.base.size import bounds
from tilewright.contract.typestate.finding import Findings
from tilewright.contract.typestate.run_time_sizes import ranges_at
from tilewright.ir.ac import operations as ac
from tilewright.ir.sizes import size_of
from tilewright.ir.tile.order import fits_order
from tilewright.targets import Target


def check_prefetch(op: ac.PrefetchOp, boxes: tuple[int, int] | None, facts: Target, findings: Findings) -> None:
    """Doubt in `findings` what the engine may refuse. boxes: rank of the map and bytes of its element, or None if the
    operand is no declared map; facts: of the target."""
    if boxes is None or boxes[0] != 2:
        findings.doubt("asks for boxes of something that is no declared map of two dimensions", op)
        return
    if op.dimension.data not in (0, 1) or op.depth_inner.data not in (0, 1) or op.slices.data < 0:
        findings.doubt(f"dimension {op.dimension.data}, {op.slices.data} slices", op)
    ranges = ranges_at(op)
    if min(op.raster_group.data, *(bounds(size_of(each), ranges)[0] for each in (op.tiles_m, op.tiles_n))) < 1:
        findings.doubt("an order of no tiles", op)
    elif not fits_order(op.raster_group.data, "grouped" if op.order is None else op.order.data):
        findings.doubt("an order of tiles of which nothing is known", op)
    inner = op.depth_inner.data
    offsets = op.depth_offsets if inner else op.outer_offsets
    step = op.slice_depth.data if inner else op.extent.data
    moves = [step, *(item.data for item in offsets)]
    multiple = facts.limit("tensor_map.coordinate_0_multiple_bytes")
    if any(move * boxes[1] % multiple for move in moves):
        findings.doubt(f"its innermost coordinate may be no multiple of {multiple} bytes", op)
