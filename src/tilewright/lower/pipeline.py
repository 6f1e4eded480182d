"""How a decided program with dots becomes a producer role and consumer warpgroups around a ring of slots.

Software pipelining: a consumer releases a slot some products late (`release_distance`), when the wgmma group that read
it is known to be done while later ones run; at distance 0 it waits for each product. The first iterations are peeled,
since they have nothing to release and the very first overwrites the accumulator.

In a cluster of two CTAs, the operand that both need is loaded half by each and multicast to both; a slot is then free
only when the consumers of both CTAs have released it.

What is particular to a kind of product stands beside: `async_copy` (operands that threads copy), `tile_place` (tiles of
batches and of groups of rows), `turns`, `split_product`, `stream_product` (tiles that two CTAs share),
`scaled_product`, `register_product`, `prefetch`, and `pipeline_epilogue` for what comes after the loop. Not handled,
because nothing is decided so: several loops, dots without an operand in common.
Checked by: tests/lower/test_ptx_text.py and test_values.py, and the tests of each kind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DenseArrayBase, IntAttr, ModuleOp, StringAttr, i32
from xdsl.ir import Attribute, SSAValue

from tilewright.base.element import Element
from tilewright.ir import ac, tile
from tilewright.ir.ac_async_copy import COPYING_THREADS, AsyncCopyArriveOp, AsyncCopyFenceOp, AsyncCopyWaitOp
from tilewright.ir.decisions import AsyncPlan, OperandDecision, PipelineDecisions
from tilewright.ir.tier import MemoryType, int_array
from tilewright.ir.tile_facts import buffers, dots, parameter_name, stores
from tilewright.lower.async_copy import copy_pieces, source_dimensions
from tilewright.lower.build import (
    Build,
    affine,
    counted_loop,
    global_array,
    new_kernel,
    new_role,
    tensor_map,
)
from tilewright.lower.expression import loads_in
from tilewright.lower.pipeline_epilogue import (
    Pipeline,
    add_epilogue,
    bulk_wait,
    load_ahead,
    tail_name,
    tail_of,
)
from tilewright.lower.prefetch import add_prefetch
from tilewright.lower.program import rows_in_line, slot_bytes, tile_counts
from tilewright.lower.register_product import (
    ComputedOperand,
    computed_loads,
    issue_computed,
    load_along,
    open_operand,
    read_operand,
)
from tilewright.lower.scaled_product import load_scales, promote, read_total, scale_loads, start_total
from tilewright.lower.spill_slots import declare_spill_slots
from tilewright.lower.split_product import declare_meeting, meet, split_index, start_meetings
from tilewright.lower.stream_product import (
    Section,
    add_partial,
    declare_partial_sums,
    sections,
    store_partial,
    stream_symbols,
)
from tilewright.lower.tile_place import GroupRows, TilePlace, most_group_tiles, open_tiles
from tilewright.lower.turns import LEAST_SLOTS, declare_turns, pass_turn

RING = StringAttr("ab")
CURSOR = ac.CursorType(RING)
SPAN_BYTES = 128
"""Of a row in shared memory: what the swizzle of every slot spans."""
_PAIR_BYTES = 16
"""Of a full and an empty barrier."""
_STEP_BYTES = 32
"""Of the contracted axis, what one wgmma takes: 16 elements of 16 bits or 32 of 8 (PTX ISA, wgmma: Matrix shape)."""


@dataclass(frozen=True, slots=True)
class PipelineMemory:
    """Byte offsets in dynamic shared memory: A and B slots, staging, rows of plain stores, partial sums, slots of
    registers, barriers."""

    a: int
    b: int
    staging: int
    rows: int
    partials: int
    spilled: int
    barriers: int


def memory_of(decisions: PipelineDecisions) -> PipelineMemory:
    a_bytes, b_bytes = slot_bytes(decisions)
    b = a_bytes * decisions.stages
    staging = b + b_bytes * decisions.stages
    rows = staging + decisions.staging_slots * decisions.staging_slot_bytes * decisions.consumers
    partials = rows + decisions.rows_bytes * decisions.consumers
    spilled = partials + decisions.partial_bytes
    return PipelineMemory(0, b, staging, rows, partials, spilled, spilled + decisions.spill_bytes)


def least_slices(d: PipelineDecisions) -> int:
    """Slices of a tile for which the text is right: those that are peeled, and what a turn is passed on after."""
    return max(LEAST_SLOTS, d.release_distance + 1) if d.turns else max(1, d.release_distance)


def pipeline_kernel(program: tile.ProgramOp, d: PipelineDecisions) -> ModuleOp:
    tiles_m, tiles_n, k_tiles = tile_counts(program, d)
    clusters_m, clusters_n = -(-tiles_m // d.cluster_m), -(-tiles_n // d.cluster_n)
    cluster_size = d.cluster_ctas
    clusters = d.ctas // cluster_size
    matrices = math.prod(program.extents[axis] for axis in d.batch)
    all_tiles = most_group_tiles(program, d) if d.grouping else clusters_m * clusters_n * matrices
    most_tiles = -(-(all_tiles - d.streamed) // clusters)
    grid = (clusters * d.cluster_m, d.cluster_n, d.split)
    module, build = new_kernel(
        program.sym_name.data,
        {"K": (k_tiles // d.partials, least_slices(d)), "tiles": (most_tiles, 0)}
        | stream_symbols(d, k_tiles, least_slices(d)),
        grid,
        (d.cluster_m, d.cluster_n, d.split),
        128 * (1 + d.consumers),
        d.smem_bytes,
        d.launch_registers,
    )
    pipeline, arrays = _declare(build, program, d)
    counts = (clusters_m * d.cluster_m, clusters_n * d.cluster_n, matrices)
    add_prefetch(build, d, (pipeline.a_map, pipeline.b_map), counts)
    build.add(ac.BarrierInitOp.create(operands=[pipeline.ring]))
    if pipeline.turns is not None:
        build.add(ac.BarrierInitOp.create(operands=[pipeline.turns]))
    if pipeline.meeting is not None:
        build.add(ac.BarrierInitOp.create(operands=[pipeline.meeting.ring]))
    build.add(ac.FenceBarrierInitOp.create())
    build.add(ac.CtaSyncOp.create() if cluster_size == 1 else ac.ClusterSyncOp.create())
    if d.programmatic or any(operand.materialized for operand in (d.a, d.b, *d.more_b)):
        build.add(ac.GridWaitOp.create())
    if d.programmatic:
        build.add(ac.GridReleaseOp.create())
    _producer(build, program, d, pipeline, counts)
    _consumer(build, program, d, pipeline, counts, arrays)
    if cluster_size > 1:
        build.add(ac.ClusterSyncOp.create())
    return module


def _declare(build: Build, program: tile.ProgramOp, d: PipelineDecisions) -> tuple[Pipeline, dict[str, SSAValue]]:
    memory = memory_of(d)
    a_bytes, b_bytes = slot_bytes(d)
    cluster_size = d.cluster_m * d.cluster_n
    names = [d.a.buffer, f"{d.b.buffer}_right" if d.b.buffer == d.a.buffer else d.b.buffer]
    taken = [d.a.buffer, d.b.buffer]
    for operand in d.more_b:
        again = taken.count(operand.buffer)
        names.append(f"{operand.buffer}_{again}" if again else operand.buffer)
        taken.append(operand.buffer)
    operands = (d.a, d.b, *d.more_b)
    # What threads copy is reached by a pointer, which is declared with the other arrays.
    maps = [
        None if operand.piece_bytes else tensor_map(build, name, operand.buffer, operand.map)
        for name, operand in zip(names, operands, strict=True)
    ]
    arrays: dict[str, SSAValue] = {}
    for store in d.stores:
        if store.path == "tma":
            arrays[store.parameter] = tensor_map(build, store.parameter, store.parameter, store.map)
            for tail in store.tail:
                arrays[tail_of(store)] = tensor_map(build, tail_name(program, store), store.parameter, tail)
    used = {parameter_name(program, load.tensor) for store in stores(program) for load in loads_in(store.value)}
    used |= {store.parameter for store in d.stores if store.path == "direct"}
    used |= {parameter_name(program, load.tensor) for load in scale_loads(dots(program)[0])}
    used |= {parameter_name(program, load.tensor) for load in computed_loads(dots(program)[0], d)}
    used |= {grouping.limits for grouping in d.grouping}
    used |= {operand.buffer for operand in operands if operand.piece_bytes}
    for buffer in buffers(program):
        if buffer.name in used:
            arrays[buffer.name] = global_array(build, rows_in_line(program, buffer, d))
    a_map, b_map, *more_b_maps = (
        arrays[operand.buffer] if map_ is None else map_ for operand, map_ in zip(operands, maps, strict=True)
    )
    ring = build.value(
        ac.RingOp.create(
            properties={
                "sym_name": RING,
                "stages": IntAttr(d.stages),
                "full_arrivals": IntAttr(1 + COPYING_THREADS * int(d.copies_by_threads)),
                "empty_arrivals": IntAttr((1 if d.turns else d.consumers) * cluster_size),
                "address": IntAttr(memory.barriers),
            },
            result_types=[ac.RingType(RING, IntAttr(d.stages))],
        )
    )

    def buffer_of(
        name: str, element: str, address: int, instances: int, slots: int, size: int, swizzle: str, ring: bool
    ) -> SSAValue:
        properties: dict[str, Attribute] = {
            "sym_name": StringAttr(name),
            "address": IntAttr(address),
            "instances": IntAttr(instances),
        }
        if ring:
            properties["ring"] = RING
        kind = MemoryType(StringAttr("SMEM"), StringAttr(element), IntAttr(slots), IntAttr(size), StringAttr(swizzle))
        return build.value(ac.BufferOp.create(properties=properties, result_types=[kind]))

    a = buffer_of("a_slots", d.a.map.element, memory.a, 1, d.stages, a_bytes, d.a.map.swizzle, ring=True)
    b = buffer_of("b_slots", d.b.map.element, memory.b, 1, d.stages, b_bytes, d.b.map.swizzle, ring=True)
    staging = None
    if d.staging_slots:
        staged = [store.map for store in d.stores if store.path == "tma"]
        # Slots that take outputs of several elements in turn are bytes.
        element = staged[0].element if len({one.element for one in staged}) == 1 else Element.U8.value
        address, size, swizzle = memory.staging, d.staging_slot_bytes, staged[0].swizzle
        staging = buffer_of("staging", element, address, d.consumers, d.staging_slots, size, swizzle, ring=False)
    rows = None
    if d.rows_bytes:
        rows = buffer_of("rows", Element.U8.value, memory.rows, d.consumers, 1, d.rows_bytes, "none", ring=False)
    declare_spill_slots(build, d, memory.spilled)
    groups = [
        GroupRows(arrays[each.limits], program.extents[each.axis], program.extents[d.rows]) for each in d.grouping
    ]
    return Pipeline(
        d,
        ring,
        a,
        b,
        a_map,
        b_map,
        staging,
        rows,
        groups[0] if groups else None,
        tuple(more_b_maps),
        declare_meeting(build, d, memory.partials, memory.barriers + _PAIR_BYTES * d.stages),
        declare_turns(build, d, memory.barriers + _PAIR_BYTES * d.stages),
        declare_partial_sums(build, program, d),
    ), arrays


def _start(build: Build, ring: SSAValue, side: str) -> SSAValue:
    return build.value(
        ac.CursorStartOp.create(operands=[ring], properties={"side": StringAttr(side)}, result_types=[CURSOR])
    )


def _advance(build: Build, cursor: SSAValue) -> SSAValue:
    return build.value(ac.AdvanceOp.create(operands=[cursor], result_types=[CURSOR]))


def _wait(build: Build, ring: SSAValue, cursor: SSAValue, side: str) -> SSAValue:
    return build.value(
        ac.BarrierWaitOp.create(
            operands=[ring, cursor],
            properties={"side": StringAttr(side), "invert_parity": IntAttr(int(side == "empty"))},
            result_types=[ac.PhaseType(RING, StringAttr(side))],
        )
    )


def _producer(
    build: Build, program: tile.ProgramOp, d: PipelineDecisions, p: Pipeline, counts: tuple[int, int, int]
) -> None:
    unit = "warpgroup128" if d.copies_by_threads else "thread1"
    role, _ = new_role(build, "producer", unit, 1, 0, d.producer_registers)
    start = _start(role, p.ring, "empty")
    share = split_index(role, d)
    for section in sections(d):
        outer, place, (cursor,) = open_tiles(role, d, p.groups, counts, [start], section=section)
        inner, loop, loop_op = counted_loop(outer, 0, [cursor], symbol=place.slices)
        k, position = loop.args
        for slot in range(d.partials):
            # What comes before a part of a tile shifts its slices as the CTA's number shifts those of a shared one.
            _fill(inner, program, d, p, place, (k, slot), position, share if place.first is None else place.first)
            position = _advance(inner, position)
        inner.add(ac.YieldOp.create(operands=[position]))
        outer.add(ac.YieldOp.create(operands=[loop_op.outputs[0]]))
        (start,) = outer.results()
    if d.copies_by_threads:
        role.add(AsyncCopyWaitOp.create())


def _fill(
    build: Build,
    program: tile.ProgramOp,
    d: PipelineDecisions,
    p: Pipeline,
    place: TilePlace,
    turn: tuple[SSAValue, int],
    position: SSAValue,
    share: SSAValue | None,
) -> None:
    """Announce a slot's bytes and issue its copies. turn: the loop's index, and which of its slots this is."""
    phase = _wait(build, p.ring, position, "empty")
    total = d.announced_bytes
    tx = build.value(
        ac.ArriveExpectOp.create(
            operands=[phase],
            properties={"bytes": IntAttr(total)} | _elected(d),
            result_types=[ac.TransactionType(RING, IntAttr(total))],
        )
    )
    left = total
    # CTAs along n share A's rows; along m, B's columns.
    filled = [
        (d.a, p.a_map, p.a, place.row, place.row_step, (0, 1)),
        *(
            (operand, descriptor, p.b, place.column, d.tile_n, (number, d.products))
            for number, (operand, descriptor) in enumerate(
                zip((d.b, *d.more_b), (p.b_map, *p.more_b_maps), strict=True)
            )
        ),
    ]
    k, slot = turn
    # Threads' copies first: what is asked of the copy engine before them holds back a warp of theirs.
    planned = sorted(zip(filled, d.async_plans, strict=False), key=lambda each: each[0][0].piece_bytes == 0)
    for (operand, descriptor, buffer, tile_index, extent, part), plan in planned:
        indices = (tile_index, k, *place.outermost(operand))
        if operand.piece_bytes:
            arrays = (descriptor, buffer, source_dimensions(program, d, operand))
            tx = copy_pieces(build, d, operand, plan, arrays, indices, slot, extent, part, share, tx)
            continue
        tx, left = _copies(build, d, operand, plan, descriptor, buffer, indices, slot, extent, part, share, tx, left)
    closing = AsyncCopyArriveOp if d.copies_by_threads else ac.TransactionCloseOp
    build.add(closing.create(operands=[tx]))


def _elected(d: PipelineDecisions) -> dict[str, Attribute]:
    """What says that a warpgroup's first thread alone executes an operation, where a warpgroup fills the slots."""
    return {"elected": IntAttr(1)} if d.copies_by_threads else {}


