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
    from tilewright.layout.numbers.condition_parser import parse_expression, parse_where
    from tilewright.legal.descriptor.operand_feed import Feeds, tma_feeds_mma
    from tilewright.legal.descriptor.shared_operand import (
        OperandDescriptor,
        decode_tcgen05,
        decode_wgmma,
        encode_tcgen05,
        encode_wgmma,
        layout_of,
    )
    from tilewright.legal.descriptor.shared_operand_fit import NotEncodable, OperandFit, descriptor_for
    from tilewright.legal.plan.costs import Cost
    from tilewright.legal.plan.engines import Engines
    from tilewright.legal.plan.operand_plan import OperandPlan, plan_operand
    from tilewright.legal.plan.repair_plan import Repair
    from tilewright.legal.plan.repairs import repair
    from tilewright.legal.plan.want import Want
    from tilewright.legal.symbolic.guard import Guard
    from tilewright.legal.symbolic.symbolic import SymbolicFinding, SymbolicLegality, prove
    from tilewright.legal.symbolic.symbolic_map import Dim, SymbolicMap
    from tilewright.legal.tensor_map.conflicts import Conflict
    from tilewright.legal.tensor_map.copy_check import CopyLegality, check_copy
    from tilewright.legal.tensor_map.im2col_map import Im2colMap, Im2colWideMap
    from tilewright.legal.tensor_map.im2col_rules import im2col_rules, im2col_wide_rules
    from tilewright.legal.tensor_map.legality import Legality, check
    from tilewright.legal.tensor_map.loaded_tile import loaded_layout
    from tilewright.legal.tensor_map.rows import check_im2col_rows, check_rows
    from tilewright.legal.tensor_map.rule import Fields, Rule
    from tilewright.legal.tensor_map.tensor_map import TensorMap
    from tilewright.legal.tensor_map.tensor_map_format import DecodedMap, decode_map, encode_map, read_map
    from tilewright.legal.tensor_map.tiled_rules import tiled_rules
    from tilewright.legal.tensor_map.violation import Violation

_HOMES = {
    "CopyLegality": "tilewright.legal.tensor_map.copy_check",
    "check_copy": "tilewright.legal.tensor_map.copy_check",
    "Conflict": "tilewright.legal.tensor_map.conflicts",
    "Cost": "tilewright.legal.plan.costs",
    "DecodedMap": "tilewright.legal.tensor_map.tensor_map_format",
    "Dim": "tilewright.legal.symbolic.symbolic_map",
    "Engines": "tilewright.legal.plan.engines",
    "Feeds": "tilewright.legal.descriptor.operand_feed",
    "Fields": "tilewright.legal.tensor_map.rule",
    "Guard": "tilewright.legal.symbolic.guard",
    "Im2colMap": "tilewright.legal.tensor_map.im2col_map",
    "Im2colWideMap": "tilewright.legal.tensor_map.im2col_map",
    "Legality": "tilewright.legal.tensor_map.legality",
    "NotEncodable": "tilewright.legal.descriptor.shared_operand_fit",
    "OperandDescriptor": "tilewright.legal.descriptor.shared_operand",
    "OperandFit": "tilewright.legal.descriptor.shared_operand_fit",
    "OperandPlan": "tilewright.legal.plan.operand_plan",
    "Repair": "tilewright.legal.plan.repair_plan",
    "Rule": "tilewright.legal.tensor_map.rule",
    "SymbolicFinding": "tilewright.legal.symbolic.symbolic",
    "SymbolicLegality": "tilewright.legal.symbolic.symbolic",
    "SymbolicMap": "tilewright.legal.symbolic.symbolic_map",
    "TensorMap": "tilewright.legal.tensor_map.tensor_map",
    "Violation": "tilewright.legal.tensor_map.violation",
    "Want": "tilewright.legal.plan.want",
    "check": "tilewright.legal.tensor_map.legality",
    "check_im2col_rows": "tilewright.legal.tensor_map.rows",
    "check_rows": "tilewright.legal.tensor_map.rows",
    "decode_map": "tilewright.legal.tensor_map.tensor_map_format",
    "decode_tcgen05": "tilewright.legal.descriptor.shared_operand",
    "decode_wgmma": "tilewright.legal.descriptor.shared_operand",
    "descriptor_for": "tilewright.legal.descriptor.shared_operand_fit",
    "encode_map": "tilewright.legal.tensor_map.tensor_map_format",
    "encode_tcgen05": "tilewright.legal.descriptor.shared_operand",
    "encode_wgmma": "tilewright.legal.descriptor.shared_operand",
    "im2col_rules": "tilewright.legal.tensor_map.im2col_rules",
    "im2col_wide_rules": "tilewright.legal.tensor_map.im2col_rules",
    "layout_of": "tilewright.legal.descriptor.shared_operand",
    "loaded_layout": "tilewright.legal.tensor_map.loaded_tile",
    "parse_expression": "tilewright.layout.numbers.condition_parser",
    "parse_where": "tilewright.layout.numbers.condition_parser",
    "plan_operand": "tilewright.legal.plan.operand_plan",
    "prove": "tilewright.legal.symbolic.symbolic",
    "read_map": "tilewright.legal.tensor_map.tensor_map_format",
    "repair": "tilewright.legal.plan.repairs",
    "tiled_rules": "tilewright.legal.tensor_map.tiled_rules",
    "tma_feeds_mma": "tilewright.legal.descriptor.operand_feed",
}

__all__ = [
    "Conflict",
    "CopyLegality",
    "Cost",
    "DecodedMap",
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
    "check",
    "check_copy",
    "check_im2col_rows",
    "check_rows",
    "decode_map",
    "decode_tcgen05",
    "decode_wgmma",
    "descriptor_for",
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
