"""How is a check's report shown as plain text? Each kernel's verdict, what decides it, then details; at the end a sum.

The first line of a kernel names it and its verdict, so that `grep` finds what is not proven. What refutes stands in
full, the first finding of each group (`finding_groups`); reviews are one line for each group. What all proofs of a
report assume is said once. `View` asks for more, or for less.
Checked by: tests/report/test_check_report.py, tests/report/findings/test_check_text.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from tilewright.base.check_report import FileReport, KernelReport, SkippedFiles, all_findings
from tilewright.base.diagnostic import Level
from tilewright.base.plural import counted
from tilewright.base.span import Span
from tilewright.report.findings.beside_text import beside_words
from tilewright.report.findings.finding_groups import grouped_findings
from tilewright.report.findings.finding_lines import (
    DEFAULT_VIEW,
    StyledLine,
    Tone,
    View,
    brief_lines,
    finding_lines,
    group_lines,
    statistics_lines,
)
from tilewright.report.findings.reasons import REASONS_SHOWN, shown_reasons
from tilewright.report.text import printable, shown

_NUMBERS_SHOWN = 6
_DETAILS_APART = 10
"""Assumptions of the only kernel of a report stand on lines of their own, if there are no more lines below its verdict
than these."""
_RANGES_SHOWN = 3
_TONES: dict[str, Tone] = {"proven": "good", "refuted": "bad", "unknown": "doubt"}


def render_check(files: Sequence[FileReport], view: View = DEFAULT_VIEW, skipped: Sequence[SkippedFiles] = ()) -> str:
    """The report as text without colours. skipped: files of the folders that were not checked."""
    return "\n".join(line for line, _ in check_lines(files, view, skipped))


def check_lines(
    files: Sequence[FileReport], view: View = DEFAULT_VIEW, skipped: Sequence[SkippedFiles] = ()
) -> list[StyledLine]:
    """The report line by line, each with its tone."""
    if view.statistics:
        return [*statistics_lines(all_findings(files)), _end(files)]
    proven = [kernel for file in files for kernel in file.kernels if kernel.verdict == "proven"]
    common = _common_assumptions(proven) if not view.everything else ()
    alone = sum(len(file.kernels) for file in files) == 1
    lines: list[StyledLine] = []
    seen: dict[tuple[str, ...], str] = {}
    for file in files:
        lines += _file_lines(file, view, common, seen, alone)
    if view.quiet:
        return lines
    if common:
        lines.append((f"all {len(proven)} proofs assume {'; '.join(map(shown, common))}", "quiet"))
    lines.extend((_skipped_words(each), "quiet") for each in skipped)
    lines.append(_end(files))
    return lines


def launch_words(document: Mapping[str, object]) -> str:
    """What a launch file says of CTAs, threads and numbers, in a line."""
    words = [f"{name} {_extents(document.get(name))}" for name in ("grid", "block", "cluster")]
    params = document.get("params")
    names = cast("list[str]", document.get("names") or [])
    numbers: list[str] = []
    for index, param in enumerate(cast("list[dict[str, object]]", params) if isinstance(params, list) else []):
        if param.get("kind") in ("i32", "i64"):
            name = names[index] if index < len(names) else f"parameter {index}"
            numbers.append(f"{name} = {param.get('value')}")
    left = len(numbers) - _NUMBERS_SHOWN
    more = [f"{counted(left, 'more number')}"] if left > 0 else []
    return ", ".join((*words, *numbers[:_NUMBERS_SHOWN], *more))


def _extents(value: object) -> str:
    return "x".join(str(each) for each in cast("list[object]", value)) if isinstance(value, list) else "unknown"


# ---------------------------------------------------------------- files and kernels


def _file_lines(
    file: FileReport, view: View, common: Sequence[str], seen: dict[tuple[str, ...], str], alone: bool
) -> list[StyledLine]:
    """seen: the reasons of unknown kernels that were shown, with the kernel."""
    if file.error:
        place = str(Span(file.path, file.error_line, file.error_column or 1)) if file.error_line else file.path
        lines: list[StyledLine] = []
        lines.append((f"{printable(place)}: error: {shown(file.error)}", "bad"))
        lines += group_lines(file.error_findings, view)
        if file.remedy:
            lines.append((f"  help: {shown(file.remedy)}", "plain"))
        return lines
    lines = []
    for kernel in file.kernels:
        lines += _quiet_lines(kernel, file.path) if view.quiet else _kernel_lines(
            kernel, file.path, view, common, seen, alone
        )  # fmt: skip
    if not view.quiet:
        lines += group_lines(file.findings, view)
        lines.extend((f"{printable(file.path)}: note: {shown(note)}", "quiet") for note in file.notes)
    return lines


def _headline(kernel: KernelReport, path: str) -> StyledLine:
    where = f"{printable(path)}: {printable(kernel.name)}" + (f" ({printable(kernel.target)})" if kernel.target else "")
    return f"{where}: {printable(kernel.verdict_words)}{_explored(kernel)}", _TONES[kernel.verdict]


def _explored(kernel: KernelReport) -> str:
    """What a proof without a launch holds for, and how many ran; of a refutation, how often each rule was broken."""
    if kernel.verdict == "refuted":
        groups = grouped_findings(kernel.errors)
        return " by " + ", ".join(
            f"{group.first.code} ({group.count} times)" if group.count > 1 else group.first.code for group in groups
        )
    if kernel.verdict != "proven" or not (kernel.launches or kernel.ranges):
        return ""
    left = len(kernel.ranges) - _RANGES_SHOWN
    ranges = [*kernel.ranges[:_RANGES_SHOWN], *([counted(left, "more range")] if left > 0 else [])]
    launches = [f"{counted(kernel.launches, 'launch')} explored"] if kernel.launches else []
    return "; " + "; ".join((*([", ".join(map(printable, ranges))] if ranges else []), *launches))


def _quiet_lines(kernel: KernelReport, path: str) -> list[StyledLine]:
    if kernel.verdict == "proven" and not kernel.exceptions:
        return []
    lines = [_headline(kernel, path)]
    lines += brief_lines(kernel.errors)
    reasons, left = shown_reasons(kernel.reasons, 1)
    lines.extend((f"  not decided: {shown(reason)}", "plain") for reason in reasons[: 1 if left else None])
    return lines


def _kernel_lines(
    kernel: KernelReport,
    path: str,
    view: View,
    common: Sequence[str],
    seen: dict[tuple[str, ...], str],
    alone: bool,
) -> list[StyledLine]:
    """One kernel: verdict, what decides it (errors, reasons, assumptions), then reviews and what is set aside."""
    head, tone = _headline(kernel, path)
    lines: list[StyledLine] = []
    lines.append((f"{head} [{kernel.seconds:.2f} s]", tone))
    lines += group_lines(kernel.errors, view)
    if kernel.launch is not None:
        said = printable(launch_words(kernel.launch))
        lines.append((f"  shown by a launch with {said} (--write-launch FILE writes it)", "plain"))
    lines += _reason_lines(kernel, view, seen)
    lines.extend((f"  {shown(words)}", "plain") for words in beside_words(kernel))
    if view.everything:
        lines.extend((f"  {shown(claim)}", "plain") for claim in kernel.claims)
    reviews = [each for each in kernel.findings if each.level is not Level.ERROR]
    details = finding_lines(reviews, kernel.suppressed, view)
    set_aside = {each.assumption for each in kernel.suppressed}
    own = [each for each in kernel.assumptions if each not in common and each not in set_aside]
    if view.everything or (alone and len(own) + len(details) <= _DETAILS_APART):
        lines.extend((f"  assuming {shown(each)}", "quiet") for each in own)
    elif own:
        lines.append((f"  assuming {'; '.join(map(shown, own))}", "quiet"))
    return [*lines, *details]


def _reason_lines(kernel: KernelReport, view: View, seen: dict[tuple[str, ...], str]) -> list[StyledLine]:
    if not kernel.reasons:
        return []
    if not view.everything and (before := seen.setdefault(kernel.reasons, kernel.name)) != kernel.name:
        return [(f"  not decided, for the reasons of {printable(before)}", "plain")]
    reasons, left = shown_reasons(kernel.reasons, None if view.everything else REASONS_SHOWN)
    lines: list[StyledLine] = [(f"  not decided: {shown(reason)}", "plain") for reason in reasons]
    if left:
        lines.append((f"  and {counted(left, 'more reason')} (--all shows {'it' if left == 1 else 'them'})", "quiet"))
    return lines


def _common_assumptions(proven: Sequence[KernelReport]) -> tuple[str, ...]:
    """What every proof of a report assumes, where there are several."""
    if len(proven) < 2:
        return ()
    first, *others = proven
    return tuple(each for each in first.assumptions if all(each in other.assumptions for other in others))


# ---------------------------------------------------------------- the end


def _skipped_words(each: SkippedFiles) -> str:
    kinds = ", ".join(f"{count:,} {suffix}" for suffix, count in each.by_suffix)
    checked = f"{each.checked:,} {each.suffix} {'files' if each.checked != 1 else 'file'} checked"
    return f"{printable(each.folder)}: {checked}; skipped: {kinds} (name a file to check it)"


def _end(files: Sequence[FileReport]) -> StyledLine:
    return _sum(files), "heading"


def _sum(files: Sequence[FileReport]) -> str:
    kernels = [kernel for file in files for kernel in file.kernels]
    failed = sum(bool(file.error) for file in files)
    excepted = sum(bool(kernel.exceptions) for kernel in kernels)
    numbers = {
        "proven": sum(kernel.verdict == "proven" for kernel in kernels) - excepted,
        "proven except for what is set aside": excepted,
        "refuted": sum(kernel.verdict == "refuted" for kernel in kernels),
        "unknown": sum(kernel.verdict == "unknown" for kernel in kernels),
    }
    parts = [f"{count} {words}" for words, count in numbers.items() if count]
    if failed:
        parts.append(f"{counted(failed, 'file')} not checked")
    return f"{counted(len(kernels), 'kernel')} checked: {', '.join(parts) or 'none'}"
