"""Where do swizzles, operands and lanes stand in shared memory, as linear layouts?

Three maps, all linear over F2 because sizes are powers of two and swizzles are XOR:
`swizzle_layout`: byte of a row and row of a box, as the copy engine writes it, to the offset from an address on the
pattern's period (PTX ISA 5.5.7);
`operand_places`: element (row, column) of a wgmma or tcgen05 operand to its byte offset, in the canonical layout with
the least distances (PTX ISA, wgmma and tcgen05: Canonical layouts; `legal.descriptor.shared_operand`);
`served_lanes`: number of a group of lanes that are served together, and place in the group, to the lane: how a
warp-wide access meets the banks (`legal.bank.access_kind`).

Not handled: operands whose M or N is no power of two (`shared_operand.layout_of` lists their addresses); elements
below 8 bits; groups that are no cosets, of which no target has any. Checked by
tests/legal/descriptor/test_instruction_layout.py.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tilewright.base.error import TilewrightError
from tilewright.base.plan import Swizzle
from tilewright.layout.answer import NotExpressible
from tilewright.layout.linear.maps import LinearLayout
from tilewright.layout.linear.table import linear_from_table
from tilewright.layout.numbers import bit_matrix
from tilewright.legal.bank.access_kind import AccessKind, lane_groups
from tilewright.legal.descriptor.matrix_descriptor import Major
from tilewright.legal.descriptor.shared_operand import CORE_ROWS, OperandDescriptor, layout_of
from tilewright.legal.tensor_map.swizzle_code import period_bytes, row_bytes, swizzled
from tilewright.targets import Target

_CHUNK_BYTES = 16


@lru_cache(maxsize=64)
def swizzle_layout(swizzle: Swizzle, target: Target) -> LinearLayout:
    """Inputs "byte" and "row", as many rows as make the pattern's period; output "offset" in bytes, one to one.

    Raises TilewrightError for no swizzle, which has no rows, and patterns that the target lacks.
    """
    if swizzle == "none":
        raise TilewrightError("without a swizzle bytes stay where they are", remedy="name a pattern, such as 128B")
    width, period = row_bytes(swizzle, target), period_bytes(swizzle, target)
    logical = np.arange(period, dtype=np.int64).reshape(period // width, width).T
    places = swizzled(logical, swizzle, target)
    return _linear(linear_from_table(("byte", "row"), {"offset": places}, {"offset": period}))


@lru_cache(maxsize=256)
def operand_places(
    rows: int, depth: int, element_bytes: int, major: Major, swizzle: Swizzle, target: Target
) -> LinearLayout:
    """Inputs "row" (of M or N) and "depth" (of K), powers of two; output "offset" in bytes from a start on the
    pattern's period. One to one; gaps are bytes of other steps along K. Raises TilewrightError for other sizes, and
    where the target reads no operand so."""
    for name, size in (("rows", rows), ("K", depth)):
        if size < 1 or size & size - 1:
            raise TilewrightError(
                f"an operand of {size} {name} in shared memory is no linear layout: no power of two",
                remedy="legal.layout_of lists the addresses of any operand",
            )
    leading, stride = _least_distances(rows, depth, element_bytes, major, swizzle, target)
    descriptor = OperandDescriptor(0, leading, stride, swizzle)
    places = layout_of(descriptor, major, rows, depth, element_bytes, target)
    return _linear(linear_from_table(("row", "depth"), {"offset": places}))


@lru_cache(maxsize=64)
def served_lanes(kind: AccessKind, target: Target) -> LinearLayout | NotExpressible:
    """Inputs "slot", a place in a group of lanes served together, and "group"; output "lane".

    Raises TilewrightError where the target has no such access, or no document states its groups.
    """
    groups = lane_groups(kind, target)
    lanes = sum(len(each) for each in groups)
    slots = bit_matrix.image(groups[0])
    rows = lanes.bit_length() - 1
    others = bit_matrix.complement_basis(slots, rows)
    found = LinearLayout((("slot", len(slots)), ("group", len(others))), (("lane", rows),), (*slots, *others))
    held = {frozenset(each) for each in groups}
    span = {bit_matrix.apply(slots, each) for each in range(1 << len(slots))}
    made = {
        frozenset(lane ^ bit_matrix.apply(others, each) for lane in span) for each in range(1 << len(others))
    }  # fmt: skip
    if held != made:
        return NotExpressible(f"{target.name}: the groups of lanes of {kind.name} are no cosets of one another")
    return found


def _least_distances(
    rows: int, depth: int, element_bytes: int, major: Major, swizzle: Swizzle, target: Target
) -> tuple[int, int]:
    """Leading and stride distance in bytes, the parts of the operand one right after another."""
    core = CORE_ROWS * _CHUNK_BYTES
    across = _CHUNK_BYTES // element_bytes
    match major, swizzle:
        case "K", "none":
            return core, core * max(1, depth // across)
        case "MN", "none":
            return core * max(1, rows // across), core
        case "K", _:
            return _CHUNK_BYTES, CORE_ROWS * row_bytes(swizzle, target)
        case _:
            width = row_bytes(swizzle, target)
            deep = period_bytes(swizzle, target) // width if swizzle == "128B_atom_32B" else CORE_ROWS
            return width * max(deep, depth), width * deep


def _linear(found: LinearLayout | NotExpressible) -> LinearLayout:
    assert isinstance(found, LinearLayout), "powers of two throughout, and swizzles are XOR"
    return found
