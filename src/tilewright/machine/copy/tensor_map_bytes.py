"""How does the machine keep a tensor map in memory, so that a kernel may copy and change it there?

The vendor's 128-byte format is opaque, so the machine has one of its own, which plain loads and stores carry along:
the fields of `cuTensorMapEncodeTiled` or `cuTensorMapEncodeIm2col` with the absolute global address, and a mark. A map
of all zeros, as Triton writes before it fills the fields in, is an empty map of rank 1; `tensormap.replace` on it sets
the mark.

Fields and their values: PTX ISA 9.7.9.28 (tensormap.replace), tables of `.elemtype`, `.interleave_layout`,
`.swizzle_mode`, `.swizzle_atomicity`, `.fill_mode`; rank and ordinals count from 0, global strides are bytes.

An unknown map (of a launch that was not given) carries the generic address of the parameter that it came from, and
what one copy through it transfers, if that is known.

Not handled: PTX before 8.5, whose assembler took global strides in units of 16 bytes; `tensormap.replace` on an im2col
map, which PTX does not have (`.tile` only). Checked by: tests/machine/copy/test_tensor_map_bytes.py.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from struct import Struct

from tilewright.base.element import Element
from tilewright.base.plan import ElementVariant, Im2col, Im2colMode, Interleave, OutOfBounds, Swizzle, TensorMap
from tilewright.base.value import dataclass
from tilewright.machine.core.engine_fault import EngineFault
from tilewright.targets import Target

_MARK = 0x50_41_4D_57_54_31_30_01
_LAYOUT = Struct("<QQQqBBBBBB5I4Q5H5HB3h3hHH")
_MOST_RANK = 5

_ELEMENTS: tuple[tuple[Element, ElementVariant], ...] = (
    (Element.U8, "none"),
    (Element.U16, "none"),
    (Element.U32, "none"),
    (Element.S32, "none"),
    (Element.U64, "none"),
    (Element.S64, "none"),
    (Element.F16, "none"),
    (Element.F32, "none"),
    (Element.F32, "f32_ftz"),
    (Element.F64, "none"),
    (Element.BF16, "none"),
    (Element.F32, "tf32"),
    (Element.F32, "tf32_ftz"),
    (Element.U8, "u4x16_align8"),
    (Element.U8, "u4x16_align16"),
    (Element.U8, "u6x16_align16"),
)
"""By the code of `.elemtype`."""

_INTERLEAVES: tuple[Interleave, ...] = ("none", "16B", "32B")
_FILLS: tuple[OutOfBounds, ...] = ("zero", "nan")
_SWIZZLES: dict[tuple[int, int], Swizzle] = {
    (0, 0): "none",
    (1, 0): "32B",
    (2, 0): "64B",
    (3, 0): "128B",
    (3, 1): "128B_atom_32B",
    (3, 2): "128B_atom_32B_flip_8B",
    (3, 3): "128B_atom_64B",
}
"""By the codes of `.swizzle_mode` and `.swizzle_atomicity`."""
_MODES: tuple[Im2colMode | None, ...] = (None, "im2col", "im2col::w", "im2col::w::128")
_MOST_SPATIAL = 3


@dataclass(frozen=True, slots=True)
class MapFields:
    """A tensor map as it stands in memory. Codes as in `tensormap.replace`; arrays have entries for rank 5.

    unknown: fields that a launch would give are not known; origin: the generic address of the parameter that the map
    came from (0: made by the kernel); box_bytes: what one copy through an unknown map transfers, -1 if not known.
    """

    origin: int = 0
    address: int = 0
    box_bytes: int = -1
    unknown: bool = False
    rank: int = 1
    element: int = 0
    interleave: int = 0
    swizzle: int = 0
    atomicity: int = 0
    fill: int = 0
    dims: tuple[int, ...] = (0,) * _MOST_RANK
    strides_bytes: tuple[int, ...] = (0,) * (_MOST_RANK - 1)
    box: tuple[int, ...] = (0,) * _MOST_RANK
    element_strides: tuple[int, ...] = (0,) * _MOST_RANK
    mode: int = 0
    lower_corner: tuple[int, ...] = (0,) * _MOST_SPATIAL
    upper_corner: tuple[int, ...] = (0,) * _MOST_SPATIAL
    channels_per_pixel: int = 0
    pixels_per_column: int = 0


def encode(tensor_map: TensorMap, buffer_address: int, facts: Target) -> bytes:
    """The bytes of a target's map whose buffer begins at `buffer_address`. Raises EngineFault for a rank over 5."""
    swizzle, atomicity = next(codes for codes, mode in _SWIZZLES.items() if mode == tensor_map.swizzle)
    strides = tensor_map.element_strides or (1,) * tensor_map.rank
    im2col = tensor_map.im2col or Im2col((), (), 0, 0)
    return _pack(
        MapFields(
            address=buffer_address + tensor_map.offset_bytes,
            rank=tensor_map.rank,
            element=_ELEMENTS.index((_moved_as(tensor_map.element), tensor_map.variant)),
            interleave=_INTERLEAVES.index(tensor_map.interleave),
            swizzle=swizzle,
            atomicity=atomicity,
            fill=_FILLS.index(tensor_map.out_of_bounds),
            dims=_filled(tensor_map.dims, _MOST_RANK),
            strides_bytes=_filled(tensor_map.strides_bytes, _MOST_RANK - 1),
            box=_filled(tensor_map.box, _MOST_RANK),
            element_strides=_filled(strides, _MOST_RANK),
            mode=0 if tensor_map.im2col is None else _MODES.index(im2col.mode),
            lower_corner=_filled(im2col.lower_corner, _MOST_SPATIAL),
            upper_corner=_filled(im2col.upper_corner, _MOST_SPATIAL),
            channels_per_pixel=im2col.channels_per_pixel,
            pixels_per_column=im2col.pixels_per_column,
        ),
        size_bytes(facts),
    )


