"""How large are the tiles of a program of products and folds, and what of shared memory has each array?

A consumer warpgroup holds 64 rows: what is carried along the streamed axis, and one tile of values over rows and
streamed columns, in float32 and once more as the next product's operand. The widest tile of the streamed axis is taken
whose values fit a thread's registers, and whose slots fit shared memory twice, so that one is filled while the other is
read. Two consumers share a CTA's slots, and each computes while the other's products run; one alone is taken where its
smaller tiles take less time in all, as where there are fewer tiles than multiprocessors. Three of them keep more warps
busy where threads compute an operand between two products, if so few registers do. Two CTAs of one consumer each share
a multiprocessor where tiles have too few rows for two and half of its memory does: each computes while the other waits.

Where sums stay in tensor memory and all walks only sum, a role of its own issues products of all consumers' rows, and
the consumers read a tile's sums while those of the next are made: as many columns are allocated twice, if they fit.

Where the tensor core keeps too few bits of sums of 8-bit products, a walk that only sums them keeps two levels
(`synth.tile.accumulation`), and in others threads add what it sums (`added_sums`).

Not handled: operands that no tensor map describes. Checked by: tests/synth/cascade/test_decide.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tilewright.base.plural import counted
from tilewright.base.size import ceil_div, settled
from tilewright.ir.ac.split import sum_parts
from tilewright.ir.cascade import (
    ANSWERS_BYTES,
    RASTER_GROUP,
    SPAN_BYTES,
    CascadeDecisions,
    SlotDecision,
    shared_columns_bytes,
)
from tilewright.ir.cascade_facts import (
    CascadeAxes,
    Product,
    all_slot_sums,
    carried_sum,
    cascade_axes,
    first_alike,
    is_of_slots,
    loads_of_walk,
    may_end_within,
    multiplied_loads,
    products_of,
    refuse_at,
    refuse_map,
    rows_loaded,
    streamed_axis,
)
from tilewright.ir.copy_decisions import BLOCK_ROWS
from tilewright.ir.decisions import ROWS_BYTES
from tilewright.ir.scaled_terms import loads_of_scales
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import block_size
from tilewright.ir.tile.facts import loads, loops, parameter_name, stores
from tilewright.ir.tile.gather import GatherOp, blocks_along, read_dimensions, read_tensor
from tilewright.ir.tile.types import tensor_type
from tilewright.ir.tile.unedited import while_unedited
from tilewright.ir.tile.walked_block import WalkedBlockOp
from tilewright.synth.cascade.groups import begins_early_in_groups, group_decision, tile_count, tiles_of
from tilewright.synth.cascade.slots.joined_slots import joined_slots
from tilewright.synth.cascade.slots.looked_up import by_tables, looked_up_registers
from tilewright.synth.cascade.slots.own_bytes import brings_its_own
from tilewright.synth.cascade.slots.prefetched_tiles import prefetched_tiles
from tilewright.synth.cascade.slots.remade import (
    inner_axis,
    made_anew,
    room_bytes,
)
from tilewright.synth.cascade.slots.shared_columns import shared_columns
from tilewright.synth.cascade.slots.slot_maps import (
    SLICE_SPANS,
    WalkTile,
    check_brought,
    elements_of_span,
    elements_of_step,
    legal_slot,
    obstacles,
    tiniest_tile,
    whole_columns,
)
from tilewright.synth.cascade.slots.slot_pieces import by_threads, piece_words
from tilewright.synth.cascade.slots.unmapped_slots import with_room
from tilewright.synth.cascade.sums.added_sums import added_products, registers_of_values
from tilewright.synth.cascade.sums.pairs import CLUSTER as PAIR
from tilewright.synth.cascade.sums.pairs import obstacle, pair_columns, refuse_other_clusters
from tilewright.synth.cascade.sums.register_sum import sum_in_registers
from tilewright.synth.cascade.sums.sum_tile import choose_sum_tile, is_computed
from tilewright.synth.cascade.sums.sum_time import sum_cycles
from tilewright.synth.cascade.sums.tensor_columns import (
    SUM_SLOTS,
    slot_sums,
    staying_sums,
    summed_columns,
    tensor_placement,
)
from tilewright.synth.cascade.sums.tensor_factors import factor_words, loads_of_factors, refuse_pairs, scaling_remedy
from tilewright.synth.cascade.values import check_neighbours, check_stores, check_values, stored_in_vectors
from tilewright.synth.cascade.walk import issued_ahead
from tilewright.synth.cascade.walk.issue_plan import IssuePlan, issue_plan
from tilewright.synth.cascade.walk.past_end import bounded_once
from tilewright.synth.cascade.walk.tile_order import TakenOrder, order_of_launch, order_of_walks
from tilewright.synth.cascade.walk.walk_iteration import adds_late, order_pays, skips_ones
from tilewright.synth.cascade.walk.walk_range import unit_range, walk_range
from tilewright.synth.cascade.walk.walk_time import (
    consumers_percent,
    ctas_together,
    iteration_cost,
    walk_cost,
    walked_lengths,
    walked_share,
)
from tilewright.synth.cascade.walked_store import walked_stores
from tilewright.synth.cut.time import microseconds, streaming_slots
from tilewright.synth.distribution.split import clusters_at_once
from tilewright.synth.operand.async_plan import plan_store, plan_words
from tilewright.synth.operand.paired_loads import choose_paired_loads
from tilewright.synth.run_time_extents import refuse_run_time_walk
from tilewright.synth.schedule.prefetch import prefetched_slices
from tilewright.synth.store.register_budget import register_budget
from tilewright.synth.store.spill_slots import refuse_spill_slots
from tilewright.synth.tile.shape import TileShape
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_CONSUMERS = 2
_MOST_CONSUMERS = 3
_OTHER_REGISTERS = 44
"""Of a thread, for addresses, descriptors, positions and what one element's work needs at a time."""
_OTHER_OF_SHARED = 24
"""The same where numbers of columns are read from shared memory: with it ptxas (13.0) spills nothing in the gradients
of keys and values of head size 128 by tiles of 2 x 64 rows and 64 queries."""
_LEAST_OTHER_REGISTERS = 28
"""The same where more consumers leave no more: with it ptxas (13.0) spills nothing in attention of head size 64, causal
too, by tiles of 3 x 64 rows and 128 keys."""
_PRODUCER = 40
"""Registers of the thread that fills slots."""
_SMALL_PRODUCER = 32
"""Registers of the thread that fills slots, beside more consumers: with 40 those have eight fewer."""
_LEAST_PRODUCER = 24
"""The same beside consumers that issue in order and need more than 40 leave them."""
_FACTOR_REGISTERS = 16
"""Of a thread that fills slots, for each array of factors: without, ptxas (12.9) spills 24 bytes of a gated one."""
_RUNNING = 4
"""Registers of a thread whose products run when an iteration ends, for the slots that they read: without, ptxas (12.9)
spills 96 bytes of 232 in the causal gradients of keys and values of head size 128 by 64 queries, and none of 240."""
_MOST_STREAMED, _MOST_ALONE = 128, 256
"""Of a tile; where no product takes its values as an operand, it may be wider."""
_SUM_COLUMNS = (192, 128, 96, 64, 48, 32)
"""Of a tile whose sums stay in tensor memory, besides the most that there can be."""
_MOST_ADDED = 128
"""Columns of sums that threads add, beside those of a product: of 192, ptxas (12.9) spills 156 bytes."""
_SLOTS = (4, 3, 2)
"""Of a ring, the likelier first."""
_AHEAD = 2
"""Slots of what stays for a tile: one more is filled for the next."""
_RESIDENT = 2
"""CTAs of one consumer each that share a multiprocessor."""
_WORTH_NARROWER = 20
"""Of a walk's time narrower tiles must save this part."""
_WORDS_OF_ROW = 2
"""Rows of a thread in a block of 64."""


