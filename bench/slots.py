"""How long is a turn of a pipeline with so many slots, released so late, beside the interval of its schedule?

    python -m bench slots [--tile 128x256x2 ...] [--results FOLDER]

For several tiles, products are compiled with 2, 3, ... slots, one tile to a multiprocessor, with a contracted axis so
long that all but the turns is lost in it, each with every release distance that is possible. A turn's time, interleaved
over all variants on random data in one process, is told beside the scheduled interval, both relative to the fewest of
their tile: the clock of a GPU under load is not known well enough for more. What the schedule says is enough should be
where the measured time stops falling. `--from FILE` times nothing and needs no GPU: it tells how far the distances that
the compiler chooses today are from the best of that file's times.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.decided import decided_product
from bench.interleaved import captured, replay_milliseconds
from bench.record import write

if TYPE_CHECKING:
    from tilewright.runtime.bundle import Bundle
    from tilewright.synth.tile.wanted import Wanted

_DEPTH, _SLICE = 16384, 64
_TILES = (
    (128, 256, 2),
    (128, 192, 2),
    (128, 192, 1),
    (128, 128, 2),
    (128, 128, 1),
    (128, 64, 2),
    (64, 128, 1),
    (64, 32, 1),
)
"""Rows, columns, consumers."""
_GRID = (12, 11)
"""Tiles along rows and columns: one to each of an H200's 132 multiprocessors."""
_STAGES = (2, 3, 4, 5, 6, 8, 12)
_BATCH = 4
_ROWS_IN_TURN = 128


@dataclass(frozen=True, slots=True)
class Variant:
    """One tile with one number of slots, released so many products late. enough: slots that are wanted by the schedule,
    a spare one with them."""

    tile: tuple[int, int, int]
    slots: int
    distance: int
    enough: int
    scheduled_cycles: int
    nanoseconds: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--turns", type=int, default=15, help="timed turns of each variant (default 15)")
    parser.add_argument("--tile", action="append", metavar="ROWSxCOLUMNSxCONSUMERS", help="a tile (default: eight)")
    parser.add_argument("--from", dest="stored", type=Path, help="today's distances by the times of this result file")
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="folder of the result file")


def run(arguments: argparse.Namespace) -> int:
    if arguments.stored:
        return judge_again(arguments.stored)
    import torch

    torch.manual_seed(0)
    rows: list[dict[str, object]] = []
    given = [tuple(map(int, text.split("x"))) for text in arguments.tile or ()]
    for tile in given or _TILES:
        row_count, columns, consumers = tile
        variants = measure(torch, (row_count, columns, consumers), arguments.turns)
        fewest_cycles = min(one.scheduled_cycles for one in variants)
        fewest_time = min(one.nanoseconds for one in variants)
        print(
            f"tile {row_count}x{columns} of {consumers} consumers, {variants[0].enough} slots wanted, at best "
            f"{fewest_cycles} cycles, {fewest_time:.0f} ns"
        )
        for one in variants:
            rows.append(asdict(one))
            print(
                f"  {one.slots:2d} slots, {one.distance} late: scheduled {one.scheduled_cycles / fewest_cycles:.2f}, "
                f"measured {one.nanoseconds / fewest_time:.3f}",
                flush=True,
            )
    print(f"written to {write('slots', rows, arguments.results)}")
    return 0


@dataclass(frozen=True, slots=True)
class _Built:
    """What is timed, with its schedule's interval and the slots that are wanted where memory is no matter."""

    slots: int
    distance: int
    enough: int
    scheduled_cycles: int
    bundle: Bundle


def _extents(tile: tuple[int, int, int]) -> dict[str, int]:
    rows, columns = (count * extent for count, extent in zip(_GRID, tile, strict=False))
    return {"M": rows, "N": columns, "K": _DEPTH}


def _wish(tile: tuple[int, int, int], slots: int, distance: int | None) -> Wanted:
    """distance: None for the compiler's choice."""
    from tilewright.synth.tile.wanted import Wanted

    # Of two consumers that take tiles in turn, one has the only tile.
    turns = tile[2] == 1 and tile[0] == _ROWS_IN_TURN
    return Wanted(
        tile[:2], slots, (1, 1), consumers=2 if turns else tile[2], depth=_SLICE, swapped=False, split=1, turns=turns,
        release_distance=distance,
    )  # fmt: skip


