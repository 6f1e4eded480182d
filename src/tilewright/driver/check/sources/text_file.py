"""What is the text of a file, and in which language is it? Checked by: tests/driver/check/test_check.py."""

from __future__ import annotations

import os
import re
import sys
from typing import BinaryIO

from tilewright.base.error import TilewrightError
from tilewright.driver.check.sources.embedded import embedded_text

FILE_BYTES_MAX = 64 << 20
"""PTX texts beyond this are refused: no compiler writes such, and reading one would take all memory."""
MLIR_SUFFIXES = (".mlir", ".ttgir")
AC_SUFFIX = ".ac.mlir"
_BEGINS = re.compile(r"^\s*(#[\w$.]+\s*=|module\b|\"builtin\.module\"|tt\.func|gpu\.module|func\.func)")
_AC = re.compile(r"^\s*(ac\.kernel\b|\"ac\.kernel\")", re.MULTILINE)
_PTX = re.compile(r"^\s*\.version\b", re.MULTILINE)


def read_given(path: str) -> tuple[str, str]:
    """The text of a file, or of standard input for "-", and the name by which findings call it. Raises as `read_text`
    does."""
    if path != "-":
        return read_text(path), path
    return decode_text(_limited(sys.stdin.buffer, "standard input"), "standard input"), "<stdin>"


def read_text(path: str) -> str:
    """The text of a PTX file. Raises TilewrightError: no such file, a folder without PTX, too large, not text."""
    try:
        if os.path.isdir(path):
            raise TilewrightError(
                f"{path} has no .ptx file in it, and no .ttgir file", remedy="name a file, or a folder of .ptx files"
            )
        if (embedded := embedded_text(path)) is not None:
            return embedded
        with open(path, "rb") as stream:
            data = _limited(stream, path)
    except (OSError, ValueError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        raise TilewrightError(f"cannot read {path!r}: {reason}", remedy="check the path") from error
    return decode_text(data, path)


def _limited(stream: BinaryIO, path: str) -> bytes:
    """All of a stream, once: a pipe cannot be read again, and a device may never end."""
    data = stream.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise TilewrightError(
            f"{path} has more than {FILE_BYTES_MAX >> 20} MiB", remedy="give one kernel's PTX, not a whole library's"
        )
    return data


def decode_text(data: bytes, path: str) -> str:
    """PTX as text. Raises TilewrightError for what is none, naming a cubin as such."""
    if data[:4] == b"\x7fELF":
        raise TilewrightError(f"{path} is a cubin, not PTX text", remedy="give it as a file, or PTX text")
    # The driver's and nvcc's own texts end in a NUL byte.
    data = data.rstrip(b"\0")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TilewrightError(f"{path} is no text: byte {error.start} is not UTF-8", remedy="check the file") from error
    if "\0" in text:
        raise TilewrightError(f"{path} is no text: it has NUL bytes", remedy="check the file")
    return text


def is_ac(text: str, path: str = "") -> bool:
    """Is it a text of `ac` kernels? By the path's suffix, else by whether it has one."""
    if path.endswith(AC_SUFFIX):
        return True
    return not path.endswith((".ptx", ".ttgir")) and _AC.search(text) is not None


def is_mlir(text: str, path: str = "") -> bool:
    """Is it MLIR rather than PTX? By the path's suffix, else by how the text begins."""
    if path.endswith(MLIR_SUFFIXES):
        return True
    if path.endswith(".ptx") or _PTX.search(text[:4096]):
        return False
    for line in text[:4096].splitlines():
        if line.strip() and not line.strip().startswith("//"):
            return _BEGINS.match(line) is not None
    return False
