"""What do the 128 bytes of a `CUtensorMap` say, and which bytes does the driver make of a tensor map?

The vendor states no format. This one was read off 10,662 maps that a driver (API 13.0) made for an H200, each argument
varied alone and all at random (probe `tensormap_bytes`). Bits count from the lowest of byte 0:

    0 address, 57 bits            96, 128, 160, 192 strides in units of 16 bytes, low 32 bits of 36
    64 im2col                     224, 228, 232, 236 their high 4 bits
    68 rank - 1, 3 bits           256, 288, 320, 352, 384 dims - 1, 32 bits
    71 element, 4 bits            416, 419, 422, 425, 428 element strides - 1, 3 bits
    75 interleave, 2 bits         440, 448, 456, 464, 472 box - 1, 8 bits; of an im2col map instead:
    77 swizzle, 2 bits              440 channels per pixel - 1, 8 bits
    79 fill with NaN                448, 464 lower, upper corner, W lowest: 16 bits, or two of 8, or three of 5, signed
    80 rounds f32 to tf32           480 pixels per column - 1, 10 bits
    81 L2 promotion, 2 bits       512 bytes of shared memory, 576 the swizzle's period: notes of the driver's own

Elements are numbered as in `tensormap.replace`, but tf32 is f32 with bit 80. Entries past the rank are 0. Every other
bit was 0 in every map; a map with one set is refused, since nobody could say what it means. Bit 85 is one of them,
which drivers up to 13.3 set by mistake on Blackwell for small tensors with gaps (release notes 595.71.05): it is told
apart and reported.
On Hopper `cuTensorMapEncodeIm2colWide` makes the bytes of an im2col map whose other corners are 0, whatever the mode.
`decode_map` undoes `encode_map`.

Not handled: what Hopper lacks (atoms of swizzles, packed elements, im2col-wide), for want of a Blackwell driver.
Checked by tests/legal/tensor_map/test_tensor_map_format.py against the driver's maps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import cast

from tilewright.base.error import TilewrightError
from tilewright.legal.argument import shown
from tilewright.legal.tensor_map.enumerations import DATA_TYPES, FILLS, INTERLEAVES, L2_PROMOTIONS, SWIZZLES
from tilewright.legal.tensor_map.im2col_map import Im2colMap
from tilewright.legal.tensor_map.tensor_map import TensorMap

SIZE_BYTES = 128
_RANK_MOST = 5
_IM2COL_RANK_LEAST = 3
_CORNER_BITS = 16
_DRIVER_BUG_BIT = 85
_ELEMENT_CODES = (0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 8, 11, 12)
"""By value of CUtensorMapDataType, as they were read off the maps: those of `tensormap.replace`."""
_PERIODS_BYTES = (16, 256, 512, 1024)
"""By value of CUtensorMapSwizzle, as they were read off the maps."""
_ROUNDED = {"tf32": "f32", "tf32_ftz": "f32_ftz"}
"""What a data type is whose copies round, by the name of the type that they round to."""


@dataclass(frozen=True, slots=True)
class _Field:
    """Where a number stands. excess: how much less than its value is kept; unit: what it is divided by.

    high: where the bits past the first 32 stand, as many as `high_width`; signed: in two's complement.
    """

    low: int
    width: int
    excess: int = 0
    unit: int = 1
    high: int = 0
    high_width: int = 0
    signed: bool = False

    @property
    def mask(self) -> int:
        return _ones(self.width) << self.low | _ones(self.high_width) << self.high

    def read(self, bits: int) -> int:
        kept = bits >> self.low & _ones(self.width) | (bits >> self.high & _ones(self.high_width)) << self.width
        if self.signed and kept >> (self.width - 1):
            kept -= 1 << self.width
        return kept * self.unit + self.excess

    def write(self, name: str, value: int) -> int:
        kept, rest = divmod(value - self.excess, self.unit)
        least = -(1 << (self.width - 1)) if self.signed else 0
        most = least + _ones(self.width + self.high_width)
        if rest or not least <= kept <= most:
            steps = f", in steps of {self.unit}" if self.unit > 1 else ""
            raise TilewrightError(
                f"no tensor map has {name} {value}: the format holds {least * self.unit + self.excess} to "
                f"{most * self.unit + self.excess}{steps}"
            )
        return (kept & _ones(self.width)) << self.low | (kept >> self.width & _ones(self.high_width)) << self.high


def _ones(count: int) -> int:
    return (1 << count) - 1


_ADDRESS = _Field(0, 57)
_IM2COL = _Field(64, 1)
_RANK = _Field(68, 3, excess=1)
_ELEMENT = _Field(71, 4)
_INTERLEAVE = _Field(75, 2)
_SWIZZLE = _Field(77, 2)
_FILL = _Field(79, 1)
_ROUNDS = _Field(80, 1)
_L2_PROMOTION = _Field(81, 2)
_STRIDES = tuple(_Field(96 + 32 * at, 32, unit=16, high=224 + 4 * at, high_width=4) for at in range(_RANK_MOST - 1))
_DIMS = tuple(_Field(256 + 32 * at, 32, excess=1) for at in range(_RANK_MOST))
_ELEMENT_STRIDES = tuple(_Field(416 + 3 * at, 3, excess=1) for at in range(_RANK_MOST))
_BOX = tuple(_Field(440 + 8 * at, 8, excess=1) for at in range(_RANK_MOST))
_CHANNELS = _Field(440, 8, excess=1)
_PIXELS = _Field(480, 10, excess=1)
_LOWER_BIT, _UPPER_BIT = 448, 464
_SHARED_BYTES = _Field(512, 32)
_PERIOD = _Field(576, 32)
_ALWAYS = (
    _ADDRESS, _IM2COL, _RANK, _ELEMENT, _INTERLEAVE, _SWIZZLE, _FILL, _ROUNDS, _L2_PROMOTION, _SHARED_BYTES, _PERIOD,
)  # fmt: skip


def _corners(lowest_bit: int, rank: int) -> tuple[_Field, ...]:
    width = _CORNER_BITS // (rank - 2)
    return tuple(_Field(lowest_bit + width * at, width, signed=True) for at in range(rank - 2))


@dataclass(frozen=True, slots=True)
class DecodedMap:
    """A map read from its bytes, and what is remarkable about them without making them another map."""

    map: TensorMap | Im2colMap
    remarks: tuple[str, ...]


def decode_map(content: bytes) -> TensorMap | Im2colMap:
    """The map that the 128 bytes of a `CUtensorMap` describe. Raises TilewrightError as `read_map` does."""
    return read_map(content).map


def read_map(content: bytes) -> DecodedMap:
    """The map that 128 bytes describe, with remarks: the driver's bug, notes that contradict the fields.

    Raises TilewrightError where they are no tensor map: another length, all zeros, bits that no map has.
    """
    if not isinstance(cast("object", content), bytes | bytearray | memoryview):
        raise TilewrightError(f"a tensor map is read from {SIZE_BYTES} bytes, not from {shown(content)}")
    content = bytes(content)
    if len(content) != SIZE_BYTES:
        what = "is empty" if not content else f"has {len(content)} bytes"
        raise TilewrightError(f"a tensor map has {SIZE_BYTES} bytes; this {what}")
    if not any(content):
        raise TilewrightError(
            "all 128 bytes are zero: no tensor map was encoded here",
            remedy="look at what cuTensorMapEncodeTiled returned",
        )
    bits = int.from_bytes(content, "little")
    remarks: list[str] = []
    if bits >> _DRIVER_BUG_BIT & 1:
        remarks.append(
            "bit 85 is set, as drivers up to 13.3 do by mistake for Blackwell (small tensors with gaps): copies may "
            "fault at random; clear bit 21 of the second 64-bit word after encoding"
        )
        bits &= ~(1 << _DRIVER_BUG_BIT)
    rank, im2col = _RANK.read(bits), bool(_IM2COL.read(bits))
    if rank > _RANK_MOST or (im2col and rank < _IM2COL_RANK_LEAST):
        kind = "im2col map" if im2col else "tensor map"
        raise TilewrightError(f"these 128 bytes are no tensor map: no {kind} has rank {rank}")
    strange = bits & ~sum(field.mask for field in _fields(rank, im2col))
    if strange:
        kind = "im2col" if im2col else "tiled"
        raise TilewrightError(
            f"these 128 bytes are no tensor map known here: {_bit_names(strange)} set, which no {kind} map of rank "
            f"{rank} has",
            remedy="maps of what Blackwell alone has are not known either",
        )
    map = _map_of(bits, rank, im2col)
    for name, field, wanted in _notes(map):
        found = field.read(bits)
        if found != wanted:
            remarks.append(
                f"the driver's note of the {name} says {found} where the fields say {wanted}: "
                "the map was changed after encoding"
            )
    return DecodedMap(map, tuple(remarks))


def _fields(rank: int, im2col: bool) -> Iterator[_Field]:
    """Every field of a map of this rank; they do not overlap."""
    yield from _ALWAYS
    yield from (*_STRIDES[: rank - 1], *_DIMS[:rank], *_ELEMENT_STRIDES[:rank])
    if im2col:
        yield from (_CHANNELS, _PIXELS, *_corners(_LOWER_BIT, rank), *_corners(_UPPER_BIT, rank))
    else:
        yield from _BOX[:rank]


def _map_of(bits: int, rank: int, im2col: bool) -> TensorMap | Im2colMap:
    interleave = _INTERLEAVE.read(bits)
    if interleave >= len(INTERLEAVES):
        raise TilewrightError(f"these 128 bytes are no tensor map: no interleave has code {interleave}")
    dtype = _data_type(_ELEMENT.read(bits), bool(_ROUNDS.read(bits)))
    dims, strides, steps = (
        tuple(field.read(bits) for field in fields)
        for fields in (_DIMS[:rank], _STRIDES[: rank - 1], _ELEMENT_STRIDES[:rank])
    )
    modes = (
        INTERLEAVES[interleave],
        SWIZZLES[_SWIZZLE.read(bits)],
        L2_PROMOTIONS[_L2_PROMOTION.read(bits)],
        FILLS[_FILL.read(bits)],
    )
    address = _ADDRESS.read(bits)
    if not im2col:
        box = tuple(field.read(bits) for field in _BOX[:rank])
        return TensorMap(dtype, dims, strides, box, steps, *modes, address)
    lower, upper = (tuple(field.read(bits) for field in _corners(bit, rank)) for bit in (_LOWER_BIT, _UPPER_BIT))
    counts = _CHANNELS.read(bits), _PIXELS.read(bits)
    return Im2colMap(dtype, dims, strides, lower, upper, *counts, steps, *modes, address)


def _data_type(code: int, rounds: bool) -> str:
    name = DATA_TYPES[_ELEMENT_CODES.index(code)].name if code in _ELEMENT_CODES else ""
    if rounds:
        name = next((rounded for rounded, kept in _ROUNDED.items() if kept == name), "")
    elif name in _ROUNDED:
        name = ""
    if not name:
        rounding = ", rounded to tf32" if rounds else ""
        raise TilewrightError(f"these 128 bytes are no tensor map of Hopper: no data type has code {code}{rounding}")
    return name


def encode_map(map: TensorMap | Im2colMap) -> bytes:
    """The 128 bytes that a driver makes of `map` for Hopper.

    Raises TilewrightError where a field does not hold its number. Whether a driver would make the map at all is for
    `check` to say.
    """
    if not isinstance(cast("object", map), TensorMap | Im2colMap):
        raise TilewrightError(f"{shown(map)} has no known bytes", remedy="give a TensorMap or an Im2colMap")
    rank, fields, im2col = map.rank, map.fields, isinstance(map, Im2colMap)
    if not (_IM2COL_RANK_LEAST if im2col else 1) <= rank <= _RANK_MOST:
        raise TilewrightError(f"no {'im2col' if im2col else 'tensor'} map has rank {rank}")
    dtype = cast("int", fields.dtype)
    swizzle, interleave = cast("int", fields.swizzle), cast("int", fields.interleave)
    if not 0 <= dtype < len(_ELEMENT_CODES) or not 0 <= swizzle < len(_PERIODS_BYTES):
        raise TilewrightError(
            f"data type {map.dtype} with swizzle {map.swizzle}: a map that Hopper does not have",
            remedy="the bytes of Blackwell's own maps are not known",
        )
    if not 0 <= interleave < len(INTERLEAVES):
        raise TilewrightError(f"no tensor map has interleave {interleave}")
    name = DATA_TYPES[dtype].name
    kept = next(at for at, each in enumerate(DATA_TYPES) if each.name == _ROUNDED.get(name, name))
    entries: list[tuple[_Field, str, int]] = [
        (_ADDRESS, "address", map.address),
        (_IM2COL, "im2col", im2col),
        (_RANK, "rank", rank),
        (_ELEMENT, "element code", _ELEMENT_CODES[kept]),
        (_ROUNDS, "rounding", name in _ROUNDED),
        (_INTERLEAVE, "interleave", interleave),
        (_SWIZZLE, "swizzle", swizzle),
        (_L2_PROMOTION, "l2_promotion", fields.l2_promotion),
        (_FILL, "oob_fill", fields.oob_fill),
    ]
    lists: list[tuple[str, tuple[_Field, ...], tuple[int, ...]]] = [
        ("dimension", _DIMS, map.dims),
        ("stride", _STRIDES, map.strides),
        ("element stride", _ELEMENT_STRIDES, fields.element_strides),
    ]
    if isinstance(map, Im2colMap):
        entries += [(_CHANNELS, "channels", map.channels_per_pixel), (_PIXELS, "pixels", map.pixels_per_column)]
        lists.append(("lower corner", _corners(_LOWER_BIT, rank), map.lower_corner))
        lists.append(("upper corner", _corners(_UPPER_BIT, rank), map.upper_corner))
    else:
        lists.append(("box extent", _BOX, map.box))
    for noun, places, numbers in lists:
        entries += [(place, noun, number) for place, number in zip(places, numbers, strict=False)]
    bits = sum(place.write(noun, number) for place, noun, number in entries)
    bits |= sum(place.write(noun, number) for noun, place, number in _notes(map))
    return bits.to_bytes(SIZE_BYTES, "little")


def _notes(map: TensorMap | Im2colMap) -> tuple[tuple[str, _Field, int], ...]:
    """What the driver notes for itself: bytes in shared memory, and a period.

    A box counts its elements divided by the element strides, rounded down, that of dimension 0 too; a column is counted
    whole. The bytes are kept modulo 2^32; a driver makes no map of so many.
    """
    if isinstance(map, Im2colMap):
        elements = map.channels_per_pixel * map.pixels_per_column
    else:
        elements = prod(extent // step for extent, step in zip(map.box, map.steps, strict=True))
    dtype, swizzle = cast("int", map.fields.dtype), cast("int", map.fields.swizzle)
    shared_bytes = elements * (DATA_TYPES[dtype].shared_bits // 8)
    period = _PERIODS_BYTES[swizzle]
    return ("shared bytes", _SHARED_BYTES, shared_bytes % (1 << 32)), ("swizzle period", _PERIOD, period)


def _bit_names(bits: int) -> str:
    numbers = [index for index in range(bits.bit_length()) if bits >> index & 1]
    shown = ", ".join(str(number) for number in numbers[:4])
    more = f" and {len(numbers) - 4} more" if len(numbers) > 4 else ""
    return f"bit{'s' if len(numbers) > 1 else ''} {shown}{more} {'are' if len(numbers) > 1 else 'is'}"
