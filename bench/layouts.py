"""What synthesis of swizzles and padding finds for forty published tiles; its time, and that of counting wavefronts."""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import numpy as np

from bench.layout_problems import Problem, problems
from bench.record import write
from tilewright.legal.bank.access_kind import NUMBERED_KINDS
from tilewright.legal.bank.banks import wavefronts
from tilewright.legal.bank.swizzle_choice import SwizzleChoice, choose_placement

_MARKS = ("<!-- layouts: begin -->", "<!-- layouts: end -->")
_REPEATS = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="folder of the result file")
    parser.add_argument("--page", type=Path, default=Path("docs/banks.md"), help="page whose table is written anew")


def run(arguments: argparse.Namespace) -> int:
    rows = [_row(problem) for problem in problems()]
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()))
    slowest = max(float(str(row["first_ms"])) for row in rows)
    free, bounded = (sum(row["best"] == row[least] for row in rows) for least in ("ideal", "bound"))
    print(f"of {len(rows)}: {free} free of conflicts, {bounded} at the bound; slowest first answer {slowest} ms")
    print(f"wavefronts of mixed accesses: {accesses_a_second():,.0f} a second")
    if arguments.page.exists():
        write_table(arguments.page, rows)
    print(f"written to {write('layouts', rows, arguments.results)}")
    return 0


def accesses_a_second() -> float:
    """How many random accesses of all numbered kinds `wavefronts` judges in a second of one core; the best of three."""
    generator = np.random.default_rng(1)
    kinds = generator.integers(0, len(NUMBERED_KINDS), 40_000)
    addresses = generator.integers(0, 4096, (len(kinds), 32)) * 16
    seconds: list[float] = []
    for _ in range(3):
        begin = time.process_time()
        wavefronts(kinds, addresses, "sm_90a")
        seconds.append(time.process_time() - begin)
    return len(kinds) / min(seconds)


def worst(count: int) -> list[tuple[Problem, SwizzleChoice]]:
    """The tiles that placing helps most, among those of sm_90a that no matrix instruction reads."""
    chosen = [each for each in problems() if each.target == "sm_90a" and each.buffer.reader is None]
    judged = [(each, choose_placement(each.buffer, each.target)) for each in chosen]
    return sorted(judged, key=lambda pair: -pair[1].plain.wavefronts / pair[1].best.wavefronts)[:count]


def write_table(page: Path, rows: list[dict[str, object]]) -> None:
    """Replace the page's table. Raises ValueError where the page has no marks."""
    lines = [
        "| tile | target | plain | best | bound | placement | extra bytes | judged | why minimal | ms | source |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        cells = (
            "problem",
            "target",
            "plain",
            "best",
            "bound",
            "placement",
            "extra_bytes",
            "candidates",
            "proof",
            "ms",
            "source",
        )
        lines.append("| " + " | ".join(str(row[cell]) for cell in cells) + " |")
    text = page.read_text(encoding="utf-8")
    begin, end = text.index(_MARKS[0]) + len(_MARKS[0]), text.index(_MARKS[1])
    page.write_text(text[:begin] + "\n" + "\n".join(lines) + "\n" + text[end:], encoding="utf-8")


def _row(problem: Problem) -> dict[str, object]:
    seconds: list[float] = []
    choice = None
    for _ in range(_REPEATS):
        begin = time.process_time()
        choice = choose_placement(problem.buffer, problem.target)
        seconds.append(time.process_time() - begin)
    assert choice is not None
    best = choice.best
    return {
        "problem": problem.name,
        "group": problem.group,
        "target": problem.target,
        "plain": choice.plain.wavefronts,
        "best": best.wavefronts,
        "ideal": choice.ideal,
        "bound": choice.bound,
        "placement": f"{best.placement.family}: {best.placement.name}",
        "extra_bytes": best.placement.extra_bytes,
        "candidates": choice.candidates,
        "proof": choice.proof,
        "ms": round(statistics.median(seconds) * 1e3, 2),
        "first_ms": round(seconds[0] * 1e3, 2),
        "source": problem.source,
    }
