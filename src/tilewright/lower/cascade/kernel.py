"""How a decided program of products and folds over a streamed axis becomes a producer role and consumer warpgroups.

One thread fills the rings in the order in which a tile's walk needs them, or a warpgroup, where its threads copy what
no tensor map describes; the consumers (`consumer`) hold values in registers. Nothing is asked about what the program
computes: rings, products, folds and stores are the program's own.

Checked by: tests/lower/cascade.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, takewhile

from xdsl.dialects.builtin import IntAttr, ModuleOp, StringAttr
from xdsl.ir import SSAValue

from tilewright.base.element import Element
from tilewright.base.plan import Buffer
from tilewright.base.size import Size, computed, product, value_of
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.async_copy import AsyncCopyWaitOp
from tilewright.ir.cascade import OWN, REST, WARP_ROWS, CascadeDecisions, slices_symbol
from tilewright.ir.cascade_facts import Product, cascade_axes, first_alike, loads_of_walk, products_of
from tilewright.ir.copy_decisions import StoreDecision
from tilewright.ir.group_rows import in_line
from tilewright.ir.issued_products import loads_issued
from tilewright.ir.placed_program import placements
from tilewright.ir.tier import MemoryType
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import buffers, loads, loops, parameter_name
from tilewright.ir.tile.unedited import while_unedited
from tilewright.lower.build import (
    Build,
    affine,
    counted_loop,
    global_array,
    new_kernel,
    new_role,
    order_properties,
    tensor_map,
    wait_for_launch_before,
)
from tilewright.lower.cascade.consumer import Consumer
from tilewright.lower.cascade.handed import Work, declare_work
from tilewright.lower.cascade.issued_ahead import Ahead, add_issuer_ahead
from tilewright.lower.cascade.own_walk import open_own_walk, pass_without_rows
from tilewright.lower.cascade.place import (
    KnownPlaces,
    Place,
    cluster_counts,
    is_in_line,
    most_tiles,
    open_tiles,
    own_axes,
    rows_first,
    slot_coordinates,
    tile_counts,
    tiles_walked,
    walk_count,
)
from tilewright.lower.cascade.remade import declare_rooms
from tilewright.lower.cascade.shared import Shared
from tilewright.lower.cascade.slot_sums import Sums, add_issuer, declare_sums
from tilewright.lower.cascade.slots import (
    Ring,
    behind_barriers,
    columns_address,
    declare_rings,
    fill,
    leaders,
    partials_address,
    rows_address,
    spilled_address,
    staging_address,
)
from tilewright.lower.cascade.tensor_product import declare_memory, set_up, take_down
from tilewright.lower.distribution.issue_order import end_issue_order, start_issue_order
from tilewright.lower.distribution.split_product import (
    declare_meeting,
    share_of_result,
    split_index,
    start_meetings,
)
from tilewright.lower.distribution.stream_product import (
    declare_partial_sums,
    sections,
    stream_symbols,
    stream_workspaces,
)
from tilewright.lower.distribution.team_sum import share_in_tile, stored_by_last, team_workspaces
from tilewright.lower.distribution.turns import LEAST_SLOTS, declare_turns
from tilewright.lower.prefetch import SliceBoxes, ask_ahead
from tilewright.lower.program import Counts, map_dims, map_strides, shape_of
from tilewright.lower.ptx.run_time import WALKED
from tilewright.lower.ptx.spill_slots import declare_spill_slots
from tilewright.lower.staged_store import bulk_wait, declare_staging, further_maps

_WARPGROUP = 128


@while_unedited
def cascade_kernel(program: tile.ProgramOp, d: CascadeDecisions) -> tuple[ModuleOp, tuple[Buffer, ...]]:
    """The kernel of a program that walks an axis by tiles, and the workspaces that it takes besides."""
    walked = d.walked[0].longest if d.walked else tiles_walked(program, d)
    in_all, late = most_tiles(program, d), d.release_distance
    # What stands before a walk's loop; a turn is passed on once a product is done.
    least = max(LEAST_SLOTS, late + 1) if d.turns else max(1, late)
    left = value_of(in_all, program.extents) - (d.stream.tiles if d.stream else 0)
    # So many CTAs are there at most; of run-time tiles no more than one each.
    launched = d.ctas // d.split
    ctas: Size = in_all if d.handed else launched // d.cluster[1]
    if not isinstance(in_all, int):
        clusters = in_all if d.cluster == (1, 1) else product(cluster_counts(program, d))
        ctas = product((computed("min", clusters, d.ctas // d.cluster_ctas), d.cluster[0]))
    symbols = {
        WALKED: (walked // d.walked_together, least),
        "tiles": (left if d.handed else -(-left // launched), int(bool(d.handed))),
    }
    symbols |= {OWN: (walked, 1), REST: (walked - 1, 0)} if d.unit_end is not None else {}
    symbols |= stream_symbols(d.stream, walked, least)
    symbols |= {slices_symbol(axis): (-(-program.extents[axis] // d.slice_depth), 1) for axis in d.sliced}
    module, build = new_kernel(
        program.sym_name.data, symbols, (ctas, d.cluster[1], d.split), (*d.cluster, d.split),
        _first_consumer(d) + _WARPGROUP * d.consumers, d.smem_bytes, d.launch_registers, program.run_time,
        {} if d.walked else {WALKED: walk_count(program, d)},
    )  # fmt: skip
    rings = declare_rings(build, program, d)
    rooms = declare_rooms(build, d, rings)
    arrays = _declare_arrays(build, program, d, rings)
    rows = _declare_room(build, "rows", rows_address(d), d.rows_bytes, d.consumers)
    columns = _declare_room(build, "columns", columns_address(d), d.columns_bytes, d.consumers)
    staging_at, units = staging_address(d), d.consumers
    staging = declare_staging(build, d.stores, d.staging_slots, d.staging_slot_bytes, staging_at, units)
    turns = declare_turns(build, behind_barriers(d)) if d.turns else None
    exchanges = placements(program, d.deal, tuple(rings), d.behind_sums).exchanges
    met = {each.space for listed in exchanges.values() for each in listed}
    meeting = None
    if "shared::cluster" in met:
        meeting = declare_meeting(build, d.split_sum, partials_address(d), behind_barriers(d))
    workspaces = stream_workspaces(program, d.stream, d.tile_units, (d.unit_rows, d.tile_columns))
    if "global" in met:
        workspaces = team_workspaces(program, d.team_sum, tile_counts(program, d))
    partials = declare_partial_sums(build, workspaces)
    declare_spill_slots(build, d.spill_slots, d.consumers, spilled_address(d))
    _ask_ahead(build, d, rings, tile_counts(program, d))
    sums = declare_sums(build, d) if d.sum_slots else None
    memory = declare_memory(build, d) if d.tensor_columns and sums is None else None
    allocated = memory if sums is None else sums.memory
    memory = allocated if d.issued else memory
    work = declare_work(build, d) if d.handed else None
    declared = [each.ring for each in rings.values() if not each.decision.joined]
    further = (turns, sums and sums.ring, meeting and meeting.ring, work and work.ring)
    for ring in (*declared, *(each for each in further if each is not None)):
        build.add(ac.BarrierInitOp.create(operands=[ring]))
    if allocated is not None and not d.pair:
        set_up(build, d, allocated)
    build.add(ac.FenceBarrierInitOp.create())
    build.add(ac.CtaSyncOp.create() if d.cluster_ctas == 1 else ac.ClusterSyncOp.create())
    if allocated is not None and d.pair:
        # Two CTAs allocate together once both run.
        set_up(build, d, allocated)
        build.add(ac.CtaSyncOp.create())
    if d.programmatic and not d.filler_waits:
        wait_for_launch_before(build)
    _add_producer(build, program, d, rings, arrays, work)
    if sums is not None and d.issued:
        add_issuer_ahead(build, program, d, rings, sums, _WARPGROUP, work)
    elif sums is not None:
        add_issuer(build, program, d, rings, sums, _WARPGROUP, limits_of(d, arrays))
    shared = Shared(rows, columns, staging, turns, memory, partials, meeting, rooms, exchanges)
    _add_consumer(build, program, d, rings, shared, arrays, sums, work)
    if allocated is not None:
        take_down(build, d, allocated)
    if d.cluster_ctas > 1 and not d.pair:
        build.add(ac.ClusterSyncOp.create())
    return module, workspaces


def _ask_ahead(build: Build, d: CascadeDecisions, rings: dict[tile.LoadOp, Ring], counts: Counts) -> None:
    """The first slices of an operand of the first tile. counts: of tiles."""
    if not d.prefetch:
        return
    axis = d.column if d.prefetch_columns else d.row
    ring = next(ring for ring in rings.values() if axis in (ring.decision.inner, ring.decision.outer))
    slot = ring.decision
    across = list(range(0, slot.inner_elements, slot.box[0]))
    down = [d.loaded_at(slot.outer, number) for number in range(0, slot.rows, slot.box_rows)]
    outer, along = (down, across) if slot.inner == d.streamed else (across, down)
    boxes = SliceBoxes(d.prefetch_columns, d.step_along(axis), d.tile_streamed, outer, along, slot.inner == d.streamed)
    ask_ahead(build, ring.source, boxes, d.prefetch, counts[:2], order_properties(d))


def _first_consumer(d: CascadeDecisions) -> int:
    """The first thread of the consumers: behind the warpgroups of those that fill and issue."""
    return _WARPGROUP * (2 if d.sum_slots else 1)


def _declare_room(build: Build, name: str, address: int, size_bytes: int, consumers: int) -> SSAValue | None:
    """A buffer with an instance for each consumer, in which warps have parts of their own; None of no bytes."""
    if not size_bytes:
        return None
    kind = MemoryType(
        StringAttr("SMEM"), StringAttr(Element.U8.value), IntAttr(1), IntAttr(size_bytes), StringAttr("none")
    )
    properties = {"sym_name": StringAttr(name), "address": IntAttr(address), "instances": IntAttr(consumers)}
    return build.value(ac.BufferOp.create(properties=properties, result_types=[kind]))


def _declare_arrays(
    build: Build, program: tile.ProgramOp, d: CascadeDecisions, rings: dict[tile.LoadOp, Ring]
) -> dict[str, SSAValue]:
    """The arrays that threads reach by themselves: results, what is loaded and not brought, and tables that say where
    what is brought lies; and the maps of results that leave in boxes."""
    read = [load for load in loads(program) if first_alike(program, load) not in rings]
    plain = {parameter_name(program, load.tensor) for load in read}
    plain |= {each.table for slot in d.slots for each in slot.lookups}
    plain |= {each.limits for each in d.grouping}
    copied = {ring.decision.buffer: ring.source for ring in rings.values() if ring.decision.piece_bytes}
    arrays: dict[str, SSAValue] = {}
    for each in d.stores:
        along = _box_axes(program, each, d)
        dims, apart = map_dims(program, each.map, along), map_strides(program, each.map, each.parameter, along)
        arrays[each.parameter] = tensor_map(build, each.parameter, each.parameter, each.map, dims, apart)
        for kept, name, further in further_maps(program, each):
            arrays[kept] = tensor_map(build, name, each.parameter, further, dims, apart)
    for buffer, argument in zip(buffers(program), program.body.block.args, strict=True):
        axes, shape = tile.tensor_type(argument).axis_names, shape_of(program, buffer.name)
        apart = tile.tensor_type(argument).stride_sizes
        for grouping in d.grouping if is_in_line(axes, d) else ():
            buffer = in_line(buffer, grouping.pitch)
            axes, shape, apart = own_axes(axes, d), buffer.shape, buffer.strides
        if buffer.role == "output":
            order = [axes.index(axis) for axis in rows_first(axes, d)]
            shape, apart = (tuple(sizes[at] for at in order) for sizes in (shape, apart))
        if (buffer.role == "output" and d.boxed(buffer.name) is None) or buffer.name in plain:
            arrays[buffer.name] = copied.get(buffer.name) or global_array(build, buffer, shape, apart)
    return arrays


def _box_axes(program: tile.ProgramOp, store: StoreDecision, d: CascadeDecisions) -> list[str]:
    """The axes of the dimensions of a result's map, from the innermost on."""
    arguments = zip(program.parameters, program.body.block.args, strict=True)
    axes = next(tile.tensor_type(each).axis_names for name, each in arguments if name.data == store.parameter)
    column = next(axis for axis in axes if axis in (d.column, *d.further, d.streamed))
    return [d.row, column] if store.turned else [column, d.row, *(axis for axis in reversed(axes) if axis in d.batch)]


