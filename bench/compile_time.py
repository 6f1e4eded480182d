"""From description to proven PTX, warm, without ptxas, beside what Triton takes for a like kernel on the same machine.

Ours: every kernel of a list in one process, each step's median. Triton's (where it is installed and a GPU is there):
from its source to PTX, cold in its cache and warm in its process, as its own stages report them, ptxas apart. And the
time that `import tilewright` takes.

    python -m bench compile [--optimum]

Loops are scheduled by the heuristic, or each to its optimum as well, for which ortools must be installed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.gemm_suites import Product
from bench.record import write
from tilewright.ir.schedule import METHODS, Method
from tilewright.synth.wanted import Wanted

_CASES = (
    ("bf16 4096, 4096, 4096", Product("large", 4096, 4096, 4096)),
    ("bf16 1024, 1024, 1024", Product("small", 1024, 1024, 1024)),
    ("bf16 16, 4096, 4096", Product("skinny", 16, 4096, 4096)),
    ("fp8 4096, 4096, 4096, per-row", Product("fp8", 4096, 4096, 4096, "e4m3", True, "row")),
)
_FEW_SLOTS = (((128, 256), 3), ((128, 128), 3), ((128, 128), 2))
"""Tiles and stages of which no lower bound is met, so that the optimum takes a search."""
_TRITON = """
import json, time
import torch
from bench import triton_products
from bench.triton_tuning import Configuration, launcher
import triton
stages, programs = {}, []
configurations = [Configuration("descriptors", 128, 256, 64, 3, 8, halves=True),
                  Configuration("descriptors", 128, 128, 64, 4, 8), Configuration("pointers", 128, 128, 64, 4, 4),
                  Configuration("pointers", 16, 64, 128, 5, 4)]
a = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16)
b = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16).t()
c = torch.empty(1024, 1024, device="cuda", dtype=torch.bfloat16)
def listen(*, src, metadata, metadata_group, times, cache_hit):
    programs.append({name: micro / 1e6 for name, micro in times.lowering_stages})
triton.knobs.compilation.listener = listen
for each in configurations + configurations[:1]:
    begin = time.perf_counter()
    launcher(torch, each, [(a, b)], c)(0)
    torch.cuda.synchronize()
    wall = time.perf_counter() - begin
    if programs:
        print("RESULT", each, "|", wall, "|", json.dumps(programs[-1]))
        programs.clear()
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--turns", type=int, default=7, help="timed turns (default 7)")
    parser.add_argument("--optimum", action="store_true", help="with schedules that are optimal, too, by a solver")
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="folder of the result file")


def run(arguments: argparse.Namespace) -> int:
    rows: list[dict[str, object]] = []
    for words, product in _CASES:
        rows += ours(words, product, arguments.turns)
        if arguments.optimum:
            rows += ours(words, product, arguments.turns, "optimal")
    for tile, stages in _FEW_SLOTS if arguments.optimum else ():
        words, product = f"bf16 4096, 4096, 4096 of {tile[0]}x{tile[1]} in {stages} slots", _CASES[0][1]
        for method in METHODS:
            rows += ours(words, product, arguments.turns, method, Wanted(tile, stages))
    rows += _grouped(arguments.turns)
    code = "import time; t = time.perf_counter(); import tilewright; print(time.perf_counter() - t)"
    imports = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(arguments.turns)
    ]
    rows.append(
        {"who": "ours", "kernel": "", "step": "import tilewright", "median_seconds": statistics.median(imports)}
    )
    rows += triton_rows()
    for row in rows:
        print(f"{row['who']:>8}  {row['kernel']:>40}  {row['step']:>20}  {row['median_seconds']:.4f} s")
    print(f"written to {write('compile', rows, arguments.results)}")
    return 0


def ours(
    words: str, product: Product, turns: int, method: Method = "heuristic", wanted: Wanted | None = None
) -> list[dict[str, object]]:
    """Each step's median for one product, and their sum; the first, cold turn is not counted."""
    from tilewright.base.error import TilewrightError
    from tilewright.driver.compile import compile_kernel
    from tilewright.driver.kernels import matmul_kernel

    options: dict[str, Any] = {"dims": {"M": product.m, "N": product.n, "K": product.k}}
    options["strides"] = {"b": (1, product.k)}
    kernel = matmul_kernel
    if product.scaling != "none":
        from bench.tile_programs import scaled_by_rows

        kernel = scaled_by_rows
        element = f"f8{product.dtype}"
        options["dtype"] = {"a": element, "b": element, "of_a": "f32", "of_b": "f32", "c": "bf16"}
    try:
        wish = replace(wanted or Wanted(), schedule=method)
        seconds = [compile_kernel(kernel, assembled=False, wanted=wish, **options).seconds for _ in range(turns + 1)]
    except TilewrightError as error:
        print(f"{words}: refused: {error}")
        return []
    return _medians(words if method == "heuristic" else f"{words}, optimum", seconds[1:])


def _grouped(turns: int) -> list[dict[str, object]]:
    from bench.moe_shapes import CASES
    from bench.tile_programs import experts
    from tilewright.base.error import TilewrightError
    from tilewright.driver.compile import compile_kernel

    case = CASES[0]
    dims = {"T": case.rows, "G": case.experts, "N": case.n, "K": case.k}
    elements = {"x": "bf16", "w": "bf16", "y": "bf16", "ends": "i32"}
    words = f"grouped, {case.name}"
    try:
        seconds = [
            compile_kernel(experts, dims=dims, dtype=elements, assembled=False).seconds for _ in range(turns + 1)
        ]
    except TilewrightError as error:
        print(f"{words}: refused: {error}")
        return []
    return _medians(words, seconds[1:])


def _medians(words: str, turns: Sequence[Any]) -> list[dict[str, object]]:
    steps = [(step, [turn[step] for turn in turns]) for step in turns[0]]
    steps.append(("all", [sum(turn.values()) for turn in turns]))
    return [
        {"who": "ours", "kernel": words, "step": step, "median_seconds": statistics.median(seconds)}
        for step, seconds in steps
    ]


def triton_rows() -> list[dict[str, object]]:
    """Triton's stages for its kernels of like shapes, each compiled once in a process with an empty cache. The first
    kernel of the process is compiled twice, of which the second finds it compiled."""
    with tempfile.TemporaryDirectory() as cache:
        begin = time.perf_counter()
        try:
            done = subprocess.run(
                [sys.executable, "-c", _TRITON],
                capture_output=True, text=True, check=False, timeout=300,
                env={**os.environ, "TRITON_CACHE_DIR": cache},
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            print(f"Triton was not measured: {error}")
            return []
        seconds = time.perf_counter() - begin
    rows: list[dict[str, object]] = []
    for line in done.stdout.splitlines():
        if not line.startswith("RESULT "):
            continue
        words, wall, stages = line.removeprefix("RESULT ").split(" | ")
        parsed: dict[str, float] = json.loads(stages)
        for step, value in parsed.items():
            rows.append({"who": "triton", "kernel": words, "step": step, "median_seconds": value})
        apart = sum(value for step, value in parsed.items() if step != "cubin")
        rows.append({"who": "triton", "kernel": words, "step": "all but ptxas", "median_seconds": apart})
        rows.append({"who": "triton", "kernel": words, "step": "first call, wall", "median_seconds": float(wall)})
    if not rows:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        print(f"Triton was not measured: {last[:200]}")
    else:
        rows.append({"who": "triton", "kernel": "", "step": "process", "median_seconds": seconds})
    return rows
