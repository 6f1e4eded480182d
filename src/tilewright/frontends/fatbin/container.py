"""What does a fat binary hold? Its entries, PTX or cubin, each for one architecture, decompressed on request.

Layout, read off the output of `nvcc -fatbin --compress-mode=...` of CUDA 13.0, since there is no public document: a
header (magic, version, size of the header, size of the rest), then entries. An entry has a header of its own (kind at
0, size of the header at 4, padded size of the payload at 8, compressed size at 16, architecture at 28, flags at 40,
decompressed size at 56) and then its payload. Several containers may stand one after another.

Not handled: encrypted entries, intermediate code for the linker (LTO); such entries have kind "other".
Checked by: tests/frontends/test_fatbin.py, against fat binaries that nvcc made, and against damaged ones.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Literal

from tilewright.base.value import dataclass

MAGIC = 0xBA55ED50
_HEADER = struct.Struct("<IHHQ")
_ENTRY_BYTES = 64
_KINDS: dict[int, Literal["ptx", "cubin"]] = {1: "ptx", 2: "cubin"}
_FLAG_SPECIFIC = 0x100000
_FLAG_FAMILY = 0x200000
_FLAG_LZ4 = 0x2000
_FLAG_ZSTD = 0x8000
_MAX_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a fat binary.

    kind: "other" is neither PTX nor a cubin
    arch: 90 for sm_90 and sm_90a alike
    """

    kind: Literal["ptx", "cubin", "other"]
    arch: int
    payload: bytes
    flags: int
    decompressed_bytes: int

    @property
    def variant(self) -> Literal["", "f", "a"]:
        """What follows the number of the architecture: code for it alone, for its family, or for later ones too."""
        return "a" if self.flags & _FLAG_SPECIFIC else "f" if self.flags & _FLAG_FAMILY else ""

    def runs_on(self, device: int) -> bool:
        """Whether a GPU takes the entry: its architecture's cubins and those of lower minor numbers; any lower PTX."""
        match self.variant:
            case "a":
                return self.arch == device
            case "f":
                return self.arch // 10 == device // 10 and self.arch <= device
            case _ if self.kind == "ptx":
                return self.arch <= device
            case _:
                return self.arch // 10 == device // 10 and self.arch <= device

    def content(self) -> bytes:
        """The entry's bytes, decompressed. Raises ValueError where they are damaged."""
        if self.flags & _FLAG_ZSTD:
            from tilewright.frontends.fatbin import zstd

            return zstd.decompress(self.payload, self.decompressed_bytes)
        if self.flags & _FLAG_LZ4:
            from tilewright.frontends.fatbin import lz4

            return lz4.decompress(self.payload, self.decompressed_bytes)
        return self.payload

    def text(self) -> str:
        """PTX as text, without the padding around it. Raises ValueError where it is damaged or no UTF-8."""
        return self.content().rstrip(b"\0").decode("utf-8").lstrip("\n")


def entries(image: bytes) -> tuple[Entry, ...]:
    """The entries of a fat binary, in order. Raises ValueError where it is damaged."""
    found: list[Entry] = []
    at = 0
    while at + _HEADER.size <= len(image):
        magic, version, header_bytes, rest_bytes = _HEADER.unpack_from(image, at)
        if magic != MAGIC:
            break
        end = at + header_bytes + rest_bytes
        if version != 1 or header_bytes < _HEADER.size or end > len(image):
            raise ValueError(f"a fat binary of version {version} with {header_bytes} + {rest_bytes} bytes at {at}")
        at += header_bytes
        while at < end:
            entry, at = _entry(image, at, end)
            found.append(entry)
    if not found and at == 0:
        raise ValueError("not a fat binary")
    return tuple(found)


def embedded(data: bytes) -> Iterator[Entry]:
    """The entries of every fat binary that stands in a file: an executable, a library, an object, an archive. What only
    looks like one, or is damaged, is passed over."""
    magic = MAGIC.to_bytes(4, "little")
    at = data.find(magic)
    while at >= 0:
        end = at + len(magic)
        if at + _HEADER.size <= len(data):
            _, _, header_bytes, rest_bytes = _HEADER.unpack_from(data, at)
            try:
                yield from entries(data[at : at + header_bytes + rest_bytes])
                end = at + header_bytes + rest_bytes
            except ValueError:
                pass
        at = data.find(magic, end)


def _entry(image: bytes, at: int, end: int) -> tuple[Entry, int]:
    if at + _ENTRY_BYTES > end:
        raise ValueError(f"the entry at {at} is cut off")
    kind, _, header_bytes, padded_bytes = struct.unpack_from("<HHIQ", image, at)
    (compressed_bytes,) = struct.unpack_from("<I", image, at + 16)
    (arch,) = struct.unpack_from("<I", image, at + 28)
    (flags,) = struct.unpack_from("<Q", image, at + 40)
    (decompressed_bytes,) = struct.unpack_from("<Q", image, at + 56)
    begin = at + header_bytes
    if header_bytes < _ENTRY_BYTES or begin + padded_bytes > end or decompressed_bytes > _MAX_BYTES:
        raise ValueError(f"the entry at {at} has {header_bytes} + {padded_bytes} bytes, more than there are")
    compressed = bool(flags & (_FLAG_LZ4 | _FLAG_ZSTD))
    size = compressed_bytes if compressed else padded_bytes
    if size > padded_bytes:
        raise ValueError(f"the entry at {at} has {size} compressed bytes in {padded_bytes}")
    payload = image[begin : begin + size]
    return Entry(_KINDS.get(kind, "other"), arch, payload, flags, decompressed_bytes), begin + padded_bytes


def loaded(found: tuple[Entry, ...], device: int) -> tuple[Entry | None, tuple[Entry, ...]]:
    """What a driver takes on a GPU of architecture `device`: the cubin, or None where it compiles PTX; and the PTX that
    the cubin was made of, or that is compiled, as far as the container has it."""

    def rank(entry: Entry) -> tuple[int, int]:
        return entry.arch, ("", "f", "a").index(entry.variant)

    cubins = [entry for entry in found if entry.kind == "cubin" and entry.runs_on(device)]
    texts = [entry for entry in found if entry.kind == "ptx" and entry.runs_on(device)]
    cubin = max(cubins, key=rank, default=None)
    best = rank(cubin) if cubin else max(map(rank, texts), default=None)
    return cubin, tuple(entry for entry in texts if rank(entry) == best)
