"""Whether several CTAs share the contracted axis of one tile, and how many.

A product of few tiles leaves multiprocessors idle, or each with so little in flight that memory waits for them; split
along the contracted axis, a tile is computed by a cluster whose CTAs add up what each has through shared memory
(`ac.cluster.reduce`). What that costs is one exchange of the accumulators for each tile, and room for them.

Not handled: splits across clusters, products of several accumulators, of rows in groups.
Checked by: tests/synth/test_thin_product.py, tests/lower/test_split_product.py,
and by `contract` on the lowered kernel.
"""

from __future__ import annotations

from tilewright.base.error import TilewrightError
from tilewright.synth.tile_shape import TileShape
from tilewright.targets import Target

_PAIR = 2
"""CTAs that need room for one part each, since each keeps its own in registers."""
_FRAGMENT_COLUMNS = 8
"""Columns that a thread's four registers of the accumulator span: parts are made of whole ones."""


def splits_of(shape: TileShape, target: Target) -> tuple[int, ...]:
    """How many CTAs may share a tile of that shape, 1 first."""
    most = target.limit("cluster.ctas_max_portable")
    wide = (count for count in (2, 4, 8) if count <= most and shape.columns % (_FRAGMENT_COLUMNS * count) == 0)
    return (1, *wide)


def require_split(shape: TileShape, cluster: tuple[int, int], plain: bool, target: Target) -> None:
    """Raises TilewrightError where the CTAs of the shape's split cannot share a tile. plain: one product of two arrays,
    of rows in no groups."""
    split = shape.split
    if split == 1:
        return
    offered = splits_of(shape, target)
    if split not in offered:
        raise TilewrightError(
            f"{split} CTAs cannot share a tile {shape.rows}x{shape.columns}",
            remedy=f"use {', '.join(map(str, offered))}, or a tile whose columns are a multiple of "
            f"{_FRAGMENT_COLUMNS * max(2, split)}",
        )
    if not plain:
        raise TilewrightError(
            f"{split} CTAs cannot share a tile of this program", remedy="leave the split to the compiler"
        )
    if cluster != (1, 1):
        raise TilewrightError(
            f"a cluster {cluster} of CTAs that share loads cannot share the contracted axis too",
            remedy="ask for a cluster or for a split, not for both",
        )


def meeting_bytes(shape: TileShape, target: Target) -> int:
    """Shared memory for the parts of its columns that a CTA gets from those it shares a tile with, and two barriers."""
    if shape.split == 1:
        return 0
    parts = 1 if shape.split == _PAIR else shape.split
    return 4 * shape.rows * shape.columns // shape.split * parts + 2 * target.limit("mbarrier.bytes")
