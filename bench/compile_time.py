"""From description to proven PTX, warm, without ptxas; and the time that `import tilewright` takes."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

from bench.record import write


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--turns", type=int, default=7, help="timed turns (default 7)")
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="folder of the result file")


def run(arguments: argparse.Namespace) -> int:
    from tilewright.driver.compile import compile_kernel
    from tilewright.driver.kernels import matmul_kernel

    dims = {"M": 4096, "N": 4096, "K": 4096}
    compile_kernel(matmul_kernel, dims=dims, assembled=False)
    turns = [compile_kernel(matmul_kernel, dims=dims, assembled=False).seconds for _ in range(arguments.turns)]
    rows: list[dict[str, object]] = []
    for step in turns[0]:
        rows.append({"step": step, "median_seconds": statistics.median(turn[step] for turn in turns)})
    rows.append({"step": "all", "median_seconds": statistics.median(sum(turn.values()) for turn in turns)})
    code = "import time; t = time.perf_counter(); import tilewright; print(time.perf_counter() - t)"
    imports = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(arguments.turns)
    ]
    rows.append({"step": "import tilewright", "median_seconds": statistics.median(imports)})
    for row in rows:
        print(f"{row['step']:>20}  {row['median_seconds']:.4f} s")
    print(f"written to {write('compile', rows, arguments.results)}")
    return 0
