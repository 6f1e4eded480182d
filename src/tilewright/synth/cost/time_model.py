"""How long does a decided product take, in microseconds, from the end of the launch before to its own end?

One closed form for every configuration of a walk that sums (`synth.cost.product_kernel`): large tiles
shared or alternate, thin products, splits, few stages. A CTA's slice of the contracted axis takes the longest of

- multiplying it, at the tensor cores' rate or at that of the shared memory that they read;
- fetching it from the L2 cache, or copying it by threads where no tensor map describes it;
- what the ring holds it up: a slot is free again a copy's latency and its products after it was, and latency grows
  with what all CTAs ask of the memory meanwhile;

and, where a slot is released with its own product, what the tensor cores idle between that product's end and the next.
A tile is its slices and its epilogue, a warpgroup's share of the tile, which turns hide behind the other consumer's
product. Whole waves of tiles make the loop, of streamed tiles their owner's part; the first slice comes before anything
overlaps. The longer of the loop and of what the memory brings to all CTAs together makes the kernel; tensor cores that
are busy everywhere lower the clock until the board's power is kept. Longest is meant softly (a norm), since nothing
overlaps perfectly.

Where a multiprocessor has room for the next launch's CTAs beside this one's, they are resident, with barriers and maps
ready, when this one ends; where it has not, a launch begins with what they would have done meanwhile.

Parameters (`TimeParameters`) are target facts, fitted to 1020 times of 20 products on an H200, the fast ones of each
product counting most (`python -m bench model --from bench/results/model_fitted.json --fit`, which also fits ten
products and tells how well the other ten are foretold). It predicts for inputs that lie in device memory, launches that
follow one another, and a clock that is not held down from outside. Not handled: grouped rows, several launches
(operands that are written anew first), scales inside the loop, rows of a box that lie outside the array (where 63 of 64
do they cost time), clusters that multicast.
It checks nothing and chooses nothing by itself. Checked by: tests/synth/cost/test_time_model.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cache

from tilewright.ir.cascade import CascadeDecisions
from tilewright.synth.cascade.slots.slot_pieces import copying_cycles
from tilewright.synth.cost.product_kernel import ProductKernel, product_kernel
from tilewright.synth.tile.long_sum import handing_cycles
from tilewright.synth.tile.long_sum import parameters_of as sum_parameters_of
from tilewright.targets import Target


@dataclass(frozen=True, slots=True)
class TimeParameters:
    """The rows `time_model.*` of a target, in their units.

    start_cycles: from the end of the launch before to the first product, and from the last store to the end.
    alone_cycles: what that takes besides where the next launch's CTAs have no room beside this one's.
    store_bytes_per_kilocycle, scattered_bytes_per_kilocycle: how fast what a warpgroup computed leaves through staging,
    and without.
    turn_cycles: what passing a turn of the tensor core costs, for each tile.
    meeting_cycles: what a rendezvous of two CTAs that share the contracted axis takes; of more see
    `synth.tile.long_sum`. taken_cycles: what taking up a streamed tile that another CTA began costs its owner.
    fetch_bytes_per_kilocycle: what one multiprocessor gets from the L2 cache: neighbours' requests for the same lines
    are joined, and what fetching adds to multiplying is in the norm.
    latency_cycles: from the release of a slot to its next product, when it comes from device memory.
    loaded_permille: of the time in which memory brings what all CTAs ask for at once, what is added to that.
    read_permille: of a long copy's rate, what reading that starts and ends with each launch reaches.
    reread_permille: how many times what a wave of tiles needs beyond compulsory reads is read again, where the inputs
    outgrow the L2 cache by far.
    slice_norm_permille, memory_norm_permille, kernel_norm_permille: norms that say how well parts hide one another: of
    a slice's, of the memory's, and of the whole.
    sustained_permille: of the tensor cores' rate at the highest clock, what the board's power allows of long products.
    """

    start_cycles: float
    alone_cycles: float
    store_bytes_per_kilocycle: float
    scattered_bytes_per_kilocycle: float
    turn_cycles: float
    meeting_cycles: float
    taken_cycles: float
    fetch_bytes_per_kilocycle: float
    latency_cycles: float
    loaded_permille: float
    read_permille: float
    reread_permille: float
    slice_norm_permille: float
    memory_norm_permille: float
    kernel_norm_permille: float
    sustained_permille: float


@cache
def parameters_of(target: Target) -> TimeParameters:
    """What is known of a target's device. Raises TilewrightError where nothing is."""
    return TimeParameters(
        **{each.name: float(target.limit(f"time_model.{each.name}")) for each in fields(TimeParameters)}
    )


