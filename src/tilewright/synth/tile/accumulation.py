"""Where are the sums of a product kept: in the tensor core alone, or in two levels?

Tensor cores of compute capability 9.0 add products of 8-bit numbers in fewer bits than float32 has, so that the error
of a long sum grows with its length. In two levels each slot's sum is the tensor core's, and the threads add it to a
total in float32 (`lower.two_levels`): the error is that of a sum as long as a slot. That takes registers
for two accumulators, one addition for each number of a slot, and some of the speed (`python -m bench fp8` has both).

What is written, `acc += tw.dot(...)`, is a sum in float32; so operands of 8 bits are summed in two levels unless "fast"
is asked for. Operands of 16 bits lose nothing in the tensor core.

Not handled: slots that are promoted together. Checked by: tests/synth/tile/test_accumulation.py.
"""

from __future__ import annotations

import math

from tilewright.base.error import TilewrightError
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.types import value_type
from tilewright.synth.operand.operands import slice_depth
from tilewright.synth.operand.scaled_product import scaled_depth
from tilewright.synth.tile.wanted import Wanted

_BYTE = 1


def promoted_depth(program: tile.ProgramOp, dot: tile.DotOp, wanted: Wanted) -> int:
    """Elements of the contracted axis whose sum is promoted to a total: of a scaled product those that share scales,
    else a row of shared memory; 0 where the tensor core keeps the whole sum.

    Raises TilewrightError at the author's line for scales of blocks that no slot holds, and for wishes that exclude
    one another.
    """
    scaled = scaled_depth(dot)
    element_bytes = value_type(dot.left).element_kind.bytes
    if scaled:
        if wanted.accumulation == "fast":
            raise TilewrightError(
                "a product that is scaled inside its loop cannot be summed by the tensor core alone",
                remedy="leave out accumulation='fast'",
            )
        return scaled
    return level_depth(element_bytes, program.extents[dot.contracted], wanted)


def level_depth(element_bytes: int, extent: int, wanted: Wanted) -> int:
    """The same of a product that nothing scales, which contracts so many elements."""
    if wanted.accumulation == "fast" or (wanted.accumulation is None and element_bytes > _BYTE):
        return 0
    depth = wanted.depth or slice_depth(element_bytes)
    # One slot is no longer in two levels than in one.
    return depth if math.ceil(extent / depth) > 1 else 0


def require_promotable(promoted: int, wanted: Wanted) -> None:
    """Raises TilewrightError for a wish that no product in two levels grants. promoted: from `promoted_depth`."""
    if promoted and wanted.computed == "registers":
        raise TilewrightError(
            "an operand computed in registers is not summed in two levels",
            remedy="ask for accumulation='fast', or for computed='workspace'",
        )
