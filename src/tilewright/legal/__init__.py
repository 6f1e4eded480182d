"""What the hardware accepts: tensor maps and matrix descriptors judged by a target's facts, every rule broken named.

    from tilewright import legal

    map = legal.TensorMap("bf16", dims=(4096, 100), strides=(8192,), box=(64, 128), swizzle="128B")
    legal.check(map, target="sm_90a").legal

Each name is loaded when it is first asked for: importing the package loads no solver and no NumPy.
Floor 4: imports `base`, `targets`, `layout` and `solve`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.base.lazy_names import lazy_names

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


__getattr__ = lazy_names(
    __name__,
    {
        "tilewright.layout.numbers.condition_parser": "parse_expression parse_where",
        "tilewright.legal.descriptor.operand_feed": "Feeds tma_feeds_mma",
        "tilewright.legal.descriptor.shared_operand": (
            "OperandDescriptor decode_tcgen05 decode_wgmma encode_tcgen05 encode_wgmma layout_of"
        ),
        "tilewright.legal.descriptor.shared_operand_fit": "NotEncodable OperandFit descriptor_for",
        "tilewright.legal.plan.costs": "Cost",
        "tilewright.legal.plan.engines": "Engines",
        "tilewright.legal.plan.operand_plan": "OperandPlan plan_operand",
        "tilewright.legal.plan.repair_plan": "Repair",
        "tilewright.legal.plan.repairs": "repair",
        "tilewright.legal.plan.want": "Want",
        "tilewright.legal.symbolic.guard": "Guard",
        "tilewright.legal.symbolic.symbolic": "SymbolicFinding SymbolicLegality prove",
        "tilewright.legal.symbolic.symbolic_map": "Dim SymbolicMap",
        "tilewright.legal.tensor_map.conflicts": "Conflict",
        "tilewright.legal.tensor_map.copy_check": "CopyLegality check_copy",
        "tilewright.legal.tensor_map.im2col_map": "Im2colMap Im2colWideMap",
        "tilewright.legal.tensor_map.im2col_rules": "im2col_rules im2col_wide_rules",
        "tilewright.legal.tensor_map.legality": "Legality check",
        "tilewright.legal.tensor_map.loaded_tile": "loaded_layout",
        "tilewright.legal.tensor_map.rows": "check_im2col_rows check_rows",
        "tilewright.legal.tensor_map.rule": "Fields Rule",
        "tilewright.legal.tensor_map.tensor_map": "TensorMap",
        "tilewright.legal.tensor_map.tensor_map_format": "DecodedMap decode_map encode_map read_map",
        "tilewright.legal.tensor_map.tiled_rules": "tiled_rules",
        "tilewright.legal.tensor_map.violation": "Violation",
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
