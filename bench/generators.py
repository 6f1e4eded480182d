"""Products by the general generator against the template of products, each beside torch.mm, on random data.

    python -m bench generators [--drawn N --seed S] [--shape M,N,K] [--element KIND [--fast | --scaled]] [--rounds N]

How far is `lower.cascade`, which every other program goes through, from `lower.pipeline`, to which plain products of
Hopper still go? Three kernels of each product: what the template is decided to be, the general one, and the template
with the general one's tile, whole and by as many CTAs, so that what is emitted shows apart from what is decided. The
products are the suite `gemm`'s, or drawn as those of `random-gemm` are, of 16 bits or by --element of 8; --scaled, of
the suite `fp8` those whose factors are of blocks, and few rows of them.

Not handled: right operands with rows in memory but by --rows-of-b. Checked by: a run.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bench import wished
from bench.gemm_suites import fp8, gemm
from bench.random_gemm import drawn
from bench.record import write

if TYPE_CHECKING:
    from tilewright.synth.tile.wanted import Wanted

_MOST_OPERATIONS = 3e12
"""Of the suite's products: longer ones say nothing that shorter ones do not."""
_FEW = (8, 64, 512)
"""Rows of products that the suite has not."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    wished.add_arguments(parser, len(_listed()))
    parser.add_argument("--drawn", type=int, default=0, metavar="N", help="so many drawn products besides")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="what is drawn (default 1)")
    parser.add_argument("--rows-of-b", action="store_true", help="right operands with rows in memory")
    kinds = ("bf16", "f8e4m3", "f8e5m2")
    parser.add_argument("--element", choices=kinds, default="bf16", help="of the operands (default bf16)")
    parser.add_argument("--protocols", action="store_true", help="prove protocols alone, and no texts")
    parser.add_argument("--fast", action="store_true", help="sums of 8-bit products by the tensor core alone")
    parser.add_argument("--scaled", action="store_true", help="8-bit products scaled by blocks of 128 in their loop")


def run(arguments: argparse.Namespace) -> int:
    scaled = arguments.scaled
    shapes = [wished.shape_of(text) for text in arguments.shape or ()] or (_scaled() if scaled else _listed())
    shapes += _drawn(arguments.drawn, arguments.seed)
    begin = time.perf_counter()
    element, fast = arguments.element, arguments.fast
    if scaled and (element == "bf16" or fast or arguments.rows_of_b):
        raise SystemExit("--scaled takes an --element of 8 bits, without --fast and --rows-of-b")
    kind: dict[str, Any] = {"rows_of_b": arguments.rows_of_b, "scaled": scaled}
    variants = [(shape, _wishes(shape, element, fast=fast, **kind)) for shape in shapes]
    compiled = wished.compile_each(
        variants, jobs=arguments.jobs, texts=not arguments.protocols, element=element, **kind
    )
    print(f"{sum(map(len, compiled))} kernels compiled and proved in {time.perf_counter() - begin:.0f} s", flush=True)
    import torch

    torch.manual_seed(0)
    rows: list[dict[str, Any]] = []
    for shape, bundles in zip(shapes, compiled, strict=True):
        found = wished.measure(torch, shape, bundles, arguments.rounds, element=element, fast=fast, **kind)
        about = {"shape": list(shape), "element": element, "fast": fast, "rows of b": arguments.rows_of_b}
        about |= {"scaled": True} if scaled else {}
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


def _scaled() -> list[wished.Shape]:
    listed = [(each.m, each.n, each.k) for each in fp8() if each.scaling == "block"]
    return listed + [(m, n, k) for n, k in ((7168, 2048), (2112, 7168), (4096, 7168)) for m in _FEW]


def _drawn(count: int, seed: int) -> list[wished.Shape]:
    found = [(each.m, each.n, each.k) for each in drawn(seed) if each.dtype != "e4m3"]
    return found[:count]


def _wishes(shape: wished.Shape, element: str, *, rows_of_b: bool, fast: bool, scaled: bool) -> dict[str, Wanted]:
    from tilewright.driver.compile.compile import compile_kernel
    from tilewright.ir.cascade import CascadeDecisions
    from tilewright.synth.tile.wanted import Wanted

    usual = Wanted(accumulation="fast") if fast else Wanted()
    general = replace(usual, walked=True)
    found = {"template": usual, "general": general}
    kernel, options = wished.product_of(shape, element, rows_of_b=rows_of_b, scaled=scaled)
    d = compile_kernel(kernel, wanted=general, rerun=False, assembled=False, **options).decisions
    if isinstance(d, CascadeDecisions) and not scaled:
        swapped = d.row == "N"
        how = f"{' transposed' if swapped else ''}{' in turn' if d.turns else ''}"
        how += f" by {d.teams} x {d.split}" if d.shares > 1 else ""
        name = f"template {d.tile_rows}x{d.tile_columns}{how}"
        found[name] = replace(
            usual, tile=(d.tile_rows, d.tile_columns), consumers=d.consumers, depth=d.tile_streamed,
            turns=bool(d.turns), swapped=swapped, split=d.split, cluster=d.cluster, stream_k=False, teams=d.teams,
        )  # fmt: skip
    return found