def _copies(
    build: Build,
    d: PipelineDecisions,
    operand: OperandDecision,
    plan: AsyncPlan,
    descriptor: SSAValue,
    buffer: SSAValue,
    indices: tuple[SSAValue, ...],
    slot: int,
    extent: int,
    part_of_slot: tuple[int, int],
    share: SSAValue | None,
    tx: SSAValue,
    left: int,
) -> tuple[SSAValue, int]:
    """Boxes that fill one operand's slot. Where several CTAs issue them, each loads its part and multicasts it.

    indices: of the tile, of the turn of the loop, then coordinates of further dimensions; slot: which of the turn's.
    part_of_slot: which of how many operands
    that stand behind one another in the slot. share: which of the CTAs that share the contracted axis this one is."""
    tile_index, k, *further = indices
    outer_dimension = 1 if operand.major == "K" else 0
    outer_box = operand.map.box[outer_dimension]
    boxes, peers = plan.boxes, plan.issuers
    # A K-major slot as deep as several swizzle spans is one matrix a span, beside one another.
    spans = d.tile_k // operand.map.box[0] if operand.major == "K" else 1
    parts = boxes // spans
    which, many = part_of_slot
    shared: dict[str, Attribute] = {}
    if peers > 1:
        # A span of the slot is peers x parts x box; this CTA's rank picks its part.
        shared = {"rank_dimension": IntAttr(outer_dimension), "rank_elements": IntAttr(parts * outer_box)}
    for number in range(boxes):
        span, part = divmod(number, parts)
        outer = affine(build, [(tile_index, extent)], part * outer_box + operand.outer_shift)
        deep = d.tile_k * d.split
        slices = [(k, deep * d.partials), *([(share, d.tile_k)] if share is not None else [])]
        depth = affine(build, slices, slot * deep + span * operand.map.box[0])
        coordinates = [*([depth, outer] if operand.major == "K" else [outer, depth]), *further]
        left -= plan.box_bytes * peers
        tx = build.value(
            ac.CopyIssueOp.create(
                operands=[descriptor, buffer, tx, *coordinates],
                properties={
                    "offset_bytes": IntAttr(((span * many + which) * parts * peers + part) * plan.box_bytes),
                    "rank_offset_bytes": IntAttr(parts * plan.box_bytes if peers > 1 else 0),
                    "box_bytes": IntAttr(plan.box_bytes),
                    "multicast": IntAttr(peers),
                    **shared,
                    **_elected(d),
                },
                result_types=[ac.TransactionType(RING, IntAttr(left))],
            )
        )
    return tx, left


