"""How many wavefronts does the GPU's profiler count for single accesses of shared memory?

`counted` starts `ncu` on this very module, which launches each row once, as a kernel of one CTA that makes the access
from all its warps a few times and nothing else in shared memory; the counters over that number are those of one access.
Counters that this version of the profiler does not list are left out. Where the profiler is missing, is refused the
counters (ERR_NVGPUCTRPERM) or takes too long, the answer says so and is no count.
"""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.probes.bank_kernels import UNROLLED, WARPS
from bench.probes.bank_timer import Timer

_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared"
_WISHED = (
    _WAVEFRONTS,
    f"{_WAVEFRONTS}_op_ld",
    f"{_WAVEFRONTS}_op_st",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared",
    "l1tex__lsu_writeback_active",
)
_SECONDS = 40
_LISTING_SECONDS = 15


@dataclass(frozen=True, slots=True)
class Counted:
    """Counters of one access of each row; counters: by name, each of shape (rows,)."""

    counters: dict[str, NDArray[np.float64]]

    @property
    def wavefronts(self) -> NDArray[np.float64]:
        """Of loads and of stores, whose counters count the accesses alone. The counter of all operations has more for
        every load that returns to registers, of whatever memory."""
        return self.counters[f"{_WAVEFRONTS}_op_ld"] + self.counters[f"{_WAVEFRONTS}_op_st"]

    def row(self, number: int) -> dict[str, float]:
        """All counters of one row."""
        return {name: round(float(values[number]), 4) for name, values in self.counters.items()}


def counted(names: list[str], words: NDArray[np.uint32], folder: Path) -> Counted | str:
    """Counters of one access of each row, or why there are none. names: the kernel of each row; words: (rows, 32)."""
    profiler = shutil.which("ncu") or shutil.which("ncu", path="/usr/local/cuda/bin")
    if profiler is None:
        return "no ncu here; cycles alone"
    metrics = _metrics(profiler)
    given, log = folder / "profiled.npz", folder / "profiler.csv"
    log.unlink(missing_ok=True)
    with given.open("wb") as file:
        np.savez(file, allow_pickle=False, names=np.array(names), words=words)
    command = [
        profiler, "--csv", "--page", "raw", "--print-units", "base", "--cache-control", "none", "--clock-control",
        "none", "--log-file", str(log), "--metrics", ",".join(f"{name}.sum" for name in metrics),
        sys.executable, "-m", "bench.probes.bank_profile", str(given),
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"ncu did not finish {len(names)} rows in {_SECONDS} s"
    lines = log.read_text().splitlines() if log.exists() else []
    counters = _parsed(lines, metrics)
    if counters is not None and all(len(values) == len(names) for values in counters.values()):
        return Counted(counters)
    said = [line for line in (*lines, *done.stdout.splitlines(), *done.stderr.splitlines()) if "ERR" in line.upper()]
    return f"ncu gave no counters (exit {done.returncode}): {' | '.join(said[:3]) or 'it does not say why'}"


def _metrics(profiler: str) -> tuple[str, ...]:
    """The wished counters that the profiler lists for this GPU, and those of wavefronts where it lists none."""
    try:
        listed = subprocess.run(
            [profiler, "--query-metrics"], capture_output=True, text=True, timeout=_LISTING_SECONDS, check=False
        ).stdout
    except subprocess.TimeoutExpired:
        listed = ""
    known = {line.split()[0] for line in listed.splitlines() if line.strip()}
    found = tuple(name for name in _WISHED if name in known)
    return found if set(_WISHED[1:3]) <= set(found) else _WISHED[1:3]


def _parsed(lines: list[str], metrics: tuple[str, ...]) -> dict[str, NDArray[np.float64]] | None:
    """Counters of one access from the profiler's table: a header, a line of units, and a line for each launch."""
    begin = next((number for number, line in enumerate(lines) if line.startswith('"ID"')), None)
    if begin is None:
        return None
    table = list(csv.DictReader(line for line in lines[begin:] if line.startswith('"')))
    launches = [row for row in table if row["ID"].strip().isdigit()]
    found: dict[str, NDArray[np.float64]] = {}
    for name in metrics:
        texts = [(row.get(f"{name}.sum") or "").replace(",", "") for row in launches]
        if all(_is_number(text) for text in texts):
            found[name] = np.array([float(text) for text in texts]) / (WARPS * UNROLLED)
    return found if set(_WISHED[1:3]) <= found.keys() else None


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


def main() -> int:
    timer = Timer()
    with np.load(sys.argv[1]) as archive:
        names, words = archive["names"].tolist(), np.ascontiguousarray(archive["words"])
    for name, row in zip(names, words, strict=True):
        timer.launch(name, row[None, :], 1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
