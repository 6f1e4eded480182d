"""Shall an operand that is first copied, because it lies the other way, be turned tile by tile on the way?

Tensor cores read operands of 8 bits with the contracted axis contiguous alone (PTX ISA, wgmma: transposing is for
16-bit elements). One that is contiguous along its other axis is copied to a workspace. Copied point by point, either
the loads or the stores of neighbouring threads lie rows apart, and a whole sector is moved for each element; so warps
turn tiles as an element-by-element program's do (`synth.store.transpose`).

Not handled, and copied point by point: operands that are computed, batches, several operands that are copied, rows of
workspace that are filled up with zeros, addresses and strides of which runs of four bytes are no multiple.
Checked by: tests/lower/test_turned_copy.py.
"""

from __future__ import annotations

import math

from tilewright.ir.decisions import RUN_BYTES, OperandDecision
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import dots, index_offset, parameter_name
from tilewright.ir.tile.types import tensor_type
from tilewright.ir.transpose import TransposeDecision
from tilewright.synth.store.transpose import turned_tiles
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_LEAST_EXTENT = 16
"""Shorter axes fill no sector however they are taken."""


def turned_copy(
    program: tile.ProgramOp,
    copied: tuple[OperandDecision, ...],
    axes: tuple[str, str],
    tile_extent: int,
    target: Target,
    wanted: Wanted,
) -> TransposeDecision | None:
    """How the one operand that is copied is turned on the way; None where it is not one, or lies as its copy does.

    axes: the operand's own and the contracted one; tile_extent: of the tiles of the product along its own.
    """
    if len(copied) != 1 or copied[0].major != "K" or not target.supports("stmatrix"):
        return None
    (operand,), (outer, contracted) = copied, axes
    (dot, *others) = dots(program)
    value = dot.left if operand.side == "left" else dot.right
    source = value.owner.operand if isinstance(value.owner, tile.TransposeOp) else value
    if others or not isinstance(source.owner, tile.LoadOp) or any(index_offset(at) for at in source.owner.indices):
        return None
    tensor = tensor_type(source.owner.tensor)
    strides = dict(zip(tensor.axis_names, tensor.stride_elements, strict=True))
    extents = program.extents
    size = tensor.element_kind.bytes
    element = operand.map.tensor_map().element.bytes
    if set(strides) != {outer, contracted} or strides[outer] != 1 or strides[contracted] == 1 or element != size:
        return None
    if extents[contracted] * size % RUN_BYTES or min(extents[outer], extents[contracted]) < _LEAST_EXTENT:
        return None
    loose = parameter_name(program, source.owner.tensor) in wanted.misaligned
    alignment = size if loose else tensor.refinement.alignment_bytes
    # A tile's extent divides what smaller instances of the program leave out.
    loaded = math.gcd(RUN_BYTES // size, extents[outer], tile_extent, strides[contracted], max(1, alignment // size))
    stored = math.gcd(RUN_BYTES // size, extents[contracted], operand.map.strides_bytes[0] // size)
    return turned_tiles((1, 0), (stored, loaded), (size,), (size, size), target)
