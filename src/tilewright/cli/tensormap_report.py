"""What does `tilewright tensormap` say of a map: in words, and as JSON?

A map's verdict, each rule that it breaks with value, limit and source, the fields that would have to change, what the
driver passes and the device does not, the bytes of one copy, and the repairs with their costs.
Checked by: tests/cli/test_tensormap.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from tilewright.legal.im2col_map import AnyMap
    from tilewright.legal.legality import Legality
    from tilewright.legal.repair_plan import Repair
    from tilewright.legal.symbolic import SymbolicLegality
    from tilewright.legal.symbolic_map import SymbolicMap
    from tilewright.legal.violation import Violation

Tone = Literal["heading", "good", "bad", "doubt", "quiet", "plain"]
Line = tuple[Tone, str]
_ROWS_DRAWN = 4


@dataclass(frozen=True)
class Judged:
    """One concrete map with all that was asked of it. copies: rules about one copy that are broken, or warn."""

    map: AnyMap
    legality: Legality
    copy_violations: tuple[Violation, ...] = ()
    copy_warnings: tuple[Violation, ...] = ()
    remarks: tuple[str, ...] = ()
    repairs: tuple[Repair, ...] = ()
    synthesized: bool = False

    @property
    def legal(self) -> bool:
        return self.legality.legal and not self.copy_violations


def map_to_json(map: AnyMap | SymbolicMap) -> dict[str, Any]:
    """A map's fields by their Python names; expressions as texts."""
    return {each.name: _plain(getattr(map, each.name)) for each in fields(map) if each.name != "sizes"}


def _plain(value: object) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value if value is None or isinstance(value, int | str) else str(value)


def violation_to_json(violation: Violation) -> dict[str, Any]:
    return asdict(violation)


def judged_to_json(judged: Judged, index: int) -> dict[str, Any]:
    """One entry of `maps` in the command's JSON."""
    legality = judged.legality
    return {
        "index": index,
        "map": map_to_json(judged.map),
        "target": legality.target.name,
        "legal": judged.legal,
        "violations": [violation_to_json(each) for each in (*legality.violations, *judged.copy_violations)],
        "minimal_sets": [[each.code for each in group] for group in legality.minimal_sets],
        "minimal_changes": [sorted(names) for names in legality.minimal_changes],
        "warnings": [violation_to_json(each) for each in (*legality.warnings, *judged.copy_warnings)],
        "remarks": list(judged.remarks),
        "footprint_bytes": legality.footprint_bytes,
        "transaction_bytes": legality.transaction_bytes,
        "repairs": [repair_to_json(each) for each in judged.repairs],
    }


def repair_to_json(repair: Repair) -> dict[str, Any]:
    return {
        "kind": repair.kind,
        "title": repair.title,
        "cost": asdict(repair.cost) | {"line": repair.cost.line},
        "maps": [map_to_json(map) for map in repair.maps],
        "changed": [
            {"field": each.field, "before": _plain(each.before), "after": _plain(each.after)} for each in repair.changes
        ],
        "box": list(repair.box),
        "workspace_bytes": repair.workspace_bytes,
        "checked": repair.checked,
    }


def symbolic_to_json(map: SymbolicMap, target: str, legality: SymbolicLegality, index: int) -> dict[str, Any]:
    """One entry of `maps` for a map of sizes that vary."""
    return {
        "index": index,
        "map": map_to_json(map),
        "target": target,
        "legal": legality.answer == "legal",
        "answer": legality.answer,
        "guard": None if legality.guard is None else legality.guard.text,
        "violations": [
            {
                "code": each.code, "name": each.name, "field": each.field, "index": each.index, "value": each.value,
                "limit": each.limit, "message": each.message, "source": each.source, "enforced": True,
            }
            for each in (*legality.violated, *legality.undecided)
        ],
    }  # fmt: skip


def judged_lines(judged: Judged) -> Iterator[Line]:
    """The report of one map, line by line."""
    legality = judged.legality
    yield "heading", map_words(judged.map)
    for remark in judged.remarks:
        yield "doubt", f"  note: {remark}"
    if judged.legal:
        yield "good", f"  legal on {legality.target.name}"
    else:
        count = len(legality.violations) + len(judged.copy_violations)
        yield "bad", f"  illegal on {legality.target.name}: {count} rule{'s' if count > 1 else ''} broken"
    for violation in (*legality.violations, *judged.copy_violations):
        yield from _violation_lines(violation)
    changes = legality.minimal_changes
    if changes:
        yield "plain", f"  to mend, change {_either(changes)}"
    for violation in (*legality.warnings, *judged.copy_warnings):
        yield "doubt", f"  {violation.code} {violation.name}: {violation.message}"
        yield "quiet", f"    source: {violation.source}"
    if judged.legal and legality.transaction_bytes is not None:
        yield from _picture(judged)
    if judged.repairs:
        yield "heading", f"  {'plan' if judged.synthesized else 'repairs'}, the cheapest first, each judged again:"
        for number, repair in enumerate(judged.repairs, 1):
            yield from _repair_lines(number, repair, whole=judged.synthesized)
    elif judged.synthesized:
        yield "doubt", "  there is nothing to copy: no plan"


