"""What stands on the page of a check? A table of kernels, and for each its verdict, what decides it, then details.

What refutes comes first, with its source and timeline, or what would decide; then what a proof rests on; then reviews.
Of findings that say the same, the first is shown and the others are counted. Long folders stay readable: proven kernels
without findings are rows of the table only.
Checked by: tests/report/test_check_report.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

from tilewright.base.check_report import FileReport, KernelReport
from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.plural import counted
from tilewright.report.findings.beside_text import beside_words
from tilewright.report.findings.finding_groups import FindingGroup, grouped_findings, grouped_suppressed
from tilewright.report.findings.reasons import REASONS_ON_A_PAGE, shown_reasons
from tilewright.report.findings.rule_links import rule_address
from tilewright.report.page import (
    Badge,
    Block,
    Cell,
    Excerpt,
    FindingCard,
    Items,
    Link,
    Mark,
    Page,
    Paragraph,
    Section,
    Table,
    TimelineChart,
    Tone,
    Words,
    excerpt_around,
)

_TONES: dict[str, Tone] = {"proven": "good", "refuted": "bad", "unknown": "doubt"}
_LINES_SHOWN = 20


def check_page(files: Sequence[FileReport], footer: str) -> Page:
    """The page of one run of the check."""
    kernels = [kernel for file in files for kernel in file.kernels]
    failed = [file for file in files if file.error]
    badges = [
        Badge(f"{count} {word}", _TONES[word])
        for word in ("proven", "refuted", "unknown")
        if (count := sum(kernel.verdict == word for kernel in kernels))
    ]
    if failed:
        badges.append(Badge(f"{len(failed)} not checked", "bad"))
    sections: list[Section] = []
    shown: dict[int, str] = {}
    named = Counter(kernel.name for kernel in kernels)
    for file in files:
        if file.error:
            sections.append(_failed(file))
        for kernel in file.kernels:
            if not _worth_a_section(kernel, len(kernels)):
                continue
            anchor = shown[id(kernel)] = f"k{len(shown) + 1}"
            short = f"{kernel.name} ({_file_words(file, files)})" if named[kernel.name] > 1 else ""
            sections.append(replace(_kernel(kernel, file), anchor=anchor, short=short))
        if file.findings:
            cards = tuple(FindingCard(finding) for finding in file.findings)
            sections.append(Section(file.path, cards, "Findings of the file as a whole."))
        if file.notes:
            sections.append(Section(file.path, (Items(file.notes),), "Notes on the check."))
    if len(kernels) != 1:
        sections.insert(0, _overview(files, shown))
    subtitle = (
        f"{len(files)} file{'' if len(files) == 1 else 's'}, {len(kernels)} kernel{'' if len(kernels) == 1 else 's'}"
    )
    return Page("Tilewright check", subtitle, tuple(badges), tuple(sections), footer)


def _file_words(file: FileReport, files: Sequence[FileReport]) -> str:
    """The end of a file's path that no other file has."""
    parts = PurePath(file.path).parts
    others = [PurePath(each.path).parts for each in files if each is not file]
    for count in range(1, len(parts)):
        if all(each[-count:] != parts[-count:] for each in others):
            return str(PurePath(*parts[-count:]))
    return file.path


def _worth_a_section(kernel: KernelReport, kernels: int) -> bool:
    return kernels == 1 or kernel.verdict != "proven" or bool(kernel.findings) or bool(kernel.suppressed)


def _overview(files: Sequence[FileReport], shown: Mapping[int, str]) -> Section:
    """shown: anchors of the kernels that have a section, by identity: names may come twice."""
    rows: list[tuple[Cell, ...]] = []
    for file in files:
        if file.error:
            rows.append((file.path, "", Badge("not checked", "bad"), "", file.error))
        for kernel in file.kernels:
            groups = grouped_findings(kernel.findings)
            codes = Words(tuple(part for each in groups for part in _code_and_count(each, each is groups[0])))
            anchor = shown.get(id(kernel))
            name = Link(kernel.name, f"#{anchor}") if anchor is not None else kernel.name
            verdict = Badge(kernel.verdict_words, _TONES[kernel.verdict])
            rows.append((file.path, name, verdict, f"{kernel.seconds:.2f}", codes))
    table = Table(("file", "kernel", "verdict", "seconds", "findings"), tuple(rows), numeric=(3,))
    return Section("Kernels", (table,))


