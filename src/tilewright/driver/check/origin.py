"""Where in the program that a text was compiled from does a finding stand? What the text's `.loc` directives say.

A finding gets its origin beside its place in the text; `at_origin` makes the origin its place, for tools whose users
never see the text. The program's lines are read only there, from files that the caller's own compiler named.
Checked by: tests/driver/check/test_origin.py.
"""

from __future__ import annotations

import linecache
from dataclasses import replace

from tilewright.base.check_report import FileReport
from tilewright.base.diagnostic import Diagnostic
from tilewright.base.span import Span
from tilewright.frontends.ptx.ast import Function, Kernel, Module
from tilewright.frontends.ptx.source import source_of


def with_origin(finding: Diagnostic, module: Module, kernel: Kernel) -> Diagnostic:
    """The finding with the origin of its place; as it is where the text does not say."""
    origin = _origin(finding.primary, module, kernel)
    return finding if origin is None else replace(finding, origin=origin)


def _origin(span: Span | None, module: Module, kernel: Kernel) -> Span | None:
    if span is None:
        return None
    code = _code_at(span, module, kernel)
    found = source_of(module, code, span) if code is not None else None
    return Span(*found) if found is not None else None


def _code_at(span: Span, module: Module, kernel: Kernel) -> Kernel | Function | None:
    """The kernel, or the function of its module, whose body has the line."""
    for code in (kernel, *module.functions):
        if code.body and code.body[0].span.line <= span.line <= code.body[-1].span.line:
            return code
    return None


def at_origin(report: FileReport) -> FileReport:
    """The report with every finding at its origin, its place in the text in words."""
    kernels = tuple(
        replace(kernel, findings=tuple(_moved(finding) for finding in kernel.findings)) for kernel in report.kernels
    )
    return replace(report, kernels=kernels)


def _moved(finding: Diagnostic) -> Diagnostic:
    origin = finding.origin
    if origin is None:
        return finding
    line = linecache.getline(origin.file, origin.line).rstrip("\n")
    steps = (f"in PTX: {finding.primary}: {finding.primary.text.strip()}",) if finding.primary is not None else ()
    return replace(
        finding, primary=replace(origin, text=line), origin=None, interleaving=(*finding.interleaving, *steps)
    )
