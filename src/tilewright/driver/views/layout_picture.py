"""What does a layout look like as a grid of cells?

    a layout           its first part down, the others across; a cell says the value there
    a map to a tile    two outputs, such as row and column: a cell says which places hold that element
    a map to places    one output, such as an offset: a cell says it, the input "row" (or the last one) down

Colours: of values by their 16 bytes of a 128-byte line where the size of an element is known, else by the value; of
places by the lane. Only the window that is asked for is computed, except of maps to a tile, which are listed whole up
to 2^20 places.

Not handled: symbolic sizes, and values that are no numbers. Checked by tests/driver/views/test_layout_picture.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from tilewright.base.error import TilewrightError
from tilewright.layout.layout import Layout
from tilewright.layout.linear.hierarchy import Hierarchy
from tilewright.layout.linear.maps import LinearLayout
from tilewright.layout.pieces.piecewise import Piecewise
from tilewright.legal.descriptor.instruction_layout import InstructionLayout
from tilewright.report.figures.layout_grid import MOST_CELLS, Cell, LayoutGrid, too_large

_CHUNK_BYTES = 16
_KINDS = 8
_MOST_PLACES = 1 << 20
_MOST_LABELS = 2
Drawable = Layout | LinearLayout | Hierarchy | Piecewise | InstructionLayout


@dataclass(frozen=True, slots=True)
class Window:
    """Which rows and columns to draw, [begin, end) of each; None for all."""

    rows: tuple[int, int] | None = None
    columns: tuple[int, int] | None = None


WHOLE = Window()


def picture(value: Drawable, window: Window = WHOLE, element_bytes: int = 0) -> LayoutGrid:
    """The picture of a layout. element_bytes: of a layout's elements, 0 where unknown.

    Raises TilewrightError for symbolic sizes, windows outside, and pictures of more than `MOST_CELLS` cells.
    """
    match value:
        case Layout():
            return _of_layout(value, window, element_bytes)
        case InstructionLayout(name, operand, layout, _, _):
            return _of_map(layout, f"{name}, operand {operand}", window)
        case Piecewise():
            return _of_pieces(value, window, element_bytes)
        case _:
            return _of_map(value, "map", window)


def corner(window: Window, most: int) -> Window:
    """The window, cut to `most` rows and four times as many columns where it says nothing: what a terminal shows."""
    return Window(window.rows or (0, most), window.columns or (0, 4 * most))


def _of_layout(layout: Layout, window: Window, element_bytes: int) -> LayoutGrid:
    layout.constant_flat()
    sizes = [int(mode.size) for mode in layout.modes if isinstance(mode.size, int)]
    down = sizes[0] if len(sizes) > 1 else 1
    across = prod(sizes[1:]) if len(sizes) > 1 else prod(sizes)
    title = f"{layout}"

    def cell(row: int, column: int) -> Cell:
        value = layout.at(row + down * column)
        return Cell(str(value), _colour(value, element_bytes), _tell(row, column, value, element_bytes))

    names = ("i", "j") if len(sizes) > 1 else ("", "i")
    return _filled(title, names, (down, across), window, cell, _caption(element_bytes))


def _of_pieces(layout: Piecewise, window: Window, element_bytes: int) -> LayoutGrid:
    extents = layout.extents
    down = extents[0] if len(extents) > 1 else 1
    across = prod(extents[1:]) if len(extents) > 1 else prod(extents)

    def cell(row: int, column: int) -> Cell | None:
        image = layout(*layout.place(row + down * column))
        if image is None:
            return None
        label = ",".join(map(str, image))
        return Cell(label, _colour(image[0], element_bytes), f"({row}, {column}): {label}")

    title = f"{len(layout.pieces)} affine pieces on {extents}"
    return _filled(title, ("i", "j"), (down, across), window, cell, _caption(element_bytes))


def _of_map(layout: LinearLayout | Hierarchy, title: str, window: Window) -> LayoutGrid:
    if len(layout.output_sizes) > 1:
        return _of_tile(layout, title, window)
    inputs = layout.input_sizes
    (output,) = layout.output_sizes or ("",)
    down_name = "row" if "row" in inputs else next(reversed(inputs), "")
    across_names = [name for name in inputs if name != down_name]
    across_sizes = [inputs[name] for name in across_names]

    def cell(row: int, column: int) -> Cell:
        places = dict(zip(across_names, _digits(column, across_sizes), strict=True)) | {down_name: row}
        value = layout(**places)[output]
        where = ", ".join(f"{name} {places[name]}" for name in inputs)
        colour = value // _CHUNK_BYTES if output == "offset" else value
        return Cell(str(value), colour % _KINDS, f"{where}: {output} {value}")

    sizes = (inputs.get(down_name, 1), prod(across_sizes))
    caption = f"A cell is the {output}" + (", coloured by its 16 bytes of a line." if output == "offset" else ".")
    return _filled(title, (down_name, " ".join(across_names)), sizes, window, cell, caption)


def _of_tile(layout: LinearLayout | Hierarchy, title: str, window: Window) -> LayoutGrid:
    if layout.size > _MOST_PLACES:
        raise TilewrightError(
            f"{title}: {layout.size} places are too many to draw; at most {_MOST_PLACES}",
            remedy="draw a smaller layout",
        )
    inputs, outputs = layout.input_sizes, layout.output_sizes
    down_name, *across_names = outputs
    across_sizes = [outputs[name] for name in across_names]
    held: dict[tuple[int, int], list[tuple[int, ...]]] = {}
    for place, (row, column) in _listed(layout, across_sizes):
        held.setdefault((row, column), []).append(place)
    letters = _letters(list(inputs))
    order = list(reversed(range(len(letters))))
    between = " " if any(len(letter) > 1 for letter in letters) else ""
    lane = list(inputs).index("lane") if "lane" in inputs else 0

    def cell(row: int, column: int) -> Cell | None:
        places = held.get((row, column))
        if places is None:
            return None
        labels = [between.join(f"{letters[at]}{place[at]}" for at in order) for place in places[:_MOST_LABELS]]
        more = f"+{len(places) - _MOST_LABELS}" if len(places) > _MOST_LABELS else ""
        named = (", ".join(f"{name} {at}" for name, at in zip(inputs, place, strict=True)) for place in places)
        where = ", ".join(
            f"{name} {at}"
            for name, at in zip(outputs, (row, *_digits(column, across_sizes)), strict=True)
        )  # fmt: skip
        return Cell(" ".join(labels) + more, places[0][lane] % _KINDS, f"{where}: " + "; ".join(named))

    words = ", ".join(f"{letters[at]} {list(inputs)[at]}" for at in order)
    caption = f"A cell says which place holds the element: {words}."
    sizes = (outputs[down_name], prod(across_sizes))
    return _filled(title, (down_name, " ".join(across_names)), sizes, window, cell, caption)


def _listed(
    layout: LinearLayout | Hierarchy, across_sizes: Sequence[int]
) -> list[tuple[tuple[int, ...], tuple[int, int]]]:
    """Every place, by input, with its row and its column, which packs all outputs but the first."""
    import numpy as np

    from tilewright.layout.linear.hierarchy import coordinates as of_hierarchy
    from tilewright.layout.linear.maps import coordinates as of_linear

    found = of_hierarchy(layout) if isinstance(layout, Hierarchy) else of_linear(layout)
    rows, *others = found.values()
    columns = np.zeros_like(rows)
    step = 1
    for values, size in zip(others, across_sizes, strict=True):
        columns = columns + values * step
        step *= size
    places = np.indices(rows.shape).reshape(rows.ndim, -1).T.tolist()
    pairs = zip(rows.reshape(-1).tolist(), columns.reshape(-1).tolist(), strict=True)
    return [(tuple(place), pair) for place, pair in zip(places, pairs, strict=True)]


def _filled(
    title: str,
    names: tuple[str, str],
    sizes: tuple[int, int],
    window: Window,
    cell: Callable[[int, int], Cell | None],
    caption: str,
) -> LayoutGrid:
    first_row, end_row = _range(window.rows, sizes[0], names[0] or "row")
    first_column, end_column = _range(window.columns, sizes[1], names[1] or "column")
    if (end_row - first_row) * (end_column - first_column) > MOST_CELLS:
        raise too_large(title, end_row - first_row, end_column - first_column)
    cells = tuple(
        tuple(cell(row, column) for column in range(first_column, end_column)) for row in range(first_row, end_row)
    )
    return LayoutGrid(title, *names, cells, caption, first_row, first_column, *sizes)


def _range(given: tuple[int, int] | None, size: int, name: str) -> tuple[int, int]:
    if given is None:
        return 0, size
    begin, end = given[0], min(given[1], size)
    if not 0 <= begin < end:
        raise TilewrightError(
            f"nothing lies from {name} {given[0]} to {given[1] - 1}: there are {size}", remedy="write BEGIN:END"
        )
    return begin, end


def _digits(value: int, sizes: Sequence[int]) -> list[int]:
    found: list[int] = []
    for size in sizes:
        value, digit = divmod(value, size)
        found.append(digit)
    return found


def _letters(names: Sequence[str]) -> list[str]:
    """A letter for each name, or the whole name where two begin alike."""
    initials = [name[:1].upper() for name in names]
    return [f"{name} " if initials.count(letter) > 1 else letter for name, letter in zip(names, initials, strict=True)]


def _colour(value: int, element_bytes: int) -> int:
    return (value * element_bytes // _CHUNK_BYTES if element_bytes else value) % _KINDS


def _tell(row: int, column: int, value: int, element_bytes: int) -> str:
    bytes_words = f", byte {value * element_bytes}" if element_bytes else ""
    return f"({row}, {column}): {value}{bytes_words}"


def _caption(element_bytes: int) -> str:
    if element_bytes:
        return (
            f"A cell is the offset in elements of {element_bytes} bytes, coloured by its 16 bytes of a 128-byte line."
        )
    return "A cell is the offset, coloured modulo 8."
