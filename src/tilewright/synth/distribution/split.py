"""Whether several CTAs share the contracted axis of one tile, and how many.

A product of few tiles leaves multiprocessors idle, or each with so little in flight that memory waits for them; split
along the contracted axis, a tile is computed by a cluster whose CTAs add up what each has through shared memory
(`ac.cluster.reduce`). What that costs is one exchange of the accumulators for each tile, and room for them. Parts are
whole fragments of columns: of more CTAs than a tile has parts, some store nothing.

Clusters of more than eight CTAs are not portable: a device may have no multiprocessors that can hold one. How many it
holds at a time is a fact of the target.

How many clusters share it too, as teams, is chosen by `long_sum`; what they may share is said here.

Not handled: products of several accumulators, of rows in groups.
Checked by: tests/synth/tile/test_thin_product.py, tests/lower/distribution/test_split_product.py,
and by `contract` on the lowered kernel.
"""

from __future__ import annotations

from tilewright.base.error import TilewrightError
from tilewright.ir.ac.split import contributions, sum_parts
from tilewright.synth.tile.shape import TileShape
from tilewright.targets import Target

SPLITS = (1, 2, 4, 8, 16)
"""CTAs that may share a tile: powers of two, of which clusters are made."""


def splits_of(target: Target) -> tuple[int, ...]:
    """How many CTAs may share a tile, 1 first."""
    return tuple(count for count in SPLITS if count <= target.limit("cluster.ctas_max"))


def require_split(shape: TileShape, cluster: tuple[int, int], plain: bool, target: Target) -> None:
    """Raises TilewrightError where the CTAs of the shape's split cannot share a tile. plain: one product of two arrays,
    of rows in no groups."""
    split = shape.split
    if split == 1:
        return
    offered = splits_of(target)
    if split not in offered:
        raise TilewrightError(
            f"{split} CTAs cannot share a tile {shape.rows}x{shape.columns}",
            remedy=f"use {', '.join(map(str, offered))}",
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


MOST_TEAMS = 8
"""Clusters that may share a tile: the finisher adds what each of the others has."""


def require_teams(shape: TileShape, cluster: tuple[int, int], plain: bool) -> None:
    """Raises TilewrightError where clusters cannot share a tile through memory. plain: one unscaled product of two
    arrays, not taken in turn, of one matrix and of rows in no groups."""
    if shape.teams == 1:
        return
    if not 1 < shape.teams <= MOST_TEAMS:
        raise TilewrightError(f"split-K over {shape.teams} clusters is not possible", remedy=f"use 1 to {MOST_TEAMS}")
    if not plain or cluster != (1, 1):
        raise TilewrightError(
            f"this program takes no split-K over {shape.teams} clusters",
            remedy="leave `teams` to the compiler, or leave out the cluster and ping-pong",
        )


def clusters_at_once(ctas: int, target: Target) -> int:
    """How many clusters of so many CTAs, each with a multiprocessor of its own, run at a time."""
    multiprocessors = target.limit("device.multiprocessors")
    return multiprocessors if ctas == 1 else min(multiprocessors // ctas, target.limit(f"device.clusters_of_{ctas}"))


def meeting_bytes(shape: TileShape, target: Target) -> int:
    """Shared memory for the parts of its columns that a CTA gets from those it shares a tile with, and two barriers."""
    if shape.split == 1:
        return 0
    parts = sum_parts(shape.columns, shape.split)
    part_bytes = 4 * shape.rows * shape.columns // parts
    return part_bytes * contributions(shape.split, parts) + 2 * target.limit("mbarrier.bytes")
