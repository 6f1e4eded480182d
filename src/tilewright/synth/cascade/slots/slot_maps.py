"""By which tensor maps do arrays come to the slots of a walk, and what stands in the way of one?

A slot has what a tile needs of an array: rows along one axis, of whole spans of the swizzle along another. A map's
boxes bring it where the array has legal strides, begins at a multiple of 16 bytes and is contiguous along the axis that
the tensor core takes. What is in the way is said in words, as the reason why the array is copied first.

Where threads are to copy what no map brings (`Wanted(unmapped="threads")`), and can (`slot_pieces`), they do.

Checked by: tests/synth/cascade/test_decide.py and test_slot_maps.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilewright.base.error import TilewrightError
from tilewright.ir.ac.remade import WIDENED_ROWS
from tilewright.ir.cascade import SPAN_BYTES, Lookup, SlotDecision
from tilewright.ir.cascade_facts import (
    CascadeAxes,
    MapDimensions,
    axis_of,
    cascade_axes,
    innermost_of_copy,
    is_resident,
    load_number,
    map_dimensions,
    may_end_within,
    products_of,
    refuse_at,
    refuse_map,
)
from tilewright.ir.copy_decisions import BLOCK_ROWS
from tilewright.ir.decisions import RUN_BYTES
from tilewright.ir.placement import dealt, placed, sharing
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, block_size
from tilewright.ir.tile.facts import index_offset, parameter_name
from tilewright.ir.tile.gather import (
    GatherOp,
    Remainder,
    Table,
    Where,
    blocks_along,
    read_dimensions,
    read_tensor,
    remainder_place,
)
from tilewright.ir.tile.product import DOT_ELEMENTS
from tilewright.ir.tile.types import axes_text, read_type, value_type
from tilewright.layout.linear.hierarchy import Hierarchy
from tilewright.legal.tensor_map.legality import check
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.synth.cascade.slots.remade import chunks_of, inner_axis, needed_inner, remaking
from tilewright.synth.cascade.slots.slot_pieces import piece_bytes
from tilewright.synth.cascade.sums.pairs import CLUSTER as PAIR
from tilewright.synth.cascade.sums.tensor_columns import slot_sums
from tilewright.synth.cascade.sums.tensor_factors import factor_slot, loads_of_factors
from tilewright.synth.distribution.cluster_parts import CORE_ROWS
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_STEP_BYTES = 32
"""Of a contracted axis, that one wgmma or tcgen05.mma takes (PTX ISA: Matrix shape)."""
SLICE_SPANS = 1
"""Of the swizzle, that a slot has of an axis that is taken by slices."""


@dataclass(frozen=True, slots=True)
class WalkTile:
    """sliced: whether products take the axes that are not streamed by slices; unit_rows: of a consumer; turns: whether
    consumers take whole tiles alternately; cluster: CTAs along rows and columns that bring each other slots; pair:
    whether two CTAs compute tiles together; issued: products that a role of its own issues, of walks that do more than
    sum; apart: parts of its rows and of its columns that boxes of their own bring; resident: CTAs that fit a
    multiprocessor together."""

    consumers: int
    columns: int
    streamed: int
    sliced: bool = False
    unit_rows: int = BLOCK_ROWS
    turns: bool = False
    cluster: tuple[int, int] = (1, 1)
    pair: bool = False
    issued: tuple[int, ...] = ()
    apart: tuple[int, int] = (1, 1)
    resident: int = 1

    @property
    def rows(self) -> int:
        return self.unit_rows * (1 if self.turns else self.consumers)

    def deal(self, axes: CascadeAxes) -> Hierarchy:
        """What the CTAs of a cluster compute of its tiles."""
        down, across = PAIR if self.pair else self.cluster
        return dealt({"cta": [(down, axes.row, self.rows), (across, axes.column, self.columns)]})


def elements_of_span(brought: Sequence[tile.LoadOp]) -> int:
    """Elements in a span of the swizzle, of the narrowest array that comes to slots."""
    return SPAN_BYTES // _least_bytes(brought)


def elements_of_step(brought: Sequence[tile.LoadOp]) -> int:
    """Elements of a contracted axis that every product takes whole steps of."""
    return _STEP_BYTES // _least_bytes(brought)


def _least_bytes(brought: Sequence[tile.LoadOp]) -> int:
    return min(read_type(load.tensor).element_kind.bytes for load in brought)


def whole_columns(program: tile.ProgramOp, axis: str, target: Target) -> int:
    """Columns of a tile that has all of an axis."""
    across = [
        each.brought
        for each in products_of(program)
        if inner_axis(each.brought) == axis != each.op.axis.data
        and read_type(each.brought.tensor).element_kind.bytes == 1
        and not needed_inner(program, each.brought, target)
    ]
    if slot_sums(program, target):
        unit = target.limit("tcgen05.n_step_128_rows")
    else:
        unit = target.limit("tcgen05.n_step_transposed_bytes" if across else "product.columns_step")
    rows = [each.brought for each in products_of(program) if each.widened and each.op.axis.data != axis]
    if any(axis in map(base_axis, value_type(load.result).axis_names) and inner_axis(load) != axis for load in rows):
        unit = math.lcm(unit, WIDENED_ROWS)
    return -(-program.extents[axis] // unit) * unit


def check_brought(program: tile.ProgramOp, load: tile.LoadOp, wanted: Wanted, target: Target) -> None:
    name, element = parameter_name(program, read_tensor(load.tensor)), read_type(load.tensor).element_kind
    if element not in DOT_ELEMENTS:
        refuse_at(load, f"{name} is a tensor of {element.value}, which no product takes", "cast it in a kernel before")
    inner, needed = inner_axis(load), needed_inner(program, load, target)
    if needed not in ("", inner) and not remaking(program, cascade_axes(program), load, inner, needed, wanted)[0]:
        refuse_map(
            load, name, f"{name} of {8 * element.bytes} bits is contiguous along {inner or 'no axis'}, and the tensor "
            f"core takes it along {needed}", f"give it rows along {needed}, or copy it before", needed,
        )  # fmt: skip
    if name in wanted.misaligned and not _in_pieces(program, cascade_axes(program), load, wanted, target):
        refuse_map(
            load, name, f"{name} begins at no multiple of 16 bytes, so no tensor map brings it", "copy it before",
            needed,
        )  # fmt: skip


def both_come_by_maps(program: tile.ProgramOp, wanted: Wanted, target: Target) -> bool:
    """Whether tensor maps bring both operands of every product as they lie, of walks that sum products."""
    axes, operands = cascade_axes(program), list[tile.LoadOp]()
    for product in products_of(program):
        held = product.held.owner
        if not isinstance(held, tile.LoadOp):
            return False
        operands += [held, product.brought]
    tiniest = tiniest_tile(operands, target)
    return not any(
        parameter_name(program, read_tensor(load.tensor)) in wanted.misaligned
        or needed_inner(program, load, target) not in ("", inner_axis(load))
        or obstacles(program, axes, load, tiniest, target)
        for load in operands
    )


def tiniest_tile(brought: Sequence[tile.LoadOp], target: Target) -> WalkTile:
    return WalkTile(1, target.limit("product.columns_step"), elements_of_span(brought))


def legal_slot(
    program: tile.ProgramOp,
    axes: CascadeAxes,
    load: tile.LoadOp,
    choice: WalkTile,
    count: int,
    wanted: Wanted,
    target: Target,
) -> SlotDecision:
    """The slot of a load; one that threads fill where that is asked for and no map brings it, or of factors."""
    if load in loads_of_factors(program, products_of(program), target):
        size = next(block_size(axis) for axis in read_type(load.tensor).axis_names if base_axis(axis) == axes.streamed)
        along = choice.rows if axes.row in value_type(load.result).axis_names else choice.columns
        return factor_slot(program, axes, load, (along, choice.streamed // size), count, wanted, target)
    slot, broken = _by_map(program, axes, load, choice, count, target)
    name = parameter_name(program, read_tensor(load.tensor))
    unmapped = choice.cluster == (1, 1) and (broken or name in wanted.misaligned)
    pieces = _in_pieces(program, axes, load, wanted, target) if unmapped else 0
    if broken and not pieces:
        said = "; ".join(broken)
        inner = needed_inner(program, load, target) or _inner_of_tile(program, load, wanted)
        inner = inner or innermost_of_copy(load, axes)
        words = f"no tensor map brings {name}: {said}"
        refuse_map(load, name, words, "give it another layout, or copy it before", inner)
    assert slot is not None, "nothing is in the way of a map"
    return replace(slot, piece_bytes=pieces, l2_promotion="none") if pieces else slot


def _inner_of_tile(program: tile.ProgramOp, load: tile.LoadOp, wanted: Wanted) -> str:
    """The contracted axis, where so few columns are asked for that operands of several products, side by side in a
    slot, cannot lie along them; else ""."""
    products = products_of(program)
    if wanted.tile is None or len(products) == 1 or wanted.tile[1] % elements_of_span([load]) == 0:
        return ""
    return next((each.op.axis.data for each in products if each.brought is load), "")


def _in_pieces(program: tile.ProgramOp, axes: CascadeAxes, load: tile.LoadOp, wanted: Wanted, target: Target) -> int:
    """Of the pieces in which threads copy what a load brings, where they are to; else 0."""
    name = parameter_name(program, read_tensor(load.tensor))
    if wanted.unmapped != "threads" or name in wanted.mapped or wanted.cluster not in (None, (1, 1)):
        return 0
    return piece_bytes(program, axes, load, wanted, target)


def obstacles(
    program: tile.ProgramOp, axes: CascadeAxes, load: tile.LoadOp, choice: WalkTile, target: Target
) -> list[str]:
    """Why no tensor map brings a load's tiles into slots, in words; nothing where one does."""
    return _by_map(program, axes, load, choice, 1, target)[1]


