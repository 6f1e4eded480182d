"""Grouped products (mixtures of experts), rows routed at random, against every peer in turns.

How it is measured: `bench.suite`. Ten layers of public models, in `bench.moe_shapes`; all inputs are bf16, weights
(experts, N, K) row-major, rows sorted by expert, `ends` on the GPU as torch._grouped_mm takes them. Only set 0 of the
weights is compared with float64, expert by expert.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bench import suite
from bench.device_state import Sampler
from bench.interleaved import Contender, sets_for
from bench.moe_shapes import CASES, Grouped, counts
from bench.peers_gemm import Absent
from bench.peers_grouped import NAMES, GroupedArrays, peers_of
from bench.prepared import Refused, facts_of, load_prepared, prepare

if TYPE_CHECKING:
    from tilewright.runtime.call import Program


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", action="append", metavar="WORDS", help="cases whose name contains these words")
    parser.add_argument("--peer", action="append", choices=NAMES, help="only these peers (default: all)")
    parser.add_argument(
        "--depth", action="append", type=int, default=[], metavar="ELEMENTS", help="our kernel with such slices beside"
    )
    suite.add_run_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    cases = [case for case in CASES if not arguments.only or any(words in case.name for words in arguments.only)]
    if not cases:
        raise SystemExit("no case has such a name")
    wished = [_with_slices(case, depth) for case in cases for depth in arguments.depth]
    count, seconds = prepare([*cases, *wished], arguments.kernels, arguments.jobs)
    print(f"{count} kernels compiled and proved in {seconds:.0f} s", flush=True)
    if arguments.prepare:
        return suite.said_refusals(cases, arguments.kernels)
    if arguments.processes > 1:
        return suite.repeat("grouped", "grouped", arguments)
    import torch

    torch.manual_seed(0)
    wanted = tuple(arguments.peer or NAMES)
    sampler = Sampler()
    rows: list[dict[str, object]] = []
    begin = time.perf_counter()
    print(suite.heading(), flush=True)
    for case in cases:
        rows.append(measure(torch, case, arguments, wanted, sampler))
        print(suite.line_of(rows[-1]), flush=True)
        torch.cuda.empty_cache()
    return suite.finish("grouped", "grouped", rows, arguments.results, time.perf_counter() - begin)


def _with_slices(case: Grouped, depth: int) -> Grouped:
    """The case with our kernel's slices so deep."""
    return replace(case, wishes=(("depth", depth),))


def measure(
    torch: Any, case: Grouped, arguments: argparse.Namespace, wanted: Sequence[str], sampler: Sampler
) -> dict[str, object]:
    """One case's row. Where the compiler refuses it, the peers are measured all the same."""
    rows_of = counts(case)
    row: dict[str, object] = {
        "case": case.name,
        "shape": [case.rows, case.n, case.k],
        "experts": case.experts,
        "counts": list(rows_of),
        "dtype": "bf16",
    }
    size = 2 * (case.rows * case.k + case.experts * case.n * case.k)
    sets = sets_for(size, warm=arguments.warm)
    options: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    pairs = [
        (torch.randn(case.rows, case.k, **options), torch.randn(case.experts, case.n, case.k, **options))
        for _ in range(sets)
    ]
    ends = torch.tensor(rows_of, device="cuda", dtype=torch.int32).cumsum(0, dtype=torch.int32)
    arrays = GroupedArrays(pairs, ends, rows_of)
    peers, absent = peers_of(torch, arrays, sets=sets, wanted=wanted)
    program = load_prepared(case, arguments.kernels)
    contenders = peers
    if isinstance(program, Refused):
        row["refused"] = program.message
    else:
        output = torch.empty(case.rows, case.n, **options)

        def ours(name: str, run: Program) -> Contender:
            return Contender(name, lambda index: run(*pairs[index % sets], ends, out=output), output, facts_of(run))

        contenders = [ours("ours", program), *peers]
        for depth in arguments.depth:
            other = load_prepared(_with_slices(case, depth), arguments.kernels)
            if isinstance(other, Refused):
                absent.append(Absent(f"slices of {depth}", other.message))
            else:
                contenders.append(ours(f"slices of {depth}", other))
    x, w = pairs[0]

    def exact() -> Any:
        result = torch.empty(case.rows, case.n, device="cuda", dtype=torch.float64)
        begin = 0
        for group, number in enumerate(rows_of):
            if number:
                result[begin : begin + number] = x[begin : begin + number].double() @ w[group].double().t()
            begin += number
        return result

    return row | suite.raced(
        torch, contenders, absent, (x, *w.unbind(0)), exact, case.operations, sets, arguments, sampler
    )
