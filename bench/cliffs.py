"""The cliff suite: matrix products whose operands break a rule of tensor maps, against torch.mm in one interleaved run.

Every case is one that a user meets: a vocabulary or feature count that is no multiple of eight, a slice that begins in
the middle of a row, a transposed view, a small batch times such weights. Each is an operand (or a result) whose row
stride or base is no multiple of 16 bytes, so that no tensor map describes it; nothing else is in the list, and nothing
that was tried was left out. Both sides get the same views, are captured in CUDA graphs of several calls and replayed in
turns on random data that exceeds the L2 cache; ratio is torch.mm's time over ours, so above 1 is faster than torch.

Kernels are compiled first, in parallel processes, into bundles in the folder `--kernels`, and taken from there where
they are there already. So a machine can run what another one compiled, without solvers or an assembler:

    python -m bench cliffs --compile-only --kernels out/cliffs     # needs no GPU
    python -m bench cliffs --kernels out/cliffs

Reported: each case with its plan, geometric mean, worst.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import math
import multiprocessing
import os
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

from bench.gemm import captured, replay_milliseconds
from bench.record import write
from tilewright.base.plan import Launch
from tilewright.runtime.call import Program

_ROTATION_BYTES = 192 << 20
_MOST_SETS = 16
_LAUNCH_TURNS = 7
_BASE_ALIGNMENT_BYTES = 16
_ELEMENT_BYTES = 2


@dataclass(frozen=True, slots=True)
class View:
    """How a matrix lies in a larger allocation. leading: elements from row to row (of the transpose, where
    `transposed`), 0 for dense rows; offset: elements from the allocation's beginning to the matrix's first."""

    leading: int = 0
    offset: int = 0
    transposed: bool = False

    def strides(self, rows: int, columns: int) -> tuple[int, int]:
        """In elements."""
        if self.transposed:
            return 1, self.leading or rows
        return self.leading or columns, 1

    @property
    def misaligned(self) -> bool:
        return self.offset * _ELEMENT_BYTES % _BASE_ALIGNMENT_BYTES != 0


DENSE = View()
TRANSPOSED = View(transposed=True)


@dataclass(frozen=True, slots=True)
class Case:
    """c = a @ b with a (m, k), b (k, n), c (m, n), each a view."""

    name: str
    m: int
    n: int
    k: int
    a: View = DENSE
    b: View = DENSE
    c: View = DENSE
    dtype: Literal["bf16", "f16"] = "bf16"

    @property
    def views(self) -> tuple[tuple[str, int, int, View], ...]:
        """(name, rows, columns, view) of every matrix."""
        return ("a", self.m, self.k, self.a), ("b", self.k, self.n, self.b), ("c", self.m, self.n, self.c)

    @property
    def obstacles(self) -> tuple[str, ...]:
        """What keeps a tensor map from each matrix, in words."""
        return tuple(_obstacles(self))


def _obstacles(case: Case) -> Iterator[str]:
    for name, rows, columns, view in case.views:
        pitch = max(view.strides(rows, columns)) * _ELEMENT_BYTES
        if pitch % _BASE_ALIGNMENT_BYTES:
            yield f"{name}: rows {pitch} bytes apart"
        if view.misaligned:
            yield f"{name}: begins {view.offset * _ELEMENT_BYTES % _BASE_ALIGNMENT_BYTES} bytes past a multiple of 16"


CASES = (
    # odd sizes, every orientation
    Case("odd M and N", 4097, 4095, 4096),
    Case("odd K", 4096, 4096, 4095),
    Case("odd N", 4096, 4095, 4096),
    Case("all odd", 4095, 4093, 4097),
    Case("odd K, right transposed (linear layer)", 4096, 4096, 4095, b=TRANSPOSED),
    Case("odd M, left transposed", 4097, 4096, 4096, a=TRANSPOSED),
    Case("odd M and N, left transposed (weight gradient)", 4095, 4097, 4096, a=TRANSPOSED),
    Case("all odd, both transposed", 4095, 4097, 4093, a=TRANSPOSED, b=TRANSPOSED),
    Case("K of 4 past a multiple of 8", 4096, 4096, 4100, dtype="f16"),
    Case("K of 2 past a multiple of 8", 4096, 4096, 4098),
    Case("small odd cube", 1023, 1023, 1023),
    Case("small odd K", 1024, 1024, 1025, b=TRANSPOSED, dtype="f16"),
    Case("middling odd N", 2048, 2047, 2048),
    Case("large odd K", 8192, 8192, 8191),
    Case("large, all odd", 8191, 8193, 8191, b=TRANSPOSED),
    # vocabularies and features of public models
    Case("GPT-2 logits (vocabulary 50257)", 2048, 50257, 768, b=TRANSPOSED),
    Case("GPT-2 logits, gradient of the input", 2048, 768, 50257),
    Case("GPT-2 logits, gradient of the weight", 50257, 768, 2048, a=TRANSPOSED),
    Case("Llama with one added token (32001)", 4096, 32001, 4096, b=TRANSPOSED),
    Case("BERT logits (vocabulary 30522)", 4096, 30522, 1024, b=TRANSPOSED, dtype="f16"),
    # bases in the middle of a 16-byte unit
    Case("left begins 1 element in", 4096, 4096, 4096, a=View(offset=1)),
    Case("right begins 2 elements in", 4096, 4096, 4096, b=View(offset=2)),
    Case("right transposed, begins 3 elements in", 4096, 4096, 4096, b=View(offset=3, transposed=True), dtype="f16"),
    Case("both begin 4 elements in", 4096, 4096, 4096, a=View(offset=4), b=View(offset=4)),
    # slices of larger tensors
    Case("columns 1: of a padded left", 4096, 4096, 4095, a=View(leading=4096, offset=1)),
    Case("columns 3: of an odd left, linear layer", 4096, 4096, 4096, a=View(4099, 3), b=TRANSPOSED),
    Case("keys of a fused QKV with a gate column", 4096, 4096, 4096, a=View(3 * 4096 + 1, 4096)),
    Case("weight columns 5: of an odd row", 2048, 4096, 4096, b=View(4101, 5)),
    Case("result into columns 1: of a padded array", 4096, 4096, 4096, c=View(4104, 1)),
    Case("second row on, 1027 features", 4096, 1024, 1027, a=View(1027, 1027)),
    # few rows: the weights' bytes are the time
    Case("16 rows, weights of odd K", 16, 4096, 4095, b=TRANSPOSED),
    Case("64 rows, weights of odd K", 64, 4096, 4095, b=TRANSPOSED),
    Case("128 rows, weights of odd K", 128, 14336, 4095, b=TRANSPOSED),
    Case("16 rows, odd vocabulary", 16, 32001, 4096, b=TRANSPOSED),
    Case("64 rows, odd N", 64, 4095, 4096),
    Case("128 rows, weights begin 1 element in", 128, 4096, 4096, b=View(offset=1, transposed=True), dtype="f16"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", action="append", metavar="WORDS", help="cases whose name contains these words")
    parser.add_argument("--turns", type=int, default=20, help="timed turns of each implementation (default 20)")
    parser.add_argument("--kernels", type=Path, default=Path("out/cliffs"), help="folder of compiled kernels")
    parser.add_argument("--compile-only", action="store_true", help="compile afresh what runs later, and stop")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compiling processes")
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="folder of the result file")


def run(arguments: argparse.Namespace) -> int:
    cases = [case for case in CASES if not arguments.only or any(words in case.name for words in arguments.only)]
    begin = time.perf_counter()
    arguments.kernels.mkdir(parents=True, exist_ok=True)
    todo = [case for case in cases if arguments.compile_only or not kernel_file(arguments.kernels, case).exists()]
    if todo:
        compile_all(todo, arguments.kernels, arguments.jobs)
        print(f"{len(todo)} kernels compiled and proved in {time.perf_counter() - begin:.0f} s", flush=True)
    if arguments.compile_only:
        for case in cases:
            print(f"{case.name}: {case.m}, {case.n}, {case.k}")
            print("".join(f"    {reason}\n" for reason in reasons_of(load_kernel(arguments.kernels, case))), end="")
        return 0
    import torch

    torch.manual_seed(0)
    rows: list[dict[str, object]] = []
    print(f"{'case':>48}  {'M, N, K':>18}  {'ratio':>6}  {'quartiles':>13}  {'us':>7}  {'torch':>7}  error")
    for case in cases:
        row = measure(torch, case, load_kernel(arguments.kernels, case), arguments.turns)
        rows.append(row)
        low, high = row["quartiles"]  # type: ignore[misc]
        print(
            f"{case.name:>48}  {f'{case.m}, {case.n}, {case.k}':>18}  {row['ratio']:6.3f}  {low:6.3f}-{high:6.3f}  "
            f"{row['microseconds']:7.1f}  {row['torch_microseconds']:7.1f}  {row['relative_error']:.1e}",
            flush=True,
        )
    ratios = [float(str(row["ratio"])) for row in rows]
    print(f"{len(rows)} cases: geometric mean {statistics.geometric_mean(ratios):.3f}, worst {min(ratios):.3f}")
    print(f"written to {write('cliffs', rows, arguments.results)} after {time.perf_counter() - begin:.0f} s")
    return 0


def kernel_file(folder: Path, case: Case) -> Path:
    """Where a case's bundle is kept. The name tells cases apart, whatever their place in the list."""
    digest = hashlib.sha256(repr(case).encode()).hexdigest()[:16]
    return folder / f"{digest}.twb"


