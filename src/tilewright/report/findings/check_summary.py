"""How does a check show itself in a notebook? A table of kernels and verdicts, with the text report folded below.

A fragment of HTML without styles or scripts: notebooks bring their own. Every text is escaped.
Checked by: tests/driver/check/test_public.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tilewright.base.check_report import FileReport, KernelReport
from tilewright.report.findings.check_text import render_check

_ROWS_MOST = 50


def check_summary(files: Sequence[FileReport]) -> str:
    """The fragment for the reports of one check."""
    rows = [
        (kernel.name, f"{kernel.verdict} for {kernel.scope}" if kernel.scope else kernel.verdict, _decides(kernel))
        for file in files
        for kernel in file.kernels
    ]
    rows += [(file.path, "not checked", file.error) for file in files if file.error]
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows[:_ROWS_MOST])
    if len(rows) > _ROWS_MOST:
        body += f"<tr><td>and {len(rows) - _ROWS_MOST} more</td><td></td><td></td></tr>"
    head = "".join(f"<th>{name}</th>" for name in ("kernel", "verdict", "what decides it"))
    report = f"<details><summary>report</summary><pre>{escape(render_check(files))}</pre></details>"
    return f"<table><tr>{head}</tr>{body}</table>{report}"


def _decides(kernel: KernelReport) -> str:
    """The first error of a refuted kernel, the first reason of an unknown one."""
    for finding in kernel.errors[:1]:
        return f"{finding.code} {finding.message}"
    return kernel.reasons[0] if kernel.reasons else ""
