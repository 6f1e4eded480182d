"""Pairs of CTAs that share what they load against single CTAs of the same tile, cold, interleaved, on random data.

A pair along M (2x1) shares B's columns, along N (1x2) A's rows; each CTA fetches half of it for both. Of each product
the compiler's own tile is tried by all three, and tiles of other sizes, shared by consumers and in turn. All are proved
before they run; their answers are compared with float64's, of the first rows. With `--alone`, each contender of some
products runs alone too, for what energy it takes: at the power cap that is what time comes from (`bench.energy`).
Peers: the best of cublasLt's list.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.decided import decided_walk
from bench.energy import open_counter, run_alone
from bench.gemm_suites import Product
from bench.interleaved import (
    Contender,
    Race,
    calls_for,
    captured,
    race,
    replay_milliseconds,
    sets_for,
    single_milliseconds,
)
from bench.our_products import arguments_of
from bench.prepared import Refused, load_prepared, prepare
from bench.record import write
from bench.tile_names import tile_names

if TYPE_CHECKING:
    from tilewright.ir.cascade import CascadeDecisions

CLUSTERS = ((1, 1), (2, 1), (1, 2))
CHOSEN = "chosen"
_ROWS_COMPARED = 512
_MOST_DIFFERENCE = 2e-2
"""Of the norm of the difference from float64 over the norm, of bf16 and of sums of 8-bit operands."""
_TURNS = 10


@dataclass(frozen=True, slots=True)
class Tile:
    """Rows and columns, by two consumers, and whether they take whole tiles in turn. swapped: None leaves it open."""

    rows: int
    columns: int
    turns: bool
    consumers: int = 2
    swapped: bool | None = None

    @property
    def words(self) -> str:
        return f"{self.rows}x{self.columns} {'in turn' if self.turns else 'shared'}"


_LARGE = (Tile(128, 256, turns=False), Tile(256, 128, turns=False), Tile(128, 128, turns=True))
_SMALL = (Tile(128, 64, turns=False), Tile(128, 96, turns=False), Tile(128, 128, turns=False), *_LARGE)
_ROWS = (64, 128)
_WEIGHTS = (
    ("Llama 3 8B, attention out", 4096, 4096),
    ("Llama 3 8B, gate", 14336, 4096),
    ("Llama 3 8B, QKV", 6144, 4096),
    ("DeepSeek V3, QKV down", 2112, 7168),
    ("Llama 3 70B, attention out", 8192, 8192),
)
_THIN = {
    (rows, n): (Tile(rows, columns, turns=False, consumers=rows // 64, swapped=False),)
    for rows in _ROWS
    for _, n, _ in _WEIGHTS
    # One tile for each multiprocessor.
    for columns in ((-(-n // 132) + 7) // 8 * 8,)
}
"""Few rows, which all CTAs fetch: tiles of all of them, that pairs along N share."""
_BLOCKS = (Tile(128, 128, turns=False), Tile(192, 128, turns=False, consumers=3))
_BLOCK_SHAPES = (
    (4096, 7168, 16384),
    (4096, 7168, 8192),
    (4096, 7168, 4096),
    (4096, 7168, 2048),
    (8192, 7168, 2048),
    (2048, 7168, 16384),
    (8192, 4096, 7168),
    (4096, 4096, 7168),
    (4096, 2112, 7168),
    (4096, 24576, 1536),
    (4096, 32768, 512),
    (8192, 2112, 7168),
    (4096, 8192, 8192),
    (6144, 5120, 5120),
    (2048, 5120, 12288),
)
"""Layers of DeepSeek V3 with several numbers of rows, one of them at several depths, and four others;
`synth.distribution.cluster_shape` is fitted to them."""
CASES: tuple[tuple[Product, tuple[Tile, ...]], ...] = (
    *((Product(f"square {side}", side, side, side), _SMALL) for side in (1024, 1152, 1536, 2048)),
    (Product("square 4096", 4096, 4096, 4096), _LARGE),
    (Product("square 8192, B row-major", 8192, 8192, 8192, transposed=False), _LARGE),
    (Product("Llama 3 8B, QKV", 4096, 6144, 4096), _LARGE),
    (Product("Llama 3 70B, QKV", 8192, 10240, 8192), _LARGE),
    (Product("Qwen 2.5 32B, gate or up", 2048, 27648, 5120), _LARGE),
    (Product("DeepSeek V3, shared expert down", 4096, 7168, 2048), _LARGE),
    (Product("square 12288", 12288, 12288, 12288), _LARGE),
    *((Product(f"{name}, {rows} rows", rows, n, k), _THIN[rows, n]) for rows in _ROWS for name, n, k in _WEIGHTS),
    (Product("DeepSeek V3, 8 bits", 4096, 7168, 16384, "e4m3", scaling="tensor"), ()),
    (Product("DeepSeek V3, 8 bits, fast", 4096, 7168, 16384, "e4m3", scaling="row", accumulation="fast"), ()),
    *(
        (Product(f"blocks of 8 bits, {m}, {n}, {k}", m, n, k, "e4m3", scaling="block"), _BLOCKS)
        for m, n, k in _BLOCK_SHAPES
    ),
)
"""Products, and the tiles that are tried besides the chosen one."""
ALONE = ("square 4096", "Llama 3 70B, QKV")
"""Names of the products whose contenders run alone too."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--turns", type=int, default=_TURNS, help=f"timed turns of all (default {_TURNS})")
    parser.add_argument("--only", action="append", metavar="WORDS", help="products whose names hold these words")
    parser.add_argument("--alone", action="store_true", help="run contenders alone too, and read the energy they take")
    parser.add_argument("--kernels", type=Path, default=Path("out/clusters"), help="folder of compiled kernels")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compiling processes")
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="folder of the result file")


