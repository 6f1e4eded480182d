"""Tiles left over after whole waves, with the help of idle CTAs (stream-K), against the same tiles taken whole.

    python -m bench stream-k [--shape M,N,K] [--rounds N] [--results FOLDER]

What the cost of the exchange in `synth.stream_k` is fitted to: every variant beside torch.mm, as in `large_tiles`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bench.large_tiles import measure
from bench.record import write

_SHAPES = (
    (2048, 2048, 2048), (4096, 4096, 4096), (6144, 6144, 6144), (8192, 8192, 8192), (4096, 6144, 4096),
    (4096, 28672, 4096), (4096, 4096, 14336), (8192, 8192, 28672), (2048, 5120, 5120), (2048, 27648, 5120),
    (1024, 14336, 4096), (4096, 14336, 4096), (4096, 7168, 2048), (4096, 2112, 7168),
)  # fmt: skip
_TILES = ((128, 256, False), (128, 128, True), (128, 160, True), (128, 176, True), (128, 192, True))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--shape", action="append", metavar="M,N,K", help="a shape (default: a list of fourteen)")
    parser.add_argument("--rounds", type=int, default=8, help="timed rounds over all variants (default 8)")
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="folder of the result file")


def run(arguments: argparse.Namespace) -> int:
    import torch

    torch.manual_seed(0)
    shapes = [tuple(map(int, text.split(","))) for text in arguments.shape] if arguments.shape else list(_SHAPES)
    rows: list[dict[str, object]] = []
    for m, n, k in shapes:
        ratios = measure(torch, (m, n, k), variants((m, n, k)), arguments.rounds)
        rows.append({"shape": [m, n, k], "ratios": ratios})
        print(rows[-1], flush=True)
    print(f"written to {write('stream_k', rows, arguments.results)}")
    return 0


def variants(shape: tuple[int, int, int]) -> dict[str, Any]:
    """Programs by what they are, proved; B is contiguous along K. Tiles of which nothing is left over have no streamed
    variant."""
    from tilewright.base.error import TilewrightError, Undecided
    from tilewright.driver.compile import compile_kernel
    from tilewright.driver.kernels import matmul_kernel
    from tilewright.runtime.call import Program
    from tilewright.synth.wanted import Wanted

    m, n, k = shape
    found: dict[str, Any] = {}
    for rows, columns, turns in _TILES:
        for stream_k in (False, True):
            wanted = Wanted(tile=(rows, columns), turns=turns, stream_k=stream_k)
            name = f"{rows}x{columns} {'in turn' if turns else 'shared'}{', streamed' if stream_k else ''}"
            try:
                compiled = compile_kernel(
                    matmul_kernel, dims={"M": m, "N": n, "K": k}, strides={"b": (1, k)}, wanted=wanted
                )
            except Undecided:
                raise
            except TilewrightError as refusal:
                if not stream_k or refusal.findings:
                    raise
                print(f"{shape}, {name}: {refusal}", flush=True)
                continue
            found[name] = Program(compiled.bundle())
    return found
