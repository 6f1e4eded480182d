"""Where a tile of a kernel that walks an axis stands: its first row and column, its place along the batch's axes.

Checked by: tests/lower/cascade.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr
from xdsl.ir import Attribute, Block, Region, SSAValue

from tilewright.base.size import Size, ceil_div, number_of, parse_size, product, settled
from tilewright.ir.ac import operations as ac
from tilewright.ir.cascade import CascadeDecisions, Line, Lookup, SlotDecision
from tilewright.ir.group_rows import stands_in_line
from tilewright.ir.sizes import size_array, size_attr
from tilewright.ir.tier import int_array
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, block_size
from tilewright.ir.tile.gather import Remainder, where_of
from tilewright.lower.build import INDEX, Build, affine, order_properties
from tilewright.lower.distribution.stream_product import WHOLE, Section, stream_part_loop
from tilewright.lower.distribution.turns import turn_tiles_loop
from tilewright.lower.points.array_part import part_at
from tilewright.lower.program import Counts


@dataclass(frozen=True, slots=True)
class Place:
    """indices: by axis, the number of its tile (rows, columns, what is walked) or of its element (the batch's)."""

    indices: Mapping[str, SSAValue]
    begin: SSAValue | None = None
    """The first tile that is walked, where that is not the axis's."""
    section: Section = WHOLE
    """Whether the tile is walked whole, or a part of one that several CTAs walk."""
    number: SSAValue | None = None
    """Of such a tile."""
    row_end: SSAValue | None = None
    """The row before which the tile ends, where rows stand in groups: then the index of the tile's rows is that of its
    first one."""
    share: SSAValue | None = None
    """Which of the CTAs that share what is walked this one is; None where it walks all of it."""
    team: SSAValue | None = None
    """Which of the clusters that share a tile goes through it; None where there is one."""

    def step(self, axis: str, d: CascadeDecisions) -> int:
        """Elements from one index along an axis to the next."""
        return 1 if axis == d.row and self.row_end is not None else d.step_along(axis)

    def first(self, build: Build, axis: str, d: CascadeDecisions) -> SSAValue | None:
        """The first element of the tile along an axis; None where that is always 0."""
        size, index, before = self.step(axis, d), self.indices.get(axis), d.before(axis)
        return None if index is None else affine(build, [(index, size)], -before) if size > 1 or before else index

    def along(self, axis: str, index: SSAValue) -> Place:
        """The place of a tile with this number along an axis that is walked."""
        return replace(self, indices={**self.indices, axis: index})

    def walking(self, build: Build, d: CascadeDecisions, index: SSAValue) -> Place:
        """The place in iteration `index` of the walk."""
        terms = [(each, 1) for each in (self.begin, self.share) if each is not None]
        return self.along(d.streamed, affine(build, [(index, d.shares), *terms], 0) if terms else index)


def tile_counts(program: tile.ProgramOp, d: CascadeDecisions) -> Counts:
    """Tiles along rows and columns, of whole clusters, and places along the batch's axes, each once for every team."""
    rows, columns, matrices = cluster_counts(program, d)
    return product((rows, d.cluster[0])), product((columns, d.cluster[1])), matrices


def cluster_counts(program: tile.ProgramOp, d: CascadeDecisions) -> Counts:
    """The same in clusters of tiles."""

    def clusters(axis: str, extent: int, ctas: int) -> Size:
        tiles = ceil_div(program.sizes[axis], extent)
        return settled(ceil_div(tiles, ctas) if ctas > 1 else tiles, program.run_time)

    return (
        clusters(d.row, d.row_step, d.cluster[0]),
        clusters(d.column, d.column_step, d.cluster[1]) if d.column else 1,
        product((d.teams, *_places(program, d))),
    )


def _places(program: tile.ProgramOp, d: CascadeDecisions) -> list[Size]:
    """How many there are along each of the batch's axes."""
    return [settled(program.sizes[axis], program.run_time) for axis in d.batch]


def tiles_walked(program: tile.ProgramOp, d: CascadeDecisions) -> int:
    """Tiles along the streamed axis that a CTA walks: the last of some may lie past the axis's end."""
    return -(-program.extents[d.streamed] // (d.tile_streamed * d.shares))


def walk_count(program: tile.ProgramOp, d: CascadeDecisions) -> Size:
    """Iterations of a walk of all of the streamed axis."""
    tiles = ceil_div(program.sizes[d.streamed], d.tile_streamed * d.shares * d.walked_together)
    return settled(tiles, program.run_time)


def open_tiles(
    build: Build,
    program: tile.ProgramOp,
    d: CascadeDecisions,
    carried: Sequence[SSAValue],
    turns: SSAValue | None = None,
    section: Section = WHOLE,
    limits: SSAValue | None = None,
) -> tuple[Build, Place, list[SSAValue]]:
    """The persistent loop over a CTA's tiles: inside of it, the tile's place, the carried values. turns: barriers of a
    role whose units take tiles alternately. section: whole tiles, or parts of those that are cut; limits: the array
    that says where groups of rows end."""
    tiles_m, tiles_n, _ = tile_counts(program, d)
    if d.grouping:
        return _open_group_tiles(build, program, d, number_of(tiles_n), limits, carried, turns)
    assert d.teams == 1 or not d.batch, "teams go through the tiles of one matrix"
    rounds = [d.teams] if d.teams > 1 else _places(program, d)
    indices = ac.TILE_INDICES + len(rounds)
    order = order_properties(d)
    if section.part:
        assert d.stream is not None and not d.batch, "parts are of tiles that are cut, of one matrix"
        inside, block = stream_part_loop(build, d.stream, section, (tiles_m, tiles_n), order, carried, turns)
        row, column, number, first, *inner = block.args
        places = {d.row: row} | ({d.column: column} if d.column else {})
        return inside, Place(places, first, section, number), list(inner)
    order |= {"first_tile": IntAttr(d.stream.tiles)} if d.stream is not None else {}
    if turns is not None:
        inside, block, _ = turn_tiles_loop(build, turns, (tiles_m, tiles_n), rounds, order, carried)
        return inside, _placed(inside, program, d, block), list(block.args[indices:])
    block = Block(arg_types=[*([INDEX] * indices), *(value.type for value in carried)])
    batch: dict[str, Attribute] = {"batch": size_array(rounds)} if rounds else {}
    batch |= {"together": size_attr(parse_size(d.together_at) if d.together_at else d.together)} if d.together else {}
    batch |= {"handed": IntAttr(1)} if d.handed else {}
    op = ac.TilesOp.create(
        operands=list(carried),
        result_types=[value.type for value in carried],
        properties={
            "symbol": StringAttr("tiles"),
            "tiles_m": size_attr(tiles_m),
            "tiles_n": size_attr(tiles_n),
            **order,
            **batch,
        },
        regions=[Region(block)],
    )
    build.add(op)
    inside = build.inside(block)
    return inside, _placed(inside, program, d, block), list(block.args[indices:])


def _open_group_tiles(
    build: Build,
    program: tile.ProgramOp,
    d: CascadeDecisions,
    tiles_n: int,
    limits: SSAValue | None,
    carried: Sequence[SSAValue],
    turns: SSAValue | None,
) -> tuple[Build, Place, list[SSAValue]]:
    """The same where rows stand in groups."""
    assert limits is not None, "groups end where an array says"
    (grouping,) = d.grouping
    block = Block(arg_types=[*([INDEX] * ac.GROUP_INDICES), *(value.type for value in carried)])
    properties: dict[str, Attribute] = {
        "symbol": StringAttr("tiles"),
        "groups": IntAttr(program.extents[grouping.axis]),
        "rows": size_attr(program.sizes[d.row]),
        "pitch": IntAttr(grouping.pitch),
        "tile_rows": IntAttr(d.tile_rows),
        "tiles_n": IntAttr(tiles_n),
        "raster_group": IntAttr(d.raster_group),
        **({} if turns is None else {"skipped": StringAttr("K")}),
    }
    kind = ac.GroupTilesOp if turns is None else ac.TurnGroupTilesOp
    op = kind.create(
        operands=[limits, *([] if turns is None else [turns]), *carried],
        result_types=[value.type for value in carried],
        properties=properties,
        regions=[Region(block)],
    )
    build.add(op)
    row, column, group, row_end = block.args[: ac.GROUP_INDICES]
    places = {d.row: row, d.column: column, grouping.axis: group}
    return build.inside(block), Place(places, row_end=row_end), list(block.args[ac.GROUP_INDICES :])


def most_tiles(program: tile.ProgramOp, d: CascadeDecisions) -> Size:
    """How many tiles there are, no fewer where memory says how many."""
    tiles_m, tiles_n, matrices = tile_counts(program, d)
    if d.grouping:
        (grouping,) = d.grouping
        extent, groups = program.extents[d.row], program.extents[grouping.axis]
        apart = groups * -(-extent // d.tile_rows)
        return product((apart if grouping.pitch else extent // d.tile_rows + min(groups, extent), tiles_n))
    return product((tiles_m, tiles_n, matrices))


def _placed(build: Build, program: tile.ProgramOp, d: CascadeDecisions, block: Block) -> Place:
    """The place of a loop's tile. block: the loop's body."""
    places = {d.row: block.args[0]} | ({d.column: block.args[1]} if d.column else {})
    behind = ac.TILE_INDICES + len(d.batch)
    places |= dict(zip(d.batch, block.args[ac.TILE_INDICES : behind], strict=True))
    team = block.args[ac.TILE_INDICES] if d.teams > 1 else None
    return Place(places, _begin(build, program, d, block.args[0]), team=team)


def _begin(build: Build, program: tile.ProgramOp, d: CascadeDecisions, row: SSAValue) -> SSAValue | None:
    """The first tile that is walked by the tiles of this row, where they have a part of the axis."""
    if not d.walked:
        return None
    (walked,) = d.walked
    op = ac.RangeOp.create(
        operands=[row],
        properties={
            "symbol": StringAttr("K"),
            "most": size_attr(walk_count(program, d)),
            "begin": line_of(walked.begin),
            "end": line_of(walked.end),
        },
        result_types=[INDEX],
    )
    return build.value(op)


def line_of(line: Line) -> ArrayAttr[IntAttr]:
    """A line as operations have it."""
    return int_array([line.scale, line.offset, line.divisor])


def _divided(build: Build, index: SSAValue, size: int) -> SSAValue:
    if size == 1:
        return index
    return build.value(
        ac.IndexDivideOp.create(operands=[index], properties={"size": IntAttr(size)}, result_types=[INDEX])
    )


def part_of_batch(
    build: Build, axes: Sequence[str], array: SSAValue, place: Place, d: CascadeDecisions, walked: str = ""
) -> SSAValue:
    """The array's part at the tile's place along the batch's axes. axes: the array's, in order; walked: an axis of
    blocks of the streamed one, of which it is the part at the tile's block too."""
    dimension = 0
    for axis in own_axes(axes, d):
        if base_axis(axis) in d.batch or axis == walked:
            assert axis != walked or block_size(axis) % d.tile_streamed == 0, "a tile of the walk lies within a block"
            size = block_size(axis) // (d.tile_streamed if axis == walked else 1)
            index = _divided(build, place.indices[base_axis(axis)], size)
            array = part_at(build, array, dimension, index)
        else:
            dimension += 1
    return array


def own_axes(axes: Sequence[str], d: CascadeDecisions) -> Sequence[str]:
    """The axes of an array as threads reach it: without that of groups whose rows are one line."""
    return axes[1:] if is_in_line(axes, d) else axes


def is_in_line(axes: Sequence[str], d: CascadeDecisions) -> bool:
    """Whether an array over these axes has the rows of groups that stand apart."""
    return stands_in_line(axes, d.grouping, d.row)


def rows_first(axes: Sequence[str], d: CascadeDecisions) -> list[str]:
    """The axes of a result in the order in which its array is stored to: the batch's, rows, columns."""
    return sorted(axes, key=lambda axis: 0 if axis in d.batch else 1 if axis == d.row else 2)


Coordinates = Mapping[int, Sequence[SSAValue]]
"""Of a slot's boxes, by where in the slot each is."""
KnownPlaces = dict[tuple[Lookup, str, int], SSAValue]
"""What tables say for an element of a tile: by which dimension of which map aside, along which axis, the element's
number."""


def slot_coordinates(
    build: Build, slot: SlotDecision, tables: Mapping[str, SSAValue], place: Place, d: CascadeDecisions,
    known: KnownPlaces,
) -> Coordinates:  # fmt: skip
    """Where the boxes of a load's tile lie, of the first CTA's part where several bring equal ones. tables: the arrays
    that say where rows lie, by name; known: what they have said for this tile, to which what they say now is added.
    """
    if slot.factors:
        return {0: _first_factors(build, slot, place, d)}
    inner, (inner_shift, outer_shift, *moved) = place.first(build, slot.inner, d), slot.displaced
    shifts = moved or [0] * len(slot.batch)
    span = slot.box[0]
    coordinates: dict[int, Sequence[SSAValue]] = {}
    for down in range(slot.boxes_down // slot.peers):
        offset = d.loaded_at(slot.outer, down * slot.box_rows) - d.before(slot.outer)
        here = _Element(build, place, d, slot.outer, offset)
        row = _moved(build, here.within(slot.page) if slot.page else here.block(1), outer_shift)
        looked_up = {each.dimension: _looked_up(tables[each.table], each, here, known) for each in slot.lookups}
        further = [
            looked_up[number] if number in looked_up else _moved(build, here.along(axis), shift)
            for number, (axis, shift) in enumerate(zip(slot.batch, shifts, strict=True), start=2)
        ]
        for across in range(slot.spans):
            offset = slot.offset_bytes(across, down, d.streamed)
            coordinates[offset] = [_moved(build, inner, span * across + inner_shift), row, *further]
    return coordinates


def _first_factors(build: Build, slot: SlotDecision, place: Place, d: CascadeDecisions) -> list[SSAValue]:
    """Where factors of blocks begin: the first block, the first row, the tile's place in the batch."""
    walked, row = place.indices[d.streamed], place.first(build, slot.outer, d)
    further = [_divided(build, place.indices[base_axis(axis)], block_size(axis)) for axis in slot.batch]
    first = affine(build, [(walked, d.tile_streamed // block_size(slot.inner))], 0)
    return [first, _moved(build, row, 0), *further]


@dataclass(frozen=True, slots=True)
class _Element:
    """An element of a tile: the one with number `offset` along an axis, the first along all others."""

    build: Build
    place: Place
    d: CascadeDecisions
    axis: str
    offset: int

    def along(self, axis: str) -> SSAValue:
        """Its number along an axis, that of the block that it lies in, or its place in a block."""
        where = where_of(axis, ())
        if isinstance(where, Remainder):
            number = self.place.indices[where.axis]
            return affine(self.build, [(number, 1), (_divided(self.build, number, where.size), -where.size)], 0)
        if base_axis(axis) == self.axis:
            return self.block(block_size(axis))
        return _divided(self.build, self.place.indices[base_axis(axis)], block_size(axis))

    def block(self, size: int) -> SSAValue:
        """Which block of so many elements of the axis it lies in: of tiles that are whole blocks without a division."""
        number, extent = self.place.indices.get(self.axis), self.place.step(self.axis, self.d)
        if number is None or extent % size == 0:
            terms = [] if number is None else [(number, extent // size)]
            return affine(self.build, terms, self.offset // size)
        if size % extent == 0 and self.offset < extent:
            return _divided(self.build, number, size // extent)
        return _divided(self.build, affine(self.build, [(number, extent)], self.offset), size)

    def within(self, size: int) -> SSAValue:
        """Its place in that block."""
        number, extent = self.place.indices.get(self.axis), self.place.step(self.axis, self.d)
        if number is None or extent % size == 0:
            return affine(self.build, [], self.offset % size)
        return affine(self.build, [(number, extent), (self.block(size), -size)], self.offset)


def _moved(build: Build, begin: SSAValue | None, by: int) -> SSAValue:
    """An index so many elements behind another, or behind 0."""
    if begin is None or by:
        return affine(build, [(begin, 1)] if begin is not None else [], by)
    return begin


def _looked_up(table: SSAValue, lookup: Lookup, here: _Element, known: KnownPlaces) -> SSAValue:
    """What a table says for an element, which is asked once for all arrays that go by it."""
    key = (replace(lookup, dimension=0), here.axis, here.offset)
    if key not in known:
        places = [here.along(axis) for axis in lookup.axes]
        known[key] = here.build.value(ac.IndexLoadOp.create(operands=[table, *places], result_types=[INDEX]))
    return known[key]


def slot_elements(slot: SlotDecision, axis: str) -> int:
    """Elements of a slot along one of its two axes."""
    return slot.inner_elements if axis == slot.inner else slot.rows
