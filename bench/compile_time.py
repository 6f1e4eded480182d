"""From description to proven PTX without ptxas, with it, and to the optimum; beside what others take.

    python -m bench compile [--optimum] [--cutlass INCLUDE] [--jobs N]

Ours: every kernel of a list, warm, in a process of its own: each step's median, the sum of all steps without ptxas,
ptxas alone, and the wall time of a compilation in which ptxas runs beside the proofs. With `--optimum` ours alone, into
a result file of its own, and beside it the sum where the loop's schedule is solved to its optimum: that takes ortools
and no GPU.
Others, each cold in its cache: Triton's kernels of like shapes, from source to PTX and ptxas apart, as its own stages
report them; torch.compile's search (`max-autotune`), whose first call compiles and times its candidates; CUTLASS's
kernel (`peer_product.cu`) by nvcc to PTX, and that by ptxas, where its headers are named.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.cliffs import TRANSPOSED, Case
from bench.gemm_suites import Product
from bench.moe_shapes import CASES as LAYERS
from bench.moe_shapes import Grouped
from bench.record import write
from bench.tile_names import by_tile_names

GOAL_SECONDS = 1.0
"""For all but ptxas."""
KERNELS: tuple[tuple[str, Product | Case | Grouped], ...] = (
    ("bf16", Product("large", 4096, 4096, 4096)),
    ("bf16", Product("small", 1024, 1024, 1024)),
    ("bf16, few rows", Product("few rows", 16, 4096, 4096)),
    ("bf16, leftover tiles streamed", Product("streamed", 6144, 6144, 6144, wishes=(("stream_k", True),))),
    ("bf16, 8192 cubed", Product("8192", 8192, 8192, 8192)),
    ("bf16, 16384 cubed", Product("16384", 16384, 16384, 16384)),
    ("bf16, streamed, rows of 8194 bytes", Product("plain stores", 4096, 4097, 4096)),
    ("bf16, long sum of few tiles", Product("long sum", 256, 256, 16384)),
    ("bf16, tiles of 64x64 that teams share", Product("teams", 64, 64, 32768)),
    ("bf16, odd K, copied first", Case("odd K", 4096, 4096, 4095)),
    ("bf16, rows of 8196 bytes, copied by threads", Case("threads", 4096, 4096, 4098)),
    ("bf16, all odd, copied first and streamed", Case("large, all odd", 8191, 8193, 8191, b=TRANSPOSED)),
    ("fp8, factors of rows, precise", Product("precise", 4096, 4096, 4096, "e4m3", True, "row")),
    ("fp8, factors of rows, fast", Product("fast", 4096, 4096, 4096, "e4m3", True, "row", "fast")),
    ("fp8, blocks of 128", Product("blocks", 4096, 4096, 4096, "e4m3", True, "block")),
    ("fp8, B turned first", Product("turned", 4096, 4096, 4096, "e4m3", False, "tensor")),
    ("bf16, groups", LAYERS[0]),
)
"""What is compiled: what the kernel is, and the case."""
FEW_SLOTS: tuple[tuple[str, Product], ...] = tuple(
    (
        f"bf16, tiles of {rows}x{columns} in {slots} slots",
        Product("few slots", 4096, 4096, 4096, wishes=(("tile", (rows, columns)), ("stages", slots))),
    )
    for rows, columns, slots in ((128, 256, 3), (128, 128, 3), (128, 128, 2))
)
"""Of these no lower bound is met, so that the optimum takes a search."""
STEPS = ("decide", "lower", "prove", "emit", "prove addresses", "prove text")
"""What a table tells of ours; the sum has all of them."""
_TRITON = """
import json, time
import torch
from bench import triton_products
from bench.triton_tuning import Configuration, launcher
import triton
programs = []
configurations = [Configuration("descriptors", 128, 256, 64, 3, 8, halves=True),
                  Configuration("descriptors", 128, 128, 64, 4, 8), Configuration("pointers", 128, 128, 64, 4, 4),
                  Configuration("pointers", 16, 64, 128, 5, 4)]
a = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16)
b = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16).t()
c = torch.empty(1024, 1024, device="cuda", dtype=torch.bfloat16)
def listen(*, src, metadata, metadata_group, times, cache_hit):
    programs.append({name: micro / 1e6 for name, micro in times.lowering_stages})
