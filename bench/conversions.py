"""Exchanges between register layouts against Triton's own conversion of the same pairs, interleaved on one GPU.

Two parts. `--prepare` needs no GPU: plans and lowers every pair, has the peer compile the same conversion
(`peer_conversions`, in an environment that has Triton: `--peer-python`), and assembles both by one `ptxas` into
`kernels.zip` of `--folder`. Without it those kernels are launched, ours and theirs in turn, and a table and
`conversions.json` come out.

Each kernel takes its tile there and back `repeat` times, one CTA of four warps on every multiprocessor. Time is that of
many round trips less that of few, over the difference, so that launch, loads and stores drop out. Every pair's result
is compared with the tile that went in. Pairs are timed in their list's order, or in another (`--order`, which has a
result file of its own), so that a figure that hangs on what ran before shows.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import multiprocessing
import statistics
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.record import write

if TYPE_CHECKING:
    from tilewright.ir.exchange import ExchangePlan
    from tilewright.layout.linear.maps import LinearLayout

_PTX_VERSION = 88
_ARCHIVE = "kernels.zip"
_FEW, _MANY = 16, 1040
"""Round trips: so many that an event's error of a microsecond is less than 1 % of the shortest."""
_TRIPS = 4
"""Round trips in the body of either side's loop: between them the assembler folds how words are packed."""
_WARM_UP = 2
_WARMING_LAUNCHES = 2000
ORDERS = ("listed", "reversed", "random")
_FREE_CYCLES = 8.0
"""Round trips of both that take less are equal: they are no instructions, or a few moves."""


@dataclass(frozen=True)
class Pair:
    """One pair of layouts of a tile of `rows` x 64 elements."""

    source: str
    destination: str
    element_bytes: int
    rows: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--prepare", action="store_true", help="compile and assemble both sides; needs no GPU")
    parser.add_argument("--peer-python", default="python3", help="a Python that has Triton (for --prepare)")
    parser.add_argument("--folder", type=Path, default=Path("out/conversions"), help="where the kernels are")
    parser.add_argument("--every", type=int, default=1, help="take every n-th pair only")
    parser.add_argument("--jobs", type=int, default=1, help="processes of --prepare (default 1)")
    parser.add_argument("--turns", type=int, default=11, help="timed turns of each kernel (default 11)")
    parser.add_argument(
        "--order", choices=ORDERS, default="listed", help="in which order pairs are timed (default %(default)s)"
    )
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="folder of the result file")


def run(arguments: argparse.Namespace) -> int:
    if arguments.prepare:
        prepare(arguments.folder, arguments.peer_python, arguments.every, arguments.jobs)
        return 0
    rows = measure(arguments.folder, arguments.turns, arguments.every, arguments.order)
    with zipfile.ZipFile(arguments.folder / _ARCHIVE) as archive:
        peer = json.loads(archive.read("index.json"))["triton"]
    summary = report(rows) | {"peer": f"Triton {peer}"}
    name = "conversions" if arguments.order == "listed" else f"conversions-{arguments.order}"
    print(f"written to {write(name, [summary, *rows], arguments.results)}")
    return 0 if all(row["ours_right"] for row in rows) else 1


def pairs() -> list[Pair]:
    """Every pair of different layouts with elements of 8, 16 and 32 bits; of 128 rows every fifth."""
    from bench.register_layouts import WRITTEN

    names = [each.name for each in WRITTEN]
    both = [(first, second) for at, first in enumerate(names) for second in names[at + 1 :]]
    found = [Pair(*each, 2, 64) for each in both]
    found += [Pair(*each, 1, 64) for each in both[::5]]
    found += [Pair(*each, 4, 64) for each in both[1::5]]
    found += [Pair(*each, 2, 128) for each in both[2::5]]
    found += [Pair(*each, 1, 64) for at, each in enumerate(both) if at % 5 != 0]
    return found + [Pair(*each, 4, 64) for at, each in enumerate(both) if at % 5 != 1]


# ---------------------------------------------------------------- without a GPU


@dataclass(frozen=True)
class _Share:
    """Pairs of one process, by number."""

    pairs: tuple[tuple[int, Pair], ...]
    texts: Path
    kernels: Path
    peer_python: str


