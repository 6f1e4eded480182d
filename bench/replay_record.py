"""What is kept of every product's texts, and how does what is compiled now differ from it?

A record is a file of one line for each product, sorted by name, so that a diff of it shows which products changed: a
hash of each of the four texts, and the decisions in short (`chosen`): every field that is a number or a word and not 0
or empty, and of longer ones a hash, after `#`. A product that the compiler refuses has its words instead.

Not handled: the texts themselves, which are compiled again where a difference is to be shown (`replay_diff`).
Checked by: tests/benchmarks/test_replay_record.py.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TEXTS = ("decisions", "ac", "ptx", "plan")
"""What is compared, in the order in which it comes about."""
FORMAT = 1
RECORD = Path("bench/results/replay.json")
_HASH_DIGITS = 12
_LONGEST_VALUE = 40
_MOST_NAMES = 8
_MOST_VALUES = 6

Row = Mapping[str, Any]
Rows = Mapping[str, Row]


class ReplayError(Exception):
    """What ends the command with one line and exit code 2."""


@dataclass(frozen=True, slots=True)
class Change:
    """A product whose row is another one. texts: which of `TEXTS` differ; fields: of `chosen`, from what to what, None
    where there is no such field; refused: the words of refusals before and after, "" where there is none."""

    name: str
    texts: tuple[str, ...]
    fields: tuple[tuple[str, Any, Any], ...] = ()
    refused: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True)
class Comparison:
    """added, removed: names of products that one side alone has; same: how many are equal."""

    changes: tuple[Change, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    same: int

    @property
    def equal(self) -> bool:
        return not (self.changes or self.added or self.removed)


def texts_of(answer: Mapping[str, Any]) -> dict[str, str]:
    """The four texts of a compiler's answer (`replay_worker.answer`), empty where there are none."""
    if "ptx" not in answer:
        return dict.fromkeys(TEXTS, "")
    return {
        "decisions": _as_text(_settled(answer["decisions"])),
        "ac": answer["ac"],
        "ptx": answer["ptx"],
        "plan": _as_text(answer["plan"]),
    }


