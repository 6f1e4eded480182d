"""How do the turns of a decided pipeline overlap: how many slots does its ring need, and when are they released?

The decided tile is described as a loop's body, becomes a task graph of a producer and of consumers that go together (as
they are lowered), and is scheduled. Written on the decisions are the graph with its schedule, as JSON, for whoever
checks or draws it, and a sentence among the reasons. The graph has the order in which consumers are lowered: a slot is
released once the next one's products are issued. What the decisions take from the schedule are the slots that it needs
where memory is no matter: a second staging slot is given up rather than have fewer (and one more, for copies that miss
the L2 cache).

Not handled: what clusters save of copies; the epilogue, in whose time the producer runs ahead. Checked by:
`contract.schedule_check` in `driver.schedule_proof`, and tests/synth/test_loop_schedule.py.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace

from tilewright.base.error import TilewrightError
from tilewright.ir import tile
from tilewright.ir.decisions import PipelineDecisions
from tilewright.ir.loop_body import BodyOperation, Carried, Compute, LoadTile, LoopBody, Multiply
from tilewright.ir.schedule import Method, Schedule, schedule_from_json, schedule_to_json, summary_line
from tilewright.ir.task_graph import TaskGraph, graph_from_json, graph_to_json
from tilewright.ir.tile_facts import dots
from tilewright.synth.loop_tasks import task_graph
from tilewright.synth.schedules import schedule_graph
from tilewright.targets import Target

RING = "ring"
_SPARE_SLOTS = 1
"""Slots beyond the schedule's, for copies that take longer than those it was made with: a parameter of this model."""
_LEAST_SLOTS = 2
"""A slot is released one product late, so with a single slot the producer would wait for ever."""


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


def shape_of(program: tile.ProgramOp, decisions: PipelineDecisions) -> LoopShape:
    """The decided tile of one program."""
    depth = program.extents[decisions.contracted] / (decisions.tile_k * decisions.split)
    return LoopShape(
        (decisions.tile_m, decisions.tile_n, decisions.tile_k),
        (decisions.a.loaded_extent(decisions.tile_m), decisions.b.loaded_extent(decisions.tile_n)),
        decisions.a.map.tensor_map().element.bytes,
        decisions.products,
        any(dot.scales for dot in dots(program)),
        1 if decisions.turns else decisions.consumers,
        decisions.consumer_registers,
        max(1, math.ceil(depth)),
    )


def loop_body(name: str, shape: LoopShape, slots_max: int) -> LoopBody:
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
        min(_LEAST_SLOTS, slots_max),
        late_release=True,
    )


def slots_wanted(shape: LoopShape, target: Target) -> int:
    """Slots with which copies never hold up the products, if memory is no matter; one more than the schedule has."""
    graph = task_graph(loop_body("slots", shape, 32), target, "cooperative")
    return schedule_graph(graph).slots_of(RING) + _SPARE_SLOTS


def scheduled(
    program: tile.ProgramOp, decisions: PipelineDecisions, target: Target, method: Method
) -> PipelineDecisions:
    """The decisions with the schedule of their loop. Raises TilewrightError where there is none."""
    body = loop_body(program.sym_name.data, shape_of(program, decisions), decisions.stages)
    graph = task_graph(body, target, "cooperative")
    return with_schedule(decisions, graph, schedule_graph(graph, method))


def with_schedule(decisions: PipelineDecisions, graph: TaskGraph, schedule: Schedule) -> PipelineDecisions:
    """The decisions with that schedule, in the place of another."""
    reasons = tuple(line for line in decisions.reasons if not line.startswith("schedule ("))
    text = json.dumps({"graph": graph_to_json(graph), "schedule": schedule_to_json(schedule)})
    return replace(decisions, reasons=(*reasons, summary_line(schedule)), schedule=text)


def schedule_of(decisions: PipelineDecisions) -> tuple[TaskGraph, Schedule] | None:
    """The graph and the schedule that decisions carry, if any. Raises TilewrightError for a text that holds neither."""
    if not decisions.schedule:
        return None
    try:
        document = json.loads(decisions.schedule)
        return graph_from_json(document["graph"]), schedule_from_json(document["schedule"])
    except (ValueError, KeyError, TypeError) as error:
        raise TilewrightError(f"the decisions carry no schedule: {error}", remedy="decide the program again") from error
