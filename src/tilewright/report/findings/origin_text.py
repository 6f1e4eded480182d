"""How is the program's place of a finding said in words? Its line, and for inlined code the calls that lead there.

One function for each format's needs: `call_words` is a line, `origin_lines` are the lines of the text report.
Checked by: tests/report/findings/test_origin_text.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.base.diagnostic import Diagnostic, Repair, SourcePlace
from tilewright.base.span import Span


def call_words(stack: Sequence[SourcePlace]) -> str:
    """`load.cuh:12 (load), inlined at kernel.cu:88 (kernel)`; empty for no stack."""
    if not stack:
        return ""
    first, *callers = stack
    inlined = (f"{'inlined' if each.certain else 'probably inlined'} at {each.words}" for each in callers)
    return ", ".join((first.words, *inlined))


def place_words(origin: Span, stack: Sequence[SourcePlace]) -> str:
    """The origin with the function that its line is in, where the stack says so."""
    return next((each.words for each in stack if each.span == origin), str(origin))


def in_source_words(repair: Repair) -> list[str]:
    """What a repair of the text means in the program, a line for each edit."""
    return [f"in the source, {each.words}" for each in repair.in_source]


def origins(finding: Diagnostic) -> list[tuple[str, Span | None, tuple[SourcePlace, ...]]]:
    """What a report says of the program: words, the line if it is not the finding's own place, and its stack."""
    found: list[tuple[str, Span | None, tuple[SourcePlace, ...]]] = []
    if finding.origin is not None or finding.stack:
        found.append(("compiled from", finding.origin, finding.stack))
    if finding.other_origin is not None or finding.other_stack:
        found.append(("the other place compiled from", finding.other_origin, finding.other_stack))
    return found


def origin_lines(finding: Diagnostic, note: str, shown: Callable[[str], str]) -> list[str]:
    """Lines that say where in the program a finding stands. note: begins a note; shown: makes a text printable."""
    lines: list[str] = []
    indent = " " * len(note)
    for words, origin, stack in origins(finding):
        if origin is not None:
            lines.append(f"{note} {words} {shown(place_words(origin, stack))}")
            if origin.text.strip():
                lines.append(f"{indent}     {shown(origin.text.strip())}")
        if stack:
            # Where the report's place is the program's own, the calls are all that is left to say.
            lead = indent + "    " if origin is not None else f"{note} {words}"
            lines.append(f"{lead} {shown(call_words(stack))}")
    return lines
