"""Which bytes does each tile of a strided view hold, and in which order do they land?

A tiled view takes tiles from a strided view. In each dimension a tile begins at a multiple of `step` below the
extent, so that `step` equal to the tile cuts the dimension up, a smaller one lets tiles overlap, and `step` equal to
the extent says that every tile begins at 0. A dimension's tile is `pieces` boxes of `box` elements: one box per
dimension is what one copy moves, so a tile takes as many copies as the product of the pieces. Within a box dimension 0
varies fastest; the boxes of a tile land one after another, the piece of dimension 0 fastest. An element beyond an
extent lands as fill.

The meaning of a tiled view is the family, over all tiles, of that sequence of byte addresses and fills. Two tiled
views with the same meaning are served by the same copies into the same places; two whose sequences agree as multisets
bring the same bytes to other places. Rewriting (`layout.view.rewrite`) keeps one or the other.

Not handled: tiles that begin before 0 (halos of a convolution), tiles that differ in shape.
Checked by tests/layout/test_rewrites.py.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from tilewright.base.error import TilewrightError
from tilewright.layout.view.strided_view import StridedView


class Dimension(NamedTuple):
    """One dimension. extent: elements; stride_bytes; box: elements that one copy moves; pieces: boxes per tile;
    step: tiles begin at its multiples; at most the extent, which stands for tiles that begin at 0 only.
    """

    extent: int
    stride_bytes: int
    box: int
    pieces: int
    step: int

    @property
    def tile(self) -> int:
        """Elements of a tile."""
        return self.box * self.pieces


class TiledView(NamedTuple):
    """Dimensions, innermost first; offset_bytes: address of element (0, ..., 0); element_bytes: width of an element."""

    dimensions: tuple[Dimension, ...]
    offset_bytes: int
    element_bytes: int

    @property
    def rank(self) -> int:
        return len(self.dimensions)

    @property
    def copies(self) -> int:
        """Boxes that one tile takes."""
        return prod(dimension.pieces for dimension in self.dimensions)

    @property
    def box_bytes(self) -> int:
        """Bytes that one box lands, fill included."""
        return prod(dimension.box for dimension in self.dimensions) * self.element_bytes

    @property
    def tile_bytes(self) -> int:
        """Bytes that one tile lands, fill included."""
        return self.box_bytes * self.copies


def tiled(view: StridedView, tile: tuple[int, ...], steps: tuple[int, ...] | None = None) -> TiledView:
    """`view` with tiles of `tile` elements, one box each, that begin at multiples of `steps`: of the tile if None.

    A step of 0 says that tiles begin at 0 only. Raises TilewrightError where lengths differ or a number is too small.
    """
    steps = tile if steps is None else steps
    if not len(tile) == len(steps) == view.rank or any(size < 1 for size in tile) or any(step < 0 for step in steps):
        raise TilewrightError(f"tiles of {tile} at multiples of {steps} do not fit a view of {view.rank} dimensions")
    dimensions = zip(view.extents, view.strides_bytes, tile, steps, strict=True)
    return TiledView(
        tuple(
            Dimension(extent, stride, box, 1, min(step, extent) or extent) for extent, stride, box, step in dimensions
        ),
        view.offset_bytes,
        view.element_bytes,
    )
