"""Products drawn from a seed: any number of rows times weights of public models, beside torch and cublasLt's best.

The other suites are lists that the compiler was made with. These products are drawn when it is done, so that they show
what it does with products that nobody looked at: rows log-uniform from 1 to 16384, a linear layer of
`bench.model_layers`, and elements, bf16, f16 or e4m3; of e4m3 also the factors, per tensor or per row, and whether long
sums are kept in float32 by all or left to the tensor core by all. The seed alone decides; the first products of a seed
are the same for every count. Ours is what `tw.matmul` runs, compiled untuned before; the peers are PyTorch's product
and the fastest of cublasLt's heuristics list (`bench.suite`).

    python -m bench random-gemm --seed 7 --prepare --kernels out/kernels     # compile ahead; needs no GPU
    python -m bench random-gemm --seed 7 --kernels out/kernels

With `--tune`, at both commands, ours is the quickest of what `tune=True` times (`bench.tuned`).

Not handled: right operands that are contiguous along N; scales of blocks. Checked by:
tests/benchmarks/test_random_gemm.py.
"""

from __future__ import annotations

import argparse
import random

from bench import suite
from bench.drawing import add_seed_arguments, log_uniform, one_of, settle_seed
from bench.gemm_suites import Accumulation, Dtype, Product, Scaling
from bench.model_layers import LAYERS
from bench.parts import add_part_argument, share
from bench.peers_gemm import NAMES
from bench.tuned import prepared_candidates, serve_tuned

NAME = "random-gemm"
TUNED = f"{NAME}-tuned"
COUNT = 200
MOST_ROWS = 16384
PEERS = ("torch", "cublasLt")
_DTYPES: tuple[Dtype, ...] = ("bf16", "f16", "e4m3")
_SCALINGS: tuple[Scaling, ...] = ("tensor", "row")
_ACCUMULATIONS: tuple[Accumulation, ...] = ("precise", "fast")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_seed_arguments(parser, COUNT)
    parser.add_argument("--only", action="append", metavar="WORDS", help="products whose name contains these words")
    parser.add_argument(
        "--peer", action="append", choices=NAMES, help=f"only these peers (default: {' and '.join(PEERS)})"
    )
    parser.add_argument("--tune", action="store_true", help="ours is the quickest of what tune=True times")
    add_part_argument(parser)
    suite.add_run_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    settle_seed(arguments)
    arguments.peer = arguments.peer or list(PEERS)
    products = drawn(arguments.seed, arguments.count)
    if arguments.only:
        products = [each for each in products if any(words in each.name for words in arguments.only)]
    products = share(products, arguments.part)
    if not arguments.tune:
        return suite.run_products(NAME, products, arguments)
    kernels = prepared_candidates(products, arguments.kernels, arguments.jobs)
    return suite.run_products(TUNED, products, arguments, kernels=kernels, serve=serve_tuned)


def drawn(seed: int, count: int = COUNT) -> list[Product]:
    """The first `count` products of a seed."""
    source = random.Random(seed)
    return [_product(source, number) for number in range(1, count + 1)]


def _product(source: random.Random, number: int) -> Product:
    m = log_uniform(source, 1, MOST_ROWS)
    layer, dtype = one_of(source, LAYERS), one_of(source, _DTYPES)
    # Drawn of every product, so that what comes after does not depend on the elements.
    scaling, accumulation = one_of(source, _SCALINGS), one_of(source, _ACCUMULATIONS)
    name = f"{number}: {layer.model}, {layer.name}, {dtype}"
    if dtype != "e4m3":
        return Product(name, m, layer.n, layer.k, dtype)
    name += f" per {scaling}{', fast' if accumulation == 'fast' else ''}"
    return Product(name, m, layer.n, layer.k, dtype, True, scaling, accumulation)
