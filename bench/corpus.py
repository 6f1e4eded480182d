"""Verdicts and times of `check` on a folder of compiled kernels, each with its launch, or without.

Every `.ptx` below FOLDER with a `.launch.json` beside it, at FAMILY/TARGET/NAME.ptx. FOLDER/sources.json may say where
families come from: `{"FAMILY": {"source": ..., "commit": ..., "compiler": ...}}`. Texts and sources of others stay out
of the repository; only this table goes in, with `--write docs/corpus.md`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from bench.record import write
from tilewright.base.diagnostic import Level
from tilewright.driver.check import CheckOptions, check_file
from tilewright.driver.launch_file import read_launch_file

_REASON_LENGTH = 160
BUDGET_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Checked:
    """One kernel. verdict: `error` where nothing was checked; reason: first finding, or reason for `unknown`."""

    family: str
    target: str
    name: str
    lines: int
    verdict: str
    scope: str
    reason: str
    seconds: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="folder of FAMILY/TARGET/NAME.ptx with NAME.launch.json")
    parser.add_argument("--only", default="", help="paths that contain this")
    parser.add_argument("--no-launch", action="store_true", help="check without the launch as well")
    parser.add_argument("--isa", default="tolerant", help="reading of contested points (default tolerant)")
    parser.add_argument(
        "--seconds", type=float, default=BUDGET_SECONDS, help="budget of each kernel (default %(default)g)"
    )
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count(), help="kernels at a time")
    parser.add_argument("--write", type=Path, default=None, metavar="PAGE", help="write the tables as Markdown")
    parser.add_argument("--results", type=Path, default=None, help="folder for corpus.json")


def run(arguments: argparse.Namespace) -> int:
    folder: Path = arguments.folder
    files = [path for path in sorted(folder.rglob("*.ptx")) if path.with_suffix(".launch.json").exists()]
    files = [path for path in files if arguments.only in path.as_posix()]
    modes = (True, False) if arguments.no_launch else (True,)
    tables: dict[bool, list[Checked]] = {}
    with ProcessPoolExecutor(arguments.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for with_launch in modes:
            todo = [(str(folder), str(path), with_launch, arguments.isa, arguments.seconds) for path in files]
            rows: list[Checked] = []
            for row in pool.map(_check, todo):
                rows.append(row)
                print(
                    f"{row.family}/{row.target}/{row.name:40} {row.lines:6} {row.verdict:8} {row.scope:16} "
                    f"{row.seconds:6.2f} s {row.reason[:100]}",
                    flush=True,
                )
            tables[with_launch] = rows
            print("with launch:" if with_launch else "without:", _totals(rows))
    if arguments.results is not None:
        rows_out: list[dict[str, object]] = [
            {"family": row.family, "target": row.target, "name": row.name, "lines": row.lines, "verdict": row.verdict,
             "scope": row.scope, "reason": row.reason, "seconds": round(row.seconds, 3), "launch": with_launch}
            for with_launch, rows in tables.items()
            for row in rows
        ]  # fmt: skip
        print(f"written to {write('corpus', rows_out, arguments.results)}")
    if arguments.write is not None:
        text = _page(tables, _sources(folder), _argued(arguments.write), arguments.seconds)
        arguments.write.write_text(text, "utf-8")
        print(f"written to {arguments.write}")
    return 0


def _check(task: tuple[str, str, bool, str, float]) -> Checked:
    folder, name, with_launch, isa, seconds = task
    path = Path(name)
    parts = path.relative_to(folder).parts
    family, target = (parts[0], parts[1]) if len(parts) == 3 else ("", "")
    launch = read_launch_file(str(path.with_suffix(".launch.json"))) if with_launch else None
    lines = path.read_text("utf-8").count("\n")
    begin = time.process_time()
    report = check_file(name, launch=launch, options=CheckOptions(isa=isa, budget_seconds=seconds))
    took = time.process_time() - begin
    if report.error:
        return Checked(family, target, path.stem, lines, "error", "", report.error, took)
    verdicts = [kernel.verdict for kernel in report.kernels]
    verdict = next((word for word in ("refuted", "unknown") if word in verdicts), "proven")
    said = [
        f"{finding.code} {finding.message}"
        for kernel in report.kernels
        for finding in kernel.findings
        if finding.level is Level.ERROR
    ]
    said += [reason for kernel in report.kernels for reason in kernel.reasons]
    reason = said[0].replace(name, "") if said else ""
    scopes = {kernel.scope for kernel in report.kernels if kernel.scope}
    scope = "all trip counts" if scopes == {"all trip counts"} else "this launch" if scopes else ""
    return Checked(family, target, path.stem, lines, verdict, scope, reason, took)


def _totals(rows: list[Checked]) -> str:
    counts = Counter(row.verdict for row in rows)
    everywhere = sum(row.scope == "all trip counts" for row in rows)
    share = counts["proven"] / len(rows) if rows else 0.0
    words = ", ".join(f"{counts[word]} {word}" for word in ("proven", "unknown", "refuted", "error"))
    return f"{len(rows)} kernels: {words} ({share:.1%} proven, {everywhere} for all trip counts)"


def _sources(folder: Path) -> dict[str, dict[str, str]]:
    path = folder / "sources.json"
    return cast(dict[str, dict[str, str]], json.loads(path.read_text("utf-8"))) if path.exists() else {}


# ---------------------------------------------------------------- the page

_ARGUED = ("<!-- argued by hand: kept when the page is written again -->", "<!-- end -->")


def _argued(page: Path) -> str:
    """What stands between the marks of the page as it is, which no run writes."""
    text = page.read_text("utf-8") if page.exists() else ""
    first, last = (text.find(mark) for mark in _ARGUED)
    return text[first : last + len(_ARGUED[1])] if 0 <= first < last else "\n".join(_ARGUED)


def _page(
    tables: dict[bool, list[Checked]], sources: dict[str, dict[str, str]], argued: str, seconds: float
) -> str:  # fmt: skip
    budget = "" if seconds == BUDGET_SECONDS else f" --seconds {seconds:g}"
    out = [
        "# Kernels that were checked",
        "",
        "Compiled by others' compilers, for `sm_90a` and `sm_100a`, most of them written by others. Made by",
        f"`python -m bench corpus FOLDER{budget} --write docs/corpus.md`. No text is in the repository but those",
        "below `tests/data/ptx/corpus`. Times are what one process took of a processor, reading included.",
        "",
        "| family | source | commit | compiled by |",
        "|---|---|---|---|",
    ]
    for family, source in sorted(sources.items()):
        out.append(
            f"| {family} | {source.get('source', '')} | {source.get('commit', '')} | {source.get('compiler', '')} |"
        )
    out += [
        "",
        "## Totals",
        "",
        "| family | target | launch | kernels | proven | all trip counts | unknown | refuted | median s | longest s |",
    ]
    out.append("|---|---|---|---|---|---|---|---|---|---|")
    for with_launch, rows in tables.items():
        for family, target in sorted({(row.family, row.target) for row in rows}):
            out.append(
                _total_row(family, target, with_launch, [r for r in rows if (r.family, r.target) == (family, target)])
            )
        out.append(_total_row("**all**", "", with_launch, rows))
    out += ["", argued]
    for with_launch, rows in tables.items():
        out += ["", f"## {'With' if with_launch else 'Without'} launch", ""]
        out += [
            "| family | target | kernel | lines | verdict | scope | seconds | reason |",
            "|---|---|---|---|---|---|---|---|",
        ]
        out += [
            f"| {row.family} | {row.target} | {row.name} | {row.lines} | {row.verdict} | {row.scope} "
            f"| {row.seconds:.2f} | {_cell(row.reason)} |"
            for row in rows
        ]
    return "\n".join(out) + "\n"


def _total_row(family: str, target: str, with_launch: bool, rows: list[Checked]) -> str:
    counts = Counter(row.verdict for row in rows)
    seconds = sorted(row.seconds for row in rows)
    everywhere = sum(row.scope == "all trip counts" for row in rows)
    cells = [
        family,
        target,
        "given" if with_launch else "not given",
        len(rows),
        counts["proven"],
        everywhere,
        counts["unknown"] + counts["error"],
        counts["refuted"],
        f"{seconds[len(seconds) // 2]:.2f}",
        f"{seconds[-1]:.2f}",
    ]
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def _cell(text: str) -> str:
    short = text if len(text) <= _REASON_LENGTH else text[:_REASON_LENGTH] + "…"
    return short.replace("|", "\\|").replace("\n", " ")
