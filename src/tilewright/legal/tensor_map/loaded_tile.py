"""Where in shared memory does the copy engine put each element of one box, or of several that make up a tile?

A box is laid down row after row, dimension 0 innermost; rows of a swizzled box stand a whole span apart, and the XOR of
the swizzle acts on the absolute shared-memory address (PTX ISA 5.5; measured on an H200). Element strides divide the
box, rounded up; that of dimension 0 is ignored. Boxes of one tile stand at destinations of their own and count as one
more dimension, after the box's own.

An im2col map's box has two dimensions, channels and pixels. An interleaved box is made of slices of 16 or 32 bytes,
dense, which dimension 0 counts; the last but one dimension takes one slice; the elements inside a slice are yet another
dimension, the last. Packed values that are padded to 16 bytes for each sixteen count as one byte each.

The phase: the pattern begins at absolute multiples of its period, never at the destination. So a descriptor of what was
loaded has base offset 0 at every destination, and a reader that counts lines from the destination is right only where
the destination is a multiple of the period.

Not handled: im2col-wide maps, packed values of 8 bytes for each sixteen (they raise). Checked by
tests/legal/descriptor/test_operand_feed.py against bytes that an H200 loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import cast

import numpy as np
from numpy.typing import NDArray

from tilewright.base.error import TilewrightError
from tilewright.base.plan import Swizzle
from tilewright.legal.tensor_map.enumerations import SWIZZLES
from tilewright.legal.tensor_map.im2col_map import Im2colMap
from tilewright.legal.tensor_map.swizzle_code import row_bytes, swizzled
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.targets import Target

_SLICE_BYTES = (0, 16, 32)
"""By the driver's number of the interleave."""


@dataclass(frozen=True, slots=True)
class Tile:
    """Boxes in shared memory as one array: dimensions innermost first, then the boxes, then the inside of a slice.

    counts: elements of each dimension, and boxes; distances_bytes: between neighbours of each, before the swizzle, None
    for boxes at irregular places; boxes: the number of their dimension; box_bytes: footprint of one box; packed: the
    elements are padded values of 4 or 6 bits.
    """

    counts: tuple[int, ...]
    distances_bytes: tuple[int | None, ...]
    boxes: int
    destinations: tuple[int, ...]
    swizzle: Swizzle
    element_bytes: int
    box_bytes: int
    packed: bool

    @property
    def inner_bytes(self) -> int:
        """Bytes that stand next to each other in shared memory: a row of the box, or a slice."""
        last = len(self.counts) - 1
        return self.counts[last if last > self.boxes else 0] * self.element_bytes


