"""What does the driver pass that then fails, or surprises, on the device? Warnings about legal maps.

Each is stated where its condition holds and not otherwise: none is a standing advice. They are values like violations,
with `enforced` false. What depends on one copy's coordinates and addresses is in `copy_check`.

Sources: the CUDA Driver API and Programming Guide, PTX ISA 9.7.9.27, probes on an H200 (`tma_load`, `tma_store`), and
public issues where a driver errs. Not handled: maps that break a rule; whether a buffer really has the bytes that the
map spans. Checked by: tests/legal/tensor_map/test_cautions.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.legal.tensor_map.common_rules import Driver
from tilewright.legal.tensor_map.enumerations import (
    DATA_TYPES,
    INTERLEAVE_32B,
    INTERLEAVE_NONE,
    SWIZZLE_32B,
    SWIZZLE_NONE,
    SWIZZLES,
    U4X16_ALIGN16,
    U6X16_ALIGN16,
)
from tilewright.legal.tensor_map.footprint import copy_bytes
from tilewright.legal.tensor_map.im2col_map import AnyMap, Im2colWideMap
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.legal.tensor_map.violation import Violation
from tilewright.targets import Target

_GUIDE = "CUDA C++ Programming Guide, Tensor Memory Access"
_PROMOTION_BYTES = (0, 64, 128, 256)
_STORE_ATOM_BYTES = 16
FAILING = frozenset(("TM031", "TM032", "TM033", "TM043", "TM046"))
"""Warnings of which no copy through the map is free: it is undocumented, does not fit, cannot be awaited, or fails."""


def cautions_of(map: AnyMap, target: Target, driver: Driver | None = None) -> tuple[Violation, ...]:
    """Everything to know about a legal map before copying through it, by code."""
    found = (
        *_formats(map, target),
        *_shared_memory(map, target),
        *_extents(map, target),
        *_strides(map),
        *_global_memory(map, target),
        *_driver_bugs(map, target, driver),
    )
    return tuple(sorted(found, key=lambda caution: (caution.code, -1 if caution.index is None else caution.index)))


def caution(
    code: str, name: str, field: str, index: int | None, value: int, limit: int, message: str, source: str
) -> Violation:
    return Violation(code, name, field, index, value, limit, message, source, enforced=False)


def _element_bits(map: AnyMap) -> int:
    number: int = map.fields.dtype
    return DATA_TYPES[number].global_bits


def _formats(map: AnyMap, target: Target) -> Iterator[Violation]:
    interleave: int = map.fields.interleave
    swizzle: int = map.fields.swizzle
    dtype: int = map.fields.dtype
    if interleave == INTERLEAVE_32B and swizzle != SWIZZLE_32B:
        yield caution(
            "TM031", "interleave-32B-swizzle", "swizzle", None, swizzle, SWIZZLE_32B,
            f"interleave 32B is documented for swizzle 32B alone, not {SWIZZLES[swizzle]}",
            "CUDA Driver API, cuTensorMapEncodeTiled: swizzle where interleave is 32B; not enforced",
        )  # fmt: skip
    if isinstance(map, Im2colWideMap) and interleave != INTERLEAVE_NONE:
        yield caution(
            "TM043", "wide-interleave", "interleave", None, interleave, INTERLEAVE_NONE,
            "copies in the modes im2col::w and im2col::w::128 take no interleave",
            "PTX ISA 5.5.6, im2col::w and im2col::w::128 modes",
        )  # fmt: skip
    flips = SWIZZLES[swizzle] == "128B_atom_32B_flip_8B"
    if dtype == U4X16_ALIGN16 or flips:
        what = DATA_TYPES[dtype].driver_name if dtype == U4X16_ALIGN16 else f"swizzle {SWIZZLES[swizzle]}"
        yield caution(
            "TM044", "load-only", "tensorDataType" if dtype == U4X16_ALIGN16 else "swizzle", None,
            dtype if dtype == U4X16_ALIGN16 else swizzle, 0,
            f"{what} is for loads alone: no store takes this map", "PTX ISA 9.7.9.27.1.1, restrictions",
        )  # fmt: skip
    if dtype == U6X16_ALIGN16 and SWIZZLES[swizzle] == "128B_atom_64B":
        yield caution(
            "TM045", "store-only", "swizzle", None, swizzle, 0,
            f"{DATA_TYPES[dtype].driver_name} under swizzle {SWIZZLES[swizzle]} is for stores alone",
            target.fact("tensor_map.u6x16_align16_swizzles").source,
        )  # fmt: skip


def _shared_memory(map: AnyMap, target: Target) -> Iterator[Violation]:
    sizes = copy_bytes(map, target)
    if sizes is None:
        return
    footprint_bytes, transaction_bytes = sizes
    field = "boxDim" if isinstance(map, TensorMap) else "pixelsPerColumn"
    limit = target.limit("cta.shared_bytes_max")
    if footprint_bytes > limit:
        yield caution(
            "TM032", "shared-footprint", field, None, footprint_bytes, limit,
            f"box occupies {footprint_bytes} bytes of shared memory, more than the {limit} a thread block has",
            target.fact("cta.shared_bytes_max").source,
        )  # fmt: skip
    most = target.limit("mbarrier.transaction_bytes_max")
    if transaction_bytes > most:
        yield caution(
            "TM033", "transaction-range", field, None, transaction_bytes, most,
            f"one copy of {transaction_bytes} bytes is more than the {most} that an mbarrier's phase counts",
            target.fact("mbarrier.transaction_bytes_max").source,
        )  # fmt: skip
    interleave: int = map.fields.interleave
    dtype: int = map.fields.dtype
    if footprint_bytes > transaction_bytes and interleave != INTERLEAVE_NONE:
        yield caution(
            "TM034", "row-pitch", field, 0, footprint_bytes, transaction_bytes,
            f"the slices end inside a span of the swizzle, over which it spreads them: the buffer needs "
            f"{footprint_bytes} bytes, the barrier counts {transaction_bytes}",
            "PTX ISA 5.5.7 (swizzling modes): the pattern is one of addresses",
        )  # fmt: skip
    elif footprint_bytes > transaction_bytes and DATA_TYPES[dtype].global_bits == DATA_TYPES[dtype].shared_bits:
        yield caution(
            "TM034", "row-pitch", field, 0, footprint_bytes, transaction_bytes,
            f"rows are narrower than the swizzle and stand a whole span apart: the buffer needs {footprint_bytes} "
            f"bytes, the barrier counts {transaction_bytes}",
            _GUIDE + ": the inner dimension of shared memory is the swizzle's span; probe tma_load",
        )  # fmt: skip


def _extents(map: AnyMap, target: Target) -> Iterator[Violation]:
    most = target.limit("tensor_copy.extent_max")
    for index, extent in enumerate(map.dims):
        if extent > most:
            yield caution(
                "TM046", "extent-of-copies", "globalDim", index, extent, most,
                f"extent {extent} of dimension {index} is above {most}: every copy raises an illegal instruction",
                target.fact("tensor_copy.extent_max").source,
            )  # fmt: skip
    if isinstance(map, TensorMap) and map.fields.interleave == INTERLEAVE_NONE:
        for index, (extent, box) in enumerate(zip(map.dims, map.box, strict=True)):
            if box > extent:
                yield caution(
                    "TM035", "box-beyond-extent", "boxDim", index, box, extent,
                    f"box extent {box} of dimension {index} is above the tensor's {extent}: the rest is filled, and "
                    "counted as moved",
                    "CUDA Driver API, cuTensorMapEncodeTiled: oobFill; the encoder takes it (measured)",
                )  # fmt: skip
    bits = _element_bits(map)
    if map.fields.interleave == INTERLEAVE_NONE and map.dims[0] * bits % (8 * _STORE_ATOM_BYTES):
        row_bytes = -(-map.dims[0] * bits // 8)
        beyond = -row_bytes % _STORE_ATOM_BYTES
        yield caution(
            "TM036", "store-clipping", "globalDim", 0, row_bytes, _STORE_ATOM_BYTES,
            f"rows of {row_bytes} bytes are no multiple of {_STORE_ATOM_BYTES}: a store over a row's end writes "
            f"{beyond} bytes beyond it",
            "Stores are clipped in pieces of 16 bytes (measured; triton issue 11583)",
        )  # fmt: skip


def _strides(map: AnyMap) -> Iterator[Violation]:
    element_bits = _element_bits(map)
    # With interleave dimension 0 counts slices, whose distance is the interleave's.
    interleave: int = map.fields.interleave
    inner_bytes = map.dims[0] * (16 * interleave) if interleave else -(-map.dims[0] * element_bits // 8)
    outer = [(stride, index + 1) for index, stride in enumerate(map.strides) if map.dims[index + 1] > 1]
    for stride, index in outer:
        if stride == 0:
            yield caution(
                "TM037", "zero-stride", "globalStrides", index - 1, 0, 0,
                f"stride 0 of dimension {index} repeats the same bytes {map.dims[index]} times: loads broadcast, "
                "stores race",
                "CUDA Driver API, cuTensorMapEncodeTiled: globalStrides; 0 is a multiple (measured)",
            )  # fmt: skip
    reach_bytes, inside = inner_bytes, 0
    for stride, index in sorted(pair for pair in outer if pair[0]):
        if stride < reach_bytes:
            yield caution(
                "TM038", "overlapping-strides", "globalStrides", index - 1, stride, reach_bytes,
                f"stride {stride} of dimension {index} is below the {reach_bytes} bytes from first to last element of "
                f"dimension {inside} and those within it: elements may share bytes",
                "CUDA Driver API, cuTensorMapEncodeTiled: globalStrides; not enforced (measured)",
            )  # fmt: skip
        reach_bytes += (map.dims[index] - 1) * stride
        inside = index
    highest = 0
    for stride, index in outer:
        if 0 < stride < highest:
            yield caution(
                "TM039", "stride-order", "globalStrides", index - 1, stride, highest,
                f"stride {stride} of dimension {index} is below the {highest} of a dimension inside it: legal here, "
                "refused by other checkers",
                "CUDA Driver API, cuTensorMapEncodeTiled: the recurrence of globalStrides; not enforced (measured)",
            )  # fmt: skip
            return
        highest = max(highest, stride)


def _global_memory(map: AnyMap, target: Target) -> Iterator[Violation]:
    swizzle: int = map.fields.swizzle
    line = target.limit("tensor_map.shared_alignment_bytes")
    if swizzle != SWIZZLE_NONE and map.address % line:
        yield caution(
            "TM040", "address-line", "globalAddress", None, map.address, line,
            f"global address {map.address:#x} is no multiple of {line}: the encoder takes it, the guide advises "
            "against it under a swizzle",
            _GUIDE + ", alignment requirements: global memory address",
        )  # fmt: skip
    promotion: int = map.fields.l2_promotion
    row_bytes = -(-map.dims[0] * _element_bits(map) // 8)
    if map.fields.interleave == INTERLEAVE_NONE and row_bytes < _PROMOTION_BYTES[promotion] and map.rank > 1:
        yield caution(
            "TM041", "promotion-beyond-row", "l2Promotion", None, _PROMOTION_BYTES[promotion], row_bytes,
            f"reads are widened to {_PROMOTION_BYTES[promotion]} bytes in L2, rows have {row_bytes}: other rows are "
            "fetched along",
            "CUDA Driver API, CUtensorMapL2promotion",
        )  # fmt: skip


def _driver_bugs(map: AnyMap, target: Target, driver: Driver | None) -> Iterator[Violation]:
    key, last = "tensor_map.small_extent_bug_bytes", "tensor_map.small_extent_bug_last_driver"
    if driver is None or key not in target.facts or driver[0] * 1000 + driver[1] * 10 > target.limit(last):
        return
    limit = target.limit(key)
    bits = _element_bits(map)
    reach = sum((extent - 1) * stride for extent, stride in zip(map.dims[1:], map.strides, strict=True))
    reach_bytes = reach + -(-map.dims[0] * bits // 8)
    dense_bytes = -(-map.dims[0] * bits // 8)
    dense = True
    for extent, stride in zip(map.dims[1:], map.strides, strict=True):
        dense = dense and (stride == dense_bytes or extent == 1)
        dense_bytes *= extent
    if reach_bytes < limit and not dense:
        yield caution(
            "TM042", "driver-small-extent", "tensorMap", None, reach_bytes, limit,
            f"drivers up to {target.limit(last) // 1000}.{target.limit(last) % 1000 // 10} set bit 21 of the second "
            f"64-bit word of such a map ({reach_bytes} bytes, not dense), and copies then fault: clear it",
            target.fact(key).source,
        )  # fmt: skip