triton.knobs.compilation.listener = listen
for each in [configurations[0], *configurations]:
    begin = time.perf_counter()
    launcher(torch, each, [(a, b)], c)(0)
    torch.cuda.synchronize()
    wall = time.perf_counter() - begin
    if programs:
        print("RESULT", json.dumps({"kernel": str(each), "wall": wall, "stages": programs[-1]}))
        programs.clear()
"""
_SEARCH = """
import json, time
import torch
for m, n, k in ((4096, 4096, 4096), (16, 4096, 4096)):
    a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(n, k, device="cuda", dtype=torch.bfloat16).t()
    torch.mm(a, b)
    torch._dynamo.reset()
    call = torch.compile(torch.mm, mode="max-autotune-no-cudagraphs", dynamic=False)
    begin = time.perf_counter()
    call(a, b)
    torch.cuda.synchronize()
    print("RESULT", json.dumps({"kernel": f"bf16 {m}, {n}, {k}", "wall": time.perf_counter() - begin}))
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--turns", type=int, default=5, help="timed turns of ours (default 5)")
    parser.add_argument("--optimum", action="store_true", help="ours alone, with schedules that are optimal, too")
    parser.add_argument("--only", action="append", metavar="WORDS", help="kernels whose name contains these words")
    parser.add_argument("--jobs", type=int, default=1, help="of our kernels, so many at a time (default 1)")
    parser.add_argument("--cutlass", type=Path, metavar="INCLUDE", help="folder of CUTLASS's headers")
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="folder of the result file")


@dataclass(frozen=True, slots=True)
class _Work:
    words: str
    case: Product | Case | Grouped
    turns: int
    optimum: bool


def run(arguments: argparse.Namespace) -> int:
    if arguments.optimum and find_spec("ortools") is None:
        raise SystemExit("--optimum takes a solver: install ortools, or leave it out")
    kernels = (*KERNELS, *FEW_SLOTS) if arguments.optimum else KERNELS
    chosen = [each for each in kernels if not arguments.only or any(words in each[0] for words in arguments.only)]
    work = [_Work(words, case, arguments.turns, arguments.optimum) for words, case in chosen]
    context = multiprocessing.get_context("spawn")
    print(heading(), flush=True)
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(arguments.jobs, mp_context=context, max_tasks_per_child=1) as pool:
        for row in pool.map(ours, work):
            rows.append(row)
            print(line(row), flush=True)
    for row in () if arguments.optimum else (*searches(), *triton_rows(), *cutlass_rows(arguments.cutlass)):
        rows.append(row)
        print(line(row), flush=True)
    code = "import time; t = time.perf_counter(); import tilewright; print(time.perf_counter() - t)"
    seconds = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(arguments.turns)
    ]
    rows.append({"who": "ours", "kernel": "import tilewright", "wall": statistics.median(seconds)})
    print(line(rows[-1]))
    print(f"written to {write('compile_optimum' if arguments.optimum else 'compile', rows, arguments.results)}")
    return 0


def heading() -> str:
    steps = "  ".join(f"{step:>9}" for step in STEPS)
    return f"{'who':>14}  {'kernel':>44}  {steps}  all but ptxas  ptxas  wall  with the optimum (s)"


def line(row: dict[str, Any]) -> str:
    """A row in one line."""
    if "refused" in row:
        return f"{row['who']:>14}  {row['kernel']:>44}  refused: {row['refused'][:150]}"
    steps = "  ".join(f"{row.get('steps', {}).get(step, 0):9.3f}" for step in STEPS)
    rest = "  ".join(f"{row[name]:.3f}" if name in row else "-" for name in ("apart", "ptxas", "wall", "optimum"))
    return f"{row['who']:>14}  {row['kernel']:>44}  {steps}  {rest}"


