"""bf16 matrix products on a GPU against torch.mm, interleaved in one process on random data.

For each shape: both implementations are warmed up, captured in CUDA graphs of several calls (so that no launch is
timed), then replayed in turns, timed with CUDA events; inputs rotate through sets that together exceed the L2 cache.
Reported are the median of the per-turn ratios, its quartiles, and whether the results agree.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.record import write

SHAPES = (
    (2048, 2048, 2048),
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (4096, 14336, 4096),
    (4097, 4095, 4096),
)
_ROTATION_BYTES = 192 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--shape", action="append", metavar="M,N,K", help="a shape (default: the standard list)")
    parser.add_argument("--turns", type=int, default=40, help="timed turns of each implementation (default 40)")
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="folder of the result file")


def run(arguments: argparse.Namespace) -> int:
    import torch

    shapes = [tuple(map(int, text.split(","))) for text in arguments.shape] if arguments.shape else list(SHAPES)
    torch.manual_seed(0)
    rows: list[dict[str, object]] = []
    print(f"{'M, N, K':>20}  {'ratio':>6}  {'quartiles':>13}  {'TFLOP/s':>8}  {'torch':>6}  error")
    for shape in shapes:
        row = measure(torch, *shape, turns=arguments.turns)
        rows.append(row)
        low, high = row["quartiles"]  # type: ignore[misc]
        print(
            f"{', '.join(map(str, shape)):>20}  {row['ratio']:6.3f}  {low:6.3f}-{high:5.3f}  "
            f"{row['tflops']:8.0f}  {row['torch_tflops']:6.0f}  {row['relative_error']:.1e}",
            flush=True,
        )
    print(f"written to {write('gemm', rows, arguments.results)}")
    return 0


def captured(torch: Any, call: Callable[[int], object], batch: int) -> Any:
    """A CUDA graph of `batch` calls with the indices 0, 1, ..., warmed up on the stream that it is captured from."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for index in range(2 * batch):
            call(index)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for index in range(batch):
            call(index)
    graph.replay()
    return graph


def replay_milliseconds(torch: Any, graph: Any) -> float:
    """One replay, by events."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end))


def measure(torch: Any, m: int, n: int, k: int, turns: int) -> dict[str, object]:
    """One shape. ratio: torch.mm's time over ours, so above 1 is faster than torch."""
    import tilewright as tw

    sets = max(2, -(-_ROTATION_BYTES // (2 * (m * k + k * n))))
    options: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    pairs = [(torch.randn(m, k, **options), torch.randn(k, n, **options)) for _ in range(min(sets, 16))]
    ours, theirs = torch.empty(m, n, **options), torch.empty(m, n, **options)

    def run_ours(index: int) -> None:
        tw.matmul(*pairs[index % len(pairs)], out=ours)

    def run_theirs(index: int) -> None:
        torch.mm(*pairs[index % len(pairs)], out=theirs)

    batch = max(len(pairs), min(20, int(2e12 // (2 * m * n * k))))
    graphs = {"ours": captured(torch, run_ours, batch), "theirs": captured(torch, run_theirs, batch)}
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(turns):
        for name, graph in graphs.items():
            times[name].append(replay_milliseconds(torch, graph) / batch)
    a, b = pairs[0]
    ours.fill_(float("nan"))
    run_ours(0)
    reference = a.float() @ b.float() if m * n * k > 1 << 37 else (a.double() @ b.double())
    error = ((ours.to(reference.dtype) - reference).norm() / reference.norm()).item()
    ratios = [theirs_ms / ours_ms for ours_ms, theirs_ms in zip(times["ours"], times["theirs"], strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    operations = 2.0 * m * n * k
    return {
        "shape": [m, n, k],
        "ratio": statistics.median(ratios),
        "quartiles": [low, high],
        "tflops": operations / statistics.median(times["ours"]) / 1e9,
        "torch_tflops": operations / statistics.median(times["theirs"]) / 1e9,
        "turns": turns,
        "batch": batch,
        "relative_error": error,
    }
