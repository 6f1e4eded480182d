"""Should two consumers share every tile, or take whole tiles in turn?

Sharing a tile, both end it together, and the tensor core waits while both store. In turns, one stores while the other
multiplies, so that a tile's epilogue costs no time but for the CTA's last. Each then needs the accumulators of a whole
tile: `columns` registers a thread where the tile has 128 rows, which leaves room for no more than 208 columns.

Not handled: clusters, several products, a shared contracted axis, groups of rows.
Checked by: tests/synth/test_turns.py.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.base.error import TilewrightError
from tilewright.synth.shared_memory import SharedMemory
from tilewright.synth.tile_shape import TileShape
from tilewright.targets import Target

UNITS = 2
_MOST_ACCUMULATORS = 208
"""Registers of a thread's accumulators where no other consumer helps: the epilogue and the loop need the rest."""
BARRIER_BYTES = 16
"""Of the two barriers of turns."""


def require_turns(shape: TileShape, cluster: tuple[int, int], plain: bool, target: Target) -> None:
    """Raises TilewrightError where consumers cannot take tiles of this shape in turn. plain: one product, unscaled."""
    accumulators = shape.rows * shape.columns // target.limit("warpgroup.threads")
    if shape.consumers != UNITS or accumulators > _MOST_ACCUMULATORS:
        raise TilewrightError(
            f"{shape.consumers} consumers cannot take tiles of {shape.rows}x{shape.columns} in turn",
            remedy=f"use {UNITS} consumers and a tile of at most 128x{_MOST_ACCUMULATORS}",
        )
    if cluster != (1, 1) or shape.split > 1 or not plain:
        raise TilewrightError(
            "consumers take tiles in turn only of a plain product in CTAs of their own",
            remedy="leave out the cluster, the split, or the turns",
        )


def with_turns(memory: SharedMemory, turns: bool, target: Target) -> SharedMemory:
    """Shared memory with the barriers of turns in it. Raises TilewrightError where they do not fit."""
    if not turns:
        return memory
    if memory.bytes + BARRIER_BYTES > target.limit("cta.shared_bytes_max"):
        raise TilewrightError(
            f"{memory.stages} stages leave no room for the barriers of turns", remedy="use fewer stages"
        )
    return replace(memory, bytes=memory.bytes + BARRIER_BYTES)


def unit_shape(shape: TileShape, turns: bool) -> TileShape:
    """A shape of which each consumer's share is what it computes of a tile here: all of it, in turns."""
    return replace(shape, rows=shape.rows * shape.consumers) if turns else shape
