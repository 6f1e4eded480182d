"""How long is a turn of a pipeline with so many slots, beside the interval of its schedule?

    python -m bench slots [--results FOLDER]

For several tiles, products are compiled with 2, 3, ... slots, one tile to a multiprocessor, with a contracted axis so
long that all but the turns is lost in it. A turn's time, interleaved over all variants on random data in one process,
is told beside the scheduled interval, both relative to the fewest cycles of their tile: the clock of a GPU under load
is not known well enough for more. What the schedule says is enough should be where the measured time stops falling.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.interleaved import captured, replay_milliseconds
from bench.record import write

_DEPTH, _SLICE = 16384, 64
_TILES = ((128, 256), (128, 192), (128, 128), (128, 64))
_GRID = (12, 11)
"""Tiles along rows and columns: one to each of an H200's 132 multiprocessors."""
_STAGES = (2, 3, 4, 5, 6, 8)
_BATCH = 4


@dataclass(frozen=True, slots=True)
class Variant:
    """One tile with one number of slots. enough: slots that are wanted by the schedule, a spare one
    with them."""

    tile: tuple[int, int]
    slots: int
    enough: int
    scheduled_cycles: int
    nanoseconds: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--turns", type=int, default=15, help="timed turns of each variant (default 15)")
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="folder of the result file")


def run(arguments: argparse.Namespace) -> int:
    import torch

    torch.manual_seed(0)
    rows: list[dict[str, object]] = []
    for tile in _TILES:
        variants = measure(torch, tile, arguments.turns)
        fewest_cycles = min(one.scheduled_cycles for one in variants)
        fewest_time = min(one.nanoseconds for one in variants)
        for one in variants:
            rows.append(asdict(one))
            print(
                f"tile {tile[0]}x{tile[1]}, {one.slots} slots of {one.enough} wanted: scheduled {one.scheduled_cycles} "
                f"cycles ({one.scheduled_cycles / fewest_cycles:.2f}), measured {one.nanoseconds:.0f} ns "
                f"({one.nanoseconds / fewest_time:.2f})",
                flush=True,
            )
    print(f"written to {write('slots', rows, arguments.results)}")
    return 0


def measure(torch: Any, tile: tuple[int, int], repeats: int) -> list[Variant]:
    """Every number of slots that fits, for one tile."""
    from tilewright.base.error import TilewrightError
    from tilewright.driver.compile import compile_kernel
    from tilewright.driver.kernels import matmul_kernel
    from tilewright.driver.run import CompiledKernel
    from tilewright.ir.decisions import PipelineDecisions
    from tilewright.synth.loop_schedule import LoopShape, schedule_of, slots_wanted
    from tilewright.synth.wanted import Wanted
    from tilewright.targets import target

    rows, columns = (count * extent for count, extent in zip(_GRID, tile, strict=True))
    options: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    a, b = torch.randn(rows, _DEPTH, **options), torch.randn(columns, _DEPTH, **options).t()
    out, wanted = torch.empty(rows, columns, **options), torch.mm(a, b)
    graphs: dict[int, Any] = {}
    cycles: dict[int, int] = {}
    enough = 0
    for stages in _STAGES:
        try:
            compilation = compile_kernel(
                matmul_kernel,
                dims={"M": rows, "N": columns, "K": _DEPTH},
                strides={"b": (1, _DEPTH)},
                wanted=Wanted(tile, stages, depth=_SLICE, split=1),
            )
        except TilewrightError:
            continue  # more slots than there is memory
        decisions = compilation.decisions
        assert isinstance(decisions, PipelineDecisions)
        found = schedule_of(decisions)
        assert found is not None
        cycles[stages] = found[1].interval_cycles
        shape = (decisions.tile_m, decisions.tile_n, decisions.tile_k)
        consumers, registers = decisions.consumers, decisions.consumer_registers
        enough = slots_wanted(LoopShape(shape, tile, 2, 1, False, consumers, registers, 256), target("sm_90a"))
        kernel = CompiledKernel(compilation.bundle())

        def call(_index: int, kernel: CompiledKernel = kernel) -> None:
            kernel(a, b, out=out)

        call(0)
        torch.cuda.synchronize()
        torch.testing.assert_close(out, wanted, rtol=2e-2, atol=2.0)
        graphs[stages] = captured(torch, call, _BATCH)
    times: dict[int, list[float]] = {stages: [] for stages in graphs}
    for _ in range(repeats):
        for stages, graph in graphs.items():
            times[stages].append(replay_milliseconds(torch, graph))
    turns = _BATCH * _DEPTH // _SLICE
    return [
        Variant(tile, stages, enough, cycles[stages], round(statistics.median(values) * 1e6 / turns, 1))
        for stages, values in times.items()
    ]