def _build(tile: tuple[int, int, int], slots: int, distance: int) -> _Built | None:
    """None for more slots than there is memory, and for a distance that they do not allow."""
    from tilewright.base.error import TilewrightError
    from tilewright.driver.compile.compile import compile_kernel
    from tilewright.driver.compile.kernels import matmul_kernel
    from tilewright.synth.cost.product_kernel import is_summed
    from tilewright.synth.schedule.loop_schedule import LoopShape, schedule_of, slots_wanted
    from tilewright.targets import target

    try:
        compilation = compile_kernel(
            matmul_kernel, dims=_extents(tile), strides={"b": (1, _DEPTH)}, wanted=_wish(tile, slots, distance)
        )
    except TilewrightError:
        return None
    decisions = compilation.decisions
    assert is_summed(decisions)
    found = schedule_of(decisions)
    assert found is not None
    shape = LoopShape((*tile[:2], _SLICE), tile[:2], 2, 1, False, tile[2], decisions.consumer_registers, 256)
    enough = slots_wanted(shape, target("sm_90a"))
    return _Built(slots, distance, enough, found[1].interval_cycles, compilation.bundle())


def measure(torch: Any, tile: tuple[int, int, int], repeats: int) -> list[Variant]:
    """Every number of slots that fits with every distance, for one tile."""
    from tilewright.driver.run.run import CompiledKernel
    from tilewright.synth.schedule.release_distance import MOST

    variants = [(tile, slots, distance) for slots in _STAGES for distance in range(MOST + 1)]
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        built = [each for each in pool.map(_build, *zip(*variants, strict=True)) if each is not None]
    extents = _extents(tile)
    rows, columns = extents["M"], extents["N"]
    options: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    a, b = torch.randn(rows, _DEPTH, **options), torch.randn(columns, _DEPTH, **options).t()
    out, wanted = torch.empty(rows, columns, **options), torch.mm(a, b)
    graphs: list[Any] = []
    kernels = [CompiledKernel(each.bundle) for each in built]
    for kernel in kernels:

        def call(_index: int, kernel: CompiledKernel = kernel) -> None:
            kernel(a, b, out=out)

        call(0)
        torch.cuda.synchronize()
        torch.testing.assert_close(out, wanted, rtol=2e-2, atol=2.0)
        graphs.append(captured(torch, call, _BATCH))
    times: list[list[float]] = [[] for _ in built]
    for _ in range(repeats):
        for graph, found in zip(graphs, times, strict=True):
            found.append(replay_milliseconds(torch, graph))
    turns = _BATCH * _DEPTH // _SLICE
    return [
        Variant(
            tile, each.slots, each.distance, each.enough, each.scheduled_cycles,
            round(statistics.median(values) * 1e6 / turns, 1),
        )
        for each, values in zip(built, times, strict=True)
    ]  # fmt: skip


# ---------------------------------------------------------------- stored times


def judge_again(path: Path) -> int:
    """Print, for every tile and ring of a result file, how far its chosen distance is behind the best."""
    times: dict[tuple[tuple[int, int, int], int], dict[int, float]] = {}
    for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
        rows, columns, consumers = row["tile"]
        times.setdefault(((rows, columns, consumers), row["slots"]), {})[row["distance"]] = row["nanoseconds"]
    behind: list[float] = []
    one_late: list[float] = []
    for (tile, slots), found in times.items():
        distance = chosen_distance(tile, slots)
        best = min(found.values())
        behind.append(found[distance] / best)
        one_late.append(found.get(1, best) / best)
        print(f"{tile}, {slots} slots: {distance} late, {behind[-1] - 1:.1%} behind the best")
    print(
        f"{len(behind)} rings: what is chosen is {_geometric(behind) - 1:.2%} behind the best in the geometric mean, "
        f"{max(behind) - 1:.1%} at the most; one product late throughout {_geometric(one_late) - 1:.1%}"
    )
    return 0


def chosen_distance(tile: tuple[int, int, int], slots: int) -> int:
    """How many products late the compiler of today releases the slots of such a ring. Raises TilewrightError where it
    takes none of them."""
    extents = _extents(tile)
    shape = (extents["M"], extents["N"], extents["K"])
    return decided_product(shape, wanted=_wish(tile, slots, None)).release_distance


def _geometric(ratios: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios)))
