"""How the command line prints: in colours where the terminal has them, lines as they are when piped."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text


def console() -> Console:
    """Standard output as it is now. Nothing is wrapped or highlighted: lines stay as they are when piped."""
    return Console(highlight=False, soft_wrap=True)


def say(words: str, style: str = "") -> None:
    """One line, taken literally."""
    console().print(Text(words, style=style))
