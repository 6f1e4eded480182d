"""How is a grid of cells drawn as SVG: alone in a file, in a page, in a notebook?

One rectangle and one text a cell; every cell has what is known of it as a tooltip. Colours are classes; inside a page
they are the page's, and a drawing that stands alone brings them along, for light and dark. Nothing comes from elsewhere
and nothing is run. Checked by: tests/report/figures/test_layout_grid.py.
"""

from __future__ import annotations

from html import escape

from tilewright.report.figures.figure import KINDS
from tilewright.report.figures.layout_grid import LayoutGrid, shown_words
from tilewright.report.figures.text_width import text_width

_ROW = 22
_PADDING = 8
_STYLE = """<style>
.layout{--ink:#1b1f24;--quiet:#57606a;--k0:#9ecbff;--k1:#b7e0b0;--k2:#f5cf8f;--k3:#e3b5e8;--k4:#f3b0a8;--k5:#a8ded9;
--k6:#d0d4da;--k7:#e6dd9a;--page:#ffffff}
@media (prefers-color-scheme:dark){.layout{--ink:#e3e8ee;--quiet:#9aa5b1;--k0:#2f5f9e;--k1:#2f6b3a;--k2:#855f17;
--k3:#6d3f78;--k4:#873a33;--k5:#23686a;--k6:#444c55;--k7:#6b6420;--page:#101418}}
.layout text{font:11px system-ui,sans-serif;fill:var(--ink)}
.layout .tick{fill:var(--quiet)}
.layout .ground{fill:var(--page)}
.layout .k0{fill:var(--k0)}.layout .k1{fill:var(--k1)}.layout .k2{fill:var(--k2)}.layout .k3{fill:var(--k3)}
.layout .k4{fill:var(--k4)}.layout .k5{fill:var(--k5)}.layout .k6{fill:var(--k6)}.layout .k7{fill:var(--k7)}
</style>"""


def draw_grid(grid: LayoutGrid, *, alone: bool = False) -> str:
    """The grid as an `<svg>` element. alone: with its own colours and sizes, to stand in a file or a notebook."""
    labels = {each.label for row in grid.cells for each in row if each is not None}
    cell = _room(*labels, str(grid.first_column + max(0, grid.width - 1)))
    left = _room(grid.row_name, str(grid.first_row + len(grid.cells)))
    top = 2 * _ROW + (_ROW if alone else 0)
    below = [f"shown: {words}"] if (words := shown_words(grid)) else []
    below += [grid.caption] if alone and grid.caption else []
    texts = [grid.title, *below] if alone else below
    width = round(max([left + cell * grid.width, *(_room(text) for text in texts)]) + _PADDING)
    height = top + _ROW * (len(grid.cells) + len(below)) + _PADDING
    parts: list[str] = []
    if alone:
        parts += [_STYLE, f'<rect class="ground" width="{width}" height="{height}"/>', _text(4, 15, grid.title, "")]
    parts.append(_text(left + 4, top - _ROW - 6, grid.column_name, "tick"))
    parts.append(_text(4, top - 6, grid.row_name, "tick"))
    for place in range(grid.width):
        middle = left + cell * (place + 0.5)
        parts.append(_text(middle, top - 6, str(grid.first_column + place), "tick", "middle"))
    for place, row in enumerate(grid.cells):
        above = top + _ROW * place
        parts.append(_text(left - 6, above + 15, str(grid.first_row + place), "tick", "end"))
        for column, each in enumerate(row):
            if each is None:
                continue
            begin = left + cell * column
            tooltip = f"<title>{escape(each.detail)}</title>" if each.detail else ""
            mark = (
                f'<rect class="k{each.kind % KINDS}" x="{begin:.1f}" y="{above}" width="{cell - 1:.1f}" '
                f'height="{_ROW - 1}"/>'
            )
            parts.append(f"<g>{tooltip}{mark}{_text(begin + cell / 2, above + 15, each.label, '', 'middle')}</g>")
    for place, text in enumerate(below):
        parts.append(_text(4, top + _ROW * (len(grid.cells) + place) + 15, text, "tick"))
    label = escape(grid.title, quote=True)
    # Alone or wide, a drawing keeps its own size, so that its text stays legible.
    size = f' width="{width}" height="{height}"' + ("" if alone else f' style="width:{width}px;min-width:0"')
    space = ' xmlns="http://www.w3.org/2000/svg"' if alone else ""
    body = "".join(parts)
    return (
        f'<svg class="layout"{space}{size} viewBox="0 0 {width} {height}" role="img" aria-label="{label}">{body}</svg>'
    )


def _room(*texts: str) -> float:
    """Enough for each of the texts."""
    return max(map(text_width, texts)) + _PADDING


def _text(x: float, y: float, words: str, kind: str, anchor: str = "") -> str:
    role = f' class="{kind}"' if kind else ""
    place = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text{role} x="{x:.1f}" y="{y:g}"{place}>{escape(words)}</text>'