def compile_all(cases: list[Case], folder: Path, jobs: int) -> None:
    """Compile every case into its bundle, in processes of their own."""
    # Spawned, since CUDA may not be used on both sides of a fork.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(cases)), mp_context=context) as pool:
        list(pool.map(compile_case, cases, itertools.repeat(folder)))


def compile_case(case: Case, folder: Path) -> None:
    """The kernel that `tilewright.matmul` makes for such arrays, compiled, proved and kept."""
    from tilewright.driver.kernels import matmul_kernel
    from tilewright.driver.ready import compile_for
    from tilewright.runtime.bundle import save
    from tilewright.synth.decide import Wanted

    strides = {name: view.strides(rows, columns) for name, rows, columns, view in case.views}
    misaligned = tuple(name for name, _, _, view in case.views if view.misaligned)
    compiled = compile_for(
        matmul_kernel,
        {"M": case.m, "N": case.n, "K": case.k},
        dtype=case.dtype,
        strides=strides,
        wanted=Wanted(misaligned=misaligned),
        cached=False,
    )
    save(compiled.bundle, kernel_file(folder, case))


def load_kernel(folder: Path, case: Case) -> Program:
    from tilewright.runtime.bundle import load

    return Program(load(kernel_file(folder, case)))


def single_launches(program: Program) -> list[tuple[Launch, Program]]:
    """Each launch of a program as a program of its own, to be timed alone. Its workspaces hold zeros, with which a
    multiprocessor multiplies a little faster than with numbers."""
    bundle = program.bundle
    return [
        (launch, Program(replace(bundle, plan=replace(bundle.plan, launches=(launch,)))))
        for launch in bundle.plan.launches
    ]


