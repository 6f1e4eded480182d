"""Tiled views by enumeration: where every tile begins, and which bytes it lands."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tilewright.layout.view.tiled_view import TiledView

FILL = -1
"""Stands in a sequence of addresses for a byte that no address serves: an element beyond its dimension's extent."""


def tile_starts(view: TiledView) -> Iterator[tuple[int, ...]]:
    """The first index of every tile."""
    yield from product(*(range(0, dimension.extent, dimension.step) for dimension in view.dimensions))


def landing(view: TiledView, start: tuple[int, ...]) -> NDArray[np.int64]:
    """Byte addresses of the tile that begins at index `start`, in landing order, FILL beyond an extent."""
    # Boxes first, then pieces, each with dimension 0 fastest.
    loops = [(d, d.box, 1) for d in view.dimensions] + [(d, d.pieces, d.box) for d in view.dimensions]
    axes = [*range(view.rank), *range(view.rank)]
    indices: list[NDArray[np.int64]] = [np.array([first], dtype=np.int64) for first in start]
    count = 1
    for axis, (_, size, step) in zip(axes, loops, strict=True):
        moved = np.arange(size, dtype=np.int64) * step
        indices = [
            (moved[:, None] + index[None, :]).reshape(-1) if other == axis else np.tile(index, size)
            for other, index in enumerate(indices)
        ]
        count *= size
    found = np.full(count, view.offset_bytes, dtype=np.int64)
    inside = np.full(count, True)
    for dimension, index in zip(view.dimensions, indices, strict=True):
        found += index * dimension.stride_bytes
        inside &= index < dimension.extent
    lanes = np.arange(view.element_bytes, dtype=np.int64)
    return np.where(inside[:, None], found[:, None] + lanes[None, :], FILL).reshape(-1)
