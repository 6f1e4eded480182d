"""What launch file does a recorded launch make? Numbers, pointers into buffers, and tensor maps, without addresses.

Allocations of the device become buffers, `buffer0`, `buffer1`, ... in the order in which parameters point into them,
and a pointer is a buffer and an offset. A window of 128 bytes that a tensor map was encoded to is that map. Two
launches that differ in addresses alone make the same file.

Where a buffer's bytes were saved, the tensor maps and pointers that stand in them are listed with the first pointer
into it.

A buffer is what the program allocated: a framework's pool of many tensors is one. Words that are not aligned to 8 bytes
are not taken for pointers. Checked by: tests/driver/capture/test_launches.py.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import cast

from tilewright.driver.capture.maps import described, span_bytes
from tilewright.driver.capture.records import TENSOR_MAP_BYTES, EncodedMap, LaunchRecord, MemoryRange
from tilewright.driver.launch.given_launch import DEFAULT_ALIGNMENT_BYTES

_MAP_ALIGNMENT_BYTES = 64
"""Of a tensor map in memory (CUDA Driver API, cuTensorMapEncodeTiled)."""


@dataclass(frozen=True, slots=True)
class BufferContent:
    """Bytes of a buffer before a launch. pointers: words that point into memory, by their offset, with its range."""

    data: bytes
    pointers: tuple[tuple[int, MemoryRange], ...] = ()


@dataclass(frozen=True, slots=True)
class CapturedLaunch:
    """document: the launch file; saved: by the name of a buffer whose content was saved, its pointer in the document,
    and the content."""

    document: dict[str, object]
    saved: dict[str, tuple[dict[str, object], BufferContent]]


@dataclass(slots=True)
class _Buffers:
    """Names of ranges, in the order in which they are met."""

    ranges: Sequence[MemoryRange]
    names: dict[MemoryRange, str] = field(default_factory=dict[MemoryRange, str])
    maps: dict[bytes, str] = field(default_factory=dict[bytes, str])

    def name(self, memory: MemoryRange) -> str:
        return self.names.setdefault(memory, f"buffer{len(self.names)}")

    def own(self, encoded: EncodedMap) -> str:
        """A buffer for one tensor map alone."""
        return self.maps.setdefault(encoded.encoded, f"map{len(self.maps)}")


def captured(
    launch: LaunchRecord,
    maps: Mapping[bytes, EncodedMap],
    places: Sequence[tuple[int, int]],
    types: Sequence[str] = (),
    contents: Mapping[MemoryRange, BufferContent] = MappingProxyType({}),
) -> CapturedLaunch:
    """The launch as a file.

    places: offset and size of each parameter; types: as PTX declares them, where it is known
    contents: of buffers that were saved

    Raises ValueError where the record contradicts them.
    """
    buffers = _Buffers(launch.ranges)
    params = [
        _parameter(launch, maps, at, size, types[index] if index < len(types) else "", buffers)
        for index, (at, size) in enumerate(places)
    ]
    saved: dict[str, tuple[dict[str, object], BufferContent]] = {}
    holders = list(_pointers(params))
    # What a buffer holds may lead to others.
    while holders:
        holder = holders.pop(0)
        name = cast("str", holder["buffer"])
        memory = next(memory for memory, each in buffers.names.items() if each == name)
        if name not in saved and memory in contents:
            saved[name] = holder, contents[memory]
            holders += _add_contents(holder, launch, maps, buffers, contents[memory])
    document: dict[str, object] = {
        "entry": launch.kernel.name,
        "grid": list(launch.grid),
        "block": list(launch.block),
    }
    if launch.cluster is not None:
        document["cluster"] = list(launch.cluster)
    document |= {"dynamic_smem": launch.dynamic_smem_bytes, "params": params}
    return CapturedLaunch(document, saved)


def _parameter(
    launch: LaunchRecord, maps: Mapping[bytes, EncodedMap], at: int, size: int, type_name: str, buffers: _Buffers
) -> dict[str, object]:
    data = launch.parameters[at : at + size]
    if len(data) < size:
        raise ValueError(f"{len(launch.parameters)} bytes of parameters were given; one has {size} at {at}")
    if size == TENSOR_MAP_BYTES and data in maps:
        return _map_field(launch, maps[data], buffers)
    if size == 8:
        pointer = _pointer_field(launch, at, buffers)
        return pointer or {"kind": "i64", "value": int.from_bytes(data, "little")}
    if size == 4 and type_name == "f32":
        (value,) = struct.unpack("<f", data)
        if math.isfinite(value):
            return {"kind": "f32", "value": value}
    if size in (1, 2, 4):
        return {"kind": "i32", "value": int.from_bytes(data, "little")}
    return _structure(launch, maps, at, data, buffers)


def _structure(
    launch: LaunchRecord, maps: Mapping[bytes, EncodedMap], at: int, data: bytes, buffers: _Buffers
) -> dict[str, object]:
    """Bytes, with the pointers and tensor maps in them as fields; what they cover is zero in the data."""
    content = bytearray(data)
    fields: list[dict[str, object]] = []
    offset = -at % 8
    while offset + 8 <= len(data):
        window = data[offset : offset + TENSOR_MAP_BYTES]
        if window in maps:
            fields.append({"at": offset, **_map_field(launch, maps[window], buffers)})
            content[offset : offset + TENSOR_MAP_BYTES] = bytes(TENSOR_MAP_BYTES)
            offset += TENSOR_MAP_BYTES
            continue
        pointer = _pointer_field(launch, at + offset, buffers)
        if pointer is not None:
            fields.append({"at": offset, **pointer})
            content[offset : offset + 8] = bytes(8)
        offset += 8
    found: dict[str, object] = {"kind": "bytes", "size": len(data), "data": content.hex()}
    return {**found, "fields": fields} if fields else found


def _pointer_field(launch: LaunchRecord, at: int, buffers: _Buffers) -> dict[str, object] | None:
    index = launch.pointers.get(at)
    if index is None:
        return None
    return _pointer(int.from_bytes(launch.parameters[at : at + 8], "little"), launch.ranges[index], buffers)


def _pointer(address: int, memory: MemoryRange, buffers: _Buffers) -> dict[str, object]:
    found: dict[str, object] = {"kind": "ptr", "bytes": memory.size_bytes, "buffer": buffers.name(memory)}
    if address != memory.start:
        found["offset"] = address - memory.start
    aligned = memory.start & -memory.start
    if aligned < DEFAULT_ALIGNMENT_BYTES:
        found["align"] = aligned
    return found


def _map_field(launch: LaunchRecord, encoded: EncodedMap, buffers: _Buffers) -> dict[str, object]:
    found = described(encoded)
    memory = next((each for each in launch.ranges if _inside(encoded.address, each)), encoded.memory)
    if memory is None or encoded.address + span_bytes(encoded) > memory.start + memory.size_bytes:
        # Memory that the driver does not know, or a map to be completed on the device, whose address says nothing yet.
        return {**found, "buffer": buffers.own(encoded)}
    found["buffer"] = buffers.name(memory)
    if encoded.address != memory.start:
        found["offset"] = encoded.address - memory.start
    return found


def _add_contents(
    param: dict[str, object],
    launch: LaunchRecord,
    maps: Mapping[bytes, EncodedMap],
    buffers: _Buffers,
    content: BufferContent,
) -> list[dict[str, object]]:
    """List the tensor maps and pointers that a buffer holds with the first pointer into it. Returns the pointers."""
    held: list[dict[str, object]] = []
    if maps:
        for at in range(0, len(content.data) - TENSOR_MAP_BYTES + 1, _MAP_ALIGNMENT_BYTES):
            encoded = maps.get(content.data[at : at + TENSOR_MAP_BYTES])
            if encoded is not None:
                held.append({"at": at, **_map_field(launch, encoded, buffers)})
    inside = {cast("int", each["at"]) for each in held}
    pointers: list[dict[str, object]] = [
        {"at": at, **_pointer(int.from_bytes(content.data[at : at + 8], "little"), memory, buffers)}
        for at, memory in content.pointers
        # The first word of a tensor map is an address, too.
        if not any(begin in inside for begin in range(at - at % _MAP_ALIGNMENT_BYTES - 64, at + 1, 64))
    ]
    if held:
        param["maps"] = held
    if pointers:
        param["pointers"] = pointers
    return pointers


def _pointers(params: list[dict[str, object]]) -> Iterator[dict[str, object]]:
    for param in params:
        if param["kind"] == "ptr":
            yield param
        elif param["kind"] == "bytes":
            yield from _pointers(cast("list[dict[str, object]]", param.get("fields", [])))


def _inside(address: int, memory: MemoryRange) -> bool:
    return 0 <= address - memory.start < memory.size_bytes
