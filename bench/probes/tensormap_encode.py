"""Does the driver encode exactly the tensor maps that the rules allow? Random rows near every limit, asked both.

    python -m bench.probes.tensormap_encode --rows 1000000 --im2col-rows 200000 --out out/encode --seed 1

Needs libcuda and one device of the target's architecture; Python and NumPy, nothing else. Prints how many answers
differ, and writes into the folder, as .npz with an array `rows` of 64-bit words and the names `cols`:

    tiled_sample.npz, im2col_sample.npz     rows drawn at random with the driver's answer (`cuResult`), and `maps`, the
                                            128 bytes of those that it encoded (zeros where it refused)
    tiled_differ.npz, im2col_differ.npz     rows where rules and driver differ, the first 1,000
    summary.json                            the driver's version, the counts, the seconds

Rows that crash the driver are counted, not compared. Entries past a row's rank are noise. The exit status is 1 where
any row differs.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from mmap import mmap
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from bench.probes.tensormap_rows import Columns, im2col_rows, tiled_rows
from tilewright.legal.tensor_map.rows import check_im2col_rows, check_rows

MAP_BYTES = 128
CHUNK_ROWS = 100_000
DIFFERING_ROWS = 1000
MARGIN_ROWS = 64
CRASHED, SKIPPED = 2**32 - 1, 2**32 - 2
"""Answers of rows that crashed the driver, and of those that were not asked."""


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


def table(columns: Columns, letter: str, count: int, kind: type[np.generic]) -> NDArray[np.generic]:
    """The columns of one list side by side, cut to the width that the driver takes. [rows + MARGIN_ROWS, count]

    The rows after the last are zeros: a driver that reads past the five entries of a row stays inside the table.
    """
    entries = np.stack([columns[f"{letter}{index}"] for index in range(count)], axis=1).astype(kind)
    return np.concatenate((entries, np.zeros((MARGIN_ROWS, count), kind)))


def _calls(driver: Driver, columns: Columns, maps: NDArray[np.uint8]) -> Iterator[Callable[[], int]]:
    """One call of the encoder for each row."""
    tiled = "b0" in columns
    kinds: tuple[tuple[str, int, type[np.generic]], ...] = (("d", 5, np.uint64), ("s", 4, np.uint64))
    kinds += (("b", 5, np.uint32),) if tiled else (("lo", 3, np.int32), ("up", 3, np.int32))
    tables = [table(columns, *kind) for kind in kinds]
    steps = table(columns, "e", 5, np.uint32)
    words = ("dtype", "interleave", "swizzle", "l2", "oob")
    dtype, interleave, swizzle, l2, oob = (columns[name].astype(np.uint32).view(np.int32).tolist() for name in words)
    rank, address = columns["rank"].astype(np.uint32).tolist(), columns["addr"].tolist()
    counts = [] if tiled else [columns[name].astype(np.uint32).tolist() for name in ("channels", "pixels")]
    encode = driver.tiled if tiled else driver.im2col
    begins = [(entries.ctypes.data, entries.strides[0]) for entries in tables]
    first_map, first_step, step_pitch = maps.ctypes.data, steps.ctypes.data, steps.strides[0]
    for row in range(len(rank)):
        lists = [begin + row * pitch for begin, pitch in begins]
        arguments = (
            first_map + row * MAP_BYTES, dtype[row], rank[row], address[row], *lists,
            *(count[row] for count in counts), first_step + row * step_pitch,
            interleave[row], swizzle[row], l2[row], oob[row],
        )  # fmt: skip
        yield partial(encode, *arguments)


def encode(columns: Columns, crashing: set[int]) -> tuple[NDArray[np.uint64], NDArray[np.uint8], int]:
    """The driver's answer to each row, the maps that it wrote, and its version.

    The driver is asked in a child process, since it may crash where another error would be an answer: the row's answer
    is then CRASHED, and rows of its rank are not asked any more (SKIPPED). crashing: those ranks, added to.
    """
    count = columns["rank"].size
    answers = np.frombuffer(mmap(-1, 8 * count), np.uint64)
    answers[:] = SKIPPED
    maps = np.frombuffer(mmap(-1, MAP_BYTES * count), np.uint8).reshape(count, MAP_BYTES)
    state = np.frombuffer(mmap(-1, 16), np.int64)  # the next row, the driver's version
    while state[0] < count:
        child = os.fork()
        if child == 0:
            _ask(columns, answers, maps, state, crashing)
        _, status = os.waitpid(child, 0)
        if status == 0:
            break
        row = int(state[0])
        if not os.WIFSIGNALED(status) or state[1] == 0:
            raise SystemExit(f"the process that asks the driver ended with status {status}")
        crashing.add(int(columns["rank"][row]))
        answers[row] = CRASHED
        print(f"the driver crashed with signal {os.WTERMSIG(status)} at row {_shown(columns, row)}", flush=True)
        state[0] = row + 1
    return answers, maps, int(state[1])


def _ask(
    columns: Columns, answers: NDArray[np.uint64], maps: NDArray[np.uint8], state: NDArray[np.int64], crashing: set[int]
) -> NoReturn:
    """The child's work: every row from the state's on."""
    status = 1
    try:
        driver = Driver()
        state[1] = driver.version
        ranks = columns["rank"].tolist()
        first = int(state[0])
        for row, call in enumerate(_calls(driver, columns, maps)):
            if row >= first and ranks[row] not in crashing:
                state[0] = row
                answers[row] = call()
        status = 0
    finally:
        if status:
            traceback.print_exc()
        os._exit(status)


def _shown(columns: Columns, row: int) -> dict[str, int]:
    return {name: int(column[row]) for name, column in columns.items()}


def save(
    path: Path, columns: Columns, answers: NDArray[np.uint64], maps: NDArray[np.uint8], rows: NDArray[np.intp]
) -> None:
    """The chosen rows with their answers and maps."""
    names = (*columns, "cuResult")
    entries = np.stack([*(columns[name][rows] for name in columns), answers[rows]], axis=1)
    np.savez_compressed(path, cols=np.array(names), rows=entries, maps=maps[rows])


def compare(kind: str, count: int, seed: int, out: Path, kept: int) -> dict[str, object]:
    """`count` rows of `kind` asked of the driver and of the rules; the folder gets a sample and what differs."""
    draw, judge = (tiled_rows, check_rows) if kind == "tiled" else (im2col_rows, check_im2col_rows)
    crashing: set[int] = set()
    version = 0
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
        answers, maps, version = encode(columns, crashing)
        seconds["driver"] += time.perf_counter() - began
        began = time.perf_counter()
        legal = judge(columns)
        seconds["rules"] += time.perf_counter() - began
        accepted += int((answers == 0).sum())
        for answer, times in zip(*np.unique(answers, return_counts=True), strict=True):
            other_answers[str(answer)] = other_answers.get(str(answer), 0) + int(times)
        differ = np.flatnonzero((legal != (answers == 0)) & (answers < SKIPPED))
        if differ.size and differing < DIFFERING_ROWS:
            different.append((columns, answers, maps, differ[: DIFFERING_ROWS - differing]))
        differing += differ.size
        print(f"{kind}: {start + size} rows, {differing} differ", flush=True)
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
        "driver": version,
        "rows": count,
        "accepted": accepted,
        "differing": differing,
        "crashing_ranks": sorted(crashing),
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
    summary: dict[str, object] = {"seed": options.seed}
    differing = 0
    for kind, count, kept in (
        ("tiled", options.rows, options.sample), ("im2col", options.im2col_rows, options.im2col_sample),
    ):  # fmt: skip
        if count:
            counts = compare(kind, count, options.seed, options.out, kept)
            summary[kind] = counts
            differing += int(str(counts["differing"]))
    text = json.dumps(summary, indent=1)
    (options.out / "summary.json").write_text(text + "\n", encoding="utf-8")
    print(text)
    return 1 if differing else 0


if __name__ == "__main__":
    raise SystemExit(main())
