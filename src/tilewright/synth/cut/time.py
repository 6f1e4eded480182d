"""How long does a decided program take, in microseconds, and what does no kernel of it undercut?

One estimate for every kind of program, in one unit, so that sequences of kernels compare with a single kernel:

- a walk that only sums takes what `synth.cost.time_model` says;
- threads that fold rows or compute elements move bytes, each array once, and once more for every further walk, at the
  device memory's rate or, where few multiprocessors have work, at what those get from the L2 cache;
- a walk along an axis by tiles takes, for each of its tiles, its products and what threads compute of their results,
  which hide each other where two consumers alternate, and what its slots fetch; a lone consumer waits besides, and
  where tables say where rows lie, so does the thread that fills slots. The tensor cores' part is that of `time_model`;
  special functions and arithmetic are counted at the rates of `synth.cost.roofline`. Each wave of tiles takes what one
  of them does, or what device memory takes for all of them, whichever is longer.

Against an H200 (`python -m bench fused`): sequences of a product and rows take 0.99 to 1.06 of their estimate, split
attention of one query 0.83 to 1.02, attention 0.95 to 1.2, walks whose consumers compute an operand up to 2.0, so that
a single kernel is rather kept than cut. Not handled: clocks that fall under load but for sums, arrays that stay in the
L2 cache from one kernel to the next. It chooses nothing by itself.
Checked by: tests/synth/cut/test_time.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from tilewright.ir.cascade import CascadeDecisions, SlotDecision, walked_part
from tilewright.ir.cascade_facts import CascadeAxes, cascade_axes, contractions, loads_of_walk, products_of
from tilewright.ir.decisions import Decisions, ElementwiseDecisions
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis
from tilewright.ir.tile.facts import axes_of, dots, loads, loops, reductions, stores
from tilewright.ir.tile.types import tensor_type, value_type
from tilewright.ir.tile.unedited import while_unedited
from tilewright.synth.cascade.groups import tiles_of
from tilewright.synth.cascade.sums.sum_time import sum_cycles
from tilewright.synth.cascade.walk.walk_iteration import iteration_cycles
from tilewright.synth.cascade.walk.walk_time import ctas_together
from tilewright.synth.cost.roofline import (
    compulsory_bytes,
    predicted_microseconds,
)
from tilewright.synth.cost.time_model import parameters_of
from tilewright.targets import Target

_ALTERNATING = 1.25
"""The exponent of the norm that says how well two consumers hide products behind each other's arithmetic."""


@while_unedited
def least_microseconds(program: tile.ProgramOp, target: Target) -> float:
    """What no kernel of a program undercuts, however it is decided: its products at the tensor cores' rate, or its
    arrays once at the rate at which slots stream them, and a launch."""
    everywhere = target.limit("device.clock_hertz") * target.limit("device.multiprocessors")
    rate = target.limit("product.f8_flop_per_cycle_per_multiprocessor")
    products = 0
    for op in (*dots(program), *contractions(program)):
        kind = "bf16" if max(_bytes(op.left), _bytes(op.right)) > 1 else "f8"
        spanned = math.prod(
            program.extents[axis] for axis in {base_axis(each) for each in (*axes_of(op.left), *axes_of(op.right))}
        )
        products += 2 * spanned * rate // target.limit(f"product.{kind}_flop_per_cycle_per_multiprocessor")
    streamed = 1e6 * compulsory_bytes(program) / target.limit("pipeline.streamed_bytes_per_second")
    return _start(target) + max(1e6 * products / (rate * everywhere), streamed)


def moved(size_bytes: float, target: Target) -> float:
    """Microseconds in which device memory moves so many bytes at best."""
    return 1e6 * size_bytes / target.limit("device.dram_bytes_per_second")


@while_unedited
def microseconds(program: tile.ProgramOp, decisions: Decisions, target: Target) -> float:
    """Of a launch that follows another."""
    match decisions:
        case ElementwiseDecisions():
            return _start(target) + _elements(program, decisions, target)
        case CascadeDecisions():
            predicted = predicted_microseconds(program, decisions, target)
            return _start(target) + _walks(program, decisions, target) if predicted is None else predicted


