"""What launch file a record makes: kinds of parameters, addresses, tensor maps of every kind."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from tilewright.base.plan import TensorMapParam
from tilewright.driver.capture.launches import BufferContent, captured
from tilewright.driver.capture.maps import described, span_bytes
from tilewright.driver.capture.records import EncodedMap, KernelRecord, LaunchRecord, MemoryRange
from tilewright.driver.launch.launch_file import launch_from_json

A, B = MemoryRange(0x7F0000000000, 4096), MemoryRange(0x7F0000100010, 8192)
KERNEL = KernelRecord("k", None, 90, None)


def launch(parameters: bytes, pointers: dict[int, int], ranges: tuple[MemoryRange, ...] = (A, B)) -> LaunchRecord:
    return LaunchRecord(1, KERNEL, (1, 1, 1), (32, 1, 1), None, 0, 0, parameters, ranges, pointers)


def tiled(address: int, encoded: bytes, memory: MemoryRange | None = A) -> EncodedMap:
    return EncodedMap(0, encoded, 9, address, memory, (64, 32), (128,), (1, 1), (64, 8, 0, 3, 0, 0))


def test_numbers_and_pointers() -> None:
    block = struct.pack("<QQQfibhiQ", B.start + 32, A.start, 7, 0.1, -2, 5, -1, 0x7FC00001, 0)
    places = [(0, 8), (8, 8), (16, 8), (24, 4), (28, 4), (32, 1), (33, 2), (35, 4), (39, 8)]
    types = ("u64", "u64", "u64", "f32", "u32", "u8", "s16", "f32", "u64")
    document: Any = captured(launch(block, {0: 1, 8: 0}), {}, places, types).document
    assert document["params"] == [
        {"kind": "ptr", "bytes": 8192, "buffer": "buffer0", "offset": 32, "align": 16},
        {"kind": "ptr", "bytes": 4096, "buffer": "buffer1"},
        {"kind": "i64", "value": 7},
        {"kind": "f32", "value": struct.unpack("<f", struct.pack("<f", 0.1))[0]},
        {"kind": "i32", "value": 2**32 - 2},
        {"kind": "i32", "value": 5},
        {"kind": "i32", "value": 0xFFFF},
        # A NaN keeps its bits.
        {"kind": "i32", "value": 0x7FC00001},
        {"kind": "i64", "value": 0},
    ]
    launch_from_json(document, "x.json")


def test_addresses_leave_no_trace() -> None:
    """A launch with buffers elsewhere is the same file, structures included."""
    documents: list[Any] = []
    for moved in (0, 0x10000):
        first, second = MemoryRange(A.start + moved, 4096), MemoryRange(B.start + 3 * moved, 8192)
        encoded = struct.pack("<Q", second.start) + bytes(120)
        block = struct.pack("<IIQ", 1, 2, first.start + 8).ljust(64, b"\0") + encoded + struct.pack("<Q", second.start)
        record = launch(block, {8: 0, 64: 1, 192: 1}, (first, second))
        documents.append(captured(record, {encoded: tiled(second.start, encoded, second)}, [(0, 200)]).document)
    assert documents[0] == documents[1]
    (structure,) = documents[0]["params"]
    assert structure["data"] == struct.pack("<II", 1, 2).hex() + bytes(192).hex()
    assert [(field["kind"], field["at"], field["buffer"]) for field in structure["fields"]] == [
        ("ptr", 8, "buffer0"),
        ("tensormap", 64, "buffer1"),
        ("ptr", 192, "buffer1"),
    ]


def test_a_map_of_memory_that_no_pointer_leads_to() -> None:
    """Its buffer is what it was encoded for, or one of its own."""
    encoded = bytes(range(128))
    other = MemoryRange(0x7E0000000000, 1 << 20)
    short = MemoryRange(other.start, 8191)  # the map reaches 4096 bytes from an offset of 4096
    for memory, buffer, offset in ((other, "buffer0", 4096), (None, "map0", 0), (short, "map0", 0)):
        found = tiled(other.start + 4096, encoded, memory)
        document: Any = captured(launch(encoded, {}, ()), {encoded: found}, [(0, 128)]).document
        (param,) = document["params"]
        assert (param["buffer"], param.get("offset", 0)) == (buffer, offset)
        launch_from_json(document, "x.json")


def test_what_a_buffer_holds_is_listed_with_its_first_pointer() -> None:
    encoded = (B.start + 16).to_bytes(8, "little") + bytes(range(120))
    other = MemoryRange(0x7E0000000000, 64)
    data = bytes(192) + encoded + bytes(32) + struct.pack("<QQ", A.start + 8, other.start) + bytes(3728)
    content = BufferContent(data, ((192, B), (352, A), (360, other)))
    record = launch(struct.pack("<QQ", B.start, A.start + 64), {0: 1, 8: 0})
    maps = {encoded: tiled(B.start + 16, encoded)}
    found = captured(record, maps, [(0, 8), (8, 8)], (), {A: content, other: BufferContent(bytes(64))})
    document: Any = found.document
    first, second = document["params"]
    assert "maps" not in first and list(found.saved) == ["buffer1", "buffer2"]
    assert found.saved["buffer1"] == (second, content)
    # The buffer that it points to was saved, too.
    assert found.saved["buffer2"] == (second["pointers"][1], BufferContent(bytes(64)))
    (held,) = second["maps"]
    assert (held["at"], held["buffer"], held["offset"]) == (192, "buffer0", 16)
    # The map's own address is no pointer.
    assert [(each["at"], each["buffer"], each.get("offset", 0)) for each in second["pointers"]] == [
        (352, "buffer1", 8),
        (360, "buffer2", 0),
    ]
    # A buffer without any, and one that no parameter points to.
    plain = captured(record, maps, [(0, 8)], (), {A: content, B: BufferContent(bytes(256))})
    document = plain.document
    assert document["params"][0].keys() == {"kind", "bytes", "buffer", "align"} and set(plain.saved) == {"buffer0"}


def test_a_block_that_is_too_short_is_refused() -> None:
    with pytest.raises(ValueError, match="4 bytes of parameters were given"):
        captured(launch(bytes(4), {}), {}, [(0, 8)])


@pytest.mark.parametrize(
    ("kind", "dims", "numbers", "im2col"),
    [
        (
            1,
            (64, 8, 6, 2),
            (64, 32, -1, -1, 0, 1, 0, 2, 1, 1),
            {"lower_corner": [-1, -1], "upper_corner": [0, 1], "channels_per_pixel": 64, "pixels_per_column": 32},
        ),
        (
            2,
            (64, 8, 6, 2),
            (64, 32, -1, 2, 1, 0, 2, 1, 1),
            {
                "lower_corner": [-1],
                "upper_corner": [2],
                "channels_per_pixel": 64,
                "pixels_per_column": 32,
                "mode": "im2col::w::128",
            },
        ),
    ],
)
def test_im2col_maps(kind: int, dims: tuple[int, ...], numbers: tuple[int, ...], im2col: dict[str, object]) -> None:
    found = EncodedMap(kind, bytes(128), 6, A.start, A, dims, (128, 1024, 6144), (1, 2, 1, 1), numbers)
    fields = described(found)
    assert fields == {
        "kind": "tensormap",
        "dtype": "f16",
        "dims": list(dims),
        "strides": [128, 1024, 6144],
        "im2col": im2col,
        "element_strides": [1, 2, 1, 1],
        "swizzle": "64B",
        "l2_promotion": "64B",
        "oob": "nan",
    }
    (param,) = launch_from_json({"params": [{**fields, "buffer": "x"}]}, "x.json").params
    assert isinstance(param, TensorMapParam) and param.map.im2col is not None


def test_every_number_of_a_tiled_map() -> None:
    names: dict[str, list[Any]] = {"dtype": [], "swizzle": [], "interleave": [], "l2_promotion": [], "oob": []}
    for data_type, interleave, swizzle, promotion, fill in (
        *((number, 0, 0, 0, 0) for number in range(16)),
        *((0, 0, number, 0, 0) for number in range(7)),
        *((0, number, 0, 0, 0) for number in range(3)),
        *((0, 0, 0, number, 0) for number in range(4)),
        *((6, 0, 0, 0, number) for number in range(2)),
    ):
        numbers = (64, 8, interleave, swizzle, promotion, fill)
        found = EncodedMap(0, bytes(128), data_type, A.start, A, (64, 32), (128,), (1, 1), numbers)
        fields = described(found)
        (buffer,) = launch_from_json({"params": [{**fields, "buffer": "x"}]}, "x.json").buffers
        assert buffer.size_bytes == span_bytes(found)
        for name, values in names.items():
            values.append(fields.get(name))
    assert [len(set(values) - {None}) for values in names.values()] == [16, 6, 2, 3, 1]
    assert names["dtype"][:16] == [
        "u8", "u16", "u32", "i32", "u64", "i64", "f16", "f32", "f64", "bf16", "f32_ftz", "tf32", "tf32_ftz",
        "u4x16_align8", "u4x16_align16", "u6x16_align16",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="data type 16"):
        described(EncodedMap(0, bytes(128), 16, 0, None, (64,), (), (1,), (64, 0, 0, 0, 0)))
