"""Which rules do tiled and im2col tensor maps share? Enumerations, rank, address, extents, strides, element strides.

Source: CUDA Driver API, cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col; the limits are rows of the target's table
in the group `tensor_map`. Each function gives the rules of one argument, one rule for each entry that a rank of 5 has;
a rule about dimension i applies where the rank is above i.

Rules of packed elements (4 and 6 bits) and the wide alignment of interleave 32B are stated beside the general ones
they sharpen: both hold, and a report names the sharper. Not handled here: boxes, corners, pixels. Checked by:
tests/legal/tensor_map/test_tensormap_driver.py, against a driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from re import fullmatch
from typing import SupportsIndex

from tilewright.base.error import TilewrightError
from tilewright.legal.argument import integer, shown
from tilewright.legal.tensor_map.enumerations import (
    DATA_TYPES,
    FILL_NAN,
    INTERLEAVE_32B,
    INTERLEAVE_NONE,
    PACKED_TYPES,
    PADDED_TYPES,
    SWIZZLES,
    U6X16_ALIGN16,
)
from tilewright.legal.tensor_map.rule import Fields, Rule, Truth, always, each, never, one_of, within
from tilewright.targets import Target

Driver = tuple[int, int]
"""A version of the driver API, such as (12, 8)."""


def driver_version(driver: object) -> Driver | None:
    """`driver` as (major, minor): None, a pair, the number that `cuDriverGetVersion` answers, such as 12080, or what
    people write, 12.8 or "12.8".

    Raises TilewrightError for anything else.
    """
    if not isinstance(driver, int) and isinstance(driver, SupportsIndex) and not isinstance(driver, Iterable):
        driver = integer("driver", driver, "check")
    match driver:
        case None:
            return None
        case bool():
            pass
        case int() if 1000 <= driver < 1000000:
            return driver // 1000, driver % 1000 // 10
        case (int() as major, int() as minor) if 0 < major < 1000 and 0 <= minor < 100:
            return major, minor
        case float() | str():
            written = fullmatch(r"(\d{1,3})\.(\d{1,2})", str(driver))
            if written is not None and int(written[1]) > 0:
                return int(written[1]), int(written[2])
        case _:
            pass
    raise TilewrightError(
        f"driver version {shown(driver)} is not understood", remedy="give (major, minor), or a number such as 13000"
    )


def since(target: Target, key: str) -> Driver:
    """The CUDA version from which the fact `key` holds. Raises TilewrightError where the fact states none."""
    stated = fullmatch(r"CUDA (\d+)\.(\d+)", target.fact(key).since)
    if stated is None:
        raise TilewrightError(f"{target.name}: {key!r} states no CUDA version")
    return int(stated[1]), int(stated[2])


def in_rank(index: int, fields: Fields) -> Truth:
    """Whether dimension `index` exists."""
    return fields.rank > index


def fact_rule(
    target: Target,
    key: str,
    code: str,
    name: str,
    field: str,
    reads: tuple[str, ...],
    holds: Callable[[Fields], Truth],
    value: Callable[[Fields], int],
    message: Callable[[Fields], str],
    *,
    index: int | None = None,
    limit: int | None = None,
    applies: Callable[[Fields], Truth] = always,
    defined: Callable[[Fields], Truth] = always,
    source: str = "",
    enforced: bool = True,
) -> Rule:
    """A rule whose limit is the target's fact `key` (or `limit`, one number of it)."""
    fact = target.fact(key)
    return Rule(
        code=code,
        name=name,
        field=field,
        index=index,
        key=key,
        limit=target.limit(key) if limit is None else limit,
        source=source or fact.source,
        reads=frozenset(reads),
        applies=applies,
        holds=holds,
        value=value,
        message=message,
        defined=defined,
        enforced=enforced,
    )


