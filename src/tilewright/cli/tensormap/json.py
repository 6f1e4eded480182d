"""What does `tilewright tensormap` say of a map as JSON?

One object for each map, in `maps`; names are those of the Python values. Stable within `version`.
Checked by: tests/cli/test_tensormap_report.py.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from tilewright.cli.tensormap.judge import Judged, maps_of
from tilewright.cli.tensormap.words import command_words, kind_words, map_words, plain

if TYPE_CHECKING:
    from tilewright.legal.plan.repair_plan import Repair
    from tilewright.legal.symbolic.symbolic import SymbolicLegality
    from tilewright.legal.symbolic.symbolic_map import SymbolicMap
    from tilewright.legal.tensor_map.im2col_map import AnyMap

VERSION = 1


def document(maps: list[dict[str, Any]]) -> dict[str, Any]:
    """The whole of what is printed."""
    return {"version": VERSION, "maps": maps}


def map_to_json(map: AnyMap | SymbolicMap) -> dict[str, Any]:
    """A map's fields by their Python names; expressions as texts. `--json` reads it back."""
    return {each.name: plain(getattr(map, each.name)) for each in fields(map) if each.name != "sizes"}


def judged_to_json(judged: Judged, index: int) -> dict[str, Any]:
    """The entry of one map in numbers."""
    legality = judged.legality
    return {
        "index": index,
        "kind": kind_words(judged.map),
        "map": map_to_json(judged.map),
        "python": map_words(judged.map),
        "command": command_words(judged.map, legality.target.name),
        "target": legality.target.name,
        "driver": None if legality.driver is None else f"{legality.driver[0]}.{legality.driver[1]}",
        "legal": judged.legal,
        "violations": [asdict(each) for each in judged.violations],
        "minimal_sets": [[each.code] for each in judged.violations],
        "minimal_changes": [sorted(names) for names in legality.minimal_changes],
        "conflicts": [{"fields": sorted(each.fields), "codes": list(each.codes)} for each in legality.conflicts],
        "warnings": [asdict(each) for each in judged.warnings],
        "remarks": list(judged.remarks),
        "footprint_bytes": legality.footprint_bytes,
        "transaction_bytes": legality.transaction_bytes,
        "repairs": [repair_to_json(each) for each in judged.repairs],
    }


def repair_to_json(repair: Repair) -> dict[str, Any]:
    """The entry of one repair."""
    return {
        "kind": repair.kind,
        "title": repair.title,
        "cost": asdict(repair.cost) | {"line": repair.cost.line},
        "maps": [map_to_json(map) for map in maps_of(repair)],
        "changed": [
            {"field": each.field, "before": plain(each.before), "after": plain(each.after)} for each in repair.changes
        ],
        "box": list(repair.box),
        "starts": list(repair.starts),
        "workspace_bytes": repair.workspace_bytes,
        "checked": repair.checked,
    }


def symbolic_to_json(map: SymbolicMap, target: str, legality: SymbolicLegality, index: int) -> dict[str, Any]:
    """The entry of one map of sizes that vary."""
    return {
        "index": index,
        "kind": "symbolic",
        "map": map_to_json(map),
        "target": target,
        "legal": legality.answer == "legal",
        "answer": legality.answer,
        "guard": None if legality.guard is None else legality.guard.text,
        "violations": [
            {
                "code": each.code, "name": each.name, "field": each.field, "index": each.index, "value": each.value,
                "limit": each.limit, "needs": str(each.needs), "message": each.message, "source": each.source,
                "enforced": True,
            }
            for each in (*legality.violated, *legality.undecided)
        ],
    }  # fmt: skip