def symbolic_lines(map: SymbolicMap, target: str, legality: SymbolicLegality) -> Iterator[Line]:
    """The report of one symbolic map."""
    yield "heading", map_words(map)
    match legality.answer:
        case "legal":
            yield "good", f"  legal on {target} for all sizes as declared"
        case "illegal":
            yield "bad", f"  illegal on {target} for all sizes as declared"
        case "maybe" if legality.guard is not None:
            yield "doubt", f"  legal on {target} exactly where {legality.guard.text}"
        case "maybe":
            yield "doubt", f"  not decided on {target}"
    for finding in (*legality.violated, *legality.undecided):
        yield "plain", f"  {finding.code} {finding.name}: {finding.message}"
        yield "quiet", f"    source: {finding.source}"


def map_words(map: AnyMap | SymbolicMap) -> str:
    """A map as Python writes it, fields that have their defaults left out."""
    parts: list[str] = []
    for each in fields(map):
        value = getattr(map, each.name)
        if each.name == "element_strides" and (value is None or set(value) <= {1}):
            continue
        if each.name in ("sizes", "where") or (value == each.default and each.name != "dtype"):
            continue
        words = _plain(value)
        if isinstance(words, list):
            words = f"({', '.join(map_str(word) for word in words)}{',' if len(words) == 1 else ''})"  # pyright: ignore
        else:
            words = hex(value) if each.name == "address" and isinstance(value, int) else repr(words)
        parts.append(f"{each.name}={words}")
    return f"{type(map).__name__}({', '.join(parts)})"


def map_str(value: object) -> str:
    return str(value)


def _violation_lines(violation: Violation) -> Iterator[Line]:
    place = violation.field if violation.index is None else f"{violation.field}[{violation.index}]"
    yield "bad", f"  {violation.code} {violation.name}: {violation.message}"
    yield "plain", f"    {place} is {violation.value}, limit {violation.limit}"
    yield "quiet", f"    source: {violation.source}"


def _either(changes: Sequence[Iterable[str]]) -> str:
    words = [" and ".join(sorted(names)) for names in changes]
    return ", or ".join(words)


def _repair_lines(number: int, repair: Repair, *, whole: bool) -> Iterator[Line]:
    yield "plain", f"  {number}. {repair.title}"
    yield "quiet", f"     costs {repair.cost.line}"
    if repair.workspace_bytes:
        yield "quiet", f"     workspace of {repair.workspace_bytes} bytes"
    if whole:
        for map in repair.maps:
            yield "plain", f"     {map_words(map)}"


def _picture(judged: Judged) -> Iterator[Line]:
    """One box in shared memory: what the barrier counts, what the buffer needs."""
    legality = judged.legality
    transaction, footprint = legality.transaction_bytes, legality.footprint_bytes
    yield "plain", f"  one copy: {transaction} bytes counted by the barrier, {footprint} bytes of shared memory"
    rows = _rows(judged)
    if rows is None:
        return
    count, row_bytes, pitch_bytes = rows
    for row in range(min(count, _ROWS_DRAWN)):
        filled = max(1, 32 * row_bytes // pitch_bytes)
        bar = "#" * filled + "." * (32 - filled)
        yield "quiet", f"    {row * pitch_bytes:>7} |{bar}| {row_bytes} of {pitch_bytes} bytes"
    if count > _ROWS_DRAWN:
        yield "quiet", f"            {count - _ROWS_DRAWN} rows more"


def _rows(judged: Judged) -> tuple[int, int, int] | None:
    """Rows of a tiled box, the bytes of each and from one to the next."""
    from tilewright.legal.tensor_map import TensorMap

    map, data_type = judged.map, judged.map.data_type
    transaction, footprint = judged.legality.transaction_bytes, judged.legality.footprint_bytes
    if not isinstance(map, TensorMap) or data_type is None or data_type.is_packed or map.interleave != "none":
        return None
    if not transaction or not footprint:
        return None
    row_bytes = map.box[0] * data_type.global_bits // 8
    count = transaction // row_bytes
    pitch_bytes = row_bytes if count == 1 else (footprint - row_bytes) // (count - 1) or row_bytes
    return count, row_bytes, max(pitch_bytes, row_bytes)
