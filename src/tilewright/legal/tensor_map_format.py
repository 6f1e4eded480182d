"""What do the 128 bytes of a `CUtensorMap` say, and which bytes does the driver make of a tensor map?

The vendor states no format. This one was read off 2,000 maps that a driver made for an H200 (tests/data/tma_*.npz, with
their arguments) and more of the probe `tensormap_bytes`. Bits count from the lowest of byte 0; numbers are
little-endian; dims, boxes, element strides and the rank are kept less one, strides in units of 16 bytes:

    0 address; 68 rank; 71 element, 77 swizzle (numbered as in `tensormap.replace`); 75 interleave; 79 fill
    96, 128, 160, 192 strides; 256, 288, ... 384 dims; 416, 419, ... 428 element strides; 440, 448, ... 472 box
    512 bytes of shared memory, 576 the swizzle's period: the driver's own notes, which the copy engine needs not

Entries past the rank are 0. `decode_map` undoes `encode_map`. Every other bit was 0 in every map seen; a map with one
set is refused, since nobody could say what it means. Bit 85 is one of them, which drivers up to 13.3 set by mistake on
Blackwell for small tensors with gaps (release notes 595.71.05): it is told apart and reported.

Not handled: atoms of swizzles, packed elements and im2col-wide maps, for want of a Blackwell driver's bytes.
Checked by tests/legal/test_tensor_map_format.py against the driver's maps.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tilewright.base.error import TilewrightError
from tilewright.legal.enumerations import DATA_TYPES, FILLS, INTERLEAVES, SWIZZLES
from tilewright.legal.tensor_map import TensorMap
from tilewright.targets import target

SIZE_BYTES = 128
_RANK_MOST = 5
_DRIVER_BUG_BIT = 85
_HOPPER = target("sm_90a")
"""The format is one of Hopper's: no other was seen."""


@dataclass(frozen=True, slots=True)
class _Field:
    """Where a number stands. excess: how much less than its value is kept; unit: what it is divided by."""

    low: int
    width: int
    excess: int = 0
    unit: int = 1

    @property
    def mask(self) -> int:
        return (1 << self.width) - 1 << self.low

    def read(self, bits: int) -> int:
        return ((bits & self.mask) >> self.low) * self.unit + self.excess

    def write(self, name: str, value: int) -> int:
        kept, rest = divmod(value - self.excess, self.unit)
        if rest or not 0 <= kept < 1 << self.width:
            most = ((1 << self.width) - 1) * self.unit + self.excess
            steps = f", in steps of {self.unit}" if self.unit > 1 else ""
            raise TilewrightError(f"no tensor map has {name} {value}: the format holds {self.excess} to {most}{steps}")
        return kept << self.low


_FIELDS: dict[str, _Field] = {
    "address": _Field(0, 57),
    "rank": _Field(68, 3, excess=1),
    "dtype": _Field(71, 4),
    "interleave": _Field(75, 2),
    "swizzle": _Field(77, 2),
    "oob_fill": _Field(79, 1),
    "shared bytes": _Field(512, 32),
    "swizzle period": _Field(576, 32),
}
_STRIDES = tuple(_Field(96 + 32 * index, 32, unit=16) for index in range(_RANK_MOST - 1))
_DIMS = tuple(_Field(256 + 32 * index, 32, excess=1) for index in range(_RANK_MOST))
_ELEMENT_STRIDES = tuple(_Field(416 + 3 * index, 3, excess=1) for index in range(_RANK_MOST))
_BOX = tuple(_Field(440 + 8 * index, 8, excess=1) for index in range(_RANK_MOST))
_KNOWN_BITS = sum(field.mask for field in (*_FIELDS.values(), *_STRIDES, *_DIMS, *_ELEMENT_STRIDES, *_BOX))


@dataclass(frozen=True, slots=True)
class DecodedMap:
    """A map read from its bytes, and what is remarkable about them without making them another map."""

    map: TensorMap
    remarks: tuple[str, ...]


def decode_map(content: bytes) -> TensorMap:
    """The map that the 128 bytes of a `CUtensorMap` describe. Raises TilewrightError as `read_map` does."""
    return read_map(content).map


def read_map(content: bytes) -> DecodedMap:
    """The map that 128 bytes describe, with remarks: the driver's bug, notes that contradict the fields.

    Raises TilewrightError where they are no tensor map: another length, all zeros, bits that no map has.
    """
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
    strange = bits & ~_KNOWN_BITS
    if strange:
        raise TilewrightError(
            f"these 128 bytes are no tensor map known here: {_bit_names(strange)} set, which are 0 in every tiled map",
            remedy="maps of Blackwell's own features and of im2col-wide are not known either",
        )
    rank = _FIELDS["rank"].read(bits)
    if rank > _RANK_MOST:
        raise TilewrightError(f"these 128 bytes are no tensor map: their rank is {rank}")
    past = _past_rank(rank)
    if bits & past:
        raise TilewrightError(
            f"these 128 bytes are no tensor map: {_bit_names(bits & past)} set, of dimensions past rank {rank}"
        )
    map = _map_of(bits, rank)
    for name, wanted in _notes(map).items():
        found = _FIELDS[name].read(bits)
        if found != wanted:
            remarks.append(
                f"the driver's note of the {name} says {found} where the fields say {wanted}: "
                "the map was changed after encoding"
            )
    return DecodedMap(map, tuple(remarks))