def _prepared(share: _Share) -> tuple[str, list[dict[str, object]]]:
    """The peer's version, and what is known of each pair's kernels, which are assembled."""
    from bench.exchange_kernel import ENTRY, exchange_kernel_smem_bytes, exchange_kernel_text
    from bench.register_layouts import register_layouts
    from tilewright.ir.exchange import ExchangePlan
    from tilewright.runtime.assemble import assemble
    from tilewright.synth.exchange.search import plan_exchange

    layouts = {rows: register_layouts(rows) for rows in (64, 128)}
    peer = subprocess.Popen(
        [share.peer_python, str(Path(__file__).with_name("peer_conversions.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert peer.stdin is not None and peer.stdout is not None
    version = json.loads(peer.stdout.readline())["version"]
    entries: list[dict[str, object]] = []
    for number, pair in share.pairs:
        source, destination = (layouts[pair.rows][name] for name in (pair.source, pair.destination))
        job = {
            "source": source.bases,
            "destination": destination.bases,
            "shape": [pair.rows, 64],
            "element_bytes": pair.element_bytes,
            "ptx_version": _PTX_VERSION,
            "trips": _TRIPS,
        }
        theirs_ptx = share.texts / f"{number}.theirs.json"
        if not theirs_ptx.exists():
            print(json.dumps(job), file=peer.stdin, flush=True)
            theirs_ptx.write_text(peer.stdout.readline())
        theirs = json.loads(theirs_ptx.read_text())
        there = plan_exchange(source, destination, pair.element_bytes, "sm_90a")
        back = plan_exchange(destination, source, pair.element_bytes, "sm_90a")
        assert isinstance(there, ExchangePlan) and isinstance(back, ExchangePlan)
        ours = {
            "ptx": exchange_kernel_text(source, destination, there, back, trips=_TRIPS),
            "shared_bytes": exchange_kernel_smem_bytes(there, back),
            "entry": ENTRY,
        }
        other = [_other_kind(*each, pair.element_bytes) for each in ((source, destination), (destination, source))]
        entry: dict[str, object] = {**pair.__dict__, "number": number, "bytes": source.cosize * pair.element_bytes}
        entry |= {"there": there.kind, "back": back.kind, "estimate": there.cost.cycles + back.cost.cycles}
        sides = {"ours": ours, "theirs": theirs}
        if other[0] is not None and other[1] is not None:
            sides["other"] = {
                "ptx": exchange_kernel_text(source, destination, other[0], other[1], trips=_TRIPS),
                "shared_bytes": exchange_kernel_smem_bytes(other[0], other[1]),
                "entry": ENTRY,
            }
            entry |= {"other_there": other[0].kind, "other_back": other[1].kind}
            entry["other_estimate"] = other[0].cost.cycles + other[1].cost.cycles
        for name, side in sides.items():
            if "error" in side:
                entry[f"{name}_error"] = side["error"]
                continue
            cubin = share.kernels / f"{number}.{name}.cubin"
            text = share.texts / f"{number}.{name}.ptx"
            if not cubin.exists() or not text.exists() or text.read_text() != side["ptx"]:
                assembly = assemble(side["ptx"], "sm_90a", name=f"{number}.{name}")
                cubin.write_bytes(assembly.cubin)
                text.write_text(side["ptx"])
            entry |= {f"{name}_shared_bytes": side["shared_bytes"], f"{name}_entry": side["entry"]}
            # There, back and, after the loop, there once more.
            entry[f"{name}_barriers"] = round(side["ptx"].count("bar.sync") / (_TRIPS + 0.5))
        entries.append(entry)
    peer.stdin.close()
    peer.wait()
    return version, entries


def prepare(folder: Path, peer_python: str, every: int, jobs: int) -> None:
    """jobs: processes, each with a peer of its own."""
    texts, kernels = folder / "text", folder / "kernels"
    for each in (texts, kernels):
        each.mkdir(parents=True, exist_ok=True)
    numbered = list(enumerate(pairs()))[::every]
    shares = [_Share(tuple(numbered[at::jobs]), texts, kernels, peer_python) for at in range(jobs)]
    if jobs == 1:
        answers = [_prepared(shares[0])]
    else:
        with multiprocessing.get_context("spawn").Pool(jobs) as pool:
            answers = pool.map(_prepared, shares, chunksize=1)
    version = answers[0][0]
    entries = sorted((entry for _, found in answers for entry in found), key=lambda entry: int(str(entry["number"])))
    with zipfile.ZipFile(folder / _ARCHIVE, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("index.json", json.dumps({"triton": version, "pairs": entries}))
        for entry in entries:
            for name in ("ours", "theirs", "other"):
                if f"{name}_entry" in entry:
                    archive.write(kernels / f"{entry['number']}.{name}.cubin", f"{entry['number']}.{name}.cubin")
    refused = sum("theirs_error" in each for each in entries)
    print(f"{len(entries)} pairs in {folder / _ARCHIVE}; {refused} not by the peer")


def _other_kind(source: LinearLayout, destination: LinearLayout, element_bytes: int) -> ExchangePlan | None:
    """The cheapest plan that shuffles where the chosen one goes through memory, or the other way round; else the
    cheapest whose accesses have another form or width: what it takes says whether the estimates choose well."""
    from tilewright.layout.answer import NotExpressible
    from tilewright.synth.exchange.search import candidate_plans

    plans = candidate_plans(source, destination, element_bytes, "sm_90a")
    if isinstance(plans, NotExpressible):
        return None
    shuffles = plans[0].cost.shared_bytes == 0
    for plan in plans:
        if (plan.cost.shared_bytes == 0) != shuffles:
            return plan
    return next((plan for plan in plans if _accesses(plan) != _accesses(plans[0])), None)


def _accesses(plan: ExchangePlan) -> list[tuple[str, int]]:
    """Form and elements of each access."""
    from tilewright.ir.exchange import Stage

    stages = [step for step in plan.steps if isinstance(step, Stage)]
    return [(side.form, len(side.elements[0])) for stage in stages for side in (stage.store, stage.load)]


# ---------------------------------------------------------------- on a GPU


class Device:
    """GPU 0, a pair of buffers, and kernels launched by hand."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.multiprocessors = self.attribute(device, 16)
        self.clock_hertz = 1000 * self.attribute(device, 13)
        self.events = [ctypes.c_void_p(), ctypes.c_void_p()]
        for event in self.events:
            self.call("cuEventCreate", ctypes.byref(event), 0)
        self.buffers = [ctypes.c_uint64(), ctypes.c_uint64()]
        for buffer in self.buffers:
            self.call("cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(1 << 16))
        self.scratch = ctypes.c_uint64(0)
        self.modules: list[ctypes.c_void_p] = []

    def call(self, name: str, *arguments: object) -> None:
        status = getattr(self.cuda, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} answered {status}")

    def attribute(self, device: ctypes.c_int, number: int) -> int:
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), number, device)
        return value.value

    def kernel(self, cubin: bytes, entry: str, shared_bytes: int) -> ctypes.c_void_p:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), cubin)
        self.modules.append(module)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, entry.encode())
        self.call("cuFuncSetAttribute", function, 8, shared_bytes)
        return function

    def forget(self) -> None:
        """Unloads every kernel."""
        for module in self.modules:
            self.call("cuModuleUnload", module)
        self.modules.clear()

    def launch(self, function: ctypes.c_void_p, shared_bytes: int, repeat: int, grid: int) -> None:
        values = [*self.buffers, ctypes.c_int(repeat), self.scratch, self.scratch]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(each) for each in values))
        self.call("cuLaunchKernel", function, grid, 1, 1, 128, 1, 1, shared_bytes, None, pointers, None)

    def milliseconds(self, function: ctypes.c_void_p, shared_bytes: int, repeat: int) -> float:
        self.call("cuEventRecord", self.events[0], None)
        self.launch(function, shared_bytes, repeat // _TRIPS, self.multiprocessors)
        self.call("cuEventRecord", self.events[1], None)
        self.call("cuEventSynchronize", self.events[1])
        elapsed = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(elapsed), *self.events)
        return elapsed.value

    def result(self, function: ctypes.c_void_p, shared_bytes: int, given: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        found = np.full_like(given, 0xA5)
        self.call("cuMemcpyHtoD_v2", self.buffers[0], ctypes.c_void_p(given.ctypes.data), ctypes.c_size_t(given.size))
        self.call("cuMemcpyHtoD_v2", self.buffers[1], ctypes.c_void_p(found.ctypes.data), ctypes.c_size_t(found.size))
        self.launch(function, shared_bytes, 1, 1)
        self.call("cuMemcpyDtoH_v2", ctypes.c_void_p(found.ctypes.data), self.buffers[1], ctypes.c_size_t(found.size))
        return found


def in_order(entries: list[dict[str, Any]], order: str) -> list[dict[str, Any]]:
    """The same entries in one of ORDERS; the random one is the same every time."""
    match order:
        case "reversed":
            return entries[::-1]
        case "random":
            return [entries[place] for place in np.random.default_rng(11).permutation(len(entries))]
        case _:
            return entries


def measure(folder: Path, turns: int, every: int, order: str = "listed") -> list[dict[str, Any]]:
    """A row for each pair, in the order of timing."""
    device = Device()
    archive = zipfile.ZipFile(folder / _ARCHIVE)
    entries = in_order(json.loads(archive.read("index.json"))["pairs"][::every], order)
    _warm_up(device, archive, entries[0])
    return [_timed(device, archive, entry, turns) for entry in entries]


def _warm_up(device: Device, archive: zipfile.ZipFile, entry: dict[str, Any]) -> None:
    """The clocks rise in the first half second of work."""
    shared = entry["ours_shared_bytes"]
    kernel = device.kernel(archive.read(f"{entry['number']}.ours.cubin"), entry["ours_entry"], shared)
    for _ in range(_WARMING_LAUNCHES):
        device.milliseconds(kernel, shared, _MANY)
    device.forget()


def _timed(device: Device, archive: zipfile.ZipFile, entry: dict[str, Any], turns: int) -> dict[str, Any]:
    """One pair's row."""
    random = np.random.default_rng(entry["number"])
    row = {name: entry[name] for name in ("source", "destination", "element_bytes", "rows", "there", "back")}
    row |= {name: entry[name] for name in ("estimate", "ours_barriers", "theirs_barriers") if name in entry}
    row |= {name: entry[name] for name in ("ours_shared_bytes", "theirs_shared_bytes") if name in entry}
    given = random.integers(0, 256, entry["bytes"], dtype=np.uint8)
    kernels: dict[str, tuple[ctypes.c_void_p, int]] = {}
    for name in ("ours", "theirs", "other"):
        if f"{name}_entry" not in entry:
            continue
        shared = entry[f"{name}_shared_bytes"]
        cubin = archive.read(f"{entry['number']}.{name}.cubin")
        kernels[name] = (device.kernel(cubin, entry[f"{name}_entry"], shared), shared)
        row[f"{name}_right"] = bool(np.array_equal(device.result(*kernels[name], given), given))
    taken: dict[str, list[float]] = {name: [] for name in kernels}
    for turn in range(_WARM_UP + turns):
        for name, kernel in kernels.items():
            few, many = (device.milliseconds(*kernel, repeat) for repeat in (_FEW, _MANY))
            if turn >= _WARM_UP:
                taken[name].append((many - few) / (_MANY - _FEW) * 1e-3 * device.clock_hertz)
    for name, cycles in taken.items():
        row[name] = round(statistics.median(cycles), 1)
        row[f"{name}_spread"] = round(max(cycles) - min(cycles), 1)
    row |= {name: entry[name] for name in ("other_there", "other_back", "other_estimate") if name in entry}
    if "theirs" in kernels:
        free = max(row["ours"], row["theirs"]) < _FREE_CYCLES
        row["ratio"] = 1.0 if free else round(row["theirs"] / max(row["ours"], 1.0), 3)
    device.forget()
    return row


def report(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Prints by kind of plan, and the worst; returns the summary."""
    compared = [row for row in rows if "ratio" in row]
    kinds: dict[str, list[float]] = {}
    for row in compared:
        kinds.setdefault(f"{8 * row['element_bytes']:2} bits, {row['rows']:3} rows: {row['there']}", []).append(
            row["ratio"]
        )
    for kind, ratios in sorted(kinds.items()):
        print(f"{kind:80} {len(ratios):4} pairs, geomean {_geomean(ratios):.3f}, worst {min(ratios):.3f}")
    for row in sorted(compared, key=lambda each: each["ratio"])[:20]:
        print(
            f"  {row['ratio']:.3f}  {row['source']} | {row['destination']}, {8 * row['element_bytes']} bits, "
            f"{row['rows']} rows: {row['ours']} of ours ({row['there']} / {row['back']}, estimate {row['estimate']}), "
            f"{row['theirs']} of theirs"
        )
    for row in rows:
        if row.get("other", math.inf) < 0.95 * row["ours"]:
            print(
                f"  better otherwise: {row['source']} | {row['destination']}, {8 * row['element_bytes']} bits: "
                f"{row['other']} by {row['other_there']} / {row['other_back']} (estimate {row['other_estimate']}), "
                f"{row['ours']} as chosen (estimate {row['estimate']})"
            )
    ratios = [row["ratio"] for row in compared]
    summary: dict[str, Any] = {
        "pairs": len(rows),
        "compared": len(compared),
        "ours_right": sum(bool(row["ours_right"]) for row in rows),
        "theirs_right": sum(bool(row.get("theirs_right")) for row in rows),
        "geomean": round(_geomean(ratios), 3),
        "worst": min(ratios),
        "slower_by_more_than_5_percent": sum(ratio < 1 / 1.05 for ratio in ratios),
    }
    print(", ".join(f"{name} {value}" for name, value in summary.items()))
    return summary


def _geomean(ratios: list[float]) -> float:
    return math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.conversions", description=__doc__)
    add_arguments(parser)
    raise SystemExit(run(parser.parse_args()))