def enumeration_rules(target: Target, driver: Driver | None) -> tuple[Rule, ...]:
    """TM001 to TM006 and TM019: each enumeration has a value that the target and the driver know."""
    rules: list[Rule] = []
    for code, name, field, attribute, key in (
        ("TM001", "data-type", "tensorDataType", "dtype", "tensor_map.data_type_max"),
        ("TM002", "interleave", "interleave", "interleave", "tensor_map.interleave_max"),
        ("TM003", "swizzle", "swizzle", "swizzle", "tensor_map.swizzle_max"),
        ("TM004", "l2-promotion", "l2Promotion", "l2_promotion", "tensor_map.l2_promotion_max"),
        ("TM005", "out-of-bounds-fill", "oobFill", "oob_fill", "tensor_map.out_of_bounds_max"),
    ):
        limit = target.limit(key)

        def holds(fields: Fields, attribute: str = attribute, limit: int = limit) -> Truth:
            return within(getattr(fields, attribute), 0, limit)

        def value(fields: Fields, attribute: str = attribute) -> int:
            return getattr(fields, attribute)

        def message(fields: Fields, field: str = field, attribute: str = attribute, limit: int = limit) -> str:
            number = getattr(fields, attribute)
            return f"{field} {number} is not one of the values 0 to {limit} that {target.name} has"

        rules.append(fact_rule(target, key, code, name, field, (attribute,), holds, value, message))
    return (*rules, _nan_rule(target), *_version_rules(target, driver))


def _nan_rule(target: Target) -> Rule:
    floats = tuple(number for number, each in enumerate(DATA_TYPES) if each.is_float)
    last = target.limit("tensor_map.data_type_max")

    def message(fields: Fields) -> str:
        number: int = fields.dtype
        return f"NaN fill needs a floating-point element, not {DATA_TYPES[number].driver_name}"

    return fact_rule(
        target,
        "tensor_map.out_of_bounds_max",
        "TM006",
        "nan-fill-of-integers",
        "oobFill",
        ("oob_fill", "dtype"),
        lambda fields: one_of(fields.dtype, floats),
        lambda fields: fields.oob_fill,
        message,
        limit=0,
        applies=lambda fields: each((fields.oob_fill == FILL_NAN, within(fields.dtype, 0, last))),
        source="CUDA Driver API, cuTensorMapEncodeTiled: oobFill, NAN_REQUEST_ZERO_FMA",
    )


def _version_rules(target: Target, driver: Driver | None) -> list[Rule]:
    """TM019: what a driver of this version does not know yet. None where the version is not given."""
    if driver is None:
        return []
    oldest = since(target, "tensor_map.bytes")
    if driver < oldest:
        return [
            fact_rule(
                target, "tensor_map.bytes", "TM019", "driver-version", "tensorMap", ("dtype",),
                never,
                lambda fields: fields.dtype,
                lambda fields: (
                    f"tensor maps are known from CUDA {oldest[0]}.{oldest[1]} on, not to {driver[0]}.{driver[1]}"
                ),
                limit=oldest[0] * 1000 + oldest[1] * 10,
            )
        ]  # fmt: skip
    rules: list[Rule] = []
    newer: list[tuple[str, str, tuple[int, ...], tuple[str, ...], str]] = []
    if target.supports("packed_tensor_elements"):
        names = tuple(each.driver_name for each in DATA_TYPES)
        newer.append(("dtype", "tensorDataType", PACKED_TYPES, names, "feature.packed_tensor_elements"))
    if target.supports("swizzle_atomicity"):
        atoms = tuple(number for number, name in enumerate(SWIZZLES) if "atom" in name)
        newer.append(("swizzle", "swizzle", atoms, tuple(SWIZZLES), "feature.swizzle_atomicity"))
    for attribute, field, numbers, names, key in newer:
        first = since(target, key)
        if driver >= first:
            continue
        known = [number for number in range(len(names)) if number not in numbers]

        def holds(fields: Fields, attribute: str = attribute, known: list[int] = known) -> Truth:
            return one_of(getattr(fields, attribute), known)

        def applies(fields: Fields, attribute: str = attribute, last: int = len(names) - 1) -> Truth:
            return within(getattr(fields, attribute), 0, last)

        def value(fields: Fields, attribute: str = attribute) -> int:
            return getattr(fields, attribute)

        def message(
            fields: Fields,
            field: str = field,
            attribute: str = attribute,
            names: tuple[str, ...] = names,
            first: Driver = first,
        ) -> str:
            number: int = getattr(fields, attribute)
            name = names[number]
            return f"{field} {name} is known from CUDA {first[0]}.{first[1]} on, not to {driver[0]}.{driver[1]}"

        limit = first[0] * 1000 + first[1] * 10
        rule = fact_rule(
            target, key, "TM019", "driver-version", field, (attribute,), holds, value, message,
            limit=limit, applies=applies,
        )  # fmt: skip
        rules.append(rule)
    return rules


