"""What is decided about a program of products, folds and products of them, once it walks an axis by tiles.

Such a program (`synth.streaming` makes it) has loops over one axis, the streamed one. A CTA takes a tile of rows for
one place along the axes of a batch. Its consumers, a warpgroup for each 64 rows, hold values over rows and streamed
columns, and over rows and result columns, as fragments in registers; one thread brings arrays into rings of slots of
shared memory, one ring for each load that products or fragments are read from.

Checked by: tests/synth/cascade and tests/lower/cascade.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from tilewright.base.element import parse_element
from tilewright.base.plan import L2Promotion, Swizzle
from tilewright.base.value import value
from tilewright.ir.ac.split import sum_parts
from tilewright.ir.copy_decisions import AsyncPlan, MapDecision, StoreDecision, spill_bytes
from tilewright.ir.group_rows import GroupDecision
from tilewright.ir.placement import Along, Held, State, dealt
from tilewright.ir.split_sum import SplitSum, TeamSum
from tilewright.ir.tile_stream import TileStream
from tilewright.layout.linear.hierarchy import Hierarchy

RASTER_GROUP = 8
"""Tiles of rows in a band of the order of tiles."""
WARP_ROWS = 16
"""Of a consumer's 64 rows, that each warp has."""
CHUNK_BYTES = 16
"""Of a row, that the swizzle moves as one."""
SPAN_BYTES = 128
"""Of a row in shared memory: what the swizzle of every slot spans."""
FACTOR_ROWS = 32
"""Rows whose factors stand in one column of tensor memory, in as many lanes of each quarter."""
CELL_FACTORS = 4
"""Of a row, in a cell of tensor memory."""


@value
class Lookup:
    """A coordinate of a tensor map that an array of integers holds. dimension: of the map; table: the parameter; axes:
    the array's, axes of the program or blocks of them."""

    dimension: int
    table: str
    axes: tuple[str, ...]


