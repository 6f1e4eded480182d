"""Large tiles shared by consumers and taken by them in turn, each against torch.mm beside it, on random data.

What the parameters of `synth.turns` are fitted to, and, with rows of B in memory, those of `synth.tile_shape`; or the
orders in which tiles are taken (`synth.tile_order`). Every replay of a variant stands between two of torch.mm; a ratio
is the mean of those two over it, so that a clock that drifts moves both sides. Variants take turns in a rotating order.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.interleaved import calls_for, captured, replay_milliseconds, sets_for, single_milliseconds
from bench.record import write

_SHAPES = (
    (2048, 2048, 2048), (3072, 3072, 3072), (4096, 4096, 4096), (8192, 8192, 8192), (4096, 6144, 4096),
    (4096, 28672, 4096), (2048, 5120, 5120), (2048, 27648, 5120), (1024, 14336, 4096), (4096, 7168, 2048),
)  # fmt: skip
_SHARED = ((128, 256), (256, 128), (128, 192), (192, 192), (128, 176), (128, 128))
_GROUPS = (6, 8, 16, 32)
_SIDES = (4, 8, 16, 32, 64)
_IN_TURN = tuple((128, columns) for columns in (112, 128, 152, 160, 168, 176, 192, 200))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--shape", action="append", metavar="M,N,K", help="a shape (default: a list of ten)")
    parser.add_argument("--rows-of-b", action="store_true", help="B is contiguous along N (default: along K)")
    parser.add_argument("--orders", action="store_true", help="orders of the chosen tiles instead of tile shapes")
    parser.add_argument("--rounds", type=int, default=8, help="timed rounds over all variants (default 8)")
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="folder of the result file")


def run(arguments: argparse.Namespace) -> int:
    import torch

    torch.manual_seed(0)
    shapes = [tuple(map(int, text.split(","))) for text in arguments.shape] if arguments.shape else list(_SHAPES)
    rows: list[dict[str, object]] = []
    for m, n, k in shapes:
        rows_of_b = arguments.rows_of_b
        programs = variants((m, n, k), _orders() if arguments.orders else _tiles(), rows_of_b=rows_of_b)
        ratios = measure(torch, (m, n, k), programs, arguments.rounds, rows_of_b=rows_of_b)
        rows.append({"shape": [m, n, k], "rows of b": rows_of_b, "ratios": ratios})
        print(rows[-1], flush=True)
    print(f"written to {write('large_tiles', rows, arguments.results)}")
    return 0


def _tiles() -> dict[str, Any]:
    from tilewright.synth.wanted import Wanted

    wishes = {"chosen": Wanted()}
    wishes |= {f"{rows}x{columns} shared": Wanted(tile=(rows, columns), turns=False) for rows, columns in _SHARED}
    return wishes | {
        f"{rows}x{columns} in turn": Wanted(tile=(rows, columns), turns=True) for rows, columns in _IN_TURN
    }


def _orders() -> dict[str, Any]:
    from tilewright.synth.wanted import Wanted

    wishes = {"chosen": Wanted(), "chosen again": Wanted()}
    wishes |= {f"groups of {group}": Wanted(tile_group=group) for group in _GROUPS}
    return wishes | {f"Hilbert, {side}": Wanted(tile_order="hilbert", tile_group=side) for side in _SIDES}


def variants(shape: tuple[int, int, int], wishes: Mapping[str, Any], *, rows_of_b: bool) -> dict[str, Any]:
    """Programs by what they are, proved."""
    from tilewright.driver.compile import compile_kernel
    from tilewright.driver.kernels import matmul_kernel
    from tilewright.runtime.call import Program

    m, n, k = shape
    dims, strides = {"M": m, "N": n, "K": k}, {} if rows_of_b else {"b": (1, k)}
    return {
        name: Program(compile_kernel(matmul_kernel, dims=dims, strides=strides, wanted=wanted).bundle())
        for name, wanted in wishes.items()
    }


def measure(
    torch: Any, shape: tuple[int, int, int], programs: Mapping[str, Any], rounds: int, *, rows_of_b: bool = False
) -> dict[str, float]:
    """Median over rounds of torch.mm's time over each program's, by name."""
    m, n, k = shape
    options: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    sets = sets_for(2 * (m * k + k * n), warm=False)
    right = (lambda: torch.randn(k, n, **options)) if rows_of_b else (lambda: torch.randn(n, k, **options).t())
    pairs = [(torch.randn(m, k, **options), right()) for _ in range(sets)]
    out = torch.empty(m, n, **options)

    def theirs(index: int) -> None:
        torch.mm(*pairs[index % sets], out=out)

    calls = calls_for(single_milliseconds(torch, theirs, sets), sets)
    peer = captured(torch, theirs, calls)
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
    return {name: round(statistics.median(values), 4) for name, values in ratios.items()}
