"""What does the hardware say of a compiled program, and how far is it from what the model said?

Nsight Compute runs the bundle with random inputs (`profile_runner`), reading counters in several passes; clocks are
left alone (`--clock-control none`). Its table (`--page raw --csv`: a row of names, one of units, one a launch) is read
into a `ProfileReport`, and what the compiler's model predicts is put beside. Names of counters as ncu 2025.3 gives them
for GH100; one that another version does not know is shown as not measured.

Source: Nsight Compute documentation, "Metrics Reference" and "Warp Scheduler States"; rates of the roofline are target
facts. Not handled: programs whose launches depend on each other's timing (passes are replayed kernel by kernel), and
time lines inside a kernel.
Checked by: tests/driver/views/test_profile.py, on a table that an H200 gave.
"""

from __future__ import annotations

import csv
import io
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.ir import context
from tilewright.ir.tile.facts import the_program
from tilewright.report.profile import Compared, Group, KernelProfile, ProfileReport, Reading, Roofline, Stall
from tilewright.runtime.bundle import Bundle, save
from tilewright.runtime.nsight_compute import find_ncu
from tilewright.synth.cost.model import pipeline_cycles, rates_of
from tilewright.targets import Target
from tilewright.targets import target as target_named

Counters = Mapping[str, float]

_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
_STALLS = {
    "barrier": "a barrier of the CTA or of some of its warps",
    "branch_resolving": "a branch's target",
    "dispatch_stall": "the dispatcher",
    "drain": "stores to leave before the end",
    "gmma": "tensor-core products (wgmma)",
    "imc_miss": "constants",
    "lg_throttle": "room in the queue of global accesses",
    "long_scoreboard": "a load from global memory or the L2 cache",
    "math_pipe_throttle": "an arithmetic pipe",
    "membar": "a memory fence",
    "mio_throttle": "room in the queue of shared memory and barriers",
    "misc": "something else",
    "no_instruction": "instructions to be fetched",
    "not_selected": "nothing: another warp was chosen",
    "selected": "nothing: it issues",
    "short_scoreboard": "shared memory or a special function",
    "sleeping": "the end of a sleep",
    "tex_throttle": "room in the texture queue",
    "wait": "a fixed latency between instructions",
}
"""Reasons as ncu names them, and what the warp waits for."""

