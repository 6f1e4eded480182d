"""How arrays come from `.npz` files and go to them: strictly, and with bfloat16 as raw 16-bit images."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib.npyio import NpzFile

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import Buffer
from tilewright.runtime.arrays import numpy_dtype

Array = npt.NDArray[Any]

_NARROW_FLOATS = {
    element: np.dtype(f"u{element.bytes}")
    for element in Element
    if (element.is_float or element.is_factor) and element.bytes < 4
}
"""Floats that .npz files hold as unsigned integers of their width."""


def random_inputs(buffers: Sequence[Buffer], seed: int) -> dict[str, Array]:
    """Standard normal numbers, rounded to each buffer's element; of factors, powers of two of such numbers."""
    random = np.random.default_rng(seed)

    def drawn(item: Buffer) -> Array:
        if item.element.is_pair:
            return random.integers(0, 256, item.shape, np.uint8)
        numbers = random.standard_normal(item.shape)
        return (np.exp2(numbers) if item.element.is_factor else numbers).astype(numpy_dtype(item.element))

    return {item.name: drawn(item) for item in buffers}


def read_inputs(path: str, buffers: Sequence[Buffer]) -> dict[str, Array]:
    """The arrays for `buffers` in an `.npz` file, by name.

    Raises TilewrightError: the file is missing or damaged; an array is missing, or one is there that the program does
    not take; a type or shape differs. Nothing is converted.
    """
    given = read_arrays(path)
    names = ", ".join(buffer.name for buffer in buffers)
    arrays: dict[str, Array] = {}
    for buffer in buffers:
        if buffer.name not in given:
            raise TilewrightError(f"{path} has no array {buffer.name}", remedy=f"the program takes {names}")
        arrays[buffer.name] = _as_element(given.pop(buffer.name), buffer, path)
    if given:
        raise TilewrightError(
            f"{path} has an array {min(given)}, which the program does not take", remedy=f"it takes {names}"
        )
    return arrays


def read_arrays(path: str) -> dict[str, Array]:
    """Every array in an `.npz` file, by name. Raises TilewrightError: the file is missing or damaged."""
    remedy = "give an .npz file of arrays by parameter name"
    try:
        # NumPy takes a file without any of its marks for a pickle, and says how to load it unsafely.
        with open(path, "rb") as file:
            if not file.read(6).startswith((b"PK", b"\x93NUMPY")):
                raise TilewrightError(f"{path} is no .npz file", remedy=remedy)
        archive: object = np.load(path, allow_pickle=False)
        if not isinstance(archive, NpzFile):
            raise TilewrightError(f"{path} holds one array without a name", remedy=remedy)
        with archive:
            return {name: archive[name] for name in archive.files}
    except OSError as error:
        raise TilewrightError(f"cannot read {path}: {error.strerror or error}", remedy=remedy) from error
    # What NumPy raises on a damaged archive depends on where the damage is.
    except (ValueError, EOFError, KeyError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise TilewrightError(f"{path} is damaged or no .npz file: {error}", remedy=remedy) from error


def _as_element(array: Array, buffer: Buffer, path: str) -> Array:
    dtype = numpy_dtype(buffer.element)
    if array.dtype != dtype:
        # NumPy writes bfloat16 as two bytes without a type, and we write narrow floats as uint16 and uint8.
        image = _NARROW_FLOATS.get(buffer.element)
        nameless = array.dtype.kind == "V" and array.dtype.itemsize == buffer.element.bytes
        if image is None or not (array.dtype == image or nameless):
            raise TilewrightError(
                f"{buffer.name} in {path} is {array.dtype}; the program takes {buffer.element.value}",
                remedy=f"convert it, or compile with --dtype {buffer.name}=...",
            )
        array = array.view(dtype)
    if array.shape != buffer.shape:
        raise TilewrightError(
            f"{buffer.name} in {path} has shape {array.shape}; the program was compiled for {buffer.shape}",
            remedy="compile for this shape",
        )
    return array


def npz_bytes(stream: IO[bytes], arrays: Mapping[str, Array]) -> None:
    """Write arrays as an `.npz` file, floats of 16 and 8 bits as raw uint16 and uint8."""
    raw = {
        name: array.view(f"u{array.dtype.itemsize}") if array.dtype.itemsize <= 2 else array
        for name, array in arrays.items()
    }
    np.savez(stream, **raw)  # pyright: ignore[reportArgumentType]
