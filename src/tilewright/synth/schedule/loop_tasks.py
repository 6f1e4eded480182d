"""Which tasks does a loop's body become on a target, and what does each cost there?

One producer thread issues all copies. The consumer warpgroups run every product and all work on their parts of the
rows, and release each ring's slot once the products of that slot are done. Assigned "cooperative" they go together, as
one stream; "ping-pong" each is a stream of its own, and the schedule finds where each begins: one's work on elements
may then run under another's products. Costs are target facts: the tensor cores' rate, the copy engine's from the L2
cache with its latency or that of device memory, that of the CUDA cores (warp instructions a cycle) and of the
special-function units, and the latencies between roles that a probe measures. `helpers` adds warpgroups to which work
on elements may go, at the price of a channel.

What is left out: bank conflicts, clusters, clocks that fall under load, the epilogue (its graph is
`synth.cost.tile_loop`). Checked by: tests/synth/schedule/test_loop_tasks.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tilewright.base.error import TilewrightError
from tilewright.ir.loop_body import Compute, LoadTile, LoopBody, Multiply, check_body
from tilewright.ir.task_graph import Buffer, Channel, Dependence, Role, Task, TaskGraph, Use, well_formed
from tilewright.targets import Target

COPY_ENGINE = "copy engine"
TENSOR_CORES = "tensor cores"
CUDA_CORES = "CUDA cores"
SPECIAL_UNITS = "special-function units"
RESOURCES = (COPY_ENGINE, TENSOR_CORES, CUDA_CORES, SPECIAL_UNITS)
PRODUCER = "producer"
RELEASE = "release"

Assignment = Literal["cooperative", "ping-pong"]

_ISSUE_CYCLES = 4
"""For which a stream is busy with one asynchronous instruction and the address arithmetic for it: a parameter of this
model, and no property of the hardware."""
_NARROWEST_PRODUCT = 64
"""Columns below which a product takes no less time, being bound by reading its left operand."""


@dataclass(frozen=True, slots=True)
class TaskRates:
    """Of one multiprocessor, in cycles. copy_latency, memory_latency: from issue until the first byte, out of the L2
    cache and of device memory; product_latency: from the last step until its result may be read; result_latency: of an
    ordinary instruction; release_latency: from a release until the producer's thread goes on; restart_latency: from a
    wait for products until the stream's next one has begun."""

    operations_per_cycle: dict[int, int]
    l2_bytes_per_cycle: int
    warp_instructions_per_cycle: int
    special_per_cycle: int
    copy_latency: int
    memory_latency: int
    product_latency: int
    result_latency: int
    release_latency: int
    restart_latency: int
    channel: Channel


def task_rates(target: Target) -> TaskRates:
    """Raises TilewrightError where the target does not state one of them."""
    limit = target.limit
    channel = Channel(
        signal_cycles=limit("latency.mbarrier_signal_cycles"),
        handoff_cycles=0,
        handoff_cycles_per_kib=limit("latency.handoff_cycles_per_kib"),
        issue_slots=8 * limit("warpgroup.warps"),
        issue_slots_per_kib=2 * 1024 // (16 * limit("warp.threads")),
    )
    return TaskRates(
        {
            2: limit("product.bf16_flop_per_cycle_per_multiprocessor"),
            1: limit("product.f8_flop_per_cycle_per_multiprocessor"),
        },
        limit("device.l2_bytes_per_cycle_per_multiprocessor"),
        limit("exchange.schedulers"),
        limit("device.special_results_per_cycle_per_multiprocessor"),
        limit("latency.bulk_copy_cycles"),
        limit("pipeline.copy_latency_cycles"),
        limit("latency.product_cycles"),
        limit("latency.arithmetic_cycles"),
        limit("latency.mbarrier_thread_signal_cycles"),
        limit("pipeline.restart_cycles"),
        channel,
    )


@dataclass(frozen=True, slots=True)
class _Streams:
    """Who runs what is no copy. parts: into which the rows are divided; threads: of each consumer."""

    consumers: tuple[str, ...]
    helpers: tuple[str, ...]
    parts: int
    threads: int


