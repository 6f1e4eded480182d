"""Which rules does `cuTensorMapEncodeIm2col` enforce? Each once, with its limit from the target's table.

An im2col map has no box: the corners of a box of pixels, channels for each pixel, and pixels for each column. Shared
with tiled maps are the rules of enumerations, address, extents, strides, element strides and, for the channels, those
of the inner row (`common_rules`, `inner_rules`). The wide maps of later architectures, along W alone, have rules of
their own beside them.

Measured, and stated nowhere: a column larger than a multiprocessor's shared memory is refused, with every interleave;
the end of the box of pixels is counted as a signed word of 32 bits; the spatial dimensions of interleaved maps are the
first ones.

Source: CUDA Driver API, cuTensorMapEncodeIm2col and cuTensorMapEncodeIm2colWide; the wide ones as documented, not
compared with a driver. How rules are read: `tilewright.legal.tensor_map.rule`. Checked by:
tests/legal/tensor_map/test_im2col.py, and tests/legal/tensor_map/test_im2col_driver.py against a driver.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tilewright.legal.tensor_map.common_rules import (
    Driver,
    address_rules,
    enumeration_rules,
    extent_rules,
    fact_rule,
    in_rank,
    packed_format_rules,
    packed_swizzle_rule,
    range_rules,
    rank_rules,
    since,
    stride_rules,
)
from tilewright.legal.tensor_map.enumerations import (
    INTERLEAVE_16B,
    INTERLEAVE_32B,
    INTERLEAVE_NONE,
    PADDED_TYPES,
    SWIZZLES,
    WIDE_COUNTED,
    WIDE_FIXED,
    WIDE_PIXELS,
)
from tilewright.legal.tensor_map.inner_rules import BYTE_BITS, InnerRow, inner_rules, types_by_bits
from tilewright.legal.tensor_map.rule import Fields, Rule, Term, Truth, always, each, never, one_of, within
from tilewright.targets import Target

_CHANNELS = InnerRow("channelsPerPixel", None, "channels_per_pixel", "row", lambda fields: fields.channels_per_pixel)


@cache
def im2col_rules(target: Target, driver: Driver | None = None) -> tuple[Rule, ...]:
    """Every rule of im2col maps on `target`, by code; those about one dimension once for each."""
    return _by_code((
        *_shared_rules(target, driver),
        *packed_format_rules(target),
        _pixels_rule(target, always),
        *_footprint_rules(target, _counted_pixels, always),
        *_corner_rules(target),
    ))  # fmt: skip


@cache
def im2col_wide_rules(target: Target, driver: Driver | None = None) -> tuple[Rule, ...]:
    """Every rule of im2col maps along W on `target`, by code. Where the target has no such maps, that rule alone."""
    if not target.supports("im2col_wide"):
        return (_no_wide_maps(target),)
    corners = target.limits("tensor_map.im2col_corner_limits")
    return _by_code((
        *_shared_rules(target, driver),
        *_wide_version_rules(target, driver),
        _wide_mode_rule(target),
        _wide_swizzle_rule(target),
        *(packed_swizzle_rule(target, number, "_wide_swizzles") for number in PADDED_TYPES),
        _pixels_rule(target, _is_counted),
        *_footprint_rules(target, _counted_pixels, _is_counted),
        *_footprint_rules(target, lambda fields: WIDE_PIXELS, lambda fields: fields.wide_mode == WIDE_FIXED),
        _corner(target, "pixelBoxLowerCornerWidth", "lower_corner", 0, None, corners[0]),
        _corner(target, "pixelBoxUpperCornerWidth", "upper_corner", 0, None, corners[0]),
        *_areas(target, 0, None),
    ))  # fmt: skip


def _by_code(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    return tuple(sorted(rules, key=lambda rule: (rule.code, -1 if rule.index is None else rule.index)))


def _shared_rules(target: Target, driver: Driver | None) -> tuple[Rule, ...]:
    return (
        *enumeration_rules(target, driver),
        *rank_rules(target, low_key="tensor_map.im2col_rank_min"),
        *address_rules(target),
        *extent_rules(target),
        *stride_rules(target),
        *range_rules(target, "TM017", "element-stride-range", "elementStrides", "element stride", "element_strides",
                     "tensor_map.element_stride_max"),
        *inner_rules(target, _CHANNELS),
        _count_rule(target, "TM024", "channels-range", "channelsPerPixel", "channels_per_pixel",
                    "tensor_map.im2col_channels_max", always),
    )  # fmt: skip


def _is_counted(fields: Fields) -> Truth:
    return fields.wide_mode == WIDE_COUNTED


def _no_wide_maps(target: Target) -> Rule:
    return fact_rule(
        target, "feature.im2col_wide", "TM028", "im2col-wide", "tensorMap", ("wide_mode",),
        never,
        lambda fields: fields.wide_mode,
        lambda fields: f"{target.name} has no im2col maps along W alone: its driver makes a plain im2col map of it",
        limit=0,
        enforced=False,
    )  # fmt: skip


def _wide_version_rules(target: Target, driver: Driver | None) -> tuple[Rule, ...]:
    first = since(target, "feature.im2col_wide")
    if driver is None or driver >= first:
        return ()
    return (
        fact_rule(
            target, "feature.im2col_wide", "TM019", "driver-version", "tensorMap", ("wide_mode",),
            never,
            lambda fields: fields.wide_mode,
            lambda fields: (
                f"im2col maps along W are known from CUDA {first[0]}.{first[1]} on, not to {driver[0]}.{driver[1]}"
            ),
            limit=first[0] * 1000 + first[1] * 10,
        ),
    )  # fmt: skip


def _wide_mode_rule(target: Target) -> Rule:
    last = target.limit("tensor_map.im2col_wide_mode_max")
    return fact_rule(
        target, "tensor_map.im2col_wide_mode_max", "TM029", "wide-mode", "mode", ("wide_mode",),
        lambda fields: within(fields.wide_mode, 0, last),
        lambda fields: fields.wide_mode,
        lambda fields: f"mode {fields.wide_mode} is not one of the values 0 to {last}",
    )  # fmt: skip


def _wide_swizzle_rule(target: Target) -> Rule:
    allowed = target.limits("tensor_map.im2col_wide_swizzles")
    named = ", ".join(SWIZZLES[swizzle] for swizzle in allowed)
    last = target.limit("tensor_map.swizzle_max")

    def message(fields: Fields) -> str:
        value: int = fields.swizzle
        return f"swizzle {SWIZZLES[value]} is not taken by im2col maps along W, which take {named}"

    return fact_rule(
        target, "tensor_map.im2col_wide_swizzles", "TM030", "wide-swizzle", "swizzle", ("swizzle",),
        lambda fields: one_of(fields.swizzle, allowed),
        lambda fields: fields.swizzle,
        message,
        limit=allowed[-1],
        applies=lambda fields: within(fields.swizzle, 0, last),
    )  # fmt: skip


def _pixels_rule(target: Target, applies: Callable[[Fields], Truth]) -> Rule:
    return _count_rule(target, "TM025", "pixels-range", "pixelsPerColumn", "pixels_per_column",
                       "tensor_map.im2col_pixels_max", applies)  # fmt: skip


def _count_rule(
    target: Target, code: str, name: str, field: str, attribute: str, key: str, applies: Callable[[Fields], Truth]
) -> Rule:
    limit = target.limit(key)

    def value(fields: Fields) -> Term:
        return getattr(fields, attribute)

    return fact_rule(
        target, key, code, name, field, (attribute,),
        lambda fields: within(value(fields), 1, limit),
        value,
        lambda fields: f"{field} {value(fields)} is not between 1 and {limit}",
        applies=applies,
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
            rules += _areas(target, index, rank)
    return rules


def _rank_is(rank: int | None) -> Callable[[Fields], Truth]:
    return always if rank is None else lambda fields: fields.rank == rank


def _corner(target: Target, field: str, attribute: str, index: int, rank: int | None, limit: int) -> Rule:
    def value(fields: Fields) -> Term:
        return getattr(fields, attribute)[index]

    of = "along W" if rank is None else f"of rank {rank}"
    return fact_rule(
        target, "tensor_map.im2col_corner_limits", "TM026", "corner-range", field, ("rank", f"{attribute}[{index}]"),
        lambda fields: within(value(fields), -limit, limit - 1),
        value,
        lambda fields: f"{field} {value(fields)} is not between {-limit} and {limit - 1}, the range {of}",
        index=index, limit=limit, applies=_rank_is(rank),
    )  # fmt: skip


def _areas(target: Target, index: int, rank: int | None) -> tuple[Rule, Rule]:
    """TM027 of one spatial dimension: it is dimension `index` of interleaved maps, and the next one of others."""
    exists = _rank_is(rank)

    def plain(fields: Fields) -> Truth:
        return each((exists(fields), in_rank(index + 1, fields), fields.interleave == INTERLEAVE_NONE))

    def interleaved(fields: Fields) -> Truth:
        return each(
            (exists(fields), in_rank(index, fields), one_of(fields.interleave, (INTERLEAVE_16B, INTERLEAVE_32B)))
        )

    return _area(target, index, index + 1, plain), _area(target, index, index, interleaved)


def _area(target: Target, index: int, dimension: int, applies: Callable[[Fields], Truth]) -> Rule:
    """The box of pixels ends above where it begins; the driver counts its end as a signed word (measured)."""
    word = target.limit("tensor_map.im2col_pixel_box_limit")

    def end(fields: Fields) -> Term:
        return (fields.dims[dimension] + fields.upper_corner[index] + word) % (2 * word) - word

    def message(fields: Fields) -> str:
        lower: int = fields.lower_corner[index]
        total: int = fields.dims[dimension] + fields.upper_corner[index]
        if total >= word:
            return f"the box of pixels ends at {total} in dimension {dimension}, which is no signed 32-bit number"
        return f"the box of pixels is empty in dimension {dimension}: it begins at {lower} and ends before {total}"

    return fact_rule(
        target, "tensor_map.im2col_pixel_box_limit", "TM027", "pixel-box-extent", "pixelBoxUpperCorner",
        ("rank", "interleave", f"dims[{dimension}]", f"lower_corner[{index}]", f"upper_corner[{index}]"),
        lambda fields: fields.lower_corner[index] < end(fields),
        lambda fields: fields.dims[dimension] + fields.upper_corner[index] - fields.lower_corner[index],
        message,
        index=index, applies=applies,
    )  # fmt: skip


def _footprint_rules(
    target: Target, pixels: Callable[[Fields], Term], applies: Callable[[Fields], Truth]
) -> list[Rule]:
    """TM018 for each width of elements: the column fits a multiprocessor (measured)."""
    key = "tensor_map.box_footprint_bytes_max"
    limit = target.limit(key)

    def of(bits: int, types: tuple[int, ...]) -> Rule:
        def column_bytes(fields: Fields) -> int:
            return fields.channels_per_pixel * pixels(fields) * bits // BYTE_BITS

        return fact_rule(
            target, key, "TM018", "box-footprint", "pixelsPerColumn",
            ("dtype", "channels_per_pixel", "pixels_per_column", "wide_mode"),
            lambda fields: fields.channels_per_pixel * pixels(fields) * bits <= limit * BYTE_BITS,
            column_bytes,
            lambda fields: f"column of {column_bytes(fields)} bytes exceeds the {limit} bytes of shared memory",
            applies=lambda fields: each((one_of(fields.dtype, types), applies(fields))),
        )  # fmt: skip

    return [of(bits, types) for bits, types in types_by_bits(target, shared=True).items()]


def _counted_pixels(fields: Fields) -> Term:
    return fields.pixels_per_column
