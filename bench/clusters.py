"""Clusters of two CTAs with multicast operands against single CTAs and torch.mm, interleaved on random data."""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

from bench.gemm import captured, replay_milliseconds
from bench.record import write

_SHAPES = ((2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192))
_CLUSTERS = ((1, 1), (2, 1), (1, 2))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--turns", type=int, default=20, help="timed turns of each variant (default 20)")
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="folder of the result file")


def run(arguments: argparse.Namespace) -> int:
    import torch

    torch.manual_seed(0)
    rows: list[dict[str, object]] = []
    for shape in _SHAPES:
        rows.append(measure(torch, shape, arguments.turns))
        print(", ".join(f"{name} {value}" for name, value in rows[-1].items()), flush=True)
    print(f"written to {write('clusters', rows, arguments.results)}")
    return 0


def measure(torch: Any, shape: tuple[int, int, int], turns: int) -> dict[str, object]:
    """Median ratio of torch.mm's time over each variant's, for one shape."""
    import tilewright as tw
    from tilewright.driver.kernels import matmul_kernel

    m, n, k = shape
    options: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    a, b, out = torch.randn(m, k, **options), torch.randn(k, n, **options), torch.empty(m, n, **options)
    calls: dict[str, Any] = {"torch": lambda _index: torch.mm(a, b, out=out)}
    for cluster in _CLUSTERS:
        compiled = tw.compile(matmul_kernel, M=m, N=n, K=k, tile=(128, 256), cluster=cluster)
        calls[f"{cluster[0]}x{cluster[1]}"] = lambda _index, compiled=compiled: compiled(a, b, out=out)
    batch = max(2, int(1e12 // (2 * m * n * k)))
    graphs = {name: captured(torch, call, batch) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(turns):
        for name, graph in graphs.items():
            times[name].append(replay_milliseconds(torch, graph))
    row: dict[str, object] = {"shape": list(shape), "turns": turns}
    for name, values in times.items():
        ratios = [theirs / ours for theirs, ours in zip(times["torch"], values, strict=True)]
        row[name] = round(statistics.median(ratios), 3)
    return row