def _moved_as(element: Element) -> Element:
    """The element by whose code a map moves `element`: other numbers of 8 bits have none and move as bytes."""
    return Element.U8 if element.bytes == 1 else element


def size_bytes(facts: Target) -> int:
    """What a map takes in a target's memory."""
    return facts.limit("tensor_map.bytes")


def alignment_bytes(facts: Target) -> int:
    """What a map's address is a multiple of."""
    return facts.limit("tensor_map.alignment_bytes")


def encode_unknown(box_bytes: int | None, origin: int, facts: Target) -> bytes:
    """The bytes of a target's map of which nothing is known, but perhaps what one copy transfers."""
    fields = MapFields(origin=origin, unknown=True, box_bytes=-1 if box_bytes is None else box_bytes)
    return _pack(fields, size_bytes(facts))


def _filled(values: tuple[int, ...], length: int) -> tuple[int, ...]:
    if len(values) > length:
        raise EngineFault("TM201", "tensor-map", f"a tensor map with {len(values)} entries where {length} fit")
    return values + (0,) * (length - len(values))


def _pack(fields: MapFields, size: int) -> bytes:
    # Extents may be 2^32, which 32 bits hold as zero; unused ones are zero, too, and nobody asks for those.
    content = _LAYOUT.pack(
        _MARK,
        fields.origin,
        fields.address,
        fields.box_bytes,
        fields.unknown,
        # Rank and codes are checked when the map is used; here they only have to fit.
        (fields.rank - 1) & 0xF | (fields.fill & 0xF) << 4,
        fields.element & 0xFF,
        fields.interleave & 0xFF,
        fields.swizzle & 0xFF,
        fields.atomicity & 0xFF,
        *(extent & 0xFFFF_FFFF for extent in fields.dims),
        *(stride & 0xFFFF_FFFF_FFFF_FFFF for stride in fields.strides_bytes),
        *(min(extent, 0xFFFF) for extent in fields.box),
        *(min(stride, 0xFFFF) for stride in fields.element_strides),
        fields.mode,
        *(max(-0x8000, min(corner, 0x7FFF)) for corner in fields.lower_corner + fields.upper_corner),
        min(fields.channels_per_pixel, 0xFFFF),
        min(fields.pixels_per_column, 0xFFFF),
    )
    return content.ljust(size, b"\0")


@lru_cache(maxsize=1024)
def decode(content: bytes) -> MapFields | None:
    """The map that 128 bytes hold; an empty one for zeros; None for anything that is no map."""
    if not any(content):
        return MapFields()
    mark, origin, address, box_bytes, unknown, rank_and_fill, element, interleave, swizzle, atomicity, *rest = (
        _LAYOUT.unpack_from(content)
    )
    if mark != _MARK:
        return None
    return MapFields(
        origin=origin,
        address=address,
        box_bytes=box_bytes,
        unknown=bool(unknown),
        rank=(rank_and_fill & 0xF) + 1,
        fill=rank_and_fill >> 4,
        element=element,
        interleave=interleave,
        swizzle=swizzle,
        atomicity=atomicity,
        dims=tuple(rest[:5]),
        strides_bytes=tuple(rest[5:9]),
        box=tuple(rest[9:14]),
        element_strides=tuple(rest[14:19]),
        mode=rest[19],
        lower_corner=tuple(rest[20:23]),
        upper_corner=tuple(rest[23:26]),
        channels_per_pixel=rest[26],
        pixels_per_column=rest[27],
    )