@while_unedited
def decide_cascade(program: tile.ProgramOp, target: Target, wanted: Wanted) -> CascadeDecisions:
    """Of a program whose loops walk an axis by tiles. Raises TilewrightError at the author's line for what is not
    compiled, and where no tile fits."""
    axes = cascade_axes(program)
    check_values(program, axes)
    check_stores(program, axes)
    refuse_pairs(program, target, products_of(program))
    reasons: list[str] = []
    sums = slot_sums(program, target) or sum_in_registers(program, target, wanted, reasons)
    refuse_run_time_walk(program, axes, summed=bool(sums))
    brought = multiplied_loads(program, axes)
    of_slots = [each for each in products_of(program) if _is_of_slots(program, each, target)]
    held = (_held_load(program, each) for each in of_slots)
    brought = tuple(dict.fromkeys((*brought, *(load for load in held if load is not None))))
    for load in brought:
        check_brought(program, load, wanted, target)
    tiniest = tiniest_tile(brought, target)
    brought += tuple(
        load
        for load in rows_loaded(program, axes)
        if load not in brought
        and parameter_name(program, read_tensor(load.tensor)) not in wanted.misaligned
        and not obstacles(program, axes, load, tiniest, target)
    )
    for load in loads(program):
        if isinstance(load.tensor.owner, GatherOp) and first_alike(program, load) not in brought:
            name = parameter_name(program, read_tensor(load.tensor))
            refuse_map(
                load, name, f"{name} is gathered, and no product multiplies it as it is", "gather it in a kernel before"
            )
    check_neighbours(program, axes, brought)
    brought += loads_of_factors(program, sums, target)
    if sums and not target.supports("tensor_memory"):
        if axes.group:
            refuse_spill_slots(wanted, f"products of rows in groups of {axes.group}")
        first = _of_sum(program, axes, brought, sums, target, wanted, reasons)
        fewer = with_room(first, wanted, target)
        return first if fewer is None else _of_sum(program, axes, brought, sums, target, fewer, reasons)
    refuse_spill_slots(wanted, "a program that does more than sum products")
    in_vectors = tuple(name for name, fits in stored_in_vectors(program, axes, wanted).items() if fits)
    shared = shared_columns(program, axes, brought, target)
    found: list[CascadeDecisions] = []
    tightest = ""
    tiles_to_try = list(_tiles(program, axes, brought, target, wanted))
    timed = target.supports("tensor_memory")
    pairs = [
        replace(each, pair=True, columns=columns)
        for each in tiles_to_try
        for columns in pair_columns(program, axes, each.consumers, each.columns, target, wanted)
    ]
    refuse_other_clusters(program, axes, target, wanted, pairs=bool(pairs))
    tiles_to_try = [] if pairs and wanted.cluster == PAIR else tiles_to_try
    taken = issued_ahead.issuable(program, axes, brought, target, wanted)
    ahead = [replace(each, issued=taken) for each in tiles_to_try if taken and each.consumers == _CONSUMERS]
    tiles_to_try = [] if ahead and wanted.issuer else tiles_to_try
    sliced = [replace(each, sliced=True) for each in tiles_to_try]
    lone = [each for each in tiles_to_try if each.consumers == 1 and not timed and wanted.resident in (None, _RESIDENT)]
    together = [replace(each, resident=_RESIDENT) for each in lone]
    for choice in [*tiles_to_try, *sliced, *together, *ahead, *pairs]:
        # The first that fits, and of its columns the first of each other kind; of all columns, where tiles are timed.
        near = [each for each in found if not timed or choice.columns == each.tile_columns]
        if any(choice.columns != each.tile_columns or _alike(choice, each, target) for each in near):
            continue
        decisions = _decided(program, axes, brought, choice, in_vectors, shared, target, wanted)
        if isinstance(decisions, str):
            # Of a CTA that has a multiprocessor to itself.
            tightest = decisions if choice.resident == 1 else tightest
        else:
            found.append(decisions)
    if found:
        shares = [1.0 if each.tensor_columns else walked_share(program, each) for each in found]
        times = [estimated_time(program, axes, each, target) for each in found]
        # Of equal ones that of most consumers, where that is a prediction.
        ranks = [
            (time * share, -each.consumers if timed else 0)
            for time, share, each in zip(times, shares, found, strict=True)
        ]
        best = found[ranks.index(min(ranks))]
        for choice in [*tiles_to_try, *together]:
            narrow = choice.streamed < best.tile_streamed and choice.columns == best.tile_columns
            if narrow and _alike(choice, best, target):
                narrower = _decided(program, axes, brought, choice, in_vectors, shared, target, wanted)
                if not isinstance(narrower, str) and _is_quicker(program, narrower, best, target):
                    best = narrower
        return best
    refuse_at(
        program,
        f"no tile of this program fits: {tightest or 'no tile has the extents that are asked for'}",
        "make the axes that every row needs whole shorter, or split the kernel",
    )


