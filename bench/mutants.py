"""How many mutants of correct kernels are refuted, by class: with a right code, at a right place.

Subjects are the kernels below FOLDER (by default those of the repository) that are proven with their launch. Every
mutation of `tests/mutants/broken.py` is made at some of the places it fits; `--harmless` makes those that must change
nothing instead. Survivors are printed with their line. With `--explain`, each is printed with an argument why it is
proven (`tests/mutants/arguments.py`), and the exit code is 1 if one has none.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path

from tests.mutants.arguments import Subject, argument
from tests.mutants.judging import Outcome, findings_of, judged
from tests.mutants.mutations import BROKEN, HARMLESS, mutants

from bench.record import write
from tilewright.driver.launch.launch_file import read_launch_file
from tilewright.frontends.ptx.reader import read

_OWN = Path(__file__).parent.parent / "tests" / "data" / "ptx" / "corpus"
_PLACES = ("line", "step", "shows", "far")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, nargs="?", default=_OWN, help="folder of kernels with launch files")
    parser.add_argument("--only", default="", help="paths that contain this")
    parser.add_argument("--mutation", default="", help="mutations whose name contains this")
    parser.add_argument("--places", type=int, default=2, help="places of each mutation in a kernel (default 2)")
    parser.add_argument("--harmless", action="store_true", help="edits that change nothing, instead")
    parser.add_argument("--explain", action="store_true", help="argue each survivor")
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count(), help="kernels at a time")
    parser.add_argument("--results", type=Path, default=None, help="folder for mutants.json")


def run(arguments: argparse.Namespace) -> int:
    folder: Path = arguments.folder
    files = [path for path in sorted(folder.rglob("*.ptx")) if path.with_suffix(".launch.json").exists()]
    files = [path for path in files if arguments.only in path.as_posix()]
    todo = [(str(path), arguments.mutation, arguments.places, arguments.harmless, arguments.explain) for path in files]
    bare = 0
    found: dict[str, list[Outcome]] = {}
    with ProcessPoolExecutor(arguments.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for path, argued in zip(files, pool.map(_outcomes, todo), strict=True):
            name = path.relative_to(folder).with_suffix("").as_posix()
            found[name] = [each for each, _ in argued]
            for each, why in argued:
                caught = each.verdict == "refuted" and each.code and each.place != "far"
                if each.verdict != "proven" if arguments.harmless else not caught:
                    print(
                        f"{name:40} {each.mutation:34} line {each.line:<5} {each.verdict:8} {why or each.why[:100]}",
                        flush=True,
                    )
                    bare += each.verdict == "proven" and not why
    _table([each for outcomes in found.values() for each in outcomes])
    if arguments.results is not None:
        rows: list[dict[str, object]] = [
            {"kernel": name, **asdict(each)} for name, outcomes in found.items() for each in outcomes
        ]
        print(f"written to {write('harmless' if arguments.harmless else 'mutants', rows, arguments.results)}")
    if arguments.explain and not arguments.harmless:
        print(f"{bare} survivors without an argument")
        return 1 if bare else 0
    return 0


def _outcomes(task: tuple[str, str, int, bool, bool]) -> list[tuple[Outcome, str]]:
    """Of every mutant of a kernel, with the argument for one that is still proven, where that is asked for."""
    name, mutation, places, harmless, explain = task
    path = Path(name)
    text, launch = path.read_text("utf-8"), read_launch_file(str(path.with_suffix(".launch.json")))
    chosen = tuple(each for each in (HARMLESS if harmless else BROKEN) if mutation in each.name)
    known = findings_of(text, name, launch)
    kernel = launch.kernel(read(text, name, tolerant=True), name).name
    found: list[tuple[Outcome, str]] = []
    for mutant in mutants(text, name, chosen, places):
        outcome = judged(mutant, name, launch, known if mutant.isa == "strict" else frozenset())
        argued = explain and not harmless and outcome.verdict == "proven"
        subject = Subject(text, name, kernel, launch, isa=mutant.isa)
        found.append((outcome, argument(subject, mutant.text) if argued else ""))
    return found


def _table(outcomes: list[Outcome]) -> None:
    classes: dict[str, list[Outcome]] = defaultdict(list)
    for each in outcomes:
        classes[each.mutation].append(each)
    print(f"{'class':36} mutants refuted code  " + "  ".join(f"{place:>5}" for place in _PLACES) + "  proven unknown")
    for name, members in [*classes.items(), ("all", outcomes)]:
        verdicts = Counter(each.verdict for each in members)
        places = Counter(each.place for each in members if each.verdict == "refuted")
        print(
            f"{name:36} {len(members):7} {verdicts['refuted']:7} {sum(each.code for each in members):4}  "
            + "  ".join(f"{places[place]:5}" for place in _PLACES)
            + f"  {verdicts['proven']:6} {verdicts['unknown'] + verdicts['error']:7}"
        )
    print(f"{len(classes)} classes")