FIELDS = (
    "global_address",
    "rank",
    "box_dim",
    "global_dim",
    "global_stride",
    "element_stride",
    "elemtype",
    "interleave_layout",
    "swizzle_mode",
    "swizzle_atomicity",
    "fill_mode",
)
"""What `tensormap.replace` can name."""


def replaced(content: bytes, field: str, ordinal: int, value: int) -> bytes:
    """`tensormap.replace` on the map in `content`. Raises EngineFault TM201 where the bytes are no map."""
    fields = decode(content)
    if fields is None:
        raise EngineFault("TM201", "no-tensor-map", "tensormap.replace on 128 bytes that hold no tensor map")
    if fields.mode:
        raise EngineFault("TM202", "tensor-map-mode", "tensormap.replace takes a tensor map of tile mode")
    limit = {"global_stride": _MOST_RANK - 1}.get(field, _MOST_RANK)
    if not 0 <= ordinal < limit:
        raise EngineFault("TM202", "tensor-map-field", f"tensormap.replace.{field} of dimension {ordinal}")
    match field:
        case "global_address":
            changed = replace(fields, address=value)
        case "rank":
            if value >= _MOST_RANK:
                raise EngineFault("TM202", "tensor-map-field", f"tensormap.replace.rank with {value}: rank minus one")
            changed = replace(fields, rank=value + 1)
        case "box_dim":
            changed = replace(fields, box=_at(fields.box, ordinal, value))
        case "global_dim":
            changed = replace(fields, dims=_at(fields.dims, ordinal, value))
        case "global_stride":
            changed = replace(fields, strides_bytes=_at(fields.strides_bytes, ordinal, value))
        case "element_stride":
            changed = replace(fields, element_strides=_at(fields.element_strides, ordinal, value))
        case "elemtype":
            changed = replace(fields, element=value)
        case "interleave_layout":
            changed = replace(fields, interleave=value)
        case "swizzle_mode":
            changed = replace(fields, swizzle=value)
        case "swizzle_atomicity":
            changed = replace(fields, atomicity=value)
        case _:
            changed = replace(fields, fill=value)
    return _pack(changed, len(content))


def _at(values: tuple[int, ...], index: int, value: int) -> tuple[int, ...]:
    return (*values[:index], value, *values[index + 1 :])


@lru_cache(maxsize=1024)
def tensor_map_of(fields: MapFields, buffer_address: int) -> TensorMap:
    """The map that known `fields` mean, relative to a buffer. Raises EngineFault TM202 for a code without meaning."""
    rank = fields.rank
    swizzle = _SWIZZLES.get((fields.swizzle, fields.atomicity))
    codes_fit = (
        fields.element < len(_ELEMENTS)
        and fields.interleave < len(_INTERLEAVES)
        and fields.fill < len(_FILLS)
        and swizzle is not None
        and rank <= _MOST_RANK
        and fields.mode < len(_MODES)
    )
    if not codes_fit or swizzle is None:
        raise EngineFault(
            "TM202",
            "tensor-map-field",
            f"a tensor map with rank {rank}, element code {fields.element}, interleave {fields.interleave}, swizzle "
            f"{fields.swizzle} of atomicity {fields.atomicity}, fill {fields.fill}: the machine has no such map",
        )
    element, variant = _ELEMENTS[fields.element]
    mode = _MODES[fields.mode]
    spatial = rank - 2 if mode == "im2col" else 1
    return TensorMap(
        element=element,
        dims=tuple(extent or 1 << 32 for extent in fields.dims[:rank]),
        strides_bytes=fields.strides_bytes[: rank - 1],
        box=fields.box[:rank] if mode is None else (),
        element_strides=fields.element_strides[:rank],
        swizzle=swizzle,
        interleave=_INTERLEAVES[fields.interleave],
        out_of_bounds=_FILLS[fields.fill],
        offset_bytes=fields.address - buffer_address,
        variant=variant,
        im2col=None
        if mode is None
        else Im2col(
            fields.lower_corner[:spatial],
            fields.upper_corner[:spatial],
            fields.channels_per_pixel,
            fields.pixels_per_column,
            mode,
        ),
    )
