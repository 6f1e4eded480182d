"""The cliff suite: matrix products whose operands break a rule of tensor maps, against every peer in turns.

Every case is one that a user meets: a vocabulary or feature count that is no multiple of eight, a slice that begins in
the middle of a row, a transposed view, a small batch times such weights. Each is an operand (or a result) whose row
stride or base is no multiple of 16 bytes, so that no tensor map describes it; nothing else is in the list, and nothing
that was tried was left out. Every side gets the same views (Triton its pointer kernel, where descriptors cannot be).
How it is measured: `bench.suite`. Kernels are compiled first, into bundles in the folder `--kernels`:

    python -m bench cliffs --prepare --kernels out/cliffs     # needs no GPU
    python -m bench cliffs --kernels out/cliffs

Some of cublasLt's algorithms for odd strides do not return, so a case is measured by a process that can be ended
(`bench.endable`). Reported beside: each case with its plan, and the time of each of its launches alone.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any, Literal, cast

from bench import suite
from bench.cublaslt import Calling, Watch
from bench.device_state import Sampler
from bench.endable import answer
from bench.gemm_suites import Product, Wishes
from bench.interleaved import Contender, captured, replay_milliseconds, sets_for
from bench.parts import add_part_argument, part_name, share
from bench.peers_gemm import NAMES, Arrays, element, peers_of
from bench.prepared import Refused, facts_of, load_prepared, prepare
from tilewright.base.plan import Launch
from tilewright.runtime.call import Program

_LAUNCH_TURNS = 7
_TUNING_SECONDS = 2.0
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
    wishes: Wishes = ()

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
    parser.add_argument("--peer", action="append", choices=NAMES, help="only these peers (default: all)")
    parser.add_argument(
        "--tuning-seconds", type=float, default=_TUNING_SECONDS, metavar="S",
        help="how long into a case's tuning algorithms of cublasLt's list are still begun (default %(default)s)",
    )  # fmt: skip
    add_part_argument(parser)
    suite.add_run_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    cases = [case for case in CASES if not arguments.only or any(words in case.name for words in arguments.only)]
    cases = share(cases, arguments.part)
    count, seconds = prepare(cases, arguments.kernels, arguments.jobs)
    print(f"{count} kernels compiled and proved in {seconds:.0f} s", flush=True)
    if arguments.prepare:
        for case in cases:
            program = load_prepared(case, arguments.kernels)
            reasons = [program.message] if isinstance(program, Refused) else reasons_of(program)
            print(f"{case.name}: {case.m}, {case.n}, {case.k}")
            print("".join(f"    {reason}\n" for reason in reasons), end="")
        return 0
    if arguments.processes > 1:
        return suite.repeat(part_name("cliffs", arguments.part), "cliffs", arguments)
    if "triton" in (arguments.peer or NAMES):
        _warm_triton(cases, arguments.jobs)
    begin = time.perf_counter()
    rows = suite.rows_of(cases, serve, arguments)
    return suite.finish(
        part_name("cliffs", arguments.part), "cliffs", rows, arguments.results, time.perf_counter() - begin
    )


def _warm_triton(cases: list[Case], jobs: int) -> None:
    """Triton compiles afresh for every pattern of strides; in processes, into its cache on disk."""
    try:
        import triton  # noqa: F401
    except ImportError:
        return
    begin = time.perf_counter()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(cases)), mp_context=context) as pool:
        list(pool.map(_warm_case, cases))
    print(f"Triton's configurations compiled in {time.perf_counter() - begin:.0f} s", flush=True)


def _warm_case(case: Case) -> None:
    import torch

    from bench.triton_tuning import warm

    dtype = element(torch, case.dtype)
    a, b = matrix(torch, case.m, case.k, case.a, dtype), matrix(torch, case.k, case.n, case.b, dtype)
    warm(torch, [(a, b)], matrix(torch, case.m, case.n, case.c, dtype))


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


def serve(connection: Connection, arguments: argparse.Namespace) -> None:
    """Measure what the connection asks for, as `bench.endable` says. The places are those of cublasLt's list."""
    torch, sampler = suite.made_ready(), Sampler()

    def measured(case: Case, stopped: frozenset[int], calling: Calling) -> dict[str, object]:
        return measure(torch, case, arguments, tuple(arguments.peer or NAMES), sampler, Watch(stopped, calling))

    answer(connection, measured)


def measure(
    torch: Any,
    case: Case,
    arguments: argparse.Namespace,
    wanted: Sequence[str],
    sampler: Sampler,
    watch: Watch,
) -> dict[str, object]:
    """One case's row. watch: told of cublasLt's calls."""
    torch.cuda.empty_cache()
    row: dict[str, object] = {
        "case": case.name,
        "shape": [case.m, case.n, case.k],
        "dtype": case.dtype,
        "strides": {name: list(view.strides(rows, columns)) for name, rows, columns, view in case.views},
        "offsets": {name: view.offset for name, _, _, view in case.views},
        "obstacles": list(case.obstacles),
    }
    program = load_prepared(case, arguments.kernels)
    if isinstance(program, Refused):
        return {**row, "refused": program.message}
    dtype = element(torch, case.dtype)
    m, n, k = case.m, case.n, case.k
    sets = sets_for(_ELEMENT_BYTES * (m * k + k * n), warm=arguments.warm)
    pairs = [(matrix(torch, m, k, case.a, dtype), matrix(torch, k, n, case.b, dtype)) for _ in range(sets)]
    output = matrix(torch, m, n, case.c, dtype)

    def call(index: int, program: Program = program) -> None:
        program(*pairs[index % sets], out=output)

    ours = Contender("ours", call, output, facts_of(program))
    product = Product(case.name, m, n, k, case.dtype, case.b.transposed)
    peers, absent = peers_of(
        torch, product, Arrays(pairs), sets=sets, wanted=wanted,
        output=lambda: matrix(torch, m, n, case.c, dtype), seconds=arguments.tuning_seconds,
        watch=watch,
    )  # fmt: skip
    row |= suite.raced(
        torch, [ours, *peers], absent, pairs[0], lambda: pairs[0][0].double() @ pairs[0][1].double(),
        product.operations, sets, arguments, sampler, watch,
    )  # fmt: skip
    batch = int(cast("int", row["calls"]))
    row["launch_microseconds"] = {
        launch.entry: statistics.median(
            1000 * replay_milliseconds(torch, graph) / batch
            for graph in [captured(torch, lambda index, part=part: part(*pairs[index % sets], out=output), batch)]
            for _ in range(_LAUNCH_TURNS)
        )
        for launch, part in single_launches(program)
    }
    return row
