"""Which bytes did a launch's buffers have? Those that were saved, read, and written as .npy.

The files are written without NumPy, which a machine with a GPU may not have. Source: the NPY format, version 1.0 (NumPy
Enhancement Proposal 1). Checked by: tests/driver/capture/test_capture.py.
"""

from __future__ import annotations

from pathlib import Path

from tilewright.driver.capture.launches import BufferContent
from tilewright.driver.capture.records import LaunchRecord, MemoryRange, Process

_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER_ALIGNMENT_BYTES = 64


def contents(process: Process, launch: LaunchRecord) -> dict[MemoryRange, BufferContent]:
    """What was saved of the buffers that a launch's parameters lead to."""
    return {
        saved.memory: BufferContent(saved.path.read_bytes(), saved.pointers)
        for saved in process.buffers.get(launch.number, [])
        if saved.path.is_file()
    }


def write_npy(target: Path, content: BufferContent) -> None:
    """Write the bytes as an array of uint8. Addresses in it, which say nothing elsewhere, are zero."""
    data = bytearray(content.data)
    for at, _ in content.pointers:
        data[at : at + 8] = bytes(8)
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({len(data)},), }}".encode("ascii")
    padding = -(len(_MAGIC) + 2 + len(header) + 1) % _HEADER_ALIGNMENT_BYTES
    header += b" " * padding + b"\n"
    target.write_bytes(_MAGIC + len(header).to_bytes(2, "little") + header + data)
