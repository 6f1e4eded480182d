"""What does the GPU do with kernels that `check` refutes? Mutants and bug pairs, run under a watchdog, with delays.

For every kernel of a folder (`.ptx` with `.launch.json` beside it) the mutations of `tests/mutants` are applied. Each
mutant is checked, then run on GPU 0 in a process of its own that is killed after `--watchdog` seconds: it hangs,
faults, leaves other bytes than the unmutated kernel (corrupts), or leaves the same. A race need not show: where
nothing did, a delay of some warps is injected at one place after another (before copies, waits, arrivals, barriers,
tensor-core operations near the mutation), and the first that shows is told. The same delays are put into the unmutated
kernel, which must leave the same bytes with each: otherwise the delay proves nothing.

With `--bugs FOLDER`, the pairs of docs/bugs are run instead: which of them hang or fault.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from tests.mutants.mutations import BROKEN, Mutant, mutants

from bench.foreign import inputs_for
from tilewright.base.error import TilewrightError
from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.launch.launch_file import read_launch_file
from tilewright.driver.run.run_ptx import run_on_gpu
from tilewright.frontends.ptx.ast import Instruction
from tilewright.frontends.ptx.reader import read

_DELAY = (
    "\t{{ .reg .pred %pdelay; .reg .b32 %rdelay; mov.u32 %rdelay, %tid.x; shr.u32 %rdelay, %rdelay, 5; "
    "and.b32 %rdelay, %rdelay, 1; setp.eq.u32 %pdelay, %rdelay, {odd}; @%pdelay nanosleep.u32 {nanoseconds}; }}"
)
_DELAYED = (
    "cp.async",
    "mbarrier.arrive",
    "mbarrier.try_wait",
    "bar",
    "wgmma.mma_async",
    "wgmma.wait_group",
    "st.shared",
)


@dataclass(frozen=True, slots=True)
class Seen:
    """One mutant. verdict: of check, with the first code; hardware: `hangs`, `faults`, `corrupts`, `same`, or a word
    with the delay that it took; delay_line: where the delay was put, 0 for none."""

    kernel: str
    mutation: str
    line: int
    verdict: str
    hardware: str
    delay_line: int = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, nargs="?", help="folder of .ptx files with .launch.json beside them")
    parser.add_argument("--bugs", type=Path, default=None, help="folder of bug pairs")
    parser.add_argument("--places", type=int, default=2, help="places of each mutation in each kernel")
    parser.add_argument("--delays", type=int, default=8, help="delays tried for each mutant")
    parser.add_argument("--watchdog", type=float, default=10.0, help="seconds after which a run counts as a hang")
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count(), help="runs at a time")
    parser.add_argument("--results", type=Path, default=None, help="folder for hardware.json")
    parser.add_argument("--worker", nargs=3, default=None, metavar=("PTX", "LAUNCH", "OUT"), help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    if arguments.worker is not None:
        return _worker(*map(Path, arguments.worker))
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as scratch, ProcessPoolExecutor(arguments.jobs, context) as pool:
        runner = _Runner(Path(scratch), arguments.watchdog)
        if arguments.bugs is not None:
            paths = sorted(Path(arguments.bugs).glob("*/*.ptx"))
            rows = list(pool.map(_bug, [runner] * len(paths), paths))
        else:
            rows = [
                row
                for path in sorted(arguments.folder.rglob("*.ptx"))
                for row in _kernel(runner, pool, path, arguments)
            ]
    for row in rows:
        print(
            f"{row.kernel[:38]:38} {row.mutation[:36]:36} {row.line:5} {row.verdict[:16]:16} "
            f"{row.hardware} {row.delay_line or ''}"
        )
    _summary(rows)
    if arguments.results is not None:
        arguments.results.mkdir(parents=True, exist_ok=True)
        (arguments.results / "hardware.json").write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return 0


def _summary(rows: list[Seen]) -> None:
    by_mutation: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        by_mutation[row.mutation][row.hardware.split()[0] if row.verdict.startswith("refuted") else "not refuted"] += 1
    for mutation, counts in sorted(by_mutation.items()):
        print(f"{mutation:40} {dict(counts)}")


def _worker(ptx: Path, launch_path: Path, out: Path) -> int:
    launch = read_launch_file(str(launch_path))
    arrays = inputs_for(launch, launch_path)
    run_on_gpu(ptx.read_text("utf-8"), str(ptx), launch, arrays)
    with out.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    return 0


@dataclass(frozen=True, slots=True)
class _Runner:
    scratch: Path
    watchdog: float

    def outcome(self, text: str, launch: Path, name: str, reference: Path | None) -> str:
        """`hangs`, `faults`, `refused`, `same`, `corrupts`; without a reference, `same` where it ends."""
        ptx, out = self.scratch / f"{name}.ptx", self.scratch / f"{name}.npz"
        ptx.write_text(text, "utf-8")
        command = [sys.executable, "-m", "bench", "hardware", "--worker", str(ptx), str(launch), str(out)]
        try:
            done = subprocess.run(command, timeout=self.watchdog, capture_output=True, text=True, check=False)
        except subprocess.TimeoutExpired:
            return "hangs"
        if done.returncode:
            said = done.stderr.lower()
            return "refused" if "ptxas" in said else "faults"
        if reference is None:
            return "same"
        with np.load(out) as mine, np.load(reference) as theirs:
            equal = all(np.array_equal(mine[key], theirs[key]) for key in theirs.files)
        out.unlink()
        return "same" if equal else "corrupts"


def _bug(runner: _Runner, path: Path) -> Seen:
    launch = path.with_name("launch.json")
    text = path.read_text("utf-8")
    if not launch.exists():
        launch = _made_up_launch(runner.scratch, path, text)
    name = f"{path.parent.name}-{path.stem}"
    return Seen(
        path.parent.name,
        path.stem,
        0,
        "refuted" if path.stem == "broken" else "proven",
        runner.outcome(text, launch, name, None),
    )


def _made_up_launch(scratch: Path, path: Path, text: str) -> Path:
    """A launch of one cluster with a buffer for each pointer."""
    (kernel,) = read(text, str(path), tolerant=True).kernels
    threads = kernel.directives.get("reqntid", (128,))[0]
    cluster = kernel.directives.get("reqnctapercluster", (1,))[0]
    parameters = [{"kind": "ptr", "bytes": 1 << 16, "buffer": each.name} for each in kernel.parameters]
    value = {
        "entry": kernel.name,
        "grid": [cluster, 1, 1],
        "block": [threads, 1, 1],
        "cluster": [cluster, 1, 1],
        "params": parameters,
    }
    out = scratch / f"{path.parent.name}-{path.stem}.launch.json"
    out.write_text(json.dumps(value))
    return out


def _kernel(runner: _Runner, pool: Executor, path: Path, arguments: argparse.Namespace) -> list[Seen]:
    launch = path.with_name(path.stem + ".launch.json")
    if not launch.exists():
        return []
    text = path.read_text("utf-8")
    stem = path.stem
    if runner.outcome(text, launch, f"{stem}-reference", None) != "same":
        return []
    reference = runner.scratch / f"{stem}-reference.npz"
    found = list(mutants(text, str(path), BROKEN, arguments.places))
    jobs = [
        pool.submit(_mutant, runner, path, launch, reference, index, each, arguments.delays)
        for index, each in enumerate(found)
    ]
    return [job.result() for job in jobs]


def _mutant(
    runner: _Runner, path: Path, launch: Path, reference: Path, index: int, mutant: Mutant, delays: int
) -> Seen:
    known = read_launch_file(str(launch))
    report = check_text(mutant.text, str(path), launch=known, options=CheckOptions(budget_seconds=60))
    kernel = report.kernels[0] if report.kernels else None
    code = f" {kernel.errors[0].code}" if kernel is not None and kernel.errors else ""
    verdict = "error" if kernel is None or kernel.defect else kernel.verdict + code
    name = f"{path.stem}-{index}"
    seen = runner.outcome(mutant.text, launch, name, reference)
    if seen != "same" or not verdict.startswith("refuted"):
        return Seen(path.stem, mutant.mutation, mutant.line, verdict, seen)
    for number, (line, delayed) in enumerate(_delayed(mutant.text, str(path), mutant.line, delays)):
        seen = runner.outcome(delayed, launch, f"{name}-{number}", reference)
        if seen in ("hangs", "faults", "corrupts"):
            return Seen(path.stem, mutant.mutation, mutant.line, verdict, f"{seen} with a delay", line)
    return Seen(path.stem, mutant.mutation, mutant.line, verdict, "same")


def _delayed(text: str, file: str, line: int, count: int) -> list[tuple[int, str]]:
    """The text with a delay of some warps before one instruction, nearest to `line` first."""
    try:
        module = read(text, file, tolerant=True)
    except TilewrightError:
        return []
    places = sorted(
        {
            item.span.line
            for kernel in module.kernels
            for item in kernel.body
            if isinstance(item, Instruction) and item.row.startswith(_DELAYED)
        },
        key=lambda place: abs(place - line),
    )
    lines = text.split("\n")
    found: list[tuple[int, str]] = []
    for number, place in enumerate(places[: max(1, count // 2)]):
        for odd in (0, 1):
            delay = _DELAY.format(odd=odd, nanoseconds=60_000 * (1 + number % 2))
            found.append((place, "\n".join([*lines[: place - 1], delay, *lines[place - 1 :]])))
    return found[:count]
