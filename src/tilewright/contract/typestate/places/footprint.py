"""Which bytes of a slot does a copy write, and which does a wgmma or tcgen05.mma read?

Both are written as logical ranges, before the swizzle: the exclusive-or permutes 16-byte chunks inside one row of the
swizzle's span, by the same absolute address bits for writer and reader, so that two logical ranges meet exactly if the
physical ones do wherever both sides use one swizzle (PTX ISA 5.5.7). wgmma's canonical layouts are those of PTX ISA
9.7.15.5.1: K-major rows lie `span` bytes apart in groups of eight, `stride` bytes from group to group; MN-major groups
of eight depths lie `stride` bytes apart, each depth one row of `span` bytes, `leading` bytes from one span to the next.

Not handled: elements other than 16 and 8 bits in products, im2col and interleaved maps.
Checked by: tests/contract/typestate/test_typestate_footprint.py against an enumeration of elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from tilewright.contract.typestate.program import SWIZZLE_SPAN_BYTES, Map

Ranges = tuple[tuple[int, int], ...]
"""Half-open byte ranges, sorted, merged, disjoint."""

DEPTH_BYTES = 32
"""Of the contracted axis, that one wgmma or tcgen05.mma takes: 16 elements of 16 bits, 32 of 8."""

_CORE_BYTES = 16
"""Bytes of one row of a core matrix."""


def merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The union, as sorted disjoint ranges."""
    out: list[tuple[int, int]] = []
    for begin, end in sorted(ranges):
        if begin >= end:
            continue
        if out and begin <= out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((begin, end))
    return tuple(out)


def overlap(first: Ranges, second: Ranges) -> Ranges:
    """Bytes in both."""
    out: list[tuple[int, int]] = []
    left, right = 0, 0
    while left < len(first) and right < len(second):
        begin = max(first[left][0], second[right][0])
        end = min(first[left][1], second[right][1])
        if begin < end:
            out.append((begin, end))
        if first[left][1] <= second[right][1]:
            left += 1
        else:
            right += 1
    return tuple(out)


def size(ranges: Ranges) -> int:
    return sum(end - begin for begin, end in ranges)


def box_ranges(tensor_map: Map, offset_bytes: int) -> Ranges:
    """Logical bytes that one box covers at `offset_bytes` of its slot."""
    pitch, row = tensor_map.pitch_bytes, tensor_map.row_bytes
    if pitch == row:
        return ((offset_bytes, offset_bytes + row * tensor_map.footprint_rows),)
    rows = range(tensor_map.footprint_rows)
    return merged((offset_bytes + index * pitch, offset_bytes + index * pitch + row) for index in rows)


def box_extent_bytes(tensor_map: Map) -> int:
    """Bytes of shared memory that one box claims: whole swizzled rows, whatever the box's own width."""
    return tensor_map.pitch_bytes * tensor_map.footprint_rows


@lru_cache(maxsize=256)
def operand_ranges(
    major: str,
    swizzle: str,
    extent: int,
    leading_bytes: int,
    stride_bytes: int,
    starts: tuple[int, ...],
    element_bytes: int = 2,
) -> Ranges:
    """Logical bytes read by products of one operand.

    extent: rows (of A) or columns (of B) of one product; starts: byte offset in the slot of each one's start address.
    Raises ValueError for a major other than "K" and "MN".
    """
    if major not in ("K", "MN"):
        raise ValueError(f"unknown major {major!r}")
    span = SWIZZLE_SPAN_BYTES[swizzle]
    if major == "K":
        one = merged(_k_major(span, extent, leading_bytes, stride_bytes))
    else:
        one = merged(_mn_major(span, extent * element_bytes, DEPTH_BYTES // element_bytes, leading_bytes, stride_bytes))
    return merged((begin + start, end + start) for start in starts for begin, end in one)


def _k_major(span: int, extent: int, leading_bytes: int, stride_bytes: int) -> Iterator[tuple[int, int]]:
    """Rows of 16 elements of two bytes, or 32 of one: one piece of 32 bytes in a swizzled row, or two core-matrix rows
    without."""
    for row in range(extent):
        begin = (row % 8) * (span or _CORE_BYTES) + (row // 8) * stride_bytes
        if span:
            yield begin, begin + DEPTH_BYTES
        else:
            yield begin, begin + _CORE_BYTES
            yield begin + leading_bytes, begin + leading_bytes + _CORE_BYTES


def _mn_major(
    span: int, extent_bytes: int, depths: int, leading_bytes: int, stride_bytes: int
) -> Iterator[tuple[int, int]]:
    """Depths of `extent_bytes` contiguous bytes, in pieces of one span (of one core-matrix row without swizzle)."""
    piece = span or _CORE_BYTES
    between_pieces, between_depths = (leading_bytes, stride_bytes) if span else (stride_bytes, leading_bytes)
    for depth in range(depths):
        base = (depth % 8) * piece + (depth // 8) * between_depths
        left = extent_bytes
        for number in range(-(-extent_bytes // piece)):
            begin = base + number * between_pieces
            yield begin, begin + min(piece, left)
            left -= piece
