"""Do foreign kernels compute on the CPU machine what they compute on the GPU?

Every `.ptx` below a folder that has a `.launch.json` beside it is run twice with the same inputs: once on the machine,
in a process of its own, once on GPU 0. Inputs are random, bytes of 16-bit floats between -1 and 1, so that every type
finds moderate numbers in them; buffers that `.meta.json` says start at 0, and those of integers, are zero.

Outputs are compared as bytes, then as 16- and 32-bit floats: the order in which the tensor core adds is not promised,
so sums may differ by rounding. One line a kernel: `equal`, or the share of 16-bit words that differ, and the largest
difference relative to the largest value. Kernels whose machine run is longer than `--seconds` are reported as such.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures import TimeoutError as RunsLong
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.base.error import TilewrightError
from tilewright.driver.launch.launch_file import LaunchFile, read_launch_file
from tilewright.driver.run.run_ptx import run_on_gpu
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core.fault import MachineFault, MachineHang
from tilewright.machine.core.run import run_launch

Arrays = dict[str, NDArray[np.uint8]]
_ZERO_WORDS = ("index", "idx", "lock", "ticket", "count", "partial", "sem", "len", "size", "ptr", "offs")


@dataclass(frozen=True, slots=True)
class Compared:
    """One kernel. outcome: `equal`, `rounding`, `differs`, or why there is none; differing: share of 16-bit words;
    largest: difference of a 16- or 32-bit float, relative to the largest value there."""

    kernel: str
    outcome: str
    differing: float = 0.0
    largest: float = 0.0
    machine_seconds: float = 0.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="folder of .ptx files with .launch.json beside them")
    parser.add_argument("--only", default="", help="paths that contain this")
    parser.add_argument("--seconds", type=float, default=120.0, help="time for each machine run")
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count(), help="machine runs at a time")
    parser.add_argument("--results", type=Path, default=None, help="folder for foreign.json")
    parser.add_argument("--machine-only", action="store_true", help="without a GPU: which kernels run at all")


def run(arguments: argparse.Namespace) -> int:
    files = [path for path in sorted(arguments.folder.rglob("*.ptx")) if arguments.only in str(path)]
    files = [path for path in files if _launch_path(path).exists()]
    results: list[Compared] = []
    with ProcessPoolExecutor(arguments.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting = [(path, pool.submit(_on_machine, str(path))) for path in files]
        started = time.monotonic()
        for path, future in waiting:
            name = str(path.relative_to(arguments.folder))
            left = arguments.seconds * (1 + len(files) / max(1, arguments.jobs)) - (time.monotonic() - started)
            try:
                outcome, arrays, seconds = future.result(timeout=max(1.0, left))
            except RunsLong:
                results.append(Compared(name, "machine run too long"))
                future.cancel()
                continue
            if arrays is None or arguments.machine_only:
                results.append(Compared(name, outcome or "ran", machine_seconds=seconds))
            else:
                results.append(_compare(name, path, arrays, seconds))
            print(_line(results[-1]), flush=True)
        for process in list(getattr(pool, "_processes", {}).values()):
            process.kill()
    outcomes = [each.outcome.split(":")[0] for each in results]
    print({word: outcomes.count(word) for word in sorted(set(outcomes))})
    if arguments.results is not None:
        arguments.results.mkdir(parents=True, exist_ok=True)
        rows = [asdict(each) for each in results]
        (arguments.results / "foreign.json").write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def _line(compared: Compared) -> str:
    return (
        f"{compared.kernel:60} {compared.outcome:40} {compared.differing:8.2%} {compared.largest:9.2e} "
        f"{compared.machine_seconds:6.1f} s"
    )


def _launch_path(path: Path) -> Path:
    return path.with_name(path.stem + ".launch.json")


def inputs_for(launch: LaunchFile, launch_path: Path) -> Arrays:
    """Random bytes for every buffer of a launch, the same in every process."""
    meta = launch_path.with_name(launch_path.name.replace(".launch.json", ".meta.json"))
    said = str(json.loads(meta.read_text("utf-8")).get("math", "")) if meta.exists() else ""
    random = np.random.default_rng(7)
    arrays: Arrays = {}
    for buffer in launch.buffers:
        values = random.uniform(-1, 1, buffer.size_bytes // 2 + 1).astype(np.float32)
        words = (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)[: buffer.size_bytes].copy()
        zero = any(word in buffer.name for word in _ZERO_WORDS) or f"{buffer.name} start" in said
        arrays[buffer.name] = np.zeros(buffer.size_bytes, np.uint8) if zero else words
    return arrays


def _on_machine(name: str) -> tuple[str, Arrays | None, float]:
    """Why there are no numbers, the buffers afterwards, seconds."""
    path = Path(name)
    begin = time.monotonic()
    try:
        launch = read_launch_file(str(_launch_path(path)))
        module = read(path.read_text("utf-8"), name, tolerant=True)
        arrays = inputs_for(launch, _launch_path(path))
        run_launch(module, launch.resolve(launch.kernel(module, name)), arrays, strict=False)
    except (TilewrightError, MachineFault, MachineHang) as error:
        return f"machine: {str(error).splitlines()[0][-150:]}", None, time.monotonic() - begin
    return "", arrays, time.monotonic() - begin


def _compare(name: str, path: Path, machine: Arrays, seconds: float) -> Compared:
    launch = read_launch_file(str(_launch_path(path)))
    arrays = inputs_for(launch, _launch_path(path))
    before = {key: value.copy() for key, value in arrays.items()}
    try:
        run_on_gpu(path.read_text("utf-8"), str(path), launch, arrays)
    except TilewrightError as error:
        return Compared(name, f"gpu: {str(error).splitlines()[0][-150:]}", machine_seconds=seconds)
    # Scratch memory may hold tensor maps, which the machine encodes in its own way.
    arrays = {key: value for key, value in arrays.items() if "scratch" not in key}
    written = [key for key in arrays if not np.array_equal(arrays[key], before[key])]
    if not written:
        return Compared(name, "nothing written", machine_seconds=seconds)
    if all(np.array_equal(arrays[key], machine[key]) for key in arrays):
        return Compared(name, "equal", machine_seconds=seconds)
    shares, largest = [0.0], 0.0
    for key in arrays:
        if np.array_equal(arrays[key], machine[key]):
            continue
        shares.append(float((_words(arrays[key], np.uint16) != _words(machine[key], np.uint16)).mean()))
        largest = max(largest, _relative(arrays[key], machine[key]))
    return Compared(name, "rounding" if largest < 2e-2 else "differs", max(shares), largest, seconds)


def _words(data: NDArray[np.uint8], dtype: Any) -> NDArray[Any]:
    size = np.dtype(dtype).itemsize
    return data[: data.size // size * size].view(dtype)


def _relative(gpu: NDArray[np.uint8], machine: NDArray[np.uint8]) -> float:
    """The least, over the types the bytes may be of, of the largest difference relative to the largest value."""
    found: list[float] = []
    for read_as in (_float32, _float16, _brain16):
        with np.errstate(all="ignore"):
            mine, theirs = read_as(machine), read_as(gpu)
            finite = np.isfinite(mine) & np.isfinite(theirs)
            if not finite.any() or (np.isfinite(mine) != np.isfinite(theirs)).any():
                continue
            scale = float(np.abs(theirs[finite]).max()) or 1.0
            found.append(float(np.abs(mine[finite] - theirs[finite]).max()) / scale)
    return min(found, default=float("inf"))


def _float32(data: NDArray[np.uint8]) -> NDArray[np.float64]:
    return _words(data, np.float32).astype(np.float64)


def _float16(data: NDArray[np.uint8]) -> NDArray[np.float64]:
    return _words(data, np.float16).astype(np.float64)


def _brain16(data: NDArray[np.uint8]) -> NDArray[np.float64]:
    return (_words(data, np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
