"""How does a grid of cells look on a terminal? Columns of equal width, each cell with its kind for the colour.

What does not fit is cut, and said. Checked by: tests/report/figures/test_layout_grid.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.report.figures.layout_grid import LayoutGrid, shown_words, window

Segment = tuple[str, int | None]
"""Text, and the kind of the cell it is; None where it is none."""


def grid_lines(grid: LayoutGrid, columns: int = 110, rows: int = 64) -> Iterator[tuple[Segment, ...]]:
    """The picture, line by line. columns: characters of a line; rows: of cells at most."""
    cell = max([1, *(len(each.label) for row in grid.cells for each in row if each is not None)])
    cell = max(cell, len(str(grid.first_column + max(0, grid.width - 1))))
    margin = max(len(grid.row_name), len(str(grid.first_row + max(0, len(grid.cells) - 1))))
    shown = window(grid, rows, max(1, (columns - margin - 1) // (cell + 1)))
    numbers = "".join(f" {shown.first_column + place:>{cell}}" for place in range(shown.width))
    yield ((f"{'':>{margin}} {grid.column_name}", None),)
    yield ((f"{grid.row_name:<{margin}}{numbers}", None),)
    for place, row in enumerate(shown.cells):
        line: list[Segment] = [(f"{shown.first_row + place:>{margin}}", None)]
        for each in row:
            line.append((" ", None))
            line.append((f"{each.label:>{cell}}", each.kind) if each is not None else (f"{'.':>{cell}}", None))
        yield tuple(line)
    if not shown.is_whole:
        yield ((f"shown: {shown_words(shown)}", None),)
