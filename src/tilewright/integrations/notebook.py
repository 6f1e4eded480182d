"""In IPython and Jupyter, layouts draw themselves.

`import tilewright` registers the drawings where IPython has been loaded, by the types' names: nothing else is imported
until a layout is shown. Shapes with strides, linear layouts, hierarchies, piecewise maps and instructions' operands
come as SVG; a placement that was chosen (`legal.bank.swizzle_choice`) as a table in HTML. What is too large to draw
whole shows its corner, and what cannot be drawn, such as symbolic sizes, its text alone.

Not handled: a notebook that loads IPython after `tilewright` calls `register` itself, or says
`%load_ext tilewright.integrations.notebook`. Checked by tests/integrations/test_notebook.py.
"""

from __future__ import annotations

import sys
from html import escape
from typing import TYPE_CHECKING, Any

from tilewright.base.error import TilewrightError

if TYPE_CHECKING:
    from tilewright.driver.views.layout_picture import Drawable
    from tilewright.legal.bank.swizzle_choice import SwizzleChoice

_DRAWABLE = (
    ("tilewright.layout.layout", "Layout"),
    ("tilewright.layout.linear.maps", "LinearLayout"),
    ("tilewright.layout.linear.hierarchy", "Hierarchy"),
    ("tilewright.layout.pieces.piecewise", "Piecewise"),
    ("tilewright.legal.descriptor.instruction_layout", "InstructionLayout"),
)
_CHOICE = ("tilewright.legal.bank.swizzle_choice", "SwizzleChoice")
_ROWS, _COLUMNS = 32, 64
"""Cells that a notebook shows at most."""


def register(shell: Any) -> None:
    """Let an IPython shell draw layouts. Nothing is done for a shell without formatters."""
    formatters: Any = getattr(getattr(shell, "display_formatter", None), "formatters", None)
    if formatters is None:
        return
    for module, name in _DRAWABLE:
        formatters["image/svg+xml"].for_type_by_name(module, name, svg_of)
        formatters["text/plain"].for_type_by_name(module, name, write_text)
    formatters["text/html"].for_type_by_name(*_CHOICE, html_of_choice)


def register_if_running() -> None:
    """`register` for the shell that runs now, if one does."""
    get_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = get_shell() if get_shell is not None else None
    if shell is not None:
        register(shell)


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext tilewright.integrations.notebook` calls."""
    register(shell)


def svg_of(value: Drawable) -> str | None:
    """The drawing as SVG; None, so that the text is shown, where there is none."""
    from tilewright.driver.views.layout_picture import Window, corner, picture
    from tilewright.report.figures.layout_figure import draw_grid
    from tilewright.report.figures.layout_grid import window

    try:
        grid = picture(value, corner(Window(), _ROWS))
    except TilewrightError:
        return None
    return draw_grid(window(grid, _ROWS, _COLUMNS), alone=True)


def write_text(value: object, printer: Any, cycle: bool) -> None:
    """As the command line writes it, not as the constructor's arguments."""
    printer.text(str(value) if not cycle else "...")


def html_of_choice(choice: SwizzleChoice) -> str:
    """The best placement of each family as a table."""
    head = "".join(f"<th>{name}</th>" for name in ("placement", "wavefronts", "extra bytes"))
    rows: list[str] = []
    for judged in sorted(choice.by_family, key=lambda each: (each.wavefronts, each.placement.extra_bytes)):
        placement = judged.placement
        words = f"{placement.family}: {placement.name}"
        best = placement == choice.best.placement
        cells = (f"{words}{' (chosen)' if best else ''}", f"{judged.wavefronts}", f"{placement.extra_bytes}")
        rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    free = "no conflicts" if choice.conflict_free else f"{choice.ideal} without conflicts"
    caption = f"{choice.candidates} placements judged; {free}; minimal: {choice.proof}"
    return f"<table><caption>{escape(caption)}</caption><tr>{head}</tr>{''.join(rows)}</table>"
