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
    from tilewright.legal.guard import Guard
    from tilewright.legal.rule import Fields, Rule
    from tilewright.legal.symbolic import SymbolicFinding, SymbolicLegality, decide_fields, prove
    from tilewright.legal.symbolic_map import Dim, SymbolicMap
    from tilewright.legal.tensor_map import TensorMap
    from tilewright.legal.tiled_rules import tiled_rules
    from tilewright.legal.violation import Violation

_HOMES = {
    "decide_fields": "tilewright.legal.symbolic",
    "Dim": "tilewright.legal.symbolic_map",
    "Fields": "tilewright.legal.rule",
    "Guard": "tilewright.legal.guard",
    "parse_expression": "tilewright.layout.condition_parser",
    "parse_where": "tilewright.layout.condition_parser",
    "prove": "tilewright.legal.symbolic",
    "Rule": "tilewright.legal.rule",
    "SymbolicFinding": "tilewright.legal.symbolic",
    "SymbolicLegality": "tilewright.legal.symbolic",
    "SymbolicMap": "tilewright.legal.symbolic_map",
    "TensorMap": "tilewright.legal.tensor_map",
    "tiled_rules": "tilewright.legal.tiled_rules",
    "Violation": "tilewright.legal.violation",
}

__all__ = [
    "Dim",
    "Fields",
    "Guard",
    "Rule",
    "SymbolicFinding",
    "SymbolicLegality",
    "SymbolicMap",
    "TensorMap",
    "Violation",
    "decide_fields",
    "parse_expression",
    "parse_where",
    "prove",
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