def limits_of(d: CascadeDecisions, arrays: dict[str, SSAValue]) -> SSAValue | None:
    """The array that says where groups of rows end; None where there are no groups."""
    return next((arrays[each.limits] for each in d.grouping), None)


def _add_producer(
    build: Build,
    program: tile.ProgramOp,
    d: CascadeDecisions,
    rings: dict[tile.LoadOp, Ring],
    arrays: dict[str, SSAValue],
    work: Work | None,
) -> None:
    unit = "warpgroup128" if d.copies_by_threads else "thread1"
    role, number = new_role(build, "producer", unit, 1, 0, d.producer_registers, elected=d.filler_is_elected)
    led = leaders(rings)
    starts: Sequence[SSAValue] = [rings[load].start(role, "empty") for load in led]
    starts = starts if work is None else [*starts, work.start(role, "empty"), work.start(role, "full")]
    share = split_index(role, d.split_sum)
    for section in sections(d.stream):
        outer, place, carried = open_tiles(role, program, d, starts, section=section, limits=limits_of(d, arrays))
        place = replace(place, share=share_in_tile(outer, d.team_sum, share, place.team))
        if d.prefetch_tiles:
            _ask_for_boxes(outer, program, d, rings, arrays, place)
        if d.filler_waits:
            # At every tile, where it costs nothing any more: before the first it would come before the tile's place.
            wait_for_launch_before(outer)
        asked = [] if work is None else [work.ask(outer, carried[-2])]
        brought = _bring_tile(outer, program, d, rings, arrays, place, dict(zip(led, carried, strict=False)))
        asked += [] if work is None else [work.take(outer, carried[-1], number, meets=False)]
        outer.add(ac.YieldOp.create(operands=[*(brought[load] for load in led), *asked]))
        starts = outer.results()
    if d.copies_by_threads:
        role.add(AsyncCopyWaitOp.create())
    for load, cursor in zip(led, starts, strict=False) if d.tensor_columns else ():
        # The tensor core releases slots at any later time: the CTA must still be there.
        role.add(ac.DrainOp.create(operands=[rings[load].ring, cursor]))


