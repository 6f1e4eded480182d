"""Which 128 bytes does the driver make of a tensor map? Tiled and im2col maps, their arguments kept beside the bytes.

Every argument of `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col` is first varied alone, up to its limits, and
then all together at random, so that each bit of the format can be traced to the argument that sets it. A map is made
and never used, so addresses need not be mapped. Rows that the driver refuses are kept with its answer.

Run on a machine with a GPU: `python bench/probes/tensormap_bytes.py maps.npz [random rows]`. Needs NumPy and libcuda.
What comes out: `tiled`, `im2col` and `wide` (int64 arguments, columns named by `tiled_columns` and so on),
`tiled_maps`, ... (uint8 [rows, 128]), `tiled_results`, ... (CUresult), `driver`, `capability`.
"""

from __future__ import annotations

import ctypes
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Row = dict[str, int]

_TILED = ["dtype", "rank", "address", *(f"d{i}" for i in range(5)), *(f"s{i}" for i in range(4))]
_TILED += [*(f"b{i}" for i in range(5)), *(f"e{i}" for i in range(5)), "interleave", "swizzle", "l2", "oob"]
_IM2COL = ["dtype", "rank", "address", *(f"d{i}" for i in range(5)), *(f"s{i}" for i in range(4))]
_IM2COL += [*(f"lower{i}" for i in range(3)), *(f"upper{i}" for i in range(3)), "channels", "pixels"]
_IM2COL += [*(f"e{i}" for i in range(5)), "interleave", "swizzle", "l2", "oob"]
_WIDE = [name for name in _IM2COL if name not in ("lower1", "lower2", "upper1", "upper2")] + ["mode"]
_BYTES = [1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4]


def main() -> None:
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context, version = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int()
    for result in (
        cuda.cuInit(0), cuda.cuDeviceGet(ctypes.byref(device), 0), cuda.cuDriverGetVersion(ctypes.byref(version)),
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), cuda.cuCtxSetCurrent(context),
    ):  # fmt: skip
        if result:
            raise SystemExit(f"the driver answers {result}")
    capability = [ctypes.c_int(), ctypes.c_int()]
    for value, attribute in zip(capability, (75, 76), strict=True):
        cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    found: dict[str, Any] = {"driver": version.value, "capability": [value.value for value in capability]}
    for name, columns, rows, encode in (
        ("tiled", _TILED, _tiled_rows(count), _encode_tiled),
        ("im2col", _IM2COL, _im2col_rows(count), _encode_im2col),
        ("wide", _WIDE, _wide_rows(), _encode_wide),
    ):
        found |= _recorded(cuda, name, columns, list(rows), encode)
    np.savez_compressed(sys.argv[1], **found)