def _by_map(
    program: tile.ProgramOp, axes: CascadeAxes, load: tile.LoadOp, choice: WalkTile, count: int, target: Target
) -> tuple[SlotDecision | None, list[str]]:
    """The slot of a load that a tensor map brings, None where its array has no rows for one; and what is in the way."""
    found = map_dimensions(load, axes)
    if found is None:
        named = read_type(load.tensor).axis_names
        spread = axes_text([axis for axis in map(base_axis, named) if axis not in axes.batch])
        if isinstance(load.tensor.owner, GatherOp):
            return None, [f"its rows along {spread} lie one by one where integers say, or along none of these axes"]
        return None, [f"{axes_text(named)} is contiguous along none of {spread}"]
    slot = _slot(program, axes, load, found, choice, count, target)
    map_ = TensorMap(
        slot.element, slot.dims, slot.strides_bytes, slot.box, swizzle=slot.swizzle, l2_promotion=slot.l2_promotion
    )
    broken = [item.message for item in check(map_, target).violations]
    if _counted_past_an_end(load, axes):
        broken.append("it is displaced, and elements past an end must not count")
    if slot.displaced[0] * slot.element_bytes % RUN_BYTES:
        broken.append(f"it is displaced along {slot.inner} by no multiple of {RUN_BYTES} bytes")
    strange = {base_axis(axis) for each in slot.lookups for axis in each.axes} - {slot.outer, *axes.batch}
    if strange or slot.inner == slot.outer or blocks_along(read_dimensions(load.tensor), slot.inner):
        broken.append(f"it is read where integers over {axes_text(sorted(strange or {slot.inner}))} say")
    if slot.box_rows < CORE_ROWS:
        broken.append(f"{slot.box_rows} rows of it lie together, fewer than {CORE_ROWS}")
    length = program.run_time.get(slot.outer, program.extents[slot.outer])
    if slot.page and may_end_within(program, slot.outer, slot.page):
        broken.append(f"{slot.outer} has {length} elements and ends within a block of {slot.page} of them")
    ends = any(_ends(program, each, slot.outer) for each in slot.lookups)
    if slot.page and may_end_within(program, slot.outer, slot.rows) and not ends:
        broken.append(f"{slot.outer} has {length} elements, past which no table ends")
    return slot, broken