def _ask_for_boxes(
    outer: Build,
    program: tile.ProgramOp,
    d: CascadeDecisions,
    rings: dict[tile.LoadOp, Ring],
    arrays: dict[str, SSAValue],
    place: Place,
) -> None:
    """Ask for the boxes of a tile's own slots, and of the first tiles that its first walk passes. Tables that lead to
    them are asked early too, and once more where slots are filled."""
    passed = loads_of_walk(loops(program)[0], products_of(program), list(rings))
    own = [load for load, ring in rings.items() if ring.decision.resident]
    asked = [(place, own)]
    for number in range(d.prefetch_tiles):
        where = place.walking(outer, d, affine(outer, [], number))
        asked.append((where, [load for load in rings if load in passed and load not in own]))
    for where, together in asked:
        known: KnownPlaces = {}
        for load in together:
            slot, source = rings[load].decision, rings[load].source
            for coordinates in slot_coordinates(outer, slot, arrays, where, d, known).values():
                outer.add(ac.BoxPrefetchOp.create(operands=[source, *coordinates]))


def _bring_tile(
    outer: Build,
    program: tile.ProgramOp,
    d: CascadeDecisions,
    rings: dict[tile.LoadOp, Ring],
    arrays: dict[str, SSAValue],
    place: Place,
    cursors: dict[tile.LoadOp, SSAValue],
) -> dict[tile.LoadOp, SSAValue]:
    """Fill the slots that a tile's walks need, in their order; the cursors behind them."""
    listed = list(rings)

    def bring(at: Build, together: Sequence[tile.LoadOp], where: Place) -> None:
        """Fill a slot of each. Tables are asked for all of them before a slot is waited for, so that both take their
        time at once."""
        known: KnownPlaces = {}
        found = [slot_coordinates(at, rings[load].decision, arrays, where, d, known) for load in together]
        pairs = [(rings[load], coordinates) for load, coordinates in zip(together, found, strict=True)]
        for number, load in enumerate(together):
            if load in cursors:
                joined = takewhile(lambda pair: pair[0].decision.joined, pairs[number + 1 :])
                fill(at, cursors[load], [pairs[number], *joined])
                cursors[load] = rings[load].advance(at, cursors[load])

    def bring_in_turn(
        at: Build,
        symbol: str,
        axis: str,
        passing: list[tile.LoadOp],
        where: Place,
        in_slices: Sequence[list[tile.LoadOp]] = (),
    ) -> None:
        """Fill slots for each tile along an axis; what has slices of another is brought slice by slice."""
        carried = [load for load in passing if load in cursors]
        inner, block, op = counted_loop(at, 0, [cursors[load] for load in carried], symbol=symbol)
        index, *arguments = block.args
        cursors.update(zip(carried, arguments, strict=True))
        for number in range(d.walked_together if axis == d.streamed else 1):
            fill_slots(inner, axis, passing, where, index, number, in_slices)
        inner.add(ac.YieldOp.create(operands=[cursors[load] for load in carried]))
        cursors.update(zip(carried, op.outputs, strict=True))

    def fill_slots(
        inner: Build,
        axis: str,
        passing: list[tile.LoadOp],
        where: Place,
        index: SSAValue,
        number: int,
        in_slices: Sequence[list[tile.LoadOp]],
    ) -> None:
        """Those of an iteration's tile along an axis. number: which of the iteration's; in_slices: the operands of each
        product that takes slices, in order; one that several take is brought for each."""
        if axis == d.streamed:
            here = where.walking(inner, d, affine(inner, [(index, d.walked_together)], number) if d.partials else index)
        else:
            here = where.along(axis, index)
        left, products_left = list(passing), list(in_slices)
        while left:
            sliced = rings[left[0]].decision.sliced
            if sliced in ("", axis):
                # In order: what comes behind a load that has slices waits for it.
                together = list(takewhile(lambda load: rings[load].decision.sliced in ("", axis), left))
                bring(inner, together, here)
            else:
                together = products_left.pop(0)
                axis_of_slices = rings[together[0]].decision.sliced
                bring_in_turn(inner, slices_symbol(axis_of_slices), axis_of_slices, together, here)
            again = set(chain.from_iterable(products_left))
            left = [load for load in left if load not in together or load in again]

    for load in listed:
        if rings[load].decision.resident:
            bring(outer, [load], place)
    products = products_of(program)
    for loop in loops(program):
        needed = loads_of_walk(loop, products, listed)
        passing = [load for load in listed if load in needed and not rings[load].decision.resident]
        bring_in_turn(outer, place.section.slices, d.streamed, passing, place, _in_slices(loop, products, rings))
    return cursors