def run(arguments: argparse.Namespace) -> int:
    cases = [case for case in CASES if not arguments.only or any(words in case[0].name for words in arguments.only)]
    variants = [variants_of(product, tiles) for product, tiles in cases]
    count, seconds = prepare([each for some in variants for each in some.values()], arguments.kernels, arguments.jobs)
    print(f"{count} kernels compiled and proved in {seconds:.0f} s", flush=True)
    import torch

    rows: list[dict[str, object]] = []
    for (product, _), named in zip(cases, variants, strict=True):
        rows.append(measure(torch, product, named, arguments))
        print("\n".join(lines_of(rows[-1])), flush=True)
        write("clusters", rows, arguments.results)
        torch.cuda.empty_cache()
    print(f"written to {arguments.results / 'clusters.json'}")
    return 1 if any(row["wrong"] for row in rows) else 0


def variants_of(product: Product, tiles: Sequence[Tile]) -> dict[str, Product]:
    """What is compiled for a product: the choice, and each tile by itself and in pairs, under the names of its race."""
    decided = decided_for(product)
    names = tile_names(decided)
    own = Tile(names["tile_m"], names["tile_n"], bool(decided.turns), decided.consumers, bool(names["swapped"]))
    named = {CHOSEN: product}
    for tile in dict.fromkeys((own, *(each for each in tiles if each.words != own.words))):
        across = (product.n, product.m) if tile.swapped else (product.m, product.n)
        for cluster in CLUSTERS:
            if any(
                ctas > 1 and extent <= size
                for ctas, extent, size in zip(cluster, across, (tile.rows, tile.columns), strict=True)
            ):
                # The second CTA of each pair would have nothing of the result.
                continue
            wishes: dict[str, object] = {
                "tile": (tile.rows, tile.columns),
                "consumers": tile.consumers,
                "turns": tile.turns,
                "cluster": cluster,
                # Of what pairs cannot be.
                "stream_k": False,
            }
            if tile.swapped is not None:
                wishes["swapped"] = tile.swapped
            named[name_of(tile.words, cluster)] = dataclasses.replace(product, wishes=tuple(wishes.items()))
    return named


def name_of(words: str, cluster: tuple[int, int]) -> str:
    return f"{words}, {cluster[0]}x{cluster[1]}"


def decided_for(product: Product) -> CascadeDecisions:
    """The compiler's choice."""
    from tilewright.driver.compile.compile import elements_of

    kernel, options = arguments_of(product)
    kinds = elements_of(kernel, options.get("dtype", "bf16"))
    return decided_walk(kernel, options["dims"], kinds, options.get("strides"), options.get("wanted"))


