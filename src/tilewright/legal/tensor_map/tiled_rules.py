"""Which rules does `cuTensorMapEncodeTiled` enforce? Each once, with its limit from the target's table.

The documented ones and three that were measured: the inner box is a multiple of 16 bytes under every interleave, a
box larger than a multiprocessor's shared memory is refused, and so is an address of 2^57 or more. On sm_90a they agree
with a driver on every row compared. Those of sm_100a (packed elements, swizzle atoms) are the documented ones and were
not compared with a driver; where an element is padded in shared memory, the size of a box counts the padding.

How rules are read: `tilewright.legal.tensor_map.rule`. Not handled: what the driver lets pass and the copy does not
(`cautions`), im2col maps (`im2col_rules`). Checked by: tests/legal/tensor_map/test_tensormap_driver.py.
"""

from __future__ import annotations

from functools import cache, partial

from tilewright.legal.tensor_map.common_rules import (
    Driver,
    address_rules,
    enumeration_rules,
    extent_rules,
    fact_rule,
    packed_format_rules,
    range_rules,
    rank_rules,
    stride_rules,
)
from tilewright.legal.tensor_map.inner_rules import BYTE_BITS, InnerRow, inner_rules, types_by_bits
from tilewright.legal.tensor_map.rule import Fields, Rule, Truth, each, one_of, product
from tilewright.targets import Target

_INNER_BOX = InnerRow("boxDim", 0, "box[0]", "inner box row", lambda fields: fields.box[0])


@cache
def tiled_rules(target: Target, driver: Driver | None = None) -> tuple[Rule, ...]:
    """Every rule of tiled maps on `target`, by code; those about one dimension once for each.

    driver: the version of the driver API, where it is known; what it does not know yet is then a rule too (TM019).
    """
    rules = (
        *enumeration_rules(target, driver),
        *rank_rules(target),
        *address_rules(target),
        *extent_rules(target),
        *stride_rules(target),
        *range_rules(target, "TM014", "box-range", "boxDim", "box extent", "box", "tensor_map.box_extent_max"),
        *inner_rules(target, _INNER_BOX),
        *range_rules(target, "TM017", "element-stride-range", "elementStrides", "element stride", "element_strides",
                     "tensor_map.element_stride_max"),
        *_footprint_rules(target),
        *packed_format_rules(target),
    )  # fmt: skip
    return tuple(sorted(rules, key=lambda rule: (rule.code, -1 if rule.index is None else rule.index)))


def _footprint_rules(target: Target) -> list[Rule]:
    """TM018: the box fits a multiprocessor. One rule for each rank and element width.

    The driver counts each extent divided by its element stride rounded down, that of the inner dimension too, which
    the copy ignores (measured).
    """
    rules: list[Rule] = []
    for bits, types in types_by_bits(target, shared=True).items():
        for rank in range(target.limit("tensor_map.rank_min"), target.limit("tensor_map.rank_max") + 1):
            rules.append(_footprint(target, bits, types, rank))
    return rules


def _footprint(target: Target, bits: int, types: tuple[int, ...], rank: int) -> Rule:
    key = "tensor_map.box_footprint_bytes_max"
    limit = target.limit(key)

    def elements(fields: Fields) -> int:
        return product(fields.box[index] // fields.element_strides[index] for index in range(rank))

    def value(fields: Fields) -> int:
        return elements(fields) * bits // BYTE_BITS

    reads = [f"{name}[{index}]" for name in ("box", "element_strides") for index in range(rank)]
    return fact_rule(
        target, key, "TM018", "box-footprint", "boxDim", ("rank", "dtype", *reads),
        lambda fields: elements(fields) * bits <= limit * BYTE_BITS,
        value,
        lambda fields: f"box of {value(fields)} bytes exceeds the {limit} bytes of shared memory",
        applies=lambda fields: each((fields.rank == rank, one_of(fields.dtype, types))),
        defined=partial(_positive, rank),
    )  # fmt: skip


def _positive(rank: int, fields: Fields) -> Truth:
    return each((fields.box[index] >= 1) & (fields.element_strides[index] >= 1) for index in range(rank))
