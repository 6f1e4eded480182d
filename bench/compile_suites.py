"""How long does every product of every suite take to be compiled and proved? Without ptxas, and without a GPU.

    python -m bench compile-suites [--jobs N]

Each is compiled in turns in one process of several, which have imported the compiler; the first turn is not counted. A
product that stands in two suites is compiled once. What kinds take beside others' compilers: `bench.compile_time`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.cliffs import CASES as VIEWS
from bench.cliffs import Case
from bench.compile_time import GOAL_SECONDS
from bench.gemm_suites import SUITES, Product
from bench.moe_shapes import CASES as LAYERS
from bench.moe_shapes import Grouped
from bench.record import write

_TOLD_MOST = 12


@dataclass(frozen=True, slots=True)
class Work:
    """A product, and the suite in which it stands first."""

    suite: str
    case: Product | Case | Grouped

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns and depth."""
        case = self.case
        return (case.rows, case.n, case.k) if isinstance(case, Grouped) else (case.m, case.n, case.k)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--turns", type=int, default=3, help="timed turns of each product (default 3)")
    parser.add_argument("--only", action="append", metavar="WORDS", help="suites whose name contains these words")
    parser.add_argument("--jobs", type=int, default=1, help="so many products at a time (default 1)")
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="folder of the result file")


def run(arguments: argparse.Namespace) -> int:
    chosen = [each for each in products() if not arguments.only or any(words in each.suite for words in arguments.only)]
    context = multiprocessing.get_context("spawn")
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(arguments.jobs, mp_context=context) as pool:
        for row in pool.map(partial(timed, turns=arguments.turns), chosen):
            rows.append(row)
            slow = row.get("apart", 0.0) > GOAL_SECONDS
            if slow or "refused" in row or len(rows) % 50 == 0:
                print(f"{len(rows)} of {len(chosen)}: {row}", flush=True)
    print(summary(rows))
    print(f"written to {write('compile_suites', rows, arguments.results)}")
    return 0


def products() -> list[Work]:
    """All suites', each product once, by the suite in which it stands first."""
    listed = [Work(name, case) for name, suite in SUITES.items() for case in suite()]
    listed += [Work("cliffs", case) for case in VIEWS] + [Work("grouped", case) for case in LAYERS]
    once = {_compiled(each.case): each for each in reversed(listed)}
    return [each for each in listed if once[_compiled(each.case)] is each]


def _compiled(case: Product | Case | Grouped) -> object:
    """A case but for its name."""
    return type(case), *(getattr(case, field) for field in case.__dataclass_fields__ if field != "name")


def timed(work: Work, turns: int) -> dict[str, Any]:
    """One product's row."""
    from bench.our_products import arguments_of
    from tilewright.base.error import TilewrightError
    from tilewright.driver.compile.compile import compile_kernel

    case = work.case
    row: dict[str, Any] = {"suite": work.suite, "case": case.name, "shape": list(work.shape)}
    try:
        kernel, options = arguments_of(case)
        found = [sum(compile_kernel(kernel, **options, assembled=False).seconds.values()) for _ in range(turns + 1)]
    except TilewrightError as error:
        return row | {"refused": str(error)}
    return row | {"first": found[0], "apart": statistics.median(found[1:])}


def summary(rows: list[dict[str, Any]]) -> str:
    """How many keep the goal, and which do not."""
    done = sorted((row for row in rows if "apart" in row), key=lambda row: -row["apart"])
    slow = [row for row in done if row["apart"] > GOAL_SECONDS]
    told = [f"{', '.join(map(str, row['shape']))} of {row['suite']} ({row['apart']:.2f})" for row in slow]
    if len(told) > _TOLD_MOST:
        told[_TOLD_MOST:] = [f"{len(told) - _TOLD_MOST} more"]
    parts = [f"Of {len(rows)} products {len(done) - len(slow)} take no more than {GOAL_SECONDS:.0f} s"]
    if told:
        parts.append(f"; these take more: {', '.join(told)}")
    elif done:
        parts.append(f", the slowest {done[0]['apart']:.2f} s")
    if len(done) < len(rows):
        parts.append(f"; {len(rows) - len(done)} are refused")
    return "".join([*parts, "."])