def _start(target: Target) -> float:
    return (target.limit("time_model.start_cycles") + target.limit("time_model.alone_cycles")) * _cycle(target)


def _cycle(target: Target) -> float:
    return 1e6 / target.limit("device.clock_hertz")


def _elements(program: tile.ProgramOp, d: ElementwiseDecisions, target: Target) -> float:
    """Rows that nobody holds are read once for each fold that waits for another, and once for what is stored."""
    walks = 1 + _waiting(program) if any(row.streamed and not row.kept for row in d.rows) else 1
    stored = sum(array_bytes(op.tensor) for op in stores(program))
    total = walks * (compulsory_bytes(program) - stored) + stored
    rate = target.limit("device.l2_bytes_per_cycle_per_multiprocessor") * busy_multiprocessors(program, d, target)
    return max(_at_reading_rate(total, target), total / rate * _cycle(target))


def busy_multiprocessors(program: tile.ProgramOp, decisions: Decisions, target: Target) -> float:
    """How many have work on average, until the last one is done."""
    shares = shares_of_work(program, decisions, target)
    return min(shares / math.ceil(shares / decisions.ctas), target.limit("device.multiprocessors"))


def shares_of_work(program: tile.ProgramOp, decisions: Decisions, target: Target) -> float:
    """Into how many shares a launch's work is divided, each of which keeps a multiprocessor at work."""
    match decisions:
        case CascadeDecisions():
            return tiles_of(program, decisions)
        case ElementwiseDecisions():
            return _filled(decisions, target)


def _filled(decisions: ElementwiseDecisions, target: Target) -> float:
    """How many multiprocessors a launch's CTAs keep at work: one each, but of threads that take a row each, and ask for
    its elements one by one, as many CTAs as it has room for."""
    if any(row.threads == 1 for row in decisions.rows):
        return decisions.ctas * decisions.threads / target.limit("multiprocessor.threads_max")
    return decisions.ctas


def _waiting(program: tile.ProgramOp) -> int:
    """The most folds of which each reads another's result."""
    depth: dict[object, int] = {}
    for op in program.walk():
        below = max((depth.get(value, 0) for value in op.operands), default=0)
        below += op in reductions(program)
        for result in op.results:
            depth[result] = below
    return max(depth.values(), default=0)


def _at_reading_rate(size_bytes: float, target: Target) -> float:
    return moved(size_bytes, target) / (parameters_of(target).read_permille / 1000)


@dataclass(frozen=True, slots=True)
class Parts:
    """Of an axis of `whole` elements: how many, and elements of each. state_bytes: that each stores of all rows."""

    count: int
    length: int
    whole: int
    state_bytes: int


