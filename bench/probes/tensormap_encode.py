"""Does the driver encode exactly the tensor maps that the rules allow? Random rows near every limit, asked both.

    python -m bench.probes.tensormap_encode --rows 1000000 --im2col-rows 200000 --out out/encode --seed 1

Needs libcuda and one device of the target's architecture; Python and NumPy, nothing else. Prints how many answers
differ, and writes into the folder, as .npz with an array `rows` of 64-bit words and the names `cols`:

    tiled_sample.npz, im2col_sample.npz     rows drawn at random with the driver's answer (`cuResult`), and `maps`, the
                                            128 bytes of those that it encoded (zeros where it refused)
    tiled_differ.npz, im2col_differ.npz     rows where rules and driver differ, the first 1,000
    summary.json                            the driver's version, the counts, the seconds

Entries past a row's rank are noise. The exit status is 1 where any row differs.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.probes.tensormap_rows import Columns, im2col_rows, tiled_rows
from tilewright.legal.rows import check_im2col_rows, check_rows

MAP_BYTES = 128
CHUNK_ROWS = 100_000
DIFFERING_ROWS = 1000


class Driver:
    """libcuda with the first device's primary context current, which the encoders ask for their architecture."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self._call("cuInit", ctypes.c_uint(0))
        device, context, version = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(0))
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)
        self._call("cuDriverGetVersion", ctypes.byref(version))
        self.version = version.value
        number, pointer, enumeration = ctypes.c_uint32, ctypes.c_void_p, ctypes.c_int32
        self.tiled = self.library.cuTensorMapEncodeTiled
        self.tiled.argtypes = (
            pointer, enumeration, number, pointer, pointer, pointer, pointer, pointer,
            enumeration, enumeration, enumeration, enumeration,
        )  # fmt: skip
        self.im2col = self.library.cuTensorMapEncodeIm2col
        self.im2col.argtypes = (
            pointer, enumeration, number, pointer, pointer, pointer, pointer, pointer, number, number, pointer,
            enumeration, enumeration, enumeration, enumeration,
        )  # fmt: skip

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self.library, name)(*arguments)
        if status:
            raise SystemExit(f"{name} failed with {status}")


def table(columns: Columns, names: tuple[str, ...], kind: type[np.generic]) -> NDArray[np.generic]:
    """The named columns side by side, cut to the width that the driver takes. [rows, names]"""
    return np.ascontiguousarray(np.stack([columns[name] for name in names], axis=1).astype(kind))


def _maps(count: int) -> NDArray[np.uint8]:
    """Room for maps, each aligned to 128 bytes."""
    room = np.zeros((count + 1) * MAP_BYTES, np.uint8)
    skip = -room.ctypes.data % MAP_BYTES
    return room[skip : skip + count * MAP_BYTES].reshape(count, MAP_BYTES)


def _lists(columns: Columns, letters: tuple[tuple[str, int, type[np.generic]], ...]) -> list[list[int]]:
    """For each of the lists, the address of every row's entries. The tables are kept alive by `_KEPT`."""
    addresses: list[list[int]] = []
    for letter, count, kind in letters:
        entries = table(columns, tuple(f"{letter}{index}" for index in range(count)), kind)
        _KEPT.append(entries)
        begin, pitch = entries.ctypes.data, entries.strides[0]
        addresses.append([begin + row * pitch for row in range(entries.shape[0])])
    return addresses


_KEPT: list[NDArray[np.generic]] = []


def _enumerations(columns: Columns) -> list[list[int]]:
    names = ("dtype", "interleave", "swizzle", "l2", "oob")
    return [columns[name].astype(np.uint32).view(np.int32).tolist() for name in names]


def encode_tiled(driver: Driver, columns: Columns) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
    """The driver's answer to each row, and the maps that it wrote."""
    rank, address = columns["rank"].astype(np.uint32).tolist(), columns["addr"].tolist()
    kinds = (("d", 5, np.uint64), ("s", 4, np.uint64), ("b", 5, np.uint32), ("e", 5, np.uint32))
    dims, strides, box, steps = _lists(columns, kinds)
    dtype, interleave, swizzle, l2, oob = _enumerations(columns)
    maps = _maps(len(rank))
    begin, encode = maps.ctypes.data, driver.tiled
    answers = [
        encode(begin + row * MAP_BYTES, dtype[row], rank[row], address[row], dims[row], strides[row], box[row],
               steps[row], interleave[row], swizzle[row], l2[row], oob[row])
        for row in range(len(rank))
    ]  # fmt: skip
    _KEPT.clear()
    return np.array(answers, np.uint64), maps


