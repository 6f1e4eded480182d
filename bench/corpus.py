"""Verdicts and times of `check` on a folder of compiled kernels, with their launches and without.

Every `.ptx` below FOLDER, at FAMILY/TARGET/NAME.ptx, one row for each kernel of it. Where NAME.launch.json stands
beside it, the kernel that it names is checked with that launch, too (`--launches` chooses). FOLDER/sources.json may say
where families come from: `{"FAMILY": {"source": ..., "commit": ..., "compiler": ...}}`. Texts and sources stay
out of the repository; only tables go in, with `--write docs/corpus.md`, which keeps the part that is written by hand
and the rows of families that FOLDER lacks.

Kernels without an asynchronous instruction are counted apart: a proof of those says little.
Checked by: tests/benchmarks/test_corpus_bench.py
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path

from bench.corpus_page import Checked, most_frequent, page, sources_of, totals
from bench.record import write
from tilewright.base.check_report import FileReport, KernelReport
from tilewright.base.diagnostic import Level
from tilewright.driver.check.check import check_file
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.launch.launch_file import read_launch_file

BUDGET_SECONDS = 60.0
_REASONS_SHOWN = 12
_ASYNCHRONOUS = re.compile(
    r"^\s*(?:@!?%\w+\s+)?(?:mbarrier|cp\.async|cp\.reduce\.async|wgmma|tcgen05|st\.async|red\.async|clusterlaunchcontrol)\.",
    re.MULTILINE,
)
_ENTRY = re.compile(r"^\s*(?:\.(?:visible|weak|extern)\s+)?\.entry\s+([\w$]+)", re.MULTILINE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="folder of FAMILY/TARGET/NAME.ptx, with NAME.launch.json or without")
    parser.add_argument("--only", default="", help="paths that contain this")
    parser.add_argument(
        "--launches", choices=("given", "none", "both"), default="both",
        help="check with the launch files, without any, or both (default)",
    )  # fmt: skip
    parser.add_argument("--isa", default="tolerant", help="reading of contested points (default tolerant)")
    parser.add_argument(
        "--seconds", type=float, default=BUDGET_SECONDS, help="budget of each kernel (default %(default)g)"
    )
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count(), help="files at a time")
    parser.add_argument("--write", type=Path, default=None, metavar="PAGE", help="write the tables as Markdown")
    parser.add_argument("--results", type=Path, default=None, help="folder for corpus.json")


def run(arguments: argparse.Namespace) -> int:
    folder: Path = arguments.folder
    files = [path for path in sorted(folder.rglob("*.ptx")) if arguments.only in path.as_posix()]
    if not files:
        of_them = f" with {arguments.only!r} in its path" if arguments.only else ""
        print(f"{folder}: no .ptx file at FAMILY/TARGET/NAME.ptx{of_them}")
        return 2
    modes = {"given": (True,), "none": (False,), "both": (True, False)}[arguments.launches]
    tables: dict[bool, list[Checked]] = {}
    with ProcessPoolExecutor(arguments.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for with_launch in modes:
            chosen = [path for path in files if not with_launch or _launch_path(path).exists()]
            todo = [(str(folder), str(path), with_launch, arguments.isa, arguments.seconds) for path in chosen]
            rows: list[Checked] = []
            for at, of_file in enumerate(pool.map(_check, todo), 1):
                rows += of_file
                for row in of_file:
                    print(_line(row, f"{at}/{len(todo)}"), flush=True)
            if rows:
                tables[with_launch] = rows
                print("\nwith launch:" if with_launch else "\nwithout:", totals(rows))
                for verdict, reason, count, first in most_frequent(rows, _REASONS_SHOWN):
                    print(f"  {count:4} {verdict:8} {reason[:120]}  ({first})")
    if arguments.results is not None:
        rows_out = [asdict(row) for rows in tables.values() for row in rows]
        print(f"written to {write('corpus', rows_out, arguments.results)}")
    if arguments.write is not None:
        old: str = arguments.write.read_text("utf-8") if arguments.write.exists() else ""
        budget = "" if arguments.seconds == BUDGET_SECONDS else f" --seconds {arguments.seconds:g}"
        there = {row.family for rows in tables.values() for row in rows}
        sources = {family: found for family, found in sources_of(folder).items() if family in there}
        arguments.write.write_text(page(tables, sources, old, budget), "utf-8")
        print(f"written to {arguments.write}")
    return 0


def _line(row: Checked, progress: str) -> str:
    return (
        f"{progress:>9} {row.family}/{row.target}/{row.name:44} {row.lines:6} {row.verdict:8} {row.scope:16} "
        f"{row.seconds:6.2f} s {row.reason[:100]}"
    )


def _launch_path(path: Path) -> Path:
    return path.with_suffix(".launch.json")


def _check(task: tuple[str, str, bool, str, float]) -> list[Checked]:
    folder, name, with_launch, isa, seconds = task
    path = Path(name)
    launch = read_launch_file(str(_launch_path(path))) if with_launch else None
    begin = time.process_time()
    options = CheckOptions(isa=isa, budget_seconds=seconds, progress=_progress_of(path.stem))
    report = check_file(name, launch=launch, options=options)
    return list(rows_of(report, Path(folder), with_launch, time.process_time() - begin))


def _progress_of(stem: str) -> Callable[[str, float], None]:
    """Prints each fifth kernel that a file comes to, where the console would be silent for long."""
    seen: list[str] = []

    def progress(kernel: str, share: float) -> None:
        if share == 0.0 and kernel not in seen:
            seen.append(kernel)
            if len(seen) % 5 == 0:
                print(f"          {stem}: kernel {len(seen)}", file=sys.stderr, flush=True)

    return progress


# ---------------------------------------------------------------- rows


def rows_of(report: FileReport, folder: Path, with_launch: bool, seconds: float) -> Iterator[Checked]:
    """One row for each kernel that was checked; where the file could not be checked, for each that it has.

    Kernels share the processor time of their file as they share its wall time.
    """
    path = Path(report.path)
    parts = path.relative_to(folder).parts
    family, target = (parts[0], parts[1]) if len(parts) == 3 else ("", "")
    texts = kernel_texts(report.text or path.read_text("utf-8"))
    of_wall = seconds / max(1e-9, sum(kernel.seconds for kernel in report.kernels))
    numbers = {kernel: f"{path.stem} #{at}" if len(texts) > 1 else path.stem for at, kernel in enumerate(texts, 1)}

    def row(kernel: str, verdict: str, scope: str, reason: str, took: float) -> Checked:
        text = texts.get(kernel, "")
        where = numbers.get(kernel, path.stem)
        asynchronous = _ASYNCHRONOUS.search(text) is not None
        return Checked(family, target, where, text.count("\n"), verdict, scope, reason, took, with_launch, asynchronous)

    if report.error:
        for kernel in texts or {"": ""}:
            yield row(kernel, "error", "", report.error, seconds / max(1, len(texts)))
        return
    for kernel in report.kernels:
        yield row(kernel.name, kernel.verdict, kernel.scope, _reason(kernel, report.path), kernel.seconds * of_wall)


def _reason(kernel: KernelReport, path: str) -> str:
    said = [f"{finding.code} {finding.message}" for finding in kernel.findings if finding.level is Level.ERROR]
    said += kernel.reasons
    return said[0].replace(path, "") if said else ""


def kernel_texts(text: str) -> dict[str, str]:
    """The text of each kernel by name: from its `.entry` to the next one's, or the end."""
    found = list(_ENTRY.finditer(text))
    ends = [entry.start() for entry in found[1:]] + [len(text)]
    return {entry.group(1): text[entry.start() : end] for entry, end in zip(found, ends, strict=True)}
