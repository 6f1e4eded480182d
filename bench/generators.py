"""Products by the general generator against the template of products, each beside torch.mm, on random data.

    python -m bench generators [--drawn N --seed S] [--shape M,N,K] [--element KIND [--fast]] [--rounds N]
    python -m bench generators --computed [--rounds N]

How far is `lower.cascade`, which every other program goes through, from `lower.pipeline`, to which plain products of
Hopper still go? Three kernels of each product: what the template is decided to be, the general one, and the template
with the general one's tile, whole and by as many CTAs, so that what is emitted shows apart from what is decided. The
products are the suite `gemm`'s, or drawn as those of `random-gemm` are, of 16 bits or by --element of 8. With
--computed they are those of `bench computed`, one operand of which is computed on the way, each by both generators.

Not handled: right operands with rows in memory but by --rows-of-b. Checked by: a run.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bench import computed, wished
from bench.gemm_suites import gemm
from bench.random_gemm import drawn
from bench.record import write

if TYPE_CHECKING:
    from tilewright.runtime.bundle import Bundle
    from tilewright.synth.tile.wanted import Wanted

_MOST_OPERATIONS = 3e12
"""Of the suite's products: longer ones say nothing that shorter ones do not."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    wished.add_arguments(parser, len(_listed()))
    parser.add_argument("--drawn", type=int, default=0, metavar="N", help="so many drawn products besides")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="what is drawn (default 1)")
    parser.add_argument("--rows-of-b", action="store_true", help="right operands with rows in memory")
    kinds = ("bf16", "f8e4m3", "f8e5m2")
    parser.add_argument("--element", choices=kinds, default="bf16", help="of the operands (default bf16)")
    parser.add_argument("--protocols", action="store_true", help="prove protocols alone, and no texts")
    words = "compare both generators on the products of `bench computed` alone, an operand of which is computed"
    parser.add_argument("--computed", action="store_true", help=words)
    parser.add_argument("--fast", action="store_true", help="sums of 8-bit products by the tensor core alone")


def run(arguments: argparse.Namespace) -> int:
    return _computed(arguments) if arguments.computed else _plain(arguments)


def _computed(arguments: argparse.Namespace) -> int:
    """Template and walk of every product of `bench computed`, in one process and interleaved."""
    names = [(name, shape, walks) for shape in computed.SHAPES for name in computed.PROGRAMS for walks in (False, True)]
    begin = time.perf_counter()
    with ProcessPoolExecutor(arguments.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        bundles = list(pool.map(_of_computed, names))
    print(f"{len(bundles)} kernels compiled in {time.perf_counter() - begin:.0f} s", flush=True)
    import torch

    torch.manual_seed(0)
    rows: list[dict[str, Any]] = []
    for at in range(0, len(names), 2):
        name, shape, _ = names[at]
        ways: dict[str, Bundle] = dict(zip(("template", "walk"), bundles[at : at + 2], strict=True))
        rows.append(computed.generators_of(torch, name, shape, ways, arguments.rounds))
        row, wrong = rows[-1], "" if rows[-1]["right"] else "; WRONG"
        print(f"{name} {shape}: the walk takes {row['ratio']:.4f} of the template's time{wrong}", flush=True)
        torch.cuda.empty_cache()
    mean = math.exp(statistics.fmean(math.log(row["ratio"]) for row in rows))
    print(f"geometric mean {mean:.4f}; written to {write('generators-computed', rows, arguments.results)}")
    return 0 if all(row["right"] for row in rows) else 1


def _of_computed(work: tuple[str, computed.Shape, bool]) -> Bundle:
    from tilewright.synth.tile.wanted import Wanted

    name, shape, walks = work
    return computed.compiled(name, shape, Wanted(walked=walks), rerun=False).bundle()


def _plain(arguments: argparse.Namespace) -> int:
    shapes = [wished.shape_of(text) for text in arguments.shape or ()] or _listed()
    shapes += _drawn(arguments.drawn, arguments.seed)
    begin = time.perf_counter()
    element, fast = arguments.element, arguments.fast
    variants = [(shape, _wishes(shape, element, rows_of_b=arguments.rows_of_b, fast=fast)) for shape in shapes]
    compiled = wished.compile_each(
        variants, rows_of_b=arguments.rows_of_b, jobs=arguments.jobs, texts=not arguments.protocols, element=element
    )
    print(f"{sum(map(len, compiled))} kernels compiled and proved in {time.perf_counter() - begin:.0f} s", flush=True)
    import torch

    torch.manual_seed(0)
    rows: list[dict[str, Any]] = []
    for shape, bundles in zip(shapes, compiled, strict=True):
        found = wished.measure(
            torch, shape, bundles, arguments.rounds, rows_of_b=arguments.rows_of_b, element=element, fast=fast
        )
        about = {"shape": list(shape), "element": element, "fast": fast, "rows of b": arguments.rows_of_b}
        rows.append(about | found)
        words = ", ".join(f"{name} {ratio:.3f}" for name, ratio in found["ratios"].items())
        print(f"{shape}: {words}{''.join(f' WRONG: {name}' for name in found['wrong'])}", flush=True)
        for variant, refusal in found["refused"].items():
            print(f"    {variant}: {refusal[:150]}", flush=True)
        torch.cuda.empty_cache()
    print(f"written to {write('generators', rows, arguments.results)}")
    return 1 if any(row["wrong"] for row in rows) else 0


def _listed() -> list[wished.Shape]:
    return [(each.m, each.n, each.k) for each in gemm() if each.operations < _MOST_OPERATIONS]


def _drawn(count: int, seed: int) -> list[wished.Shape]:
    found = [(each.m, each.n, each.k) for each in drawn(seed) if each.dtype != "e4m3"]
    return found[:count]


def _wishes(shape: wished.Shape, element: str, *, rows_of_b: bool, fast: bool) -> dict[str, Wanted]:
    from tilewright.driver.compile.compile import compile_kernel
    from tilewright.driver.compile.kernels import matmul_kernel
    from tilewright.ir.cascade import CascadeDecisions
    from tilewright.synth.tile.wanted import Wanted

    m, n, k = shape
    usual = Wanted(accumulation="fast") if fast else Wanted()
    general = replace(usual, walked=True)
    found = {"template": usual, "general": general}
    strides = {} if rows_of_b else {"b": (1, k)}
    dims = {"M": m, "N": n, "K": k}
    d = compile_kernel(
        matmul_kernel, dims=dims, dtype={"a": element, "b": element, "c": "bf16"}, strides=strides, wanted=general,
        rerun=False, assembled=False,
    ).decisions  # fmt: skip
    if isinstance(d, CascadeDecisions):
        swapped = d.row == "N"
        how = f"{' transposed' if swapped else ''}{' in turn' if d.turns else ''}"
        how += f" by {d.teams} x {d.split}" if d.shares > 1 else ""
        name = f"template {d.tile_rows}x{d.tile_columns}{how}"
        found[name] = replace(
            usual, tile=(d.tile_rows, d.tile_columns), consumers=d.consumers, depth=d.tile_streamed,
            turns=bool(d.turns), swapped=swapped, split=d.split, cluster=d.cluster, stream_k=False, teams=d.teams,
        )  # fmt: skip
    return found
