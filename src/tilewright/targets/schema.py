"""Is a target's table well formed, and what does each row say?

A table is TOML: `[target]` (name, title, `architectures` where text is read with its limits, and for a derived target
`inherits`, `drops` and `estimates`), then one table per fact, `[group.name]`, with `value`, `unit`, `source`, and at
least one of `since` (the PTX, CUDA or ROCm version from which it holds) and `measured` (the command that found it, as
it stands after `python -m`). Anything else is refused: a misspelt field would otherwise be a fact without a source, and
so would a value that nobody can measure again.

Not handled: whether the value is true of the hardware. Checked by tests/targets/test_target.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import cast

from tilewright.base.error import TilewrightError
from tilewright.base.value import dataclass
from tilewright.targets.sections import Sections

FactValue = bool | int | tuple[int, ...]

UNITS = frozenset(
    (
        "bytes",
        "bytes_per_second",
        "count",
        "elements",
        "enum",
        "feature",
        "flop_per_cycle",
        "hertz",
        "registers",
        "threads",
        "warps",
    )
)
"""Units a row may use. `enum` is a value of a CUDA driver enumeration; `feature` is true or false."""

_ROW_FIELDS = ("value", "unit", "source", "since", "measured")
_TARGET_FIELDS = ("name", "title", "architectures", "inherits", "drops", "estimates")
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_MEASURED = re.compile(r"bench( [a-z0-9-]+|\.probes\.[a-z_]+)( \S+)*\Z")
_SINCE = re.compile(r"(PTX|CUDA|ROCm) \d+\.\d+\Z")


@dataclass(frozen=True, slots=True)
class Fact:
    """One hardware fact.

    key: `group.name`; value: in `unit`; source: document and section, or what was observed; since: version from which
    it holds, or empty; measured: the command after `python -m`, or empty. At least one of both is present. estimate_of:
    the other target that it was found for, where it only stands in for what nobody has measured here.
    """

    key: str
    value: FactValue
    unit: str
    source: str
    since: str = ""
    measured: str = ""
    estimate_of: str = ""


class Facts(Mapping[str, Fact]):
    """Facts by key, each read when it is first asked for, and refused then if it breaks the schema. rows: the table
    that states it; estimates: of those that stand in for facts of this target, the target they were found for."""

    def __init__(self, rows: Mapping[str, Sections], estimates: Mapping[str, str] | None = None) -> None:
        self.rows = rows
        self.estimates = estimates or {}
        self._read: dict[str, Fact] = {}

    def __getitem__(self, key: str) -> Fact:
        found = self._read.get(key)
        if found is None:
            sections = self.rows[key]
            found = _fact(key, sections[key], sections.file)
            found = self._read[key] = replace(found, estimate_of=self.estimates.get(key, ""))
        return found

    def __contains__(self, key: object) -> bool:
        return key in self.rows

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class TargetTable:
    """One file, before inheritance. architectures: first and last number `n` of the `sm_n` whose text is
    read with these limits; drops: groups of the inherited table that do not hold here; estimates: groups of it that
    only cost models ask for, and that nobody has measured here."""

    name: str
    title: str
    facts: Facts
    architectures: tuple[int, int] | None = None
    inherits: str = ""
    drops: tuple[str, ...] = ()
    estimates: tuple[str, ...] = ()


def parse_table(text: str, file: str) -> TargetTable:
    """The table that `text` holds; `file` names it in errors.

    Raises TilewrightError, naming file and row, for text that is not TOML, a missing or unknown field, a value of the
    wrong type, or a unit not in `UNITS`: in the header at once, in a row when that is asked for.
    """
    sections = Sections(text, file)
    if "target" not in sections:
        raise _fault(file, "target", "missing, or not a table")
    header = cast("dict[str, object]", sections["target"])
    for field in header:
        if field not in _TARGET_FIELDS:
            raise _fault(file, "target", f"unknown field {field!r}; the fields are {', '.join(_TARGET_FIELDS)}")
    architectures = header.get("architectures")
    inherits = _text(header, "inherits", file, "target") if "inherits" in header else ""
    drops, estimates = (_groups(header, field, file) for field in ("drops", "estimates"))
    if (drops or estimates) and not inherits:
        raise _fault(file, "target", f"{'drops' if drops else 'estimates'} without inherits")
    return TargetTable(
        name=_text(header, "name", file, "target"),
        title=_text(header, "title", file, "target"),
        facts=Facts({key: sections for key in sections if key != "target"}),
        architectures=None if architectures is None else _pair(architectures, file),
        inherits=inherits,
        drops=drops,
        estimates=estimates,
    )


def _groups(header: dict[str, object], field: str, file: str) -> tuple[str, ...]:
    """Groups of the inherited table that a field of the header names."""
    named = header.get(field, [])
    if not isinstance(named, list) or not all(isinstance(group, str) for group in cast("list[object]", named)):
        raise _fault(file, "target", f"{field} is not a list of group names")
    return tuple(cast("list[str]", named))


def _fact(key: str, row: dict[str, object], file: str) -> Fact:
    for part in key.split("."):
        if _NAME.match(part) is None:
            raise _fault(file, key, f"{part!r} is not a lower-case name")
    if "." not in key:
        raise _fault(file, key, "a fact's header is [group.name]")
    for field in row:
        if field not in _ROW_FIELDS:
            raise _fault(file, key, f"unknown field {field!r}; the fields are {', '.join(_ROW_FIELDS)}")
    unit = _text(row, "unit", file, key)
    if unit not in UNITS:
        raise _fault(file, key, f"unknown unit {unit!r}; the units are {', '.join(sorted(UNITS))}")
    since = _text(row, "since", file, key) if "since" in row else ""
    if since and _SINCE.match(since) is None:
        raise _fault(file, key, f"since is {since!r}, not a version such as 'PTX 8.0' or 'CUDA 12.0'")
    measured = _text(row, "measured", file, key) if "measured" in row else ""
    if measured and _MEASURED.match(measured) is None:
        raise _fault(file, key, f"measured is {measured!r}, no command such as 'bench.probes.banks' or 'bench model'")
    if not since and not measured:
        raise _fault(file, key, "neither since nor measured")
    return Fact(key, _value(row, unit, file, key), unit, _text(row, "source", file, key), since, measured)


def _value(row: dict[str, object], unit: str, file: str, key: str) -> FactValue:
    value = row.get("value")
    match value:
        case bool():
            if unit != "feature":
                raise _fault(file, key, f"value is a boolean, but the unit is {unit}")
            return value
        case int() if unit != "feature":
            return value
        case list() if unit != "feature":
            items = cast("list[object]", value)
            numbers = tuple(item for item in items if isinstance(item, int) and not isinstance(item, bool))
            if items and len(numbers) == len(items):
                return numbers
        case _:
            pass
    wanted = "true or false" if unit == "feature" else "an integer or a non-empty list of integers"
    raise _fault(file, key, f"value is missing or of the wrong type; it must be {wanted}")


def _pair(value: object, file: str) -> tuple[int, int]:
    numbers = cast("list[object]", value) if isinstance(value, list) else []
    match numbers:
        case [int() as first, int() as last] if 0 <= first <= last:
            return first, last
        case _:
            raise _fault(file, "target", "architectures is not a list of the first and the last number")


def _text(table: dict[str, object], field: str, file: str, where: str) -> str:
    value = table.get(field)
    if not isinstance(value, str) or not value.strip():
        raise _fault(file, where, f"no {field}")
    return value


def _fault(file: str, where: str, problem: str) -> TilewrightError:
    return TilewrightError(
        f"{file}: [{where}]: {problem}", remedy="every row has value, unit, source, and since or measured"
    )
