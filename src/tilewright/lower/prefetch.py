"""What a kernel asks for before the one before it has ended: slices of an operand of its first tile, into the L2 cache.

How that is text says `lower.ptx.copies.prefetch`. Checked by: tests/lower/ptx/copies/test_prefetch.py,
tests/end_to_end/test_walked_products.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Attribute, SSAValue

from tilewright.base.size import Size
from tilewright.ir.ac import operations as ac
from tilewright.ir.sizes import size_attr
from tilewright.ir.tier import int_array
from tilewright.lower.build import Build


@dataclass(frozen=True, slots=True)
class SliceBoxes:
    """How slices of an operand are asked for. dimension: of the tile's index, 0 for rows; extent: of a tile along it;
    depth: of a slice; outer, along: where a slice's boxes begin along both axes; inner: whether the contracted one is
    the map's innermost."""

    dimension: int
    extent: int
    depth: int
    outer: Sequence[int]
    along: Sequence[int]
    inner: bool


def ask_ahead(
    build: Build,
    map_: SSAValue,
    boxes: SliceBoxes,
    slices: int,
    counts: tuple[Size, Size],
    order: Mapping[str, Attribute],
) -> None:
    """Ask for the first slices of an operand. counts, order: of tiles, as in `ac.tiles`."""
    properties: dict[str, Attribute] = {
        "tiles_m": size_attr(counts[0]),
        "tiles_n": size_attr(counts[1]),
        **order,
        "dimension": IntAttr(boxes.dimension),
        "extent": IntAttr(boxes.extent),
        "slices": IntAttr(slices),
        "slice_depth": IntAttr(boxes.depth),
        "outer_offsets": int_array(list(boxes.outer)),
        "depth_offsets": int_array(list(boxes.along)),
        "depth_inner": IntAttr(int(boxes.inner)),
    }
    build.add(ac.PrefetchOp.create(operands=[map_], properties=properties))
