"""Which line of the program does a line of MLIR come from? What its `loc(...)` says.

A location is a place in a file, a name around one, a call (`callsite(inner at outer)`), several that were fused, of
which the first is taken, or an alias that the module defines. Only an operation that ends on its line is asked: one
with a region has its location behind the region. Source: MLIR, Builtin dialect, location attributes.
Not handled: names of inlined functions, which MLIR does not give. Checked by: tests/frontends/test_mlir_source.py.
"""

from __future__ import annotations

import re

from tilewright.base.diagnostic import SourcePlace
from tilewright.base.span import Span

_ALIAS = re.compile(r"^(#[\w.$-]+) = loc\((.*)\)\s*$", re.MULTILINE)
_PLACE = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)(?: to .*)?$')
_NAMED = re.compile(r'"(?:[^"\\]|\\.)*"\((.*)\)$', re.DOTALL)
_CALL = re.compile(r"callsite\((.*)\)$", re.DOTALL)
_FUSED = re.compile(r"fused(?:<.*?>)?\[(.*)\]$", re.DOTALL)
_BEGINS = " loc("
_MOST_CALLS = 64
"""Of a stack; and the depth to which locations are nested."""


def source_places(text: str) -> dict[int, tuple[SourcePlace, ...]]:
    """By line of the text, 1-based: the program's lines, the innermost function's first. Lines that do not say are left
    out."""
    if "loc(" not in text:
        return {}
    aliases = _Aliases({name: location for name, location in _ALIAS.findall(text)})
    found: dict[int, tuple[SourcePlace, ...]] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.rstrip()
        at = line.rfind(_BEGINS)
        if at < 0 or line.startswith("#") or not line.endswith(")"):
            continue
        places = aliases.places(line[at + len(_BEGINS) : -1])
        if places:
            found[number] = places
    return found


class _Aliases:
    """The module's aliases; what each stands for is found once, and nothing while it is being found."""

    def __init__(self, texts: dict[str, str]) -> None:
        self._texts = texts
        self._known: dict[str, tuple[SourcePlace, ...]] = {}

    def places(self, location: str, depth: int = 0) -> tuple[SourcePlace, ...]:
        location = location.strip()
        if depth > _MOST_CALLS:
            return ()
        if location.startswith("#"):
            if location not in self._known:
                self._known[location] = ()
                self._known[location] = self.places(self._texts.get(location, ""), depth + 1)
            return self._known[location]
        if (place := _PLACE.match(location)) is not None:
            line = int(place[2])
            return (SourcePlace(Span(place[1], line, max(1, int(place[3])))),) if line and place[1] else ()
        if (call := _CALL.match(location)) is not None:
            inner, _, outer = _parted(call[1], " at ")
            return (*self.places(inner, depth + 1), *self.places(outer, depth + 1))[:_MOST_CALLS]
        if (fused := _FUSED.match(location)) is not None:
            return self.places(_parted(fused[1], ",")[0], depth + 1)
        if (named := _NAMED.match(location)) is not None:
            return self.places(named[1], depth + 1)
        return ()


def _parted(text: str, separator: str) -> tuple[str, str, str]:
    """Parted at the first separator outside of brackets and strings."""
    depth, quoted = 0, False
    for index, character in enumerate(text):
        if character == '"' and text[index - 1 : index] != "\\":
            quoted = not quoted
        elif not quoted:
            depth += (character in "([<") - (character in ")]>")
            if depth == 0 and text.startswith(separator, index):
                return text[:index], separator, text[index + len(separator) :]
    return text, "", ""
