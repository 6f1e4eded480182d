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
from tilewright.synth.operand.operands import slice_depth
from tilewright.synth.tile.wanted import Wanted

_BYTE = 1


def level_depth(element_bytes: int, extent: int, wanted: Wanted) -> int:
    """Elements of the contracted axis whose sum is added to a total: a row of shared memory, or what a wish says; 0
    where the tensor core keeps the whole sum. extent: of the axis."""
    if wanted.accumulation == "fast" or (wanted.accumulation is None and element_bytes > _BYTE):
        return 0
    depth = wanted.depth or slice_depth(element_bytes)
    # One slot is no longer in two levels than in one.
    return depth if math.ceil(extent / depth) > 1 else 0


def require_promotable(promoted: int, wanted: Wanted) -> None:
    """Raises TilewrightError for a wish that no product in two levels grants. promoted: from `level_depth`."""
    if promoted and wanted.computed == "registers":
        raise TilewrightError(
            "an operand computed in registers is not summed in two levels",
            remedy="ask for accumulation='fast', or for computed='workspace'",
        )
