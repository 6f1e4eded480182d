"""A product by several wished decisions, each against torch.mm beside it, on random data.

What the benchmarks of single choices share (`large_tiles`, `stream_k`): kernels are compiled and proved in parallel
processes; every replay of a variant stands between two of torch.mm, and a ratio is the mean of those two over it, so
that a clock that drifts moves both sides. Variants take turns in a rotating order; inputs rotate through sets that
together exceed the L2 cache. Every variant's answer is compared with torch.mm's.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.interleaved import calls_for, captured, replay_milliseconds, sets_for, single_milliseconds
from bench.record import write

if TYPE_CHECKING:
    from tilewright.runtime.bundle import Bundle
    from tilewright.synth.tile.wanted import Wanted

Shape = tuple[int, int, int]
Wishes = Mapping[str, "Wanted"]
"""What is fixed of each variant, by the variant's name."""
_MOST_DIFFERENCE = 1e-2


def add_arguments(parser: argparse.ArgumentParser, count: int) -> None:
    """count: how many shapes the list has."""
    parser.add_argument("--shape", action="append", metavar="M,N,K", help=f"a shape (default: a list of {count})")
    parser.add_argument("--rounds", type=int, default=8, help="timed rounds over all variants (default 8)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compiling processes")
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="folder of the result file")


def run(
    arguments: argparse.Namespace, name: str, shapes: Sequence[Shape], wishes: Wishes, *, rows_of_b: bool = False
) -> int:
    """Measure every shape's variants into NAME.json. Returns 1 where an answer was wrong."""
    if arguments.shape:
        shapes = [shape_of(text) for text in arguments.shape]
    begin = time.perf_counter()
    compiled = compile_all(shapes, wishes, rows_of_b=rows_of_b, jobs=arguments.jobs)
    print(f"{sum(map(len, compiled))} kernels compiled and proved in {time.perf_counter() - begin:.0f} s", flush=True)
    import torch

    torch.manual_seed(0)
    rows: list[dict[str, Any]] = []
    for shape, bundles in zip(shapes, compiled, strict=True):
        rows.append({"shape": list(shape), "rows of b": rows_of_b})
        rows[-1] |= measure(torch, shape, bundles, arguments.rounds, rows_of_b=rows_of_b)
        ratios = sorted(rows[-1]["ratios"].items(), key=lambda pair: -pair[1])
        print(f"{shape}: {', '.join(f'{variant} {ratio:.3f}' for variant, ratio in ratios)}", flush=True)
        for variant in rows[-1]["wrong"]:
            print(f"    WRONG: {variant}", flush=True)
        for variant, words in rows[-1]["refused"].items():
            print(f"    {variant}: {words[:150]}", flush=True)
        torch.cuda.empty_cache()
    print(f"written to {write(name, rows, arguments.results)}")
    return 1 if any(row["wrong"] for row in rows) else 0


def shape_of(text: str) -> Shape:
    """M,N,K of the command line."""
    m, n, k = map(int, text.split(","))
    return m, n, k


def compile_all(
    shapes: Sequence[Shape], wishes: Wishes, *, rows_of_b: bool, jobs: int
) -> list[dict[str, Bundle | str]]:
    """Of each shape its variants, proved, or the compiler's words where it refuses one."""
    return compile_each([(shape, wishes) for shape in shapes], rows_of_b=rows_of_b, jobs=jobs)


def compile_each(
    variants: Sequence[tuple[Shape, Wishes]], *, rows_of_b: bool, jobs: int, texts: bool = True, element: str = "bf16"
) -> list[dict[str, Bundle | str]]:
    """As `compile_all`, each shape with variants of its own. texts: whether each text is proved too, on a small
    instance; their protocols are in any case. element: of the operands."""
    work = [(shape, wanted, rows_of_b, texts, element) for shape, wishes in variants for wanted in wishes.values()]
    # Spawned, since CUDA may not be used on both sides of a fork.
    with ProcessPoolExecutor(min(jobs, len(work)), mp_context=multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(_compiled, work))
    bundles = iter(found)
    return [{name: next(bundles) for name in wishes} for _, wishes in variants]


def _compiled(work: tuple[Shape, Wanted, bool, bool, str]) -> Bundle | str:
    from tilewright.base.error import TilewrightError
    from tilewright.driver.compile.compile import compile_kernel
    from tilewright.driver.compile.kernels import matmul_kernel

    (m, n, k), wanted, rows_of_b, texts, element = work
    strides = {} if rows_of_b else {"b": (1, k)}
    try:
        dims = {"M": m, "N": n, "K": k}
        kinds = {"a": element, "b": element, "c": "bf16"}
        return compile_kernel(
            matmul_kernel, dims=dims, dtype=kinds, strides=strides, wanted=wanted, rerun=texts
        ).bundle()
    except TilewrightError as refusal:
        return str(refusal)


def measure(
    torch: Any, shape: Shape, bundles: Mapping[str, Bundle | str], rounds: int, *, rows_of_b: bool,
    element: str = "bf16", fast: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """ratios: median over rounds of torch.mm's time over each variant's, by name; refused: the compiler's words;
    wrong: the names of those whose answer is far from torch.mm's. Of 8 bits, torch._scaled_mm stands in for that; fast:
    whether it may leave sums to the tensor core."""
    from tilewright.runtime.call import Program

    programs = {name: Program(bundle) for name, bundle in bundles.items() if not isinstance(bundle, str)}
    m, n, k = shape
    options: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    kind = {"bf16": torch.bfloat16, "f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2}[element]
    sets = sets_for(kind.itemsize * (m * k + k * n), warm=False)
    right = (lambda: torch.randn(k, n, **options)) if rows_of_b else (lambda: torch.randn(n, k, **options).t())
    pairs = [(torch.randn(m, k, **options).to(kind), right().to(kind)) for _ in range(sets)]
    one = torch.ones((), device="cuda")
    out, theirs = torch.empty(m, n, **options), torch.empty(m, n, **options)

    def multiply(index: int) -> None:
        if element == "bf16":
            torch.mm(*pairs[index % sets], out=theirs)
        else:
            torch._scaled_mm(
                *pairs[index % sets],
                scale_a=one,
                scale_b=one,
                out_dtype=torch.bfloat16,
                use_fast_accum=fast,
                out=theirs,
            )

    multiply(0)
    expected, wrong = theirs.clone(), list[str]()
    for name, program in programs.items():
        out.fill_(float("nan"))
        program(*pairs[0], out=out)
        difference = float((out - expected).norm() / expected.norm())
        if not difference <= _MOST_DIFFERENCE:
            wrong.append(name)
    calls = calls_for(single_milliseconds(torch, multiply, sets), sets)
    peer = captured(torch, multiply, calls)
    graphs = {
        name: captured(torch, lambda index, program=program: program(*pairs[index % sets], out=out), calls)
        for name, program in programs.items()
    }
    names = list(graphs)
    ratios: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        before = replay_milliseconds(torch, peer)
        for place in range(len(names)):
            name = names[(number + place) % len(names)]
            ours = replay_milliseconds(torch, graphs[name])
            after = replay_milliseconds(torch, peer)
            ratios[name].append((before + after) / 2 / ours)
            before = after
    return {
        "ratios": {name: round(statistics.median(values), 4) for name, values in ratios.items()},
        "refused": {name: words for name, words in bundles.items() if isinstance(words, str)},
        "wrong": wrong,
    }
