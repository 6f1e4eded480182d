"""How does a page become one HTML file that needs nothing else?

The style stands in `style.css` and is written into the file; there are no scripts, and nothing is loaded from
elsewhere: codes link to the pages of their rules, and that is all. Every text is escaped. Light and dark follow the
reader's system; printing works. Checked by: tests/report/test_html.py, which parses the page and looks for resources
from elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from importlib import resources

from tilewright.base.diagnostic import Diagnostic, Repair, SourcePlace
from tilewright.base.span import Span
from tilewright.report.figures.figure import LaneChart, MemoryMap, draw
from tilewright.report.figures.layout_figure import draw_grid
from tilewright.report.figures.layout_grid import LayoutGrid
from tilewright.report.figures.timeline_figure import draw_timeline
from tilewright.report.findings.origin_text import call_words, in_source_words, origins
from tilewright.report.findings.rule_links import rule_address
from tilewright.report.operand_lists import cut_operands
from tilewright.report.page import (
    Badge,
    Block,
    Cell,
    Column,
    Excerpt,
    Facts,
    FindingCard,
    Folded,
    Items,
    Link,
    Page,
    Paragraph,
    RooflineChart,
    Section,
    SideBySide,
    SourceLine,
    Table,
    TimelineChart,
    Words,
)
from tilewright.report.text import repair_words


def render_page(page: Page) -> str:
    """The page as a whole HTML document."""
    style = resources.files("tilewright.report").joinpath("style.css").read_text(encoding="utf-8")
    badges = "".join(_badge(badge) for badge in page.badges)
    sections = "".join(_section(section, number) for number, section in enumerate(page.sections, start=1))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(page.title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f"<header><h1>{escape(page.title)}</h1><p>{escape(page.subtitle)}</p><p>{badges}</p>{_navigation(page)}</header>\n"
        f"<main>\n{sections}</main>\n<footer>{escape(page.footer)}</footer>\n</body>\n</html>\n"
    )


def _navigation(page: Page) -> str:
    """Links to the sections; none where there is one alone, folded where they would fill the screen."""
    links = "".join(
        f'<a href="#{escape(_anchor(section, number))}">{escape(section.short or section.title)}</a>'
        for number, section in enumerate(page.sections, start=1)
    )
    if len(page.sections) < 2:
        return "<nav></nav>"
    if len(page.sections) <= _LINKS_OPEN:
        return f"<nav>{links}</nav>"
    return f'<details class="contents"><summary>{len(page.sections)} sections</summary><nav>{links}</nav></details>'


_LINKS_OPEN = 12


def _section(section: Section, number: int) -> str:
    badge = f" {_badge(section.badge)}" if section.badge is not None else ""
    lead = f'<p class="lead">{escape(section.lead)}</p>' if section.lead else ""
    blocks = "".join(_block(block) for block in section.blocks)
    anchor = escape(_anchor(section, number))
    return f'<section id="{anchor}"><h2>{escape(section.title)}{badge}</h2>{lead}{blocks}</section>\n'


def _anchor(section: Section, number: int) -> str:
    return section.anchor or f"s{number}"


def _cell(cell: Cell) -> str:
    match cell:
        case Badge():
            return _badge(cell)
        case Link(text, address):
            return f'<a href="{escape(address)}">{escape(text)}</a>'
        case Words(parts):
            return "".join(map(_cell, parts))
        case str():
            return escape(cell)


def _badge(badge: Badge) -> str:
    return f'<span class="badge {badge.tone}">{escape(badge.text)}</span>'


def _block(block: Block) -> str:
    match block:
        case Paragraph(text):
            return f"<p>{escape(text)}</p>"
        case Facts(rows):
            body = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in rows)
            return f"<dl>{body}</dl>"
        case Table():
            return _table(block)
        case Items(items):
            return "<ul>" + "".join(f"<li>{escape(cut_operands(item))}</li>" for item in items) + "</ul>"
        case Excerpt():
            return _excerpt(block)
        case FindingCard(finding):
            return _finding(finding)
        case Folded(title, text):
            return f"<details><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>"
        case SideBySide(columns):
            return '<div class="columns">' + "".join(_column(column) for column in columns) + "</div>"
        case TimelineChart(title, timeline, caption):
            return _figure(draw_timeline(timeline, title), title, caption)
        case RooflineChart(title, svg, caption):
            return _figure(svg, title, caption)
        case LayoutGrid():
            return _figure(draw_grid(block), block.title, block.caption)
        case MemoryMap() | LaneChart():
            return _figure(draw(block), block.title, block.caption)


def _figure(drawing: str, title: str, caption: str) -> str:
    """A drawing that scrolls inside its frame where the page is narrower; the caption stays."""
    words = f"<b>{escape(title)}.</b>" + (f" {escape(caption)}" if caption else "")
    name = escape(title, quote=True)
    frame = f'<div class="frame" tabindex="0" role="region" aria-label="{name}">{drawing}</div>'
    return f"<figure>{frame}<figcaption>{words}</figcaption></figure>"


def _table(table: Table) -> str:
    def row(cells: tuple[Cell, ...], tag: str) -> str:
        classes = [' class="number"' if index in table.numeric else "" for index in range(len(cells))]
        body = (f"<{tag}{kind}>{_cell(cell)}</{tag}>" for kind, cell in zip(classes, cells, strict=True))
        return f"<tr>{''.join(body)}</tr>"

    body = "".join(row(cells, "td") for cells in table.rows)
    return f'<div class="wide"><table><thead>{row(table.header, "th")}</thead><tbody>{body}</tbody></table></div>'


def _excerpt(excerpt: Excerpt) -> str:
    parts: list[str] = []
    previous: int | None = None
    numbered = any(line.number is not None or line.mark for line in excerpt.lines)
    for line in excerpt.lines:
        if line.number is not None and previous is not None and line.number > previous + 1:
            parts.append('<span class="gap">&#8942;</span>')
        parts.append(_source_line(line, numbered=numbered))
        previous = line.number if line.number is not None else previous
    kind = "code" if numbered else "code text"
    return f'<div class="{kind}"><div class="name">{escape(excerpt.title)}</div><pre>{"".join(parts)}</pre></div>'


_SIGNS = {"": " ", "primary": ">", "conflict": "*", "removed": "-", "added": "+"}


def _source_line(line: SourceLine, *, numbered: bool) -> str:
    number = "" if line.number is None else str(line.number)
    kind = f" {line.mark}" if line.mark else ""
    text = escape(cut_operands(line.text.expandtabs(4)))
    if not numbered:
        return f'<span class="line">{_LEADING_CODE.sub(_linked_code, text)}\n</span>'
    return f'<span class="line{kind}"><i>{number:>5} {escape(_SIGNS[line.mark])}</i> {text}\n</span>'


_LEADING_CODE = re.compile(r"^\s*([A-Z]{2}\d{3})(?= )")


def _linked_code(found: re.Match[str]) -> str:
    """A code that a line of a verb's text begins with, as a link to its page."""
    return found[0].replace(found[1], f'<a href="{escape(rule_address(found[1]))}">{found[1]}</a>')