def _code_and_count(group: FindingGroup, first: bool) -> tuple[str | Link, ...]:
    code = group.first.code
    return ("" if first else ", ", Link(code, rule_address(code)), f"\u00a0x\u00a0{group.count}")


def _failed(file: FileReport) -> Section:
    place = f" at line {file.error_line}" if file.error_line is not None else ""
    blocks: list[Block] = [Paragraph(f"{file.error}{place}")]
    if file.remedy:
        blocks.append(Paragraph(file.remedy))
    blocks += [FindingCard(finding) for finding in file.error_findings]
    return Section(file.path, tuple(blocks), badge=Badge("not checked", "bad"))


def _kernel(kernel: KernelReport, file: FileReport) -> Section:
    blocks: list[Block] = []
    groups = grouped_findings(kernel.findings)
    for number, group in enumerate(group for group in groups if group.first.level is Level.ERROR):
        blocks += _group(group, file)
        if number == 0 and kernel.timeline is not None:
            blocks.append(_chart(kernel))
    blocks += _listed("What would decide", _reasons(kernel))
    blocks += _listed("Assuming", kernel.assumptions)
    blocks += _listed("Proven", kernel.claims)
    for group in groups:
        if group.first.level is not Level.ERROR:
            blocks += _group(group, file)
    if kernel.timeline is not None and not kernel.errors:
        blocks.append(_chart(kernel))
    blocks += _listed("Beside", tuple(beside_words(kernel)))
    set_aside = (
        f"{first.words} ({counted(group.count, 'finding')})" for first, group in grouped_suppressed(kernel.suppressed)
    )
    blocks += _listed("Set aside", tuple(set_aside))
    lead = f"{file.path}, {kernel.target}, {kernel.seconds:.2f} s" if kernel.target else file.path
    return Section(kernel.name, tuple(blocks), lead, Badge(kernel.verdict_words, _TONES[kernel.verdict]))


def _group(group: FindingGroup, file: FileReport) -> list[Block]:
    """The first finding of a group with its source, and where the others are."""
    blocks: list[Block] = [FindingCard(group.first)]
    excerpt = _excerpt(group.first, file)
    if excerpt is not None:
        blocks.append(excerpt)
    if group.count > 1:
        left = FindingGroup(group.findings[1:])
        lines = ", ".join(map(str, left.lines[:_LINES_SHOWN])) + (", ..." if len(left.lines) > _LINES_SHOWN else "")
        where = f", at lines {lines}" if len(left.lines) > 1 else f", at line {lines}" if left.lines else ""
        blocks.append(Paragraph(f"and {left.count} more {group.first.code}{where}"))
    return blocks


def _listed(title: str, lines: tuple[str, ...]) -> list[Block]:
    return [Paragraph(f"{title}:"), Items(lines)] if lines else []


def _reasons(kernel: KernelReport) -> tuple[str, ...]:
    lines, left = shown_reasons(kernel.reasons, REASONS_ON_A_PAGE)
    return (*lines, f"and {left} more reasons (--format json has them)") if left else lines


def _chart(kernel: KernelReport) -> TimelineChart:
    assert kernel.timeline is not None
    return TimelineChart(
        f"What the roles of {kernel.name} did",
        kernel.timeline,
        "In the order of the run that was followed; the axis counts events, not time."
        + (f" {kernel.timeline.omitted} events are not shown." if kernel.timeline.omitted else ""),
    )


def _excerpt(finding: Diagnostic, file: FileReport) -> Excerpt | None:
    """The lines around a finding's places, where those are in the file that was checked."""
    marks: dict[int, Mark] = {}
    count = file.text.count("\n") + 1
    for span in (finding.conflicts_with, finding.primary):
        if span is not None and span.line <= count and span.file in (file.path, "<stdin>"):
            marks[span.line] = "primary" if span is finding.primary else "conflict"
    return excerpt_around(file.path, file.text, marks) if marks and file.text else None