def rank_rules(target: Target, *, low_key: str = "tensor_map.rank_min") -> tuple[Rule, ...]:
    """TM007 and TM008: the rank is in range, and enough for an interleaved layout."""
    low, high = target.limit(low_key), target.limit("tensor_map.rank_max")
    needed = target.limit("tensor_map.interleaved_rank_min")

    def rank(fields: Fields) -> int:
        return fields.rank

    def too_small(fields: Fields) -> str:
        return f"rank {fields.rank} is not between {low} and {high}"

    return (
        fact_rule(target, low_key, "TM007", "rank", "tensorRank", ("rank",), lambda fields: fields.rank >= low, rank,
                  too_small),
        fact_rule(target, "tensor_map.rank_max", "TM007", "rank", "tensorRank", ("rank",),
                  lambda fields: fields.rank <= high, rank, too_small),
        fact_rule(
            target, "tensor_map.interleaved_rank_min", "TM008", "interleaved-rank", "tensorRank",
            ("rank", "interleave"),
            lambda fields: fields.rank >= needed, rank,
            lambda fields: f"rank {fields.rank} is below {needed}, which an interleaved layout needs",
            applies=_is_interleaved,
        ),
    )  # fmt: skip


def _is_interleaved(fields: Fields) -> Truth:
    return one_of(fields.interleave, (1, 2))


def _interleave_32b(fields: Fields) -> Truth:
    return fields.interleave == INTERLEAVE_32B


def _padded(fields: Fields) -> Truth:
    return one_of(fields.dtype, PADDED_TYPES)


def address_rules(target: Target) -> tuple[Rule, ...]:
    """TM009 and TM010: the tensor begins at an aligned address that the encoder takes."""
    rules: list[Rule] = []
    for key, applies, reads in _aligned(target, "address_alignment_bytes"):
        multiple = target.limit(key)
        rules.append(
            fact_rule(
                target, key, "TM009", "address-alignment", "globalAddress", ("address", *reads),
                lambda fields, multiple=multiple: fields.address % multiple == 0,
                lambda fields: fields.address,
                lambda fields, multiple=multiple: f"global address {fields.address:#x} is not a multiple of {multiple}",
                applies=applies,
            )
        )  # fmt: skip
    limit = target.limit("tensor_map.address_limit")
    rules.append(
        fact_rule(
            target, "tensor_map.address_limit", "TM010", "address-range", "globalAddress", ("address",),
            lambda fields: within(fields.address, 0, limit - 1),
            lambda fields: fields.address,
            lambda fields: f"global address {fields.address:#x} is not below {limit:#x}",
        )
    )  # fmt: skip
    return tuple(rules)


def _aligned(target: Target, name: str) -> list[tuple[str, Callable[[Fields], Truth], tuple[str, ...]]]:
    """The facts that align addresses or strides, each with where it applies and what that reads."""
    found: list[tuple[str, Callable[[Fields], Truth], tuple[str, ...]]] = [
        (f"tensor_map.{name}", always, ()),
        (f"tensor_map.interleave_32b_{name}", _interleave_32b, ("interleave",)),
    ]
    if target.supports("packed_tensor_elements"):
        found.append((f"tensor_map.padded_{name}", _padded, ("dtype",)))
    return found


def range_rules(
    target: Target, code: str, name: str, field: str, noun: str, attribute: str, key: str
) -> tuple[Rule, ...]:
    """Each entry of the list `attribute` is between 1 and the fact `key`."""
    limit = target.limit(key)

    def of(index: int) -> Rule:
        def holds(fields: Fields) -> Truth:
            return within(getattr(fields, attribute)[index], 1, limit)

        def value(fields: Fields) -> int:
            return getattr(fields, attribute)[index]

        def message(fields: Fields) -> str:
            return f"{noun} {value(fields)} of dimension {index} is not between 1 and {limit}"

        return fact_rule(
            target, key, code, name, field, ("rank", f"{attribute}[{index}]"), holds, value, message,
            index=index, applies=partial(in_rank, index),
        )  # fmt: skip

    return tuple(of(index) for index in range(target.limit("tensor_map.rank_max")))


def extent_rules(target: Target) -> tuple[Rule, ...]:
    """TM011 and, for packed elements, TM020: extents are in range, the innermost a multiple of whole groups."""
    rules = range_rules(target, "TM011", "dim-range", "globalDim", "extent", "dims", "tensor_map.dim_max")
    if not target.supports("packed_tensor_elements"):
        return rules
    key = "tensor_map.packed_dim_multiple_elements"
    return (*rules, *(_packed_dim(target, key, number) for number in PACKED_TYPES))