def _finding(finding: Diagnostic) -> str:
    code = f'<a href="{escape(rule_address(finding.code))}">{escape(finding.code)}</a>'
    rule = f"<b>{code}</b> <code>{escape(finding.name)}</code>"
    head = f"<p>{rule} {escape(cut_operands(finding.message))}</p>"
    places = "".join(
        _place(word, span)
        for word, span in (
            ("at", finding.primary),
            ("against", finding.conflicts_with),
        )
        if span
    )
    places += "".join(_origin(*each) for each in origins(finding))
    steps = "".join(f"<li>{escape(cut_operands(step))}</li>" for step in finding.interleaving)
    run = f"<p>A run that shows it:</p><ol>{steps}</ol>" if steps else ""
    source = f"<p><b>Rule:</b> {escape(finding.source)}</p>" if finding.source else ""
    source += f"<p><b>Contested:</b> {escape(finding.contested)}</p>" if finding.contested else ""
    repair = _repair(finding.repair) if finding.repair is not None else ""
    return f'<div class="finding {finding.level.value}">{head}{places}{run}{source}{repair}</div>'


def _repair(repair: Repair) -> str:
    lines: list[SourceLine] = []
    for span, replacement in repair.edits:
        new = replacement.splitlines()
        stays = [line for line in new[:1] + new[-1:] if line.strip() == span.text.strip()]
        if not stays:
            lines.append(SourceLine(span.line, span.text, "removed"))
        for line in new:
            kept = bool(stays) and line == stays[0]
            lines.append(SourceLine(span.line if kept else None, line, "" if kept else "added"))
    edits = _excerpt(Excerpt("the edit", tuple(lines))) if lines else ""
    word = "Repair" if repair.edits else "Help"
    edits += "".join(f'<p class="place">{escape(words)}</p>' for words in in_source_words(repair))
    return f"<p><b>{word}:</b> {escape(repair_words(repair))}</p>{edits}"


def _place(word: str, span: Span) -> str:
    text = cut_operands(span.text.strip())
    code = f"<code>{escape(text)}</code>" if text else ""
    return f'<p class="place">{word} {escape(str(span))} {code}</p>'


def _origin(words: str, origin: Span | None, stack: Sequence[SourcePlace]) -> str:
    place = _place(words, origin) if origin is not None else ""
    lead = "" if origin is not None else f"{words} "
    return place + (f'<p class="place">{escape(lead + call_words(stack))}</p>' if stack else "")


def _column(column: Column) -> str:
    blocks = "".join(_block(block) for block in column.blocks)
    return f"<div><h3>{escape(column.title)} {_badge(column.badge)}</h3>{blocks}</div>"
