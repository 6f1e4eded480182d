"""What do the pages of the documentation hold? Fenced blocks, links, and what each block is marked with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for folder in ("", "docs", "docs/tutorials", "docs/how-to", "docs/reference", "docs/bugs", "examples")
    for page in (ROOT / folder).glob("*.md")
)

_FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\((?!https?://|#)([^)#\s]+)(?:#[^)]*)?\)")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. line: 1-based, of its first line of text; words: what stands after the backticks."""

    page: str
    line: int
    words: tuple[str, ...]
    body: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def source(self) -> str:
        """The output that the block says it is from, or ""."""
        return next((word.removeprefix("from=") for word in self.words if word.startswith("from=")), "")


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks_of(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = text_of(page)
    return [
        Block(page, text.count("\n", 0, match.start("body")) + 1, tuple(match["info"].split()), match["body"])
        for match in _FENCE.finditer(text)
    ]


def all_blocks() -> list[Block]:
    return [block for page in PAGES for block in blocks_of(page)]


def links_of(page: str) -> list[str]:
    """Targets of links to files of this repository."""
    return _LINK.findall(_FENCE.sub("", text_of(page)))