def measure(
    torch: Any, product: Product, variants: dict[str, Product], arguments: argparse.Namespace
) -> dict[str, object]:
    """One product's row: microseconds and ratios of all, refusals, wrong answers."""
    from bench.peers_gemm import empty_result, peers_of
    from bench.suite import arrays_of, our_inputs

    size = 2 if product.scaling == "none" else 1
    sets = sets_for(size * (product.m + product.n) * product.k, warm=False)
    arrays = arrays_of(torch, product, sets)
    inputs = [our_inputs(product, arrays, place) for place in range(sets)]
    output, refused, contenders = empty_result(torch, product), dict[str, str](), list[Contender]()
    for name, variant in variants.items():
        program = load_prepared(variant, arguments.kernels)
        if isinstance(program, Refused):
            refused[name] = program.message
            continue

        def call(index: int, program: Any = program) -> None:
            program(*inputs[index % sets], out=output)

        contenders.append(Contender(name, call, output))
    exact = _first_rows(torch, product, arrays)
    errors = {each.name: _error(torch, each, exact) for each in contenders}
    wrong = [name for name, error in errors.items() if not error <= _MOST_DIFFERENCE]
    peers, _ = peers_of(torch, product, arrays, sets=sets, wanted=("cublasLt",))
    raced = race(torch, [*contenders, *peers], sets=sets, turns=arguments.turns)
    row: dict[str, object] = {
        "case": product.name,
        "shape": [product.m, product.n, product.k],
        "dtype": product.dtype,
        "scaling": product.scaling,
        "b": "(N, K) row-major" if product.transposed else "(K, N) row-major",
        "turns": arguments.turns,
        "device": raced.device,
        "microseconds": {name: round(raced.median(name), 3) for name in raced.microseconds},
        "errors": errors,
        "wrong": wrong,
        "refused": refused,
        "pairs": pairs_over_single(raced),
    }
    if arguments.alone and product.name in ALONE:
        row["alone"] = _alone(torch, [*contenders, *peers], sets)
    return row


def pairs_over_single(raced: Race) -> dict[str, list[float]]:
    """Quartiles of a single CTA's time over the pair's of the same tile, turn by turn: above 1, the pair is faster."""
    found: dict[str, list[float]] = {}
    for name in raced.microseconds:
        words, _, cluster = name.rpartition(", ")
        single = name_of(words, (1, 1))
        if cluster in {f"{m}x{n}" for m, n in CLUSTERS[1:]} and single in raced.microseconds:
            found[name] = [round(value, 4) for value in raced.ratio(name, single)]
    return found


def best_of(microseconds: Mapping[str, float]) -> tuple[str, str] | None:
    """The fastest tile by single CTAs and the fastest by pairs, of those that were wished for; None without pairs."""
    singles = [name for name in microseconds if name.endswith(", 1x1")]
    pairs = [name for name in microseconds if name.endswith((", 2x1", ", 1x2"))]
    if not pairs or not singles:
        return None
    return min(singles, key=lambda name: microseconds[name]), min(pairs, key=lambda name: microseconds[name])


def lines_of(row: dict[str, Any]) -> list[str]:
    """A row for a reader, contenders by their time."""
    device = row["device"]
    lines = [f"## {row['case']} {row['shape']}: MHz {device.get('sm_megahertz')}, W {device.get('watts')}"]
    for name, microseconds in sorted(row["microseconds"].items(), key=lambda pair: pair[1]):
        pair = row["pairs"].get(name)
        beside = f"  {pair[1]:.4f} of a single CTA's speed ({pair[0]:.3f}-{pair[2]:.3f})" if pair else ""
        alone = row.get("alone", {}).get(name)
        energy = (
            f"  alone {alone['microseconds']:.1f} us, {alone['millijoules']:.1f} mJ, {alone['watts']:.0f} W"
            if alone
            else ""
        )
        lines.append(f"  {microseconds:10.2f} us  {name:24s}{beside}{energy}")
    lines += [f"  WRONG: {name} {row['errors'][name]:.1e}" for name in row["wrong"]]
    return [*lines, *(f"  {name}: {words[:110]}" for name, words in row["refused"].items())]


def _first_rows(torch: Any, product: Product, arrays: Any) -> Any:
    """The first rows of the first set's product, in float64."""
    from bench.suite import exact_product

    rows = min(product.m, _ROWS_COMPARED)
    (a, b), *_ = arrays.pairs
    # One factor of a row or of a row's blocks each; the one of a whole tensor stays.
    scale = arrays.a_scale
    if product.scaling in ("row", "block"):
        scale = scale[:rows]
    some = dataclasses.replace(arrays, pairs=[(a[:rows], b)], a_scale=scale)
    return exact_product(torch, dataclasses.replace(product, m=rows), some)


def _error(torch: Any, contender: Contender, exact: Any) -> float:
    contender.output.fill_(float("nan"))
    contender.call(0)
    torch.cuda.synchronize()
    difference = contender.output[: exact.shape[0]].double() - exact
    return float(difference.norm() / exact.norm())


def _alone(torch: Any, contenders: Sequence[Contender], sets: int) -> dict[str, dict[str, float]]:
    """What each takes when it runs alone."""
    counter = open_counter()
    calls = calls_for(min(single_milliseconds(torch, each.call, sets) for each in contenders), sets)
    found: dict[str, dict[str, float]] = {}
    for each in contenders:
        graph = captured(torch, each.call, calls)
        alone = run_alone(lambda graph=graph: replay_milliseconds(torch, graph), calls, counter.millijoules)
        found[each.name] = {key: round(value, 2) for key, value in dataclasses.asdict(alone).items()}
    return found
