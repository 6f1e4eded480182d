"""Which PTX stands in a binary? In the fat binaries of executables, libraries, objects, archives and `.fatbin` files.

No toolkit is needed: `frontends.fatbin` has the container and its compressions. Where it finds no text, or one that it
can't read, `cuobjdump` is asked, if it is installed. `FILE::2` names the second PTX of a file; a file that has several
is checked as that many texts. Not handled: binaries that hold machine code alone.
Checked by: tests/driver/check/sources/test_embedded.py, test_cuobjdump.py.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path

from tilewright.base.error import TilewrightError
from tilewright.frontends.fatbin.container import MAGIC, embedded

BINARY_BYTES_MAX = 1 << 30
"""Larger binaries are refused: they are read as a whole."""
_EM_CUDA = 190
_MAGICS = (MAGIC.to_bytes(4, "little"), b"\x7fELF", b"MZ", b"!<arch>", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
_NUMBERED = re.compile(r"(.+)::(\d+)")


def is_binary(path: str) -> bool:
    """Does a file begin as a fat binary, an object, a library, an executable or an archive does? A pipe, which can be
    read once, is none."""
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as stream:
            return stream.read(8).startswith(_MAGICS)
    except (OSError, ValueError):
        return False


def is_embedded(path: str) -> bool:
    """Does a path name PTX inside a binary? It is read from there, and never written."""
    found = None if os.path.exists(path) else _NUMBERED.fullmatch(path)
    return is_binary(found[1] if found is not None else path)


def names_of(path: str) -> tuple[str, ...]:
    """What to check of a file: itself, or each PTX text of a binary that has several. Raises nothing: what is wrong
    with a file is said where it is read."""
    if not os.path.isfile(path) or not is_binary(path):
        return (path,)
    try:
        count = len(_texts(path))
    except TilewrightError:
        return (path,)
    return tuple(f"{path}::{number}" for number in range(1, count + 1)) if count > 1 else (path,)


def embedded_text(path: str) -> str | None:
    """The PTX of a binary, or of `FILE::N`; None for a path of neither. Raises TilewrightError: there is none in it, or
    several and no number, or fewer than the number."""
    file, number = path, None
    if not os.path.exists(path) and (found := _NUMBERED.fullmatch(path)) is not None:
        file, number = found[1], int(found[2])
    if not is_binary(file):
        return None
    texts = _texts(file)
    if number is None and len(texts) > 1:
        raise TilewrightError(f"{file} has {len(texts)} PTX texts", remedy=f"name one: {file}::1")
    if number is not None and not 1 <= number <= len(texts):
        raise TilewrightError(f"{path}: {file} has {len(texts)} PTX texts", remedy=f"name one of {file}::1 and on")
    return texts[(number or 1) - 1]


def _texts(file: str) -> list[str]:
    """All PTX of a binary, each text once, in order. Raises TilewrightError where there is none."""
    try:
        if os.path.getsize(file) > BINARY_BYTES_MAX:
            raise TilewrightError(f"{file} has more than {BINARY_BYTES_MAX >> 30} GiB", remedy="give one library")
        data = Path(file).read_bytes()
    except OSError as error:
        raise TilewrightError(f"cannot read {file!r}: {error.strerror}", remedy="check the path") from error
    texts, damaged = texts_in(data)
    if texts and not damaged:
        return list(texts)
    from tilewright.driver.check.sources.cuobjdump import find_cuobjdump

    program = find_cuobjdump()
    texts = (_extracted(program, file, data) if program is not None else ()) or texts
    if not texts:
        kind = "a cubin" if _is_cubin(data) else "a binary"
        why = damaged or (f" ({program} finds none either)" if program is not None else "")
        remedy = "build it with PTX: nvcc -gencode arch=compute_90a,code=[sm_90a,compute_90a]"
        if program is None:
            remedy += "; or install cuobjdump, which may read what Tilewright can't: pip install nvidia-cuda-cuobjdump"
        raise TilewrightError(f"{file} is {kind} without PTX that can be read{why}", remedy=remedy)
    return list(texts)


def _is_cubin(data: bytes) -> bool:
    """An object for NVIDIA's GPUs: machine code."""
    return data[:4] == b"\x7fELF" and int.from_bytes(data[18:20], "little") == _EM_CUDA


@lru_cache(maxsize=2)  # by the whole content, as below
def _extracted(program: Path, file: str, data: bytes) -> tuple[str, ...]:
    from tilewright.driver.check.sources.cuobjdump import extracted

    del data
    return extracted(program, file)


@lru_cache(maxsize=2)  # by the whole content: a file of many texts is asked for each
def texts_in(data: bytes) -> tuple[tuple[str, ...], str]:
    """The PTX texts of a binary, each once, and what is wrong with one that can't be read."""
    texts: dict[str, None] = {}
    damaged = ""
    for entry in embedded(data):
        if entry.kind == "ptx":
            try:
                texts[entry.text()] = None
            except ValueError as error:
                damaged = f": {error}"
    return tuple(texts), damaged
