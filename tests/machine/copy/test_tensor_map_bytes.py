"""Tensor maps as bytes: what is encoded is what is read, and replacing every field of an empty map makes the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.base.element import Element
from tilewright.base.plan import Im2col, TensorMap
from tilewright.machine.copy.tensor_map_bytes import (
    decode,
    encode,
    encode_unknown,
    replaced,
    size_bytes,
    tensor_map_of,
)
from tilewright.machine.core.engine_fault import EngineFault
from tilewright.targets import target

HOPPER = target("sm_90a")

ELEMENT_CODES = {Element.U8: 0, Element.F16: 6, Element.F32: 7, Element.BF16: 10}
SWIZZLES = {"none": (0, 0), "32B": (1, 0), "64B": (2, 0), "128B": (3, 0), "128B_atom_64B": (3, 3)}


@st.composite
def tensor_maps(draw: st.DrawFn) -> TensorMap:
    rank = draw(st.integers(1, 5))

    def extents(least: int, most: int, count: int = rank) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.integers(least, most), min_size=count, max_size=count)))

    return TensorMap(
        element=draw(st.sampled_from(list(ELEMENT_CODES))),
        dims=extents(1, 1 << 32),
        strides_bytes=extents(16, 1 << 39, rank - 1),
        box=extents(1, 256),
        element_strides=extents(1, 8),
        swizzle=draw(st.sampled_from(["none", "32B", "64B", "128B", "128B_atom_64B"])),
        interleave=draw(st.sampled_from(["none", "16B", "32B"])),
        out_of_bounds=draw(st.sampled_from(["zero", "nan"])),
        offset_bytes=draw(st.integers(0, 1 << 20)),
    )


@given(tensor_maps(), st.integers(0, 1 << 47))
def test_a_map_is_read_as_it_was_written(tensor_map: TensorMap, base: int) -> None:
    content = encode(tensor_map, base, HOPPER)
    fields = decode(content)
    assert len(content) == size_bytes(HOPPER) and fields is not None and not fields.unknown
    assert fields.address == base + tensor_map.offset_bytes
    assert tensor_map_of(fields, base) == tensor_map


@pytest.mark.parametrize(
    "tensor_map",
    [
        TensorMap(Element.F32, (4, 8), (16,), (4, 2), (1, 1), variant="tf32_ftz"),
        TensorMap(Element.U8, (128, 8), (96,), (128, 2), (1, 1), variant="u6x16_align16"),
        TensorMap(
            Element.BF16, (64, 8, 6, 5, 4), (128, 1024, 6144, 30720), (), (1, 2, 1, 3, 1),
            im2col=Im2col((-16, 0, 15), (-1, 1, -16), 256, 1024),
        ),
        TensorMap(
            Element.F16, (64, 8, 6), (128, 1024), (), (1, 1, 1), im2col=Im2col((-32768,), (32767,), 64, 0, "im2col::w")
        ),
    ],
)  # fmt: skip
def test_columns_and_driver_types_are_read_as_they_were_written(tensor_map: TensorMap) -> None:
    content = encode(tensor_map, 1 << 40, HOPPER)
    fields = decode(content)
    assert len(content) == size_bytes(HOPPER) and fields is not None
    assert tensor_map_of(fields, 1 << 40) == tensor_map


def test_columns_cannot_be_replaced() -> None:
    columns = TensorMap(Element.F16, (64, 8, 6), (128, 1024), (), im2col=Im2col((0,), (0,), 64, 8))
    with pytest.raises(EngineFault, match="takes a tensor map of tile mode"):
        replaced(encode(columns, 0, HOPPER), "global_address", 0, 4096)


@given(tensor_maps(), st.integers(0, 1 << 47))
def test_replacing_every_field_of_an_empty_map_makes_the_map(tensor_map: TensorMap, base: int) -> None:
    content = bytes(size_bytes(HOPPER))
    content = replaced(content, "global_address", 0, base + tensor_map.offset_bytes)
    content = replaced(content, "rank", 0, tensor_map.rank - 1)
    for ordinal in range(tensor_map.rank):
        content = replaced(content, "global_dim", ordinal, tensor_map.dims[ordinal] & 0xFFFF_FFFF)
        content = replaced(content, "box_dim", ordinal, tensor_map.box[ordinal])
        content = replaced(content, "element_stride", ordinal, tensor_map.element_strides[ordinal])
        if ordinal:
            content = replaced(content, "global_stride", ordinal - 1, tensor_map.strides_bytes[ordinal - 1])
    mode, atomicity = SWIZZLES[tensor_map.swizzle]
    content = replaced(content, "elemtype", 0, ELEMENT_CODES[tensor_map.element])
    content = replaced(content, "swizzle_mode", 0, mode)
    content = replaced(content, "swizzle_atomicity", 0, atomicity)
    content = replaced(content, "interleave_layout", 0, ["none", "16B", "32B"].index(tensor_map.interleave))
    content = replaced(content, "fill_mode", 0, ["zero", "nan"].index(tensor_map.out_of_bounds))
    assert content == encode(tensor_map, base, HOPPER)


@given(st.binary(min_size=size_bytes(HOPPER), max_size=size_bytes(HOPPER)))
def test_other_bytes_are_no_map(content: bytes) -> None:
    # Eight bytes of the mark do not occur by chance.
    assert decode(content) is None or not any(content)


def test_an_unknown_map_keeps_its_origin_when_fields_are_replaced() -> None:
    content = replaced(encode_unknown(4096, 0x7E00_0000_0040, HOPPER), "global_address", 0, 1 << 40)
    fields = decode(content)
    assert fields is not None and fields.unknown and fields.box_bytes == 4096
    assert (fields.origin, fields.address) == (0x7E00_0000_0040, 1 << 40)


@pytest.mark.parametrize(("field", "ordinal", "value"), [("global_stride", 4, 16), ("box_dim", 5, 1), ("rank", 0, 5)])
def test_fields_that_no_map_has(field: str, ordinal: int, value: int) -> None:
    with pytest.raises(EngineFault) as caught:
        replaced(bytes(size_bytes(HOPPER)), field, ordinal, value)
    assert caught.value.code == "TM202"


@pytest.mark.parametrize(("field", "value"), [("elemtype", 99), ("swizzle_mode", 4), ("interleave_layout", 3)])
def test_codes_without_meaning_are_found_when_the_map_is_used(field: str, value: int) -> None:
    fields = decode(replaced(bytes(size_bytes(HOPPER)), field, 0, value))
    assert fields is not None
    with pytest.raises(EngineFault) as caught:
        tensor_map_of(fields, 0)
    assert caught.value.code == "TM202"


def test_a_field_of_no_map_is_a_fault() -> None:
    with pytest.raises(EngineFault) as caught:
        replaced(b"\x01" * size_bytes(HOPPER), "rank", 0, 1)
    assert caught.value.code == "TM201"
