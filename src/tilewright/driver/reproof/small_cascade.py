"""Which small instance of a program that walks an axis by tiles stands for the large one?

Two tiles along rows and columns, so many along the streamed axis that every ring comes round, two places along each
axis of a batch: so that each of two CTAs takes several tiles, from one batch place to the next. Axes that a product
takes whole stay as they are. Where tiles of rows walk a part of the axis, the first one does so here from its begin,
all but a few tiles, the last one to its end: lines keep their slopes and are moved. Where tiles are cut, there are as
many as `small_streams` says.

Checked by: tests/driver/reproof/test_small_cascade.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilewright.base.size import number_of, value_of
from tilewright.driver.reproof.small_cursors import tiles_that_show
from tilewright.driver.reproof.small_groups import CTAS, GROUPS_MOST, group_tiles, small_rows
from tilewright.driver.reproof.small_streams import SmallStream, small_stream, stream_quantities
from tilewright.driver.reproof.small_teams import CTAS_OF_TEAMS, TILES_OF_TEAMS, TeamGrid, slices_of_teams
from tilewright.ir.cascade import ANSWERS, CascadeDecisions, Line, SlotDecision, WalkRange, walked_part
from tilewright.ir.cascade_facts import cascade_axes, map_dimensions
from tilewright.ir.copy_decisions import MapDecision, StoreDecision
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, block_size
from tilewright.ir.tile.facts import loads, parameter_name
from tilewright.ir.tile.types import tensor_type
from tilewright.ir.tile_stream import TileStream
from tilewright.lower.cascade.place import tile_counts, tiles_walked
from tilewright.lower.distribution.raster import raster_quantities
from tilewright.lower.distribution.turns import skip_quantities
from tilewright.lower.ptx.run_time import reciprocal, together_sizes

SQUARES_MOST = 4
"""Side of the squares of a curve of which the small instance has a whole one."""
_TILES = 2
_TILES_IN_TURN = 3
"""Then each of two CTAs has three, so that one consumer takes a turn again after the other."""
_ROUNDS_MOST = 4
"""Tiles of one CTA, by the ring's slots, after which two cursors stand where they stood, in the same phases."""
_PLACES = 2
_SLICES = 3
"""Of an axis that is taken by slices: a first, which begins the sum, and two that go on."""