def _alike(choice: WalkTile, d: CascadeDecisions, target: Target) -> bool:
    """Whether a tile is one of the same kind, of another width perhaps."""
    kind = (d.consumers, d.slice_depth > 0, d.pair > 0, d.issued, ctas_together(d, target))
    return (choice.consumers, choice.sliced, choice.pair, choice.issued, choice.resident) == kind


def _is_quicker(program: tile.ProgramOp, d: CascadeDecisions, other: CascadeDecisions, target: Target) -> bool:
    """Whether narrower tiles of the streamed axis gain what is worth it, by what a mask or the axis's end leaves of
    them."""
    return _WORTH_NARROWER * walk_cost(program, d, target) <= (_WORTH_NARROWER - 1) * walk_cost(program, other, target)


def _is_of_slots(program: tile.ProgramOp, product: Product, target: Target) -> bool:
    """Whether a product takes both operands out of slots."""
    if target.supports("tensor_memory"):
        return is_of_slots(program, product)
    return product.op.axis.data != streamed_axis(program) or product in slot_sums(program, target)


def _of_sum(
    program: tile.ProgramOp,
    axes: CascadeAxes,
    brought: tuple[tile.LoadOp, ...],
    sums: tuple[Product, ...],
    target: Target,
    wanted: Wanted,
    reasons: list[str],
) -> CascadeDecisions:
    """Of a program that is a product with an epilogue, or several of one operand, whose accumulators are registers."""
    reasons = [*reasons]
    chosen = choose_sum_tile(program, axes, sums, target, wanted, reasons)
    shape, memory, turns = chosen.tile.shape, chosen.memory, chosen.tile.turns
    cluster, computed = chosen.cluster, is_computed(sums)
    slots = tuple(legal_slot(program, axes, load, chosen.of_slots, memory.stages, wanted, target) for load in brought)
    slots = joined_slots(program, sums, brought, slots, read_once=chosen.read_once, computed=computed)
    reasons.extend(map(piece_words, by_threads(slots)))
    launch, producer, consumer = register_budget(shape.consumers, target, shape.resident)
    tiles = _tiles_along(program, axes.row, shape.row_step * cluster[0])
    tiles *= _tiles_along(program, axes.column, shape.column_step * cluster[1])
    tiles *= math.prod(program.extents[axis] for axis in axes.batch)
    together = math.prod(cluster) * shape.split
    at_once = target.limit("device.multiprocessors") // together
    at_once = clusters_at_once(together, target) if shape.teams > 1 else at_once
    ctas = together * min(tiles * shape.teams, at_once)
    ctas = chosen.stream.ctas if chosen.stream else chosen.ctas or ctas
    tiles *= together * shape.teams
    stored = shape.columns // sum_parts(shape.columns, shape.split)
    chunks = sum(len(store.boxes(chosen.unit_rows, stored)) for store in chosen.stores)
    plans = tuple(plan_store(store, memory.staging_slots, chunks) for store in chosen.stores)
    reasons.extend(map(plan_words, plans))
    vectors = tuple(name for name, fits in stored_in_vectors(program, axes, wanted).items() if fits and axes.group)
    grouping, prefetch = group_decision(program, axes, slots, vectors), (0, 0)
    scaling = (first_alike(program, load) for each in sums for load in loads_of_scales(each.op))
    # What threads compute an operand of, they load behind a wait of their own.
    early = int(wanted.programmatic is not False)
    early = early if computed or _loads_behind(program, (*brought, *scaling)) else 0
    if grouping:
        tiles = tile_count(program, (axes.row, shape.rows), (axes.column, shape.columns), axes.batch)
        early = begins_early_in_groups(wanted, read_once=chosen.read_once)
    elif early and not chosen.stream:
        prefetch = _prefetch(program, axes, slots, shape, ctas, target, wanted)
    reasons.append(f"tiles of {shape.rows}x{shape.columns}: {'about ' if grouping else ''}{tiles} on {ctas} CTAs")
    return CascadeDecisions(
        axes.row, axes.column, axes.streamed, axes.batch, chosen.unit_rows, shape.consumers, shape.columns, shape.depth,
        0, slots, memory.rows_bytes, producer, consumer, launch, ctas, memory.bytes, tuple(reasons),
        tile_order=chosen.order[0], raster_group=chosen.order[1], turns=int(turns), stores=chosen.stores,
        store_plans=plans,
        staging_slots=memory.staging_slots, staging_slot_bytes=memory.staging_slot_bytes,
        programmatic=early, releases_first=int(bool(grouping) or shape.teams > 1 or tiles > ctas),
        partials=chosen.levels.slots, slot_parts=chosen.levels.parts, scales_ahead=chosen.levels.ahead, cluster=cluster,
        cut=(chosen.stream,) if chosen.stream else (), prefetch=prefetch[0], prefetch_columns=prefetch[1],
        grouping=grouping, release_distance=chosen.scheduled.release_distance, split=shape.split,
        teams=shape.teams, steps=shape.steps, loads_ahead=chosen.loads_ahead,
        paired_loads=choose_paired_loads(program, (axes.row, axes.column), wanted), spill_slots=wanted.spill_slots,
        schedule=chosen.scheduled.text, computed=int(computed),
    )  # fmt: skip


