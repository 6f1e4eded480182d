"""Which tiled views can one hardware descriptor state, and which of those would one rather have?

A descriptor here is what copy engines take: a base address, up to `rank_max` dimensions of which the innermost is
contiguous, an extent and a stride for each, and a box. Its limits are plain numbers, filled from a target's facts by
whoever asks. `faults` names the limits that a view breaks; `cost` orders the views that break none.

The cost is a sum over dimensions, so that an e-graph can extract by it: copies count by doublings, bytes landed beyond
the tile by themselves, a narrow innermost row by the doublings it lacks, each dimension a little. It ranks, and claims
no time.

Not handled: interleaved layouts, packed elements, element strides (they are strides in a `StridedView`), what the
consumer of the box asks. Checked by tests/solve/egraph/test_saturate.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.layout.view.tiled_view import TiledView

Condition = tuple[str, Any]
"""A limit's name, and whether it is kept: a bool, or a symbol that an e-graph decides."""

COPY_DOUBLING_COST = 300
NARROW_ROW_COST = 200
"""Cost of each halving of the innermost row below `row_bytes_wanted`."""
DIMENSION_COST = 8
OTHER_ELEMENT_COST = 4
"""Cost of reading the elements as of another width than they have."""


@dataclass(frozen=True, slots=True)
class DescriptorLimits:
    """What a descriptor can state. Bytes where so named, elements or counts else.

    inner_multiple_bytes: of the innermost box, and of where it begins along dimension 0; inner_bytes_max: of the
    innermost box, None where unlimited; element_bytes: widths that elements may have; offset_multiple_bytes: of the
    address; row_bytes_wanted: the innermost row below which copies get slow (for the cost only).
    """

    rank_max: int = 5
    extent_max: int = 1 << 32
    stride_multiple_bytes: int = 16
    stride_limit_bytes: int = 1 << 40
    offset_multiple_bytes: int = 16
    box_max: int = 256
    inner_multiple_bytes: int = 16
    inner_bytes_max: int | None = None
    box_bytes_max: int | None = None
    element_bytes: tuple[int, ...] = (1, 2, 4, 8)
    zero_stride: bool = True
    row_bytes_wanted: int = 128


def faults(view: TiledView, limits: DescriptorLimits) -> tuple[str, ...]:
    """The names of the limits that `view` breaks, each with the dimension where it has one; empty for a legal view."""
    found: list[str] = []
    if view.offset_bytes % limits.offset_multiple_bytes:
        found.append("offset")
    if view.element_bytes not in limits.element_bytes:
        found.append("element")
    if not view.rank:
        return (*found, "rank")
    if view.rank > limits.rank_max:
        found.append("rank")
    if limits.box_bytes_max is not None and view.box_bytes > limits.box_bytes_max:
        found.append("box-bytes")
    found += [name for name, kept in inner_conditions(view.dimensions[0], view.element_bytes, limits) if not kept]
    for axis, dimension in enumerate(view.dimensions[1:], 1):
        found += [f"{name}[{axis}]" for name, kept in outer_conditions(dimension, limits) if not kept]
    return tuple(found)


def inner_conditions(fields: tuple[Any, ...], element_bytes: Any, limits: DescriptorLimits) -> tuple[Condition, ...]:
    """What the innermost dimension must fulfil, by name. fields: extent, stride, box, pieces and step, as integers or
    as symbols: plain search and the e-graph read the same conditions.
    """
    (n, s, b, _, g) = fields
    unit = limits.inner_multiple_bytes
    found: list[Condition] = [
        ("contiguous[0]", s == element_bytes),
        ("extent[0]", n <= limits.extent_max),
        ("box[0]", b <= limits.box_max),
        ("row-multiple[0]", b * element_bytes % unit == 0),
        # Every tile begins at 0, or at multiples of the unit.
        ("row-start[0]", (n - g) * (g * element_bytes % unit) == 0),
    ]
    if limits.inner_bytes_max is not None:
        found.append(("row-span[0]", b * element_bytes <= limits.inner_bytes_max))
    return tuple(found)


def outer_conditions(fields: tuple[Any, ...], limits: DescriptorLimits) -> tuple[Condition, ...]:
    """What every other dimension must fulfil, by name; fields as for `inner_conditions`."""
    (n, s, b, _, _) = fields
    return (
        ("extent", n <= limits.extent_max),
        ("box", b <= limits.box_max),
        ("stride-multiple", s % limits.stride_multiple_bytes == 0),
        ("stride-range", s >= (0 if limits.zero_stride else 1)),
        ("stride-range", s < limits.stride_limit_bytes),
    )


def widened(view: TiledView, limits: DescriptorLimits) -> TiledView:
    """`view` with its innermost box rounded up to the multiple it needs, where every tile begins at 0 there and takes
    one piece: what lands beyond the tile is the row's rest or fill. `view` itself where that is not so.
    """
    if not view.rank:
        return view
    inner = view.dimensions[0]
    unit = limits.inner_multiple_bytes
    box_bytes = -(-inner.box * view.element_bytes // unit) * unit
    if inner.step != inner.extent or inner.pieces != 1 or box_bytes % view.element_bytes:
        return view
    wider = inner._replace(box=box_bytes // view.element_bytes)
    return view._replace(dimensions=(wider, *view.dimensions[1:]))


def cost(view: TiledView, limits: DescriptorLimits, *, element_bytes: int, tile_bytes: int) -> int:
    """How dear the legal `view` is, for a tile of `tile_bytes` of elements of `element_bytes`; less is better."""
    row_bytes = view.dimensions[0].box * view.element_bytes
    narrow = max(0, _doublings(limits.row_bytes_wanted) - (row_bytes.bit_length() - 1))
    return (
        COPY_DOUBLING_COST * sum(_doublings(dimension.pieces) for dimension in view.dimensions)
        + view.tile_bytes
        - tile_bytes
        + NARROW_ROW_COST * narrow
        + DIMENSION_COST * view.rank
        + (OTHER_ELEMENT_COST if view.element_bytes != element_bytes else 0)
    )


def _doublings(count: int) -> int:
    """The least d with 2^d >= `count`."""
    return (count - 1).bit_length()
