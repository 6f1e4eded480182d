"""How are a few rows of a large table read without the others? A table file is cut at its headers.

A check asks for some forty of a thousand rows, and parsing them all took longer than running the kernel. A line of
these files that begins with `[` is a header, and a row's value never begins a line so. A section that is cut elsewhere
does not parse, or not to its header, which is an error here. So what is read is what TOML says, of an edited file too.

Not handled: keys before the first header, arrays of tables.
Checked by: tests/targets/test_sections.py, every section of every file against the file parsed at once.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tilewright.base.error import TilewrightError

_HEADER = re.compile(r"^\[(.*)\][ \t]*(?:#.*)?$", re.MULTILINE)
_COMMENTS = re.compile(r"(?:\s*(?:#.*)?(?:\n|\Z))*")


def table_text(name: str) -> str:
    """The text of a table of this package, such as `sm_90a`."""
    return (Path(__file__).parent / "data" / f"{name}.toml").read_text("utf-8")


class Sections(Mapping[str, dict[str, Any]]):
    """The sections of a table by header, without quotation marks around its last part; each is parsed when it is asked
    for. Raises TilewrightError, naming `file`, for what is not TOML."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self._texts: dict[str, str] = {}
        headers = list(_HEADER.finditer(text))
        ends = [header.start() for header in headers[1:]] + [len(text)]
        if _COMMENTS.fullmatch(text, 0, headers[0].start() if headers else len(text)) is None:
            raise TilewrightError(f"{file} is not TOML: {text[:40]!r} stands before the first header")
        for header, end in zip(headers, ends, strict=True):
            group, dot, name = header[1].partition(".")
            key = group + dot + name.strip('"')
            if key in self._texts:
                raise TilewrightError(f"{file} is not TOML: [{header[1]}] stands there twice")
            self._texts[key] = text[header.start() : end]

    def __getitem__(self, key: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = tomllib.loads(self._texts[key])
        except tomllib.TOMLDecodeError as error:
            raise TilewrightError(f"{self.file} is not TOML: [{key}]: {error}") from error
        for part in key.split(".", 1):
            if len(found) != 1 or not isinstance(found.get(part), dict):
                raise TilewrightError(f"{self.file}: [{key}] is no header of two parts")
            found = found[part]
        return found

    def __contains__(self, key: object) -> bool:
        return key in self._texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)
