"""What stands on the page of `tilewright tensormap --format html`? The report of each map, a section for each.

Checked by: tests/cli/test_tensormap_report.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright import __version__
from tilewright.cli.tensormap.text import Line
from tilewright.report.html import render_page
from tilewright.report.page import Badge, Excerpt, Page, Section, SourceLine, Tone

_BADGES: dict[str, Tone] = {"good": "good", "bad": "bad", "doubt": "doubt"}


def tensormap_page(reports: Sequence[Sequence[Line]]) -> str:
    """The page as one HTML document. reports: the lines of each map, the map and the verdict first."""
    sections = tuple(_section(number, report) for number, report in enumerate(reports))
    badges = tuple(section.badge for section in sections if section.badge is not None)
    subtitle = f"{len(reports)} map{'' if len(reports) == 1 else 's'}"
    return render_page(Page("Tilewright tensormap", subtitle, badges, sections, f"Tilewright {__version__}"))


def _section(number: int, report: Sequence[Line]) -> Section:
    (_, words), *rest = report
    verdict = next((line for line in rest if line[0] in _BADGES and not line[1].lstrip().startswith("=")), rest[0])
    shown = tuple(SourceLine(None, text.removeprefix("  ")) for tone, text in rest if (tone, text) != verdict)
    badge = Badge(verdict[1].strip(), _BADGES.get(verdict[0], "plain"))
    return Section(f"map {number}", (Excerpt(words, shown),), badge=badge)
