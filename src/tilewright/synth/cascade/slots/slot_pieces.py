"""Which arrays that no tensor map describes can threads copy into a walk's slots, in pieces of how many bytes?

A tensor map wants rows that begin at multiples of 16 bytes. Where they begin at multiples of 4 or 8, a warpgroup's
threads can bring them with `cp.async` in pieces of as many bytes (`ir.ac.async_copy`), and nothing is written twice.
Otherwise, and where it is quicker (`synth.cascade.slots.unmapped_slots`), a kernel before copies the array.

Not handled: rows that begin at odd multiples of 2 bytes, which cp.async cannot take; loads displaced along the walked
axis, along one of a batch or to before the array's beginning; what integers lead to; groups of rows; walks that do more
than sum products of slots; accumulators in tensor memory; slots that CTAs of a cluster bring each other. All of those
are copied first. Checked by: tests/synth/cascade/slots/test_slot_pieces.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from tilewright.ir.cascade import SPAN_BYTES, CascadeDecisions, SlotDecision
from tilewright.ir.cascade_facts import CascadeAxes, all_slot_sums, map_dimensions
from tilewright.ir.refinement import DEFAULT_ALIGNMENT_BYTES
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import blocks_of
from tilewright.ir.tile.facts import gathers, index_offset, loads, parameter_name
from tilewright.ir.tile.gather import GatherOp
from tilewright.ir.tile.types import tensor_type
from tilewright.synth.cascade.slots.remade import inner_axis, needed_inner
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_WARP_THREADS = 32
_ROWS_MOST = 256
"""Of a box."""
_OFFSET_LIMIT = 1 << 31
"""Distances inside a box are immediates of instructions, and factors of 32-bit multiplications."""


def threads_may_copy(program: tile.ProgramOp, axes: CascadeAxes, target: Target) -> bool:
    """Whether threads may fill slots of such a walk at all."""
    plain = not (axes.group or gathers(program) or target.supports("tensor_memory"))
    return plain and bool(all_slot_sums(program))


def has_pieces(program: tile.ProgramOp, target: Target) -> bool:
    """Whether threads may copy any matrix that a program loads, in whatever walks: its rows begin at multiples of a
    piece."""
    least = min(target.limits("cp_async.piece_bytes"))
    found = [load for load in loads(program) if not isinstance(load.tensor.owner, GatherOp)]
    matrices = [tensor for tensor in map(tensor_type, (load.tensor for load in found)) if len(tensor.axis_names) > 1]
    return not target.supports("tensor_memory") and any(
        all(stride * each.element_kind.bytes % least == 0 for stride in sorted(each.stride_elements)[1:])
        for each in matrices
    )


def piece_bytes(program: tile.ProgramOp, axes: CascadeAxes, load: tile.LoadOp, wanted: Wanted, target: Target) -> int:
    """Of the pieces in which threads copy what a load brings; 0 where they cannot.

    Of arrays that begin at no multiple of 16 bytes, what else they do is what the tensor's type promises, if that is
    less."""
    found = map_dimensions(load, axes) if threads_may_copy(program, axes, target) else None
    if found is None or needed_inner(program, load, target) not in ("", inner_axis(load)):
        return 0
    tensor, shifts = tensor_type(load.tensor), [index_offset(index) for index in load.indices]
    moved = {axis for axis, shift in zip(tensor.axis_names, shifts, strict=True) if shift}
    inner = inner_axis(load)
    if min(shifts) < 0 or moved & {axes.streamed, *axes.batch} or inner in program.run_time:
        return 0
    if any(blocks_of(axis) is not None for axis in tensor.axis_names):
        return 0
    width = tensor.element_kind.bytes
    apart = [each.stride * width for each in (found.outer, *found.further)]
    if min(apart) < 1 or max(*apart, apart[0] * _ROWS_MOST) >= _OFFSET_LIMIT:
        return 0
    begins = tensor.refinement.alignment_bytes
    if parameter_name(program, load.tensor) in wanted.misaligned and begins >= DEFAULT_ALIGNMENT_BYTES:
        begins = width
    common = math.gcd(begins, shifts[tensor.axis_names.index(inner)] * width, *apart)
    pieces = [size for size in target.limits("cp_async.piece_bytes") if common % size == 0 and size % width == 0]
    return max(pieces, default=0)


def copying_cycles(decisions: CascadeDecisions, target: Target) -> float:
    """What copies by threads take of one slice of one tile, as if nothing else were to be done; 0 without them.

    An instruction of a warp for every 32 pieces; but where the contracted axis is contiguous, each row of 128 bytes
    lies in lines of its own, which then count (4096 cubed on an H200: as long in pieces of 8 bytes as in pieces of 4).
    """
    asked = 0
    for slot in by_threads(decisions.slots):
        along = slot.inner == decisions.streamed
        asked += slot.slot_bytes // (SPAN_BYTES if along else _WARP_THREADS * slot.piece_bytes)
    return 1000 * asked / target.limit("device.cp_async_warp_instructions_per_kilocycle") if asked else 0.0


def piece_words(slot: SlotDecision) -> str:
    """One line for the report."""
    return f"{slot.buffer} has no tensor map: threads copy it in pieces of {slot.piece_bytes} bytes"


def by_threads(slots: Iterable[SlotDecision]) -> list[SlotDecision]:
    """Those that threads fill."""
    return [slot for slot in slots if slot.piece_bytes]
