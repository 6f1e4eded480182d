"""Would `cuTensorMapEncodeTiled` accept these integers, and if not, which rules do they break?

The driver answers CUDA_ERROR_INVALID_VALUE and no more. Here are its rules one by one, on the arguments as it gets
them: enumerations are plain integers, index 0 is the innermost dimension, and entries past the rank do not matter. All
rules are judged, also after the first is broken; a rule that needs a field which is itself out of range (the element
size of an unknown data type) is left out, since it has no meaning then.

The rules are the documented ones and three that were measured: the inner box is a multiple of 16 bytes under every
interleave, a box larger than a multiprocessor's shared memory is refused, and so is an address of 2^57 or more. Rules
that are documented but that the driver does not enforce are in `cautions` of `tilewright.legal.tensormap`.

Not handled: packed 4- and 6-bit elements (an error, where the target has them), im2col maps. On sm_100a the rules are
the documented ones and were not compared with a driver. Checked by tests/legal/test_tensormap_driver.py, row by row
against a driver's answers on an H200.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from tilewright.base.error import TilewrightError
from tilewright.legal.violation import Violation
from tilewright.targets import Target


@dataclass(frozen=True, slots=True)
class DataType:
    """One value of `CUtensorMapDataType`: its name, bytes of one element, and whether NaN fill has a meaning."""

    name: str
    bytes: int
    is_float: bool


DATA_TYPES: tuple[DataType, ...] = (
    DataType("UINT8", 1, False),
    DataType("UINT16", 2, False),
    DataType("UINT32", 4, False),
    DataType("INT32", 4, False),
    DataType("UINT64", 8, False),
    DataType("INT64", 8, False),
    DataType("FLOAT16", 2, True),
    DataType("FLOAT32", 4, True),
    DataType("FLOAT64", 8, True),
    DataType("BFLOAT16", 2, True),
    DataType("FLOAT32_FTZ", 4, True),
    DataType("TFLOAT32", 4, True),
    DataType("TFLOAT32_FTZ", 4, True),
)
"""By enumeration value. The values from 13 on are packed types."""

INTERLEAVE_NONE, INTERLEAVE_16B, INTERLEAVE_32B = 0, 1, 2
SWIZZLE_NONE = 0


@dataclass(frozen=True, slots=True)
class RawTensorMap:
    """Arguments of `cuTensorMapEncodeTiled`, enumerations as integers. Lists may be longer than the rank needs.

    dims and box: elements; strides_bytes: of dimensions 1 to rank - 1; global_address: bytes.
    """

    data_type: int
    rank: int
    global_address: int
    dims: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    interleave: int
    swizzle: int
    l2_promotion: int
    out_of_bounds: int


def raw_violations(raw: RawTensorMap, target: Target) -> tuple[Violation, ...]:
    """Every rule that `raw` breaks, by code; empty exactly where the driver accepts.

    Raises TilewrightError where a list is shorter than a legal rank needs, or for packed data types on a target that
    has them.
    """
    rank_legal = target.limit("tensor_map.rank_min") <= raw.rank <= target.limit("tensor_map.rank_max")
    used = raw.rank if rank_legal else 0
    for name, entries, needed in (
        ("dims", raw.dims, used),
        ("strides_bytes", raw.strides_bytes, used - 1),
        ("box", raw.box, used),
        ("element_strides", raw.element_strides, used),
    ):
        if len(entries) < needed:
            raise TilewrightError(f"tensor map: {name} has {len(entries)} entries; rank {raw.rank} needs {needed}")
    if len(DATA_TYPES) <= raw.data_type <= target.limit("tensor_map.data_type_max"):
        raise TilewrightError(f"tensor map: the rules of packed data type {raw.data_type} are not known")
    found = (
        *_enumerations(raw, target),
        *_rank(raw, target),
        *_address(raw, target),
        *_extents(raw, target, used),
        *_strides(raw, target, used),
        *_box(raw, target, used),
    )
    return tuple(sorted(found, key=lambda violation: violation.code))


def _enumerations(raw: RawTensorMap, target: Target) -> Iterator[Violation]:
    for code, name, field, value, key in (
        ("TM001", "data-type", "tensorDataType", raw.data_type, "tensor_map.data_type_max"),
        ("TM002", "interleave", "interleave", raw.interleave, "tensor_map.interleave_max"),
        ("TM003", "swizzle", "swizzle", raw.swizzle, "tensor_map.swizzle_max"),
        ("TM004", "l2-promotion", "l2Promotion", raw.l2_promotion, "tensor_map.l2_promotion_max"),
        ("TM005", "out-of-bounds-fill", "oobFill", raw.out_of_bounds, "tensor_map.out_of_bounds_max"),
    ):
        limit = target.limit(key)
        if not 0 <= value <= limit:
            message = f"{field} {value} is not one of the values 0 to {limit} that {target.name} has"
            yield _violation(target, key, code, name, field, None, value, limit, message)
    if raw.out_of_bounds == 1 and 0 <= raw.data_type < len(DATA_TYPES):
        data_type = DATA_TYPES[raw.data_type]
        if not data_type.is_float:
            message = f"NaN fill needs a floating-point element, not {data_type.name}"
            source = "CUDA Driver API, cuTensorMapEncodeTiled: oobFill, NAN_REQUEST_ZERO_FMA"
            yield Violation("TM006", "nan-fill-of-integers", "oobFill", None, 1, 0, message, source)


def _rank(raw: RawTensorMap, target: Target) -> Iterator[Violation]:
    low, high = target.limit("tensor_map.rank_min"), target.limit("tensor_map.rank_max")
    if not low <= raw.rank <= high:
        key, limit = ("tensor_map.rank_min", low) if raw.rank < low else ("tensor_map.rank_max", high)
        message = f"rank {raw.rank} is not between {low} and {high}"
        yield _violation(target, key, "TM007", "rank", "tensorRank", None, raw.rank, limit, message)
    needed = target.limit("tensor_map.interleaved_rank_min")
    if raw.interleave in (INTERLEAVE_16B, INTERLEAVE_32B) and raw.rank < needed:
        message = f"rank {raw.rank} is below {needed}, which an interleaved layout needs"
        key = "tensor_map.interleaved_rank_min"
        yield _violation(target, key, "TM008", "interleaved-rank", "tensorRank", None, raw.rank, needed, message)


def _address(raw: RawTensorMap, target: Target) -> Iterator[Violation]:
    key = "tensor_map.address_alignment_bytes"
    if raw.interleave == INTERLEAVE_32B:
        key = "tensor_map.interleave_32b_address_alignment_bytes"
    limit, value = target.limit(key), raw.global_address
    if value % limit:
        message = f"global address {value:#x} is not a multiple of {limit}"
        yield _violation(target, key, "TM009", "address-alignment", "globalAddress", None, value, limit, message)
    key = "tensor_map.address_limit"
    limit = target.limit(key)
    if not 0 <= value < limit:
        message = f"global address {value:#x} is not below {limit:#x}"
        yield _violation(target, key, "TM010", "address-range", "globalAddress", None, value, limit, message)


def _extents(raw: RawTensorMap, target: Target, used: int) -> Iterator[Violation]:
    for code, name, field, noun, values, key in (
        ("TM011", "dim-range", "globalDim", "extent", raw.dims, "tensor_map.dim_max"),
        ("TM014", "box-range", "boxDim", "box extent", raw.box, "tensor_map.box_extent_max"),
        (
            "TM017",
            "element-stride-range",
            "elementStrides",
            "element stride",
            raw.element_strides,
            "tensor_map.element_stride_max",
        ),
    ):
        limit = target.limit(key)
        for index, value in enumerate(values[:used]):
            if not 1 <= value <= limit:
                message = f"{noun} {value} of dimension {index} is not between 1 and {limit}"
                yield _violation(target, key, code, name, field, index, value, limit, message)


def _strides(raw: RawTensorMap, target: Target, used: int) -> Iterator[Violation]:
    key = "tensor_map.stride_multiple_bytes"
    if raw.interleave == INTERLEAVE_32B:
        key = "tensor_map.interleave_32b_stride_multiple_bytes"
    multiple, limit = target.limit(key), target.limit("tensor_map.stride_limit_bytes")
    for index, value in enumerate(raw.strides_bytes[: max(used - 1, 0)]):
        noun = "row stride" if index == 0 else f"stride of dimension {index + 1},"
        if value % multiple:
            message = f"{noun} {value} bytes is not a multiple of {multiple}"
            yield _violation(target, key, "TM012", "stride-multiple", "globalStrides", index, value, multiple, message)
        if not 0 <= value < limit:
            message = f"{noun} {value} bytes is not between 0 and 2^{limit.bit_length() - 1} - 1"
            range_key = "tensor_map.stride_limit_bytes"
            yield _violation(target, range_key, "TM013", "stride-range", "globalStrides", index, value, limit, message)


def _box(raw: RawTensorMap, target: Target, used: int) -> Iterator[Violation]:
    if used == 0 or not 0 <= raw.data_type < len(DATA_TYPES):
        return
    element_bytes = DATA_TYPES[raw.data_type].bytes
    box, inner_bytes = raw.box[:used], raw.box[0] * element_bytes
    key = "tensor_map.box_inner_multiple_bytes"
    multiple = target.limit(key)
    if inner_bytes % multiple:
        message = f"inner box row of {inner_bytes} bytes is not a multiple of {multiple}"
        yield _violation(target, key, "TM015", "box-inner-multiple", "boxDim", 0, inner_bytes, multiple, message)
    spans = target.limits("tensor_map.swizzle_span_bytes")
    if raw.interleave == INTERLEAVE_NONE and SWIZZLE_NONE < raw.swizzle < len(spans):
        span = spans[raw.swizzle]
        if inner_bytes > span:
            message = f"inner box row of {inner_bytes} bytes exceeds the swizzle's span of {span}"
            key = "tensor_map.swizzle_span_bytes"
            yield _violation(target, key, "TM016", "box-span", "boxDim", 0, inner_bytes, span, message)
    if all(stride >= 1 for stride in raw.element_strides[:used]) and all(extent >= 1 for extent in box):
        # Rounded down, and dividing also by the inner entry that the copy ignores: so the driver counts, as measured.
        counts = (extent // stride for extent, stride in zip(box, raw.element_strides, strict=False))
        footprint_bytes = prod(counts) * element_bytes
        key = "tensor_map.box_footprint_bytes_max"
        limit = target.limit(key)
        if footprint_bytes > limit:
            message = f"box of {footprint_bytes} bytes exceeds the {limit} bytes of shared memory"
            yield _violation(target, key, "TM018", "box-footprint", "boxDim", None, footprint_bytes, limit, message)


def _violation(
    target: Target, key: str, code: str, name: str, field: str, index: int | None, value: int, limit: int, message: str
) -> Violation:
    return Violation(code, name, field, index, value, limit, message, target.fact(key).source)
