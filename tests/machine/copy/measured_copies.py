"""Copies that an H200 made, as rows of a record."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from tilewright.base.element import Element
from tilewright.base.plan import Interleave, OutOfBounds, Swizzle, TensorMap

DATA = Path(__file__).parents[2] / "data"


POISON = 0xCC


ELEMENTS = {0: Element.U8, 1: Element.U16, 2: Element.U32, 4: Element.U64, 6: Element.F16, 9: Element.BF16}


SWIZZLES = ("none", "32B", "64B", "128B")


INTERLEAVES = ("none", "16B", "32B")


class Row:
    """One measured load."""

    def __init__(self, file: dict[str, NDArray[np.generic]], index: int, start: int) -> None:
        row = dict(zip(file["cols"].tolist(), file["cfg"][index].tolist(), strict=True))
        rank = row["rank"]
        self.map = TensorMap(
            element=ELEMENTS[row["dtype"]],
            dims=tuple(row[f"d{d}"] for d in range(rank)),
            strides_bytes=tuple(row[f"s{d}"] for d in range(rank - 1)),
            box=tuple(row[f"b{d}"] for d in range(rank)),
            element_strides=tuple(row[f"e{d}"] for d in range(rank)),
            swizzle=cast(Swizzle, SWIZZLES[row["swizzle"]]),
            interleave=cast(Interleave, INTERLEAVES[row["interleave"]]),
            out_of_bounds=cast(OutOfBounds, ("zero", "nan")[row["oob"]]),
        )
        self.coordinates: tuple[int, ...] = tuple(file["coords"][index].tolist()[:rank])
        self.offset: int = row["off"]
        self.expected_bytes: int = row["tx_bytes"]
        self.done = bool(file["done"][index])
        self.tail = int(file["tail"][index])
        self.payload = file["data"][start : start + int(file["lens"][index])]


def rows(name: str) -> list[Row]:
    with np.load(DATA / name) as archive:
        file = {key: archive[key] for key in archive.files}
    starts = np.concatenate(([0], np.cumsum(file["lens"])))
    return [Row(file, index, int(starts[index])) for index in range(len(file["cfg"]))]


@cache
def measured_buffer() -> NDArray[np.uint8]:
    """The global buffer behind every measured row: byte i is the top 8 bits of the low 32 bits of i * 2654435761."""
    chunk = 1 << 20
    buffer = np.empty(62 * chunk, np.uint8)
    first = np.arange(chunk, dtype=np.uint32) * np.uint32(2654435761)
    for start in range(0, buffer.size, chunk):
        shift = np.uint32(start * 2654435761 & 0xFFFFFFFF)
        buffer[start : start + chunk] = (first + shift) >> np.uint32(24)
    return buffer
