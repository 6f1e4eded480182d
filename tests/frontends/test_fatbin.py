"""Fat binaries that nvcc made, and what becomes of damaged ones: PTX, or ValueError, never anything else."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.frontends.compressed import CONTENTS

from tilewright.frontends.fatbin import lz4, zstd
from tilewright.frontends.fatbin.container import MAGIC, Entry, entries, loaded
from tilewright.frontends.ptx.reader import read

DATA = Path(__file__).parents[1] / "data" / "fatbin"
MODES = ("size", "speed", "none")


def image(mode: str) -> bytes:
    return (DATA / f"{mode}.fatbin").read_bytes()


@pytest.mark.parametrize("mode", MODES)
def test_texts_of_a_fat_binary(mode: str) -> None:
    found = entries(image(mode))
    assert [(entry.kind, entry.arch, entry.variant) for entry in found] == [
        ("ptx", 90, ""),
        ("cubin", 90, "a"),
        ("ptx", 90, "a"),
    ]
    generic, cubin, specific = found
    for entry, target in ((generic, "sm_90"), (specific, "sm_90a")):
        module = read(entry.text(), "kernels.ptx")
        assert {kernel.name for kernel in module.kernels} == {"scale", "_Z4sumsILi32EEvPfPKf"}
        assert f".target {target}\n" in entry.text()
    assert cubin.content()[:4] == b"\x7fELF"
    # Every mode holds the same.
    assert [entry.text() for entry in entries(image("none")) if entry.kind == "ptx"] == [
        generic.text(),
        specific.text(),
    ]


def test_containers_may_stand_one_after_another() -> None:
    assert entries(image("size") + image("none")) == (*entries(image("size")), *entries(image("none")))


@pytest.mark.parametrize("name", np.load(DATA / "zstd.npz").files)
def test_zstandard_frames(name: str) -> None:
    content = CONTENTS[name.partition("_")[0]]()
    frame = np.load(DATA / "zstd.npz")[name].tobytes()
    assert zstd.decompress(frame, len(content)) == content
    with pytest.raises(ValueError):
        zstd.decompress(frame, len(content) + 1)
    # A frame that can be skipped, and one more.
    skipped = b"\x53\x2a\x4d\x18\x05\0\0\0abcde"
    assert zstd.decompress(skipped + frame + frame, 2 * len(content)) == 2 * content


def test_every_kind_of_block_and_table_is_met(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the frames would test less than they seem to."""
    met: set[str] = set()
    literals, table = zstd._literals, zstd._table

    def watched_literals(frame: Any, block: bytes) -> tuple[bytes, int]:
        met.add(f"literals {block[0] & 3} {block[0] >> 2 & 3 if block[0] & 3 > 1 else ''}")
        return literals(frame, block)

    def watched_table(frame: Any, block: bytes, at: int, index: int, mode: int) -> object:
        met.add(f"table {mode}")
        return table(frame, block, at, index, mode)

    monkeypatch.setattr(zstd, "_literals", watched_literals)
    monkeypatch.setattr(zstd, "_table", watched_table)
    frames = np.load(DATA / "zstd.npz")
    for name in frames.files:
        zstd.decompress(frames[name].tobytes(), len(CONTENTS[name.partition("_")[0]]()))
    assert met >= {"table 0", "table 1", "table 2", "table 3", "literals 0 ", "literals 1 ", "literals 2 0"}, met
    assert any(kind.startswith("literals 3") for kind in met), met


@pytest.mark.parametrize(
    ("block", "size", "content"),
    [
        (bytes([0x50]) + b"hello", 5, b"hello"),
        (bytes([0x14]) + b"a" + bytes([1, 0]) + bytes([0x10]) + b"b", 10, b"a" * 9 + b"b"),
        (bytes([0xF0, 255, 3]) + b"x" * 273, 273, b"x" * 273),
        (bytes([0x2F]) + b"ab" + bytes([2, 0, 255, 0]) + bytes([0x10]) + b"c", 277, b"ab" * 138 + b"c"),
    ],
)
def test_lz4_blocks(block: bytes, size: int, content: bytes) -> None:
    assert lz4.decompress(block, size) == content


@pytest.mark.parametrize(
    "block", [b"\x50abc", b"\x10a\x02\x00", b"\x10a\x00\x00", b"\xf0", b"\x10a\x01", b"\x1fa\x01\x00\xff\xff\xff\x00"]
)
def test_damaged_lz4_blocks(block: bytes) -> None:
    with pytest.raises(ValueError):
        lz4.decompress(block, 5)


def test_damaged_fat_binaries_are_refused_or_read() -> None:
    """Whatever is changed or cut: entries or ValueError, and no more bytes than the container says."""
    draw = random.Random(7)
    refused = 0
    for round_ in range(600):
        data = bytearray(image(MODES[round_ % 2]))
        if round_ % 3 == 0:
            del data[draw.randrange(len(data)) :]
        for _ in range(draw.randrange(1, 4)):
            if data:
                data[draw.randrange(len(data))] = draw.randrange(256)
        try:
            for entry in entries(bytes(data)):
                content = entry.content()
                assert len(content) <= max(entry.decompressed_bytes, len(entry.payload))
        except ValueError:
            refused += 1
    assert refused > 300


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"abc",
        MAGIC.to_bytes(4, "little"),
        MAGIC.to_bytes(4, "little") + b"\1\0\x10\0" + (1 << 60).to_bytes(8, "little"),
        MAGIC.to_bytes(4, "little") + b"\2\0\x10\0" + bytes(8),
        MAGIC.to_bytes(4, "little") + b"\1\0\x10\0" + (8).to_bytes(8, "little") + bytes(8),
    ],
)
def test_what_is_no_fat_binary(data: bytes) -> None:
    with pytest.raises(ValueError):
        entries(data)


def entry(kind: str, arch: int, variant: str) -> Entry:
    flags = {"": 0, "a": 0x100000, "f": 0x200000}[variant]
    return Entry("ptx" if kind == "ptx" else "cubin", arch, kind.encode(), flags, 0)


@pytest.mark.parametrize(
    ("held", "device", "cubin", "texts"),
    [
        # The text that a cubin was made of, not another architecture's.
        ([("cubin", 90, "a"), ("ptx", 90, ""), ("ptx", 90, "a")], 90, (90, "a"), [(90, "a")]),
        ([("cubin", 90, ""), ("ptx", 120, "")], 90, (90, ""), []),
        ([("cubin", 80, ""), ("cubin", 90, ""), ("ptx", 80, "")], 90, (90, ""), []),
        # A cubin of a lower minor number runs, one of another major number does not.
        ([("cubin", 80, ""), ("ptx", 80, "")], 86, (80, ""), [(80, "")]),
        ([("cubin", 80, ""), ("ptx", 80, "")], 90, None, [(80, "")]),
        # Code for one GPU runs on no other; a family's does.
        ([("cubin", 90, "a"), ("ptx", 90, "a")], 100, None, []),
        ([("cubin", 100, "f"), ("ptx", 100, "f"), ("cubin", 100, "a")], 103, (100, "f"), [(100, "f")]),
        ([("ptx", 75, ""), ("ptx", 80, ""), ("ptx", 120, "")], 90, None, [(80, "")]),
    ],
)
def test_what_a_driver_takes(
    held: list[tuple[str, int, str]], device: int, cubin: tuple[int, str] | None, texts: list[tuple[int, str]]
) -> None:
    found, compiled = loaded(tuple(entry(*each) for each in held), device)
    assert (None if found is None else (found.arch, found.variant)) == cubin
    assert [(each.arch, each.variant) for each in compiled] == texts
