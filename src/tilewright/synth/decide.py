"""What kernel a tile program becomes: every choice, with its reason, written on the program as its `decisions`.

Order of choice: orientation (the output's contiguous axis runs along the accumulator's columns), operand paths (a legal
tensor map, else a workspace with padded rows), tile shape by the model in `synth.model`, then stages, staging and
registers by what the target's shared memory and register file hold. Each step is one function of plain values and may
be replaced alone.

Handled: programs with one dot of 16-bit operands over one loop, and programs with none. Anything else is refused with
the author's line. Checked by `legal` before anything is written, and by `contract` on the lowered kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.ir import tile
from tilewright.ir.decisions import (
    ROWS_BYTES,
    RUN_BYTES,
    Decisions,
    ElementwiseDecisions,
    OperandDecision,
    PipelineDecisions,
    StoreDecision,
    to_attribute,
)
from tilewright.ir.tile_facts import dots, grid_axes, stores
from tilewright.ir.tile_types import tensor_type, value_type
from tilewright.synth.async_plan import plan_load, plan_store, plan_words
from tilewright.synth.model import Rates, pipeline_cycles, raster_group, rates_of, slice_cycles
from tilewright.synth.operands import SWIZZLE_SPAN_BYTES, TILE_K, Site, decide_operand, decide_store
from tilewright.targets import Target

_PRODUCER_REGISTERS = 40
"""Enough for addresses and loop counters: the producer computes nothing else."""
_MOST_LAUNCH_REGISTERS = 168
_MOST_CONSUMER_REGISTERS = 240
"""Caps for a block of few warpgroups, whose threads could have more: accumulators take 128 at most."""

_SHAPES: tuple[tuple[int, int, int], ...] = (
    (128, 256, 2),
    (256, 128, 2),
    (128, 192, 2),
    (128, 128, 2),
    (128, 64, 2),
    (64, 256, 1),
    (64, 128, 1),
    (64, 64, 1),
)
"""(tile_m, tile_n, consumer warpgroups). Accumulators take tile_m * tile_n / (128 * consumers) <= 128 registers."""

_MOST_STAGES = 8
_ENOUGH_STAGES = 4
"""A second staging slot is given up rather than run with fewer."""
_LEAST_STAGES = 2
"""A slot is released one slice late, so with a single slot the producer would wait for ever."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Choices fixed from outside (by a user or a tuner); None leaves one to the synthesiser.

    misaligned: parameters whose arrays do not begin at a multiple of 16 bytes, which no tensor map can describe.
    """

    tile: tuple[int, int] | None = None
    stages: int | None = None
    cluster: tuple[int, int] | None = None
    misaligned: tuple[str, ...] = ()


def decide(program: tile.ProgramOp, target: Target, wanted: Wanted | None = None) -> Decisions:
    """Choose, write the `decisions` attribute on `program`, and return what was chosen.

    Raises TilewrightError at the author's line for a program outside the supported shapes.
    """
    wanted = wanted or Wanted()
    products = dots(program)
    decisions: Decisions
    if not products:
        decisions = _decide_elementwise(program, target)
    elif len(products) == 1:
        decisions = _decide_pipeline(program, products[0], target, wanted)
    else:
        raise _unsupported(
            products[1].place.data,
            "a program with more than one dot is not compiled yet",
            "split it into two kernels",
        )
    program.attributes["decisions"] = to_attribute(decisions)
    return decisions


def _unsupported(place: str, message: str, remedy: str) -> TilewrightError:
    file, _, line = place.rpartition(":")
    return TilewrightError(message, span=Span(file, int(line)), remedy=remedy)


def _fill_shape(points: int, target: Target, points_per_thread: int = 4) -> tuple[int, int]:
    """(CTAs, threads) of an element-by-element kernel: at most eight CTAs a multiprocessor."""
    threads = 256
    most = 8 * target.limit("device.multiprocessors")
    return max(1, min(math.ceil(points / (points_per_thread * threads)), most)), threads


def _decide_elementwise(program: tile.ProgramOp, target: Target) -> ElementwiseDecisions:
    points = math.prod(program.extents[axis] for axis in grid_axes(program))
    ctas, threads = _fill_shape(points, target)
    return ElementwiseDecisions(
        ctas, threads, (f"no dot: {points} points on {ctas} CTAs of {threads} threads, plain loads and stores",)
    )


# ---------------------------------------------------------------- the pipeline


def _decide_pipeline(program: tile.ProgramOp, dot: tile.DotOp, target: Target, wanted: Wanted) -> PipelineDecisions:
    left, right = value_type(dot.left), value_type(dot.right)
    rows, contracted = left.axis_names
    columns = right.axis_names[1]
    reasons: list[str] = []
    swapped = _wants_swap(program, columns)
    sides = (("left", dot.left, rows), ("right", dot.right, columns))
    if swapped:
        rows, columns = columns, rows
        sides = (sides[1], sides[0])
        reasons.append(f"transposed product: the output is contiguous along {columns}")
    rates = rates_of(target)
    extents = (program.extents[rows], program.extents[columns], program.extents[contracted])
    stored_bytes = sum(tensor_type(store.tensor).element_kind.bytes for store in stores(program))
    tile_m, tile_n, consumers = _tile_shape(rates, extents, left.element_kind.bytes, stored_bytes, wanted, reasons)
    cluster = _cluster(rates, (tile_m, tile_n), left.element_kind.bytes, wanted, reasons)
    # CTAs side by side along the columns share A's rows, CTAs along the rows share B's columns; each loads its part.
    site = Site(program, target, wanted.misaligned, reasons)
    a = decide_operand(site, sides[0], contracted, tile_m // cluster[1])
    b = decide_operand(site, sides[1], contracted, tile_n // cluster[0])
    leaving = tuple(decide_store(site, store, (rows, columns), tile_m // consumers) for store in stores(program))
    shape = (tile_m, tile_n, consumers)
    axes = (rows, columns, contracted)
    return _fit(program, axes, swapped, shape, cluster, a, b, leaving, rates, target, wanted, reasons)


def _wants_swap(program: tile.ProgramOp, columns: str) -> bool:
    """True if the first stored tensor is contiguous along the rows and not along the columns."""
    tensor = tensor_type(stores(program)[0].tensor)
    strides = dict(zip(tensor.axis_names, tensor.stride_elements, strict=True))
    return strides[columns] != 1 and 1 in strides.values()


def _tile_shape(
    rates: Rates,
    extents: tuple[int, int, int],
    element_bytes: int,
    stored_bytes: int,
    wanted: Wanted,
    reasons: list[str],
) -> tuple[int, int, int]:
    shapes = [shape for shape in _SHAPES if wanted.tile is None or shape[:2] == wanted.tile]
    if not shapes:
        known = ", ".join(f"{m}x{n}" for m, n, _ in _SHAPES)
        raise TilewrightError(f"no tile shape {wanted.tile}", remedy=f"choose one of {known}")

    def cycles(shape: tuple[int, int, int]) -> float:
        return pipeline_cycles(rates, extents, (shape[0], shape[1], TILE_K), element_bytes, stored_bytes)

    best = min(shapes, key=cycles)
    tiles = math.ceil(extents[0] / best[0]) * math.ceil(extents[1] / best[1])
    reasons.append(
        f"tile {best[0]}x{best[1]}x{TILE_K}: {tiles} tiles on {rates.multiprocessors} multiprocessors, "
        f"about {cycles(best):.0f} cycles by the model"
    )
    return best


_CLUSTERS = ((1, 1), (2, 1), (1, 2))


def _cluster(
    rates: Rates, tile_shape: tuple[int, int], element_bytes: int, wanted: Wanted, reasons: list[str]
) -> tuple[int, int]:
    """CTAs of a cluster along rows and columns. One, unless asked for: see the reason it gives.

    Where fetching is the longer, sharing still loses: every release of a slot must then reach the other CTA, and a
    release at cluster scope costs more than the fetch saves (`python -m bench clusters` on an H200).
    """
    if wanted.cluster is not None:
        if wanted.cluster not in _CLUSTERS:
            known = ", ".join(f"{m}x{n}" for m, n in _CLUSTERS)
            raise TilewrightError(f"no cluster shape {wanted.cluster}", remedy=f"choose one of {known}")
        if tile_shape[1] // wanted.cluster[0] % 64 or tile_shape[0] // wanted.cluster[1] % 64:
            raise TilewrightError(
                f"a cluster {wanted.cluster} cannot share a tile {tile_shape}",
                remedy="each CTA loads a part of the shared operand, which must be a multiple of 64",
            )
        reasons.append(f"cluster {wanted.cluster[0]}x{wanted.cluster[1]}: as asked for")
        return wanted.cluster
    multiply, fetch = slice_cycles(rates, (*tile_shape, TILE_K), element_bytes)
    words = (
        "multicast would save nothing" if fetch <= multiply else "a cluster-wide release costs more than sharing saves"
    )
    reasons.append(
        f"cluster 1x1: a slice takes {multiply:.0f} cycles to multiply and {fetch:.0f} to fetch from L2; {words}"
    )
    return (1, 1)


def _fit(
    program: tile.ProgramOp,
    axes: tuple[str, str, str],
    swapped: bool,
    shape: tuple[int, int, int],
    cluster: tuple[int, int],
    a: OperandDecision,
    b: OperandDecision,
    stores: tuple[StoreDecision, ...],
    rates: Rates,
    target: Target,
    wanted: Wanted,
    reasons: list[str],
) -> PipelineDecisions:
    """Everything chosen so far, with stages, staging, registers and the grid within the target's limits."""
    tile_m, tile_n, consumers = shape
    memory = _shared_memory(shape, a.map.tensor_map().element.bytes, stores, target, wanted, reasons)
    tiles_m = math.ceil(program.extents[axes[0]] / tile_m)
    tiles_n = math.ceil(program.extents[axes[1]] / tile_n)
    cluster_size = cluster[0] * cluster[1]
    clusters = math.ceil(tiles_m / cluster[0]) * math.ceil(tiles_n / cluster[1])
    launch, producer, consumer = _registers(consumers, target)
    plans = (
        plan_load(a, tile_m, TILE_K, cluster[1], memory.stages),
        plan_load(b, tile_n, TILE_K, cluster[0], memory.stages),
        *(plan_store(store, memory.staging_slots) for store in stores if store.path == "tma"),
    )
    reasons.extend(plan_words(plan) for plan in plans)
    fill = sum(math.prod(o.map.dims) for o in (a, b) if o.materialized)
    # Two runs of 16 bytes a thread.
    fill_ctas, fill_threads = _fill_shape(fill, target, 2 * RUN_BYTES // a.map.tensor_map().element.bytes)
    return PipelineDecisions(
        *axes,
        swapped=int(swapped),
        tile_m=tile_m,
        tile_n=tile_n,
        tile_k=TILE_K,
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
        raster_group=min(raster_group(rates, tile_m, tile_n), tiles_m),
        ctas=cluster_size * min(clusters, rates.multiprocessors // cluster_size),
        smem_bytes=memory.bytes,
        fill_ctas=fill_ctas,
        fill_threads=fill_threads,
        reasons=tuple(reasons),
    )


@dataclass(frozen=True, slots=True)
class _SharedMemory:
    """How shared memory is divided. staging_slots, rows_bytes: of each consumer; bytes: of everything, barriers
    included."""

    stages: int
    staging_slots: int
    staging_slot_bytes: int
    rows_bytes: int
    bytes: int


def _shared_memory(
    shape: tuple[int, int, int],
    element_bytes: int,
    stores: tuple[StoreDecision, ...],
    target: Target,
    wanted: Wanted,
    reasons: list[str],
) -> _SharedMemory:
    """As many stages as fit beside the staging slots; a second staging slot gives way to a fourth stage."""
    tile_m, tile_n, consumers = shape
    limit = target.limit("cta.shared_bytes_max")
    stage_bytes = (tile_m + tile_n) * TILE_K * element_bytes
    barrier_bytes = 2 * target.limit("mbarrier.bytes")
    staged = [store for store in stores if store.path == "tma"]
    slot_bytes = (tile_m // consumers) * SWIZZLE_SPAN_BYTES if staged else 0
    # Slots are used in turn, and the turn must come out even at the end of a tile: otherwise the next tile begins with
    # a slot whose store is the newest, which a wait for all but the newest does not cover.
    chunks = sum(tile_n // store.chunk_columns for store in staged)
    choices = [count for count in (2, 1) if chunks % count == 0] if staged else [0]
    rows_bytes = ROWS_BYTES if any(store.along_rows for store in stores) else 0
    slots, stages = 0, 0
    for slots in choices:
        left = limit - (slots * slot_bytes + rows_bytes) * consumers
        stages = min(_MOST_STAGES, left // (stage_bytes + barrier_bytes))
        if stages >= _ENOUGH_STAGES:
            break
    if wanted.stages is not None:
        if not _LEAST_STAGES <= wanted.stages <= stages:
            raise TilewrightError(
                f"{wanted.stages} stages of {stage_bytes} bytes do not make a pipeline",
                remedy=f"use {_LEAST_STAGES} to {stages} stages",
            )
        stages = wanted.stages
    staging_bytes = (slots * slot_bytes + rows_bytes) * consumers
    reasons.append(
        f"{stages} stages of {stage_bytes} bytes and {staging_bytes} bytes of staging in {limit} bytes of shared memory"
    )
    return _SharedMemory(stages, slots, slot_bytes, rows_bytes, (stage_bytes + barrier_bytes) * stages + staging_bytes)


def _registers(consumers: int, target: Target) -> tuple[int, int, int]:
    """(at launch, producer, consumer) registers a thread: the producer gives most of its own to the consumers."""
    step = target.limit("setmaxnreg.registers_step")
    threads = target.limit("warpgroup.threads") * (1 + consumers)
    launch = min(_MOST_LAUNCH_REGISTERS, target.limit("multiprocessor.registers") // threads // step * step)
    spare = launch * (1 + consumers) - _PRODUCER_REGISTERS
    consumer = min(_MOST_CONSUMER_REGISTERS, spare // consumers // step * step)
    return launch, _PRODUCER_REGISTERS, consumer