@while_unedited
def microseconds_in_parts(program: tile.ProgramOp, decisions: Decisions, target: Target) -> Callable[[Parts], float]:
    """Of a decided program with the axis that it walks or folds in parts, and of the launch that combines their states:
    a walk of as many tiles more, each for so much less. Others take the time in which all multiprocessors would be at
    work, and wait for the last wave."""
    most = target.limit("device.multiprocessors")
    if isinstance(decisions, CascadeDecisions) and not decisions.sums_alone:
        walks, ctas = _walks_of(program, decisions, target), most * ctas_together(decisions, target)

        def of_walk(parts: Parts) -> float:
            tile_, tiles = decisions.tile_streamed, walks.tiles * parts.count
            # What the axis's end leaves of a last tile takes some of its time.
            walked = (-(-parts.length // tile_) + parts.length / tile_) / 2
            each = replace(
                walks, tiles=tiles, iterations=walks.iterations * walked / -(-parts.whole // tile_),
                read_bytes=walks.read_bytes * parts.count * parts.length / parts.whole,
                stored_bytes=parts.count * parts.state_bytes, waits=walks.waits and walks.tiles > decisions.ctas,
            )  # fmt: skip
            return _start(target) + _waves(each, min(tiles, ctas), target) + _combined(parts, target)

        return of_walk
    shares = shares_of_work(program, decisions, target)
    busy = microseconds(program, decisions, target) * busy_multiprocessors(program, decisions, target) / most
    busy = max(busy, _at_reading_rate(compulsory_bytes(program), target))

    def of_others(parts: Parts) -> float:
        waves = parts.count * shares / most
        return busy * parts.count * parts.length / parts.whole * math.ceil(waves) / waves + _combined(parts, target)

    return of_others


def _combined(parts: Parts, target: Target) -> float:
    """Microseconds of the launch that combines the states."""
    return _start(target) + _at_reading_rate(2 * parts.count * parts.state_bytes, target)


@dataclass(frozen=True, slots=True)
class _Walks:
    """What tiles of rows do: how many tiles there are, iterations of each, cycles of an iteration of all loops, bytes
    that each of them fetches, bytes of a tile's resident slots, bytes read from device memory once, and stored. waits:
    whether a CTA has one slot only for what a tile reads once, so that its next one begins when the last has ended."""

    tiles: int
    iterations: float
    iteration_cycles: float
    iteration_bytes: int
    resident_bytes: int
    read_bytes: float
    stored_bytes: int
    consumers: int
    waits: bool


def _walks(program: tile.ProgramOp, d: CascadeDecisions, target: Target) -> float:
    walks = _walks_of(program, d, target)
    if d.sums_alone:
        each = sum_cycles(program, cascade_axes(program), d, target) * _cycle(target)
        return max(each, walks.tiles * _read_by_tile(walks, target))
    return _waves(walks, d.ctas, target)


def _walks_of(program: tile.ProgramOp, d: CascadeDecisions, target: Target) -> _Walks:
    axes = cascade_axes(program)
    rows, most = (
        -(-program.extents[axis] // size) for axis, size in ((d.row, d.tile_rows), (d.streamed, d.tile_streamed))
    )
    iterations = float(most)
    if d.walked:
        (part,) = d.walked
        iterations = sum(walked_part(part.begin, part.end, most, row)[1] for row in range(rows)) / rows
    return _Walks(
        tiles_of(program, d),
        iterations,
        sum(_iteration(program, axes, loop, d, target) for loop in loops(program)),
        sum(_fetched_bytes(program, loop, d) for loop in loops(program)),
        sum(each.slot_bytes for each in d.slots if each.resident),
        compulsory_bytes(program),
        sum(array_bytes(op.tensor) for op in stores(program)),
        d.consumers,
        any(each.resident and each.slots == 1 for each in d.slots),
    )


def _waves(walks: _Walks, ctas: int, target: Target) -> float:
    """Microseconds of all tiles, as many at once as there are CTAs."""
    p, read = parameters_of(target), _read_by_tile(walks, target)
    each = walks.iterations * walks.iteration_cycles + p.latency_cycles
    each += 1000 * walks.stored_bytes / walks.tiles / (walks.consumers * p.scattered_bytes_per_kilocycle)
    if walks.tiles > ctas:
        read *= target.limit("pipeline.several_tiles_percent") / 100
    # A last wave of few tiles reads no faster than these are walked.
    whole, left = divmod(walks.tiles, ctas)
    waves = [ctas] * whole + [left] * bool(left)
    waits = (len(waves) - 1) * walks.waits * target.limit("pipeline.streamed_latency_cycles")
    return waits * _cycle(target) + sum(
        max(each * _cycle(target), wave * read / _reading(wave, target, last=whole > 0)) for wave in waves
    )


def _read_by_tile(walks: _Walks, target: Target) -> float:
    """Microseconds in which the L2 cache or device memory brings what a tile reads, with all tiles at it."""
    rate = target.limit("device.l2_bytes_per_cycle_per_multiprocessor") * target.limit("device.multiprocessors")
    cached = (walks.iterations * walks.iteration_bytes + walks.resident_bytes) / rate * _cycle(target)
    return max(cached, _streamed(walks.read_bytes, target) / walks.tiles)


def _reading(ctas: int, target: Target, *, last: bool = False) -> float:
    """The part of the device memory's rate at which so many CTAs read. With more than one for each two multiprocessors,
    and fewer than one for each, some have a way to memory for themselves and end before the others; those that have a
    tile more than others share ways with some that have ended."""
    most = target.limit("device.multiprocessors")
    power = target.limit("pipeline.reading_share_power_percent") / 100
    return (ctas / most) ** power if ctas < most and (last or most < 2 * ctas) else 1.0


def _streamed(size_bytes: float, target: Target) -> float:
    """Microseconds in which slots of all multiprocessors, filled ahead, stream so many bytes: of many, at a higher rate
    than short launches reach."""
    streaming = 1e6 * size_bytes / target.limit("pipeline.streamed_bytes_per_second")
    begun = target.limit("pipeline.streaming_start_cycles") * _cycle(target)
    return min(_at_reading_rate(size_bytes, target), streaming + begun)


def _iteration(
    program: tile.ProgramOp, axes: CascadeAxes, loop: tile.LoopOp, d: CascadeDecisions, target: Target
) -> float:
    """Cycles of one tile of the streamed axis, of all consumers of a CTA."""
    fetched = 1000 * _fetched_bytes(program, loop, d) / parameters_of(target).fetch_bytes_per_kilocycle
    fetched *= ctas_together(d, target) if d.consumers == 1 else 1
    return max(_consumed(program, axes, loop, d, target), fetched, _asked_cycles(program, loop, d, target))


def _consumed(
    program: tile.ProgramOp, axes: CascadeAxes, loop: tile.LoopOp, d: CascadeDecisions, target: Target
) -> float:
    """The same of what consumers do with it."""
    tensor, late, computed = iteration_cycles(program, axes, loop, d, target)
    if d.consumers > 1:
        return _alternating(tensor + late, computed)
    # Nobody else computes while it waits, for a slot, a product, and results that others are computed of.
    waits = 0 if d.tensor_columns else target.limit("pipeline.lone_iteration_wait_cycles")
    alone, count = tensor + max(computed, late) + waits, ctas_together(d, target)
    return alone if count == 1 else max(alone, _alternating(count * (tensor + late), count * computed))


def _alternating(tensor: float, computed: float) -> float:
    """Cycles of several consumers' products, and of what they compute, each beside the others' products."""
    return (tensor**_ALTERNATING + computed**_ALTERNATING) ** (1 / _ALTERNATING)


def _asked_cycles(program: tile.ProgramOp, loop: tile.LoopOp, d: CascadeDecisions, target: Target) -> int:
    """What the thread that fills slots takes for one tile of the streamed axis, where tables say where its boxes lie:
    it has what they say by then, and asks for each box."""
    boxes = sum(each.boxes_down * each.spans for each in _passing(program, loop, d) if each.lookups)
    return boxes * target.limit("pipeline.box_cycles")


def streaming_slots(program: tile.ProgramOp, d: CascadeDecisions, target: Target) -> int:
    """Slots of rings that stream as fast as device memory brings bytes that each tile has of its own: while one is
    asked for, brought and taken, memory fills the others. With more, CTAs run further ahead of each other and ask for
    rows further apart, which makes memory slower."""
    axes, found = cascade_axes(program), 1
    rate = target.limit("pipeline.streamed_bytes_per_second") / target.limit("device.clock_hertz")
    for loop in loops(program):
        brought = d.ctas * _fetched_bytes(program, loop, d) / rate
        taken = _consumed(program, axes, loop, d, target) + _asked_cycles(program, loop, d, target)
        if brought:
            found = max(found, math.ceil((target.limit("pipeline.streamed_latency_cycles") + taken) / brought))
    return found


def _passing(program: tile.ProgramOp, loop: tile.LoopOp, d: CascadeDecisions) -> list[SlotDecision]:
    """The slots that are filled for each tile of the streamed axis."""
    listed = loads(program)
    needed = loads_of_walk(loop, products_of(program), [listed[each.load] for each in d.slots])
    return [each for each in d.slots if not each.resident and listed[each.load] in needed]


def _fetched_bytes(program: tile.ProgramOp, loop: tile.LoopOp, d: CascadeDecisions) -> int:
    """Of one tile of the streamed axis, by a CTA."""
    return sum(
        each.slot_bytes * (-(-program.extents[each.sliced] // d.slice_depth) if each.sliced else 1)
        for each in _passing(program, loop, d)
    )


def _bytes(value: SSAValue) -> int:
    return value_type(value).element_kind.bytes


def array_bytes(tensor: SSAValue) -> int:
    kind = tensor_type(tensor)
    return math.prod(kind.extents) * kind.element_kind.bytes
