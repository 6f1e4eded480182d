"""What does an axis name say? `K` names an axis; `K/128` names the blocks of 128 consecutive elements of K.

Theory: an axis of blocks is derived: it has ceil(extent / 128) blocks, of which the last may be partial, and element k
lies in block k // 128. So a tile over blocks stands for one over the elements, in which each number is repeated for the
elements of its block: broadcasting matches `K/128` with `K` as it matches equal names.

Not handled: blocks of blocks. Imports no xDSL, so that declaring a kernel stays cheap.
Checked by tests/ir/tile/test_axes.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from tilewright.base.size import Extent, Range, Size, ceil_div, settled

_BLOCKS = re.compile(r"(?P<base>[^/]+)/(?P<size>[1-9][0-9]*)")
MOST_BLOCK_ELEMENTS = 2**31


@lru_cache(maxsize=1024)
def blocks_of(axis: str) -> tuple[str, int] | None:
    """(axis, elements of a block) where `axis` names blocks of another, else None."""
    found = _BLOCKS.fullmatch(axis)
    return (found["base"], int(found["size"])) if found else None


def block_axis(base: str, size: int) -> str:
    """The name of the axis of blocks of `size` elements of `base`."""
    return f"{base}/{size}"


def base_axis(axis: str) -> str:
    """The axis whose elements `axis` counts, one by one or in blocks."""
    blocks = blocks_of(axis)
    return blocks[0] if blocks else axis


def block_size(axis: str) -> int:
    """Elements of its base axis that one step along `axis` passes: 1 for an axis of elements."""
    blocks = blocks_of(axis)
    return blocks[1] if blocks else 1


def is_axis_name(name: object) -> bool:
    """Whether `name` may name an axis: an identifier, or one with the size of its blocks behind a slash."""
    if not isinstance(name, str):
        return False
    blocks = blocks_of(name)
    if blocks is None:
        return name.isidentifier()
    return blocks[0].isidentifier() and 2 <= blocks[1] < MOST_BLOCK_ELEMENTS


def derived_extent(axis: str, extents: Mapping[str, int]) -> int:
    """Blocks along an axis of blocks, or elements along a plain one. Raises KeyError where its base has no extent."""
    return -(-extents[base_axis(axis)] // block_size(axis))


def axis_size(axis: str, extent: int, ranges: Mapping[str, Range]) -> Size:
    """Elements along an axis, or blocks: a number, or what the launch says. extent: the number, where it is known;
    ranges: of axes that have no known extent."""
    base, size = base_axis(axis), block_size(axis)
    if base not in ranges:
        return extent
    return Extent(axis) if base == axis else settled(ceil_div(Extent(base), size), ranges)


def base_extents(extents: Mapping[str, int]) -> dict[str, int]:
    """The extents of some axes and, where only the numbers of their blocks are given, of what these are blocks of: the
    most elements that have as many."""
    found = dict(extents)
    for axis, blocks in extents.items():
        base = base_axis(axis)
        if base not in extents:
            found[base] = min(found.get(base, MOST_BLOCK_ELEMENTS), blocks * block_size(axis))
    return found


def covers(axes: Iterable[str], axis: str) -> bool:
    """Whether a tile over `axes` has a number for every element of `axis`, itself or through the axis of its blocks."""
    listed = tuple(axes)
    return axis in listed or (blocks_of(axis) is not None and base_axis(axis) in listed)
