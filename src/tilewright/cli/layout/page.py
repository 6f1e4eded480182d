"""What stands on the pages of `tilewright layout` and `tilewright banks`? What the words say, and the pictures.

Checked by: tests/cli/commands/test_layout_command.py, tests/cli/commands/test_banks_command.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright import __version__
from tilewright.cli.layout.lines import Line
from tilewright.report.figures.layout_grid import LayoutGrid
from tilewright.report.html import render_page
from tilewright.report.page import Excerpt, Page, Section, SourceLine


def lines_page(title: str, lines: Sequence[Line], grids: Sequence[LayoutGrid]) -> str:
    """The page as one HTML document. lines: the first names what it is about."""
    (_, subtitle), *rest = lines
    words = Excerpt(subtitle, tuple(SourceLine(None, line) for _, line in rest))
    section = Section("Result", (words, *grids))
    return render_page(Page(title, subtitle, (), (section,), f"Tilewright {__version__}"))
