"""Which rules bind the inner row of a box: its multiple, its size under a swizzle, its size for packed elements?

Tiled maps state the row as `boxDim[0]`, im2col maps as `channelsPerPixel`; the rules are the same, so each is built
for the entry that a caller names. Bytes are counted in bits, since packed elements have 4 or 6.

Source: CUDA Driver API, cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col. Checked by:
tests/legal/tensor_map/test_tensormap_driver.py and tests/legal/tensor_map/test_im2col.py, against a driver.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.base.value import dataclass
from tilewright.legal.tensor_map.common_rules import fact_rule, in_rank
from tilewright.legal.tensor_map.enumerations import DATA_TYPES, INTERLEAVE_NONE, PADDED_TYPES, SWIZZLE_NONE
from tilewright.legal.tensor_map.rule import Fields, Rule, Term, Truth, each, one_of
from tilewright.targets import Target

BYTE_BITS = 8


@dataclass(frozen=True, slots=True)
class InnerRow:
    """The entry that states the inner row. field, index: in the driver's words; read: as in `Rule.reads`; noun: for
    messages; extent: elements of the row."""

    field: str
    index: int | None
    read: str
    noun: str
    extent: Callable[[Fields], Term]


def inner_rules(target: Target, row: InnerRow) -> tuple[Rule, ...]:
    """TM015, TM016 and, where the target has padded packed elements, TM021."""
    rules: list[Rule] = []
    for bits, types in types_by_bits(target).items():
        plain = tuple(number for number in types if number not in PADDED_TYPES)
        if plain:
            rules.append(_multiple(target, row, bits, plain))
    spans = target.limits("tensor_map.swizzle_span_bytes")
    for bits, types in types_by_bits(target, shared=True).items():
        for span in sorted(set(spans) - {0}):
            swizzles = tuple(number for number in range(SWIZZLE_NONE + 1, len(spans)) if spans[number] == span)
            rules.append(_span(target, row, bits, types, swizzles, span))
    if target.supports("packed_tensor_elements"):
        rules.append(_padded(target, row))
    return tuple(rules)


def types_by_bits(target: Target, *, shared: bool = False) -> dict[int, tuple[int, ...]]:
    """The target's data types, by bits of one element in global memory, or in shared memory."""
    groups: dict[int, tuple[int, ...]] = {}
    for number, each_type in enumerate(DATA_TYPES[: target.limit("tensor_map.data_type_max") + 1]):
        bits = each_type.shared_bits if shared else each_type.global_bits
        groups[bits] = (*groups.get(bits, ()), number)
    return groups


def _multiple(target: Target, row: InnerRow, bits: int, types: tuple[int, ...]) -> Rule:
    """TM015 for elements of one width, enforced under every interleave (measured)."""
    key = "tensor_map.box_inner_multiple_bytes"
    multiple = target.limit(key)
    # Whole bytes, or as many elements as fill the multiple.
    unit, count = (bits // BYTE_BITS, multiple) if bits % BYTE_BITS == 0 else (1, multiple * BYTE_BITS // bits)

    def message(fields: Fields) -> str:
        extent: int = row.extent(fields)
        if extent * bits % BYTE_BITS:
            return f"{row.noun} of {extent} elements of {bits} bits is not a multiple of {multiple} bytes"
        return f"{row.noun} of {extent * bits // BYTE_BITS} bytes is not a multiple of {multiple}"

    return fact_rule(
        target, key, "TM015", "box-inner-multiple", row.field, ("rank", "dtype", row.read),
        lambda fields: row.extent(fields) * unit % count == 0,
        lambda fields: row.extent(fields) * bits // BYTE_BITS,
        message,
        index=row.index,
        applies=lambda fields: each((in_rank(0, fields), one_of(fields.dtype, types))),
    )  # fmt: skip


def _span(
    target: Target, row: InnerRow, bits: int, types: tuple[int, ...], swizzles: tuple[int, ...], span: int
) -> Rule:
    """TM016 for one span and elements of one width in shared memory."""

    def applies(fields: Fields) -> Truth:
        swizzled = (fields.interleave == INTERLEAVE_NONE) & one_of(fields.swizzle, swizzles)
        return each((in_rank(0, fields), one_of(fields.dtype, types), swizzled))

    def row_bytes(fields: Fields) -> int:
        return row.extent(fields) * bits // BYTE_BITS

    return fact_rule(
        target, "tensor_map.swizzle_span_bytes", "TM016", "box-span", row.field,
        ("rank", "dtype", "interleave", "swizzle", row.read),
        lambda fields: row.extent(fields) * bits <= span * BYTE_BITS,
        row_bytes,
        lambda fields: f"{row.noun} of {row_bytes(fields)} bytes exceeds the swizzle's span of {span}",
        index=row.index, limit=span, applies=applies,
    )  # fmt: skip


def _padded(target: Target, row: InnerRow) -> Rule:
    """TM021: padded packed elements move in rows of one size."""
    key = "tensor_map.padded_inner_elements"
    count = target.limit(key)
    return fact_rule(
        target, key, "TM021", "packed-inner-extent", row.field, ("rank", "dtype", row.read),
        lambda fields: row.extent(fields) == count,
        row.extent,
        lambda fields: f"{row.noun} of {row.extent(fields)} elements is not {count}, which this packed type needs",
        index=row.index,
        applies=lambda fields: each((in_rank(0, fields), one_of(fields.dtype, PADDED_TYPES))),
    )  # fmt: skip