def _recorded(
    cuda: ctypes.CDLL, name: str, columns: list[str], rows: list[Row], encode: Callable[[ctypes.CDLL, int, Row], int]
) -> dict[str, Any]:
    maps, results = np.zeros((len(rows), 128), np.uint8), np.zeros(len(rows), np.int32)
    raw = ctypes.create_string_buffer(256)
    aligned = -(-ctypes.addressof(raw) // 128) * 128
    for index, row in enumerate(rows):
        ctypes.memset(aligned, 0xA5, 128)
        results[index] = encode(cuda, aligned, row)
        maps[index] = np.frombuffer(ctypes.string_at(aligned, 128), np.uint8)
    accepted = int((results == 0).sum())
    print(f"{name}: {len(rows)} rows, {accepted} accepted")
    return {
        name: np.array([[row[column] for column in columns] for row in rows], np.int64),
        f"{name}_columns": np.array(columns),
        f"{name}_maps": maps,
        f"{name}_results": results,
    }


def _array(kind: Any, values: list[int]) -> Any:
    return (kind * len(values))(*values)


def _common(row: Row) -> tuple[object, ...]:
    rank = row["rank"]
    return (
        ctypes.c_int(row["dtype"]), ctypes.c_uint32(rank), ctypes.c_void_p(row["address"]),
        _array(ctypes.c_uint64, [row[f"d{i}"] for i in range(rank)]),
        _array(ctypes.c_uint64, [row[f"s{i}"] for i in range(rank - 1)]),
    )  # fmt: skip


def _modes(row: Row) -> tuple[object, ...]:
    return tuple(ctypes.c_int(row[name]) for name in ("interleave", "swizzle", "l2", "oob"))


def _element_strides(row: Row) -> Any:
    return _array(ctypes.c_uint32, [row[f"e{i}"] for i in range(row["rank"])])


def _encode_tiled(cuda: ctypes.CDLL, address: int, row: Row) -> int:
    box = _array(ctypes.c_uint32, [row[f"b{i}"] for i in range(row["rank"])])
    return cuda.cuTensorMapEncodeTiled(
        ctypes.c_void_p(address), *_common(row), box, _element_strides(row), *_modes(row)
    )


def _encode_im2col(cuda: ctypes.CDLL, address: int, row: Row) -> int:
    corners = [_array(ctypes.c_int, [row[f"{side}{i}"] for i in range(row["rank"] - 2)]) for side in ("lower", "upper")]
    counts = [ctypes.c_uint32(row["channels"]), ctypes.c_uint32(row["pixels"])]
    return cuda.cuTensorMapEncodeIm2col(
        ctypes.c_void_p(address), *_common(row), *corners, *counts, _element_strides(row), *_modes(row)
    )


def _encode_wide(cuda: ctypes.CDLL, address: int, row: Row) -> int:
    if not hasattr(cuda, "cuTensorMapEncodeIm2colWide"):
        return -1
    modes = _modes(row)
    return cuda.cuTensorMapEncodeIm2colWide(
        ctypes.c_void_p(address), *_common(row), ctypes.c_int(row["lower0"]), ctypes.c_int(row["upper0"]),
        ctypes.c_uint32(row["channels"]), ctypes.c_uint32(row["pixels"]), _element_strides(row),
        modes[0], ctypes.c_int(row["mode"]), *modes[1:],
    )  # fmt: skip


def _base(rank: int) -> Row:
    """A legal map of 16-bit elements whose fields all differ, 1 MiB and more apart so that nothing overlaps."""
    row = {"dtype": 6, "rank": rank, "address": 0x7F0000000000, "interleave": 0, "swizzle": 0, "l2": 0, "oob": 0}
    row |= {f"d{i}": extent for i, extent in enumerate((96, 40, 24, 20, 12))}
    row |= {f"s{i}": stride for i, stride in enumerate((192, 7680, 184320, 3686400))}
    return row | {f"e{i}": 1 for i in range(5)}


def _varied(base: Row, changes: dict[str, list[int]]) -> Iterator[Row]:
    yield base
    for name, values in changes.items():
        for value in values:
            yield base | {name: value}


_ADDRESSES = [16, 1 << 20, (1 << 57) - 16, *(1 << bit for bit in range(4, 57))]
_DIMS = [1, 2, (1 << 32) - 1, 1 << 32, *(1 << bit for bit in range(32))]
_STRIDES = [0, (1 << 40) - 16, *(1 << bit for bit in range(4, 40))]


def _shared_changes(rank: int) -> dict[str, list[int]]:
    return {
        "dtype": list(range(16)), "address": _ADDRESSES, "l2": [0, 1, 2, 3], "oob": [0, 1], "swizzle": list(range(7)),
        **{f"d{i}": _DIMS for i in range(rank)},
        **{f"s{i}": _STRIDES for i in range(rank - 1)},
        **{f"e{i}": list(range(1, 9)) for i in range(rank)},
    }  # fmt: skip


def _tiled_rows(count: int) -> Iterator[Row]:
    for rank in range(1, 6):
        base = _base(rank) | {f"b{i}": extent for i, extent in enumerate((16, 3, 2, 2, 2))}
        changes = _shared_changes(rank) | {f"b{i}": [1, 2, 4, 8, 16, 32, 64, 128, 255, 256] for i in range(rank)}
        yield from _varied(base, changes)
        if rank >= 3:
            for interleave, swizzle in ((1, 0), (1, 1), (1, 2), (1, 3), (2, 1)):
                yield from _varied(base | {"interleave": interleave, "swizzle": swizzle}, {"b1": [1, 2, 4], "d0": [7]})
    draw = random.Random(20261121)
    for _ in range(count):
        row = _random_common(draw, draw.randint(1, 5))
        row |= {f"b{i}": draw.choice((1, 2, 3, 4, 7, 8, 16)) for i in range(5)}
        row["b0"] = 16 // _BYTES[row["dtype"]] * draw.choice((1, 2, 4, 8)) or 1
        yield row


def _random_common(draw: random.Random, rank: int) -> Row:
    row = {"dtype": draw.randrange(13), "rank": rank, "address": draw.randrange(1 << 53) << 4}
    row |= {f"d{i}": draw.randint(1, 1 << draw.randint(0, 32)) for i in range(5)}
    row |= {f"s{i}": draw.randrange(1 << draw.randint(0, 35)) << 5 for i in range(4)}
    row |= {f"s{i}": row[f"s{i}"] % (1 << 40) for i in range(4)}
    row |= {f"e{i}": draw.randint(1, 8) for i in range(5)}
    row |= {"interleave": 0, "swizzle": draw.randrange(4), "l2": draw.randrange(4)}
    row["oob"] = draw.randrange(2) if row["dtype"] >= 6 else 0
    return row


_CORNER_RANGES = {3: 1 << 15, 4: 1 << 7, 5: 1 << 4}


def _im2col_rows(count: int) -> Iterator[Row]:
    for rank in (3, 4, 5):
        half = _CORNER_RANGES[rank]
        base = _base(rank) | {"channels": 16, "pixels": 24}
        base |= {f"{side}{i}": 0 for side in ("lower", "upper") for i in range(3)}
        corners = [sign * (1 << bit) for sign in (1, -1) for bit in range(half.bit_length())]
        corners += [-5, 5, 1 - half, half - 1]
        changes = _shared_changes(rank) | {
            "channels": [8, 24, 32, 64, 128, 255, 256], "pixels": [1, 2, 3, *(1 << bit for bit in range(2, 11)), 1023],
            **{f"{side}{i}": corners for side in ("lower", "upper") for i in range(rank - 2)},
        }  # fmt: skip
        yield from _varied(base, changes)
        for interleave, swizzle in ((1, 0), (1, 1), (1, 2), (1, 3), (2, 1)):
            yield base | {"interleave": interleave, "swizzle": swizzle}
    draw = random.Random(20261122)
    for _ in range(count):
        rank = draw.randint(3, 5)
        row = _random_common(draw, rank)
        half = _CORNER_RANGES[rank]
        row |= {f"{side}{i}": draw.randint(-half, half - 1) for side in ("lower", "upper") for i in range(3)}
        row["channels"] = 16 // _BYTES[row["dtype"]] * draw.choice((1, 2, 4, 8))
        row["pixels"] = draw.randint(1, 1024)
        yield row


def _wide_rows() -> Iterator[Row]:
    for rank in (3, 4, 5):
        for mode in (0, 1):
            base = _base(rank) | {"channels": 16, "pixels": 24, "lower0": 0, "upper0": 0, "swizzle": 3, "mode": mode}
            changes = {"lower0": [-32768, -1, 1], "upper0": [-1, 1, 32767], "pixels": [1, 128, 1024], "swizzle": [2, 4]}
            yield from _varied(base, changes)


if __name__ == "__main__":
    main()
