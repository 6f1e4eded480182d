"""What is a picture of a layout? A grid of labelled cells with names for its rows, columns and colours.

Plain values: whoever has a layout makes a grid of it; `layout_text` shows it on a terminal, `layout_figure` as SVG.
Checked by: tests/report/figures/test_layout_grid.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.base.error import TilewrightError

MOST_CELLS = 1 << 15
"""Cells of a picture; what is larger is cut to a window first (`window`)."""


@dataclass(frozen=True, slots=True)
class Cell:
    """label: what stands in the cell; kind: its colour, 0 to 7; detail: all that is known of it, as a tooltip."""

    label: str
    kind: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class LayoutGrid:
    """title: what is drawn; row_name, column_name: what rows and columns count; cells: by row, None where there is
    nothing; first_row, first_column: numbers of the first; rows, columns: of the whole, of which a part may be shown;
    caption: one sentence on what labels and colours mean.

    Raises TilewrightError for rows of different lengths, or more than `MOST_CELLS`.
    """

    title: str
    row_name: str
    column_name: str
    cells: tuple[tuple[Cell | None, ...], ...]
    caption: str = ""
    first_row: int = 0
    first_column: int = 0
    rows: int = 0
    columns: int = 0

    def __post_init__(self) -> None:
        width = len(self.cells[0]) if self.cells else 0
        if any(len(row) != width for row in self.cells):
            raise TilewrightError(f"{self.title}: rows of different lengths")
        if width * len(self.cells) > MOST_CELLS:
            raise too_large(self.title, len(self.cells), width)
        if not self.rows:
            object.__setattr__(self, "rows", self.first_row + len(self.cells))
        if not self.columns:
            object.__setattr__(self, "columns", self.first_column + width)

    @property
    def width(self) -> int:
        """Columns that are shown."""
        return len(self.cells[0]) if self.cells else 0

    @property
    def is_whole(self) -> bool:
        """Whether everything is shown."""
        return len(self.cells) == self.rows and self.width == self.columns


def window(grid: LayoutGrid, most_rows: int, most_columns: int) -> LayoutGrid:
    """The upper left corner of the grid, at most that large."""
    if len(grid.cells) <= most_rows and grid.width <= most_columns:
        return grid
    cells = tuple(row[:most_columns] for row in grid.cells[:most_rows])
    return LayoutGrid(
        grid.title, grid.row_name, grid.column_name, cells, grid.caption, grid.first_row, grid.first_column,
        grid.rows, grid.columns,
    )  # fmt: skip


def shown_words(grid: LayoutGrid) -> str:
    """Which part of the whole is shown; empty where all is."""
    if grid.is_whole:
        return ""
    return (
        f"{grid.row_name} {_span(grid.first_row, len(grid.cells))} of {grid.rows}, "
        f"{grid.column_name} {_span(grid.first_column, grid.width)} of {grid.columns}"
    )


def too_large(title: str, rows: int, columns: int) -> TilewrightError:
    """The error for a picture of so many cells."""
    return TilewrightError(
        f"{title}: a picture of {rows} x {columns} cells; at most {MOST_CELLS} are drawn",
        remedy="draw a part of it: --rows 0:64 --columns 0:64",
    )


def _span(first: int, count: int) -> str:
    return str(first) if count == 1 else f"{first} to {first + count - 1}"