@dataclass(frozen=True, slots=True)
class PredictedTime:
    """microseconds: of a launch. The others are its parts, each in microseconds as if nothing else took any: bounds and
    terms for a reader, of which `microseconds` is no sum. loop: of the CTA with most tiles; memory: what device memory
    and the L2 cache bring to all; power: what the tensor cores need at the clock that the board's power allows."""

    microseconds: float
    start: float
    loop: float
    epilogue: float
    memory: float
    power: float

    @property
    def dominant(self) -> str:
        """The part that takes longest."""
        parts = {"loop": self.loop, "memory": self.memory, "power": self.power}
        return max(parts, key=lambda name: parts[name])


def predicted_time(
    decisions: CascadeDecisions,
    extents: tuple[int, int, int],
    target: Target,
    parameters: TimeParameters | None = None,
    stored_bytes: int | None = None,
) -> PredictedTime:
    """The time of a product of (rows, columns, contracted) elements as the program has them, swapped or not.

    parameters: others than the target's; stored_bytes: as of `product_kernel`. Raises TilewrightError where the target
    states none.
    """
    kernel = product_kernel(decisions, extents, stored_bytes)
    copied = copying_cycles(decisions, target)
    p = parameters or parameters_of(target)
    cycle = 1e6 / target.limit("device.clock_hertz")
    multiprocessors = target.limit("device.multiprocessors")
    kind = "bf16" if kernel.element_bytes == 2 else "f8"
    operations = target.limit(f"product.{kind}_flop_per_cycle_per_multiprocessor")
    l2_bytes = target.limit("device.l2_bytes_per_cycle_per_multiprocessor")
    dram_bytes = target.limit("device.dram_bytes_per_second") / target.limit("device.clock_hertz")

    # What all CTAs ask of the memory.
    workers = max(1, kernel.ctas // kernel.shares)
    l2 = kernel.fetched_bytes / (l2_bytes * multiprocessors)
    missed = p.reread_permille / 1000 * _missed_bytes(kernel, workers, target)
    read = (kernel.compulsory_bytes + missed) / (dram_bytes * p.read_permille / 1000)
    memory = _norm((read, l2), p.memory_norm_permille)

    # One slice of one CTA.
    slices = math.ceil(kernel.depth / (kernel.tile_depth * kernel.shares))
    waves = math.ceil(kernel.tiles / workers)
    loaded_rows = 0 if kernel.computed else kernel.tile_rows * kernel.products
    multiply = multiply_cycles(
        (kernel.tile_rows, kernel.multiplied, kernel.tile_depth), loaded_rows, kernel.element_bytes, target
    )
    fetch = 1000 * kernel.slot_bytes / p.fetch_bytes_per_kilocycle
    held = (1 + kernel.release_distance) * max(multiply, fetch)
    ring = (p.latency_cycles + held) / kernel.stages + p.loaded_permille / 1000 * read / (slices * waves)
    each = _norm((multiply, fetch, ring, copied), p.slice_norm_permille)
    if kernel.release_distance == 0:
        each += target.limit("latency.product_cycles") + target.limit("pipeline.restart_cycles")

    # The CTA with most tiles.
    epilogue = _epilogue_cycles(kernel, p, target)
    taken = 0.0
    taken_waves = float(waves)
    if kernel.streamed:
        taken_waves = (kernel.tiles - kernel.streamed) // workers + 1 - kernel.head_slices / slices
        taken = p.taken_cycles
    product = slices * each
    if kernel.turns:
        both = (taken_waves * product + waves * epilogue) / 2
        loop = max(taken_waves * (product + p.turn_cycles), both) + epilogue
    else:
        loop = taken_waves * product + waves * epilogue
    # The first slice comes before anything overlaps.
    loop += taken + each

    flop = 2 * kernel.rows * kernel.columns * kernel.depth * kernel.products
    ideal = flop / (operations * multiprocessors)
    # Products that take less leave the clock higher.
    brief = min(1.0, ideal * cycle / target.limit("time_model.brief_microseconds"))
    power = ideal / (1 - (1000 - p.sustained_permille) / 1000 * brief)
    start = p.start_cycles + (0.0 if has_room_beside(kernel, target) else p.alone_cycles)
    total = start + _norm((loop, memory, power), p.kernel_norm_permille)
    return PredictedTime(total * cycle, start * cycle, loop * cycle, epilogue * cycle, memory * cycle, power * cycle)


def has_room_beside(kernel: ProductKernel, target: Target) -> bool:
    """Whether the multiprocessors hold two launches' CTAs at once: by shared memory, registers and threads."""
    threads = target.limit("warpgroup.threads") * (1 + kernel.consumers)
    shared = kernel.smem_bytes + target.limit("cta.shared_reserved_bytes")
    held = min(
        target.limit("multiprocessor.shared_bytes") // shared,
        target.limit("multiprocessor.registers") // (threads * kernel.launch_registers),
        target.limit("multiprocessor.threads_max") // threads,
    )
    return 2 * kernel.ctas <= held * target.limit("device.multiprocessors")


def least_microseconds(
    tile: tuple[int, int, int],
    split: int,
    extents: tuple[int, int, int],
    element_bytes: int,
    target: Target,
    batch: int = 1,
) -> float:
    """What `predicted_time` never undercuts for a tile of (rows, columns, depth of a slot), whatever else is decided.

    split: CTAs that share its contracted axis; extents: in the orientation of the tile; batch: how many such products.
    """
    (tile_m, tile_n, tile_k), (rows, columns, depth) = tile, extents
    multiprocessors = target.limit("device.multiprocessors")
    tiles = math.ceil(rows / tile_m) * math.ceil(columns / tile_n) * batch
    slices = math.ceil(depth / (tile_k * split))
    waves = math.ceil(tiles / max(1, multiprocessors // split))
    loop = waves * slices * multiply_cycles(tile, 0, element_bytes, target)
    fetched = tiles * split * slices * (tile_m + tile_n) * tile_k * element_bytes
    l2 = fetched / (target.limit("device.l2_bytes_per_cycle_per_multiprocessor") * multiprocessors)
    return (parameters_of(target).start_cycles + max(loop, l2)) * 1e6 / target.limit("device.clock_hertz")


def multiply_cycles(
    tile: tuple[int, int, int], loaded_rows: int, element_bytes: int, target: Target, product_rows: int | None = None
) -> float:
    """Of a slice of (rows, columns, depth). Each product reads its rows and all columns from shared memory.

    loaded_rows: rows of which an operand is read from there, of every product. product_rows: of one product, 64 where
    nothing is said; of fewer than reach the tensor core's full rate it takes as long as one that does.
    """
    rows, columns, depth = tile
    of_product = target.limit("product.rows") if product_rows is None else product_rows
    filled = of_product / max(of_product, target.limit("product.full_rate_rows"))
    kind = "bf16" if element_bytes == 2 else "f8"
    rate = target.limit(f"product.{kind}_flop_per_cycle_per_multiprocessor") * filled
    tensor = 2 * rows * columns * depth / rate
    shared_bytes = target.limit("multiprocessor.shared_banks") * target.limit("multiprocessor.shared_bank_bytes")
    read_bytes = (loaded_rows + rows / of_product * columns) * depth * element_bytes
    return max(tensor, read_bytes / shared_bytes)


def _epilogue_cycles(kernel: ProductKernel, p: TimeParameters, target: Target) -> float:
    rows, columns = min(kernel.tile_rows, kernel.rows), min(kernel.part_columns, kernel.columns)
    stored = rows * columns * kernel.stored_bytes / (1 if kernel.turns else kernel.consumers)
    if kernel.in_boxes:
        cycles = 1000 * stored / p.store_bytes_per_kilocycle
    else:
        cycles = 1000 * stored / p.scattered_bytes_per_kilocycle
    sums = sum_parameters_of(target)
    if kernel.split > 1:
        cycles += p.meeting_cycles + (kernel.split - 2) * sums.member_cycles
    return cycles + handing_cycles(sums, kernel.tile_rows * kernel.part_columns, kernel.teams)


def _missed_bytes(kernel: ProductKernel, workers: int, target: Target) -> float:
    """Bytes that waves of tiles need beyond compulsory reads, times the share of the inputs that is not held."""
    inputs = kernel.input_bytes
    cache = target.limit("device.l2_bytes")
    if inputs <= cache:
        return 0.0
    along_rows = min(kernel.raster_group, workers)
    along_columns = math.ceil(workers / along_rows)
    held = along_rows * kernel.tile_rows + along_columns * kernel.multiplied
    waves = kernel.tiles / workers
    again = max(0.0, waves * held * kernel.depth * kernel.element_bytes - inputs)
    return (1 - cache / inputs) * again


def _norm(parts: tuple[float, ...], permille: float) -> float:
    longest, power = max(parts), permille / 1000
    return longest * sum((part / longest) ** power for part in parts) ** (1 / power)
