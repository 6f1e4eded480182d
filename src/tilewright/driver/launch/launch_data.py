"""What does a launch file say of a buffer's contents? Numbers of a type, bytes in hexadecimal or base64, or an array of
an `.npy` or `.npz` file beside it.

Arrays are taken as the bytes that they are, in C order and little-endian. Nothing is unpickled: a file of objects is
refused.

Source: NumPy, the .npy format. Not handled: sparse contents; types of fewer than 8 bits.
Checked by: tests/driver/launch/test_launch_buffers.py.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tilewright.driver.launch.launch_buffers import CONTENT_BYTES_MOST, Refuse

_NUMPY_TYPES = {
    **{f"{kind}{bits}": f"<{kind}{bits // 8}" for bits in (8, 16, 32, 64) for kind in "ui"},
    **{f"f{bits}": f"<f{bits // 8}" for bits in (16, 32, 64)},
}
Bytes = npt.NDArray[np.uint8]
DATA_TYPES = (*_NUMPY_TYPES, "bf16")
_BASE64 = "base64:"


def read_data(value: object, dtype: str | None, where: str, folder: Path, refuse: Refuse) -> Bytes:
    """The bytes that `data` describes. dtype: of a list's numbers; of a file's array, what it must be; folder: that a
    file's path is relative to."""
    if dtype is not None and dtype not in DATA_TYPES:
        refuse(f"{where}.dtype", f"is {dtype!r}", f"choose from {', '.join(DATA_TYPES)}")
    match value:
        case str():
            return _text_bytes(value, f"{where}.data", refuse)
        case list():
            if dtype is None:
                refuse(f"{where}.dtype", "is missing", f"write the type of the numbers: {', '.join(DATA_TYPES)}")
            return _numbers(cast("list[object]", value), dtype, f"{where}.data", refuse)
        case dict():
            return _file_bytes(cast("dict[str, object]", value), dtype, f"{where}.data", folder, refuse)
        case _:
            refuse(
                f"{where}.data", "is no contents", 'write numbers in brackets, hexadecimal digits, or {"file": "a.npy"}'
            )


def _text_bytes(text: str, where: str, refuse: Refuse) -> Bytes:
    encoded = text.removeprefix(_BASE64)
    try:
        data = bytes.fromhex(text) if encoded is text else base64.b64decode(encoded, validate=True)
    except (ValueError, binascii.Error):
        refuse(where, f"is {text[:40]!r}", f"write hexadecimal digits, or {_BASE64} and the text")
    return np.frombuffer(data, np.uint8)


def _numbers(values: list[object], dtype: str, where: str, refuse: Refuse) -> Bytes:
    kind: np.dtype[Any] = np.dtype(_NUMPY_TYPES.get(dtype, "<f4"))
    for index, value in enumerate(values):
        place = f"{where}[{index}]"
        if isinstance(value, bool) or not isinstance(value, int | float):
            refuse(place, "is no number", f"write a number that {dtype} takes")
        if kind.kind == "f":
            continue
        bits = 8 * kind.itemsize
        low, high = (0, (1 << bits) - 1) if kind.kind == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)
        if not isinstance(value, int) or not low <= value <= high:
            refuse(place, f"is {str(value)[:40]}", f"write an integer from {low} to {high}, as {dtype} takes")
    with np.errstate(over="ignore"):
        try:
            array = np.array(values, kind)
        except OverflowError:
            refuse(where, f"has a number that {dtype} does not take", "write smaller numbers")
    return _as_bytes(_rounded(array) if dtype == "bf16" else array)


def _rounded(array: npt.NDArray[Any]) -> npt.NDArray[np.uint16]:
    """Numbers of 32 bits as bfloat16, rounded to the nearest even."""
    words = array.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((words + 0x7FFF + (words >> np.uint64(16) & np.uint64(1))) >> np.uint64(16)).astype(np.uint16)


def _file_bytes(fields: dict[str, object], dtype: str | None, where: str, folder: Path, refuse: Refuse) -> Bytes:
    for name in fields:
        if name not in ("file", "array"):
            refuse(f"{where}.{name}", "is no field here", "the fields are file, array")
    file, name = fields.get("file"), fields.get("array")
    if not isinstance(file, str) or not file:
        refuse(f"{where}.file", "is missing or no path", "write the path of an .npy or .npz file")
    if name is not None and not isinstance(name, str):
        refuse(f"{where}.array", "is no name", "write the name of an array in the .npz file")
    array = _array(str(folder / file), name, where, refuse)
    if array.dtype.hasobject or array.dtype.fields is not None:
        refuse(where, f"is an array of {array.dtype}", "write plain numbers into the file")
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if dtype is not None and not _is_of(array.dtype, dtype):
        refuse(f"{where}.file", f"holds {array.dtype}, not {dtype}", "convert the array, or leave dtype out")
    return _as_bytes(array)


def _is_of(found: np.dtype[Any], dtype: str) -> bool:
    """Whether an array's type is the one named; NumPy has no bfloat16, which comes as two bytes of another type."""
    return found.itemsize == 2 and found.kind in "Vu" if dtype == "bf16" else found == np.dtype(_NUMPY_TYPES[dtype])


def _array(path: str, name: str | None, where: str, refuse: Refuse) -> npt.NDArray[Any]:
    import zipfile  # few launch files name arrays

    remedy = "write the path of an .npy or .npz file, relative to the launch file"
    try:
        with open(path, "rb") as stream:
            mark = stream.read(6)
            if mark.startswith(b"PK"):
                return _archived(path, name, where, refuse)
            if mark != b"\x93NUMPY":
                refuse(f"{where}.file", f"is {path}, no .npy or .npz file", remedy)
        if name is not None:
            refuse(f"{where}.array", "stands beside an .npy file, which has one array", "leave it out")
        # Mapped, so that a header which promises more than the file has takes no memory.
        return cast("npt.NDArray[Any]", np.load(path, mmap_mode="r", allow_pickle=False))
    except OSError as error:
        refuse(f"{where}.file", f"cannot be read: {path}: {error.strerror or error}", remedy)
    # What NumPy raises on a damaged file depends on where the damage is.
    except (ValueError, EOFError, KeyError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        if "pickle" in str(error) or "object" in str(error).lower():
            refuse(f"{where}.file", f"is {path}, which holds Python objects", "write plain numbers into the file")
        refuse(f"{where}.file", f"is {path}, which is damaged: {error}", "write the file again")


def _archived(path: str, name: str | None, where: str, refuse: Refuse) -> npt.NDArray[Any]:
    import zipfile

    with zipfile.ZipFile(path) as archive:
        sizes = {each.filename.removesuffix(".npy"): each.file_size for each in archive.infolist()}
    names = ", ".join(sizes) or "none"
    if name is None and len(sizes) == 1:
        (name,) = sizes
    if name is None or name not in sizes:
        problem = "is missing" if name is None else f"is {name!r}, which {path} lacks"
        refuse(f"{where}.array", problem, f"its arrays are {names}")
    if sizes[name] > CONTENT_BYTES_MOST + (1 << 16):
        refuse(f"{where}.array", f"has {sizes[name]} bytes", f"give at most {CONTENT_BYTES_MOST}")
    with np.load(path, allow_pickle=False) as archive:
        return archive[name]


def _as_bytes(array: npt.NDArray[Any]) -> Bytes:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