def _prefetch(
    program: tile.ProgramOp,
    axes: CascadeAxes,
    slots: tuple[SlotDecision, ...],
    shape: TileShape,
    ctas: int,
    target: Target,
    wanted: Wanted,
) -> tuple[int, int]:
    """Slices of the first tile that a sum asks for ahead, and whether of the columns' operand."""
    of_axis = {axis: slot for slot in slots for axis in (slot.inner, slot.outer)}
    if axes.row not in of_axis or axes.column not in of_axis or by_threads(slots):
        return 0, 0
    maps = [of_axis[axis].dims for axis in (axes.row, axes.column)]
    beside = shape.resident > 1 or shape.teams > 1 or ctas <= target.limit("device.multiprocessors") // 2
    walked = _least_tiles(program, axes.streamed, shape.depth * shape.shares)
    return prefetched_slices(maps, slots[0].slots, walked, wanted, beside=beside)


def _held_load(program: tile.ProgramOp, product: Product) -> tile.LoadOp | None:
    owner = product.held.owner
    return first_alike(program, owner) if isinstance(owner, tile.LoadOp) else None


def _decided(
    program: tile.ProgramOp,
    axes: CascadeAxes,
    brought: tuple[tile.LoadOp, ...],
    choice: WalkTile,
    in_vectors: tuple[str, ...],
    shared: tuple[int, ...],
    target: Target,
    wanted: Wanted,
    deepest: int = _SLOTS[0],
) -> CascadeDecisions | str:
    """The decisions for a tile, or what does not fit. deepest: slots of a ring, at most."""
    leaving = walked_stores(program, axes, choice.unit_rows, choice.streamed, target, wanted)
    room = (shared_columns_bytes(len(shared), choice.streamed) + leaving.bytes) * choice.consumers
    rows = _tiles_along(program, axes.row, BLOCK_ROWS * choice.consumers)
    columns = _tiles_along(program, axes.column, choice.columns) if axes.column else 1
    places = math.prod(program.extents[axis] for axis in axes.batch)
    together = PAIR[0] if choice.pair else 1
    tiles = (
        tile_count(program, (axes.row, together * choice.rows), (axes.column, choice.columns), axes.batch) * together
    )
    at_once = target.limit("device.multiprocessors")
    if choice.resident > 1 and tiles <= at_once:
        return "no more tiles than multiprocessors"
    ctas = min(tiles, at_once * choice.resident // together * together)
    slots = _slots(program, axes, brought, choice, room, deepest, target)
    if slots is None:
        return "slots larger than shared memory"
    if choice.sliced and room_bytes(slots):
        return "slices of what consumers make anew"
    if choice.pair and (reason := obstacle(axes, slots)):
        return reason
    if choice.issued and (reason := issued_ahead.obstacle(program, choice.issued, slots)):
        return reason
    if _passes_slices_again(program, slots):
        return "slices that two products of a walk take, beside other slots"
    kept = _PRODUCER if choice.consumers <= _CONSUMERS else _SMALL_PRODUCER
    kept += looked_up_registers(slots, target) + _FACTOR_REGISTERS * sum(each.factors for each in slots)
    others = 2 if slot_sums(program, target) or choice.issued else 1
    launch, producer, consumer = register_budget(choice.consumers, target, choice.resident, kept, others)
    staying, added = staying_sums(program, axes, target), added_products(program, axes, target, wanted)
    if choice.sliced and any(products_of(program)[each].op.axis.data != axes.streamed for each in added):
        return "sums of 8-bit slices, which the tensor core keeps in too few bits"
    needed = _registers(program, axes, choice, brought, bool(shared), staying, added, target)
    listed = loads(program)
    cut = {listed[each.load] for each in slots if each.sliced}
    soon = (*added, *made_anew(program, slots))
    plan = issue_plan(program, axes, brought, cut, soon, consumers=choice.consumers)
    ordered = plan.ordered and wanted.ordered is not False and not target.supports("tensor_memory")
    if wanted.ordered and not ordered:
        return "products that are asked to be issued in order, which its consumers do not"
    if ordered and not plan.late and needed + _RUNNING > consumer:
        needed += _RUNNING
        kept += _LEAST_PRODUCER - _PRODUCER
        launch, producer, consumer = register_budget(choice.consumers, target, choice.resident, kept, others)
    if needed > consumer:
        return f"values of {needed} registers a thread, of {consumer}"
    wide = _wide(program, axes, choice, target)
    placement = tensor_placement(
        program, axes, wide, choice.consumers, choice.streamed, consumer - needed, target, choice.issued,
        sum(each.factor_columns for each in slots),
    )  # fmt: skip
    if placement is None:
        return f"sums larger than {target.limit('tensor_memory.columns')} columns of tensor memory"
    allocated, sum_slots = placement.allocated, placement.sum_slots
    needed = _registers(program, axes, choice, brought, bool(shared), placement.staying, added, target)
    if needed > consumer:
        return f"values of {needed} registers a thread, of {consumer}"
    grouping = group_decision(program, axes, slots, in_vectors)
    words = (
        *(f"{each.buffer} through {each.slots} slots of {each.slot_bytes} bytes{by_tables(each)}" for each in slots),
    )
    if choice.issued:
        words += (
            f"a role issues {counted(len(choice.issued), 'product')} of an iteration, of {choice.rows} rows, into "
            f"{counted(sum_slots, 'slot')} of tensor memory",
        )
    elif sum_slots:
        issued, who = BLOCK_ROWS * choice.consumers * together, "the first CTA of a pair" if choice.pair else "a role"
        words += (f"{who} issues products of {issued} rows into {counted(sum_slots, 'slot')} of tensor memory",)
    words += placement.words(axes.streamed) + factor_words(slots, placement.factor_columns)
    words += tuple(f"about {tiles} tiles, which begin where {each.limits} says" for each in grouping)
    walked = walk_range(program, axes, BLOCK_ROWS * choice.consumers, choice.streamed)
    if walked and (choice.pair or choice.resident > 1):
        return "parts of an axis that several CTAs walk together"
    bytes_of_cta = smem_bytes(slots, choice.consumers, sum_slots, bool(choice.issued), target) + room
    plan = IssuePlan((), (), ()) if allocated else plan
    # A walk may have no iteration, as far as the proof goes: before it the consumers wait for a slot that stays, or go
    # through a first iteration by itself.
    waited = any(each.resident for each in slots) or bool(plan.late)
    early = _begins_early(program, wanted) if waited and not sum_slots else 0
    numbers = int(bool(_loaded_apart(program, brought)))
    found = CascadeDecisions(
        axes.row, axes.column, axes.streamed, axes.batch, BLOCK_ROWS, choice.consumers, choice.columns, choice.streamed,
        SLICE_SPANS * elements_of_span(brought) if choice.sliced else 0, slots, ROWS_BYTES, producer, consumer, launch,
        ctas, bytes_of_cta, (), walked, 0, axes.further,
        tuple(whole_columns(program, axis, target) for axis in axes.further), allocated, placement.places,
        in_vectors, shared,
        stores=leaving.stores, store_plans=leaving.plans, staging_slots=leaving.slots,
        staging_slot_bytes=leaving.slot_bytes, programmatic=early, sum_slots=sum_slots, late=plan.late,
        issued_together=plan.issued_together, loaded_along=plan.loaded_along, grouping=grouping, added=added,
        ordered=int(ordered),
        bounded_once=bounded_once(program, axes) if may_end_within(program, axes.streamed, choice.streamed) else (),
        pair=int(choice.pair), cluster=PAIR if choice.pair else (1, 1), asserts=int(wanted.asserts and allocated > 0),
        issued=choice.issued, issued_columns=placement.slot_columns, factor_columns=placement.factor_columns,
        numbers_apart=numbers,
    )  # fmt: skip
    passing = [each for each in slots if each.read_once]
    enough = max(_SLOTS[-1], streaming_slots(program, found, target))
    if any(each.slots > enough for each in passing):
        return _decided(program, axes, brought, choice, in_vectors, shared, target, wanted, enough)
    late, skipping = adds_late(found, target, wanted), skips_ones(program, axes, found, target, wanted)
    found = replace(found, late_sums=int(late), skips_ones=int(skipping))
    if found.ordered and found.late and not wanted.ordered and not order_pays(program, axes, found, target):
        found = replace(found, ordered=0)
    order = TakenOrder(0, ctas)
    if walked:
        apart = not (found.ordered or allocated or choice.sliced)
        found = replace(found, walked=unit_range(program, axes, found, tiles)) if apart else found
        with_answers = -(-bytes_of_cta // SPAN_BYTES) * SPAN_BYTES + ANSWERS_BYTES
        able = target.supports("cluster_launch_control") and with_answers <= target.limit("cta.shared_bytes_max")
        lengths, place_bytes = walked_lengths(program, found), _place_bytes(program, axes, slots)
        sizes = [settled(program.sizes[axis], program.run_time) for axis in axes.batch]
        tiles_m = settled(ceil_div(program.sizes[axes.row], BLOCK_ROWS * choice.consumers), program.run_time)
        if all(isinstance(size, int) for size in (tiles_m, *sizes)):
            handed = wanted.handed if able and not program.run_time else False
            order = order_of_walks(
                lengths, (rows, columns), RASTER_GROUP, places, place_bytes, ctas, target, handed
            )  # fmt: skip
        else:
            together, at = order_of_launch(
                lengths, tiles_m, columns, sizes, program.run_time, RASTER_GROUP, place_bytes, ctas, target
            )
            order, found = TakenOrder(together, ctas), replace(found, together_at=at)
        longest = counted(found.walked[0].longest, "tile")
        words += (f"{axes.streamed} walked where masks leave something: up to {longest}",)
        words += ("each consumer as far as its own rows need",) if found.unit_end else ()
        words += (f"the last tile ends with {axes.row}",) if found.rows_before else ()
        words += (f"tiles of {counted(order.together, 'place')} together, the longest first",) if order.together else ()
        words += ("each CTA asks the hardware for its next tile",) if order.handed else ()
        bytes_of_cta = with_answers if order.handed else bytes_of_cta
    words = (
        f"{choice.consumers} x {BLOCK_ROWS} rows along {axes.row}, {axes.streamed} by {choice.streamed}: "
        f"{tiles} tiles on {order.ctas} CTAs{', two on a multiprocessor' if choice.resident > 1 else ''}",
        *words,
    )
    found = replace(
        found, ctas=order.ctas, together=order.together, handed=int(order.handed), smem_bytes=bytes_of_cta,
        reasons=words,
    )  # fmt: skip
    return replace(found, prefetch_tiles=prefetched_tiles(program, found))


def _passes_slices_again(program: tile.ProgramOp, slots: Sequence[SlotDecision]) -> bool:
    """Whether a ring of slices is gone through by several loops of a walk, beside one that is not sliced: the order of
    such waits has no proof yet."""
    listed = loads(program)
    cut = [listed[each.load] for each in slots if each.sliced]
    others = any(not each.sliced and not each.resident for each in slots)
    products = products_of(program)
    taken = [loads_of_walk(loop, products, cut) for loop in loops(program)]
    return others and any(each.get(load, 0) > 1 for each in taken for load in cut)


def _begins_early(program: tile.ProgramOp, wanted: Wanted) -> int:
    """1 where a walk may begin before the launch before it has ended: it stores only what comes of slots, behind the
    walks. Of stores on the way, and of what comes of slots through a role that issues, the proof does not follow it."""
    behind = all(store.parent is program.body.block for store in stores(program))
    return int(behind and wanted.programmatic is not False)


def _loaded_apart(program: tile.ProgramOp, brought: tuple[tile.LoadOp, ...]) -> list[tile.LoadOp]:
    """What threads load by themselves."""
    return [load for load in loads(program) if first_alike(program, load) not in brought]


def _loads_behind(program: tile.ProgramOp, brought: tuple[tile.LoadOp, ...]) -> bool:
    """Whether the threads of a program that only sums load nothing by themselves but for what is done with a sum of
    slots."""
    apart = _loaded_apart(program, brought)
    return not apart or (bool(all_slot_sums(program)) and all(load.parent is program.body.block for load in apart))


def _wide(program: tile.ProgramOp, axes: CascadeAxes, choice: WalkTile, target: Target) -> dict[str, int]:
    """Columns of a tile, along each axis of columns."""
    return {axes.column: choice.columns} | {axis: whole_columns(program, axis, target) for axis in axes.further}


def estimated_time(program: tile.ProgramOp, axes: CascadeAxes, d: CascadeDecisions, target: Target) -> float:
    """Of all tiles: as predicted where sums stand in tensor memory, else in hundredths of what a wide tile of two
    consumers takes (`consumers_percent`). Where a product is left to the next iteration, a narrow tile of the streamed
    axis takes as long as one of so many columns that wgmma needs no longer for its products than for its operands;
    where all are waited for, each iteration takes something besides."""
    if d.sums_alone:
        return sum_cycles(program, axes, d, target)
    if d.places:
        return microseconds(program, replace(d, walked=()), target)
    tiles = tiles_of(program, d)
    share = consumers_percent(d, target)
    by_products = d.late or d.tensor_columns
    iteration = max(d.tile_streamed, _MOST_STREAMED) if by_products else iteration_cost(d, target)
    walked = _tiles_along(program, axes.streamed, d.tile_streamed) * iteration
    return -(-tiles // d.ctas) * share * walked / program.extents[axes.streamed]


def _place_bytes(program: tile.ProgramOp, axes: CascadeAxes, slots: tuple[SlotDecision, ...]) -> int:
    """What is brought along the streamed axis for one place of the batch."""
    return sum(
        program.extents[axes.streamed] * each.element_bytes * each.dims[0 if each.outer == axes.streamed else 1]
        for each in slots
        if axes.streamed in (each.inner, each.outer)
    )


def _least_tiles(program: tile.ProgramOp, axis: str, size: int) -> int:
    """Tiles along an axis, at the least of its extents."""
    values = program.run_time.get(axis)
    return -(-(program.extents[axis] if values is None else values.least_launched) // size)


def _tiles_along(program: tile.ProgramOp, axis: str, size: int) -> int:
    return -(-program.extents[axis] // size)


def _registers(
    program: tile.ProgramOp,
    axes: CascadeAxes,
    choice: WalkTile,
    brought: tuple[tile.LoadOp, ...],
    shared: bool,
    staying: frozenset[int],
    added: tuple[int, ...],
    target: Target,
) -> int:
    """Of a consumer's thread: what a loop carries, and one tile of values over the streamed axis. shared: whether the
    numbers of its columns are in shared memory; staying: products, by number, whose sums stay in tensor memory while an
    axis is walked, and are read behind that; added: as the decisions have it."""
    wide = {axis: columns // 2 for axis, columns in _wide(program, axes, choice, target).items()}
    narrow, carried, behind = choice.streamed // 2, 0, 0
    products = products_of(program)
    left = {(products[at].op.parent_op(), carried_sum(products[at], axes)) for at in staying}
    for loop in loops(program):
        columns = [axes.column_of(axes.kept(value)) for value in loop.outputs]
        sizes = [wide[each] if each else _WORDS_OF_ROW for each in columns]
        behind = max(behind, sum(sizes))
        carried = max(carried, sum(size for at, size in enumerate(sizes) if (loop, at) not in left))
    scores = sum(product.op.axis.data != axes.streamed for product in products)
    walks = [product for product in products if product.op.axis.data == axes.streamed]
    held = not all(_is_of_slots(program, product, target) for product in walks)
    multiplied = {_held_load(program, product) for product in walks if _is_of_slots(program, product, target)}
    read = sum(
        axes.kept(load.result) == frozenset({axes.row, axes.streamed}) and load not in multiplied for load in brought
    )
    widest = max((each.element_bytes for each in walks), default=0)
    packed = read * (narrow // 2) + held * (narrow * widest // 4)
    if slot_sums(program, target):
        # Nothing is carried but in tensor memory, and a walk's sums are read once, to be stored.
        return summed_columns(program, axes, _wide(program, axes, choice, target)) // 2 + _OTHER_REGISTERS
    other = _OTHER_REGISTERS if choice.consumers <= _CONSUMERS else _LEAST_OTHER_REGISTERS
    other = min(other, _OTHER_OF_SHARED) if shared else other
    scored = registers_of_values(program, axes, added, wide, narrow, packed) if scores or held else 0
    if target.supports("tensor_memory") and walks:
        # A product's sums are read beside what they are added to.
        read = [each.op for at, each in enumerate(products) if each in walks and at not in staying]
        scored = max(scored, *(wide[axes.column_of(axes.kept(op.result))] for op in read), 0)
    return max(carried + scored, behind) + other


def _tiles(
    program: tile.ProgramOp, axes: CascadeAxes, brought: tuple[tile.LoadOp, ...], target: Target, wanted: Wanted
) -> Iterator[WalkTile]:
    """Those to be tried, the best first."""
    most, summed = target.limit("product.columns_max"), bool(slot_sums(program, target))
    # Of sums alone any part of the columns may be a tile: of those in tensor memory, and of what threads add up.
    of_slots = summed or (
        target.supports("tensor_memory")
        and all(
            _is_of_slots(program, each, target) and each.op.axis.data == axes.streamed for each in products_of(program)
        )
    )
    span, least = elements_of_span(brought), elements_of_step(brought)
    inner = {inner_axis(load) for load in brought}
    columns = [0]
    if axes.column:
        whole = whole_columns(program, axes.column, target)
        # Results without columns are stored once where no tiles lie side by side.
        cut = all(axes.column in tensor_type(op.tensor).axis_names for op in stores(program)) and not axes.further
        # What another product sums over is needed whole.
        cut = cut and all(product.op.axis.data != axes.column for product in products_of(program))
        columns = [whole] if whole <= most else [most, most // 2, span] if cut else []
        if of_slots and cut:
            narrower = [each for each in _SUM_COLUMNS if each < whole]
            widest = most if summed else _MOST_ADDED
            columns = [each for each in (*columns[:1], *narrower) if each <= widest]
            columns = [wanted.tile[1]] if wanted.tile is not None else columns
    step = span if axes.streamed in inner else least
    reach = -(-program.extents[axes.streamed] // step) * step
    whole = any(loop.whole is not None for loop in loops(program))
    factors = loads_of_factors(program, slot_sums(program, target), target)
    scaling = {
        op: block_size(op.axis.data)
        for op in program.walk()
        if isinstance(op, WalkedBlockOp) and not _is_of(program, op, factors)
    }
    blocks = list(scaling.values())
    for op, size in scaling.items():
        if size % step:
            what = f"a product is scaled by blocks of {size} elements of {axes.streamed}"
            refuse_at(op, what, scaling_remedy(step, target))
    held = any(product.op.axis.data == axes.streamed for product in products_of(program))
    widest = _MOST_STREAMED if held else _MOST_ALONE
    widths = [width for width in range(widest, 0, -least) if width % step == 0 and width <= reach]
    if summed:
        widths = [step if step > least else min(span, reach)]  # more slots rather than longer ones
    if whole:
        widths = [reach] if reach <= most else []
    elif wanted.depth is not None:
        widths = [width for width in (wanted.depth,) if width % step == 0 and 0 < width <= most]
    else:
        widths = _of_whole_blocks(widths, [size for load in brought for size in _blocks_of(load, axes.streamed)])
    widths = [width for width in widths if all(size % width == 0 for size in blocks)]
    few = program.extents[axes.row] <= BLOCK_ROWS
    several = (_MOST_CONSUMERS, _CONSUMERS, 1) if held and not whole and not summed else (_CONSUMERS, 1)
    counts = (wanted.consumers,) if wanted.consumers is not None else (1,) if few else several
    if factors:
        counts = (target.limit("block_scales.rows") // BLOCK_ROWS,)
    if of_slots and wanted.tile is not None:
        counts = tuple({wanted.tile[0] // BLOCK_ROWS} & set(counts if factors else (wanted.tile[0] // BLOCK_ROWS,)))
    for each in columns:
        for consumers in counts:
            for width in widths:
                yield WalkTile(consumers, each, width)


def _is_of(program: tile.ProgramOp, op: WalkedBlockOp, loads: Sequence[tile.LoadOp]) -> bool:
    """Whether the blocks are those of one of these loads, or of one that is alike."""
    load = op.operand.owner
    return isinstance(load, tile.LoadOp) and first_alike(program, load) in loads


def _of_whole_blocks(widths: Sequence[int], blocks: Sequence[int]) -> list[int]:
    """Widths that are whole blocks or divide them, so that boxes are no smaller than either; all, where none is."""
    return [width for width in widths if not any(width % size and size % width for size in blocks)] or list(widths)


def _blocks_of(load: tile.LoadOp, axis: str) -> tuple[int, ...]:
    return blocks_along(read_dimensions(load.tensor), axis)


def _slots(
    program: tile.ProgramOp,
    axes: CascadeAxes,
    brought: tuple[tile.LoadOp, ...],
    choice: WalkTile,
    room: int,
    deepest: int,
    target: Target,
) -> tuple[SlotDecision, ...] | None:
    """The ring of each load, with as many slots as fit beside `room` bytes, up to `deepest`; None where two of each do
    not."""
    sum_slots, parts = SUM_SLOTS if slot_sums(program, target) or choice.issued else 0, bool(choice.issued)

    most = target.limit("cta.shared_bytes_max")
    if choice.resident > 1:
        share = target.limit("multiprocessor.shared_bytes") // choice.resident
        most = share - target.limit("cta.shared_reserved_bytes")

    def fit(slots: tuple[SlotDecision, ...]) -> bool:
        return smem_bytes(slots, choice.consumers, sum_slots, parts, target) + room <= most

    for count in (each for each in _SLOTS if each <= deepest):
        found = tuple(legal_slot(program, axes, load, choice, count, Wanted(), target) for load in brought)
        if brings_its_own(program, found, (axes.row, choice.rows), (axes.column, choice.columns), axes.batch):
            found = tuple(each if each.resident else replace(each, read_once=1) for each in found)
        if fit(found):
            # A tile's own while the tile before it is computed, where there is room.
            ahead = tuple(replace(each, slots=_AHEAD) if each.resident else each for each in found)
            return ahead if fit(ahead) else found
    return None


def smem_bytes(slots: tuple[SlotDecision, ...], consumers: int, sum_slots: int, parts: bool, target: Target) -> int:
    """Of a CTA: slots, room for stores along rows, two barriers for each slot; for accumulators in tensor memory two
    for each slot of sums, or a barrier for each consumer, and the address. parts: whether there are both."""
    barriers = sum(2 * each.slots * target.limit("mbarrier.bytes") for each in slots if not each.joined)
    if target.supports("tensor_memory"):
        own = consumers if parts or not sum_slots else 0
        barriers += (2 * sum_slots + own + 1) * target.limit("mbarrier.bytes")
    own = ROWS_BYTES + room_bytes(slots)
    return sum(each.slots * each.slot_bytes for each in slots) + own * consumers + barriers


def is_cascade(program: tile.ProgramOp) -> bool:
    """Whether a program walks an axis by tiles, as `synth.streaming` leaves it."""
    return any(op.streamed is not None for op in loops(program))
