"""Grids of cells: what is shown of them, as text and as SVG, and that nothing in them is markup."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.base.error import TilewrightError
from tilewright.report.figures.layout_figure import draw_grid
from tilewright.report.figures.layout_grid import MOST_CELLS, Cell, LayoutGrid, shown_words, window
from tilewright.report.figures.layout_text import grid_lines
from tilewright.report.html import render_page
from tilewright.report.page import Page, Section


def grid(rows: int, columns: int) -> LayoutGrid:
    cells = tuple(
        tuple(Cell(f"{row}.{column}", column, f"at {row}") for column in range(columns)) for row in range(rows)
    )
    return LayoutGrid("a title", "row", "column", cells, "a caption")


def text_of(shown: LayoutGrid, columns: int = 110, rows: int = 64) -> list[str]:
    return ["".join(words for words, _ in line) for line in grid_lines(shown, columns, rows)]


def test_a_grid_as_text() -> None:
    assert text_of(grid(2, 3)) == ["    column", "row   0   1   2", "  0 0.0 0.1 0.2", "  1 1.0 1.1 1.2"]


def test_cells_keep_their_kinds_and_gaps_are_dots() -> None:
    lines = list(grid_lines(LayoutGrid("t", "i", "j", ((Cell("7", 3), None),))))
    assert lines[2] == (("0", None), (" ", None), ("7", 3), (" ", None), (".", None))


def test_what_does_not_fit_is_cut_and_said() -> None:
    lines = text_of(grid(5, 9), columns=20, rows=2)
    assert lines[1:] == ["row   0   1   2   3", "  0 0.0 0.1 0.2 0.3", "  1 1.0 1.1 1.2 1.3",
                         "shown: row 0 to 1 of 5, column 0 to 3 of 9"]  # fmt: skip
    assert max(map(len, lines[:-1])) <= 20


def test_a_terminal_of_no_width_shows_one_column() -> None:
    assert text_of(grid(1, 3), columns=1)[1] == "row   0"


def test_a_window_remembers_the_whole() -> None:
    part = window(grid(5, 4), 2, 3)
    assert (len(part.cells), part.width, part.rows, part.columns) == (2, 3, 5, 4) and not part.is_whole
    assert shown_words(grid(5, 4)) == "" and shown_words(window(grid(1, 4), 1, 1)) == "row 0 of 1, column 0 of 4"


def test_rows_of_one_length_and_no_more_cells_than_are_drawn() -> None:
    with pytest.raises(TilewrightError, match="different lengths"):
        LayoutGrid("t", "i", "j", ((Cell("1", 0),), ()))
    row = (Cell("1", 0),) * 256
    with pytest.raises(TilewrightError, match=f"at most {MOST_CELLS}"):
        LayoutGrid("t", "i", "j", (row,) * (MOST_CELLS // 256 + 1))


def test_a_drawing_alone_is_svg_that_needs_nothing_else() -> None:
    text = draw_grid(window(grid(3, 4), 2, 4), alone=True)
    drawn = ET.fromstring(text)
    name = "{http://www.w3.org/2000/svg}"
    assert drawn.tag == f"{name}svg" and len(drawn.findall(f".//{name}g")) == 8
    words = [each.text for each in drawn.iter(f"{name}text")]
    assert {"a title", "a caption", "1.3", "shown: row 0 to 1 of 3, column 0 to 3 of 4"} <= set(words)
    assert [each.text for each in drawn.iter(f"{name}title")][:2] == ["at 0", "at 0"]
    assert "href" not in text and "url(" not in text and "<script" not in text


def test_a_drawing_in_a_page_takes_the_page_s_colours() -> None:
    page = render_page(Page("t", "s", (), (Section("one", (grid(1, 2),)),)))
    assert 'class="k1"' in page and "<figcaption><b>a title.</b> a caption</figcaption>" in page
    assert page.count("<style>") == 1


@given(st.text(max_size=20), st.text(max_size=20))
def test_every_text_is_text(label: str, detail: str) -> None:
    drawn = draw_grid(LayoutGrid("<b>", "i&", "j'", ((Cell(f"<{label}>", 1, f'"{detail}<'),),)), alone=True)
    assert "<b>" not in drawn and "&lt;b&gt;" in drawn and f"<{label}>" not in drawn.replace("<g>", "")
