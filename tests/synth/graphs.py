"""Task graphs for tests: loops whose schedules are known, and random ones."""

from __future__ import annotations

import random

from tilewright.ir.loop_body import Carried, Compute, LoadTile, LoopBody, Multiply
from tilewright.ir.task_graph import Buffer, Channel, Dependence, Role, Task, TaskGraph, Use, well_formed

CHANNEL = Channel(signal_cycles=3, handoff_cycles=2, handoff_cycles_per_kib=1, issue_slots=2, issue_slots_per_kib=1)


def gemm_body(rows: int = 128, columns: int = 256, depth: int = 64, consumers: int = 2) -> LoopBody:
    operations = (
        LoadTile("a", "ab", rows, depth, 2),
        LoadTile("b", "ab", columns, depth, 2),
        Multiply("product", "a", "b", rows, columns, depth, 2),
    )
    return LoopBody("gemm", operations, (), consumers, 208, 196608, 64)


def gated_body() -> LoopBody:
    """Two products of one left operand."""
    operations = (
        LoadTile("a", "ab", 128, 64, 2),
        LoadTile("gate", "ab", 128, 64, 2),
        LoadTile("up", "ab", 128, 64, 2),
        Multiply("gated", "a", "gate", 128, 128, 64, 2),
        Multiply("raised", "a", "up", 128, 128, 64, 2),
    )
    return LoopBody("gated gemm", operations, (), 2, 208, 196608, 64)


def attention_body(rows: int = 128, keys: int = 128, width: int = 128, consumers: int = 2) -> LoopBody:
    """One block of keys and values: scores, softmax as it goes along, and the sum of values weighted by it."""
    operations = (
        LoadTile("K", "k", keys, width, 2),
        LoadTile("V", "v", keys, width, 2),
        Multiply("scores", "", "K", rows, keys, width, 2, accumulates=False),
        Compute("maxima", ("scores",), rows, keys, 100),
        Compute("weights", ("scores", "maxima"), rows, keys, 100, 100, 50),
        Compute("sums", ("weights",), rows, keys, 100),
        Compute("rescale", ("maxima",), rows, width, 100),
        Multiply("output", "weights", "V", rows, width, keys, 2),
    )
    carried = (Carried("maxima", "maxima"), Carried("sums", "sums"), Carried("output", "rescale"))
    return LoopBody("attention forward", operations, carried, consumers, 216, 163840, 64)


def random_graph(seed: int, count: int = 7, longest: int = 9) -> TaskGraph:
    """A live graph of `count` tasks on three units and two roles, with loops, a buffer, values and choices of role."""
    dice = random.Random(seed)
    units = ("unit 0", "unit 1", "unit 2")
    roles = (Role("left", 32, 40), Role("right", 32, 40))
    tasks: list[Task] = []
    for number in range(count):
        latency = dice.randint(1, longest)
        used = dice.sample(units, dice.randint(0, 2))
        stream = dice.randint(0, min(3, latency))
        able = dice.choice((("left",), ("right",), ("left", "right"), ("right", "left")))
        registers = dice.choice((0, 0, 8, 16))
        uses = tuple(Use(unit, dice.randint(1, longest)) for unit in used)
        tasks.append(Task(f"t{number}", "cuda", latency, able, uses, stream, dice.randint(0, 4), registers))
    edges: list[Dependence] = []
    for target in range(1, count):
        for source in dice.sample(range(target), min(target, dice.randint(1, 2))):
            edges.append(Dependence(f"t{source}", f"t{target}", 0, "registers", "", dice.choice((0, 0, 2048))))
    for _ in range(2):
        source = dice.randrange(count)
        edges.append(Dependence(f"t{source}", f"t{dice.randint(0, source)}", dice.randint(1, 2), "registers"))
    through = Dependence("t0", f"t{count - 1}", 0, "full barrier", "ring")
    buffers = (Buffer("ring", 64, 1, 6, dice.randint(0, 4)),)
    return well_formed(
        TaskGraph(f"random {seed}", tuple(tasks), (*edges, through), buffers, units, roles, CHANNEL, 384, 4, 50, 3)
    )
