"""Piecewise maps as arrays, by numbers alone, and two that cases are made of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilewright.layout.pieces.piecewise import Piece, Piecewise, affine, unit_rows


def active(layout: Piecewise) -> NDArray[np.bool_]:
    """Where the map is defined: one axis for each coordinate."""
    found = np.zeros(layout.extents, np.bool_)
    for piece in layout.pieces:
        found[tuple(slice(low, high) for low, high in piece.box)] = True
    return found


def values(layout: Piecewise) -> NDArray[np.int64]:
    """All outputs, -1 where there is none: an axis for each coordinate, then one over outputs."""
    found = np.full((*layout.extents, layout.outputs), -1, np.int64)
    for piece in layout.pieces:
        where = tuple(slice(low, high) for low, high in piece.box)
        coordinates = np.stack(np.mgrid[where], axis=-1).astype(np.int64)
        found[where] = coordinates @ np.array(piece.matrix, np.int64).T + np.array(piece.offsets, np.int64)
    return found


def flip(extents: Sequence[int], axis: int) -> Piecewise:
    """Coordinates counted from the far end along one axis."""
    rows = [list(row) for row in unit_rows(len(extents))]
    rows[axis][axis] = -1
    return affine(extents, rows, [extent - 1 if at == axis else 0 for at, extent in enumerate(extents)])


def rotated(extent: int, by: int) -> Piecewise:
    """x to (x + by) modulo the extent, for 0 < by < extent."""
    unit = ((1,),)
    pieces = [Piece(((0, extent - by),), unit, (by,)), Piece(((extent - by, extent),), unit, (by - extent,))]
    return Piecewise((extent,), 1, tuple(pieces))