def ours(work: _Work) -> dict[str, Any]:
    """One kernel's row: the first, cold turn is not counted."""
    from bench.our_products import arguments_of
    from tilewright.base.error import TilewrightError
    from tilewright.driver.compile.compile import compile_kernel
    from tilewright.runtime.assemble import assemble

    case = work.case
    shape = (case.rows, case.n, case.k) if isinstance(case, Grouped) else (case.m, case.n, case.k)
    row: dict[str, Any] = {"who": "ours", "kernel": work.words, "shape": list(shape)}
    kernel, options = arguments_of(case)
    try:
        compiled = compile_kernel(kernel, **options, assembled=False)
        turns = [compile_kernel(kernel, **options, assembled=False).seconds for _ in range(work.turns)]
    except TilewrightError as error:
        return row | {"refused": str(error)}
    row["steps"] = {step: statistics.median(turn[step] for turn in turns) for step in turns[0]}
    row["apart"] = statistics.median(sum(turn.values()) for turn in turns)
    assembling = [_seconds(lambda: assemble(compiled.ptx, "sm_90a")) for _ in range(3)]
    row["ptxas"] = statistics.median(assembling)
    row["wall"] = statistics.median(_seconds(lambda: compile_kernel(kernel, **options)) for _ in range(3))
    decided = by_tile_names(compiled.bundle().decisions)
    if "tile_m" in decided:
        row["tile"] = [decided[name] for name in ("tile_m", "tile_n", "tile_k")]
        row["streamed"] = decided["streamed"]
    if work.optimum:
        options["wanted"] = replace(options["wanted"], schedule="optimal")
        solved = compile_kernel(kernel, **options, assembled=False)
        again = compile_kernel(kernel, **options, assembled=False).seconds
        row["optimum"] = min(sum(seconds.values()) for seconds in (solved.seconds, again))
    return row


def _seconds(call: Any) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _told(code: str, what: str) -> list[dict[str, Any]]:
    """What a program of a peer's printed, run with empty caches."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "TRITON_CACHE_DIR": f"{cache}/triton", "TORCHINDUCTOR_CACHE_DIR": f"{cache}/torch"}
        try:
            done = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300, env=environment
            )
        except (OSError, subprocess.SubprocessError) as error:
            print(f"{what} was not measured: {error}")
            return []
    found = [
        json.loads(text.removeprefix("RESULT ")) for text in done.stdout.splitlines() if text.startswith("RESULT ")
    ]
    if not found:
        print(f"{what} was not measured: {(done.stderr.strip().splitlines() or ['no output'])[-1][:200]}")
    return found


def searches() -> list[dict[str, Any]]:
    """torch.compile's first calls, candidates compiled and timed."""
    return [{"who": "torch.compile", **row} for row in _told(_SEARCH, "torch.compile")]


def triton_rows() -> list[dict[str, Any]]:
    """Triton's stages for its kernels of like shapes. The first kernel of a process is compiled twice, of which the
    second finds it compiled: its first call holds what the process loads."""
    return [
        {
            "who": "triton",
            "kernel": f"{row['kernel']}{' (first of a process)' if place == 0 else ''}",
            "apart": sum(value for step, value in row["stages"].items() if step != "cubin"),
            "ptxas": row["stages"].get("cubin", 0.0),
            "wall": row["wall"],
        }
        for place, row in enumerate(_told(_TRITON, "Triton"))
    ]


def cutlass_rows(include: Path | None) -> list[dict[str, Any]]:
    """nvcc on CUTLASS's kernel to PTX, and ptxas on that."""
    compiler, assembler = shutil.which("nvcc"), shutil.which("ptxas")
    if include is None or compiler is None or assembler is None:
        print("CUTLASS was not measured: it takes nvcc, ptxas and --cutlass INCLUDE")
        return []
    source = Path(__file__).with_name("peer_product.cu")
    with tempfile.TemporaryDirectory() as folder:
        ptx = f"{folder}/product.ptx"
        flags = ["-std=c++17", "-O3", "--expt-relaxed-constexpr", "-arch=sm_90a"]
        front = _process([compiler, *flags, f"-I{include}", "-ptx", str(source), "-o", ptx])
        back = _process([assembler, "-O3", "-arch=sm_90a", ptx, "-o", f"{folder}/product.cubin"])
    if front is None or back is None:
        return []
    kernel = "bf16, 128x256x64, cooperative"
    return [{"who": "CUTLASS, nvcc", "kernel": kernel, "apart": front, "ptxas": back, "wall": front + back}]


def _process(command: Sequence[str]) -> float | None:
    """Seconds of a process, or None, with its words printed, where it fails."""
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"CUTLASS was not measured: {(done.stderr.strip().splitlines() or [''])[0][:200]}")
        return None
    return time.perf_counter() - begin
