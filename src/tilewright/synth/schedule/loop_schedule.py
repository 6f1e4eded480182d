"""How do the iterations of a decided loop overlap: how many slots does its ring need, and when are they released?

The decided tile is described as a loop's body, becomes a task graph of a producer and of consumers, and is scheduled.
Consumers that share a tile are one stream, since the slots that they share keep them together; but where each waits for
each of its products, every one is a stream of its own, and the others' products run under its wait. Written on the
decisions are the graph with its schedule, as JSON, for whoever checks or draws it, and a sentence among the reasons.

Two decisions are read off schedules. The release distance: the loop is scheduled with each that is possible
(`synth.schedule.release_distance`), and the cheapest by the price of the whole loop is taken. The slots: those that the
cheapest schedule needs where memory is no matter, and some to spare: no more are taken than that, and a second staging
slot is given up rather than have fewer than the schedule's.

Not handled: what clusters save of copies; the epilogue, in whose time the producer runs ahead. Checked by:
`contract.schedule.schedule_check` in `driver.reproof.schedule_proof`, and tests/synth/schedule/test_loop_schedule.py.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache

from tilewright.base.error import TilewrightError
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.loop_body import BodyOperation, Carried, Compute, LoadTile, LoopBody, Multiply
from tilewright.ir.schedule import Method, Schedule, schedule_from_json, schedule_to_json, summary_line
from tilewright.ir.task_graph import TaskGraph, graph_from_json, graph_to_json
from tilewright.synth.schedule.loop_tasks import RELEASE, task_graph
from tilewright.synth.schedule.release_distance import FIXED, MOST
from tilewright.synth.schedule.schedules import schedule_graph
from tilewright.targets import Target

RING = "ring"
_LOOPS_KEPT = 512
_SLOTS_NO_MATTER = 32
SPARE_SLOTS = 2
"""Slots that a ring has beyond those of the schedule, for copies that take longer than those it was made with, a
parameter of this model: of 40 products on an H200, bf16 and of 8 bits, one fewer made some 2.5 % slower; as many as fit
made none more than 1.1 % faster, and some of few rows 3 to 6 % slower."""
_LEAST_GAIN, _LEAST_GAIN_ALONE = 0.03, 0.06
"""For which a schedule with another release distance is preferred, with several consumers and with one: less is within
what the graph leaves out, such as the clock, which rises where the tensor cores wait. Over the 40 tiles and rings of
`python -m bench slots` the distances so chosen are within 0.3 % of the best in the geometric mean, where one product
late throughout is 12.5 % behind (`python -m bench slots --from bench/results/slots.json`)."""


@dataclass(frozen=True, slots=True)
class LoopShape:
    """What the schedule needs to know of a tile. extents: rows, columns of one product, depth of a slot. loaded: rows
    and columns that are copied, at least as many. products: with the left operand in common. scaled: the products are
    promoted to a total slot by slot. consumers: that share one tile, one where they take tiles in turn."""

    extents: tuple[int, int, int]
    loaded: tuple[int, int]
    element_bytes: int
    products: int
    scaled: bool
    consumers: int
    consumer_registers: int
    trips: int


def loop_body(name: str, shape: LoopShape, slots_max: int, release_distance: int = 1) -> LoopBody:
    """One slot of every operand, and the products of it."""
    (rows, columns, depth), (loaded_rows, loaded_columns) = shape.extents, shape.loaded
    operations: list[BodyOperation] = [LoadTile("a", RING, loaded_rows, depth, shape.element_bytes)]
    carried: list[Carried] = []
    slot_bytes = (loaded_rows + loaded_columns * shape.products) * depth * shape.element_bytes
    for number in range(shape.products):
        suffix = f" {number}" if shape.products > 1 else ""
        operations.append(LoadTile(f"b{suffix}", RING, loaded_columns, depth, shape.element_bytes))
    for number in range(shape.products):
        suffix = f" {number}" if shape.products > 1 else ""
        product = Multiply(
            f"product{suffix}", "a", f"b{suffix}", rows, columns, depth, shape.element_bytes, not shape.scaled
        )
        operations.append(product)
        if shape.scaled:
            # One multiplication by the scales and one addition to the total for each element.
            promote = Compute(f"promote{suffix}", (product.name,), rows, columns, 200, kept_registers=100)
            operations.append(promote)
            carried.append(Carried(promote.name, promote.name))
    return LoopBody(
        name,
        tuple(operations),
        tuple(carried),
        shape.consumers,
        shape.consumer_registers,
        slots_max * slot_bytes,
        shape.trips,
        slots_max,
        min(release_distance + 1, slots_max),
        release_distance,
        cached=False,
    )


@dataclass(frozen=True, slots=True)
class ScheduledLoop:
    """The loop over slots with one release distance. prices: in cycles of the whole loop, of every distance that was
    scheduled."""

    release_distance: int
    graph: TaskGraph
    schedule: Schedule
    prices: tuple[tuple[int, int], ...] = ()

    @property
    def text(self) -> str:
        """As decisions carry it."""
        return schedule_text(self.graph, self.schedule)

    def __str__(self) -> str:
        others = [f"{price} with {distance}" for distance, price in self.prices if distance != self.release_distance]
        against = f", against {' and '.join(others)}" if others else ""
        price = dict(self.prices)[self.release_distance]
        late = f"{self.release_distance} product{'' if self.release_distance == 1 else 's'} late"
        return f"slots released {late}: {price} cycles for all slices of a tile{against}"


def loop_graph(name: str, shape: LoopShape, slots_max: int, release_distance: int, target: Target) -> TaskGraph:
    """The loop as tasks. Raises TilewrightError for products that the target does not have."""
    apart = release_distance == 0 and shape.consumers > 1
    body = loop_body(name, shape, slots_max, release_distance)
    return task_graph(body, target, "ping-pong" if apart else "cooperative")


@lru_cache(maxsize=_LOOPS_KEPT)
def schedule_loop(
    name: str,
    shape: LoopShape,
    slots_max: int,
    distances: tuple[int, ...],
    target: Target,
    method: Method = "heuristic",
) -> ScheduledLoop:
    """The cheapest schedule by the price of the whole loop, one product late where others gain next to nothing. An
    optimum is that of the distance which the heuristic's schedules choose. Raises TilewrightError where there is none.

    A program is decided several times, by tiles and with its arrays copied or not, with the same few loops in it."""
    found: list[ScheduledLoop] = []
    for distance in distances:
        graph = loop_graph(name, shape, slots_max, distance, target)
        found.append(ScheduledLoop(distance, graph, schedule_graph(graph)))
    best = min(found, key=lambda each: (each.schedule.price_cycles, each.schedule.slots_of(RING)))
    usual = next((each for each in found if each.release_distance == FIXED), best)
    gain = _LEAST_GAIN if shape.consumers > 1 else _LEAST_GAIN_ALONE
    if usual.schedule.price_cycles <= (1 + gain) * best.schedule.price_cycles:
        best = usual
    best = replace(best, prices=tuple((each.release_distance, each.schedule.price_cycles) for each in found))
    if method == "heuristic":
        return best
    return replace(best, schedule=schedule_graph(best.graph, method))


def distance_of(graph: TaskGraph) -> int:
    """Products late that the graph of a loop has slots released. Raises TilewrightError for a graph with
    releases at several distances, or without one."""
    late = {
        edge.distance
        for edge in graph.dependences
        if edge.token == "wgmma group" and edge.target.startswith(f"{RELEASE} {RING}@")
    }
    if len(late) != 1:
        raise TilewrightError(
            f"{graph.name}: its slots are released at {len(late)} distances", remedy="decide the program again"
        )
    return late.pop()


def slots_wanted(shape: LoopShape, target: Target) -> int:
    """Slots with which copies never hold up the products, if memory is no matter."""
    return schedule_loop("slots", shape, _SLOTS_NO_MATTER, tuple(range(MOST + 1)), target).schedule.slots_of(RING)


def with_schedule(decisions: CascadeDecisions, graph: TaskGraph, schedule: Schedule) -> CascadeDecisions:
    """The decisions with that schedule, in the place of another."""
    reasons = tuple(line for line in decisions.reasons if not line.startswith("schedule ("))
    text = schedule_text(graph, schedule)
    return replace(decisions, reasons=(*reasons, summary_line(schedule)), schedule=text)


def schedule_text(graph: TaskGraph, schedule: Schedule) -> str:
    """As decisions carry them."""
    return json.dumps({"graph": graph_to_json(graph), "schedule": schedule_to_json(schedule)})


def schedule_of(decisions: CascadeDecisions) -> tuple[TaskGraph, Schedule] | None:
    """The graph and the schedule that decisions carry, if any. Raises TilewrightError for a text that holds neither."""
    if not decisions.schedule:
        return None
    try:
        document = json.loads(decisions.schedule)
        return graph_from_json(document["graph"]), schedule_from_json(document["schedule"])
    except (ValueError, KeyError, TypeError) as error:
        raise TilewrightError(f"the decisions carry no schedule: {error}", remedy="decide the program again") from error
