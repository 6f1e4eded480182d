"""A list of cases, each compiled ahead or measured one after the other: what `rows`, `fused`, `backward` and `paged`
share. What a case is, how it is measured and what its line says, each of them has.

Not handled: suites that are run in parts and in several processes (`bench.suite`).
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from bench.device_state import Sampler
from bench.prepared import prepare
from bench.record import write
from bench.suite import add_run_arguments


class Named(Protocol):
    @property
    def name(self) -> str: ...


Case = TypeVar("Case", bound=Named)
Rows = Sequence[dict[str, Any]]
Measure = Callable[[Any, Any, argparse.Namespace, Sampler], dict[str, Any]]
"""Of torch, a case, the command's arguments and who samples the device: the row of the result file."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", action="append", metavar="WORDS", help="cases whose name contains these words")
    add_run_arguments(parser)


def run_cases(
    arguments: argparse.Namespace,
    suite: str,
    cases: Sequence[Case],
    measure: Measure,
    line: Callable[[Any], str],
    *,
    programs: Callable[[Case], Iterable[object]] = lambda case: (case,),
    summary: Callable[[Rows], Iterable[str]] = lambda rows: _ratios(rows),
    module: str = "bench",
) -> int:
    """Measure the cases that are asked for, each row printed as it comes, into the suite's result file; or compile
    their programs. programs: of a case; summary: lines about all rows; module: that was run. Returns the exit code."""
    wanted = [each for each in cases if not arguments.only or any(words in each.name for words in arguments.only)]
    if not wanted:
        print(f"no case has a name with these words; see bench/{suite}.py", file=sys.stderr)
        return 2
    if arguments.prepare:
        every = [program for case in wanted for program in programs(case)]
        count, seconds = prepare(every, arguments.kernels, arguments.jobs)
        print(f"{count} compiled in {seconds:.0f} s")
        return 0
    import torch

    found: list[dict[str, Any]] = []
    with Sampler() as sampler:
        for case in wanted:
            row = measure(torch, case, arguments, sampler)
            found.append(row)
            print(line(row), flush=True)
    for words in summary(found):
        print(words)
    print(f"written to {write(suite, found, arguments.results, module=module)}")
    return 0


def _ratios(rows: Rows) -> Iterator[str]:
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    if ratios:
        yield f"geometric mean {statistics.geometric_mean(ratios):.3f}, worst {min(ratios):.3f}"
