"""How is a finding shown as plain text?

The form is that of a compiler's diagnostics: what is wrong, where, the line with the place underlined, the place it
conflicts with, the steps of a run that shows it, the rule's source, the repair. Long operand lists are cut, and control
characters of a source never reach the terminal. Colours are the caller's business.
Checked by: tests/report/test_text.py.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from tilewright.base.diagnostic import Diagnostic, Level, Repair
from tilewright.base.span import Span
from tilewright.report.findings.origin_text import in_source_words, origin_lines
from tilewright.report.operand_lists import cut_operands

_LINE_COLUMNS = 110
"""Columns of a source line that are shown; a longer one is cut around its place."""
_TAB_COLUMNS = 4
_LEVEL_WORDS = {Level.ERROR: "error", Level.REVIEW: "review"}


def render_finding(finding: Diagnostic) -> str:
    """One finding as lines of text, without a newline at the end."""
    spans = [span for span in (finding.primary, finding.conflicts_with) if span is not None]
    margin = max((len(str(span.line)) for span in spans), default=1)
    bar = " " * margin + " |"
    note = " " * margin + " ="
    lines = [f"{_LEVEL_WORDS[finding.level]}[{finding.code}]: {shown(finding.message)} ({finding.name})"]
    if finding.primary is not None:
        lines.append(f"{' ' * margin}--> {printable(str(finding.primary))}")
        lines.extend(_source_lines(finding.primary, margin, "^"))
    if finding.conflicts_with is not None:
        lines.append(f"{' ' * margin}::: against {printable(str(finding.conflicts_with))}")
        lines.extend(_source_lines(finding.conflicts_with, margin, "-"))
    if spans:
        lines.append(bar)
    lines.extend(origin_lines(finding, note, printable))
    if finding.interleaving:
        lines.append(f"{note} a run that shows it:")
        width = len(str(len(finding.interleaving)))
        for number, step in enumerate(finding.interleaving, start=1):
            lines.append(f"{' ' * margin}     {number:>{width}}. {shown(step)}")
    if finding.source:
        lines.append(f"{note} rule: {printable(finding.source)}")
    if finding.contested:
        lines.append(f"{note} contested: {printable(finding.contested)} (--isa chooses its side)")
    if finding.repair is not None:
        word = "repair" if finding.repair.edits else "help"
        lines.append(f"{note} {word}: {printable(repair_words(finding.repair))}")
        for span, replacement in finding.repair.edits:
            place = printable(str(span))
            new = replacement.splitlines()
            if new and new[0].strip() == span.text.strip():  # lines that are put after one that stays
                new, old = new[1:], None
            elif new and new[-1].strip() == span.text.strip():
                new, old = new[:-1], None
            else:
                old = span.text.strip()
            if old is not None:
                lines.append(f"{' ' * margin}     {place}: - {shown(old)}")
                place = " " * len(place) + " "
            else:
                place += ":"
            lines.extend(f"{' ' * margin}     {place} + {shown(line.strip())}" for line in new)
        lines.extend(f"{' ' * margin}     {printable(words)}" for words in in_source_words(finding.repair))
    return "\n".join(lines)


def render_findings(findings: Sequence[Diagnostic], *, limit: int | None = None) -> str:
    """Findings one after another; beyond `limit` they are counted, not shown."""
    shown = findings if limit is None else findings[:limit]
    parts = [render_finding(finding) for finding in shown]
    if len(shown) < len(findings):
        rest = len(findings) - len(shown)
        parts.append(f"and {rest} more finding{'s' if rest > 1 else ''}")
    return "\n\n".join(parts)


def repair_words(repair: Repair) -> str:
    """The repair in one line: what, at what cost, and whether the fixed input was checked again."""
    words = repair.title
    if repair.cost:
        words += f" (cost: {repair.cost})"
    if repair.rechecked:
        words += f" (checked again: {remaining_words(repair) or 'clean'})"
    return words


def shown(text: str) -> str:
    """`text` on one line, as `printable`, with long operand lists cut."""
    return cut_operands(printable(text))


def remaining_words(repair: Repair) -> str:
    """That errors remain after a repair, and how many; empty where none do."""
    if not repair.remaining:
        return ""
    others = "1 other remains" if repair.remaining == 1 else f"{repair.remaining} others remain"
    return f"fixes this finding; {others}"


def printable(text: str) -> str:
    """`text` on one line: control and format characters (escape sequences, bidirectional marks) as \\x.. or \\u...."""
    return "".join(
        character if character == "\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")
        else character.encode("unicode_escape", "surrogatepass").decode()
        for character in text
    )  # fmt: skip


def _source_lines(span: Span, margin: int, underline: str) -> list[str]:
    if not span.text.strip():
        return []
    raw = span.text.rstrip("\r\n")
    bare = raw.rstrip()
    first = len(raw) - len(raw.lstrip())
    # A column of 1 means the whole line; a place beyond the line's end is shown at its end.
    begin = max(first, min(span.column - 1, len(bare) - 1)) if span.column > 1 else first
    before = shown(bare[:begin]).expandtabs(_TAB_COLUMNS)
    marked = shown(bare[begin:]).replace("\t", " ")
    line, offset = _window(before, marked)
    length = max(1, min(len(marked), len(line) - offset))
    bar = " " * margin + " |"
    return [bar, f"{span.line:>{margin}} | {line}", f"{bar} {' ' * offset}{underline * length}"]


def _window(before: str, marked: str) -> tuple[str, int]:
    """The line cut to the columns that are shown, and where the mark begins in it."""
    line = before + marked
    offset = len(before)
    if len(line) <= _LINE_COLUMNS:
        return line, offset
    if offset + 20 > _LINE_COLUMNS:
        cut = offset - 20
        line, offset = "..." + line[cut + 3 :], 20
    if len(line) > _LINE_COLUMNS:
        line = line[: _LINE_COLUMNS - 3] + "..."
    return line, offset
