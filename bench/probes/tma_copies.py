"""Does the model of the copy engine leave the bytes that a GPU's leaves? Random tensor copies of many kinds, compared.

`python -m bench.probes.tma_copies --rows 1000 --out FOLDER --seed 1`, on a machine with a GPU of compute capability
9.0, cuda-bindings and NumPy. For each class of `tma_cases` it prints how many copies ran, how many maps the driver
refused, how many left other bytes than `tilewright.machine` says, how many counted other transaction bytes, and which
raised an error. FOLDER gets `loads.npz`, `stores.npz`, `columns.npz` and `others.npz` with, for each class,
CLASS.cases (JSON: the map as in a launch plan, coordinates, offsets, place in the window, what it expected, what its
barrier counted, whether the model agreed) and CLASS.data: of each copy the `bytes` from
`begin` on that it changed in its window or arena. Copies that agree are kept up to a small budget, others to a large
one.

Each class runs in a process of its own. One whose copies raise an illegal instruction is halved until those are alone;
copies that are expected to are alone from the start.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.probes.tma_cases import ALONE, CLASSES, RISKY, Case, cases
from bench.probes.tma_contents import arena_before, special_words
from bench.probes.tma_device import Observation, Prober
from bench.probes.tma_kernels import POISON
from bench.probes.tma_model import Judge
from tilewright.base.error import TilewrightError
from tilewright.base.plan_json import tensor_map_to_json
from tilewright.machine.copy.copy_engine import transaction_bytes
from tilewright.targets import target

HOPPER = target("sm_90a")

_KEPT_BYTES, _KEPT_WRONG_BYTES = 500_000, 1_200_000
_RUNS, _SECONDS, _TOGETHER = 40, 60.0, 3
_FAULTED = 3
_ARCHIVES = {"load": "loads", "store": "stores", "reduce": "stores", "im2col": "columns"}
Bytes = NDArray[np.uint8]


def main() -> int:
    parser = argparse.ArgumentParser(description="Tensor copies of a GPU against the model.")
    parser.add_argument("--rows", type=int, default=1000, help="copies of each class")
    parser.add_argument("--out", type=Path, required=True, help="folder for the archives and tma_copies.json")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--classes", nargs="*", default=list(CLASSES), help="which classes, all if missing")
    parser.add_argument("--jobs", type=int, default=10, help="processes at a time")
    parser.add_argument("--worker", nargs=2, type=int, default=None, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.worker is not None:
        return _work(arguments.classes[0], arguments.rows, arguments.seed, arguments.out, *arguments.worker)
    began = time.monotonic()
    with ThreadPoolExecutor(arguments.jobs) as pool:
        # Those that may have to be halved take longest, so they begin.
        names = sorted(arguments.classes, key=lambda name: name not in RISKY)
        jobs = [pool.submit(_class, name, arguments.rows, arguments.seed, arguments.out) for name in names]
        summaries = [job.result() for job in jobs]
    _join(arguments.out)
    print(f"{'class':20} {'ran':>5} {'refused':>7} {'bytes':>5} {'count':>5} {'no model':>8} {'raised':>6}")
    for summary in summaries:
        notes = "; ".join(summary.notes)[:300]
        print(
            f"{summary.name:20} {summary.ran:5} {summary.refused:7} {summary.bytes_differ:5} "
            f"{summary.counts_differ:5} {summary.unmodelled:8} {len(summary.raised):6}  {notes}"
        )
    print(f"{time.monotonic() - began:.0f} s")
    document = [{field: getattr(summary, field) for field in Summary.__slots__} for summary in summaries]
    (arguments.out / "tma_copies.json").write_text(json.dumps(document, indent=1) + "\n")
    return 0


@dataclass(slots=True)
class Summary:
    """What came of one class. raised: indices of copies that raised an error of the driver."""

    name: str
    ran: int
    refused: int
    bytes_differ: int
    counts_differ: int
    unmodelled: int
    raised: list[int]
    notes: list[str]


def _class(name: str, rows: int, seed: int, out: Path) -> Summary:
    """Runs a class in processes, halves what faults, and joins the pieces."""
    total = Summary(name, 0, 0, 0, 0, 0, [], [])
    count, began = min(rows, RISKY.get(name, rows)), time.monotonic()
    pending = [(at, at + 1) for at in range(count)] if name in ALONE else [(0, count)]
    tried = 0
    with ThreadPoolExecutor(_TOGETHER) as pool:
        while pending and tried < _RUNS and time.monotonic() - began < _SECONDS:
            parts, pending = pending[:_TOGETHER], pending[_TOGETHER:]
            tried += len(parts)
            jobs = [pool.submit(_process, name, rows, seed, out, begin, end) for begin, end in parts]
            for (begin, end), job in zip(parts, jobs, strict=True):
                done = job.result()
                middle = (begin + end) // 2
                if done is None:
                    total.notes.append(f"{begin}..{end}: no answer")
                elif done.returncode == _FAULTED and end - begin > 1:
                    pending = [(begin, middle), (middle, end), *pending]
                elif done.returncode == _FAULTED:
                    total.raised.append(begin)
                    total.notes.append(done.stdout.strip()[-120:])
                elif done.returncode:
                    total.notes.append(done.stderr.strip()[-400:])
                else:
                    piece = json.loads(done.stdout)
                    for field in ("ran", "refused", "bytes_differ", "counts_differ", "unmodelled"):
                        setattr(total, field, getattr(total, field) + piece[field])
                    total.notes += piece["notes"]
    if pending:
        total.notes.append(f"{len(pending)} parts not tried")
    total.notes = [f"{text} x{times}" for text, times in Counter(total.notes).most_common()]
    return total


def _process(
    name: str, rows: int, seed: int, out: Path, begin: int, end: int
) -> subprocess.CompletedProcess[str] | None:
    command = [sys.executable, "-m", "bench.probes.tma_copies", "--rows", str(rows), "--seed", str(seed)]
    command += ["--out", str(out), "--classes", name, "--worker", str(begin), str(end)]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=80)
    except subprocess.TimeoutExpired:
        return None


def _piece(out: Path, name: str, begin: int, end: int) -> Path:
    return out / f"{name}.{begin}.{end}.piece.npz"


def _join(out: Path) -> None:
    """One archive for each kind of class, of the pieces that the workers left."""
    archives: dict[str, dict[str, tuple[list[object], list[Bytes]]]] = {}
    for piece in sorted(out.glob("*.piece.npz")):
        name = piece.name.split(".")[0]
        kind = "others" if name in RISKY else _ARCHIVES[name.split("_")[0]]
        found, data = archives.setdefault(kind, {}).setdefault(name, ([], []))
        with np.load(piece) as archive:
            found += json.loads(str(archive["cases"]))
            data.append(archive["data"])
        piece.unlink()
    for kind, classes in archives.items():
        arrays: dict[str, NDArray[np.generic]] = {"special": special_words()}
        for name, (found, data) in classes.items():
            arrays[f"{name}.cases"] = np.array(json.dumps(found))
            arrays[f"{name}.data"] = np.concatenate(data)
        with (out / f"{kind}.npz").open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)


def _work(name: str, rows: int, seed: int, out: Path, begin: int, end: int) -> int:
    """Runs and compares copies begin to end of a class; prints a summary as JSON."""
    chosen = list(enumerate(cases(name, rows, seed)))[begin:end]
    special = special_words()
    try:
        observations, refused = Prober(special).run(chosen)
    except TilewrightError as error:
        print(error.message)
        return _FAULTED
    judge = Judge(special)
    kept: list[dict[str, object]] = []
    data: list[Bytes] = []
    room = {True: _KEPT_BYTES, False: _KEPT_WRONG_BYTES}
    summary = Summary(name, len(observations), len(refused), 0, 0, 0, [], [text[-300:] for _, text in refused[:2]])
    for each in observations:
        model, problem = judge.afterwards(each.case)
        same = model is not None and np.array_equal(model, each.image)
        counted = _counted(each)
        right_count = not each.case.kernel.startswith("load") or (problem == "" and counted == _said(each.case))
        summary.bytes_differ += not same
        summary.counts_differ += not right_count
        summary.unmodelled += model is None
        if problem:
            summary.notes.append(problem)
        first, left = _left(each, special)
        if room[same and right_count] >= left.size:
            room[same and right_count] -= left.size
            kept.append({**_described(each, counted, same, right_count), "begin": first, "bytes": left.size})
            data.append(left)
    whole = np.concatenate(data) if data else np.zeros(0, np.uint8)
    np.savez_compressed(_piece(out, name, begin, end), cases=json.dumps(kept), data=whole)
    print(json.dumps({field: getattr(summary, field) for field in Summary.__slots__}))
    return 0


def _left(each: Observation, special: Bytes) -> tuple[int, Bytes]:
    """What a copy changed: from where on, and the bytes."""
    before = POISON if each.case.kernel.startswith("load") else arena_before(each.case, special)
    changed = np.flatnonzero(each.image != before)
    if changed.size == 0:
        return 0, each.image[:0]
    return int(changed[0]), each.image[int(changed[0]) : int(changed[-1]) + 1]


def _described(each: Observation, counted: int, same: bool, right_count: bool) -> dict[str, object]:
    case = each.case
    return {
        "kernel": case.kernel,
        "map": tensor_map_to_json(case.map),
        "coordinates": case.coordinates,
        "offsets": case.offsets,
        "place": case.place,
        "source": case.source,
        "expected_bytes": each.expected_bytes,
        "counted_bytes": counted,
        "exact": bool(each.words[0]),
        "same": same,
        "right_count": right_count,
    }


def _said(case: Case) -> int:
    return transaction_bytes(case.map, HOPPER)


def _counted(each: Observation) -> int:
    """How many bytes a load told its barrier of; -1 where that could not be found. See `tma_kernels`."""
    exact, more, found = each.words
    if not exact and not found:
        return -1
    return each.expected_bytes + more - (more >> 63 << 64)


if __name__ == "__main__":
    sys.exit(main())