def _in_slices(
    loop: tile.LoopOp, products: Sequence[Product], rings: dict[tile.LoadOp, Ring]
) -> list[list[tile.LoadOp]]:
    """The operands of each product of a walk that takes slices, in the order in which consumers take them."""
    inside = [each for each in products if each.op.parent_op() is loop]
    sides = [(each.held.owner, each.brought) for each in inside]
    found = [[load for load in pair if isinstance(load, tile.LoadOp) and load in rings] for pair in sides]
    return [pair for pair in found if all(rings[load].decision.sliced for load in pair)]


def _add_consumer(
    build: Build,
    program: tile.ProgramOp,
    d: CascadeDecisions,
    rings: dict[tile.LoadOp, Ring],
    shared: Shared,
    arrays: dict[str, SSAValue],
    sums: Sums | None,
    work: Work | None,
) -> None:
    apart = None if d.warp_rows == WARP_ROWS else d.warp_rows
    role, unit = new_role(
        build, "consumer", "warpgroup128", d.consumers, _first_consumer(d), d.consumer_registers, apart
    )  # fmt: skip
    read = loads_issued(program, d)[1] if d.issued else rings.keys()
    led = [] if d.sums_alone else [load for load in leaders(rings) if load in read]
    starts: Sequence[SSAValue] = [rings[load].start(role, "full") for load in led]
    starts = starts if sums is None else [*starts, sums.start(role, "full")]
    starts = [*starts, *start_meetings(role, shared.meeting)]
    starts = starts if work is None else [*starts, work.start(role, "full")]
    share = split_index(role, d.split_sum)
    stored = share_of_result(role, d.split_sum, share)
    order = start_issue_order(role, d, unit)
    for section in sections(d.stream):
        outer, place, carried = open_tiles(role, program, d, starts, shared.turns, section, limits_of(d, arrays))
        open_own_walk(outer, program, d, place, unit)
        if d.consumers_wait:
            outer.add(ac.GridWaitOp.create())
        cursors = dict(zip(led, carried, strict=False))
        reads = (sums, carried[0]) if sums is not None and d.sums_alone else None
        ahead = Ahead(sums, carried[len(led)]) if sums is not None and d.issued else None
        kept, place = stored_by_last(outer, d.team_sum, stored, place.team), replace(place, share=share)
        consumer = Consumer(
            outer, program, d, cascade_axes(program), rings, arrays, shared, unit, place, cursors, reads, kept,
            carried[len(led) :] if sums is None and work is None else [], issue_order=order, ahead=ahead,
        )  # fmt: skip
        consumer.run()
        pass_without_rows(consumer, dict(zip(led, carried, strict=False)))
        left = [consumer.cursors[load] for load in led] if consumer.sums is None else [consumer.sums[1]]
        left += [consumer.ahead.cursor] if consumer.ahead is not None else []
        left += consumer.meetings
        left += [] if work is None else [work.take(consumer.build, carried[-1], unit, meets=True)]
        outer.add(ac.YieldOp.create(operands=left))
        starts = outer.results()
    end_issue_order(role, order, unit)
    if d.staging_slots:
        # Shared memory must outlive the copies out of it; what they write is seen when the grid has ended.
        role.add(bulk_wait(unit, 0))