def encode_im2col(driver: Driver, columns: Columns) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
    """The driver's answer to each row, and the maps that it wrote."""
    rank, address = columns["rank"].astype(np.uint32).tolist(), columns["addr"].tolist()
    channels, pixels = (columns[name].astype(np.uint32).tolist() for name in ("channels", "pixels"))
    kinds = (("d", 5, np.uint64), ("s", 4, np.uint64), ("lo", 3, np.int32), ("up", 3, np.int32), ("e", 5, np.uint32))
    dims, strides, lower, upper, steps = _lists(columns, kinds)
    dtype, interleave, swizzle, l2, oob = _enumerations(columns)
    maps = _maps(len(rank))
    begin, encode = maps.ctypes.data, driver.im2col
    answers = [
        encode(begin + row * MAP_BYTES, dtype[row], rank[row], address[row], dims[row], strides[row], lower[row],
               upper[row], channels[row], pixels[row], steps[row], interleave[row], swizzle[row], l2[row], oob[row])
        for row in range(len(rank))
    ]  # fmt: skip
    _KEPT.clear()
    return np.array(answers, np.uint64), maps


def save(
    path: Path, columns: Columns, answers: NDArray[np.uint64], maps: NDArray[np.uint8], rows: NDArray[np.intp]
) -> None:
    """The chosen rows with their answers and maps."""
    names = (*columns, "cuResult")
    entries = np.stack([*(columns[name][rows] for name in columns), answers[rows]], axis=1)
    np.savez_compressed(path, cols=np.array(names), rows=entries, maps=maps[rows])


def compare(kind: str, driver: Driver, count: int, seed: int, out: Path, kept: int) -> dict[str, object]:
    """`count` rows of `kind` asked of the driver and of the rules; the folder gets a sample and what differs."""
    draw, encode, judge = (
        (tiled_rows, encode_tiled, check_rows) if kind == "tiled" else (im2col_rows, encode_im2col, check_im2col_rows)
    )
    differing = accepted = 0
    seconds = {"driver": 0.0, "rules": 0.0}
    samples: list[tuple[Columns, NDArray[np.uint64], NDArray[np.uint8], NDArray[np.intp]]] = []
    different: list[tuple[Columns, NDArray[np.uint64], NDArray[np.uint8], NDArray[np.intp]]] = []
    other_answers: dict[str, int] = {}
    for number, start in enumerate(range(0, count, CHUNK_ROWS)):
        size = min(CHUNK_ROWS, count - start)
        generator = np.random.default_rng((seed, number, kind == "tiled"))
        columns = draw(generator, size)
        began = time.perf_counter()
        answers, maps = encode(driver, columns)
        seconds["driver"] += time.perf_counter() - began
        began = time.perf_counter()
        legal = judge(columns)
        seconds["rules"] += time.perf_counter() - began
        accepted += int((answers == 0).sum())
        for answer, times in zip(*np.unique(answers, return_counts=True), strict=True):
            other_answers[str(answer)] = other_answers.get(str(answer), 0) + int(times)
        differ = np.flatnonzero(legal != (answers == 0))
        if differ.size and differing < DIFFERING_ROWS:
            different.append((columns, answers, maps, differ[: DIFFERING_ROWS - differing]))
        differing += differ.size
        share = -(-kept * size // count)
        sample = generator.choice(size, min(share, size), replace=False)
        samples.append(({name: column[sample] for name, column in columns.items()}, answers[sample], maps[sample],
                        np.arange(sample.size)))  # fmt: skip
    for name, parts in (("sample", samples), ("differ", different)):
        if parts:
            columns = {key: np.concatenate([part[0][key][part[3]] for part in parts]) for key in parts[0][0]}
            answers = np.concatenate([part[1][part[3]] for part in parts])
            maps = np.concatenate([part[2][part[3]] for part in parts])
            save(out / f"{kind}_{name}.npz", columns, answers, maps, np.arange(answers.size))
    return {
        "rows": count,
        "accepted": accepted,
        "differing": differing,
        "answers": other_answers,
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--im2col-rows", type=int, default=200_000)
    parser.add_argument("--sample", type=int, default=20_000, help="tiled rows to keep, with their answers")
    parser.add_argument("--im2col-sample", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    driver = Driver()
    summary: dict[str, object] = {"driver": driver.version, "seed": options.seed}
    differing = 0
    for kind, count, kept in (
        ("tiled", options.rows, options.sample), ("im2col", options.im2col_rows, options.im2col_sample),
    ):  # fmt: skip
        if count:
            counts = compare(kind, driver, count, options.seed, options.out, kept)
            summary[kind] = counts
            differing += int(str(counts["differing"]))
    text = json.dumps(summary, indent=1)
    (options.out / "summary.json").write_text(text + "\n", encoding="utf-8")
    print(text)
    return 1 if differing else 0


if __name__ == "__main__":
    raise SystemExit(main())
