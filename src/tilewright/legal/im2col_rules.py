"""Which rules does `cuTensorMapEncodeIm2col` enforce? Each once, with its limit from the target's table.

An im2col map has no box: the corners of a box of pixels, channels for each pixel, and pixels for each column. Shared
with tiled maps are the rules of enumerations, address, extents, strides, element strides and, for the channels, those
of the inner row (`common_rules`, `inner_rules`).

Source: CUDA Driver API, cuTensorMapEncodeIm2col. How rules are read: `tilewright.legal.rule`. Checked by:
tests/legal/test_im2col.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tilewright.legal.common_rules import (
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
from tilewright.legal.inner_rules import InnerRow, inner_rules
from tilewright.legal.rule import Fields, Rule, Term, within
from tilewright.targets import Target

_CHANNELS = InnerRow("channelsPerPixel", None, "channels_per_pixel", "row", lambda fields: fields.channels_per_pixel)


@cache
def im2col_rules(target: Target, driver: Driver | None = None) -> tuple[Rule, ...]:
    """Every rule of im2col maps on `target`, by code; those about one dimension once for each."""
    rules = (
        *enumeration_rules(target, driver),
        *rank_rules(target, low_key="tensor_map.im2col_rank_min"),
        *address_rules(target),
        *extent_rules(target),
        *stride_rules(target),
        *range_rules(target, "TM017", "element-stride-range", "elementStrides", "element stride", "element_strides",
                     "tensor_map.element_stride_max"),
        *inner_rules(target, _CHANNELS),
        *packed_format_rules(target),
        _count_rule(target, "TM024", "channels-range", "channelsPerPixel", "channels_per_pixel",
                    "tensor_map.im2col_channels_max"),
        _count_rule(target, "TM025", "pixels-range", "pixelsPerColumn", "pixels_per_column",
                    "tensor_map.im2col_pixels_max"),
        *_corner_rules(target),
    )  # fmt: skip
    return tuple(sorted(rules, key=lambda rule: (rule.code, -1 if rule.index is None else rule.index)))


def _count_rule(target: Target, code: str, name: str, field: str, attribute: str, key: str) -> Rule:
    limit = target.limit(key)

    def value(fields: Fields) -> Term:
        return getattr(fields, attribute)

    return fact_rule(
        target, key, code, name, field, (attribute,),
        lambda fields: within(value(fields), 1, limit),
        value,
        lambda fields: f"{field} {value(fields)} is not between 1 and {limit}",
    )  # fmt: skip


def _corner_rules(target: Target) -> list[Rule]:
    """TM026 and TM027: each corner is in the range that the rank leaves it, and the box of pixels is not empty."""
    rules: list[Rule] = []
    limits = target.limits("tensor_map.im2col_corner_limits")
    low_rank = target.limit("tensor_map.im2col_rank_min")
    for rank, limit in enumerate(limits, low_rank):
        for index in range(rank - 2):
            rules.append(_corner(target, "pixelBoxLowerCorner", "lower_corner", index, rank, limit))
            rules.append(_corner(target, "pixelBoxUpperCorner", "upper_corner", index, rank, limit))
            rules.append(_area(target, index, rank))
    return rules


def _rank_is(rank: int) -> Callable[[Fields], Term]:
    return lambda fields: fields.rank == rank


def _corner(target: Target, field: str, attribute: str, index: int, rank: int, limit: int) -> Rule:
    def value(fields: Fields) -> Term:
        return getattr(fields, attribute)[index]

    return fact_rule(
        target, "tensor_map.im2col_corner_limits", "TM026", "corner-range", field, ("rank", f"{attribute}[{index}]"),
        lambda fields: within(value(fields), -limit, limit - 1),
        value,
        lambda fields: f"{field} {value(fields)} is not between {-limit} and {limit - 1}, the range of rank {rank}",
        index=index, limit=limit, applies=_rank_is(rank),
    )  # fmt: skip


def _area(target: Target, index: int, rank: int) -> Rule:
    def extent(fields: Fields) -> Term:
        return fields.dims[index + 1] + fields.upper_corner[index] - fields.lower_corner[index]

    return fact_rule(
        target, "tensor_map.im2col_pixel_box_min", "TM027", "pixel-box-empty", "pixelBoxUpperCorner",
        ("rank", f"dims[{index + 1}]", f"lower_corner[{index}]", f"upper_corner[{index}]"),
        lambda fields: extent(fields) >= 1,
        extent,
        lambda fields: f"the box of pixels has extent {extent(fields)} in dimension {index + 1}",
        index=index, applies=_rank_is(rank),
    )  # fmt: skip
