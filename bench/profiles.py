"""What do the kernels of a suite wait for, and the vendor's beside? The GPU's counters of every case, in one table.

Ours are profiled from their bundles as `tilewright profile` does it; torch.mm in a process of its own over the same
shapes, its kernels taken by their counters alone (memory operations left out). One line a case and side: time, clock,
how busy the tensor pipe was, eligible warps, issue slots skipped, L2 and DRAM traffic, the largest stalls; and for ours
how far each of the model's predictions was off. The result file has all readings, which is what a model is fitted to.
Needs Nsight Compute and a GPU.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.gemm_suites import SUITES, Product
from bench.prepared import Refused, load_prepared, prepare
from bench.record import write

_TORCH = """
import sys, torch
m, n, k, transposed = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[5] == "True"
element = {"bf16": torch.bfloat16, "f16": torch.float16}[sys.argv[4]]
a = torch.randn(m, k, device="cuda", dtype=element)
b = torch.randn(*((n, k) if transposed else (k, n)), device="cuda", dtype=element)
b = b.t() if transposed else b
c = torch.empty(m, n, device="cuda", dtype=element)
torch.mm(a, b, out=c)
torch.cuda.synchronize()
torch.cuda.profiler.start()
torch.mm(a, b, out=c)
torch.cuda.synchronize()
torch.cuda.profiler.stop()
"""
_STALL = "smsp__average_warps_issue_stalled_"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--suite", choices=tuple(SUITES), default="gemm", help="which list (default: gemm)")
    parser.add_argument("--only", action="append", metavar="WORDS", help="products whose name contains these words")
    parser.add_argument("--launches", type=int, default=1, help="profiled launches of each (default 1)")
    parser.add_argument("--warm", action="store_true", help="do not flush caches between passes")
    parser.add_argument("--no-peer", action="store_true", help="ours alone")
    parser.add_argument("--kernels", type=Path, default=Path("out/kernels"), help="folder of compiled kernels")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compiling processes")
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="folder of the result file")


def run(arguments: argparse.Namespace) -> int:
    from tilewright.base.error import TilewrightError
    from tilewright.driver.profile import profile_report, run_ncu
    from tilewright.report.profile import profile_to_json

    products = SUITES[arguments.suite]()
    if arguments.only:
        products = [each for each in products if any(words in each.name for words in arguments.only)]
    prepare(products, arguments.kernels, arguments.jobs)
    rows: list[dict[str, object]] = []
    begin = time.perf_counter()
    for product in products:
        program = load_prepared(product, arguments.kernels)
        row: dict[str, object] = {"case": product.name, "shape": [product.m, product.n, product.k]}
        if isinstance(program, Refused):
            rows.append({**row, "refused": program.message})
            continue
        try:
            table = run_ncu(program.bundle, arguments.launches, warm=arguments.warm)
            report = profile_to_json(profile_report(program.bundle, table, warm=arguments.warm))
        except TilewrightError as error:
            print(f"{product.name}: {error}", flush=True)
            rows.append({**row, "failed": str(error)})
            continue
        rows.append({**row, "who": "ours", "report": report})
        for line in _our_lines(product, report):
            print(line, flush=True)
        if not arguments.no_peer and product.scaling == "none":
            for name, counters in torch_counters(product, warm=arguments.warm):
                rows.append({**row, "who": "torch", "kernel": name, "counters": dict(counters)})
                print(f"{'torch':>34}  {_counters_line(counters)}  {name[:60]}", flush=True)
    path = write(f"profiles-{arguments.suite}", rows, arguments.results)
    print(f"written to {path} after {time.perf_counter() - begin:.0f} s")
    return 0


def torch_counters(product: Product, *, warm: bool) -> list[tuple[str, Mapping[str, float]]]:
    """(kernel, counters) of one torch.mm. Raises TilewrightError where ncu is not there."""
    from tilewright.driver.profile import METRICS, find_ncu, read_table

    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "ncu.csv"
        command = [
            find_ncu(), "--clock-control", "none", "--cache-control", "none" if warm else "all", "--csv", "--page",
            "raw", "--print-units", "base", "--profile-from-start", "off", "--log-file", str(log), "--metrics",
            ",".join(METRICS), sys.executable, "-c", _TORCH, str(product.m), str(product.n), str(product.k),
            product.dtype, str(product.transposed),
        ]  # fmt: skip
        subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        return read_table(log.read_text(errors="replace")) if log.exists() else []


def _our_lines(product: Product, report: Mapping[str, Any]) -> Sequence[str]:
    lines: list[str] = []
    for kernel in report["kernels"]:
        readings = {each["name"]: each["value"] for group in kernel["groups"] for each in group["readings"]}
        stalls = " ".join(
            f"{each['reason']} {each['warps']:.2f}" for each in kernel["stalls"][:4] if each["reason"] != "selected"
        )
        off = " ".join(
            f"{each['name']} {each['measured'] / each['predicted']:.2f}"
            for each in kernel["compared"]
            if each["measured"] is not None and each["predicted"]
        )
        name = product.name if len(report["kernels"]) == 1 else f"{product.name}, {kernel['entry']}"
        lines.append(
            f"{name[:34]:>34}  {readings['time']:9.1f} us {readings['multiprocessor clock']:5.0f} MHz  "
            f"tensor {readings['tensor pipe busy']:4.1f} %  eligible {readings['eligible warps']:.2f}  "
            f"skipped {readings['issue slots skipped']:4.1f} %  L2 {readings['L2 throughput']:4.1f} %  "
            f"DRAM {(readings['DRAM read'] + readings['DRAM written']) / 1e6:8.1f} MB  {stalls}  | measured over "
            f"predicted: {off}"
        )
    return lines


def _counters_line(counters: Mapping[str, float]) -> str:
    """The same of a peer's kernel."""
    stalls = sorted(
        (
            (value, name.removeprefix(_STALL).removesuffix("_per_issue_active.ratio"))
            for name, value in counters.items()
            if name.startswith(_STALL) and "selected" not in name
        ),
        reverse=True,
    )
    dram = counters.get("dram__bytes_read.sum", 0.0) + counters.get("dram__bytes_write.sum", 0.0)
    l2 = counters.get("lts__throughput.avg.pct_of_peak_sustained_elapsed", 0.0)
    return (
        f"{counters.get('gpu__time_duration.sum', 0.0) / 1e3:9.1f} us "
        f"{counters.get('smsp__cycles_elapsed.avg.per_second', 0.0) / 1e6:5.0f} MHz  "
        f"tensor {counters.get('sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed', 0.0):4.1f} %  "
        f"eligible {counters.get('smsp__warps_eligible.avg.per_cycle_active', 0.0):.2f}  "
        f"skipped {counters.get('smsp__issue_inst0.avg.pct_of_peak_sustained_active', 0.0):4.1f} %  "
        f"L2 {l2:4.1f} %  DRAM {dram / 1e6:8.1f} MB  "
        + " ".join(f"{name.replace('_', ' ')} {value:.2f}" for value, name in stalls[:4])
    )
