"""Which rules does `cuTensorMapEncodeTiled` enforce? Each once, with its limit from the target's table.

The documented ones and three that were measured: the inner box is a multiple of 16 bytes under every interleave, a
box larger than a multiprocessor's shared memory is refused, and so is an address of 2^57 or more. On sm_90a they agree
with a driver on every row compared. Those of sm_100a (packed elements, swizzle atoms) are the documented ones and were
not compared with a driver; where an element is padded in shared memory, the size of a box counts the padding.

How rules are read: `tilewright.legal.rule`. Not handled: what the driver lets pass and the copy does not (`cautions`),
im2col maps (`im2col_rules`). Checked by: tests/legal/test_tensormap_driver.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from tilewright.legal.common_rules import (
    Driver,
    address_rules,
    enumeration_rules,
    extent_rules,
    fact_rule,
    in_rank,
    packed_format_rules,
    range_rules,
    rank_rules,
    stride_rules,
)
from tilewright.legal.enumerations import DATA_TYPES, INTERLEAVE_NONE, PADDED_TYPES, SWIZZLE_NONE
from tilewright.legal.rule import Fields, Rule, Term, Truth, each, one_of, product
from tilewright.targets import Target

_BITS = 8


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
        *_inner_box_rules(target),
        *_span_rules(target),
        *range_rules(target, "TM017", "element-stride-range", "elementStrides", "element stride", "element_strides",
                     "tensor_map.element_stride_max"),
        *_footprint_rules(target),
        *packed_format_rules(target),
    )  # fmt: skip
    return tuple(sorted(rules, key=lambda rule: (rule.code, -1 if rule.index is None else rule.index)))


def types_by_bits(target: Target, *, shared: bool = False) -> dict[int, tuple[int, ...]]:
    """The target's data types, by bits of one element in global memory, or in shared memory."""
    groups: dict[int, tuple[int, ...]] = {}
    for number, each_type in enumerate(DATA_TYPES[: target.limit("tensor_map.data_type_max") + 1]):
        bits = each_type.shared_bits if shared else each_type.global_bits
        groups[bits] = (*groups.get(bits, ()), number)
    return groups


def _inner_box_rules(target: Target) -> list[Rule]:
    """TM015 for each width of elements, and TM021 for padded packed ones, whose inner box is one size."""
    rules: list[Rule] = []
    key = "tensor_map.box_inner_multiple_bytes"
    multiple = target.limit(key)
    for bits, types in types_by_bits(target).items():
        plain = tuple(number for number in types if number not in PADDED_TYPES)
        if plain:
            rules.append(_inner_multiple(target, key, multiple, bits, plain))
    if target.supports("packed_tensor_elements"):
        rules.append(padded_inner_rule(target, "boxDim", "box[0]", lambda fields: fields.box[0]))
    return rules


def _inner_multiple(target: Target, key: str, multiple: int, bits: int, types: tuple[int, ...]) -> Rule:
    # An element of a whole number of bytes, or a multiple of bytes that is one for such a number of elements.
    unit, count = (bits // _BITS, multiple) if bits % _BITS == 0 else (1, multiple * _BITS // bits)

    def message(fields: Fields) -> str:
        row = (
            f"{fields.box[0] * bits // _BITS} bytes"
            if fields.box[0] * bits % _BITS == 0
            else f"{fields.box[0]} elements"
        )
        return f"inner box row of {row} is not a multiple of {multiple}{'' if row.endswith('bytes') else ' bytes'}"

    return fact_rule(
        target, key, "TM015", "box-inner-multiple", "boxDim", ("rank", "dtype", "box[0]"),
        lambda fields: fields.box[0] * unit % count == 0,
        lambda fields: fields.box[0] * bits // _BITS,
        message,
        index=0,
        applies=lambda fields: one_of(fields.dtype, types) & in_rank(0, fields),
    )  # fmt: skip


def padded_inner_rule(target: Target, field: str, read: str, inner: Callable[[Fields], Term]) -> Rule:
    """TM021: padded packed elements move in rows of one size. inner: the entry of `Fields` that says how many."""
    key = "tensor_map.padded_inner_elements"
    count = target.limit(key)
    return fact_rule(
        target, key, "TM021", "packed-inner-extent", field, ("rank", "dtype", read),
        lambda fields: inner(fields) == count,
        inner,
        lambda fields: f"inner row of {inner(fields)} elements is not {count}, which this packed type needs",
        index=0,
        applies=lambda fields: one_of(fields.dtype, PADDED_TYPES) & in_rank(0, fields),
    )  # fmt: skip


def _span_rules(target: Target) -> list[Rule]:
    """TM016: without interleave, the inner row fits the swizzle's span. One rule for each span and element width."""
    rules: list[Rule] = []
    spans = target.limits("tensor_map.swizzle_span_bytes")
    for bits, types in types_by_bits(target, shared=True).items():
        for span in sorted(set(spans) - {0}):
            swizzles = tuple(number for number in range(SWIZZLE_NONE + 1, len(spans)) if spans[number] == span)
            rules.append(_span(target, bits, types, swizzles, span))
    return rules


def _span(target: Target, bits: int, types: tuple[int, ...], swizzles: tuple[int, ...], span: int) -> Rule:
    def applies(fields: Fields) -> Truth:
        plain = (fields.interleave == INTERLEAVE_NONE) & one_of(fields.swizzle, swizzles)
        return plain & one_of(fields.dtype, types) & in_rank(0, fields)

    return fact_rule(
        target, "tensor_map.swizzle_span_bytes", "TM016", "box-span", "boxDim",
        ("rank", "dtype", "interleave", "swizzle", "box[0]"),
        lambda fields: fields.box[0] * bits <= span * _BITS,
        lambda fields: fields.box[0] * bits // _BITS,
        lambda fields: (
            f"inner box row of {fields.box[0] * bits // _BITS} bytes exceeds the swizzle's span of {span}"
        ),
        index=0, limit=span, applies=applies,
    )  # fmt: skip


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
        return elements(fields) * bits // _BITS

    reads = [f"{name}[{index}]" for name in ("box", "element_strides") for index in range(rank)]
    return fact_rule(
        target, key, "TM018", "box-footprint", "boxDim", ("rank", "dtype", *reads),
        lambda fields: elements(fields) * bits <= limit * _BITS,
        value,
        lambda fields: f"box of {value(fields)} bytes exceeds the {limit} bytes of shared memory",
        applies=lambda fields: (fields.rank == rank) & one_of(fields.dtype, types),
        defined=partial(_positive, rank),
    )  # fmt: skip


def _positive(rank: int, fields: Fields) -> Truth:
    return each((fields.box[index] >= 1) & (fields.element_strides[index] >= 1) for index in range(rank))
