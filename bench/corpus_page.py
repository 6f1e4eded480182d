"""The page of the corpus: tables of verdicts, reasons by count, and what is kept when it is written again.

Three things are kept: the part between the marks, which is argued by hand, the rows of families that were not checked
this time, and the rows of a mode (with or without launch) that was not run. Reasons are compared by their text without
places, numbers, registers and names, so that one cause is one row; the table of them is capped.
Checked by: tests/benchmarks/test_corpus_bench.py
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

_REASON_LENGTH = 160
_REASONS_OF_PAGE = 20


@dataclass(frozen=True, slots=True)
class Checked:
    """One kernel. verdict: `error` where nothing was checked; reason: first finding, or reason for `unknown`; launch:
    checked with its launch file; asynchronous: the text has an instruction of the asynchronous kinds."""

    family: str
    target: str
    name: str
    lines: int
    verdict: str
    scope: str
    reason: str
    seconds: float
    launch: bool = True
    asynchronous: bool = True


def sources_of(folder: Path) -> dict[str, dict[str, str]]:
    """What FOLDER/sources.json says of its families."""
    path = folder / "sources.json"
    return cast(dict[str, dict[str, str]], json.loads(path.read_text("utf-8"))) if path.exists() else {}


# ---------------------------------------------------------------- counts


def totals(rows: list[Checked]) -> str:
    """One line: verdicts of the asynchronous kernels, and how many others there are."""
    counted = [row for row in rows if row.asynchronous]
    counts = Counter(row.verdict for row in counted)
    share = counts["proven"] / len(counted) if counted else 0.0
    words = ", ".join(f"{counts[word]} {word}" for word in ("proven", "unknown", "refuted", "error"))
    others = Counter(row.verdict for row in rows if not row.asynchronous)
    rest = ", ".join(f"{count} {word}" for word, count in sorted(others.items()))
    everywhere = sum(row.scope == "all trip counts" for row in counted)
    said = f"{len(counted)} asynchronous kernels: {words} ({share:.1%} proven, {everywhere} for all trip counts)"
    return said + (f"; others: {rest}" if rest else "")


def normalised(reason: str) -> str:
    """A reason without what differs between two kernels that have it: places, numbers, registers, mangled names."""
    text = re.sub(r"^\S*?:\d+(?::\d+)?:? ?", "", reason)
    text = re.sub(r"\S*\.ptx:\d+(?::\d+)?|(?<!\w):\d+:\d+", "PLACE", text)
    text = re.sub(r"\b_Z\w+|\b\w*__\w{16,}", "NAME", text)
    text = re.sub(r"%\w+", "REGISTER", text)
    text = re.sub(r"(?<![A-Za-z\d])\+?(?:0x[\da-fA-F]+|\d+)\b", "N", text)
    text = re.sub(r"\b(CTA N )(?:[a-z]+ (?:warpgroup N )?)?(?=warp N)", r"\1", text)
    text = re.sub(r"(; data in (?:global )?memory at [^;…]*)+", "; ...", text)
    return re.sub(r"N(?:(?:, | and |x)N)+", "N, ...", text)


def most_frequent(rows: Iterable[Checked], at_most: int) -> list[tuple[str, str, int, str]]:
    """(verdict, reason, kernels, first kernel) of kernels that are not proven, most frequent first; what is beyond
    `at_most` is one last row."""
    first: dict[tuple[str, str], Checked] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for row in rows:
        if row.verdict != "proven":
            key = (row.verdict, normalised(row.reason))
            counts[key] += 1
            first.setdefault(key, row)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    out = [(verdict, reason, count, _where(first[verdict, reason])) for (verdict, reason), count in ordered[:at_most]]
    if rest := ordered[at_most:]:
        out.append(("", f"{len(rest)} further reasons", sum(count for _, count in rest), ""))
    return out


def _where(row: Checked) -> str:
    return f"{row.family}/{row.target}/{row.name}"


# ---------------------------------------------------------------- the page

_ARGUED = ("<!-- argued by hand: kept when the page is written again -->", "<!-- end -->")
_SOURCES = "| family | source | commit | compiled by |"
_ROWS = "| family | target | kernel | lines | verdict | scope | seconds | reason |"
_SECTIONS = {True: "## With launch", False: "## Without launch"}


def page(tables: dict[bool, list[Checked]], sources: dict[str, dict[str, str]], old: str, budget: str) -> str:
    """The whole page. old: the page as it is, from which the rest is kept; budget: option of the command, if any."""
    merged: dict[bool, list[Checked]] = {}
    for with_launch in (True, False):
        rows = tables.get(with_launch, [])
        here = {row.family for row in rows}
        kept = [row for row in _rows_of_page(old, with_launch) if row.family not in here]
        merged[with_launch] = sorted([*rows, *kept], key=lambda row: (row.family, row.target))
    out = [
        "# Kernels that were checked",
        "",
        "Compiled by others' compilers, for `sm_90a` and `sm_100a`, most of them written by others. Made by",
        f"`python -m bench corpus FOLDER{budget} --write docs/corpus.md`, once for each folder: families that a folder",
        "lacks keep their rows. No text is in the repository but those below `tests/data/ptx/corpus`. Times are what",
        "one process took of a processor, reading included. A file of several kernels has a row for each (`name #2`).",
        "Kernels without an asynchronous instruction are left out.",
        "",
        _SOURCES,
        "|---|---|---|---|",
        *_source_lines(sources, old),
        "",
        "## Totals",
        "",
        "| family | target | launch | kernels | proven | all trip counts | unknown | refuted | median s | longest s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    shown = {mode: [row for row in rows if row.asynchronous] for mode, rows in merged.items()}
    for with_launch, rows in shown.items():
        for group in sorted({(row.family, row.target) for row in rows}):
            out.append(_total_row(*group, with_launch, [row for row in rows if (row.family, row.target) == group]))
        if rows:
            out.append(_total_row("**all**", "", with_launch, rows))
    out += ["", _argued(old)]
    for with_launch, rows in shown.items():
        if rows:
            out += _section(with_launch, rows)
    return "\n".join(out) + "\n"


def _section(with_launch: bool, rows: list[Checked]) -> list[str]:
    out = ["", _SECTIONS[with_launch], ""]
    if reasons := most_frequent(rows, _REASONS_OF_PAGE):
        out += ["| kernels | verdict | reason, without places and numbers | first |", "|---|---|---|---|"]
        out += [f"| {count} | {verdict} | {_cell(reason)} | {first} |" for verdict, reason, count, first in reasons]
        out.append("")
    out += [_ROWS, "|---|---|---|---|---|---|---|---|"]
    out += [
        f"| {row.family} | {row.target} | {row.name} | {row.lines} | {row.verdict} | {row.scope} "
        f"| {row.seconds:.2f} | {_cell(row.reason)} |"
        for row in rows
    ]
    return out


def _source_lines(sources: dict[str, dict[str, str]], old: str) -> list[str]:
    lines = {cells[0]: "| " + " | ".join(cells) + " |" for cells in _table(old, _SOURCES)}
    for family, source in sources.items():
        cells = (family, *(source.get(key, "") for key in ("source", "commit", "compiler")))
        lines[family] = "| " + " | ".join(cells) + " |"
    return [lines[family] for family in sorted(lines)]


def _rows_of_page(old: str, with_launch: bool) -> list[Checked]:
    _, _, section = old.partition(_SECTIONS[with_launch] + "\n")
    section = section.partition("\n## ")[0]
    return [
        Checked(cells[0], cells[1], cells[2], int(cells[3]), cells[4], cells[5], cells[7], float(cells[6]), with_launch)
        for cells in _table(section, _ROWS)
    ]


def _table(text: str, head: str) -> list[list[str]]:
    """Cells of the rows below a head of a Markdown table, as far as they follow each other."""
    _, found, below = text.partition(head + "\n")
    rows: list[list[str]] = []
    for line in below.split("\n")[1:] if found else []:
        if not line.startswith("|"):
            break
        cells = re.split(r"(?<!\\)\|", line.strip()[1:-1])
        rows.append([cell.strip().replace("\\|", "|") for cell in cells])
    return rows


def _argued(page: str) -> str:
    """What stands between the marks of the page as it is, which no run writes."""
    first, last = (page.find(mark) for mark in _ARGUED)
    return page[first : last + len(_ARGUED[1])] if 0 <= first < last else "\n".join(_ARGUED)


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
    short = text if len(text) <= _REASON_LENGTH else text[:_REASON_LENGTH].rstrip("…") + "…"
    return short.replace("|", "\\|").replace("\n", " ")
