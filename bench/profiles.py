"""What do the kernels of a suite wait for, and the peers' beside? The GPU's counters of every case, in one table.

All contenders of all cases are built, tuned and run in one process under Nsight Compute, as in a race
(`bench.profiles_process`): same arrays, same tuning, one set of inputs; caches are flushed before each of the
profiler's passes unless `--warm` is given. A line says: time, clock, how busy the tensor pipe was, eligible warps,
issue slots skipped, L2 and DRAM traffic, the largest stalls; for ours, how far each of the model's predictions was off.
Of several kernels times and traffic are added and shares are weighed by time. The result file has all readings of the
first few, which is what a model is fitted to. Needs Nsight Compute, PyTorch and a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.prepared import Refused, load_prepared, prepare
from bench.profiles_process import LISTS, MARK, Profiled, Request, cases_of, told
from bench.record import write

_STALL = "smsp__average_warps_issue_stalled_"
_TIME = "gpu__time_duration.sum"
_DRAM = ("dram__bytes_read.sum", "dram__bytes_write.sum")
_FETCHED = "l1tex__m_xbar2l1tex_read_bytes.sum"
"""What multiprocessors got from the L2 cache; what a multicast brings counts for each that gets it."""
_SHOWN = {
    "megahertz": ("smsp__cycles_elapsed.avg.per_second", 1e-6),
    "tensor_percent": ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", 1.0),
    "eligible_warps": ("smsp__warps_eligible.avg.per_cycle_active", 1.0),
    "skipped_percent": ("smsp__issue_inst0.avg.pct_of_peak_sustained_active", 1.0),
    "l2_percent": ("lts__throughput.avg.pct_of_peak_sustained_elapsed", 1.0),
}
"""Counters that are weighed by time, and factors to their units."""
_PEERS = ("torch", "cublasLt", "triton", "torch loop")
_KEPT_KERNELS = 4
"""Of which all counters are kept, of each contender."""
_LIMIT_SECONDS = 900.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--suite", choices=LISTS, default="gemm", help="which list (default: gemm)")
    parser.add_argument(
        "--only", action="append", metavar="WORDS", help="cases whose name or shape contains these words"
    )
    parser.add_argument("--launches", type=int, default=1, help="profiled launches of each (default 1)")
    parser.add_argument("--warm", action="store_true", help="do not flush caches between passes")
    parser.add_argument("--peer", action="append", choices=_PEERS, help="beside these (default: torch)")
    parser.add_argument("--no-peer", action="store_true", help="ours alone")
    parser.add_argument("--kernels", type=Path, default=Path("out/kernels"), help="folder of compiled kernels")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compiling processes")
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="folder of the result file")


def run(arguments: argparse.Namespace) -> int:
    from tilewright.base.error import TilewrightError
    from tilewright.driver.views.profile import profile_report
    from tilewright.report.profile import profile_to_json

    peers = () if arguments.no_peer else tuple(arguments.peer or ("torch",))
    folder = str(arguments.kernels.resolve())
    request = Request(arguments.suite, tuple(arguments.only or ()), peers, folder, arguments.launches)
    cases = cases_of(request)
    if not cases:
        raise SystemExit("no case has such a name")
    begin = time.perf_counter()
    prepare(cases, arguments.kernels, arguments.jobs)
    order, table = watched(request, warm=arguments.warm)
    by_name = {told(case): case for case in cases}
    rows: list[dict[str, object]] = []
    for each, part in zip(order, parts(table), strict=True):
        found = counters_of(part)
        row: dict[str, object] = {
            **asdict(each),
            **summary(found, request.launches),
            "kernels": [name for name, _ in found],
        }
        row["counters"] = [dict(counters) for _, counters in found[:_KEPT_KERNELS]]
        off = ""
        if each.who == "ours":
            program = load_prepared(by_name[each.case], arguments.kernels)
            assert not isinstance(program, Refused)
            try:
                report = profile_to_json(profile_report(program.bundle, part, warm=arguments.warm))
            except TilewrightError as error:
                raise SystemExit(f"{each.case}: {error}") from error
            row["compared"] = compared(report)
            off = "  | measured over predicted: " + " ".join(
                f"{one['name']} {one['measured'] / one['predicted']:.2f}" for one in compared(report)
            )
        rows.append(row)
        print(line_of(row) + off, flush=True)
    path = write(f"profiles-{arguments.suite}", rows, arguments.results)
    print(f"written to {path} after {time.perf_counter() - begin:.0f} s")
    return 0


def watched(request: Request, *, warm: bool) -> tuple[list[Profiled], str]:
    """(who ran, in order; ncu's table) of a process that runs every contender.

    Raises TilewrightError where there is no ncu; ends the process with ncu's words where it made no table.
    """
    from tilewright.driver.views.profile import METRICS
    from tilewright.runtime.nsight_compute import find_ncu

    with tempfile.TemporaryDirectory() as folder:
        given, order, log = (Path(folder) / name for name in ("request.json", "order.json", "ncu.csv"))
        given.write_text(json.dumps(asdict(request)), encoding="utf-8")
        command = [
            find_ncu(), "--clock-control", "none", "--cache-control", "none" if warm else "all", "--csv", "--page",
            "raw", "--print-units", "base", "--profile-from-start", "off", "--log-file", str(log), "--metrics",
            ",".join(METRICS), sys.executable, "-m", "bench.profiles_process", str(given), str(order),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT_SECONDS)
        if done.returncode or not order.exists():
            said = [*log.read_text(errors="replace").splitlines()[-5:]] if log.exists() else []
            raise SystemExit("\n".join(["ncu made no table:", *said, *done.stderr.splitlines()[-12:]]))
        found = [Profiled(**each) for each in json.loads(order.read_text(encoding="utf-8"))]
        return found, log.read_text(encoding="utf-8", errors="replace")


def parts(table: str) -> list[str]:
    """ncu's table cut at its markers: a table of each contender's kernels, without the marker."""
    lines = [line for line in table.splitlines() if line.startswith('"')]
    head, found = lines[:2], list[list[str]]()
    for line in lines[2:]:
        if MARK in line:
            found.append([])
        elif found:
            found[-1].append(line)
    return ["\n".join([*head, *each]) for each in found]


def counters_of(part: str) -> list[tuple[str, Mapping[str, float]]]:
    """(kernel, counters) of each launch of a part; none where it launched no kernel."""
    from tilewright.driver.views.profile import read_table

    return read_table(part) if part.count("\n") > 1 else []


def summary(found: Sequence[tuple[str, Mapping[str, float]]], launches: int = 1) -> dict[str, object]:
    """One contender's readings, of one of its `launches`: microseconds and bytes added, the rest weighed by time;
    stalls in warps a scheduler, for each instruction that it issues, the largest first."""
    times = [counters.get(_TIME, 0.0) for _, counters in found]
    whole = sum(times) or 1.0

    def weighed(name: str) -> float:
        return sum(at * counters.get(name, 0.0) for at, (_, counters) in zip(times, found, strict=True)) / whole

    def added(*names: str) -> float:
        return sum(counters.get(name, 0.0) for _, counters in found for name in names)

    dram = added(*_DRAM)
    names = {name for _, counters in found for name in counters if name.startswith(_STALL) and "selected" not in name}
    stalls = {name.removeprefix(_STALL).removesuffix("_per_issue_active.ratio"): weighed(name) for name in names}
    largest = sorted(stalls.items(), key=lambda item: -item[1])
    return {
        "microseconds": round(whole / 1e3 / launches, 2),
        **{name: round(weighed(counter) * factor, 2) for name, (counter, factor) in _SHOWN.items()},
        "multiprocessor_megabytes": round(added(_FETCHED) / 1e6 / launches, 1),
        "dram_megabytes": round(dram / 1e6 / launches, 1),
        "dram_terabytes_per_second": round(dram / whole / 1e3, 2),
        "stalls": {name.replace("_", " "): round(warps, 2) for name, warps in largest[:6]},
    }


def compared(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the model predicted of the kernel that takes longest, where it was measured."""
    return [
        each
        for kernel in report["kernels"]
        for each in kernel["compared"]
        if each["measured"] is not None and each["predicted"]
    ]


def line_of(row: Mapping[str, Any]) -> str:
    """A contender in one line."""
    stalls = " ".join(f"{name} {warps:.2f}" for name, warps in list(row["stalls"].items())[:4])
    return (
        f"{row['case'][-44:]:>44} {row['who'][:10]:>10} {len(row['kernels']):3} kernels {row['microseconds']:9.1f} us "
        f"{row['megahertz']:5.0f} MHz  tensor {row['tensor_percent']:4.1f} %  eligible {row['eligible_warps']:.2f}  "
        f"skipped {row['skipped_percent']:4.1f} %  L2 {row['l2_percent']:4.1f} %, "
        f"{row['multiprocessor_megabytes']:8.1f} MB  DRAM {row['dram_megabytes']:8.1f} MB "
        f"at {row['dram_terabytes_per_second']:.2f} TB/s  {stalls}"
    )
