"""What does a line of the program say, of which the text only names file and number?

A file that a text names is looked for as it is named where that is an absolute path; beside the text that names it; in
the working directory; below each root that the user gives, where leading folders of the name may be missing, because a
program that another machine compiled stands elsewhere here. A text may come from anywhere, so only files that are named
like programs are read. A file that is not at hand is no error: its line is empty.
Not handled: whether the file has changed since the text was compiled from it.
Checked by: tests/driver/check/sources/test_source_text.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

SUFFIXES = frozenset(
    {".c", ".cc", ".cpp", ".cu", ".cuh", ".cxx", ".h", ".hh", ".hpp", ".inc", ".inl", ".ipp", ".mlir", ".py", ".ttgir"}
)
_BYTES_MAX = 16 << 20


class SourceFiles:
    """The lines of programs, each file read once. text_path: of the text that names them; roots: further folders."""

    def __init__(self, text_path: str = "", roots: Sequence[str] = ()) -> None:
        folder = os.path.dirname(text_path)
        self._folders = tuple(dict.fromkeys((folder or ".", ".")))
        self._roots = tuple(roots)
        self._lines: dict[str, list[str]] = {}

    def line(self, file: str, number: int) -> str:
        """The text of a line, 1-based, without its end; empty where the file is not at hand or has no such line."""
        lines = self.lines(file)
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def lines(self, file: str) -> Sequence[str]:
        """All lines of a file, none where it is not at hand."""
        lines = self._lines.get(file)
        if lines is None:
            lines = self._lines[file] = self._read(file)
        return lines

    def _read(self, file: str) -> list[str]:
        if PurePath(file).suffix.lower() not in SUFFIXES:
            return []
        for path in self._candidates(file):
            try:
                if path.is_file() and path.stat().st_size <= _BYTES_MAX:
                    return path.read_text(encoding="utf-8", errors="replace").splitlines()
            except (OSError, ValueError):
                continue
        return []

    def _candidates(self, file: str) -> Iterator[Path]:
        path = Path(file)
        if path.is_absolute():
            yield path
        else:
            yield from (Path(folder) / path for folder in self._folders)
        parts = [part for part in path.parts if part not in (path.anchor, "..", ".")]
        for root in self._roots:
            yield from (Path(root, *parts[first:]) for first in range(len(parts)))