def _counted_past_an_end(load: tile.LoadOp, axes: CascadeAxes) -> bool:
    """Whether a load is displaced along an axis of which a tile's elements past the end count, unless they are zero: of
    rows and columns they are not stored."""
    if isinstance(load.tensor.owner, GatherOp):
        return bool(_displacements(load))
    return not _displacements(load).keys() <= {axes.row, *axes.columns, *axes.batch}


def _displacements(load: tile.LoadOp) -> dict[str, int]:
    """By how many elements a load is displaced, by axis."""
    indices = zip(read_type(load.tensor).axis_names, load.indices, strict=True)
    return {base_axis(axis): index_offset(index) for axis, index in indices if index_offset(index)}


def _read_at(where: Where) -> str:
    """How decisions say what a dimension of the batch is read at."""
    return remainder_place(where.axis, where.size) if isinstance(where, Remainder) else axis_of(where)


def _ends(program: tile.ProgramOp, lookup: Lookup, axis: str) -> bool:
    """Whether a table has no number for what lies past an axis's end, so that zeros are brought."""
    along = (block_size(each) for each in lookup.axes if base_axis(each) == axis)
    return any(not may_end_within(program, axis, size) for size in along)


def _slot(
    program: tile.ProgramOp,
    axes: CascadeAxes,
    load: tile.LoadOp,
    found: MapDimensions,
    choice: WalkTile,
    count: int,
    target: Target,
) -> SlotDecision:
    """found: `map_dimensions` of the load."""
    name, element = parameter_name(program, read_tensor(load.tensor)), read_type(load.tensor).element_kind
    inner, outer = base_axis(axis_of(found.inner.where)), base_axis(axis_of(found.outer.where))
    width = element.bytes
    span, step = SPAN_BYTES // width, _STEP_BYTES // width
    sizes = {axes.row: choice.rows, axes.column: choice.columns, axes.streamed: choice.streamed}
    sizes |= {axis: whole_columns(program, axis, target) for axis in axes.further}
    # CTAs that need the same bring a part each. Those of a pair, whose tensor cores read the memory of both, keep it:
    # half of the columns. Else it is of a slot's rows, and the copy engine writes it to all of them.
    read = set(map(base_axis, value_type(load.result).axis_names))
    alike, *others = sharing(placed(choice.deal(axes), read), "cta")
    assert len(alike) == 1 or not others, "a cluster's CTAs all share what any two of them need"
    peers, kept = (1, len(alike)) if choice.pair else (len(alike), 1)
    halved = next((axis for axis in (inner, outer) if axis in axes.columns), "") if kept > 1 else ""
    sizes |= {halved: sizes[halved] // kept} if halved else {}
    sliced = next((axis for axis in (inner, outer) if axis not in sizes), "") if choice.sliced else ""
    sizes |= {sliced: SLICE_SPANS * span} if sliced else {}
    extents = {axis: sizes.get(axis, -(-program.extents[axis] // step) * step) for axis in (inner, outer)}
    dimensions = (found.inner, found.outer, *found.further)
    if extents[outer] % peers:
        raise TilewrightError(
            f"a cluster of {peers} CTAs cannot share slots of {extents[outer]} rows",
            remedy=f"each CTA loads an equal part of them: use a multiple of {peers}",
        )
    # Rows that lie together in the array as they do in the slot, and begin where its boxes do.
    apart = dict(zip((axes.row, axes.column), choice.apart, strict=True)).get(outer, 1)
    rows = math.gcd(extents[outer] // (peers * apart), *blocks_along(read_dimensions(load.tensor), outer))
    lookups = tuple(
        Lookup(number, parameter_name(program, each.where.tensor), each.where.axes)
        for number, each in enumerate(dimensions)
        if isinstance(each.where, Table)
    )
    resident = is_resident(load) and not sliced
    moved = _displacements(load)
    neighbours = tuple(moved.get(base_axis(axis_of(each.where)), 0) for each in found.further)
    # Where a copy was asked for instead, it lies as it is needed.
    remade, made = remaking(program, axes, load, inner, needed_inner(program, load, target), Wanted())
    return SlotDecision(
        load_number(program, load), name, element.value, width, inner, outer,
        tuple(map(_read_at, (each.where for each in found.further))), -(-extents[inner] // span) * span, extents[outer],
        1 if resident else count, int(resident), tuple(each.extent for each in dimensions),
        found.strides_bytes(width), (span, rows, *([1] * len(found.further))), sliced,
        lookups=lookups, page=found.outer.where.size if isinstance(found.outer.where, Remainder) else 0,
        peers=peers, displaced=(moved.get(inner, 0), moved.get(outer, 0), *(neighbours if any(neighbours) else ())),
        remade=remade, remade_element=made.value if remade else "",
        remade_chunks=chunks_of(extents[inner] * width) if remade else 0,
        halved=sizes.get(halved, 0), halved_dimension=int(bool(halved) and halved == outer),
    )  # fmt: skip
