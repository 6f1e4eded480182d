"""Which rows to ask a driver about? Random tensor maps near every limit, legal and illegal ones in equal measure.

Each row begins as a map that keeps the rules as the generator's author knows them, its box often close to the largest
that a multiprocessor holds. Then some of its fields (none in a third of the rows) take a value next to a limit: of that
field, of a 32-bit or 64-bit word, of the driver's encodings. Fields are drawn in columns, one array each.

The generator shares no code with the rules: a limit that both knew wrongly would not show.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.uint64]
Columns = dict[str, Column]

ELEMENT_BYTES = np.array([1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4, 1, 1, 1, 1, 1, 1, 1], np.int64)
SPANS = np.array([0, 32, 64, 128, 128, 128, 128, 128, 128, 128], np.int64)
MULTIPROCESSOR_BYTES = 228 * 1024
WORDS = tuple(2**power + step for power in (31, 32, 33, 36, 40, 48, 57, 63) for step in (-32, -16, -1, 0, 1, 16, 32))
ENUMERATIONS = {
    "dtype": tuple(range(-1, 18)),
    "interleave": (-1, 0, 1, 2, 3, 4, 255),
    "swizzle": tuple(range(-1, 9)),
    "l2": (-1, 0, 1, 2, 3, 4, 5),
    "oob": (-1, 0, 1, 2, 3),
}
NEAR_ADDRESS = (0, 1, 4, 8, 15, 16, 17, 24, 32, 48, 64, 2**57 - 32, 2**57 - 16, 2**64 - 16, 2**64 - 32, *WORDS)
NEAR_DIM = (0, 1, 2, 3, 127, 128, 129, 255, 256, 257, 2**16, 2**64 - 1, 2**64 - 2**32, *WORDS)
NEAR_STRIDE = (0, 1, 8, 15, 16, 17, 24, 31, 32, 33, 40, 48, 64, 80, 2**64 - 16, 2**64 - 32, *WORDS)
NEAR_BOX = (0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 272, 512, 1024,
            2**16, 2**31 - 1, 2**31, 2**32 - 256, 2**32 - 16, 2**32 - 1)  # fmt: skip
SIGNED = tuple(2**power + step for power in (31, 32) for step in range(-9, 10))
NEAR_STEP = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 16, 256, 2**31, 2**32 - 1)


def drawn(generator: np.random.Generator, values: tuple[int, ...], count: int) -> Column:
    """`count` of `values`, as 64-bit words: negative ones wrap."""
    return np.array([value % 2**64 for value in values], np.uint64)[generator.integers(0, len(values), count)]


def tiled_rows(generator: np.random.Generator, count: int) -> Columns:
    """`count` rows for `cuTensorMapEncodeTiled`, by the column names of `tilewright.legal.check_rows`."""
    columns = _shared_fields(generator, count, ranks=(1, 2, 2, 3, 3, 3, 4, 4, 5, 5))
    columns |= _boxes(generator, columns)
    broken = _changes(generator, count)
    return _near_limits(generator, columns, broken, ranks=(0, 1, 2, 3, 4, 5, 6, 7))


def im2col_rows(generator: np.random.Generator, count: int) -> Columns:
    """`count` rows for `cuTensorMapEncodeIm2col`.

    `lo0` to `lo2` and `up0` to `up2` are the corners of the pixel box, of dimensions 1 to rank - 2, as signed numbers
    in 64-bit words; `channels` and `pixels` are channelsPerPixel and pixelsPerColumn.
    """
    columns = _shared_fields(generator, count, ranks=(3, 3, 4, 4, 4, 5, 5))
    element_bytes = ELEMENT_BYTES[columns["dtype"].astype(np.int64)]
    span = SPANS[columns["swizzle"].astype(np.int64)]
    widest = np.where((span > 0) & (columns["interleave"] == 0), span, 256 * element_bytes)
    channels = np.minimum(_inner_extent(generator, element_bytes, widest), 256)
    columns["channels"] = channels.astype(np.uint64)
    columns["pixels"] = generator.integers(1, 1025, count).astype(np.uint64)
    small = generator.random(count) < 0.5
    for index in range(4):
        # Half of the rows have extents of the order of the corners, so that the pixel box may be empty.
        dim = f"d{index}"
        columns[dim] = np.where(small, generator.integers(1, 24, count), columns[dim]).astype(np.uint64)
    for index in range(3):
        reach = np.array([1, 1, 1, 32768, 128, 16, 16, 16])[columns["rank"].astype(np.int64)]
        reach = np.where(generator.random(count) < 0.7, np.minimum(reach, 8), reach)
        for name in (f"lo{index}", f"up{index}"):
            columns[name] = generator.integers(-reach, reach).astype(np.uint64)
    broken = _changes(generator, count)
    columns = _near_limits(generator, columns, broken, ranks=(0, 1, 2, 3, 4, 5, 6, 7))
    corners = tuple(
        sign * value + step for value in (0, 16, 128, 32768, 65536) for sign in (-1, 1) for step in (-1, 0, 1)
    )
    near = {"channels": (*NEAR_BOX, 2**32 - 128), "pixels": (*NEAR_BOX, 1023, 1025, 2048)}
    near |= {f"d{index}": SIGNED for index in range(4)}
    near |= {f"{side}{index}": (*corners, 2**31 - 1, -(2**31)) for side in ("lo", "up") for index in range(3)}
    for name, values in near.items():
        _change(generator, columns, name, values, broken, 0.08)
    return columns


def _changes(generator: np.random.Generator, count: int) -> NDArray[np.bool_]:
    """The rows in which fields are to change."""
    return generator.random(count) < 2 / 3


def _change(
    generator: np.random.Generator, columns: Columns, name: str, values: tuple[int, ...], broken: NDArray[np.bool_],
    chance: float,
) -> None:  # fmt: skip
    rows = np.flatnonzero(broken & (generator.random(broken.size) < chance))
    columns[name][rows] = drawn(generator, values, rows.size)


def _shared_fields(generator: np.random.Generator, count: int, *, ranks: tuple[int, ...]) -> Columns:
    columns: Columns = {
        "dtype": drawn(generator, tuple(range(13)), count),
        "rank": drawn(generator, ranks, count),
        "interleave": drawn(generator, (0, 0, 0, 1, 2), count),
        "swizzle": drawn(generator, (0, 1, 2, 3), count),
        "l2": drawn(generator, (0, 1, 2, 3), count),
        "oob": np.zeros(count, np.uint64),
    }
    columns["interleave"][columns["rank"] < 3] = 0
    is_float = np.isin(columns["dtype"], (6, 7, 8, 9, 10, 11, 12))
    columns["oob"][is_float & (generator.random(count) < 0.3)] = 1
    multiple = np.where(columns["interleave"] == 2, 32, 16)
    columns["addr"] = (_spread(generator, count, 57) // multiple * multiple).astype(np.uint64)
    for index in range(5):
        columns[f"d{index}"] = (1 + _spread(generator, count, 32)).astype(np.uint64)
        columns[f"e{index}"] = np.ones(count, np.uint64)
        if index < 4:
            columns[f"s{index}"] = (_spread(generator, count, 40) // multiple * multiple).astype(np.uint64)
    return columns


def _spread(generator: np.random.Generator, count: int, bits: int) -> NDArray[np.int64]:
    """Numbers below 2^bits, every magnitude as likely."""
    return (2.0 ** (generator.random(count) * bits)).astype(np.int64) - 1


def _inner_extent(
    generator: np.random.Generator, element_bytes: NDArray[np.int64], widest: NDArray[np.int64]
) -> NDArray[np.int64]:
    units = np.maximum(np.minimum(widest, 256 * element_bytes) // 16, 1)
    chosen = np.where(generator.random(units.size) < 0.3, units, 1 + generator.integers(0, units))
    return np.maximum(chosen * 16 // element_bytes, 1)


def _boxes(generator: np.random.Generator, columns: Columns) -> Columns:
    count = columns["rank"].size
    element_bytes = ELEMENT_BYTES[columns["dtype"].astype(np.int64)]
    span = SPANS[columns["swizzle"].astype(np.int64)]
    widest = np.where((span > 0) & (columns["interleave"] == 0), span, 256 * element_bytes)
    inner = _inner_extent(generator, element_bytes, widest)
    boxes: Columns = {"b0": inner.astype(np.uint64)}
    stepped = generator.random(count) < 0.4
    steps = [np.where(stepped, generator.integers(1, 9, count), 1) for _ in range(5)]
    left = np.maximum(MULTIPROCESSOR_BYTES // np.maximum(inner // steps[0] * element_bytes, 1), 1)
    tight = generator.random(count) < 0.5
    rank = columns["rank"].astype(np.int64)
    for index in range(1, 5):
        most = np.minimum(left, 256 // steps[index])
        free = 1 + generator.integers(0, np.maximum(most, 1))
        modest = np.maximum((most ** generator.random(count)).astype(np.int64), 1)
        last = (index == rank - 1) & tight
        extent = np.where(last, np.maximum(most + generator.integers(-1, 2, count), 1), np.where(tight, modest, free))
        boxes[f"b{index}"] = np.minimum(extent * steps[index] + generator.integers(0, steps[index]), 256).astype(
            np.uint64
        )
        left = np.maximum(left // extent, 1)
    return boxes | {f"e{index}": steps[index].astype(np.uint64) for index in range(5)}


def _near_limits(
    generator: np.random.Generator, columns: Columns, broken: NDArray[np.bool_], *, ranks: tuple[int, ...]
) -> Columns:
    for name, values in ENUMERATIONS.items():
        _change(generator, columns, name, values, broken, 0.05)
    _change(generator, columns, "rank", ranks, broken, 0.03)
    _change(generator, columns, "addr", NEAR_ADDRESS, broken, 0.06)
    for letter, count, values, chance in (
        ("d", 5, NEAR_DIM, 0.08), ("s", 4, NEAR_STRIDE, 0.08), ("b", 5, NEAR_BOX, 0.08), ("e", 5, NEAR_STEP, 0.08),
    ):  # fmt: skip
        for index in range(count):
            if f"{letter}{index}" in columns:
                _change(generator, columns, f"{letter}{index}", values, broken, chance)
    jittered = broken & (generator.random(broken.size) < 0.05)
    for name in ("addr", "s0", "b0", "d0"):
        if name in columns:
            columns[name][jittered] += drawn(generator, (-16, -8, -1, 1, 8, 16), int(jittered.sum()))
    for name in columns:
        if name[0] in "be":
            columns[name] &= np.uint64(2**32 - 1)  # the driver's words for these
    return columns
