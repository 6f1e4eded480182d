"""What the hardware accepts: tensor maps and matrix descriptors judged by a target's facts, every rule broken named.

    from tilewright import legal

    map = legal.TensorMap("bf16", dims=(4096, 100), strides=(8192,), box=(64, 128), swizzle="128B")
    legal.check(map, target="sm_90a").legal

Each name is loaded when it is first asked for: importing the package loads no solver and no NumPy.
Floor 4: imports `base`, `targets`, `layout` and `solve`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.layout.condition_parser import parse_expression, parse_where
    from tilewright.legal.conflicts import Conflict
    from tilewright.legal.costs import Cost
    from tilewright.legal.engines import Engines
    from tilewright.legal.guard import Guard
    from tilewright.legal.im2col_map import Im2colMap, Im2colWideMap
    from tilewright.legal.im2col_rules import im2col_rules, im2col_wide_rules
    from tilewright.legal.legality import Legality, check
    from tilewright.legal.operand_plan import OperandPlan, plan_operand
    from tilewright.legal.repair_plan import Repair
    from tilewright.legal.repairs import repair
    from tilewright.legal.rows import check_im2col_rows, check_rows
    from tilewright.legal.rule import Fields, Rule
    from tilewright.legal.symbolic import SymbolicFinding, SymbolicLegality, decide_fields, prove
    from tilewright.legal.symbolic_map import Dim, SymbolicMap
    from tilewright.legal.tensor_map import TensorMap
    from tilewright.legal.tiled_rules import tiled_rules
    from tilewright.legal.violation import Violation
    from tilewright.legal.want import Want

_HOMES = {
    "Conflict": "tilewright.legal.conflicts",
    "Cost": "tilewright.legal.costs",
    "Dim": "tilewright.legal.symbolic_map",
    "Engines": "tilewright.legal.engines",
    "Fields": "tilewright.legal.rule",
    "Guard": "tilewright.legal.guard",
    "Im2colMap": "tilewright.legal.im2col_map",
    "Im2colWideMap": "tilewright.legal.im2col_map",
    "Legality": "tilewright.legal.legality",
    "OperandPlan": "tilewright.legal.operand_plan",
    "Repair": "tilewright.legal.repair_plan",
    "Rule": "tilewright.legal.rule",
    "SymbolicFinding": "tilewright.legal.symbolic",
    "SymbolicLegality": "tilewright.legal.symbolic",
    "SymbolicMap": "tilewright.legal.symbolic_map",
    "TensorMap": "tilewright.legal.tensor_map",
    "Violation": "tilewright.legal.violation",
    "Want": "tilewright.legal.want",
    "check": "tilewright.legal.legality",
    "check_im2col_rows": "tilewright.legal.rows",
    "check_rows": "tilewright.legal.rows",
    "decide_fields": "tilewright.legal.symbolic",
    "im2col_rules": "tilewright.legal.im2col_rules",
    "im2col_wide_rules": "tilewright.legal.im2col_rules",
    "plan_operand": "tilewright.legal.operand_plan",
    "prove": "tilewright.legal.symbolic",
    "repair": "tilewright.legal.repairs",
    "parse_expression": "tilewright.layout.condition_parser",
    "parse_where": "tilewright.layout.condition_parser",
    "tiled_rules": "tilewright.legal.tiled_rules",
}

__all__ = [
    "Conflict",
    "Cost",
    "Dim",
    "Engines",
    "Fields",
    "Guard",
    "Im2colMap",
    "Im2colWideMap",
    "Legality",
    "OperandPlan",
    "Repair",
    "Rule",
    "SymbolicFinding",
    "SymbolicLegality",
    "SymbolicMap",
    "TensorMap",
    "Violation",
    "Want",
    "check",
    "check_im2col_rows",
    "check_rows",
    "decide_fields",
    "im2col_rules",
    "im2col_wide_rules",
    "parse_expression",
    "parse_where",
    "plan_operand",
    "prove",
    "repair",
    "tiled_rules",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'tilewright.legal' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