def _packed_dim(target: Target, key: str, number: int) -> Rule:
    multiple, name = target.limits(key)[PACKED_TYPES.index(number)], DATA_TYPES[number].driver_name
    return fact_rule(
        target, key, "TM020", "packed-dim-multiple", "globalDim", ("rank", "dtype", "dims[0]"),
        lambda fields: fields.dims[0] % multiple == 0,
        lambda fields: fields.dims[0],
        lambda fields: f"innermost extent {fields.dims[0]} is not a multiple of {multiple}, which {name} needs",
        index=0,
        limit=multiple,
        applies=lambda fields: each((fields.dtype == number, in_rank(0, fields))),
    )  # fmt: skip


def stride_rules(target: Target) -> tuple[Rule, ...]:
    """TM012 and TM013: strides are multiples of what copies need, and in range. Entry i is that of dimension i + 1."""
    rules: list[Rule] = []
    limit = target.limit("tensor_map.stride_limit_bytes")
    for index in range(target.limit("tensor_map.rank_max") - 1):
        noun = "row stride" if index == 0 else f"stride of dimension {index + 1},"
        for key, applies, reads in _aligned(target, "stride_multiple_bytes"):
            rules.append(_stride_multiple(target, key, index, noun, applies, reads))
        rules.append(
            fact_rule(
                target, "tensor_map.stride_limit_bytes", "TM013", "stride-range", "globalStrides",
                ("rank", f"strides[{index}]"),
                lambda fields, index=index: within(fields.strides[index], 0, limit - 1),
                lambda fields, index=index: fields.strides[index],
                lambda fields, index=index, noun=noun: (
                    f"{noun} {fields.strides[index]} bytes is not between 0 and 2^{limit.bit_length() - 1} - 1"
                ),
                index=index, applies=partial(in_rank, index + 1),
            )
        )  # fmt: skip
    return tuple(rules)


def _stride_multiple(
    target: Target, key: str, index: int, noun: str, narrow: Callable[[Fields], Truth], reads: tuple[str, ...]
) -> Rule:
    multiple = target.limit(key)

    def applies(fields: Fields) -> Truth:
        return each((in_rank(index + 1, fields), narrow(fields)))

    return fact_rule(
        target, key, "TM012", "stride-multiple", "globalStrides", ("rank", f"strides[{index}]", *reads),
        lambda fields: fields.strides[index] % multiple == 0,
        lambda fields: fields.strides[index],
        lambda fields: f"{noun} {fields.strides[index]} bytes is not a multiple of {multiple}",
        index=index, applies=applies,
    )  # fmt: skip


def packed_format_rules(target: Target) -> tuple[Rule, ...]:
    """TM022 and TM023: which swizzles and interleaves the padded packed types take; none on targets without them."""
    if not target.supports("packed_tensor_elements"):
        return ()
    rules = [packed_swizzle_rule(target, number, "_swizzles") for number in PADDED_TYPES]
    rules.append(
        fact_rule(
            target, "tensor_map.u6x16_align16_interleave", "TM023", "packed-interleave", "interleave",
            ("dtype", "interleave"),
            lambda fields: fields.interleave == INTERLEAVE_NONE,
            lambda fields: fields.interleave,
            lambda fields: f"interleave {fields.interleave} is not taken by 6-bit elements",
            applies=lambda fields: each((fields.dtype == U6X16_ALIGN16, within(fields.interleave, 0, 2))),
        )
    )  # fmt: skip
    return tuple(rules)


def packed_swizzle_rule(target: Target, number: int, fact: str) -> Rule:
    """TM022 of one packed type; fact: the end of the key that lists the swizzles it takes."""
    key = f"tensor_map.{DATA_TYPES[number].name}{fact}"
    allowed, name = target.limits(key), DATA_TYPES[number].driver_name
    named = ", ".join(SWIZZLES[swizzle] for swizzle in allowed)
    last = target.limit("tensor_map.swizzle_max")

    def message(fields: Fields) -> str:
        value: int = fields.swizzle
        return f"swizzle {SWIZZLES[value]} is not taken by {name}, which takes {named}"

    return fact_rule(
        target, key, "TM022", "packed-swizzle", "swizzle", ("dtype", "swizzle"),
        lambda fields: one_of(fields.swizzle, allowed),
        lambda fields: fields.swizzle,
        message,
        limit=allowed[-1],
        applies=lambda fields: each((fields.dtype == number, within(fields.swizzle, 0, last))),
    )  # fmt: skip
