"""What did a process launch? The records that the shim left, read back.

A file of records belongs to one process. It begins with a record OPEN, and each record is a tag, a length and a payload
(`runtime/shim/record.h`). A process that was killed may leave half a record at the end, which is dropped and noted.
Checked by: tests/driver/capture/test_records.py.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tilewright.base.error import TilewrightError

FORMAT_VERSION = 2
TENSOR_MAP_BYTES = 128
Extent = tuple[int, int, int]

COOPERATIVE = 1
PROGRAMMATIC = 2
IN_GRAPH = 4


@dataclass(frozen=True, slots=True)
class Image:
    """What a module was loaded from.

    place: "saved": a file of the capture; "mapped": part of a program or library; "lost": it could not be saved
    origin: the file's name where the program loaded one
    triton_folders: where Triton kept its files at that moment, as far as the environment said
    text: the PTX that NVRTC had of it
    """

    place: Literal["saved", "mapped", "lost"]
    path: Path
    offset: int
    size_bytes: int
    origin: str
    triton_folders: tuple[Path, ...]
    text: Path | None = None


@dataclass(frozen=True, slots=True)
class KernelRecord:
    """A kernel that was launched.

    arch: of the device, 90 for compute capability 9.0; 0: unknown
    places: offset and size of each parameter; None where the driver does not say (before CUDA 12.4)
    """

    name: str
    image: Image | None
    arch: int
    places: tuple[tuple[int, int], ...] | None


@dataclass(frozen=True, slots=True)
class MemoryRange:
    """One allocation of the device, by address."""

    start: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """One launch, the first of those that are alike.

    cluster: None where neither the launch nor the kernel asks for one
    parameters: the block of parameters, as the kernel sees it
    pointers: by offset in the block, the index of the range that the word there points into
    """

    number: int
    kernel: KernelRecord
    grid: Extent
    block: Extent
    cluster: Extent | None
    dynamic_smem_bytes: int
    flags: int
    parameters: bytes
    ranges: tuple[MemoryRange, ...]
    pointers: dict[int, int]


@dataclass(frozen=True, slots=True)
class EncodedMap:
    """A tensor map that the program had encoded: the driver's 128 bytes, and the arguments by their numbers in cuda.h.

    kind: 0 tiled, 1 im2col, 2 im2col of a w mode
    numbers: the arguments that the kinds do not share
    """

    kind: int
    encoded: bytes
    data_type: int
    address: int
    memory: MemoryRange | None
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    element_strides: tuple[int, ...]
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SavedBuffer:
    """A buffer's bytes before a launch. pointers: words that point into memory, by their offset, with its range."""

    memory: MemoryRange
    path: Path
    pointers: tuple[tuple[int, MemoryRange], ...]


@dataclass(slots=True)
class Process:
    """Everything that one process left.

    counts: how often each recorded launch was made; over: launches beyond the limit
    buffers: saved contents, by launch's number
    failures: the driver's error by launch's number; lost: launches of kernels that the driver has no name for
    cut: the last record is incomplete
    """

    program: str = ""
    launches: list[LaunchRecord] = field(default_factory=list[LaunchRecord])
    maps: dict[bytes, EncodedMap] = field(default_factory=dict[bytes, EncodedMap])
    counts: Counter[int] = field(default_factory=Counter[int])
    over: Counter[KernelRecord] = field(default_factory=Counter[KernelRecord])
    buffers: dict[int, list[SavedBuffer]] = field(default_factory=dict[int, list[SavedBuffer]])
    failures: dict[int, int] = field(default_factory=dict[int, int])
    graph_launches: int = 0
    lost: int = 0
    cut: bool = False


