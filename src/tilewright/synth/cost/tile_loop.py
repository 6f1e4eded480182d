"""How do whole tiles follow one another: shared by all consumers, or taken in turn?

The outer loop as a task graph. Shared ("cooperative"), a turn is one tile: all consumers multiply it together, then
store it together, and meanwhile the tensor cores wait. In turn ("ping-pong"), a turn is one tile for each consumer: one
stores while the next one multiplies, and passes on the right to multiply once its products are issued. What a tile
costs either way is the interval over its tiles, from the same scheduler that orders the tasks inside a tile: with
products of W cycles and an epilogue of E it finds W + E, and the longer of W and (W + E) / 2, each with what signals
cost. `synth.distribution.turns` compares tiles by it. What passing the right to multiply costs is more than a signal:
until the other one's first product is in the tensor cores (`pipeline.turn_cycles_of_16_bits`, a fact of the target).

A whole tile's accumulators must fit one consumer to be taken in turn. Not handled: what the copy engine does during an
epilogue (it runs ahead, as far as the ring has slots). Checked by: tests/synth/cost/test_tile_loop.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from tilewright.base.error import TilewrightError
from tilewright.base.value import value
from tilewright.ir.schedule import Method, Schedule
from tilewright.ir.task_graph import Dependence, Role, Task, TaskGraph, Use, well_formed
from tilewright.synth.schedule.loop_tasks import TENSOR_CORES, Assignment, task_rates
from tilewright.synth.schedule.schedules import schedule_graph
from tilewright.targets import Target

_STORE_PATH = "store path"


@value
class TileCosts:
    """products_cycles: in which the tensor cores are busy with one tile; epilogue_cycles: of one tile, by whoever
    stores it. accumulators: registers a thread, if one consumer has a whole tile. tiles: of one CTA; turn_cycles: that
    passing the right to multiply takes, where it is not the target's of 16 bits."""

    products_cycles: int
    epilogue_cycles: int
    accumulators: int
    consumers: int
    consumer_registers: int
    tiles: int
    turn_cycles: int | None = None


def tile_loop(name: str, costs: TileCosts, target: Target, assignment: Assignment) -> TaskGraph:
    """The graph of the loop over tiles. Raises TilewrightError for costs that make no sense."""
    if min(costs.products_cycles, costs.consumers, costs.tiles) < 1 or costs.epilogue_cycles < 0:
        raise TilewrightError(f"{name}: a tile without products, consumers or turns", remedy="give 1 or more of each")
    rates = task_rates(target)
    turn = target.limit("pipeline.turn_cycles_of_16_bits") if costs.turn_cycles is None else costs.turn_cycles
    channel = replace(rates.channel, signal_cycles=turn)
    together = assignment == "cooperative"
    warpgroup = target.limit("warpgroup.threads")
    names = ("consumers",) if together else tuple(f"consumer {number}" for number in range(costs.consumers))
    threads = warpgroup * costs.consumers if together else warpgroup
    registers = -(-costs.accumulators // costs.consumers) if together else costs.accumulators
    tasks: list[Task] = []
    edges: list[Dependence] = []
    for role in names:
        uses = (Use(TENSOR_CORES, costs.products_cycles),)
        latency = costs.products_cycles + rates.product_latency
        products = Task(f"products@{role}", "tensor", latency, (role,), uses, costs.products_cycles, 0, registers)
        stores = (Use(_STORE_PATH, costs.epilogue_cycles),)
        epilogue = Task(f"epilogue@{role}", "store", costs.epilogue_cycles, (role,), stores, costs.epilogue_cycles)
        tasks += [products, epilogue]
        edges.append(Dependence(products.name, epilogue.name, 0, "wgmma group"))
        # The accumulators are free for the next tile once this one is stored.
        edges.append(Dependence(epilogue.name, products.name, 1, "registers"))
    for number, role in enumerate(names):
        if len(names) > 1:
            following = names[(number + 1) % len(names)]
            last = number + 1 == len(names)
            edges.append(
                Dependence(f"products@{role}", f"products@{following}", int(last), "right to multiply", issued=True)
            )
    return well_formed(
        TaskGraph(
            f"{name}, tiles",
            tuple(tasks),
            tuple(edges),
            (),
            (TENSOR_CORES, _STORE_PATH),
            tuple(Role(role, threads, costs.consumer_registers) for role in names),
            channel,
            0,
            rates.warp_instructions_per_cycle,
            max(1, costs.tiles // len(names)),
        )
    )


@dataclass(frozen=True, slots=True)
class TileSchedule:
    """cycles_of_a_tile: the interval, divided by the tiles of a turn."""

    assignment: Assignment
    graph: TaskGraph
    schedule: Schedule
    cycles_of_a_tile: float


def schedule_tiles(
    name: str, costs: TileCosts, target: Target, method: Method = "heuristic"
) -> tuple[TileSchedule, ...]:
    """Both assignments, the one with fewer cycles a tile first; one alone where the accumulators of a whole tile do not
    fit a consumer, or there is only one."""
    found: list[TileSchedule] = []
    ways: tuple[Assignment, ...] = ("cooperative",)
    if costs.consumers > 1 and costs.accumulators <= costs.consumer_registers:
        ways = ("cooperative", "ping-pong")
    for way in ways:
        graph = tile_loop(name, costs, target, way)
        schedule = schedule_graph(graph, method)
        tiles = costs.consumers if way == "ping-pong" else 1
        found.append(TileSchedule(way, graph, schedule, schedule.interval_cycles / tiles))
    return tuple(sorted(found, key=lambda each: each.cycles_of_a_tile))


@lru_cache(maxsize=1024)
def loop_cycles(costs: TileCosts, target: Target, assignment: Assignment) -> float:
    """Of all tiles of a CTA, by the schedule of that assignment: where tiles are taken in turn, the last one's epilogue
    is hidden by nothing. Raises TilewrightError for costs that make no sense."""
    schedule = schedule_graph(tile_loop("tiles", costs, target, assignment))
    if assignment == "cooperative":
        return schedule.interval_cycles * costs.tiles
    return schedule.interval_cycles / costs.consumers * costs.tiles + costs.epilogue_cycles