def task_graph(body: LoopBody, target: Target, assignment: Assignment = "ping-pong", *, helpers: int = 0) -> TaskGraph:
    """The body as tasks on `target`. helpers: warpgroups besides that may take work on elements.

    Raises TilewrightError for a body that makes no sense, and for products of elements the target does not multiply.
    """
    check_body(body)
    rates = task_rates(target)
    warpgroup = target.limit("warpgroup.threads")
    together = assignment == "cooperative"
    consumers = ("consumers",) if together else tuple(f"consumer {number}" for number in range(body.consumers))
    assistants = tuple(f"helper {number}" for number in range(helpers))
    threads = warpgroup * body.consumers if together else warpgroup
    streams = _Streams(consumers, assistants, 1 if together else body.consumers, threads)
    roles = [Role(PRODUCER, 1, target.limit("setmaxnreg.registers_min"))]
    roles += [Role(name, threads, body.consumer_registers) for name in consumers]
    roles += [Role(name, warpgroup, body.consumer_registers) for name in assistants]
    tasks: list[Task] = []
    edges: list[Dependence] = []
    rings: dict[str, int] = {}
    loads: dict[str, LoadTile] = {}
    reads_of_ring: dict[str, list[str]] = {}
    releases: dict[str, int] = {}
    for operation in body.operations:
        match operation:
            case LoadTile():
                size = operation.rows * operation.columns * operation.element_bytes
                rings[operation.ring] = rings.get(operation.ring, 0) + size
                loads[operation.name] = operation
                latency = rates.copy_latency if body.cached else rates.memory_latency
                tasks.append(_copy(operation.name, size, latency, rates))
            case Multiply():
                for load in (operation.left, operation.right):
                    if load in loads:
                        reads_of_ring.setdefault(loads[load].ring, []).append(operation.name)
                for consumer in consumers:
                    tasks.append(_product(operation, streams, consumer, rates))
                    reads = tuple(name for name in (operation.left, operation.right) if name)
                    edges += _reads(tasks, loads, operation.name, reads, consumer, threads)
                    # Products onto one accumulator follow one another in the tensor cores, without a wait between.
            case Compute():
                for consumer in consumers:
                    tasks.append(_work(operation, streams, consumer, rates))
                    edges += _reads(tasks, loads, operation.name, operation.reads, consumer, threads)
    for each in body.carried:
        edges += [
            Dependence(_at(each.source, consumer), _at(each.target, consumer), 1, "registers") for consumer in consumers
        ]
    onto_accumulators = {task.name for task in tasks if task.kind == "tensor" and task.resident_registers}
    for ring, readers in reads_of_ring.items():
        for consumer in consumers:
            release = f"{RELEASE} {ring}@{consumer}"
            names = [_at(reader, consumer) for reader in dict.fromkeys(readers)]
            late = [name for name in names if body.release_distance is not None and name in onto_accumulators]
            stands = rates.restart_latency if late else _ISSUE_CYCLES
            tasks.append(Task(release, "cuda", stands, (consumer,), (), stands, 1))
            # The arrival comes first, and what else the stream does before its next product is no wait of the copies.
            releases[ring] = rates.release_latency - (stands - _ISSUE_CYCLES)
            # A late release belongs to the turn whose products it follows, and frees the slot of an earlier turn.
            distance = body.release_distance or 0 if late else 0
            filled = [load.name for load in loads.values() if load.ring == ring]
            edges += _before_release(release, names, late, filled, ring, distance)
    buffers = tuple(
        Buffer(ring, size, body.slots_min, body.slots_max, releases.get(ring, rates.release_latency))
        for ring, size in rings.items()
    )
    return well_formed(
        TaskGraph(
            body.name,
            tuple(tasks),
            tuple(edges),
            buffers,
            RESOURCES,
            tuple(roles),
            rates.channel,
            body.shared_bytes,
            rates.warp_instructions_per_cycle,
            body.trips,
        )
    )


