"""Which bytes did a launch's buffers have? Those that were saved, read, and written as .npy.

The files are written without NumPy, which a machine with a GPU may not have. Source: the NPY format, version 1.0 (NumPy
Enhancement Proposal 1). Checked by: tests/driver/capture/test_capture.py.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tilewright.driver.capture.records import LaunchRecord, Process

_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER_ALIGNMENT_BYTES = 64


def contents(process: Process, launch: LaunchRecord) -> dict[int, bytes]:
    """The saved bytes of a launch's buffers, by the index of their range."""
    found: dict[int, bytes] = {}
    for index in range(len(launch.ranges)):
        path = process.buffers.get((launch.number, index))
        if path is not None and path.is_file():
            found[index] = path.read_bytes()
    return found


def write_npy(target: Path, saved: Path) -> None:
    """Copy raw bytes into an array of uint8."""
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({saved.stat().st_size},), }}".encode("ascii")
    padding = -(len(_MAGIC) + 2 + len(header) + 1) % _HEADER_ALIGNMENT_BYTES
    header += b" " * padding + b"\n"
    with open(target, "wb") as stream, open(saved, "rb") as source:
        stream.write(_MAGIC + len(header).to_bytes(2, "little") + header)
        shutil.copyfileobj(source, stream)
