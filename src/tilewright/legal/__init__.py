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
    from tilewright.legal.box_banks import bank_conflict_ways
    from tilewright.legal.conflicts import Conflict
    from tilewright.legal.copy_check import CopyLegality, check_copy
    from tilewright.legal.costs import Cost
    from tilewright.legal.engines import Engines
    from tilewright.legal.guard import Guard
    from tilewright.legal.im2col_map import Im2colMap, Im2colWideMap
    from tilewright.legal.im2col_rules import im2col_rules, im2col_wide_rules
    from tilewright.legal.legality import Legality, check
    from tilewright.legal.loaded_tile import DestinationPhase, destination_phase, loaded_layout
    from tilewright.legal.operand_feed import Feeds, tma_feeds_mma
    from tilewright.legal.operand_plan import OperandPlan, plan_operand
    from tilewright.legal.repair_plan import Repair
    from tilewright.legal.repairs import repair
    from tilewright.legal.rows import check_im2col_rows, check_rows
    from tilewright.legal.rule import Fields, Rule
    from tilewright.legal.shared_operand import (
        OperandDescriptor,
        decode_tcgen05,
        decode_wgmma,
        encode_tcgen05,
        encode_wgmma,
        layout_of,
    )
    from tilewright.legal.shared_operand_fit import NotEncodable, OperandFit, descriptor_for
    from tilewright.legal.symbolic import SymbolicFinding, SymbolicLegality, decide_fields, prove
    from tilewright.legal.symbolic_map import Dim, SymbolicMap
    from tilewright.legal.tensor_map import TensorMap
    from tilewright.legal.tensor_map_format import DecodedMap, decode_map, encode_map, read_map
    from tilewright.legal.tiled_rules import tiled_rules
    from tilewright.legal.violation import Violation
    from tilewright.legal.want import Want

_HOMES = {
    "CopyLegality": "tilewright.legal.copy_check",
    "check_copy": "tilewright.legal.copy_check",
    "Conflict": "tilewright.legal.conflicts",
    "Cost": "tilewright.legal.costs",
    "DecodedMap": "tilewright.legal.tensor_map_format",
    "DestinationPhase": "tilewright.legal.loaded_tile",
    "Dim": "tilewright.legal.symbolic_map",
    "Engines": "tilewright.legal.engines",
    "Feeds": "tilewright.legal.operand_feed",
    "Fields": "tilewright.legal.rule",
    "Guard": "tilewright.legal.guard",
    "Im2colMap": "tilewright.legal.im2col_map",
    "Im2colWideMap": "tilewright.legal.im2col_map",
    "Legality": "tilewright.legal.legality",
    "NotEncodable": "tilewright.legal.shared_operand_fit",
    "OperandDescriptor": "tilewright.legal.shared_operand",
    "OperandFit": "tilewright.legal.shared_operand_fit",
    "OperandPlan": "tilewright.legal.operand_plan",
    "Repair": "tilewright.legal.repair_plan",
    "Rule": "tilewright.legal.rule",
    "SymbolicFinding": "tilewright.legal.symbolic",
    "SymbolicLegality": "tilewright.legal.symbolic",
    "SymbolicMap": "tilewright.legal.symbolic_map",
    "TensorMap": "tilewright.legal.tensor_map",
    "Violation": "tilewright.legal.violation",
    "Want": "tilewright.legal.want",
    "bank_conflict_ways": "tilewright.legal.box_banks",
    "check": "tilewright.legal.legality",
    "check_im2col_rows": "tilewright.legal.rows",
    "check_rows": "tilewright.legal.rows",
    "decide_fields": "tilewright.legal.symbolic",
    "decode_map": "tilewright.legal.tensor_map_format",
    "decode_tcgen05": "tilewright.legal.shared_operand",
    "decode_wgmma": "tilewright.legal.shared_operand",
    "descriptor_for": "tilewright.legal.shared_operand_fit",
    "destination_phase": "tilewright.legal.loaded_tile",
    "encode_map": "tilewright.legal.tensor_map_format",
    "encode_tcgen05": "tilewright.legal.shared_operand",
    "encode_wgmma": "tilewright.legal.shared_operand",
    "im2col_rules": "tilewright.legal.im2col_rules",
    "im2col_wide_rules": "tilewright.legal.im2col_rules",
    "layout_of": "tilewright.legal.shared_operand",
    "loaded_layout": "tilewright.legal.loaded_tile",
    "parse_expression": "tilewright.layout.condition_parser",
    "parse_where": "tilewright.layout.condition_parser",
    "plan_operand": "tilewright.legal.operand_plan",
    "prove": "tilewright.legal.symbolic",
    "read_map": "tilewright.legal.tensor_map_format",
    "repair": "tilewright.legal.repairs",
    "tiled_rules": "tilewright.legal.tiled_rules",
    "tma_feeds_mma": "tilewright.legal.operand_feed",
}

__all__ = [
    "Conflict",
    "CopyLegality",
    "Cost",
    "DecodedMap",
    "DestinationPhase",
    "Dim",
    "Engines",
    "Feeds",
    "Fields",
    "Guard",
    "Im2colMap",
    "Im2colWideMap",
    "Legality",
    "NotEncodable",
    "OperandDescriptor",
    "OperandFit",
    "OperandPlan",
    "Repair",
    "Rule",
    "SymbolicFinding",
    "SymbolicLegality",
    "SymbolicMap",
    "TensorMap",
    "Violation",
    "Want",
    "bank_conflict_ways",
    "check",
    "check_copy",
    "check_im2col_rows",
    "check_rows",
    "decide_fields",
    "decode_map",
    "decode_tcgen05",
    "decode_wgmma",
    "descriptor_for",
    "destination_phase",
    "encode_map",
    "encode_tcgen05",
    "encode_wgmma",
    "im2col_rules",
    "im2col_wide_rules",
    "layout_of",
    "loaded_layout",
    "parse_expression",
    "parse_where",
    "plan_operand",
    "prove",
    "read_map",
    "repair",
    "tiled_rules",
    "tma_feeds_mma",
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