def reasons_of(program: Program) -> list[str]:
    """Why each part of the plan is as it is."""
    return list(cast("dict[str, Any]", program.bundle.decisions)["reasons"])


def matrix(torch: Any, rows: int, columns: int, view: View, dtype: Any) -> Any:
    """Random numbers as that view of a fresh allocation, which begins at a multiple of 256 bytes."""
    strides = view.strides(rows, columns)
    span = view.offset + 1 + (rows - 1) * strides[0] + (columns - 1) * strides[1]
    storage = torch.randn(span, device="cuda", dtype=dtype)
    return torch.as_strided(storage, (rows, columns), strides, view.offset)


def measure(torch: Any, case: Case, program: Program, turns: int) -> dict[str, object]:
    """One case: both sides in turns, and the errors of both against a product in float64."""
    dtype = torch.bfloat16 if case.dtype == "bf16" else torch.float16
    m, n, k = case.m, case.n, case.k
    sets = min(_MOST_SETS, max(2, -(-_ROTATION_BYTES // (_ELEMENT_BYTES * (m * k + k * n)))))
    pairs = [(matrix(torch, m, k, case.a, dtype), matrix(torch, k, n, case.b, dtype)) for _ in range(sets)]
    ours, theirs = matrix(torch, m, n, case.c, dtype), matrix(torch, m, n, case.c, dtype)

    def run_ours(index: int) -> None:
        program(*pairs[index % sets], out=ours)

    def run_theirs(index: int) -> None:
        torch.mm(*pairs[index % sets], out=theirs)

    batch = max(sets, min(20, math.ceil(5e11 / (m * n * k))))
    graphs = {"ours": captured(torch, run_ours, batch), "theirs": captured(torch, run_theirs, batch)}
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(turns):
        for name, graph in graphs.items():
            times[name].append(1000 * replay_milliseconds(torch, graph) / batch)
    errors: dict[str, float] = {}
    exact = (pairs[0][0].double() @ pairs[0][1].double()).float()
    for name, result, call in (("ours", ours, run_ours), ("theirs", theirs, run_theirs)):
        result.fill_(float("nan"))
        call(0)
        errors[name] = ((result.float() - exact).norm() / exact.norm()).item()
    parts = {
        launch.entry: captured(torch, lambda index, part=part: part(*pairs[index % sets], out=ours), batch)
        for launch, part in single_launches(program)
    }
    alone = {
        entry: statistics.median(1000 * replay_milliseconds(torch, graph) / batch for _ in range(_LAUNCH_TURNS))
        for entry, graph in parts.items()
    }
    ratios = [their_us / our_us for our_us, their_us in zip(times["ours"], times["theirs"], strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    return {
        "case": case.name,
        "shape": [m, n, k],
        "dtype": case.dtype,
        "strides": {name: list(view.strides(rows, columns)) for name, rows, columns, view in case.views},
        "offsets": {name: view.offset for name, _, _, view in case.views},
        "obstacles": list(case.obstacles),
        "plan": reasons_of(program),
        "ratio": statistics.median(ratios),
        "quartiles": [low, high],
        "microseconds": statistics.median(times["ours"]),
        "torch_microseconds": statistics.median(times["theirs"]),
        "launch_microseconds": alone,
        "assembler": str(program.bundle.facts.get("assembler", "none")),
        "turns": turns,
        "batch": batch,
        "relative_error": errors["ours"],
        "torch_relative_error": errors["theirs"],
    }
