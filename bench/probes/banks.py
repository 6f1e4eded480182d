"""Does the bank model count the wavefronts that a GPU takes? Fresh accesses of every kind, timed and compared.

`python -m bench.probes.banks --rows 1500 --out FOLDER --seed 2 --profiler`, on a machine with a GPU of compute
capability 9.0, cuda-bindings and NumPy. For each kind it prints how many accesses ran and how many take other cycles
than `legal.bank.banks.access_cycles` says (wavefronts, and where lanes are off those of idle groups), with the worst of
them; then the ten tiles of `layout_problems` that placing helps most, in cycles before and after, beside what was
predicted; then, if asked, what the profiler's counters say of some rows of each kind (`bank_profile`). FOLDER gets
`banks.json` with all of it and `banks.npz` with every row: kernel, addresses (the highest bit set where a lane takes no
part), cycles an access, wavefronts, predicted cycles, family.

An access agrees where its cycles are within a tenth of the prediction, or a quarter of a cycle of it: loops and
barriers take a little, and an access of one wavefront may be limited by how often warps issue.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.layouts import worst
from bench.probes.bank_cases import rows as fresh_rows
from bench.probes.bank_kernels import kernel_names
from bench.probes.bank_profile import Counted, counted
from bench.probes.bank_timer import OFF, Timer
from tilewright.legal.bank.access_kind import access_kind
from tilewright.legal.bank.banks import access_cycles, wavefronts
from tilewright.legal.bank.placement import Buffer, BufferAccess, Placement, positions

_SHARE, _CYCLES = 0.1, 0.25
Integers = NDArray[np.int64]


def main() -> int:
    parser = argparse.ArgumentParser(description="Wavefronts of a GPU against the model.")
    parser.add_argument("--rows", type=int, default=1500, help="accesses of each kernel")
    parser.add_argument("--out", type=Path, required=True, help="folder for banks.npz and banks.json")
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--tiles", type=int, default=10, help="tiles timed before and after")
    parser.add_argument(
        "--profiler", type=int, nargs="?", const=12, default=0, metavar="ROWS",
        help="accesses of each kernel that ncu counts too; 12 if no number is given",
    )  # fmt: skip
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    timer = Timer()
    kinds, arrays = _kinds(timer, arguments.rows, arguments.seed)
    tiles = _tiles(timer, arguments.tiles)
    total, wrong = sum(int(str(each["rows"])) for each in kinds), sum(int(str(each["wrong"])) for each in kinds)
    print(f"{total - wrong} of {total} accesses agree: {100 * (total - wrong) / max(1, total):.3f} %")
    document: dict[str, object] = {
        "seed": arguments.seed, "rows": total, "wrong": wrong, "kinds": kinds, "tiles": tiles
    }  # fmt: skip
    with (arguments.out / "banks.npz").open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
    if arguments.profiler:
        document["profiler"] = _profiled(arrays, arguments.profiler, arguments.out)
    (arguments.out / "banks.json").write_text(json.dumps(document, indent=1) + "\n")
    print(f"{time.monotonic() - began:.0f} s")
    return 0


def _kinds(timer: Timer, count: int, seed: int) -> tuple[list[dict[str, object]], dict[str, NDArray[np.generic]]]:
    summaries: list[dict[str, object]] = []
    arrays: dict[str, NDArray[np.generic]] = {}
    for number, (name, (kind, masked)) in enumerate(kernel_names().items()):
        generator = np.random.default_rng([seed, number])
        addresses, families = fresh_rows(access_kind(kind).lane_bytes, count, generator)
        active = _active(count, generator) if masked else None
        predicted = access_cycles(kind, addresses, "sm_90a", active)
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
        spread = f"measured / predicted {ratio.min():.3f} to {ratio.max():.3f}"
        print(f"{name:20} {count:6} rows {len(wrong):5} wrong  {spread}")
        for example in examples:
            print(f"    {example['family']}: {example['predicted']} predicted, {example['cycles']} cycles")
        summaries.append({"kernel": name, "rows": count, "wrong": len(wrong), "examples": examples})
        marked = addresses if active is None else np.where(active, addresses, addresses | OFF)
        arrays[f"{name}.addresses"] = marked.astype(np.uint32)
        arrays[f"{name}.cycles"] = measured.astype(np.float32)
        arrays[f"{name}.wavefronts"] = wavefronts(kind, addresses, "sm_90a", active).astype(np.int16)
        arrays[f"{name}.predicted"] = predicted.astype(np.int16)
        arrays[f"{name}.families"] = np.array(families)
    return summaries, arrays


def _active(count: int, generator: np.random.Generator) -> NDArray[np.bool_]:
    """Lanes that take part: some at random, the first ones, whole groups, or one of every pair; never none."""
    found = generator.random((count, 32)) < generator.choice([0.2, 0.5, 0.9], (count, 1))
    first = np.arange(32)[None, :] < generator.integers(1, 33, (count, 1))
    groups = np.repeat(generator.random((count, 4)) < 0.5, 8, axis=1)
    halves = np.arange(32)[None, :] & generator.choice([1, 2, 4], (count, 1)) == 0
    choice = generator.integers(0, 4, (count, 1))
    found = np.select([choice == 0, choice == 1, choice == 2], [found, first, groups], halves)
    found[~found.any(axis=1), 0] = True
    return found


def _profiled(arrays: dict[str, NDArray[np.generic]], count: int, folder: Path) -> dict[str, object]:
    """The first rows of each kernel under the profiler: which of them it counts as many wavefronts for as the model."""
    names = [name for name in kernel_names() for _ in range(min(count, len(arrays[f"{name}.addresses"])))]
    words = np.concatenate([arrays[f"{name}.addresses"][:count] for name in kernel_names()]).astype(np.uint32)
    found = counted(names, words, folder)
    if not isinstance(found, Counted):
        print(f"profiler: {found}")
        return {"refused": found}
    rows: list[dict[str, object]] = []
    agree = {"wavefronts": 0, "predicted": 0}
    for kernel in kernel_names():
        here = [each for each, name in enumerate(names) if name == kernel]
        profiler = found.wavefronts[here]
        line = f"profiler: {kernel:20} {len(here):4} rows"
        for what in agree:
            modelled = np.asarray(arrays[f"{kernel}.{what}"][: len(here)], np.float64)
            alike = int((np.abs(profiler - modelled) < _CYCLES).sum())
            agree[what] += alike
            line += f", {alike:4} as {'the wavefronts' if what == 'wavefronts' else 'the cycles'} of the model"
        print(line)
        for place, each in enumerate(here):
            rows.append(
                {"kernel": kernel, "addresses": words[each].tolist(), "counters": found.row(each),
                 "wavefronts": int(str(arrays[f"{kernel}.wavefronts"][place])),
                 "predicted": int(str(arrays[f"{kernel}.predicted"][place])),
                 "cycles": round(float(str(arrays[f"{kernel}.cycles"][place])), 3)}
            )  # fmt: skip
    print(f"profiler: of {len(names)} rows {agree['wavefronts']} as the wavefronts, {agree['predicted']} as the cycles")
    return {"agree": agree, "rows": rows}


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
