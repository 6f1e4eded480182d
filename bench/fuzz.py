"""Does hostile input break the tool? Mutated kernels are checked for a while; defects and overruns are told.

Texts of a folder are mutated at random: bytes, lines, numbers, operands and modifiers are dropped, doubled, swapped and
replaced by hostile ones, two files are spliced. Each is checked in a process of its own kind, under a budget. Told are:
a defect (an exception that is no user error), a check that outlives its budget by more than a second, and one that
takes more than 2 GiB. The seed of each finding is printed: `--seed N --count 1` repeats it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import re
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import CheckOptions

_BUDGET_SECONDS = 3.0
_MEMORY_MEBIBYTES = 2048
_HOSTILE = (
    "{", "}", "(", ")", "[", "]", ";", ",", "\0", "\t" * 50, "/*", "*/", "//", '"', "0x", "-1", "4294967296", "1e999",
    "99999999999999999999999999", ".reg .b32 %r<2000000000>;", ".shared .b8 huge[1099511627776];", "@%p0",
    "bra $L__BB0_1;",
    "ret;", ".entry k()", "%nosuch", ".v4", ".pred", "call f;", "\u2028", "é", ".loc 1 1 1",
    "mbarrier.init.shared.b64 [%r0], 0;",
)  # fmt: skip


_NUMBERS = (0, 1, 2, 7, 31, 64, 255, 1 << 16, 1 << 31, (1 << 64) - 1)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One text. problem: empty where the tool did its job."""

    seed: int
    problem: str
    seconds: float
    mebibytes: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="folder of .ptx files to mutate")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0, help="of the first text")
    parser.add_argument("--count", type=int, default=None, help="so many texts, whatever the time")
    parser.add_argument("--jobs", type=int, default=1)


def run(arguments: argparse.Namespace) -> int:
    files = tuple(str(path) for path in sorted(arguments.folder.rglob("*.ptx")) if path.stat().st_size < 200_000)
    end = time.monotonic() + 60 * arguments.minutes
    seed, checked, worst, most, problems = arguments.seed, 0, 0.0, 0, 0
    with ProcessPoolExecutor(arguments.jobs, multiprocessing.get_context("spawn"), max_tasks_per_child=200) as pool:
        while time.monotonic() < end and (arguments.count is None or checked < arguments.count):
            batch = min(50 * arguments.jobs, (arguments.count or 1 << 30) - checked)
            for outcome in pool.map(_try, [(files, seed + index) for index in range(batch)]):
                checked += 1
                worst, most = max(worst, outcome.seconds), max(most, outcome.mebibytes)
                if outcome.problem:
                    problems += 1
                    print(f"seed {outcome.seed}: {outcome.problem}", flush=True)
            seed += batch
    print(f"{checked} texts: {problems} problems; longest {worst:.1f} s, largest process {most} MiB")
    return 1 if problems else 0


def _try(task: tuple[tuple[str, ...], int]) -> Outcome:
    files, seed = task
    text = mutated(files, random.Random(seed))
    begin = time.monotonic()
    problem = ""
    try:
        report = check_text(text, f"<seed {seed}>", options=CheckOptions(budget_seconds=_BUDGET_SECONDS))
        defects = [f"{kernel.name}: {kernel.defect}" for kernel in report.kernels if kernel.defect]
        if defects or "tilewright itself" in report.error:
            problem = report.error or "; ".join(defects)
    except BaseException as error:  # the point of fuzzing: anything that comes out is a finding
        problem = f"{type(error).__name__}: {error}"
    seconds = time.monotonic() - begin
    mebibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    if not problem and seconds > 2 * _BUDGET_SECONDS + 1:
        problem = f"took {seconds:.1f} s"
    if not problem and mebibytes > _MEMORY_MEBIBYTES:
        problem = f"took {mebibytes} MiB"
    return Outcome(seed, problem, seconds, mebibytes)


def mutated(files: tuple[str, ...], chance: random.Random) -> str:
    """A text of one of the files with a few random edits."""
    lines = Path(chance.choice(files)).read_text("utf-8").split("\n")
    if chance.random() < 0.1:
        other = Path(chance.choice(files)).read_text("utf-8").split("\n")
        lines = lines[: chance.randrange(len(lines))] + other[chance.randrange(len(other)) :]
    for _ in range(chance.choice((1, 1, 2, 3, 8, 30))):
        at = chance.randrange(len(lines))
        lines[at : at + 1] = _edited(lines, at, chance)
        if not lines:
            lines = [""]
    return "\n".join(lines)


def _edited(lines: list[str], at: int, chance: random.Random) -> list[str]:
    line = lines[at]
    words = re.findall(r"[\w.%$:]+|\S|\s+", line) or [""]
    place = chance.randrange(len(words))
    match chance.randrange(9):
        case 0:
            return []
        case 1:
            return [line, line]
        case 2:
            return [line, lines[chance.randrange(len(lines))]]
        case 3:
            return [chance.choice(_HOSTILE)]
        case 4:
            words[place] = chance.choice(_HOSTILE)
        case 5:
            words[place] = ""
        case 6:
            numbers = [index for index, word in enumerate(words) if word.isdigit()]
            if numbers:
                words[chance.choice(numbers)] = str(
                    chance.choice((0, 1, 2, 7, 31, 64, 255, 1 << 16, 1 << 31, (1 << 64) - 1))
                )
        case 7:
            other = re.findall(r"[\w.%$:]+|\S|\s+", lines[chance.randrange(len(lines))]) or [""]
            words[place] = chance.choice(other)
        case _:
            index = chance.randrange(len(line) + 1)
            return [line[:index] + chr(chance.randrange(32, 0x300)) + line[index + 1 :]]
    return ["".join(words)]