_TIMEOUT_SECONDS = 600
_TIME = "gpu__time_duration.sum"
_CYCLES = "sm__cycles_elapsed.max"
_TENSOR = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
_DRAM_READ, _DRAM_WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
_INTO_SM = "l1tex__m_xbar2l1tex_read_bytes.sum"
_REGISTERS = "launch__registers_per_thread"
_GROUPS: tuple[tuple[str, tuple[tuple[str, str, str, str], ...]], ...] = (
    (
        "time",
        (
            ("time", _TIME, "ns", "of one launch, under the profiler"),
            ("multiprocessor clock", "smsp__cycles_elapsed.avg.per_second", "hz", ""),
            ("cycles", _CYCLES, "", "of the multiprocessor that took longest"),
        ),
    ),
    (
        "issue",
        (
            ("eligible warps", "smsp__warps_eligible.avg.per_cycle_active", "", "of a scheduler, that could issue"),
            ("active warps", "smsp__warps_active.avg.per_cycle_active", "", "of a scheduler"),
            ("issue slots used", "smsp__issue_active.avg.pct_of_peak_sustained_active", "%", ""),
            ("issue slots skipped", "smsp__issue_inst0.avg.pct_of_peak_sustained_active", "%", "no warp was eligible"),
            ("warp instructions", "smsp__inst_executed.sum", "", ""),
        ),
    ),
    (
        "tensor cores",
        (
            ("tensor pipe busy", _TENSOR, "%", "of all cycles"),
            ("busy while active", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "%", ""),
        ),
    ),
    (
        "occupancy",
        (
            ("CTAs", "launch__grid_size", "", ""),
            ("threads of a CTA", "launch__block_size", "", ""),
            ("registers of a thread", _REGISTERS, "", "at launch"),
            ("shared memory of a CTA", "launch__shared_mem_per_block", "bytes", "with what the system takes"),
            ("waves", "launch__waves_per_multiprocessor", "", ""),
            ("occupancy possible", "sm__maximum_warps_per_active_cycle_pct", "%", ""),
            ("occupancy achieved", "sm__warps_active.avg.pct_of_peak_sustained_active", "%", ""),
        ),
    ),
    (
        "shared memory",
        (
            ("wavefronts", "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", "", "tensor cores' operands included"),
            ("bank conflicts", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", "", "wavefronts too many"),
            ("conflicts of loads", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", "", ""),
            ("conflicts of stores", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum", "", ""),
        ),
    ),
    (
        "memory",
        (
            ("DRAM read", _DRAM_READ, "bytes", ""),
            ("DRAM written", _DRAM_WRITTEN, "bytes", ""),
            ("L2 to multiprocessors", _INTO_SM, "bytes", ""),
            ("L2 sectors", "lts__t_sectors.sum", "", "of 32 bytes"),
            ("L2 hit rate", "lts__t_sector_hit_rate.pct", "%", ""),
            ("L2 throughput", "lts__throughput.avg.pct_of_peak_sustained_elapsed", "%", "of its peak"),
        ),
    ),
)  # fmt: skip
"""(title, ((name, counter, unit, meaning), ...)) of what is shown."""

METRICS = tuple(
    dict.fromkeys(
        [counter for _, rows in _GROUPS for _, counter, _, _ in rows] + [_STALL.format(reason) for reason in _STALLS]
    )
)
"""What ncu is asked for."""


def ncu_command(ncu: str, bundle: Path, log: Path, kernels: int, launches: int, *, warm: bool) -> list[str]:
    """The command that profiles `launches` runs of a bundle with `kernels` launches in its plan, the first run left
    out."""
    return [
        ncu, "--clock-control", "none", "--cache-control", "none" if warm else "all", "--csv", "--page", "raw",
        "--print-units", "base", "--log-file", str(log), "--launch-skip", str(kernels),
        "--launch-count", str(kernels * launches), "--metrics", ",".join(METRICS),
        sys.executable, "-m", "tilewright.driver.views.profile_runner", str(bundle), str(launches + 1),
    ]  # fmt: skip


def run_ncu(bundle: Bundle, launches: int, *, warm: bool = False) -> str:
    """Profile `launches` runs of `bundle` and return ncu's table.

    Raises TilewrightError: no ncu, no GPU that runs the program, no right to read counters; its words are passed on.
    """
    ncu = find_ncu()
    kernels = len(bundle.plan.launches)
    with tempfile.TemporaryDirectory() as folder:
        path, log = Path(folder) / "program.twb", Path(folder) / "ncu.csv"
        save(bundle, path)
        # The runner finds this package where this process did.
        root = str(Path(__file__).resolve().parents[2])
        paths = os.pathsep.join(part for part in (root, os.environ.get("PYTHONPATH", "")) if part)
        command = ncu_command(ncu, path, log, kernels, launches, warm=warm)
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_SECONDS,
                env={**os.environ, "PYTHONPATH": paths},
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise TilewrightError(
                f"ncu was not done after {_TIMEOUT_SECONDS} s", remedy="profile a smaller problem, or fewer launches"
            ) from error
        except OSError as error:
            raise TilewrightError(f"cannot run {ncu}: {error.strerror}", remedy="check its installation") from error
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    if done.returncode or not any(line.startswith('"') for line in text.splitlines()):
        said = [
            line for line in (text + "\n" + done.stderr).splitlines() if "==ERROR==" in line or "error" in line.lower()
        ]
        words = said[0].strip() if said else (done.stderr.strip().splitlines() or ["it wrote no table"])[-1]
        raise TilewrightError(
            f"ncu could not profile {bundle.name}: {words[:300]}",
            remedy="profile on a machine with a GPU of the program's target whose counters you may read",
        )
    return text


def read_table(text: str) -> list[tuple[str, Counters]]:
    """(kernel name, counters in base units) of each launch in ncu's table. Raises TilewrightError for another text."""
    rows = list(csv.reader(io.StringIO("\n".join(line for line in text.splitlines() if line.startswith('"')))))
    if len(rows) < 3 or "Kernel Name" not in rows[0] or any(len(row) != len(rows[0]) for row in rows):
        raise TilewrightError(
            "this is no table of ncu: a row of names with Kernel Name, one of units, and one for every launch",
            remedy="make one with ncu --csv --page raw",
        )
    names, units = rows[0], rows[1]
    at = names.index("Kernel Name")
    return [(row[at], dict(_counters(names, units, row))) for row in rows[2:]]


_UNIT_FACTORS = {
    "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "second": 1e9,
    "s": 1e9, "Khz": 1e3, "Mhz": 1e6, "Ghz": 1e9, "Kbyte/block": 1e3, "cycle/usecond": 1e6, "cycle/nsecond": 1e9,
}  # fmt: skip
"""To bytes, nanoseconds and hertz, where ncu was not told to print base units."""


def _counters(names: Sequence[str], units: Sequence[str], row: Sequence[str]) -> Iterator[tuple[str, float]]:
    for name, unit, value in zip(names, units, row, strict=True):
        try:
            yield name, float(value.replace(",", "")) * _UNIT_FACTORS.get(unit, 1.0)
        except ValueError:
            continue


def profile_report(bundle: Bundle, table: str, *, warm: bool = False) -> ProfileReport:
    """What `table`, ncu's of runs of `bundle`, says. Raises TilewrightError where it is none, or of another program."""
    launches = read_table(table)
    entries = list(dict.fromkeys(launch.entry for launch in bundle.plan.launches))
    found = {entry: [counters for name, counters in launches if _is_entry(name, entry)] for entry in entries}
    if not any(found.values()):
        names = ", ".join(sorted({name for name, _ in launches}))
        raise TilewrightError(
            f"the table is of {names}; {bundle.name} launches {', '.join(entries)}", remedy="give this program's table"
        )
    target = target_named(bundle.target)
    # The model is of the kernel that multiplies, which takes longest; what fills and combines goes beside.
    main = max((entry for entry in entries if found[entry]), key=lambda entry: found[entry][0].get(_TIME, 0.0))
    kernels = tuple(
        _kernel(entry, rows, bundle, target, is_main=entry == main) for entry, rows in found.items() if rows
    )
    notes = (
        "counters are read over several passes of each kernel, which runs alone in each: times are longer than in a "
        "stream of launches, and what one kernel leaves in the cache the next does not find"
        + ("" if warm else ", nor does it find its own inputs there"),
        "a DRAM peak of a plain copy, and a tensor-core peak at the clock of the data sheet, make the roof",
    )
    cache = "caches as the pass before left them" if warm else "caches flushed before every pass"
    return ProfileReport(bundle.name, bundle.target, "Nsight Compute", cache, kernels, notes)


def _is_entry(name: str, entry: str) -> bool:
    return name.split("(")[0].strip() == entry


def _kernel(
    entry: str, launches: Sequence[Counters], bundle: Bundle, target: Target, *, is_main: bool
) -> KernelProfile:
    names = dict.fromkeys(name for counters in launches for name in counters)
    middle: Counters = {
        name: statistics.median(counters[name] for counters in launches if name in counters) for name in names
    }
    groups = tuple(
        Group(title, tuple(_reading(name, middle.get(counter), unit, meaning) for name, counter, unit, meaning in rows))
        for title, rows in _GROUPS
    )
    stalls = [
        Stall(reason.replace("_", " "), middle[_STALL.format(reason)], meaning)
        for reason, meaning in _STALLS.items()
        if middle.get(_STALL.format(reason), 0.0) > 0.0
    ]
    stalls.sort(key=lambda stall: -stall.warps)
    compared = tuple(_compared(bundle, middle, target)) if is_main else ()
    roofline = _roofline(bundle, middle, target) if is_main else None
    return KernelProfile(entry, len(launches), groups, tuple(stalls), compared, roofline)


def _reading(name: str, value: float | None, unit: str, meaning: str) -> Reading:
    match unit:
        case "ns":
            return Reading(name, None if value is None else value / 1e3, "us", meaning)
        case "hz":
            return Reading(name, None if value is None else value / 1e6, "MHz", meaning)
        case _:
            return Reading(name, value, unit, meaning)


def _operations(bundle: Bundle) -> float:
    operations = bundle.facts.get("operations", 0)
    return float(operations) if isinstance(operations, int | float) else 0.0


def _roofline(bundle: Bundle, counters: Counters, target: Target) -> Roofline | None:
    operations, nanoseconds = _operations(bundle), counters.get(_TIME, 0.0)
    dram = counters.get(_DRAM_READ, 0.0) + counters.get(_DRAM_WRITTEN, 0.0)
    if not operations or not nanoseconds:
        return None
    rates = rates_of(target, _operand_bytes(bundle))
    peak = rates.operations_per_cycle * rates.multiprocessors * target.limit("device.clock_hertz")
    return Roofline(operations, dram, nanoseconds / 1e9, peak, target.limit("device.dram_bytes_per_second"))


def _operand_bytes(bundle: Bundle) -> int:
    """Of an element of the first input of a float type: what the tensor cores multiply."""
    floats = [buffer.element for buffer in bundle.plan.buffers if buffer.role == "input" and buffer.element.is_float]
    return min(2, floats[0].bytes) if floats else Element.BF16.bytes


def _compared(bundle: Bundle, counters: Counters, target: Target) -> Iterator[Compared]:
    """What the compiler's model and plain counting predict, beside the counters."""
    given = [buffer for buffer in bundle.plan.buffers if buffer.role != "workspace"]
    if len(bundle.plan.launches) == 1:
        read = sum(buffer.span_bytes for buffer in given if buffer.role == "input")
        written = sum(buffer.span_bytes for buffer in given if buffer.role == "output")
        yield Compared("DRAM read", read, counters.get(_DRAM_READ), "bytes", "every input once")
        yield Compared("DRAM written", written, counters.get(_DRAM_WRITTEN), "bytes", "every output once")
    decisions = _of_product(bundle)
    if "launch_registers" not in decisions:
        return
    asked = decisions["launch_registers"]
    yield Compared("registers of a thread", asked, counters.get(_REGISTERS), "", "what was asked for")
    predicted = bundle.facts.get("predicted_microseconds")
    if isinstance(predicted, float) and _TIME in counters:
        yield Compared("time", predicted, counters[_TIME] / 1e3, "us", "the model of launches that follow one another")
    extents = _extents(bundle, decisions)
    # Of groups the sizes are not known here; batches, and products that share an operand, are not what the model is of.
    alone = all(slot["joined"] or slot["among"] == 1 for slot in decisions["slots"])
    if extents is None or not alone or any(decisions.get(name) for name in ("grouping", "batch")):
        return
    element_bytes = _operand_bytes(bundle)
    units = 1 if decisions["turns"] else decisions["consumers"]
    tile = (decisions["unit_rows"] * units, decisions["tile_columns"], decisions["tile_streamed"])
    rates = rates_of(target, element_bytes)
    stored = sum(buffer.element.bytes for buffer in given if buffer.role == "output")
    # A sum split over CTAs is as many times the tiles, each of that part of the slices.
    parts = decisions["split"]
    part = (math.ceil(extents[0] / tile[0]) * tile[0] * parts, extents[1], math.ceil(extents[2] / parts))
    cycles = pipeline_cycles(rates, extents if parts == 1 else part, tile, element_bytes, stored)
    yield Compared("cycles", cycles, counters.get(_CYCLES), "", "the model of tile shapes")
    (row_step, column_step), (down, across) = decisions["steps"], decisions["cluster"]
    tiles = math.ceil(extents[0] / (row_step or tile[0])) * math.ceil(extents[1] / (column_step or tile[1]))
    slices = math.ceil(extents[2] / tile[2])
    # A multicast copy leaves the L2 cache once for all the CTAs that share it.
    shared = tile[0] / across + tile[1] / down
    fetched = tiles * slices * shared * tile[2] * element_bytes
    yield Compared("L2 to multiprocessors", fetched, counters.get(_INTO_SM), "bytes", "every tile's operands")
    busy = _operations(bundle) / rates.operations_per_cycle / rates.multiprocessors
    if _TENSOR in counters and _CYCLES in counters:
        measured = counters[_TENSOR] / 100 * counters[_CYCLES]
        yield Compared("cycles of tensor cores", busy, measured, "", "operations at the data sheet's rate")


def _of_product(bundle: Bundle) -> Mapping[str, Any]:
    """The decisions of a walk that sums a product, the last one where programs before it copy or compute operands;
    none of other kernels."""
    programs = cast("list[Mapping[str, Any]]", bundle.decisions.get("programs", [bundle.decisions]))
    sums = any(slot["joined"] for slot in programs[-1].get("slots", ()))
    return programs[-1] if sums else {}


def _extents(bundle: Bundle, decisions: Mapping[str, Any]) -> tuple[int, int, int] | None:
    """(rows, columns, contracted) of the walk, from the tile program and the axes decided on; None where axes were
    joined, which the program has apart."""
    text = bundle.facts.get("tile")
    if not isinstance(text, str):
        return None
    try:
        extents = the_program(Parser(context(), text).parse_module()).extents
    except (ParseError, VerifyException) as error:
        raise TilewrightError(
            f"the tile program in {bundle.name} cannot be read, so nothing can be predicted",
            remedy=f"it was written by Tilewright {bundle.tilewright_version}: compile the program again",
        ) from error
    rows, columns, contracted = (extents.get(decisions[name], 0) for name in ("row", "column", "streamed"))
    return (rows, columns, contracted) if rows and columns and contracted else None