def _consumer(
    build: Build,
    program: tile.ProgramOp,
    d: PipelineDecisions,
    p: Pipeline,
    counts: tuple[int, int, int],
    arrays: dict[str, SSAValue],
) -> None:
    role, unit = new_role(build, "consumer", "warpgroup128", d.consumers, 128, d.consumer_registers)
    start = _start(role, p.ring, "full")
    share = split_index(role, d)
    carried: Sequence[SSAValue] = [start, *start_meetings(role, p.meeting)]
    for section in sections(d):
        opened = open_tiles(role, d, p.groups, counts, carried, p.turns, section)
        _consume(opened, program, d, p, unit, section, arrays, share)
        carried = opened[0].results()
    if d.staging_slots:
        # Shared memory must outlive the copies out of it; what they write is seen when the grid has ended.
        role.add(bulk_wait(unit, 0, read=True))


def _consume(
    opened: tuple[Build, TilePlace, Sequence[SSAValue]],
    program: tile.ProgramOp,
    d: PipelineDecisions,
    p: Pipeline,
    unit: SSAValue,
    section: Section,
    arrays: dict[str, SSAValue],
    share: SSAValue | None,
) -> None:
    """A tile, or a part of a streamed one: its sum, and what is made of it."""
    outer, place, (cursor, *meetings) = opened
    dot = dots(program)[0]
    ahead: dict[tile.LoadOp, SSAValue] = {}
    if d.promoted:
        ahead = load_ahead(outer, program, d, unit, place, arrays, share)
        last_cursor, settled = _promoted(outer, program, dot, d, p, unit, place, cursor, arrays, share)
    else:
        operand = open_operand(outer, program, dot, d, unit, place, arrays, share) if d.computed else None
        accumulator, first = _multiply_next(outer, d, p, unit, cursor, operand)
        # Issued beside a product that runs, so that nothing waits for it.
        ahead = {} if section.part == "head" else load_ahead(outer, program, d, unit, place, arrays, share)
        following, running, held = _summed(outer, d, p, unit, place, cursor, accumulator, first, operand)
        pass_turn(outer, p.turns, unit)
        if d.grouping:
            # Its loads and divisions take as long as the last products, which are still running.
            outer.add(ac.NextGroupTileOp.create())
        last_cursor, settled = following, _drained(outer, d, running, held)
    meetings, total = meet(outer, d, p.meeting, meetings, settled, unit)
    if section.part == "head" and p.sums is not None and place.number is not None:
        store_partial(outer, p.sums, total, place.number, unit)
    else:
        if p.sums is not None and place.number is not None:
            total = add_partial(outer, p.sums, total, place.number, unit)
        add_epilogue(outer, program, d, p, unit, place, total, arrays, share, ahead)
    outer.add(ac.YieldOp.create(operands=[last_cursor, *meetings]))


