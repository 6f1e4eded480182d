"""How deep are the slices of products over groups whose weights device memory brings no faster?

A slice brings of each row of weights one span of the swizzle, 128 bytes. Where device memory binds, two of them side by
side are brought sooner: of a row, 256 bytes are asked for together. On an H200 slices of twice the depth took 0.8 to
2.6 % less time for products of few rows (python -m bench grouped --only decoding --only 'down, 512' --only 'Qwen3 235B'
--depth 64 --depth 128), and 21 to 36 % more where the tensor cores or the L2 cache bind, since fewer stages fit and
each is given back later. So deep slices are taken where memory takes clearly longer than the loop, and only there.

Not handled: elements of 8 bits, weights contiguous along the columns, sums in two levels, which all keep one span: they
were not measured. Checked by: tests/synth/distribution/test_grouped.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.synth.cost.model import Rates, slice_cycles
from tilewright.targets import Target

_SPANS = 2
_LEAST_STAGES = 2
_MEASURED_BYTES = 2
"""Of the elements for which this was measured."""
_LEAST_SLICES = 16
"""Deep ones of a sum: so many had the shortest that were measured."""
_LEAST_RATIO = 1.6
"""Of memory's time to the loop's. At 1.25 deep slices took 31 % more time, at 2.07 1 % less, at 3.1 2 % less (as
above)."""


@dataclass(frozen=True, slots=True)
class GroupLoop:
    """tile: rows, columns of all products, and elements of a slice; tiles: to be expected of all groups; depth: of the
    sums; weight_bytes: of the groups that have rows; deep_stages: stages that fit if slices are twice as deep."""

    tile: tuple[int, int, int]
    tiles: float
    depth: int
    element_bytes: int
    weight_bytes: int
    deep_stages: int


def slice_depth(rates: Rates, loop: GroupLoop, target: Target, reasons: list[str]) -> int:
    """Elements of the contracted axis in a slice: those of `loop.tile`, or twice as many."""
    depth = loop.tile[2]
    deep = _SPANS * depth
    if loop.element_bytes != _MEASURED_BYTES or loop.depth < _LEAST_SLICES * deep or loop.deep_stages < _LEAST_STAGES:
        return depth
    if loop.weight_bytes <= target.limit("device.l2_bytes"):
        return depth
    slices = -(-loop.depth // depth)
    longer = max(slice_cycles(rates, loop.tile, loop.element_bytes))
    busy = loop.tiles / rates.multiprocessors * slices * longer
    memory = loop.weight_bytes * target.limit("device.clock_hertz") / target.limit("device.dram_bytes_per_second")
    if memory < _LEAST_RATIO * busy:
        return depth
    reasons.append(
        f"slices of {deep} elements: device memory takes {memory / busy:.1f} times as long for the weights as the loop "
        f"over them, and brings rows of {deep * loop.element_bytes} bytes sooner"
    )
    return deep