def tile_of(map: TensorMap | Im2colMap, target: Target, destinations: tuple[int, ...]) -> Tile:
    """The tile that loads of `map` to these shared addresses make. Raises TilewrightError for maps not judged here."""
    fields, kind = map.fields, map.data_type
    swizzle_number, interleave = cast("int", fields.swizzle), cast("int", fields.interleave)
    if not 0 <= interleave < len(_SLICE_BYTES) or kind is None or (kind.is_packed and kind.shared_bits != 8):
        raise TilewrightError(f"a map of {map.dtype} with interleave {map.interleave} is not judged")
    if not 0 <= swizzle_number < len(target.limits("swizzle.row_bytes")):
        raise TilewrightError(f"{target.name} has no swizzle {map.swizzle}")
    swizzle, element_bytes, slice_bytes = SWIZZLES[swizzle_number], kind.shared_bits // 8, _SLICE_BYTES[interleave]
    if isinstance(map, Im2colMap):
        if slice_bytes:
            raise TilewrightError("an interleaved im2col map is not judged")
        counts = [map.channels_per_pixel, map.pixels_per_column]
    else:
        steps = map.steps if slice_bytes else (1, *map.steps[1:])
        if map.rank < (3 if slice_bytes else 1) or min(steps) < 1:
            raise TilewrightError(f"no map with interleave {map.interleave} has rank {map.rank}, strides {map.steps}")
        counts = [-(-extent // step) for extent, step in zip(map.box, steps, strict=True)]
        if slice_bytes:
            counts[map.rank - 2] = 1
    if min(counts) < 1 or not destinations:
        raise TilewrightError(f"boxes of {counts} elements, {len(destinations)} of them: there is nothing to judge")
    unit_bytes = slice_bytes or element_bytes
    pitch = counts[0] * unit_bytes
    if swizzle != "none" and not slice_bytes:
        span = row_bytes(swizzle, target)
        if pitch > span:
            raise TilewrightError(f"an inner box of {pitch} bytes is wider than the span of swizzle {swizzle}, {span}")
        pitch = span
    distances: list[int | None] = [unit_bytes]
    for count in counts[1:]:
        distances.append(pitch)
        pitch *= count
    apart = {later - former for former, later in pairwise(destinations)}
    distances.append(apart.pop() if len(apart) == 1 else None if apart else pitch)
    boxes = len(counts)
    counts.append(len(destinations))
    if slice_bytes:
        counts.append(slice_bytes // element_bytes)
        distances.append(element_bytes)
    return Tile(
        tuple(counts), tuple(distances), boxes, destinations, swizzle, element_bytes, pitch, kind.is_packed
    )  # fmt: skip


def check_dims(tile: Tile, row_dims: tuple[int, ...], depth_dims: tuple[int, ...]) -> None:
    """Raises TilewrightError where the dimensions of a matrix's rows and depth do not name each of the tile's once."""
    named = sorted((*row_dims, *depth_dims))
    missing = [dim for dim in range(len(tile.counts)) if dim not in named and tile.counts[dim] > 1]
    if missing or len(set(named)) != len(named) or not all(0 <= dim < len(tile.counts) for dim in named):
        raise TilewrightError(
            f"rows are dimensions {row_dims} and K {depth_dims}: each of 0 to {len(tile.counts) - 1} belongs to one of "
            f"them (dimension {tile.boxes} counts the boxes)"
        )


def straight_addresses(
    tile: Tile, row: NDArray[np.int64], k: NDArray[np.int64], row_dims: tuple[int, ...], depth_dims: tuple[int, ...]
) -> NDArray[np.int64]:
    """Absolute addresses, not yet swizzled, of elements (row, k). [broadcast]

    row_dims, depth_dims: the dimensions that make up the rows and the depth, innermost first.
    """
    places = _split(tile, row, row_dims) | _split(tile, k, depth_dims)
    boxed = tile.boxes in places
    total = np.asarray(tile.destinations, np.int64)[places[tile.boxes]] if boxed else tile.destinations[0]
    for dim, index in places.items():
        distance = tile.distances_bytes[dim]
        if dim != tile.boxes and distance is not None:
            total = total + index * distance
    return np.asarray(total, np.int64)


def loaded_layout(
    map: TensorMap | Im2colMap,
    target: Target,
    destinations: tuple[int, ...],
    row_dims: tuple[int, ...],
    depth_dims: tuple[int, ...],
) -> NDArray[np.int64]:
    """Absolute shared byte address of each element of the boxes, as a matrix. [rows, depth]

    Raises TilewrightError for maps that are not judged here, and where the dimensions are not each named once.
    """
    tile = tile_of(map, target, destinations)
    check_dims(tile, row_dims, depth_dims)
    rows, depth = (prod(tile.counts[dim] for dim in dims) for dims in (row_dims, depth_dims))
    row, k = np.arange(rows, dtype=np.int64)[:, None], np.arange(depth, dtype=np.int64)[None, :]
    straight = np.broadcast_to(straight_addresses(tile, row, k, row_dims, depth_dims), (rows, depth))
    return swizzled(straight, tile.swizzle, target)


def _split(tile: Tile, index: NDArray[np.int64], dims: tuple[int, ...]) -> dict[int, NDArray[np.int64]]:
    found: dict[int, NDArray[np.int64]] = {}
    for dim in dims:
        found[dim] = index % tile.counts[dim]
        index = index // tile.counts[dim]
    return found