def _summed(
    build: Build,
    d: PipelineDecisions,
    p: Pipeline,
    unit: SSAValue,
    place: TilePlace,
    cursor: SSAValue,
    accumulator: SSAValue,
    reading: SSAValue,
    operand: ComputedOperand | None = None,
) -> tuple[SSAValue, SSAValue, Sequence[SSAValue]]:
    """A tile's sum by the tensor core alone, after its first slice; (cursor, accumulator, and slots of the products
    that may still be in flight, the oldest first)."""
    distance = d.release_distance
    queue = [reading]
    while len(queue) < distance:
        cursor = _advance(build, cursor)
        accumulator, newly = _multiply(build, d, p, unit, cursor, accumulator)
        queue.append(newly)
    if distance == 0:
        _release(build, d, build.value(_wgmma_wait(0, queue.pop(), None)))
    entering = [_advance(build, cursor), accumulator, *queue]
    inner, loop, loop_op = counted_loop(build, max(1, distance), entering, symbol=place.slices)
    k, position, running, *held = loop.args
    if operand is not None:
        assert distance == 1  # by `synth.release_distance`: the released slot is that of the one product before
        updated, newly = _multiply_next(inner, d, p, unit, position, operand, k, running, held[0])
        kept = [newly]
    else:
        updated, newly = _multiply(inner, d, p, unit, position, running)
        oldest, *kept = *held, newly
        _release(inner, d, inner.value(_wgmma_wait(distance, oldest, None)))
    inner.add(ac.YieldOp.create(operands=[_advance(inner, position), updated, *kept]))
    following, last_accumulator, *last = loop_op.outputs
    return following, last_accumulator, last