def _map_of(bits: int, rank: int) -> TensorMap:
    element_codes = _HOPPER.limits("tensormap_replace.element_codes")
    element, interleave = _FIELDS["dtype"].read(bits), _FIELDS["interleave"].read(bits)
    if element not in element_codes:
        raise TilewrightError(f"these 128 bytes are no tensor map of Hopper: no data type has code {element}")
    if interleave >= len(INTERLEAVES):
        raise TilewrightError(f"these 128 bytes are no tensor map: no interleave has code {interleave}")
    return TensorMap(
        dtype=DATA_TYPES[element_codes.index(element)].name,
        dims=tuple(field.read(bits) for field in _DIMS[:rank]),
        strides=tuple(field.read(bits) for field in _STRIDES[: rank - 1]),
        box=tuple(field.read(bits) for field in _BOX[:rank]),
        element_strides=tuple(field.read(bits) for field in _ELEMENT_STRIDES[:rank]),
        interleave=INTERLEAVES[interleave],
        swizzle=SWIZZLES[_FIELDS["swizzle"].read(bits)],
        oob_fill=FILLS[_FIELDS["oob_fill"].read(bits)],
        address=_FIELDS["address"].read(bits),
    )


def encode_map(map: TensorMap) -> bytes:
    """The 128 bytes that a driver makes of `map` for Hopper.

    Raises TilewrightError where a field does not hold its number. Whether a driver would make the map at all is for
    `check` to say.
    """
    if not 1 <= map.rank <= _RANK_MOST:
        raise TilewrightError(f"no tensor map has rank {map.rank}")
    element_codes = _HOPPER.limits("tensormap_replace.element_codes")
    periods = _HOPPER.limits("tensor_map.swizzle_period_bytes")
    dtype, swizzle, interleave, fill = _codes(map)
    if not 0 <= dtype < len(element_codes) or not 0 <= swizzle < len(periods):
        raise TilewrightError(
            f"data type {map.dtype} with swizzle {map.swizzle}: a map that Hopper does not have",
            remedy="the bytes of Blackwell's own maps are not known",
        )
    if not 0 <= interleave < len(INTERLEAVES):
        raise TilewrightError(f"no tensor map has interleave {interleave}")
    values = {
        "address": map.address,
        "rank": map.rank,
        "dtype": element_codes[dtype],
        "interleave": interleave,
        "swizzle": swizzle,
        "oob_fill": fill,
    }
    entries: list[tuple[_Field, str, int]] = [(_FIELDS[name], name, value) for name, value in values.items()]
    for name, places, numbers in (
        ("dimension", _DIMS, map.dims),
        ("stride", _STRIDES, map.strides),
        ("box extent", _BOX, map.box),
        ("element stride", _ELEMENT_STRIDES, map.steps),
    ):
        entries += [(place, name, number) for place, number in zip(places, numbers, strict=False)]
    bits = sum(place.write(name, number) for place, name, number in entries)
    bits |= sum(_FIELDS[name].write(name, number) for name, number in _notes(map).items())
    return bits.to_bytes(SIZE_BYTES, "little")


def _codes(map: TensorMap) -> tuple[int, int, int, int]:
    """Data type, swizzle, interleave and fill as the driver's numbers."""
    fields = map.fields
    return fields.dtype, fields.swizzle, fields.interleave, fields.oob_fill


def _notes(map: TensorMap) -> dict[str, int]:
    """What the driver notes for itself: bytes of a box in shared memory, element strides rounded down, and a period.

    The bytes are kept modulo 2^32; a driver makes no map of so many.
    """
    dtype, swizzle, _, _ = _codes(map)
    elements = prod(extent // step for extent, step in zip(map.box, (1, *map.steps[1:]), strict=True))
    shared_bytes = elements * (DATA_TYPES[dtype].shared_bits // 8)
    period = _HOPPER.limits("tensor_map.swizzle_period_bytes")[swizzle]
    return {"shared bytes": shared_bytes % (1 << 32), "swizzle period": period}


def _past_rank(rank: int) -> int:
    fields = (*_STRIDES[rank - 1 :], *_DIMS[rank:], *_BOX[rank:], *_ELEMENT_STRIDES[rank:])
    return sum(field.mask for field in fields)


def _bit_names(bits: int) -> str:
    numbers = [index for index in range(bits.bit_length()) if bits >> index & 1]
    shown = ", ".join(str(number) for number in numbers[:4])
    more = f" and {len(numbers) - 4} more" if len(numbers) > 4 else ""
    return f"bit{'s' if len(numbers) > 1 else ''} {shown}{more} {'are' if len(numbers) > 1 else 'is'}"
