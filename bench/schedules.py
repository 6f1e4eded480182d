"""How far from the optimum is the heuristic's interval, and how long does each take? Real loops, and random graphs.

    python -m bench schedules [--random 40] [--seconds 6] [-o schedules.json]

Every schedule is judged by the independent checker before it is listed. The optimum has a certificate (a lower bound
that it meets, or a search in which every shorter interval was impossible), or is listed as unknown: nothing is left
out. Times are of the clock, of the whole call.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tests.synth.graphs import attention_body, gated_body, gemm_body, random_graph

from tilewright.base.error import TilewrightError, Undecided
from tilewright.base.verdict import Proven
from tilewright.contract.schedule.schedule_check import check_schedule
from tilewright.ir.schedule import Method, Schedule
from tilewright.ir.task_graph import TaskGraph
from tilewright.solve.scheduling.modulo import DEFAULT_SECONDS
from tilewright.synth.schedule.loop_tasks import task_graph
from tilewright.synth.schedule.schedules import live, lower_bounds, schedule_graph
from tilewright.targets import target


@dataclass(frozen=True, slots=True)
class Row:
    """Intervals in cycles: 0 where there is no schedule, -1 where it is unknown. price: of the whole loop."""

    graph: str
    tasks: int
    lower_bound: int
    heuristic: int
    optimum: int
    heuristic_price: int
    optimum_price: int
    heuristic_seconds: float
    optimum_seconds: float
    certificate: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--random", type=int, default=40, metavar="N", help="random graphs (default: 40)")
    parser.add_argument(
        "--seconds", type=float, default=DEFAULT_SECONDS, help="of the solver, deterministic, for each question"
    )
    parser.add_argument("-o", "--output", type=Path, help="write the rows as JSON")


def run(arguments: argparse.Namespace) -> int:
    rows: list[Row] = []
    print(f"{'graph':34} {'tasks':>5} {'bound':>6} {'heuristic':>9} {'optimum':>8} {'s':>7} {'s':>7}  certificate")
    for graph in _graphs(arguments.random):
        row = _row(graph, arguments.seconds)
        if row is None:
            continue
        rows.append(row)
        shown = {0: "none", -1: "unknown"}
        print(
            f"{row.graph:34} {row.tasks:5} {row.lower_bound:6} {shown.get(row.heuristic, row.heuristic):>9} "
            f"{shown.get(row.optimum, row.optimum):>8} {row.heuristic_seconds:7.3f} {row.optimum_seconds:7.2f}  "
            f"{row.certificate}",
            flush=True,
        )
    both = [row for row in rows if row.heuristic > 0 and row.optimum > 0]
    ratio = math.exp(sum(math.log(row.heuristic / row.optimum) for row in both) / max(1, len(both)))
    equal = sum(row.heuristic == row.optimum for row in both)
    print(
        f"{len(rows)} graphs; both found on {len(both)}: the heuristic's interval is {ratio:.3f} of the optimum "
        f"(geometric mean), equal on {equal}; no schedule by the heuristic where one exists on "
        f"{sum(row.heuristic == 0 and row.optimum > 0 for row in rows)}"
    )
    if arguments.output is not None:
        arguments.output.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n", "utf-8")
    return 0


def _graphs(count: int) -> Iterator[TaskGraph]:
    facts = target("sm_90a")
    for name, body in (
        ("gemm 128x256x64", gemm_body()),
        ("gemm 128x128x64", gemm_body(128, 128)),
        ("gemm 64x64x64, one consumer", gemm_body(64, 64, 64, 1)),
        ("gated gemm 128x(128+128)x64", gated_body()),
        ("attention 128x128, width 128", attention_body()),
        ("attention 128x176, width 128", attention_body(128, 176)),
        ("attention 192x128, width 64", attention_body(192, 128, 64, 3)),
        ("attention 64x128, one consumer", attention_body(64, 128, 128, 1)),
    ):
        for assignment in ("cooperative", "ping-pong") if body.consumers > 1 else ("cooperative",):
            graph = task_graph(body, facts, assignment)
            words = f"{name}, {assignment}" if body.consumers > 1 else name
            yield replace(graph, name=words)
    for seed in range(count):
        yield random_graph(seed, count=5 + seed % 5)


def _row(graph: TaskGraph, seconds: float) -> Row | None:
    """None for a graph without any schedule, which no scheduler could tell apart from another."""
    try:
        live(graph)
    except TilewrightError:
        return None
    quick, quick_seconds = _timed(graph, "heuristic", seconds)
    best, best_seconds = _timed(graph, "optimal", seconds)
    return Row(
        graph.name,
        len(graph.tasks),
        lower_bounds(graph)[0].bound_cycles,
        quick.interval_cycles if isinstance(quick, Schedule) else quick,
        best.interval_cycles if isinstance(best, Schedule) else best,
        quick.price_cycles if isinstance(quick, Schedule) else 0,
        best.price_cycles if isinstance(best, Schedule) else 0,
        quick_seconds,
        best_seconds,
        str(best.certificate) if isinstance(best, Schedule) else "",
    )


def _timed(graph: TaskGraph, method: Method, seconds: float) -> tuple[Schedule | int, float]:
    begin = time.perf_counter()
    try:
        found: Schedule | int = schedule_graph(graph, method, seconds=seconds)
    except Undecided:
        found = -1
    except TilewrightError:
        found = 0
    elapsed = time.perf_counter() - begin
    if isinstance(found, Schedule) and not isinstance(check_schedule(graph, found), Proven):
        raise AssertionError(f"{graph.name}: the checker refutes the {method} schedule")
    return found, elapsed
