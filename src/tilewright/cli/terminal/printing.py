"""How the command line prints: in colours where the terminal has them, lines as they are when piped."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tilewright.report.text import printable

if TYPE_CHECKING:
    from rich.console import Console

    from tilewright.report.figures.layout_grid import LayoutGrid

STYLES = {"heading": "bold", "good": "green", "bad": "bold red", "doubt": "yellow", "quiet": "dim", "plain": ""}

_COLOURS = tuple(
    f"black on {colour}"
    for colour in (
        "sky_blue1",
        "dark_sea_green2",
        "navajo_white1",
        "plum2",
        "light_salmon1",
        "pale_turquoise1",
        "grey78",
        "khaki1",
    )
)
"""Of cells of kind 0, 1, ...: the page's colours, or the nearest that the terminal has."""


def console() -> Console:
    """Standard output as it is now. Nothing is wrapped or highlighted: lines stay as they are when piped. NO_COLOR
    leaves plain text, with no bold letters either."""
    from rich.console import Console

    if os.environ.get("NO_COLOR"):
        return Console(highlight=False, soft_wrap=True, color_system=None)
    return Console(highlight=False, soft_wrap=True)


def is_plain() -> bool:
    """Whether standard output takes text without colours: it is no terminal, and nobody forces colours on it."""
    forced = any(os.environ.get(name) for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"))
    return not forced and not sys.stdout.isatty()


def say(words: str, style: str = "") -> None:
    """One line, taken literally."""
    if is_plain():
        print(words)
        return
    from rich.text import Text

    console().print(Text(words, style=style))


def say_lines(lines: Iterable[tuple[str, str]]) -> None:
    """Lines with their tones; nothing of a source's control characters reaches the terminal."""
    for tone, line in lines:
        say(printable(line), STYLES[tone])


def say_grid(grid: LayoutGrid, rows: int = 64) -> None:
    """A picture of cells, as wide as the terminal, coloured where it has colours."""
    from rich.text import Text

    from tilewright.report.figures.layout_text import grid_lines

    target = console()
    for line in grid_lines(grid, target.width, rows):
        text = Text()
        for words, kind in line:
            text.append(words, _COLOURS[kind % len(_COLOURS)] if kind is not None else "dim")
        target.print(text)
    if grid.caption:
        say(grid.caption, "dim")
