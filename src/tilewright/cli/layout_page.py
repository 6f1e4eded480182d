"""What stands on the page of `tilewright layout --format html`? What the words say, and the picture.

Checked by: tests/cli/test_layout_command.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright import __version__
from tilewright.cli.layout_lines import chain_lines
from tilewright.cli.layout_steps import Chain
from tilewright.report.html import render_page
from tilewright.report.page import Excerpt, Page, Section, SourceLine

if TYPE_CHECKING:
    from tilewright.legal.instruction_layout import InstructionLayout
    from tilewright.report.layout_grid import LayoutGrid


def layout_page(chain: Chain, operand: InstructionLayout | None, grid: LayoutGrid) -> str:
    """The page as one HTML document."""
    (_, title), *rest = chain_lines(chain, operand)
    words = Excerpt(title, tuple(SourceLine(None, line) for _, line in rest))
    section = Section("layout", (words, grid))
    return render_page(Page("Tilewright layout", title, (), (section,), f"Tilewright {__version__}"))