@value
class SlotDecision:
    """How a load reaches shared memory.

    load: its number among the program's loads. buffer: the parameter. inner, outer: the program's axes along which the
    array is contiguous, and of the rows that a box has. inner_elements: of a slot, whole spans of the swizzle; rows: of
    a slot. slots: of its ring. resident: 1 if it is filled once for each tile of rows, and kept while the streamed axis
    is walked. sliced: the axis of which a slot has a slice alone, "" where it has all that its product needs. dims,
    strides_bytes, box: of the tensor map, the batch's dimensions last; batch: what these are read at, axes, blocks of
    axes or places in blocks (`T%64`), "" where a table says. joined: 1 if it is filled, waited for and released
    together with the load before it, under the barriers of that one's ring. lookups: what tables say; page: where rows
    of the map are places in blocks of the outer axis, elements of a block, else 0. Rows of a slot come in as many boxes
    as it takes, each of one block. peers: CTAs of a cluster that need the same slice; each brings an equal part of its
    rows to all of them. displaced: by how many elements along the inner and the outer axis, and by how many places
    along each of the batch's dimensions where it is displaced along one. among: loads that stand side by side in one
    slot, so that one product takes them all; which: of them this one is. read_once: 1 if no byte is expected to be read
    a second time, so that the L2 cache need not keep any. halved: columns that it has of a tile's, where the CTAs of a
    pair bring half of them each, the first one the first half; else 0; halved_dimension: the dimension of the map that
    has them. remade: how each consumer makes an operand of it (`ir.ac.remade`), "" where the slot is multiplied as it
    is; remade_element: of that operand; remade_chunks: of 16 bytes, that it takes of each row. piece_bytes: 0 if the
    copy engine brings it, by the map; else threads copy it in pieces of so many bytes (`ir.ac.async_copy`), and the map
    only says where it lies. factors: 1 if it holds factors of blocks, which go on to columns of tensor memory
    (`ac.tensor.factors`): `inner` is then an axis of blocks, and rows are whole units of what one tcgen05.cp takes.
    """

    load: int
    buffer: str
    element: str
    element_bytes: int
    inner: str
    outer: str
    batch: tuple[str, ...]
    inner_elements: int
    rows: int
    slots: int
    resident: int
    dims: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    sliced: str = ""
    swizzle: Swizzle = "128B"
    l2_promotion: L2Promotion = "128B"
    lookups: tuple[Lookup, ...] = ()
    page: int = 0
    joined: int = 0
    peers: int = 1
    displaced: tuple[int, ...] = (0, 0)
    among: int = 1
    which: int = 0
    read_once: int = 0
    halved: int = 0
    halved_dimension: int = 0
    remade: Literal["", "turned", "widened"] = ""
    remade_element: str = ""
    remade_chunks: int = 0
    piece_bytes: int = 0
    factors: int = 0

    @property
    def multiplied(self) -> SlotDecision:
        """What products take: the slot, or the room in which it is made anew."""
        if not self.remade:
            return self
        made, elements = parse_element(self.remade_element), CHUNK_BYTES * self.remade_chunks // self.element_bytes
        assert made is not None
        whole = replace(self, remade="", element=made.value, element_bytes=made.bytes, resident=1, slots=1)
        if self.remade == "widened":
            return replace(whole, inner_elements=elements)
        span = SPAN_BYTES // made.bytes
        along = -(-self.rows // span) * span
        return replace(whole, inner=self.outer, outer=self.inner, inner_elements=along, rows=elements)

    @property
    def room_bytes(self) -> int:
        """Of each consumer, for what it makes of it."""
        return self.multiplied.slot_bytes if self.remade else 0

    @property
    def map(self) -> MapDecision:
        """The tensor map that brings it."""
        return MapDecision(self.element, self.dims, self.strides_bytes, self.box, self.swizzle, self.l2_promotion)

    @property
    def box_rows(self) -> int:
        return self.box[1]

    @property
    def box_bytes(self) -> int:
        return SPAN_BYTES * self.box_rows

    @property
    def span_bytes(self) -> int:
        """Of one span of every row: from one span of a slot to the next."""
        return SPAN_BYTES * self.rows

    @property
    def spans(self) -> int:
        """Of a row, side by side."""
        return self.inner_elements * self.element_bytes // SPAN_BYTES

    @property
    def boxes_down(self) -> int:
        """That bring one span of every row, one below the other."""
        return self.rows // self.box_rows

    @property
    def slot_bytes(self) -> int:
        if self.factors:
            return self.rows * self.inner_elements
        return self.spans * self.span_bytes

    @property
    def factor_columns(self) -> int:
        """Of tensor memory, that its slots' factors take."""
        return self.factors * self.slots * self.factor_cells * self.rows // FACTOR_ROWS

    @property
    def factor_cells(self) -> int:
        """Of a row's factors, in each of which there are four."""
        return self.inner_elements // CELL_FACTORS

    @property
    def lines_bytes(self) -> int:
        """Of one span of every row of all that stand side by side."""
        return self.among * self.span_bytes

    def offset_bytes(self, across: int, down: int, contracted: str) -> int:
        """Where in a slot a box begins. across, down: which one; contracted: the axis that products sum along. Rows
        along it go on from one load to the next, span by span; else a load stands behind the other as a whole."""
        if self.inner == contracted:
            return across * self.lines_bytes + self.which * self.span_bytes + down * self.box_bytes
        return self.which * self.slot_bytes + across * self.span_bytes + down * self.box_bytes


@dataclass(frozen=True, slots=True)
class Line:
    """In the number of a tile of rows: max(scale * number + offset, 0) // divisor."""

    scale: int
    offset: int
    divisor: int

    def at(self, number: int) -> int:
        return max(self.scale * number + self.offset, 0) // self.divisor


@dataclass(frozen=True, slots=True)
class WalkRange:
    """Which tiles of the streamed axis a tile of rows walks: from one line on, before the other. longest: tiles, of
    any. unit_end: one, where a consumer ends before its tile does: the line that it ends before, in the number of the
    consumer's rows among all of so many. passing: 1 if consumers without rows in a tile pass its slots. lacking:
    consumers of the first tile of rows that have none, since it begins before the axis does, and the last one ends with
    it."""

    begin: Line
    end: Line
    longest: int
    unit_end: tuple[Line, ...] = ()
    passing: int = 0
    lacking: int = 0


def walked_part(begin: Line, end: Line, most: int, row: int) -> tuple[int, int]:
    """The first of `most` tiles that a tile of rows walks, and how many; at least one, as `ac.range` takes them."""
    first = min(begin.at(row), most - 1)
    return first, min(max(end.at(row), first + 1), most) - first


def unit_part(end: Line, part: tuple[int, int], unit: int, units: int) -> int:
    """How many tiles of its tile's part a unit of rows walks, as `ac.unit_range` takes them: at least one, and no more
    where it is before the first or past the last of the units that have rows."""
    first, count = part
    return min(max(end.at(unit) - first, 1), count) if 0 <= unit < units else 1


@dataclass(frozen=True, slots=True)
class SumPlace:
    """Where a product's sum stands in a consumer's part of tensor memory, and where its left operand does, if threads
    computed that. stays: 1 if the tensor core adds to it while the axis is walked; else threads read each product.
    waits: 1 if the product is waited for at once; else the wait for the next one is one for it, too."""

    column: int
    operand_column: int = 0
    stays: int = 0
    waits: int = 1


ANSWERS, ANSWERS_BYTES = 3, 3 * (SPAN_BYTES + 2 * 8)
"""Slots of answers to requests for work, each at a multiple of a span, and what these and their barriers take."""


@dataclass(frozen=True, slots=True)
class CascadeDecisions:
    """row, column, streamed: axes of the program; column is "" where nothing is stored over rows and columns of a
    product. tile_columns, tile_streamed: of a tile, along the last two. A tile has `consumers` times `unit_rows` rows.
    slice_depth: elements in a slot of an axis that products take by slices; 0 where none does.
    rows_bytes: of each consumer, for stores along rows. walked: what tiles of rows walk, where not all of the axis.
    together: places of the batch whose tiles are taken together, the longest first (`ac.tiles`); 0 where one place is
    taken after the other; together_at: the size that this is, where the launch says it, else "". further,
    further_columns: axes of the columns that other products have, and how many.
    tensor_columns: of tensor memory that a CTA allocates, an equal part for each consumer; 0 where accumulators are
    registers. places: of each product in the program, where its sum stands in that part. in_vectors: results that
    leave 16 bytes at a time. shared_columns: loads, by their numbers, of numbers of the streamed columns that each warp
    keeps in shared memory. raster_group: tiles of rows in a band of the order of tiles. turns: 1 if each of two
    consumers takes whole tiles, every second one; a tile has `unit_rows` rows then. stores: results that leave in
    boxes, through `staging_slots` slots of each consumer; store_plans: how each completes. programmatic: 1 if the
    kernel is launched while the one before it still runs, and the thread that fills slots waits for that.
    releases_first: 1 if results may not leave before the last slots of a sum are released, for a next tile. sum_slots:
    where all walks only sum, slots of tensor memory for a tile's sums, which a role of its own issues; else 0.
    Where accumulators are registers, products by their numbers in the program: late, those whose sum is only
    carried on, which the next iteration issues; issued_together, those that one wait serves, each group by its
    first; and loaded_along, numbers of loads that are asked for while products run. partials: slots of an iteration of
    a walk whose sum has two levels, each with an accumulator of its own that threads add to a total; 0 where the tensor
    core keeps the sum. slot_parts: products of such a slot, of one block of scales each; scales_ahead: products whose
    scales are loaded or on their way, 0 where none has any. cluster: CTAs along rows and columns of tiles that bring
    each other what they both need.
    cut: one, if tiles are cut along the streamed axis, so that other CTAs help. prefetch: slots' tiles of an operand
    that are asked for before the kernel before has ended; prefetch_columns: 1 if of that of the columns;
    prefetch_tiles: tiles of the streamed axis of which the thread that fills slots asks for all boxes then. grouping:
    where rows stand in groups; their axis is one of the batch, whose place follows from the tile's rows. bounded_once:
    folds, by their numbers in the program, whose operands are bounded where the streamed axis ends for all that is
    computed of them in the walk. release_distance: products of a sum of slots that are issued after a slot's own before
    that one is waited for and the slot is released. split: CTAs of a cluster that share what a sum of slots walks, tile
    by tile, and add up what each has: then each stores a part of a tile's columns. teams: clusters that share
    it too, and add up through memory (`ir.ac.team`). pair: 1 if the two CTAs of a cluster, side by side along the
    rows, are a pair whose products are issued by the first. added: products whose slices threads
    add up in float32, and to what the program adds them to. ordered: 1 if consumers issue an iteration's products
    one after the other (`ir.ac.issue_order`). skips_ones: 1 if a warp passes over the multiplication of a carried sum
    where the factors of its rows are all 1; late_sums: 1 if the threads of a row add up their parts of a carried sum of
    rows behind the walk. steps: rows and columns from one tile to the next, of which
    it stores as many, where what tiles load overlaps; each 0 for as many as a tile has. Each of a tile's units has an
    equal part of such rows, and each CTA that stores some of its columns an equal part of those. loads_ahead: of a
    program that only sums, parameters whose vectors the results need and that are loaded while the first products of a
    tile run; paired_loads: matrices that they need, which are read two columns at a time. spill_slots: registers of
    each of the consumers' threads that may wait in shared memory (`lower.ptx.spill_slots`). schedule: of the loop over
    a tile's slices, where a walk only sums, with its task graph, as JSON (`synth.schedule.loop_schedule`). tile_order:
    of `ir.tile.order`. computed: 1 if the operand with the rows of a walk that only sums is computed in registers, slot
    by slot. asserts: 1 if the kernel asserts at run time what it does to tensor memory. sum_slots: of tensor memory,
    for what a role of its own issues: a walk's sums where walks only sum, else the products of an iteration that
    `issued` names by number; then a slot has issued_columns columns, beside the consumers' parts. factor_columns: the
    last of tensor_columns, for factors of blocks. handed: 1 if the hardware hands tiles out (`ir.ac.handed`): the grid
    has a CTA for each tile, `ctas` of which run at once, and answers stand in the last ANSWERS_BYTES of shared
    memory. numbers_apart: 1 if the consumers of a walk load numbers by themselves, before their first slot perhaps."""

    row: str
    column: str
    streamed: str
    batch: tuple[str, ...]
    unit_rows: int
    consumers: int
    tile_columns: int
    tile_streamed: int
    slice_depth: int
    slots: tuple[SlotDecision, ...]
    rows_bytes: int
    producer_registers: int
    consumer_registers: int
    launch_registers: int
    ctas: int
    smem_bytes: int
    reasons: tuple[str, ...]
    walked: tuple[WalkRange, ...] = ()
    together: int = 0
    further: tuple[str, ...] = ()
    further_columns: tuple[int, ...] = ()
    tensor_columns: int = 0
    places: tuple[SumPlace, ...] = ()
    in_vectors: tuple[str, ...] = ()
    shared_columns: tuple[int, ...] = ()
    raster_group: int = RASTER_GROUP
    turns: int = 0
    stores: tuple[StoreDecision, ...] = ()
    store_plans: tuple[AsyncPlan, ...] = ()
    staging_slots: int = 0
    staging_slot_bytes: int = 0
    programmatic: int = 0
    releases_first: int = 0
    sum_slots: int = 0
    late: tuple[int, ...] = ()
    issued_together: tuple[tuple[int, ...], ...] = ()
    loaded_along: tuple[int, ...] = ()
    partials: int = 0
    cluster: tuple[int, int] = (1, 1)
    cut: tuple[TileStream, ...] = ()
    prefetch: int = 0
    prefetch_columns: int = 0
    prefetch_tiles: int = 0
    grouping: tuple[GroupDecision, ...] = ()
    added: tuple[int, ...] = ()
    bounded_once: tuple[int, ...] = ()
    release_distance: int = 1
    split: int = 1
    teams: int = 1
    ordered: int = 0
    skips_ones: int = 0
    late_sums: int = 0
    pair: int = 0
    slot_parts: int = 1
    scales_ahead: int = 0
    loads_ahead: tuple[str, ...] = ()
    paired_loads: tuple[str, ...] = ()
    spill_slots: int = 0
    schedule: str = ""
    steps: tuple[int, int] = (0, 0)
    tile_order: str = "grouped"
    computed: int = 0
    asserts: int = 0
    issued: tuple[int, ...] = ()
    issued_columns: int = 0
    factor_columns: int = 0
    handed: int = 0
    numbers_apart: int = 0
    together_at: str = ""

    @property
    def unit_end(self) -> Line | None:
        """Where a consumer's walk ends by itself, in the number of its rows; None where all of a tile end together."""
        return self.walked[0].unit_end[0] if self.walked and self.walked[0].unit_end else None

    @property
    def rows_before(self) -> int:
        """By how many rows the first tile begins before the axis does."""
        return self.walked[0].lacking * self.unit_rows if self.walked else 0

    def before(self, axis: str) -> int:
        """By how many elements the first tile along an axis begins before the axis does."""
        return self.rows_before if axis == self.row else 0

    @property
    def sums_alone(self) -> bool:
        """Whether walks only sum, into slots of tensor memory."""
        return self.sum_slots > 0 and not self.issued

    @property
    def row_step(self) -> int:
        """Rows from one tile to the next."""
        return self.steps[0] or self.tile_rows

    @property
    def column_step(self) -> int:
        """Columns from one tile to the next."""
        return self.steps[1] or self.tile_columns

    @property
    def part_step(self) -> int:
        """Columns from one part of a tile to the next."""
        return self.split_sum.part_step

    @property
    def spill_bytes(self) -> int:
        """Shared memory of the slots of all consumers' threads."""
        return spill_bytes(self.consumers, self.spill_slots)

    @property
    def deal(self) -> Hierarchy:
        """What each place of a cluster computes of its tiles: units and CTAs rows and columns; CTAs and clusters that
        share a tile take the streamed axis's tiles one after the other."""
        return dealt(
            {
                "warpgroup": [(self.tile_units, self.row, self.unit_step)],
                "cta": [
                    (self.cluster[0], self.row, self.row_step),
                    (self.cluster[1], self.column, self.column_step),
                    (self.split, self.streamed, self.tile_streamed),
                ],
                "cluster": [(self.teams, self.streamed, self.split * self.tile_streamed)],
            }
        )

    @property
    def behind_sums(self) -> dict[str, State]:
        """What each place of a level has of a tile's sum when those that share it have added up: CTAs of a cluster a
        part of the columns each, as far as these go; of the clusters that share it, one."""
        parts = sum_parts(self.tile_columns, self.split)
        return {"cta": Along(self.column, self.column_step // parts, parts), "cluster": Held.ONE}

    @property
    def shares(self) -> int:
        """CTAs that walk parts of a tile's sum."""
        return self.split * self.teams

    @property
    def team_sum(self) -> TeamSum:
        """How clusters take the sum of a tile."""
        return TeamSum(self.teams, self.split, self.consumers, self.unit_rows, self.stored_along(self.column))

    @property
    def split_sum(self) -> SplitSum:
        """How CTAs of a cluster take the sum of a tile."""
        part = self.behind_sums["cta"]
        assert isinstance(part, Along)
        return SplitSum(self.split, self.consumers, self.tile_rows, self.tile_columns, part.count, part.step)

    @property
    def filler_waits(self) -> bool:
        """Whether the thread that fills slots waits for the launch before by itself, at its tiles; where rows stand in
        groups, all read first where these end, and threads that copy wait each for itself."""
        return bool(self.programmatic) and not (self.grouping or self.copies_by_threads)

    @property
    def filler_is_elected(self) -> bool:
        """Whether the thread that fills slots is elected, since tables lead it to many small boxes: the assembler then
        makes no loop over lanes of each copy, which takes longer than the copy. Others, with few boxes a slot, gain
        nothing by it (`python -m bench paged`)."""
        return any(slot.lookups for slot in self.slots) and not self.copies_by_threads

    @property
    def consumers_wait(self) -> bool:
        """Whether the consumers do so, too, since they load scales, numbers of an operand that is computed or of a
        walk, or what results need of a sum in two levels, before the first slot. Others know of the filler's wait by
        its slots."""
        before = self.scales_ahead or self.computed or self.numbers_apart or (self.partials and self.loads_ahead)
        return self.filler_waits and bool(before)

    @property
    def copies_by_threads(self) -> bool:
        """Whether a warpgroup fills the slots, of which its threads copy some."""
        return any(slot.piece_bytes for slot in self.slots)

    @property
    def stream(self) -> TileStream | None:
        """Which tiles are cut, if any are."""
        return self.cut[0] if self.cut else None

    @property
    def cluster_ctas(self) -> int:
        return self.cluster[0] * self.cluster[1] * self.split

    @property
    def walked_together(self) -> int:
        """Tiles of the streamed axis in an iteration of a walk."""
        return max(1, self.partials)

    @property
    def scaled_copies(self) -> int:
        """Copies of an iteration's body in the emitted loop of a scaled sum: then each product's scales come back to
        their own registers."""
        return max(1, self.scales_ahead // math.gcd(self.walked_together * self.slot_parts, self.scales_ahead))

    @property
    def tile_units(self) -> int:
        """Consumers that have rows of one tile."""
        return 1 if self.turns else self.consumers

    @property
    def warp_rows(self) -> int:
        """From a warp's rows to the next one's: consumers share a product of all their rows, 16 of each warp's quarter
        of lanes for each of them."""
        return WARP_ROWS * self.consumers if self.sum_slots else WARP_ROWS

    @property
    def unit_step(self) -> int:
        """From a consumer's first row to the next one's; 0 where each takes whole tiles."""
        if self.turns:
            return 0
        return WARP_ROWS if self.sum_slots else self.row_step // self.tile_units

    @property
    def tile_rows(self) -> int:
        return self.unit_rows * self.tile_units

    def boxed(self, parameter: str) -> tuple[StoreDecision, AsyncPlan] | None:
        """How a result leaves in boxes; None for one that does not."""
        pairs = zip(self.stores, self.store_plans, strict=True)
        return next((pair for pair in pairs if pair[0].parameter == parameter), None)

    @property
    def columns_bytes(self) -> int:
        """Of each consumer, for `shared_columns`."""
        return shared_columns_bytes(len(self.shared_columns), self.tile_streamed)

    @property
    def sliced(self) -> tuple[str, ...]:
        """The axes that products take by slices."""
        return tuple(dict.fromkeys(slot.sliced for slot in self.slots if slot.sliced))

    def columns_along(self, axis: str) -> int:
        """Of a tile, along an axis of columns."""
        return {self.column: self.tile_columns, **dict(zip(self.further, self.further_columns, strict=True))}[axis]

    def stored_along(self, axis: str) -> int:
        """Columns of a tile that a CTA stores, along an axis of columns."""
        return self.columns_along(axis) // self.split_sum.parts

    def tile_extent(self, axis: str) -> int:
        """Elements of a tile along an axis; 1 for an axis of the batch, or one that is taken whole."""
        sizes = {self.row: self.tile_rows, self.column: self.tile_columns, self.streamed: self.tile_streamed}
        return sizes.get(axis, self.slice_depth if axis in self.sliced else 1)

    def step_along(self, axis: str) -> int:
        """Elements from one tile to the next along an axis."""
        steps = {self.row: self.row_step, self.column: self.column_step}
        return steps.get(axis, self.tile_extent(axis))

    def parts_along(self, axis: str) -> tuple[int, int]:
        """Parts of a tile along an axis that are loaded apart, since they overlap, and how far one begins after the
        other; a single one where none do."""
        if self.steps[0] and axis == self.row:
            return self.tile_units, self.unit_step
        if self.steps[1] and axis == self.column:
            return self.split_sum.parts, self.part_step
        return 1, 0

    def loaded_at(self, axis: str, number: int) -> int:
        """How far behind the tile's first element along an axis lies the one with this number in a slot."""
        parts, step = self.parts_along(axis)
        if parts == 1:
            return number
        part, within = divmod(number, self.tile_extent(axis) // parts)
        return part * step + within


def shared_columns_bytes(loads: int, columns: int) -> int:
    """Of a consumer's shared memory for so many loads' numbers of a tile's columns: float32, a part for each warp."""
    return 4 * 4 * loads * columns


OWN, REST = "K_own", "K_rest"
"""Counts of iterations that change something in a consumer's rows, and of those that are left of its tile."""


def slices_symbol(axis: str) -> str:
    """What a kernel calls the number of an axis's slices."""
    return f"{axis}_slices"
