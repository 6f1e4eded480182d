"""Does a proof say anything? Kernels that are proven, checked again without all of one kind of their synchronization.

Every `.ptx` below FOLDER, without a launch, or with `--launch` those that have a `.launch.json` beside them. From each
kernel that is proven all announcements are deleted, all waits of one kind, all commits, all fences of one kind, all
arrivals (`tests/mutants/deletions.py`). What is then still proven needs an argument (`tests/mutants/arguments.py`),
which is printed; the exit code is 1 if one has none.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.mutants.arguments import Subject, argument
from tests.mutants.deletions import Deletion, deletions

from bench.record import write
from tilewright.base.error import TilewrightError
from tilewright.driver.launch.launch_file import read_launch_file
from tilewright.frontends.ptx.reader import read

_WORDS = ("refuted", "unknown", "proven", "error")


@dataclass(frozen=True, slots=True)
class Deleted:
    """One deletion from one kernel. why: the argument for one that is still proven, the first reason for unknown."""

    file: str
    kernel: str
    kind: str
    lines: tuple[int, ...]
    verdict: str
    why: str


@dataclass(frozen=True, slots=True)
class _Task:
    path: str
    name: str
    launch: bool
    kind: str
    budget_seconds: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="folder of .ptx files")
    parser.add_argument("--launch", action="store_true", help="with the launch file beside each")
    parser.add_argument("--only", default="", help="paths that contain this")
    parser.add_argument("--every", type=int, default=1, help="each so many-th file alone (default 1)")
    parser.add_argument("--first", type=int, default=0, help="so many of the smallest files (default: all, in order)")
    parser.add_argument("--kind", default="", help="deletions whose kind contains this")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for each check (default 60)")
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count(), help="files at a time")
    parser.add_argument("--results", type=Path, default=None, help="folder for vacuity.json")


def run(arguments: argparse.Namespace) -> int:
    folder: Path = arguments.folder
    files = [path for path in sorted(folder.rglob("*.ptx")) if arguments.only in path.as_posix()]
    if arguments.launch:
        files = [path for path in files if path.with_suffix(".launch.json").exists()]
    files = files[:: arguments.every]
    if arguments.first:
        files = sorted(files, key=lambda path: path.stat().st_size)[: arguments.first]
    if not files:
        print(f"{folder} has no .ptx file{' with a launch file' if arguments.launch else ''}")
        return 2
    tasks = [
        _Task(str(path), path.relative_to(folder).as_posix(), arguments.launch, arguments.kind, arguments.budget)
        for path in files
    ]
    found: list[Deleted] = []
    subjects = Counter[str]()
    with ProcessPoolExecutor(arguments.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for verdicts, deleted in pool.map(_judged, tasks):
            subjects.update(verdicts)
            found += deleted
            for each in deleted:
                if each.verdict in ("proven", "error"):
                    places = ", ".join(map(str, each.lines[:6])) + (" ..." if len(each.lines) > 6 else "")
                    why = each.why or "NO ARGUMENT"
                    print(
                        f"{each.verdict:8} {each.file}: {each.kernel[:40]} without {each.kind} ({places}): {why}",
                        flush=True,
                    )
    _table(found)
    total = sum(subjects.values())
    print(f"{total} kernels, {subjects['proven']} of them proven, {len(found)} deletions")
    bare = [each for each in found if each.verdict == "error" or (each.verdict == "proven" and not each.why)]
    print(f"{sum(each.verdict == 'proven' for each in found)} still proven, {len(bare)} of them without an argument")
    if arguments.results is not None:
        print(f"written to {write('vacuity', [asdict(each) for each in found], arguments.results)}")
    return 1 if bare else 0


def _judged(task: _Task) -> tuple[list[str], list[Deleted]]:
    """The verdicts on a file's kernels, and every deletion from those that are proven."""
    path = Path(task.path)
    try:
        text = path.read_text("utf-8")
        module = read(text, task.path, tolerant=True)
        launch = read_launch_file(str(path.with_suffix(".launch.json"))) if task.launch else None
        kernels = [launch.kernel(module, task.path)] if launch is not None else list(module.kernels)
    except (TilewrightError, UnicodeDecodeError) as error:
        return ["error"], [Deleted(task.name, "", "", (), "error", str(error).splitlines()[0])]
    verdicts: list[str] = []
    found: list[Deleted] = []
    for kernel in kernels:
        subject = Subject(text, task.path, kernel.name, launch, task.budget_seconds)
        report = subject.check(text)
        verdicts.append(report.verdict if report is not None else "error")
        if report is None or report.verdict != "proven":
            continue
        made = [each for each in deletions(text, module, kernel) if task.kind in each.kind]
        found += [_deleted(subject, task.name, each) for each in made]
    return verdicts, found


def _deleted(subject: Subject, name: str, deletion: Deletion) -> Deleted:
    report = subject.check(deletion.text)
    verdict = report.verdict if report is not None else "error"
    why = ""
    if report is not None and verdict == "unknown":
        why = report.findings.reasons[0]
    if verdict == "proven":
        why = argument(subject, deletion.text)
    return Deleted(name, subject.kernel, deletion.kind, deletion.lines, verdict, why)


def _table(found: list[Deleted]) -> None:
    kinds: dict[str, list[Deleted]] = defaultdict(list)
    for each in found:
        kinds[each.kind].append(each)
    print(f"{'deleted':32} kernels refuted unknown proven error  argued")
    for kind, members in [*sorted(kinds.items()), ("all", found)]:
        words = Counter(each.verdict for each in members)
        argued = sum(each.verdict == "proven" and bool(each.why) for each in members)
        counts = " ".join(f"{words[word]:{width}}" for word, width in zip(_WORDS, (7, 7, 6, 5), strict=True))
        print(f"{kind:32} {len(members):7} {counts} {argued:7}")
