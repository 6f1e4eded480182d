"""Does the second proof say of every product what the slow way says, which leaves nothing out and joins nothing?

    python -m bench both-ways [--only WORDS] [--sample COUNT] [--drawn COUNT] [--seed SEED] [--jobs N]

Each product of every suite is compiled without a GPU, and its text proved twice: as compilations do, without values
that decide nothing and with the loads and stores of a stretch as one event, and with all values and events
(`driver.reproof.reproof`: slow). `--sample` takes so many of them; `--drawn` adds products of random sizes. A product
of which the two do not say the same is listed, and the command ends with 1. What a shortcut cannot be held against, the
reader of the text and the judge of its events, both ways have in common.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from bench.compile_suites import Work, products
from bench.gemm_suites import Product
from bench.record import write
from tilewright.base.verdict import Refuted, Verdict


@dataclass(frozen=True, slots=True)
class BothWays:
    """What is said of one product's text, the quick way and the slow way, and in how many seconds of processor time;
    refused: why there is no text."""

    suite: str
    case: str
    shape: tuple[int, ...]
    said: tuple[str, str] = ("", "")
    seconds: tuple[float, float] = (0.0, 0.0)
    refused: str = ""

    @property
    def differs(self) -> bool:
        return self.said[0] != self.said[1]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", action="append", metavar="WORDS", help="suites whose name contains these words")
    parser.add_argument("--sample", type=int, metavar="COUNT", help="so many of the suites' products, drawn at random")
    parser.add_argument("--drawn", type=int, default=0, metavar="COUNT", help="so many products of random sizes more")
    parser.add_argument("--seed", type=int, help="of what is drawn (default: another one each time)")
    parser.add_argument("--jobs", type=int, default=1, help="so many products at a time (default 1)")
    parser.add_argument("--results", type=Path, help="folder of a result file, if one is wanted")


def run(arguments: argparse.Namespace) -> int:
    seed = Random().randrange(1 << 32) if arguments.seed is None else arguments.seed
    chosen = [each for each in products() if not arguments.only or any(words in each.suite for words in arguments.only)]
    if arguments.sample is not None:
        chosen = Random(seed).sample(chosen, min(arguments.sample, len(chosen)))
    chosen += drawn(seed, arguments.drawn)
    print(f"{len(chosen)} products, seed {seed}")
    rows: list[BothWays] = []
    with ProcessPoolExecutor(arguments.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for row in pool.map(both_ways, chosen):
            rows.append(row)
            if row.differs:
                print(f"{row.suite}, {row.case} {row.shape}: {row.said[0]}; slow: {row.said[1]}", file=sys.stderr)
            if len(rows) % 25 == 0:
                print(f"{len(rows)} of {len(chosen)}", flush=True)
    print(summary(rows))
    if arguments.results is not None:
        print(f"written to {write('both_ways', [as_row(each) for each in rows], arguments.results)}")
    return 1 if any(row.differs for row in rows) else 0


def drawn(seed: int, count: int) -> list[Work]:
    """Products of sizes as layers have them, and odd ones; fp8 every fourth time."""
    random, found = Random(seed), list[Work]()
    for number in range(count):
        m, n, k = (random.choice((1, 8, 16, 64)) * random.randrange(1, 129) for _ in range(3))
        if number % 4 == 3:
            product = Product("drawn", m, 16 * (-(-n // 16)), 16 * (-(-k // 16)), "e4m3", True, "tensor")
        else:
            product = Product("drawn", m, n, k)
        found.append(Work("drawn", product))
    return found


def both_ways(work: Work) -> BothWays:
    """One product's text, proved both ways."""
    from bench.our_products import arguments_of
    from tilewright.base.error import TilewrightError
    from tilewright.driver.compile.compile import compile_kernel
    from tilewright.driver.reproof.reproof import reprove

    said: list[str] = []
    seconds: list[float] = []
    shape = work.shape
    try:
        kernel, options = arguments_of(work.case)
        made = compile_kernel(kernel, **options, rerun=False, assembled=False)
    except TilewrightError as error:
        return BothWays(work.suite, work.case.name, shape, refused=str(error))
    for slow in (False, True):
        begin = time.process_time()
        verdict = reprove(made.tile, made.ptx, made.target, made.name, slow=slow)
        seconds.append(time.process_time() - begin)
        said.append(words_of(verdict))
    return BothWays(work.suite, work.case.name, shape, (said[0], said[1]), (seconds[0], seconds[1]))


def words_of(verdict: Verdict) -> str:
    """The kind of verdict, and the codes of its findings."""
    codes = sorted({each.code for each in verdict.findings}) if isinstance(verdict, Refuted) else []
    return " ".join([type(verdict).__name__.lower(), *codes])


def as_row(row: BothWays) -> dict[str, Any]:
    return {
        "suite": row.suite, "case": row.case, "shape": list(row.shape), "refused": row.refused,
        "said": list(row.said), "seconds": list(row.seconds),
    }  # fmt: skip


def summary(rows: list[BothWays]) -> str:
    """How many say the same, and what the slow way takes."""
    done = [row for row in rows if not row.refused]
    same = sum(not row.differs for row in done)
    parts = [f"Of {len(done)} texts {same} are judged alike both ways"]
    if done:
        quick, slow = ([row.seconds[way] for row in done] for way in (0, 1))
        parts.append(
            f"; the quick way takes {statistics.median(quick):.2f} s in the median and {max(quick):.2f} s at most, the "
            f"slow one {statistics.median(slow):.2f} and {max(slow):.2f}"
        )
    if len(done) < len(rows):
        parts.append(f"; {len(rows) - len(done)} are refused")
    return "".join([*parts, "."])
