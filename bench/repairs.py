"""How many refuted kernels get a repair that checks again? Of the pairs of docs/bugs, and of kernels with seeded bugs.

Without an option: the buggy kernels of `docs/bugs`, one bug each. `--singles N` and `--pairs N` seed one or two of the
mutations of `tests/mutants` into proven kernels below FOLDER (by default those of the repository), sampled by `--seed`.
The two mutations of a pair are of different classes and edit different lines, and each is refuted by itself. Only
mutations that are faults under the tolerant interpretation are taken.

Every repair is applied and the text is checked once more here: `fixed` counts those that are then proven, `in part`
those after which findings remain and the repair says how many, `wrong` those whose claim does not hold.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import time
import tomllib
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from tests.mutants.edit import Edit, Subject
from tests.mutants.mutations import BROKEN

from bench.record import write
from tilewright.base.check_report import FileReport
from tilewright.base.diagnostic import Repair
from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import REPAIR_STEPS, CheckOptions
from tilewright.driver.launch.given_launch import LaunchFile
from tilewright.driver.launch.launch_file import read_launch_file
from tilewright.driver.repair.edits import apply_edits
from tilewright.frontends.ptx.reader import read

_ROOT = Path(__file__).parent.parent
_OWN = _ROOT / "tests" / "data" / "ptx" / "corpus"
_BUGS = _ROOT / "docs" / "bugs"
_SECONDS = 60.0
_DRAWS = 60
"""Samples that are drawn for one seeded kernel until each of its bugs is refuted by itself."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """name: of the kernel and its bugs; result: fixed, in part, none, or wrong; found: codes of the errors; title: of
    the repair; seconds: of the processor, for the search."""

    name: str
    result: str
    found: tuple[str, ...] = ()
    title: str = ""
    seconds: float = 0.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, nargs="?", default=_OWN, help="folder of kernels with launch files")
    parser.add_argument("--only", default="", help="kernels whose path contains this")
    parser.add_argument("--pairs", type=int, default=0, metavar="N", help="N kernels with two seeded bugs")
    parser.add_argument("--singles", type=int, default=0, metavar="N", help="N kernels with one seeded bug")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default 0)")
    parser.add_argument("--first", type=int, default=0, help="number of the first one of the sample (default 0)")
    parser.add_argument("--times", type=int, default=1, help="times the work of a plain check; --fix has 6 (default 1)")
    parser.add_argument("--jobs", type=int, default=1, help="kernels at a time (default 1)")
    parser.add_argument("--results", type=Path, default=None, help="folder for repairs.json")


def run(arguments: argparse.Namespace) -> int:
    bugs = 2 if arguments.pairs else int(arguments.singles > 0)
    tasks: list[tuple[str, str, int, int]] = []
    if bugs:
        files = [path for path in sorted(arguments.folder.rglob("*.ptx")) if path.with_suffix(".launch.json").exists()]
        names = "\n".join(str(path) for path in files if arguments.only in path.as_posix())
        numbers = range(arguments.first, arguments.first + (arguments.pairs or arguments.singles))
        tasks = [(names, f"{arguments.seed}/{number}", bugs, arguments.times) for number in numbers]
    else:
        tasks = [(name, "", 0, arguments.times) for name in _known_bugs() if arguments.only in name]
    outcomes: list[Outcome] = []
    with ProcessPoolExecutor(arguments.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for outcome in pool.map(_outcome, tasks):
            outcomes.append(outcome)
            shown = f"{outcome.result:8} {outcome.seconds:5.1f} s  {outcome.name}  {' '.join(outcome.found)}"
            print(f"{shown}  {outcome.title}", flush=True)
    counts = Counter(each.result for each in outcomes)
    total = max(len(outcomes), 1)
    print(", ".join(f"{name} {count} of {total} ({100 * count / total:.0f} %)" for name, count in counts.items()))
    print(f"{sum(each.seconds for each in outcomes):.0f} s of a processor")
    if arguments.results is not None:
        print(f"written to {write('repairs', [asdict(each) for each in outcomes], arguments.results)}")
    return 1 if counts["wrong"] else 0


@cache
def _known_bugs() -> dict[str, dict[str, object]]:
    return tomllib.loads((_BUGS / "index.toml").read_text("utf-8"))


def _outcome(task: tuple[str, str, int, int]) -> Outcome:
    names, seed, bugs, times = task
    if not bugs:
        folder = _BUGS / names
        file = folder / "launch.json"
        launch = read_launch_file(str(file)) if file.exists() else None
        isa = str(_known_bugs()[names].get("isa", "tolerant"))
        return _repaired(names, (folder / "buggy.ptx").read_text("utf-8"), launch, isa, times)
    seeded = _seeded([Path(name) for name in names.split("\n")], random.Random(seed), bugs)
    if seeded is None:
        return Outcome(seed, "nothing seeded")
    path, titles, text = seeded
    return _repaired(f"{path.parent.name}/{path.stem}: {'; '.join(titles)}", text, _launch(path), "tolerant", times)


@cache
def _launch(path: Path) -> LaunchFile:
    return read_launch_file(str(path.with_suffix(".launch.json")))


def _seeded(files: list[Path], chance: random.Random, bugs: int) -> tuple[Path, list[str], str] | None:
    """A kernel with `bugs` mutations, each of which is refuted by itself, and what they are."""
    chosen = [each for each in BROKEN if each.isa == "tolerant"]
    for _ in range(_DRAWS):
        path = chance.choice(files)
        text = path.read_text("utf-8")
        lines = tuple(text.split("\n"))
        kernel = _launch(path).kernel(read(text, str(path), tolerant=True), str(path))
        edits: list[tuple[str, Edit]] = []
        for mutation in chance.sample(chosen, bugs):
            places = list(mutation.places(Subject(kernel, lines)))
            if places:
                edits.append((mutation.name, chance.choice(places)))
        changed = [line for _, edit in edits for line in edit.new]
        if len(edits) < bugs or len(changed) > len(set(changed)):
            continue
        alone = [_edited(lines, [edit]) for _, edit in edits]
        whole = _edited(lines, [edit for _, edit in edits])
        if all(_verdict(each, path) == "refuted" for each in dict.fromkeys((*alone, whole))):
            return path, [f"{name} (line {edit.line})" for name, edit in edits], whole
    return None


def _edited(lines: tuple[str, ...], edits: list[Edit]) -> str:
    edited = list(lines)
    for edit in edits:
        for line, new in edit.new.items():
            edited[line - 1] = new
    return "\n".join(edited)


def _verdict(text: str, path: Path) -> str:
    report = check_text(text, str(path), launch=_launch(path), options=CheckOptions(budget_seconds=_SECONDS))
    return report.kernels[0].verdict if report.kernels else "error"


def _repaired(name: str, text: str, launch: LaunchFile | None, isa: str, times: int) -> Outcome:
    begin = time.process_time()
    options = CheckOptions(isa, repair_steps=times * REPAIR_STEPS, budget_seconds=None)
    report = check_text(text, name, launch=launch, options=options)
    seconds = time.process_time() - begin
    if not report.kernels:
        return Outcome(name, "error")
    errors = report.kernels[0].errors
    found = tuple(dict.fromkeys(each.code for each in errors))
    shown = next((each for each in errors if each.repair is not None and each.repair.rechecked), None)
    repair = shown.repair if shown is not None else None
    if shown is None or repair is None:
        return Outcome(name, "none", found, "", seconds)
    mended = apply_edits(text, repair.edits)
    again = check_text(mended, name, launch=launch, options=CheckOptions(isa, budget_seconds=None))
    return Outcome(name, _result(again, repair), found, repair.title, seconds)


def _result(again: FileReport, repair: Repair) -> str:
    kernel = again.kernels[0] if again.kernels else None
    if kernel is None:
        return "wrong"
    if len(kernel.errors) != repair.remaining or (not repair.remaining and kernel.verdict != "proven"):
        return "wrong"
    return "in part" if repair.remaining else "fixed"