def _drained(build: Build, d: PipelineDecisions, running: SSAValue, held: Sequence[SSAValue]) -> SSAValue:
    """The settled accumulator, once every product is done; each slot is released as soon as its own is."""
    if not held:
        return build.value(_wgmma_wait(0, None, running))
    *older, newest = held
    for number, reading in enumerate(older):
        _release(build, d, build.value(_wgmma_wait(len(older) - number, reading, None)))
    wait = _wgmma_wait(0, newest, running)
    build.add(wait)
    _release(build, d, wait.results[0])
    return wait.results[1]


def _promoted(
    build: Build,
    program: tile.ProgramOp,
    dot: tile.DotOp,
    d: PipelineDecisions,
    p: Pipeline,
    unit: SSAValue,
    place: TilePlace,
    cursor: SSAValue,
    arrays: dict[str, SSAValue],
    share: SSAValue | None,
) -> tuple[SSAValue, SSAValue]:
    """A tile's sum of scaled products of slots; (cursor, settled total).

    A turn of the loop takes as many slots as there are partial products: the tensor core multiplies one while the
    threads promote the one before, and all are promoted at the turn's end (an assembler gives up on products in flight
    round a loop whose registers are read). Turns of four or eight slots, in which the registers of two products come
    and go, were no quicker on an H200. Scales are loaded when those of an earlier slot have been used.
    """
    row = affine(build, [(place.row, place.row_step), (unit, d.tile_m // d.consumers)], 0)
    column = affine(build, [(place.column, d.tile_n)], 0)
    per_slot = len(scale_loads(dot))

    def scales(where: Build, k: SSAValue | None, further: int) -> list[SSAValue]:
        """Of the slot `further` slots after the turn's first; of slot `further` where there is no turn."""
        terms = [] if k is None else [(k, d.split * d.partials)]
        which = affine(where, [*terms, *([(share, 1)] if share is not None else [])], further * d.split)
        return load_scales(where, program, dot, d, (row, column, which), arrays)

    first = [value for slot in range(d.scales_ahead) for value in scales(build, None, slot)]
    carried = [cursor, start_total(build, d), *first]
    inner, loop, loop_op = counted_loop(build, 0, carried, d.scaled_copies)
    k, position, total, *loaded = loop.args
    products: list[tuple[SSAValue, SSAValue]] = []
    for _ in range(d.partials):
        products.append(_multiply(inner, d, p, unit, position, None))
        position = _advance(inner, position)
    queue = list[SSAValue](loaded)
    for number, (partial, reading) in enumerate(products):
        wait = _wgmma_wait(d.partials - 1 - number, reading, partial)
        inner.add(wait)
        _release(inner, d, wait.results[0])
        total = promote(inner, dot, total, wait.results[1], queue[:per_slot])
        queue = [*queue[per_slot:], *scales(inner, k, number + d.scales_ahead)]
    inner.add(ac.YieldOp.create(operands=[position, total, *queue]))
    return loop_op.outputs[0], read_total(build, d, loop_op.outputs[1])


def _multiply(
    build: Build, d: PipelineDecisions, p: Pipeline, unit: SSAValue, cursor: SSAValue, running: SSAValue | None
) -> tuple[SSAValue, SSAValue]:
    """Wait for a slot and issue its wgmma group; (accumulator in flight, slot being read)."""
    phase = _wait(build, p.ring, cursor, "full")
    if d.copies_by_threads:
        phase = build.value(AsyncCopyFenceOp.create(operands=[phase], result_types=[phase.type]))
    build.add(ac.WgmmaFenceOp.create())
    rows = d.unit_rows
    row_bytes = d.tile_k * d.a.map.tensor_map().element.bytes
    steps = row_bytes // _STEP_BYTES
    a_leading, a_stride, a_steps = _operand_strides(d.a, row_bytes, d.tile_m)
    b_leading, b_stride, b_steps = _operand_strides(d.b, row_bytes, d.multiplied_columns)
    a_row_bytes = SPAN_BYTES if d.a.major == "K" else row_bytes
    properties: dict[str, Attribute] = {
        "m": IntAttr(rows),
        "n": IntAttr(d.multiplied_columns),
        "steps": IntAttr(steps),
        "element": StringAttr(d.a.map.element),
        "a_major": StringAttr(d.a.major),
        "a_leading_bytes": IntAttr(a_leading),
        "a_stride_bytes": IntAttr(a_stride),
        "a_step_bytes": int_array(a_steps),
        "a_block_bytes": IntAttr(64 * a_row_bytes),
        "a_instance_bytes": IntAttr(0 if d.turns else rows * a_row_bytes),
        "b_major": StringAttr(d.b.major),
        "b_leading_bytes": IntAttr(b_leading),
        "b_stride_bytes": IntAttr(b_stride),
        "b_step_bytes": int_array(b_steps),
    }
    operands = [phase, p.a, p.b, unit, *([running] if running is not None else [])]
    inflight = ac.InflightType(IntAttr(rows), IntAttr(d.multiplied_columns))
    op = ac.WgmmaIssueOp.create(operands=operands, properties=properties, result_types=[inflight, ac.ReadingType(RING)])
    build.add(op)
    build.add(ac.WgmmaCommitOp.create())
    return op.results[0], op.results[1]


def _multiply_next(
    build: Build,
    d: PipelineDecisions,
    p: Pipeline,
    unit: SSAValue,
    cursor: SSAValue,
    operand: ComputedOperand | None,
    turn: SSAValue | None = None,
    running: SSAValue | None = None,
    held: SSAValue | None = None,
) -> tuple[SSAValue, SSAValue]:
    """As `_multiply`; a left operand that is computed takes shape while the product before runs, whose slot, `held`, is
    released in between. turn: index of the loop, None for a tile's first slot."""
    if operand is None:
        return _multiply(build, d, p, unit, cursor, running)
    along = load_along(build, d, operand, turn)
    phase = _wait(build, p.ring, cursor, "full")
    row_bytes = d.tile_k * d.a.map.tensor_map().element.bytes
    _, _, a_steps = _operand_strides(d.a, row_bytes, d.tile_m)
    computed = read_operand(build, d, p, operand, unit, phase, along, (a_steps, SPAN_BYTES))
    if held is not None:
        _release(build, d, build.value(_wgmma_wait(0, held, None)))
    layout = _operand_strides(d.b, row_bytes, d.multiplied_columns)
    return issue_computed(build, d, p, computed, running, layout)


def _operand_strides(operand: OperandDecision, row_bytes: int, extent: int) -> tuple[int, int, list[int]]:
    """Leading and stride offsets of the matrix descriptor and the advance of each wgmma's step, in bytes.

    128-byte swizzle (PTX ISA, wgmma canonical layouts). K-major: rows of 128 bytes, eight of them 1024 bytes apart; a
    step moves 32 bytes along the row, 16 elements of 16 bits or 32 of 8, and at its end to the next matrix of `extent`
    rows, where a slot is deeper than a row. MN-major, of 16-bit elements alone: boxes of
    64 elements by as many rows of 128 bytes as a slice is deep, so the next 64 elements are a whole box away and a step
    moves 16 rows.
    """
    steps = range(row_bytes // _STEP_BYTES)
    if operand.major == "K":
        spans = [divmod(_STEP_BYTES * step, SPAN_BYTES) for step in steps]
        return 16, 1024, [span * extent * SPAN_BYTES + within for span, within in spans]
    return row_bytes // 2 * 128, 1024, [2048 * step for step in steps]


def _wgmma_wait(pending: int, reading: SSAValue | None, accumulator: SSAValue | None) -> ac.WgmmaWaitOp:
    results: list[Attribute] = []
    operands: list[SSAValue] = []
    if reading is not None:
        results.append(ac.PhaseType(RING, StringAttr("retired")))
        operands.append(reading)
    if accumulator is not None:
        kind = accumulator.type
        assert isinstance(kind, ac.InflightType)
        results.append(ac.AccumulatorType(kind.m, kind.n))
        operands.append(accumulator)
    present = [int(reading is not None), int(accumulator is not None)]
    return ac.WgmmaWaitOp.create(
        operands=operands,
        properties={
            "pending": IntAttr(pending),
            "operandSegmentSizes": DenseArrayBase.from_list(i32, present),
            "resultSegmentSizes": DenseArrayBase.from_list(i32, present),
        },
        result_types=results,
    )


def _release(build: Build, d: PipelineDecisions, retired: SSAValue) -> None:
    peers = d.cluster_m * d.cluster_n
    build.add(ac.ArriveOp.create(operands=[retired], properties={"peers": IntAttr(peers)}))
