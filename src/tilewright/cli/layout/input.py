"""What do the texts of `tilewright layout` and `tilewright banks` name: layouts, tilers, sizes, windows, operands?

A tiler for each part stands in angle brackets, `<4:1,_,(2,4):(1,8)>`, `_` leaving a part as it is; without brackets it
is one layout for the whole. Every error is one message. Checked by: tests/cli/commands/test_layout_command.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tilewright.base.error import TilewrightError
from tilewright.layout.layout_text import parse_layout
from tilewright.layout.swizzle import Swizzle

if TYPE_CHECKING:
    from tilewright.cli.layout.steps import Sizes
    from tilewright.driver.views.layout_picture import Window
    from tilewright.layout.composition import Tiler
    from tilewright.layout.layout import Layout

_MOST_DEPTH = 16
_SWIZZLE = re.compile(r"\s*(?:(?:Sw|S|Swizzle)\s*<)?\s*(-?\d{1,4})\s*,\s*(-?\d{1,4})\s*,\s*(-?\d{1,4})\s*>?\s*")
_RANGE = re.compile(r"([0-9]{1,18})(?::([0-9]{1,18}))?")
_SIZE = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(-?[0-9]{1,18})\s*")


def layout_of(text: str, sizes: dict[str, int]) -> Layout:
    """The layout that a text writes, with the given sizes. Raises TilewrightError."""
    from tilewright.layout.coalescing import with_sizes

    layout = parse_layout(text)
    given = {name: value for name, value in sizes.items() if name in layout.names}
    return with_sizes(layout, given) if given else layout


def tiler_of(text: str, sizes: dict[str, int], depth: int = 0) -> Tiler:
    """The tiler that a text writes: a layout, or `<...>` with one for each part. Raises TilewrightError."""
    plain = text.strip()
    if plain == "_" and depth:
        return None
    if not plain.startswith("<"):
        return layout_of(plain, sizes)
    if not plain.endswith(">") or depth > _MOST_DEPTH:
        raise TilewrightError(f"tiler {_cut(text)}: its '<' is never closed", remedy="write <4:1,8:2>")
    return tuple(tiler_of(part, sizes, depth + 1) for part in _parts(plain[1:-1]))


def swizzle_of(text: str) -> Swizzle:
    """`3,4,3` or `Sw<3,4,3>`. Raises TilewrightError."""
    found = _SWIZZLE.fullmatch(text)
    if found is None:
        raise TilewrightError(f"{_cut(text)} is no swizzle", remedy="write bits, base and shift: 3,4,3")
    return Swizzle(*(int(number) for number in found.groups()))


def sizes_of(texts: list[str]) -> dict[str, int]:
    """`N=4,M=8`, given any number of times. Raises TilewrightError."""
    found: dict[str, int] = {}
    for part in ",".join(texts).split(","):
        if not part.strip():
            continue
        size = _SIZE.fullmatch(part)
        if size is None:
            raise TilewrightError(f"--sizes {_cut(part)} gives no size a value", remedy="write N=4,M=8")
        found[size[1]] = int(size[2])
    return found


def facts_of(text: str | None, values: dict[str, int]) -> Sizes:
    """What `--sizes` and `--where` say together. Raises TilewrightError for conditions that no sizes satisfy."""
    from tilewright.cli.layout.steps import Sizes
    from tilewright.layout.numbers.condition import names_of
    from tilewright.layout.numbers.condition_facts import refine
    from tilewright.layout.numbers.condition_parser import parse_where
    from tilewright.layout.numbers.integer_fact import ANY

    if text is None:
        return Sizes(values)
    where = parse_where(text, what="--where")
    facts = refine(where, dict.fromkeys(names_of(where), ANY))
    if facts is None:
        raise TilewrightError(f"--where {_cut(text)}: no sizes are so", remedy="give conditions that some sizes meet")
    return Sizes(values, where, facts)


def window_of(rows: str | None, columns: str | None) -> Window:
    """Rows and columns written as `BEGIN:END`, or one number for one alone. Raises TilewrightError."""
    from tilewright.driver.views.layout_picture import Window

    return Window(_range("--rows", rows), _range("--columns", columns))


def _range(flag: str, text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        raise TilewrightError(f"{flag} {_cut(text)} is no range", remedy="write BEGIN:END, such as 0:64")
    begin = int(found[1])
    return (begin, int(found[2]) if found[2] else begin + 1)


def _parts(text: str) -> list[str]:
    """What commas outside all brackets separate."""
    parts, depth, start = list[str](), 0, 0
    for place, character in enumerate(text):
        depth += (character in "(<") - (character in ")>")
        if character == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


def _cut(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
