"""What a check without a launch says of kernels that fail behind a guard or a bound, and of their fixed twins.

The family is generated (`tests/guarded`): protocols and their bugs, crossed with guards and bounds of every arithmetic
shape. A buggy kernel that is proven is a false proof, a fixed one that is refuted is a false alarm: either is printed,
and the exit code is 1. `--truth` checks first, with a launch for each, that what counts as buggy fails and its twin
does not.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path

from tests.guarded.judging import Verdicts, ground_truth, unlaunched
from tests.guarded.kernels import GuardedKernel, family

from bench.record import write

_WORDS = ("proven", "refuted", "unknown")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", default="", help="kernels whose name, group or guard contains this")
    parser.add_argument(
        "--first", type=int, default=None, help="so many of the family (any number has some of each kind)"
    )
    parser.add_argument(
        "--by", choices=("group", "guard", "protocol", "bug"), default="group", help="rows of the table"
    )
    parser.add_argument("--truth", action="store_true", help="also check each with its witness launch")
    parser.add_argument("--why", action="store_true", help="also print every kernel that is unknown, and why")
    parser.add_argument(
        "--texts", type=Path, default=None, help="write texts and launches to this folder, check nothing"
    )
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count(), help="kernels at a time")
    parser.add_argument("--results", type=Path, default=None, help="folder for guarded.json")


def run(arguments: argparse.Namespace) -> int:
    kernels = [
        kernel
        for kernel in family()
        if arguments.only in kernel.name or arguments.only in kernel.group or arguments.only in kernel.guard
    ][: arguments.first]
    if arguments.texts is not None:
        return _written(kernels, arguments.texts)
    wrong = 0
    found: list[Verdicts] = []
    with ProcessPoolExecutor(arguments.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        if arguments.truth:
            for lines in pool.map(ground_truth, kernels, chunksize=8):
                wrong += bool(lines)
                for line in lines:
                    print(f"ground truth: {line}", flush=True)
        for each in pool.map(unlaunched, kernels, chunksize=4):
            found.append(each)
            _print_wrong(each, arguments.why)
    _table(kernels, found, arguments.by)
    if arguments.results is not None:
        print(f"written to {write('guarded', [asdict(each) for each in found], arguments.results)}")
    return 1 if wrong or any(each.wrong for each in found) else 0


def _print_wrong(each: Verdicts, why: bool) -> None:
    if each.falsely_proven:
        print(f"false proof   {each.name}: {each.buggy_scope} | {each.buggy_why[:300]}", flush=True)
    if each.fixed == "refuted":
        print(f"false alarm   {each.name}: {each.fixed_why[:300]}", flush=True)
    for which, verdict, reason in (("buggy", each.buggy, each.buggy_why), ("fixed", each.fixed, each.fixed_why)):
        if verdict == "error" or (why and verdict == "unknown"):
            print(f"{verdict:8} {which} {each.name}: {reason[:300]}", flush=True)


def _table(kernels: Sequence[GuardedKernel], found: Sequence[Verdicts], by: str) -> None:
    rows: dict[str, tuple[Counter[str], Counter[str]]] = defaultdict(lambda: (Counter(), Counter()))
    for kernel, each in zip(kernels, found, strict=True):
        for name in (str(getattr(kernel, by)), "all"):
            buggy, fixed = rows[name]
            buggy[each.buggy] += 1
            fixed[each.fixed] += 1
    last = rows.pop("all", (Counter[str](), Counter[str]()))
    print(f"{'':52} buggy: proven refuted unknown   fixed: proven refuted unknown")
    for name, (buggy, fixed) in [*sorted(rows.items()), ("all", last)]:
        print(
            f"{name:52} {'':6} "
            + " ".join(f"{buggy[word]:{len(word)}}" for word in _WORDS)
            + f"   {'':6} "
            + " ".join(f"{fixed[word]:{len(word)}}" for word in _WORDS)
        )
    excused = sum(each.buggy == "proven" and not each.falsely_proven for each in found)
    if excused:
        print(f"{excused} of the proven buggy ones by an assumption that excludes the launches at which they fail")
    seconds = sorted(each.seconds for each in found)
    if seconds:
        print(
            f"{len(found)} pairs; seconds of a pair: median {seconds[len(seconds) // 2]:.2f}, worst {seconds[-1]:.2f}"
        )


def _written(kernels: Sequence[GuardedKernel], folder: Path) -> int:
    """buggy/NAME.ptx and fixed/NAME.ptx, each with the witness as NAME.launch.json."""
    import json

    for which in ("buggy", "fixed"):
        (folder / which).mkdir(parents=True, exist_ok=True)
        for kernel in kernels:
            (folder / which / f"{kernel.name}.ptx").write_text(kernel.buggy if which == "buggy" else kernel.fixed)
            (folder / which / f"{kernel.name}.launch.json").write_text(json.dumps(kernel.witness, indent=1) + "\n")
    print(f"{2 * len(kernels)} texts below {folder}")
    return 0
