"""Records that are cut, of another version, or no records at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.base.error import TilewrightError
from tilewright.driver.capture.records import FORMAT_VERSION, MemoryRange, SavedBuffer, read_process, read_processes


def record(tag: str, *parts: bytes) -> bytes:
    payload = b"".join(parts)
    return tag.encode() + len(payload).to_bytes(8, "little") + payload


def u32(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "little") for value in values)


def u64(*values: int) -> bytes:
    return b"".join(value.to_bytes(8, "little") for value in values)


def text(value: str) -> bytes:
    return u32(len(value)) + value.encode()


OPEN = record("OPEN", u32(FORMAT_VERSION), u64(7), text("/bin/program"))
IMAGE = record("IMAG", u64(1), u32(0), u64(0, 99), text(""), text("x.cubin"), text("/t"), text("/h"), u64(0))
KERNEL = record("KERN", u64(1), u64(1), u32(90, 1), text("scale"), u32(2), u32(0, 8), u32(8, 4))
LAUNCH = record(
    "LNCH", u64(1, 1), u32(4, 1, 1), u32(128, 1, 1), u32(0, 0, 0), u32(1024, 2), u32(12), bytes(12),
    u32(1), u64(0x7F0000, 4096), u32(1), u32(0, 0),
)  # fmt: skip
ALL = OPEN + IMAGE + KERNEL + LAUNCH + record("SAME", u64(1)) + record("OVER", u64(1)) + record("GRPH", u64(1))


def test_every_record_is_read(tmp_path: Path) -> None:
    path = tmp_path / "7-0.records"
    path.write_bytes(
        ALL
        + record("DATA", u64(1, 0x7E0000, 64), u64(65536), u32(1), u64(16, 0x7F0000, 4096))
        + record("FAIL", u64(1), u32(1))
    )
    process = read_process(path)
    (launch,) = process.launches
    assert (process.program, process.cut, process.graph_launches) == ("/bin/program", False, 1)
    assert (process.counts[1], process.over[process.launches[0].kernel], process.failures) == (2, 1, {1: 1})
    assert (launch.grid, launch.block, launch.cluster) == ((4, 1, 1), (128, 1, 1), None)
    assert (launch.dynamic_smem_bytes, launch.flags, launch.pointers) == (1024, 2, {0: 0})
    assert launch.ranges == (MemoryRange(0x7F0000, 4096),) and launch.kernel.places == ((0, 8), (8, 4))
    image = launch.kernel.image
    assert image is not None and image.path == tmp_path / "images" / "7-0-1.bin" and image.origin == "x.cubin"
    assert image.triton_folders == (Path("/t"), Path("/h/.triton/cache"))
    path = tmp_path / "buffers" / "7-0-65536.bin"
    saved = SavedBuffer(MemoryRange(0x7E0000, 64), path, ((16, MemoryRange(0x7F0000, 4096)),))
    assert process.buffers == {1: [saved]}


def test_a_killed_process_leaves_what_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "7-0.records"
    complete = {0, *(len(part) for part in (OPEN, OPEN + IMAGE, OPEN + IMAGE + KERNEL, OPEN + IMAGE + KERNEL + LAUNCH))}
    end = len(OPEN + IMAGE + KERNEL + LAUNCH)
    for length in range(end + 1):
        path.write_bytes(ALL[:length])
        process = read_process(path)
        assert process.cut == (length not in complete), length
        assert len(process.launches) == (length == end)


@pytest.mark.parametrize(
    "data",
    [
        record("OPEN", u32(FORMAT_VERSION + 1), u64(7), text("/bin/program")),
        record("XXXX", b""),
        OPEN + LAUNCH,
        OPEN + record("KERN", u64(1)),
        record("\xff\xff\xff\xff"[:2]),
        b"no records at all, but a text",
    ],
)
def test_what_no_shim_wrote_is_refused_or_cut(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "7-0.records"
    path.write_bytes(data)
    try:
        assert read_process(path).cut
    except TilewrightError as error:
        assert "holds no records of this version's shim" in error.message and "--shim" in error.remedy
    else:
        assert data == b"no records at all, but a text"


def test_a_folder_without_records(tmp_path: Path) -> None:
    assert read_processes(tmp_path) == []