def _before_release(
    release: str, readers: Sequence[str], late: Sequence[str], filled: Sequence[str], ring: str, distance: int
) -> list[Dependence]:
    """What the release of a slot follows: its readers, and the copies into its ring. late: readers that it waits for
    one turn later."""
    edges = [Dependence(name, release, distance, "wgmma group") for name in readers]
    # The stream stands at the wait: nothing is issued between the products that it follows and the next turn's.
    edges += [Dependence(name, release, 0, "order of issue", issued=True) for name in late]
    edges += [Dependence(release, name, 1, "order of issue", issued=True) for name in late]
    return edges + [Dependence(name, release, distance, "full barrier", ring) for name in filled]


def _at(name: str, consumer: str) -> str:
    return f"{name}@{consumer}"


def _copy(name: str, size: int, latency: int, rates: TaskRates) -> Task:
    busy = math.ceil(size / rates.l2_bytes_per_cycle)
    uses = (Use(COPY_ENGINE, busy),)
    return Task(name, "copy", latency + busy, (PRODUCER,), uses, 2 * _ISSUE_CYCLES, 2)


def _product(operation: Multiply, streams: _Streams, consumer: str, rates: TaskRates) -> Task:
    rows, threads = operation.rows // streams.parts, streams.threads
    work = 2 * rows * max(operation.columns, _NARROWEST_PRODUCT) * operation.depth
    if operation.element_bytes not in rates.operations_per_cycle:
        raise TilewrightError(
            f"no rate of products of elements of {operation.element_bytes} bytes is known",
            remedy=f"use elements of {' or '.join(map(str, sorted(rates.operations_per_cycle)))} bytes",
        )
    busy = math.ceil(work / rates.operations_per_cycle[operation.element_bytes])
    # Of one warpgroup: 64 rows and 32 bytes of depth an instruction.
    steps = math.ceil(operation.depth * operation.element_bytes / 32) * math.ceil(rows / 64 / (threads // 128))
    registers = math.ceil(rows * operation.columns / threads)
    return Task(
        _at(operation.name, consumer),
        "tensor",
        busy + rates.product_latency,
        (consumer,),
        (Use(TENSOR_CORES, busy),),
        min(busy, steps * _ISSUE_CYCLES),
        steps * (threads // 32),
        0 if operation.accumulates else registers,
        registers if operation.accumulates else 0,
    )


def _work(operation: Compute, streams: _Streams, consumer: str, rates: TaskRates) -> Task:
    elements = operation.rows // streams.parts * operation.columns
    special = math.ceil(elements * operation.special_operations / 100 / rates.special_per_cycle)
    instructions = math.ceil(elements * operation.cuda_operations / 100 / 32)
    specials = math.ceil(elements * operation.special_operations / 100 / 32)
    cuda = math.ceil((instructions + specials) / rates.warp_instructions_per_cycle)
    uses = tuple(Use(unit, cycles) for unit, cycles in ((CUDA_CORES, cuda), (SPECIAL_UNITS, special)) if cycles)
    busy = max(cuda, special)
    return Task(
        _at(operation.name, consumer),
        "special" if special > cuda else "cuda",
        busy + rates.result_latency,
        (consumer, *streams.helpers),
        uses,
        busy,
        instructions + specials,
        math.ceil(elements * operation.result_registers / 100 / streams.threads),
        math.ceil(elements * operation.kept_registers / 100 / streams.threads),
    )


def _reads(
    tasks: list[Task], loads: dict[str, LoadTile], name: str, reads: tuple[str, ...], consumer: str, threads: int
) -> list[Dependence]:
    found: list[Dependence] = []
    registers = {task.name: task.result_registers for task in tasks}
    for read in reads:
        if read in loads:
            found.append(Dependence(read, _at(name, consumer), 0, "full barrier", loads[read].ring))
        else:
            source = _at(read, consumer)
            # 4 bytes a register and thread.
            found.append(Dependence(source, _at(name, consumer), 0, "registers", "", registers[source] * threads * 4))
    return found
