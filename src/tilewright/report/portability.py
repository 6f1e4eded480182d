"""How is it shown for which targets a program compiles? As text and as JSON.

Checked by: tests/cli/test_portability_command.py.
"""

from __future__ import annotations

from collections.abc import Iterator
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


def portability_lines(report: PortabilityReport) -> Iterator[str]:
    yield f"{report.kernel} ({report.shape})"
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