def cascade_extents(d: CascadeDecisions, extents: Mapping[str, int]) -> dict[str, int]:
    """Extents of the small instance, by axis."""
    deepest = max((slot.slots for slot in d.slots if not slot.resident), default=1)
    # Of a CTA, so many that a slot which stays for a tile is filled again.
    of_cta = 1 + max((slot.slots for slot in d.slots if slot.resident), default=1)
    # Answers to requests for work come round as well.
    of_cta = max(of_cta, 1 + ANSWERS) if d.handed else of_cta
    found = dict(extents)
    # Whole iterations, each of as many tiles as in the large one.
    together = d.walked_together * d.shares
    whole = -(-extents[d.streamed] // (d.tile_streamed * together))
    iterations = -(-(2 * deepest - 1) // d.walked_together)
    # As many copies of the loop's body are left over as in the large text.
    iterations += (whole - iterations) % d.scaled_copies
    walked = (d.streamed, d.tile_streamed * together, iterations)
    down, across = _tiles_of_two(d, extents, of_cta)
    sizes = [(d.row, d.row_step * d.cluster[0], down), walked]
    sizes += [(d.column, d.column_step * d.cluster[1], across)] if d.column else []
    sizes += [(axis, d.slice_depth, _SLICES) for axis in d.sliced]
    if d.stream is not None:
        small = _small_stream(d, extents)
        down, across = _shortest(small.tiles, (extents[d.row], d.row_step), (extents[d.column], d.column_step))
        sizes = [
            (d.row, d.row_step, down),
            (d.column, d.column_step, across),
            (d.streamed, d.tile_streamed, small.slices),
        ]
    if d.teams > 1:
        down, side = -(-extents[d.row] // d.row_step), -(-extents[d.column] // d.column_step)
        program = TeamGrid(d.teams, down * side, d.ctas // d.cluster_ctas)
        small_one = TeamGrid(d.teams, min(TILES_OF_TEAMS, program.tiles), CTAS_OF_TEAMS)
        deep = d.tile_streamed * d.shares
        slices = slices_of_teams(deepest, -(-extents[d.streamed] // deep), program, small_one)
        down, across = _shortest(small_one.tiles, (extents[d.row], d.row_step), (extents[d.column], d.column_step))
        # Of one column, whose shares are numbered like a batch's, a place is found by fewer instructions.
        across = max(across, min(side, 2))
        sizes = [
            (d.row, d.row_step, down),
            (d.column, d.column_step, across),
            (d.streamed, deep, slices),
        ]
    # Of tiles that overlap a whole one has a neighbour, so that what neither stores shows; of a curve, tiles inside of
    # a square are taken too.
    side = d.raster_group if d.tile_order != "grouped" and d.raster_group <= SQUARES_MOST else 1
    least = {axis: max(side, 2 if step else 1) for axis, step in zip((d.row, d.column), d.steps, strict=True)}
    for axis, size, tiles in sizes:
        tiles = max(tiles, least.get(axis, 1))
        # Of blocks two, where there are several: then numbers differ along the axis, and the text says so.
        blocks = _largest_block(extents, axis)
        found[axis] = reduced(extents[axis], size, max(tiles, -(-blocks // size) + 1 if blocks > 1 else 1))
    for each in d.grouping:
        found[each.axis] = min(extents[each.axis], GROUPS_MOST)
        found[d.row] = min(extents[d.row], small_rows(d.tile_rows))
        # A CTA has tiles enough for the slots of its sums to come round, and for its cursors to do all that they do.
        tiles = group_tiles(found[each.axis], found[d.row], d.tile_rows, apart=bool(each.pitch))
        least = max(1 + max(1, d.sum_slots), _tiles_shown(d, extents))
        across = max(_TILES, -(-CTAS * least // max(1, tiles)))
        found[d.column] = reduced(extents[d.column], d.column_step, across)
    for axis in d.batch if not d.grouping else ():
        # Of blocks, so many elements that there are two.
        largest = _largest_block(extents, axis)
        found[axis] = min(extents[axis], _PLACES * largest)
    if of_cta > _TILES and not d.grouping:
        _widen(d, extents, found, CTAS * of_cta)
    return found


def _largest_block(extents: Mapping[str, int], axis: str) -> int:
    """Elements of the largest of an axis's blocks of which there are several; 1 if there are none."""
    several = (each for each, blocks in extents.items() if base_axis(each) == axis and blocks > 1)
    return max(map(block_size, several), default=1)


def _widen(d: CascadeDecisions, extents: Mapping[str, int], found: dict[str, int], tiles: int) -> None:
    """More places of the batch, as far as there are any, for so many tiles where rows have fewer."""
    for axis in d.batch:
        sides = [(d.row, d.row_step), (d.column, d.column_step)] if d.column else [(d.row, d.row_step)]
        there = math.prod(-(-found[each] // size) for each, size in sides) * math.prod(found[each] for each in d.batch)
        if there < tiles:
            found[axis] = min(extents[axis], -(-tiles * found[axis] // there))


def _tiles_of_two(d: CascadeDecisions, extents: Mapping[str, int], of_cta: int) -> tuple[int, int]:
    """Tiles along rows and columns, in clusters, for two CTAs: one takes several, the other one fewer at the most.
    of_cta: as many as that one takes at the least."""
    down, across = max(_TILES, of_cta), _TILES_IN_TURN if d.turns else _TILES
    most_down, most_across = _clusters_along(d, extents)
    several = max(across, _tiles_shown(d, extents)) if not d.walked else 1
    needed = 2 * several - 1 if d.ctas > d.cluster_ctas else several
    # A batch of several matrices has two.
    needed = -(-needed // math.prod(min(extents[axis], _PLACES) for axis in d.batch))
    across = max(across, -(-needed // min(down, most_down)))
    return max(down, -(-needed // min(across, most_across))), across


def _clusters_along(d: CascadeDecisions, extents: Mapping[str, int]) -> tuple[int, int]:
    """Of the program's tiles, along rows and columns."""
    columns = -(-extents[d.column] // (d.column_step * d.cluster[1])) if d.column else 1
    return -(-extents[d.row] // (d.row_step * d.cluster[0])), columns


def _tiles_shown(d: CascadeDecisions, extents: Mapping[str, int]) -> int:
    """Tiles of one CTA that show what its cursors do, of walks that sum slots in registers; 0 where nobody asks."""
    if d.tensor_columns or d.teams > 1 or d.stream is not None or not any(each.joined for each in d.slots):
        return 0
    stages, whole = d.slots[0].slots, -(-extents[d.streamed] // (d.tile_streamed * d.shares))
    slices, units = min(2 * stages - 1, whole), 2 if d.turns else 1
    # Consumers that take turns take two each.
    least = (4 if d.turns else 2) if d.grouping or slices < 2 * stages - 1 else 0
    if not least:
        return 0
    tiles = math.prod(_clusters_along(d, extents)) * math.prod(extents[axis] for axis in d.batch)
    most = _ROUNDS_MOST * stages
    most = most if d.grouping else min(-(-tiles // (d.ctas // d.cluster_ctas)), most)
    return tiles_that_show(slices, stages, units, least=least, most=most)


@dataclass(frozen=True, slots=True)
class _Streaming:
    """As `small_streams.Streaming` has it."""

    ctas: int
    streamed: int
    head_slices: int
    stages: int
    turns: int


def _streaming(d: CascadeDecisions) -> _Streaming:
    tiles, head_slices = (d.stream.tiles, d.stream.head_slices) if d.stream is not None else (0, 0)
    return _Streaming(d.ctas, tiles, head_slices, d.slots[0].slots, d.turns)


def _small_stream(d: CascadeDecisions, extents: Mapping[str, int]) -> SmallStream:
    """Of decisions whose tiles are cut. extents: the program's."""
    tiles = -(-extents[d.row] // d.row_step) * -(-extents[d.column] // d.column_step)
    return small_stream(_streaming(d), tiles, -(-extents[d.streamed] // d.tile_streamed))


def _shortest(tiles: int, rows: tuple[int, int], columns: tuple[int, int]) -> tuple[int, int]:
    """Tiles along rows and columns, of so many in all: of the least that there can be, as many columns as can be. A
    tile that is not full has a full one before it, where the program's has: else what fills only that would not show.
    rows, columns: extent and size of a tile."""
    most, least = zip(*((-(-extent // size), min(-(-extent // size), 1 + bool(extent % size))) for extent, size in
                        (rows, columns)), strict=True)  # fmt: skip
    grids = [(max(least[0], -(-tiles // each)), each) for each in range(min(max(tiles, least[1]), most[1]), 0, -1)]
    fitting = [grid for grid in grids if grid[0] <= most[0] and grid[1] >= least[1]]
    return min(fitting or grids, key=lambda grid: (grid[0] > most[0], grid[0] * grid[1]))


def reduced(extent: int, size: int, tiles: int) -> int:
    """At most `tiles` tiles of `size`, the last one as full as the one that `extent` ends with."""
    return extent if extent <= size * tiles else size * (tiles - 1) + (extent % size or size)


def cascade_decisions(
    program: tile.ProgramOp, d: CascadeDecisions, ctas: int, extents: Mapping[str, int]
) -> CascadeDecisions:
    """The same decisions for the small program: maps of its arrays, and no more than so many CTAs, or clusters.
    extents: of the large one."""
    listed, axes = loads(program), cascade_axes(program)

    def small(slot: SlotDecision) -> SlotDecision:
        found = map_dimensions(listed[slot.load], axes)
        assert found is not None, "the program's own load has a map"
        dimensions = (found.inner, found.outer, *found.further)
        apart = found.strides_bytes(slot.element_bytes)
        return replace(slot, dims=tuple(each.extent for each in dimensions), strides_bytes=apart)

    grouping = tuple(replace(each, pitch=program.extents[d.row] if each.pitch else 0) for each in d.grouping)
    rows, columns, matrices = _counts(program, d)

    def small_map(one: MapDecision, store: StoreDecision) -> MapDecision:
        dims, strides = box_dimensions(program, d, store)
        return replace(one, dims=dims, strides_bytes=strides)

    stores = tuple(
        replace(
            each,
            map=small_map(each.map, each),
            tail=tuple(small_map(one, each) for one in each.tail),
            cut=tuple(small_map(one, each) for one in each.cut),
        )
        for each in d.stores
    )
    walked = d.walked
    if not program.run_time.keys() & {d.row, d.streamed}:
        # Else the text is run as it is, at extents that show what tiles of all lengths do.
        units = -(-program.extents[d.row] // d.unit_rows)
        walked = tuple(_moved(each, rows, units, tiles_walked(program, d)) for each in walked)
    slots, tiles = tuple(map(small, d.slots)), rows * columns * matrices * d.split
    # Of several matrices not all are taken together, so that a group of fewer comes last.
    together = min(d.together, max(1, matrices - 1))
    if program.run_time.keys() & {d.row, *d.batch} and d.together and not d.together_at:
        together = math.gcd(d.together, *(program.extents[axis] for axis in d.batch if axis not in program.run_time))
    # Of run-time tiles the launch says how many CTAs there are, of groups memory how many tiles.
    most = min((CTAS_OF_TEAMS if d.teams > 1 else ctas) * d.cluster_ctas, d.ctas)
    ctas, cut = most if program.run_time or grouping else min(most, tiles), d.cut
    if cut:
        small_one = _small_stream(d, extents)
        ctas = small_one.ctas
        cut = (TileStream(small_one.streamed, ctas - small_one.streamed, small_one.head_slices),)
    return replace(
        d, slots=slots, ctas=ctas, walked=walked, together=together, stores=stores, cut=cut, grouping=grouping
    )  # fmt: skip


def box_dimensions(
    program: tile.ProgramOp, d: CascadeDecisions, store: StoreDecision
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Dimensions, and bytes from one element to the next along all but the first, of the map of a result in boxes."""
    (tensor,) = (
        tensor_type(each) for each in program.body.block.args if parameter_name(program, each) == store.parameter
    )
    sizes = dict(zip(tensor.axis_names, zip(tensor.extents, tensor.stride_elements, strict=True), strict=True))
    column = next(axis for axis in tensor.axis_names if axis in (d.column, *d.further, d.streamed))
    further = [axis for axis in reversed(tensor.axis_names) if axis in d.batch]
    order = [sizes[axis] for axis in ((d.row, column) if store.turned else (column, d.row, *further))]
    width = tensor.element_kind.bytes
    return tuple(extent for extent, _ in order), tuple(stride * width for _, stride in order[1:])


def _counts(program: tile.ProgramOp, d: CascadeDecisions) -> tuple[int, int, int]:
    """`tile_counts` at the extents of the arrays."""
    rows, columns, matrices = (value_of(each, program.extents) for each in tile_counts(program, d))
    return rows, columns, matrices


def _moved(walked: WalkRange, rows: int, units: int, most: int) -> WalkRange:
    """The range with lines moved so that the last tile of rows begins at the second tile and walks to the end, and so
    does the last of the consumers that have rows."""

    def reaching(line: Line, tile: int, number: int) -> Line:
        return replace(line, offset=tile * line.divisor - line.scale * number)

    begin, end = reaching(walked.begin, 1, rows - 1), reaching(walked.end, most, rows - 1)
    unit_end = tuple(reaching(line, most, units - 1) for line in walked.unit_end)
    longest = max(walked_part(begin, end, most, row)[1] for row in range(rows))
    return replace(walked, begin=begin, end=end, longest=longest, unit_end=unit_end)


def cascade_quantities(program: tile.ProgramOp, d: CascadeDecisions) -> list[int]:
    """What the lowering may write as an immediate that depends on extents."""
    rows, columns, matrices = _counts(program, d)
    rows, columns = rows // d.cluster[0], columns // d.cluster[1]
    found = [
        rows * columns * matrices,
        rows * columns,
        number_of(reciprocal(rows * columns)),
        d.ctas // d.cluster_ctas,
        *raster_quantities(rows, columns, d.raster_group),
    ]
    most = tiles_walked(program, d)
    turns = most // d.walked_together
    found += [most, most - 1, turns, turns - turns % d.scaled_copies]
    found += stream_quantities(_streaming(d), most)
    for each in d.grouping:
        groups, length = program.extents[each.axis], program.extents[d.row]
        found += [groups - 1, (groups - 1) * each.pitch + length, each.pitch, columns]
    if d.teams > 1:
        found += [rows, columns, (d.teams - 1) * rows * columns * d.cluster_ctas * d.consumers]
    for each in d.slots if d.turns else ():
        found += skip_quantities(most, each.slots)
    if d.together:
        found += [rows * columns - 1, 2 * d.ctas]
        found += map(number_of, together_sizes(rows * columns, d.together, matrices).values())
    for each in d.walked:
        found += [line.offset % (1 << 32) for line in (each.begin, each.end, *each.unit_end)]
        found += [-(-program.extents[d.row] // d.unit_rows)]
    found += [-(-program.extents[axis] // d.slice_depth) for axis in d.sliced]
    found += [extent for argument in program.body.block.args for extent in tensor_type(argument).extents]
    # A plain store compares its first column with the extent less the column's place in the tile; a mask that ends with
    # the axis, with the extent less the tile.
    further = zip(d.further, d.further_columns, strict=True)
    for axis, size in ((d.column, d.tile_columns), *further, (d.streamed, d.tile_streamed)):
        found += [max(0, program.extents[axis] - place) for place in range(1, size + 1)] if axis else []
    return found
