"""Which operands that no tensor map describes can threads copy into the ring, in pieces of how many bytes?

A tensor map wants rows that begin at multiples of 16 bytes. Where they begin at multiples of 4 or 8, a warpgroup's
threads can bring them with `cp.async` in pieces of as many bytes (`ir.ac.async_copy`), and nothing is written twice.
Otherwise, and where it is quicker (`synth.operand.unmapped_operands`), a launch before copies the operand into a
workspace that a map describes.

Not handled: rows that begin at odd multiples of 2 bytes, which cp.async cannot take; operands displaced along the
contracted axis or to before the array's beginning; groups of rows; clusters that share what they load. All of those are
copied first. Checked by: tests/synth/operand/test_async_copy.py.
"""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from tilewright.base.plan import Swizzle
from tilewright.ir.decisions import MapDecision, OperandDecision, PipelineDecisions
from tilewright.ir.refinement import DEFAULT_ALIGNMENT_BYTES
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import index_offset, parameter_name
from tilewright.ir.tile.types import tensor_type
from tilewright.targets import Target

_SWIZZLE: Swizzle = "128B"
_WARP_THREADS = 32
_ROW_BYTES = 128
_OFFSET_LIMIT = 1 << 31
"""Distances inside a box are immediates of instructions, and factors of 32-bit multiplications."""


def operand_in_pieces(
    program: tile.ProgramOp,
    side: str,
    load: tile.LoadOp,
    contracted: str,
    box_of: dict[str, tuple[int, int]],
    misaligned: tuple[str, ...],
    target: Target,
) -> OperandDecision | None:
    """The loaded operand as threads copy it, or None where they cannot.

    box_of: the box (of the contiguous axis and of the other one) for each major that the tensor core takes. misaligned:
    parameters that begin at no multiple of 16 bytes; of what else they do is what the tensor's type promises, if that
    is less.
    """
    tensor = tensor_type(load.tensor)
    width = tensor.element_kind.bytes
    extents = dict(zip(tensor.axis_names, tensor.extents, strict=True))
    strides = dict(zip(tensor.axis_names, tensor.stride_elements, strict=True))
    shifts = dict(zip(tensor.axis_names, map(index_offset, load.indices), strict=True))
    outer_axes = [axis for axis in tensor.axis_names[-2:] if axis != contracted]
    if contracted not in tensor.axis_names[-2:] or len(outer_axes) != 1 or shifts[contracted]:
        return None
    (outer,) = outer_axes
    if min(shifts.values()) < 0 or any(shifts[axis] for axis in tensor.axis_names[:-2]):
        return None
    majors = {"K": (contracted, outer), "MN": (outer, contracted)}
    for major, box in box_of.items():
        inner, other = majors[major]
        apart = [strides[axis] * width for axis in tensor.axis_names if axis != inner]
        if strides[inner] != 1 or min(apart) < 1 or max(*apart, strides[other] * width * max(box)) >= _OFFSET_LIMIT:
            continue
        begins, name = tensor.refinement.alignment_bytes, parameter_name(program, load.tensor)
        if name in misaligned and begins >= DEFAULT_ALIGNMENT_BYTES:
            begins = width
        common = math.gcd(begins, shifts[inner] * width, *apart)
        pieces = [size for size in target.limits("cp_async.piece_bytes") if common % size == 0 and size % width == 0]
        if not pieces:
            continue
        dims, pitch = (extents[inner], extents[other]), strides[other] * width
        map_ = MapDecision(tensor.element_kind.value, dims, (pitch,), box, _SWIZZLE, "none")
        return OperandDecision(side, name, 0, major, map_, shifts[outer], max(pieces))
    return None


def source_of(value: SSAValue) -> tile.LoadOp | None:
    """The load behind an operand that is one, transposed or not."""
    source = value.owner.operand if isinstance(value.owner, tile.TransposeOp) else value
    return source.owner if isinstance(source.owner, tile.LoadOp) else None


def copying_cycles(decisions: PipelineDecisions, target: Target) -> float:
    """What copies by threads take of one slice of one tile, as if nothing else were to be done; 0 without them.

    An instruction of a warp for every 32 pieces; but where the contracted axis is contiguous, each row of 128 bytes
    lies in lines of its own, which then count (4096 cubed on an H200: as long in pieces of 8 bytes as in pieces of 4).
    """
    asked = 0
    for operand, plan in zip(_operands(decisions), decisions.async_plans, strict=False):
        if operand.piece_bytes:
            asked += plan.stage_bytes // (_ROW_BYTES if operand.major == "K" else _WARP_THREADS * operand.piece_bytes)
    return 1000 * asked / target.limit("device.cp_async_warp_instructions_per_kilocycle") if asked else 0.0


def _operands(decisions: PipelineDecisions) -> tuple[OperandDecision, ...]:
    return (decisions.a, decisions.b)


def copied_bytes(decisions: PipelineDecisions) -> int:
    """Bytes of operands that a launch before writes into workspaces."""
    sizes = [each.map for each in _operands(decisions) if each.materialized]
    return sum(math.prod(map_.dims) * map_.tensor_map().element.bytes for map_ in sizes)
