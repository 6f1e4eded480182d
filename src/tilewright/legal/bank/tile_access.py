"""How do the lanes of a warp walk over a tile whose layout is given, and what layout is a placement?

A tile's layout takes a coordinate, such as (row, column), to an element of shared memory. An access of it takes vectors
of neighbouring elements: along the leaf of stride 1, as many as a lane moves. What is left is the grid of vectors, and
consecutive lanes take consecutive vectors of it:

    layout     in the layout's own order, leftmost mode first (colexicographic)
    rows       along the leaf of stride 1 first, then the others in their order
    columns    along the others first

The first 32 lanes (64 on gfx942 and gfx950) make the first access, the next ones the second, and so on; `ldmatrix` and
`stmatrix` take 16 bytes a lane as everybody else. So a layout with an order says all that `bank_linear` and
`swizzle_choice` need: `access_layout` for the layout as it is, `tile_buffer` for the tile to be placed anew, in rows of
the leaf of stride 1. `placement_layout` leads back.

Not handled: symbolic sizes; tiles without a leaf of stride 1, or with more than one. Checked by
tests/legal/bank/test_tile_access.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from tilewright.base.error import TilewrightError
from tilewright.layout.answer import NotExpressible
from tilewright.layout.layout import Layout
from tilewright.layout.swizzle import Swizzle
from tilewright.legal.bank.access_kind import access_kind
from tilewright.legal.bank.bank_linear import lane_count
from tilewright.legal.bank.placement import Buffer, BufferAccess, Digit, Engine, Placement
from tilewright.targets import Target
from tilewright.targets import target as target_by_name

AccessOrder = Literal["layout", "rows", "columns"]


@dataclass(frozen=True, slots=True)
class TileAccess:
    """An instruction that goes over a whole tile. kind: as `access_kind` calls it; weight: against other accesses."""

    kind: str
    order: AccessOrder = "layout"
    weight: int = 1


def access_layout(layout: Layout, access: TileAccess, element_bytes: int) -> Layout | NotExpressible:
    """The number of a lane, over all accesses in turn, to the element at which its vector begins.

    NotExpressible where the layout's elements are not neighbours as the vectors need. Raises TilewrightError for
    symbolic layouts, unknown kinds and orders, and lanes that move no whole elements.
    """
    vectors = _vectors(layout, access, element_bytes)
    if isinstance(vectors, NotExpressible):
        return vectors
    leaves = [(count, stride) for count, stride, _ in vectors] or [(1, 0)]
    shape, strides = tuple(count for count, _ in leaves), tuple(stride for _, stride in leaves)
    return Layout(shape, strides, layout.offset, layout.swizzle)


def tile_buffer(
    layout: Layout,
    accesses: Sequence[TileAccess],
    element_bytes: int,
    target: Target | str,
    engines: tuple[Engine, ...] = (),
) -> Buffer | NotExpressible:
    """The tile as rows that can be placed anew, with all its accesses.

    The leaf of stride 1 is a row; the others, by their strides, number the rows. Strides of rows, the offset and the
    swizzle are what will be chosen, so that they do not matter. NotExpressible and errors as in `access_layout`.
    """
    facts = target_by_name(target) if isinstance(target, str) else target
    inner = _inner(layout)
    if isinstance(inner, NotExpressible):
        return inner
    flat = layout.constant_flat()
    outer = sorted((stride, place) for place, (count, stride) in enumerate(flat) if place != inner and count > 1)
    if any(stride == 0 for stride, _ in outer):
        return NotExpressible("several coordinates are one element: a leaf has stride 0")
    steps: dict[int, int] = {}
    rows = 1
    for _, place in outer:
        steps[place] = rows
        rows *= flat[place][0]
    found: list[BufferAccess] = []
    for access in accesses:
        vectors = _vectors(layout, access, element_bytes)
        if isinstance(vectors, NotExpressible):
            return vectors
        digits = [
            Digit(count, 0, stride * element_bytes) if place == inner else Digit(count, steps[place])
            for count, stride, place in vectors
        ]
        parted = _parted(digits, lane_count(access.kind, facts))
        if parted is None:
            return NotExpressible(
                f"the tile's {' x '.join(str(digit.count) for digit in digits) or '1'} vectors do not part into "
                f"{lane_count(access.kind, facts)} lanes of {access.kind} and repetitions"
            )
        found.append(BufferAccess(access.kind, *parted, access.weight))
    return Buffer(rows, flat[inner][0] * element_bytes, tuple(found), engines)


def placement_layout(placement: Placement, buffer: Buffer, element_bytes: int) -> Layout | NotExpressible:
    """The placement as a layout of (row, column) in elements.

    NotExpressible for XORs by row, several swizzles at once, swizzles and pitches inside an element, and elements of a
    size that is no power of two under a swizzle.
    """
    if placement.row_xor is not None or len(placement.swizzles) > 1:
        return NotExpressible(f"{placement.name} is no single swizzle of addresses")
    if placement.pitch_bytes % element_bytes or buffer.row_bytes % element_bytes:
        return NotExpressible(f"rows {placement.pitch_bytes} bytes apart are no whole elements of {element_bytes}")
    swizzle: Swizzle | None = None
    for each in placement.swizzles:
        bits = element_bytes.bit_length() - 1
        if element_bytes & (element_bytes - 1) or each.base < bits:
            return NotExpressible(f"{placement.name} moves bytes inside elements of {element_bytes} bytes")
        swizzle = each.scaled(-bits)
    pitch, columns = placement.pitch_bytes // element_bytes, buffer.row_bytes // element_bytes
    if not placement.panel_bytes:
        return Layout((buffer.rows, columns), (pitch, 1), 0, swizzle)
    panel = placement.panel_bytes // element_bytes
    if columns % panel:
        return NotExpressible(f"rows of {columns} elements are no whole panels of {panel}")
    return Layout((buffer.rows, (panel, columns // panel)), (pitch, (1, buffer.rows * pitch)), 0, swizzle)


def _inner(layout: Layout) -> int | NotExpressible:
    """The place, among the leaves, of the one along which elements are neighbours."""
    found = [place for place, (count, stride) in enumerate(layout.constant_flat()) if stride == 1 and count > 1]
    if len(found) != 1:
        return NotExpressible(f"the layout {layout} has {len(found)} leaves of stride 1, not one")
    return found[0]


def _vectors(layout: Layout, access: TileAccess, element_bytes: int) -> list[tuple[int, int, int]] | NotExpressible:
    """Count, stride in elements and place of every leaf of the grid of vectors, in the order of the lanes."""
    if access.order not in get_args(AccessOrder):
        raise TilewrightError(
            f"no order of lanes {access.order!r}", remedy=f"one of {', '.join(get_args(AccessOrder))}"
        )
    width = access_kind(access.kind).lane_bytes
    if element_bytes < 1 or width % element_bytes:
        raise TilewrightError(
            f"a lane of {access.kind} moves {width} bytes, no whole elements of {element_bytes}",
            remedy=f"give elements of as many bytes as divide {width}",
        )
    elements = width // element_bytes
    leaves = [(count, stride, place) for place, (count, stride) in enumerate(layout.constant_flat())]
    inner: int | NotExpressible = -1
    if elements > 1 or access.order != "layout":
        inner = _inner(layout)
        if isinstance(inner, NotExpressible):
            return inner
        if leaves[inner][0] % elements:
            return NotExpressible(f"{leaves[inner][0]} neighbouring elements are no whole vectors of {elements}")
        leaves[inner] = (leaves[inner][0] // elements, elements, inner)
    if access.order != "layout":
        contiguous = leaves.pop(inner)
        leaves.insert(0 if access.order == "rows" else len(leaves), contiguous)
    return [leaf for leaf in leaves if leaf[0] > 1]


def _parted(digits: Sequence[Digit], lanes: int) -> tuple[tuple[Digit, ...], tuple[Digit, ...]] | None:
    """The digits of lanes and those of repetitions, the first varying fastest; None where lanes do not end in one."""
    taken: list[Digit] = []
    loops: list[Digit] = []
    for digit in digits:
        if lanes == 1:
            loops.append(digit)
        elif lanes % digit.count == 0:
            taken.append(digit)
            lanes //= digit.count
        elif digit.count % lanes == 0:
            taken.append(Digit(lanes, digit.rows, digit.column_bytes))
            loops.append(Digit(digit.count // lanes, digit.rows * lanes, digit.column_bytes * lanes))
            lanes = 1
        else:
            return None
    return (tuple(taken), tuple(loops)) if lanes == 1 else None