def row_of(answer: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a compiler's answer."""
    if "fault" in answer:
        return {"refused": f"by a fault: {answer['fault']}"}
    if "refused" in answer:
        return {"refused": answer["refused"]}
    return {**{name: _hash(text) for name, text in texts_of(answer).items()}, "chosen": chosen(answer["decisions"])}


def chosen(decisions: Mapping[str, Any]) -> dict[str, Any]:
    """Decisions in short."""
    return {name: _short(value) for name, value in sorted(_settled(decisions).items())}


def _short(value: Any) -> Any:
    text = json.dumps(value, sort_keys=True)
    return value if len(text) <= _LONGEST_VALUE and not isinstance(value, dict) else f"#{_hash(text)[:6]}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]


def _as_text(value: Any) -> str:
    """In lines, alike whatever the order of fields."""
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


def _settled(value: Any) -> Any:
    """Decisions without fields that are 0 or empty, so that a new field changes those alone that use it; and with the
    JSON that a field holds as a string in its place, so that a diff of it has lines."""
    if isinstance(value, Mapping):
        fields = {name: _settled(item) for name, item in value.items()}
        return {name: item for name, item in fields.items() if item not in (0, "", [], {}, None)}
    if isinstance(value, list):
        return [_settled(item) for item in value]
    if isinstance(value, str) and value.startswith("{"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def write_record(rows: Rows, path: Path) -> None:
    """One line for each product, sorted."""
    lines = [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(rows.items())]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{{\n"format": {FORMAT},\n"products": {{\n' + ",\n".join(lines) + "\n}\n}\n", encoding="utf-8")


def read_record(path: Path) -> dict[str, dict[str, Any]]:
    """The rows by product. Raises ReplayError for a file that is not there, or is none of ours."""
    remedy = "python -m bench replay --record writes it"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ReplayError(f"{path} cannot be read: {error.strerror}; {remedy}") from error
    except ValueError as error:
        raise ReplayError(f"{path} is no JSON: {error}; {remedy}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ReplayError(f"{path} is no record of format {FORMAT}; {remedy}")
    rows = document.get("products")
    if not isinstance(rows, dict):
        raise ReplayError(f"{path} has no products; {remedy}")
    for name, row in rows.items():
        if not isinstance(row, dict) or not ("refused" in row or {*TEXTS, "chosen"} <= row.keys()):
            raise ReplayError(f"{path} lacks what is kept of {name}; {remedy}")
    return rows


def compare(before: Rows, after: Rows) -> Comparison:
    changes = [_change(name, before[name], row) for name, row in sorted(after.items()) if name in before]
    found = tuple(each for each in changes if each is not None)
    return Comparison(
        found, tuple(sorted(after.keys() - before.keys())), tuple(sorted(before.keys() - after.keys())),
        len(changes) - len(found),
    )  # fmt: skip


def _change(name: str, before: Row, after: Row) -> Change | None:
    words = before.get("refused", ""), after.get("refused", "")
    texts = tuple(text for text in TEXTS if before.get(text) != after.get(text))
    old, new = before.get("chosen", {}), after.get("chosen", {})
    if any(words):
        return Change(name, texts, refused=words) if words[0] != words[1] else None
    fields = tuple(
        (field, old.get(field), new.get(field))
        for field in sorted(old.keys() | new.keys())
        if old.get(field) != new.get(field)
    )
    return Change(name, texts, fields) if texts or fields else None


def report(found: Comparison, *, beside: str = "as recorded") -> str:
    """What differs, grouped by what changed: the texts, then the fields of the decisions with their values."""
    if found.equal:
        return f"{found.same} products compile to the same decisions, ac, PTX and plan {beside}"
    counts = [f"{len(found.changes)} changed"]
    counts += [f"{len(found.added)} new"] if found.added else []
    counts += [f"{len(found.removed)} gone"] if found.removed else []
    lines = [f"Of {found.same + len(found.changes) + len(found.added)} products {', '.join(counts)}; "
             f"{found.same} are {beside}."]  # fmt: skip
    groups: defaultdict[tuple[tuple[str, ...], tuple[str, ...]], list[Change]] = defaultdict(list)
    for change in found.changes:
        if any(change.refused):
            continue
        groups[change.texts, tuple(name for name, _, _ in change.fields)].append(change)
    for (texts, fields), changes in sorted(groups.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        lines += ["", f"{_listed(texts)} of {_count(changes)}:"]
        lines += [f"    {_values(field, changes)}" for field in fields]
        lines += _names([change.name for change in changes])
    refusals: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for change in found.changes:
        if any(change.refused):
            refusals[change.refused].append(change.name)
    for (old, new), names in refusals.items():
        lines += ["", _refusal(old, new), *_names(names)]
    for words, names in (("new", found.added), ("gone", found.removed)):
        if names:
            lines += ["", f"{words}:", *_names(names)]
    return "\n".join(lines)


def _refusal(old: str, new: str) -> str:
    if not old:
        return f"refused now: {new}"
    return f"refused before: {old}; now: {new}" if new else f"refused no more: {old}"


def _values(field: str, changes: Iterable[Change]) -> str:
    """A field's old and new values, each pair once with how many products have it."""
    pairs: defaultdict[str, int] = defaultdict(int)
    hashed = False
    for change in changes:
        for name, old, new in change.fields:
            if name != field:
                continue
            if any(isinstance(value, str) and value.startswith("#") for value in (old, new)):
                hashed = True
            else:
                pairs[f"{_value(old)} -> {_value(new)}"] += 1
    told = [f"{pair} ({count} products)" if count > 1 else pair for pair, count in _most_first(pairs)]
    if len(told) > _MOST_VALUES:
        told[_MOST_VALUES:] = [f"{len(told) - _MOST_VALUES} more"]
    return f"{field}: {', '.join([*told, *(['another value'] if hashed else [])])}"


def _most_first(pairs: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(pairs.items(), key=lambda pair: (-pair[1], pair[0]))


def _value(value: Any) -> str:
    """As a report shows it: a field that is not kept was 0 or empty."""
    return "none" if value is None else json.dumps(value) if isinstance(value, list) else str(value)


def _listed(words: tuple[str, ...]) -> str:
    if not words:
        return "the short form of decisions"
    return f"{words[0]} alone" if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _count(changes: list[Change]) -> str:
    return "1 product" if len(changes) == 1 else f"{len(changes)} products"


def _names(names: Iterable[str]) -> list[str]:
    found = list(names)
    more = [f"    and {len(found) - _MOST_NAMES} more"] if len(found) > _MOST_NAMES else []
    return [*(f"    {name}" for name in found[:_MOST_NAMES]), *more]
