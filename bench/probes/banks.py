"""Does the bank model count the wavefronts that a GPU takes? Fresh accesses of every kind, timed and compared.

`python -m bench.probes.banks --rows 1500 --out FOLDER --seed 2`, on a machine with a GPU of compute capability 9.0,
cuda-bindings and NumPy. For each kind it prints how many accesses ran and how many take other wavefronts than
`legal.banks.wavefronts` says, with the worst of them; then the ten tiles of `layout_problems` that placing helps most,
in cycles before and after, beside what was predicted. FOLDER gets `banks.json` with all of it and `banks.npz` with
every row: kernel, addresses (the highest bit set where a lane takes no part), cycles an access, wavefronts, family.

An access agrees where its cycles are within a tenth of the prediction, or a quarter of a cycle of it: loops and
barriers take a little, and an access of one wavefront may be limited by how often warps issue.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import shutil
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.layouts import worst
from bench.probes.bank_cases import rows as fresh_rows
from bench.probes.bank_kernels import LAPS, SHARED_BYTES, THREADS, UNROLLED, WARPS, kernel_names, module_text
from tilewright.legal.access_kind import access_kind
from tilewright.legal.banks import wavefronts
from tilewright.legal.placement import Buffer, BufferAccess, Placement, positions
from tilewright.runtime import device as gpu

_OFF = 1 << 31
_REPEATS = 3
_SHARE, _CYCLES = 0.1, 0.25
Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]


def main() -> int:
    parser = argparse.ArgumentParser(description="Wavefronts of a GPU against the model.")
    parser.add_argument("--rows", type=int, default=1500, help="accesses of each kernel")
    parser.add_argument("--out", type=Path, required=True, help="folder for banks.npz and banks.json")
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--tiles", type=int, default=10, help="tiles timed before and after")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    timer = Timer()
    kinds, arrays = _kinds(timer, arguments.rows, arguments.seed)
    tiles = _tiles(timer, arguments.tiles)
    total, wrong = sum(int(str(each["rows"])) for each in kinds), sum(int(str(each["wrong"])) for each in kinds)
    print(f"{total - wrong} of {total} accesses agree: {100 * (total - wrong) / max(1, total):.3f} %")
    print("profiler: " + (f"{shutil.which('ncu')}, not asked" if shutil.which("ncu") else "no ncu here; cycles alone"))
    print(f"{time.monotonic() - began:.0f} s")
    document = {"seed": arguments.seed, "rows": total, "wrong": wrong, "kinds": kinds, "tiles": tiles}
    (arguments.out / "banks.json").write_text(json.dumps(document, indent=1) + "\n")
    with (arguments.out / "banks.npz").open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
    return 0


class Timer:
    """The GPU with the kernels of the probe."""

    def __init__(self) -> None:
        self.cuda = gpu.driver()
        device = gpu.open_device(0)
        gpu.check(self.cuda.cuCtxSetCurrent(self.cuda.CUcontext(device.context)), "making the context current")
        self.module = gpu.check(self.cuda.cuModuleLoadData(module_text().encode() + b"\0"), "compiling the kernels")

    def cycles(self, name: str, addresses: Integers, active: NDArray[np.bool_] | None = None) -> Numbers:
        """Cycles of one access of each row, the least of several launches."""
        function = gpu.check(self.cuda.cuModuleGetFunction(self.module, name.encode()), name)
        attribute = self.cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        gpu.check(self.cuda.cuFuncSetAttribute(function, attribute, SHARED_BYTES), "asking for shared memory")
        words = addresses if active is None else np.where(active, addresses, addresses | _OFF)
        given = np.ascontiguousarray(words.astype(np.uint32))
        found = np.zeros(len(given), np.uint32)
        pointers = [gpu.allocate(given.nbytes, "addresses"), gpu.allocate(found.nbytes, "cycles")]
        gpu.copy_to_device(pointers[0], given.ctypes.data, given.nbytes)
        values = [*(ctypes.c_uint64(pointer) for pointer in pointers), ctypes.c_uint32(0)]
        array = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        least = np.full(len(given), np.inf)
        for _ in range(_REPEATS):
            launched = self.cuda.cuLaunchKernel(
                function, len(given), 1, 1, THREADS, 1, 1, SHARED_BYTES, 0, ctypes.addressof(array), 0
            )
            gpu.check(launched, f"launching {name}")
            gpu.check(self.cuda.cuCtxSynchronize(), f"running {name}")
            gpu.copy_from_device(found.ctypes.data, pointers[1], found.nbytes)
            least = np.minimum(least, found / (WARPS * UNROLLED * LAPS))
        for pointer in pointers:
            gpu.free(pointer)
        return least


def _kinds(timer: Timer, count: int, seed: int) -> tuple[list[dict[str, object]], dict[str, NDArray[np.generic]]]:
    summaries: list[dict[str, object]] = []
    arrays: dict[str, NDArray[np.generic]] = {}
    for number, (name, (kind, masked)) in enumerate(kernel_names().items()):
        generator = np.random.default_rng([seed, number])
        addresses, families = fresh_rows(access_kind(kind).lane_bytes, count, generator)
        active = _active(count, generator) if masked else None
        predicted = wavefronts(kind, addresses, "sm_90a", active)
        measured = timer.cycles(name, addresses, active)
        away = np.abs(measured - predicted)
        wrong = np.flatnonzero(away > np.maximum(_SHARE * predicted, _CYCLES))
        shown = wrong[np.argsort(-away[wrong])][:3].tolist()
        examples: list[dict[str, object]] = [
            {"family": families[each], "predicted": int(predicted[each]), "cycles": round(float(measured[each]), 2),
             "addresses": addresses[each].tolist(), "active": None if active is None else active[each].tolist()}
            for each in shown
        ]  # fmt: skip
        ratio = measured / np.maximum(predicted, 1)
        print(
            f"{name:20} {count:6} rows {len(wrong):5} wrong  cycles / wavefronts {ratio.min():.3f} to {ratio.max():.3f}"
        )
        for example in examples:
            print(f"    {example['family']}: {example['predicted']} predicted, {example['cycles']} cycles")
        summaries.append({"kernel": name, "rows": count, "wrong": len(wrong), "examples": examples})
        marked = addresses if active is None else np.where(active, addresses, addresses | _OFF)
        arrays[f"{name}.addresses"] = marked.astype(np.uint32)
        arrays[f"{name}.cycles"] = measured.astype(np.float32)
        arrays[f"{name}.wavefronts"] = predicted.astype(np.int16)
        arrays[f"{name}.families"] = np.array(families)
    return summaries, arrays


def _active(count: int, generator: np.random.Generator) -> NDArray[np.bool_]:
    """Lanes that take part: some at random, the first ones, or whole groups; never none."""
    found = generator.random((count, 32)) < generator.choice([0.2, 0.5, 0.9], (count, 1))
    first = np.arange(32)[None, :] < generator.integers(1, 33, (count, 1))
    groups = np.repeat(generator.random((count, 4)) < 0.5, 8, axis=1)
    choice = generator.integers(0, 3, (count, 1))
    found = np.where(choice == 0, found, np.where(choice == 1, first, groups))
    found[~found.any(axis=1), 0] = True
    return found


def _tiles(timer: Timer, count: int) -> list[dict[str, object]]:
    summaries: list[dict[str, object]] = []
    for problem, choice in worst(count):
        row: dict[str, object] = {"tile": problem.name, "placement": choice.best.placement.name}
        for when, judged in (("before", choice.plain), ("after", choice.best)):
            cycles = sum(_tile(timer, problem.buffer, access, judged.placement) for access in problem.buffer.accesses)
            row[f"{when}_cycles"], row[f"{when}_wavefronts"] = round(cycles, 1), judged.wavefronts
        print(
            f"{problem.name:52} {row['before_cycles']:>9} cycles ({row['before_wavefronts']} wavefronts) to "
            f"{row['after_cycles']:>8} ({row['after_wavefronts']})  {row['placement']}"
        )
        summaries.append(row)
    return summaries


def _tile(timer: Timer, buffer: Buffer, access: BufferAccess, placement: Placement) -> float:
    """Cycles of all iterations of one access, weighted; each is timed as a row of its own."""
    kind = access_kind(access.kind)
    places = positions((*access.lanes, *access.loops))
    lanes = len(positions(access.lanes)[0])
    addresses = np.zeros((access.iterations, 32), np.int64)
    addresses[:, :lanes] = placement.addresses(*places, buffer).reshape(-1, lanes)
    names = {kind_name: name for name, (kind_name, masked) in kernel_names().items() if not masked}
    known = access.kind if access.kind in names else f"{access.kind[:2]}.shared.b{8 * kind.lane_bytes}"
    return access.weight * float(timer.cycles(names[known], addresses).sum())


if __name__ == "__main__":
    sys.exit(main())