class _Payload:
    """Values of one record, in order."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def bytes(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            raise ValueError("a record is shorter than it says")
        self.at += count
        return self.data[self.at - count : self.at]

    def u32(self) -> int:
        return int.from_bytes(self.bytes(4), "little")

    def u64(self) -> int:
        return int.from_bytes(self.bytes(8), "little")

    def text(self) -> str:
        return self.bytes(self.u32()).decode("utf-8", "surrogateescape")

    def extent(self) -> Extent:
        return (self.u32(), self.u32(), self.u32())


def read_processes(folder: Path) -> list[Process]:
    """What every process left in `folder`. Raises TilewrightError for a file that no shim wrote."""
    return [read_process(path) for path in sorted(folder.glob("*.records"))]


def read_process(path: Path) -> Process:
    """One process's records. Raises TilewrightError as `read_processes` does."""
    data = path.read_bytes()
    process = Process()
    images: dict[int, Image] = {}
    kernels: dict[int, KernelRecord] = {}
    launches: dict[int, LaunchRecord] = {}
    texts: dict[tuple[int, int], Path] = {}
    identity = path.stem
    at = 0
    try:
        while at < len(data):
            if at + 12 > len(data):
                process.cut = True
                break
            tag = data[at : at + 4].decode("ascii")
            (length,) = struct.unpack_from("<Q", data, at + 4)
            at += 12
            if at + length > len(data):
                process.cut = True
                break
            payload = _Payload(data[at : at + length])
            at += length
            match tag:
                case "OPEN":
                    version = payload.u32()
                    if version != FORMAT_VERSION:
                        raise ValueError(f"version {version} of the records, not {FORMAT_VERSION}")
                    payload.u64()
                    process.program = payload.text()
                case "IMAG":
                    number = payload.u64()
                    images[number] = _image(payload, path.parent / "images" / f"{identity}-{number}.bin", texts)
                case "TEXT":
                    key = (payload.u64(), payload.u64())
                    texts[key] = path.parent / "texts" / f"{identity}-{payload.u64()}.bin"
                case "KERN":
                    number = payload.u64()
                    kernels[number] = _kernel(payload, images)
                case "LNCH":
                    number = payload.u64()
                    launches[number] = _launch(payload, number, kernels)
                    process.counts[number] += 1
                case "SAME":
                    process.counts[payload.u64()] += 1
                case "OVER":
                    process.over[kernels[payload.u64()]] += 1
                case "DATA":
                    number = payload.u64()
                    memory = MemoryRange(payload.u64(), payload.u64())
                    saved = path.parent / "buffers" / f"{identity}-{payload.u64()}.bin"
                    pointers = tuple(
                        (payload.u64(), MemoryRange(payload.u64(), payload.u64())) for _ in range(payload.u32())
                    )
                    process.buffers.setdefault(number, []).append(SavedBuffer(memory, saved, pointers))
                case "FAIL":
                    number = payload.u64()
                    process.failures[number] = payload.u32()
                case "TMAP":
                    found = _tensor_map(payload)
                    process.maps[found.encoded] = found
                case "GRPH":
                    process.graph_launches += 1
                case "LOST":
                    process.lost += 1
                case _:
                    raise ValueError(f"a record {tag!r}")
    except (ValueError, KeyError) as error:
        remedy = "leave out --shim, or compile it from this version's sources"
        raise TilewrightError(f"{path} holds no records of this version's shim: {error}", remedy=remedy) from error
    process.launches = list(launches.values())
    return process


def _image(payload: _Payload, saved: Path, texts: dict[tuple[int, int], Path]) -> Image:
    place = ("saved", "mapped", "lost")[payload.u32()]
    offset, size_bytes = payload.u64(), payload.u64()
    path, origin = payload.text(), payload.text()
    cache, home = payload.text(), payload.text()
    folders = [*([Path(cache)] if cache else []), *([Path(home, ".triton", "cache")] if home else [])]
    text = texts.get((payload.u64(), size_bytes))
    return Image(place, Path(path) if path else saved, offset, size_bytes, origin, tuple(folders), text)


def _kernel(payload: _Payload, images: dict[int, Image]) -> KernelRecord:
    image = images.get(payload.u64())
    arch, known = payload.u32(), payload.u32()
    name = payload.text()
    places = tuple((payload.u32(), payload.u32()) for _ in range(payload.u32()))
    return KernelRecord(name, image, arch, places if known else None)


def _launch(payload: _Payload, number: int, kernels: dict[int, KernelRecord]) -> LaunchRecord:
    kernel = kernels[payload.u64()]
    grid, block, cluster = payload.extent(), payload.extent(), payload.extent()
    shared, flags = payload.u32(), payload.u32()
    parameters = payload.bytes(payload.u32())
    ranges = tuple(MemoryRange(payload.u64(), payload.u64()) for _ in range(payload.u32()))
    pointers = {payload.u32(): payload.u32() for _ in range(payload.u32())}
    return LaunchRecord(
        number, kernel, grid, block, cluster if cluster[0] else None, shared, flags, parameters, ranges, pointers
    )


def _tensor_map(payload: _Payload) -> EncodedMap:
    kind = payload.u32()
    encoded = payload.bytes(TENSOR_MAP_BYTES)
    data_type, rank = payload.u32(), payload.u32()
    address, start, size_bytes = payload.u64(), payload.u64(), payload.u64()
    dims = tuple(payload.u64() for _ in range(rank))
    strides = tuple(payload.u64() for _ in range(rank - 1))
    steps = tuple(payload.u32() for _ in range(rank))
    count = payload.u32()
    numbers = struct.unpack(f"<{count}q", payload.bytes(8 * count))
    memory = MemoryRange(start, size_bytes) if size_bytes else None
    return EncodedMap(kind, encoded, data_type, address, memory, dims, strides, steps, numbers)
