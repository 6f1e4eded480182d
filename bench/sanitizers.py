"""How long do others take over the same kernels? `check` beside compute-sanitizer, and beside Triton's ConSan.

For every `.ptx` of a folder with a `.launch.json`: the wall time of `tilewright check --launch` as a process, of the
kernel run alone, and of the same run under compute-sanitizer's racecheck and synccheck, with how many hazards they
name. Then ConSan, on a matrix product written in Triton: the time to compile and run it the first time, with and
without TRITON_INSTRUMENTATION_MODE=consan. Everything in one run on one machine; every figure is one process's wall
time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

_CONSAN = """
import sys, time
import torch, triton, triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

@triton.jit
def product(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK, num_stages=STAGES):
        total = tl.dot(a.load([m, k]), b.load([k, n]), total)
    c.store([m, n], total.to(c.dtype))

triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device="cuda", dtype=torch.int8))
x = torch.randn(256, 512, device="cuda", dtype=torch.float16)
y = torch.randn(512, 256, device="cuda", dtype=torch.float16)
z = torch.empty(256, 256, device="cuda", dtype=torch.float16)
torch.cuda.synchronize()
begin = time.perf_counter()
product[(2, 2)](
    TensorDescriptor.from_tensor(x, [128, 64]), TensorDescriptor.from_tensor(y, [64, 128]),
    TensorDescriptor.from_tensor(z, [128, 128]), 512, 128, 128, 64, 3,
)
torch.cuda.synchronize()
print(triton.__version__, time.perf_counter() - begin, float((z - x @ y).abs().max()))
"""


@dataclass(frozen=True, slots=True)
class Timed:
    """One kernel, seconds of each process; said: the tools' last lines."""

    kernel: str
    check_seconds: float
    run_seconds: float
    racecheck_seconds: float
    synccheck_seconds: float
    said: tuple[str, ...]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, nargs="?", help="folder of .ptx files with .launch.json beside them")
    parser.add_argument("--kinds", action="store_true", help="every kind of this compiler's kernels, and no folder")
    parser.add_argument("--kernels", type=Path, default=Path("out/kernels"), help="folder of compiled kernels")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    parser.add_argument("--results", type=Path, default=None, help="folder for sanitizers.json")


def run(arguments: argparse.Namespace) -> int:
    if arguments.kinds:
        return run_kinds(arguments)
    if arguments.folder is None:
        raise SystemExit("give a folder, or --kinds")
    rows: list[Timed] = []
    with tempfile.TemporaryDirectory() as scratch:
        for path in sorted(arguments.folder.rglob("*.ptx")):
            launch = path.with_name(path.stem + ".launch.json")
            if not launch.exists():
                continue
            out = str(Path(scratch) / "out.npz")
            check = _timed(
                [sys.executable, "-m", "tilewright", "check", str(path), "--launch", str(launch), "--no-repair"]
            )
            worker = [sys.executable, "-m", "bench", "hardware", "--worker", str(path), str(launch), out]
            alone = _timed(worker)
            race = _timed(["compute-sanitizer", "--tool", "racecheck", *worker])
            synchronization = _timed(["compute-sanitizer", "--tool", "synccheck", *worker])
            said = (check[1], race[1], synchronization[1])
            rows.append(Timed(path.stem, check[0], alone[0], race[0], synchronization[0], said))
            print(
                f"{path.stem:32} check {check[0]:5.1f} s  run {alone[0]:5.1f} s  racecheck {race[0]:6.1f} s  "
                f"synccheck {synchronization[0]:6.1f} s  {race[1]}", flush=True,
            )  # fmt: skip
        consan = _consan(Path(scratch))
    for line in consan:
        print(line)
    if arguments.results is not None:
        arguments.results.mkdir(parents=True, exist_ok=True)
        value = {"kernels": [asdict(row) for row in rows], "consan": consan}
        (arguments.results / "sanitizers.json").write_text(json.dumps(value, indent=1) + "\n")
    return 0


TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")


def run_kinds(arguments: argparse.Namespace) -> int:
    """Every kind under every tool. Returns 1 where a tool complained of one."""
    from bench.fold_kinds import FOLD_KINDS
    from bench.kernel_kinds import KINDS
    from bench.prepared import Refused, bundle_path, load_prepared, prepare

    kinds = (*KINDS, *FOLD_KINDS)
    prepare(kinds, arguments.kernels, arguments.jobs)
    work: list[tuple[str, str, Path]] = []
    rows: list[dict[str, object]] = []
    for kind in kinds:
        found = load_prepared(kind, arguments.kernels)
        if isinstance(found, Refused):
            print(f"{kind.name}: refused: {found.message}")
            rows.append({"case": repr(kind), "refused": found.message})
            continue
        work += [(kind.name, tool, bundle_path(arguments.kernels, kind)) for tool in TOOLS]
    with ThreadPoolExecutor(max(1, arguments.jobs * 3 // 4)) as pool:
        results = list(pool.map(_sanitized, work))
    for (name, tool, _), (code, seconds, said) in zip(work, results, strict=True):
        rows.append({"case": name, "tool": tool, "exit": code, "seconds": seconds, "said": said})
        if code:
            print(f"{name}: {tool}: exit {code}: {said}", flush=True)
    bad = sum(code != 0 for code, _, _ in results)
    print(f"{len(work)} runs under {', '.join(TOOLS)}: {bad} with complaints")
    if arguments.results is not None:
        from bench.record import write

        print(f"written to {write('sanitized_kinds', rows, arguments.results)}")
    return 1 if bad else 0


def _sanitized(work: tuple[str, str, Path]) -> tuple[int, float, str]:
    """(exit code, seconds, last words) of one kernel under one tool."""
    _, tool, bundle = work
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", sys.executable, "-m"]
    if tool == "memcheck":
        # The runtime asks for a function's parameters until the driver says that there are no more.
        command[1:1] = ["--report-api-errors", "no"]
    begin = time.perf_counter()
    try:
        done = subprocess.run(
            [*command, "tilewright.driver.views.profile_runner", str(bundle), "1"],
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, time.perf_counter() - begin, type(error).__name__
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    told = [line for line in lines if "=========" in line and "COMPUTE-SANITIZER" not in line]
    words = " / ".join([*told[:2], *lines[-1:]]) if done.returncode else (lines or [""])[-1]
    return done.returncode, time.perf_counter() - begin, words[:300]


def _timed(command: list[str], environment: dict[str, str] | None = None) -> tuple[float, str]:
    """Wall seconds of a process, and the last line that it printed."""
    begin = time.perf_counter()
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=300, env={**os.environ, **(environment or {})}
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return time.perf_counter() - begin, f"{type(error).__name__}"
    lines = (done.stdout + "\n" + done.stderr).strip().splitlines()
    return time.perf_counter() - begin, lines[-1][:160] if lines else ""


def _consan(scratch: Path) -> list[str]:
    script = scratch / "product.py"
    script.write_text(_CONSAN)
    found: list[str] = []
    for name, mode in (("plain", {}), ("consan", {"TRITON_INSTRUMENTATION_MODE": "consan"})):
        cache = {"TRITON_CACHE_DIR": str(scratch / f"cache-{name}"), **mode}
        seconds, said = _timed([sys.executable, str(script)], cache)
        found.append(f"triton {name}: process {seconds:.1f} s; version, first launch in seconds, error: {said}")
    return found
