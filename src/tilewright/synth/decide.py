"""What kernel a tile program becomes: every choice, with its reason, written on the program as its `decisions`.

Order of choice: tile shape with its orientation (the output's contiguous axis runs along the accumulator's columns
unless rows are few or tiles come out better), by a closed form for the kind of product; whether consumers take whole
tiles in turn; the cluster; operand paths (a legal tensor map, else copies by threads or a workspace with padded rows);
stages, staging and registers by what the target's shared memory and register file hold; the schedule of the loop, with
how late slots are released; last, which tiles idle CTAs help with. Each step is one function of plain values in a
module of its own, and may be replaced alone.

Handled: dots of 8-bit or 16-bit operands that share a loop and an operand, batches of them, programs without a dot.
What the language has beyond is refused at the author's line (`synth.supported`). Checked by `legal` before anything is
written, and by `contract` on the lowered kernel.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from tilewright.ir.ac.split import sum_parts
from tilewright.ir.cascade_facts import refuse_at
from tilewright.ir.decisions import (
    RUN_BYTES,
    Decisions,
    ElementwiseDecisions,
    OperandDecision,
    PipelineDecisions,
    StoreDecision,
    to_attribute,
)
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import dots, grid_axes, grouping, reductions, stores
from tilewright.ir.tile.types import tensor_type, value_type
from tilewright.synth.cascade.decide import decide_cascade, is_cascade
from tilewright.synth.cost.model import Rates, rates_of
from tilewright.synth.cost.tile_estimate import turn_row
from tilewright.synth.distribution.cluster_parts import require_equal_parts
from tilewright.synth.distribution.cluster_shape import choose_cluster, taken_by_clusters
from tilewright.synth.distribution.split import clusters_at_once, require_split, require_teams
from tilewright.synth.distribution.stream_k import streamed
from tilewright.synth.distribution.tile_order import choose_tile_order
from tilewright.synth.distribution.turns import (
    EVERY_STAGE,
    Compared,
    LargeTile,
    choose_turns,
    require_turns,
    unit_shape,
    with_turns,
)
from tilewright.synth.operand.async_plan import plan_load, plan_store, plan_words
from tilewright.synth.operand.batch import batched_operand, batched_store
from tilewright.synth.operand.operands import Site, decide_operand, decide_store
from tilewright.synth.operand.paired_loads import choose_paired_loads
from tilewright.synth.operand.scaled_product import promoted_together
from tilewright.synth.operand.turned_copy import turned_copy
from tilewright.synth.operand.unmapped_operands import choose_unmapped
from tilewright.synth.run_time_extents import refuse_run_time_detours, tiles_are_known
from tilewright.synth.schedule.early_launch import begins_early, with_waiter
from tilewright.synth.schedule.expression_order import choose_order
from tilewright.synth.schedule.issue_order import choose_issue_order
from tilewright.synth.schedule.loads_ahead import choose_loads_ahead
from tilewright.synth.schedule.loop_schedule import SPARE_SLOTS, LoopShape, scheduled, slots_wanted
from tilewright.synth.schedule.prefetch import prefetched_slices
from tilewright.synth.store.register_budget import register_budget
from tilewright.synth.store.rows import decide_rows
from tilewright.synth.store.runs import decide_runs
from tilewright.synth.store.shared_memory import divide_shared_memory
from tilewright.synth.store.spill_slots import refuse_spill_slots
from tilewright.synth.store.staged_store import planned
from tilewright.synth.store.store_chunks import staged_row
from tilewright.synth.store.transpose import decide_turned, transpose_words, turning_ctas
from tilewright.synth.store.turned_store import turned_boxes, turned_store
from tilewright.synth.supported import refuse_unsupported
from tilewright.synth.tile.few_rows import few_rows_shape, is_few_rows
from tilewright.synth.tile.long_sum import long_sum_shape
from tilewright.synth.tile.question import ask
from tilewright.synth.tile.scaled_tile import choose_scaled_shape
from tilewright.synth.tile.shape import TileShape, choose_tile_shape
from tilewright.synth.tile.steps import parts_of, steps_as_decided
from tilewright.synth.tile.thin_product import is_thin, thin_shape
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_COPYING_CTAS = 5
"""Of 256 threads that copy runs, which take up to 48 registers each, fit a multiprocessor together."""


def decide(program: tile.ProgramOp, target: Target, wanted: Wanted | None = None) -> Decisions:
    """Choose, write the `decisions` attribute on `program`, and return what was chosen.

    Raises TilewrightError at the author's line for a program outside the supported shapes.
    """
    wanted = wanted or Wanted()
    if is_cascade(program):
        cascade = decide_cascade(program, target, wanted)
        program.attributes["decisions"] = to_attribute(cascade)
        return cascade
    refuse_unsupported(program, target)
    groups = grouping(program)
    decisions: Decisions
    if groups is not None:
        refuse_at(
            program,
            f"groups of {groups.ragged} in a loop that does more than sum products of these rows",
            "give one product or several of the same rows in one loop, with an epilogue",
        )
    if not dots(program):
        refuse_spill_slots(wanted, "a program without a product")
        decisions = _decide_elementwise(program, target, wanted)
    else:
        (dot,) = dots(program)
        again = partial(_decide_pipeline, program, dot, target, Compared())
        first = again(wanted)
        if not tiles_are_known(program, first):
            # Tiles that are cut or summed through memory are numbered in advance.
            wanted = replace(wanted, teams=1, stream_k=False)
            first = again(wanted) if first.teams > 1 else first
        decisions = choose_unmapped(program, first, again, target, wanted)
    refuse_run_time_detours(program, decisions)
    if isinstance(decisions, PipelineDecisions):
        decisions = streamed(program, scheduled(program, decisions, target, wanted), target, wanted)
        decisions = with_waiter(decisions)
    program.attributes["decisions"] = to_attribute(decisions)
    return decisions


def _fill_shape(points: int, target: Target, points_per_thread: int = 4, together: int = 8) -> tuple[int, int]:
    """(CTAs, threads) of an element-by-element kernel: at most `together` CTAs a multiprocessor."""
    threads = 256
    most = together * target.limit("device.multiprocessors")
    return max(1, min(math.ceil(points / (points_per_thread * threads)), most)), threads


def _decide_elementwise(program: tile.ProgramOp, target: Target, wanted: Wanted) -> ElementwiseDecisions:
    if reductions(program):
        return decide_rows(program, target, wanted)
    turned = decide_turned(program, target, wanted)
    if turned is not None:
        return turned
    runs = decide_runs(program, target, wanted)
    if runs is not None:
        return runs
    points = math.prod(program.extents[axis] for axis in grid_axes(program))
    ctas, threads = _fill_shape(points, target)
    reasons = [f"no dot: {points} points on {ctas} CTAs of {threads} threads, plain loads and stores"]
    order = choose_order(program, (ctas, threads), target, wanted, reasons)
    return ElementwiseDecisions(ctas, threads, tuple(reasons), order=order)


# ---------------------------------------------------------------- the pipeline


def _decide_pipeline(
    program: tile.ProgramOp, dot: tile.DotOp, target: Target, compared: Compared, wanted: Wanted
) -> PipelineDecisions:
    """compared: the tiles of this program that were compared before, with other wishes."""
    rows, contracted = value_type(dot.left).axis_names[-2:]
    columns = value_type(dot.right).axis_names[-1]
    sides = (("left", dot.left, rows), ("right", dot.right, columns))
    reasons: list[str] = []
    asked = ask(program, dot, target, wanted)
    question, batch = asked.question, asked.batch
    promoted, element_bytes = question.scaled_depth, question.element_bytes
    natural, rates = asked.natural, rates_of(target, element_bytes)
    thin = is_thin(question, wanted)
    if thin:
        shape = thin_shape(question, target, reasons)
    else:
        scaled = choose_scaled_shape(rates, question, target, wanted, reasons)
        shape = scaled or choose_tile_shape(rates, question, target, wanted, reasons)
    large = choose_turns(rates, question, shape, target, wanted, reasons, compared)
    summed = long_sum_shape(question, large.shape, target, wanted, reasons)
    if is_few_rows(question, target, wanted):
        # CTAs whose threads fill the slots of their own share no loads.
        alone, turns = wanted.unmapped == "threads", large.turns and summed == large.shape

        def fits(shape: TileShape) -> bool:
            return not (alone and shape.paired)

        summed = few_rows_shape(question, summed, target, reasons, fits=fits, turns=turns)
    kept = replace(summed, steps=large.shape.steps) == large.shape
    large = replace(large, shape=summed) if kept else LargeTile(summed, turns=False)
    shape, wanted = large.shape, replace(wanted, turns=large.turns)
    if shape.swapped:
        rows, columns = columns, rows
        sides = (sides[1], sides[0])
        few = f"{columns} are few" if thin else "its tiles come out better"
        why = f"the output is contiguous along {columns}" if natural else few
        reasons.append(f"transposed product: {why}")
    tile_m, tile_n, consumers = shape.rows, shape.columns, shape.consumers
    cluster = choose_cluster(rates, shape, question, wanted, reasons)
    require_split(shape, cluster, True, target)
    require_teams(shape, cluster, not (batch or promoted or large.turns))
    if large.turns:
        require_turns(shape, cluster, not promoted, target, 1)
        consumers = 1
    # CTAs side by side along the columns share A's rows, CTAs along the rows share B's columns; each loads its part.
    in_pieces = wanted.unmapped == "threads" and cluster == (1, 1)
    site = Site(program, target, wanted.misaligned, reasons, in_pieces)
    a = decide_operand(site, sides[0], contracted, tile_m // cluster[1], shape.depth)
    b = decide_operand(site, sides[1], contracted, tile_n // cluster[0], shape.depth)
    if batch:
        a = batched_operand(site, sides[0], a, (batch, contracted), (tile_m // cluster[1], shape.depth))
        b = batched_operand(site, sides[1], b, (batch, contracted), (tile_n // cluster[0], shape.depth))
    require_equal_parts(a, a.loaded_extent(tile_m), cluster[1])
    require_equal_parts(b, b.loaded_extent(tile_n), cluster[0])
    widths = [tensor_type(store.tensor).element_kind.bytes for store in stores(program)]
    row = staged_row(tile_n // sum_parts(tile_n, shape.split), widths)
    if large.turns:
        slot_bytes = (a.loaded_extent(tile_m) + b.loaded_extent(tile_n)) * shape.depth * element_bytes
        row = turn_row(tile_n, widths, slot_bytes, target)
    turned = () if batch else turned_boxes(program, rows, tile_n // sum_parts(tile_n, shape.split))
    leaving = tuple(
        (turned_store(site, store, (rows, columns), turned) if turned else None)
        or decide_store(site, store, (rows, columns), tile_m // consumers, row)
        for store in stores(program)
    )
    if batch:
        leaving = tuple(
            batched_store(site, store, decision, batch)
            for store, decision in zip(stores(program), leaving, strict=True)
        )
    leaving = tuple(planned(each, target) for each in leaving)
    axes = (rows, columns, contracted)
    if not batch:
        parts, asked_for = (consumers, parts_of(shape)), any(wanted.steps or ())
        shape, (a, b), leaving = steps_as_decided(
            program, axes[:2], shape, parts, cluster, (a, b), leaving, asked=asked_for
        )
    else:
        shape = replace(shape, steps=(0, 0))
    return _fit(program, axes, shape, cluster, a, b, leaving, batch, rates, target, wanted, reasons, bool(promoted))


def _fit(
    program: tile.ProgramOp,
    axes: tuple[str, str, str],
    shape: TileShape,
    cluster: tuple[int, int],
    a: OperandDecision,
    b: OperandDecision,
    stores: tuple[StoreDecision, ...],
    batch: str,
    rates: Rates,
    target: Target,
    wanted: Wanted,
    reasons: list[str],
    promoted: bool,
) -> PipelineDecisions:
    """Everything chosen so far, with stages, staging, registers and the grid within the target's limits."""
    tile_m, tile_n, consumers, depth = shape.rows, shape.columns, shape.consumers, shape.depth
    element_bytes = a.map.tensor_map().element.bytes
    loaded_m, loaded_n = a.loaded_extent(tile_m), b.loaded_extent(tile_n)
    slot_bytes = (loaded_m + loaded_n) * depth * element_bytes
    launch, producer, consumer = register_budget(consumers, target, shape.resident)
    loop = LoopShape(
        (tile_m, tile_n, depth),
        (loaded_m, loaded_n),
        element_bytes,
        1,
        promoted,
        1 if wanted.turns else consumers,
        consumer,
        math.ceil(program.extents[axes[2]] / (depth * shape.shares)),
    )
    each = unit_shape(shape, bool(wanted.turns))
    needed = slots_wanted(loop, target)
    enough, most = EVERY_STAGE if wanted.turns else needed, needed + SPARE_SLOTS
    memory = divide_shared_memory(each, slot_bytes, stores, target, wanted, reasons, enough, most)
    memory = with_turns(memory, bool(wanted.turns), target)
    tiles_m = math.ceil(program.extents[axes[0]] / shape.row_step)
    tiles_n = math.ceil(program.extents[axes[1]] / shape.column_step)
    order, group = choose_tile_order(*taken_by_clusters(rates, (tile_m, tile_n), (tiles_m, tiles_n), cluster), wanted)
    cluster_size = cluster[0] * cluster[1] * shape.split
    clusters = (
        math.ceil(tiles_m / cluster[0]) * math.ceil(tiles_n / cluster[1]) * program.extents.get(batch, 1) * shape.teams
    )
    unit_part = (each.rows // consumers, tile_n // sum_parts(tile_n, shape.split))
    chunks = sum(len(store.boxes(*unit_part)) for store in stores if store.path == "tma")
    plans = (
        plan_load(a, loaded_m, depth, cluster[1], memory.stages),
        plan_load(b, loaded_n, depth, cluster[0], memory.stages),
        *(plan_store(store, memory.staging_slots, chunks) for store in stores if store.path == "tma"),
    )
    reasons.extend(plan_words(plan) for plan in plans)
    ctas = cluster_size * min(clusters, rates.multiprocessors // cluster_size)
    if shape.teams > 1:
        ctas = cluster_size * min(clusters, clusters_at_once(cluster_size, target))
    beside = shape.resident > 1 or ctas <= rates.multiprocessors // 2
    slices = math.ceil(program.extents[axes[2]] / (depth * shape.shares))
    beside = beside or shape.teams > 1
    brought = (a, b)
    by_maps = all(not each.materialized and not each.piece_bytes for each in brought)
    maps = [each.map.dims for each in brought]
    prefetch = prefetched_slices(maps, memory.stages, slices, wanted, by_maps=by_maps, beside=beside)
    partials = promoted_together((tile_m // consumers, tile_n), slices, consumer) if promoted else 1
    ordered = choose_issue_order(1 if wanted.turns else consumers, wanted, reasons, promoted=promoted)
    # Beside a total, the partial products of a turn have registers of their own.
    accumulators = 1 + partials if promoted else 1
    fill = sum(math.prod(o.map.dims) for o in (a, b) if o.materialized)
    # Two runs of 16 bytes a thread, in CTAs that are all there at once.
    fill_ctas, fill_threads = _fill_shape(fill, target, 2 * RUN_BYTES // element_bytes, _COPYING_CTAS)
    copied = tuple(each for each in (a, b) if each.materialized)
    own = (axes[0], tile_m) if copied and copied[0] is a else (axes[1], tile_n)
    turned = None if batch else turned_copy(program, copied, (own[0], axes[2]), own[1], target, wanted)
    if turned is not None:
        extents = (program.extents[own[0]], program.extents[axes[2]])
        fill_ctas, fill_threads = turning_ctas(turned, extents, target)[1], 32 * turned.warps
        reasons.append(f"the copy: {transpose_words(turned, (own[0], axes[2]))}")
    return PipelineDecisions(
        *axes,
        swapped=int(shape.swapped),
        tile_m=tile_m,
        tile_n=tile_n,
        tile_k=depth,
        a=a,
        b=b,
        stores=stores,
        async_plans=plans,
        stages=memory.stages,
        consumers=consumers,
        staging_slots=memory.staging_slots,
        staging_slot_bytes=memory.staging_slot_bytes,
        rows_bytes=memory.rows_bytes,
        producer_registers=producer,
        consumer_registers=consumer,
        launch_registers=launch,
        cluster_m=cluster[0],
        cluster_n=cluster[1],
        raster_group=group,
        tile_order=order,
        ctas=ctas,
        smem_bytes=memory.bytes,
        fill_ctas=fill_ctas,
        fill_threads=fill_threads,
        fill_kept=int(0 < fill * element_bytes <= target.limit("device.l2_bytes") and turned is None),
        reasons=tuple(reasons),
        programmatic=int(begins_early(bool(fill), clusters * cluster_size, ctas, wanted, reasons)),
        # Nobody waits for the slots of a CTA's only tile.
        releases_first=int(shape.teams > 1 or clusters * cluster_size > ctas),
        batch=(batch,) if batch else (),
        paired_loads=choose_paired_loads(program, axes[:2], wanted),
        split=shape.split,
        teams=shape.teams,
        prefetch=prefetch[0],
        prefetch_columns=prefetch[1],
        loads_ahead=choose_loads_ahead(program, axes[:2], each, accumulators, consumer),
        turns=int(bool(wanted.turns)),
        partials=partials,
        spill_slots=wanted.spill_slots,
        promoted=int(promoted),
        ordered=int(ordered),
        step_m=shape.steps[0],
        step_n=shape.steps[1],
        turned_fill=(turned,) if turned is not None else (),
    )
