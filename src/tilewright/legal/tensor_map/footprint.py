"""How many bytes does one copy move, and how much shared memory does it fill?

The transaction is what the copy adds to its mbarrier: the full box or column, whatever of it is out of bounds. The
footprint is what the destination needs: under a swizzle whose span is wider than the inner row, rows stand a whole span
apart, and the swizzle spreads even the last row over its span. Packed values that are padded in shared memory fill
it padded, and count as they lie in global memory (`machine.copy.box` has the grounds). With interleave a unit is one
slice of 16 or 32 bytes, and of the channel groups one is taken, whatever the box says; what of the last span its slices
leave empty is part of the footprint, since the swizzle may put some of them there. All this is as an H200 does it
(oracle rows of `tma_load`); `machine.copy.box` moves the bytes and agrees.

Not handled: the slices of a multicast. Checked by: tests/legal/tensor_map/test_footprint.py, against the copy engine's
model.
"""

from __future__ import annotations

from math import prod

from tilewright.legal.tensor_map.enumerations import DATA_TYPES, INTERLEAVE_NONE, WIDE_PIXELS
from tilewright.legal.tensor_map.im2col_map import AnyMap, Im2colMap, Im2colWideMap
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.targets import Target

_SLICE_BYTES = (0, 16, 32)


def copy_bytes(map: AnyMap, target: Target) -> tuple[int, int] | None:
    """(footprint, transaction) of one copy through `map`, in bytes.

    None where the map's fields have no meaning together: an unknown enumeration, an extent below 1, rows that are no
    whole number of bytes.
    """
    fields = map.fields
    dtype: int = fields.dtype
    interleave: int = fields.interleave
    swizzle: int = fields.swizzle
    spans = target.limits("tensor_map.swizzle_span_bytes")
    known = 0 <= dtype < len(DATA_TYPES) and 0 <= interleave < len(_SLICE_BYTES) and 0 <= swizzle < len(spans)
    if not known or not 1 <= map.rank <= target.limit("tensor_map.rank_max"):
        return None
    counts = _counts(map, interleave)
    if min(counts) < 1:
        return None
    if interleave != INTERLEAVE_NONE:
        counted_bytes = pitch_bytes = counts[0] * _SLICE_BYTES[interleave]
    else:
        row_bits = counts[0] * DATA_TYPES[dtype].shared_bits
        if row_bits % 8:
            return None
        counted_bytes = counts[0] * DATA_TYPES[dtype].global_bits // 8
        pitch_bytes = max(row_bits // 8, spans[swizzle])
    rows = prod(counts[1:])
    span = max(spans[swizzle], 1)
    return -(-rows * pitch_bytes // span) * span, rows * counted_bytes


def _counts(map: AnyMap, interleave: int) -> list[int]:
    """Units of each dimension that one copy takes; of a column, the channels and the pixels. [0] for no meaning."""
    match map:
        case TensorMap():
            if min(map.steps) < 1:
                return [0]
            steps = map.steps if interleave else (1, *map.steps[1:])
            counts = [-(-extent // step) for extent, step in zip(map.box, steps, strict=True)]
            if interleave and map.rank >= 2:
                counts[map.rank - 2] = min(1, counts[map.rank - 2])
            return counts
        case Im2colMap():
            return [1 if interleave else map.channels_per_pixel, map.pixels_per_column]
        case Im2colWideMap():
            pixels = WIDE_PIXELS if map.mode == "w128" else map.pixels_per_column
            return [1 if interleave else map.channels_per_pixel, pixels]
