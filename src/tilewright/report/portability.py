"""How is it shown for which targets programs compile? As a table, in full, and as JSON.

Checked by: tests/cli/commands/test_portability_command.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TargetRow:
    """blocked: why it does not compile, with the line, empty where it does; remedy: what to do then. decisions: of each
    kernel, in words. microseconds: of all of them; grounds: what that rests on."""

    target: str
    title: str
    blocked: str = ""
    remedy: str = ""
    decisions: tuple[tuple[str, ...], ...] = ()
    microseconds: float | None = None
    grounds: str = ""


@dataclass(frozen=True, slots=True)
class PortabilityReport:
    kernel: str
    shape: str
    rows: tuple[TargetRow, ...]


def portability_table(reports: Sequence[PortabilityReport]) -> Iterator[str]:
    """A line for each program, a column for each target; behind it what blocks programs."""
    targets = [row.target for row in reports[0].rows] if reports else []
    lines = [["program", *targets]]
    lines += [[f"{each.kernel} ({each.shape})", *map(_cell, each.rows)] for each in reports]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
    estimated = dict.fromkeys(row.target for each in reports for row in each.rows if row.grounds.startswith("estimate"))
    if estimated:
        yield f"times for {', '.join(estimated)} are estimates: no such device was measured"
    if len(reports) > 1:
        for each in reports:
            for row in each.rows:
                if row.blocked:
                    yield f"{each.kernel} on {row.target}: {row.blocked}"


def _cell(row: TargetRow) -> str:
    if row.blocked:
        return "refused"
    count = len(row.decisions)
    time = "" if row.microseconds is None else f", about {row.microseconds:.1f} us"
    return f"{count} kernel{'s' if count > 1 else ''}{time}"


def portability_lines(report: PortabilityReport) -> Iterator[str]:
    for row in report.rows:
        yield f"{row.target}: {'compiles' if not row.blocked else 'does not compile'}"
        if row.blocked:
            yield f"  {row.blocked}"
            if row.remedy:
                yield f"  help: {row.remedy}"
            continue
        for number, reasons in enumerate(row.decisions):
            if len(row.decisions) > 1:
                yield f"  kernel {number + 1} of {len(row.decisions)}"
            yield from (f"  {reason}" for reason in reasons)
        if row.microseconds is not None:
            yield f"  about {row.microseconds:.1f} us ({row.grounds})"


def portability_to_json(report: PortabilityReport) -> dict[str, object]:
    return {
        "kernel": report.kernel,
        "shape": report.shape,
        "targets": [
            {
                "target": row.target,
                "title": row.title,
                "compiles": not row.blocked,
                "blocked": row.blocked or None,
                "remedy": row.remedy or None,
                "decisions": [list(reasons) for reasons in row.decisions],
                "microseconds": row.microseconds,
                "grounds": row.grounds or None,
            }
            for row in report.rows
        ],
    }
