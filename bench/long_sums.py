"""Which split of the contracted axis is quickest for few tiles of long sums, and does the compiler take it?

For each of `SHAPES` (bf16, B held as (N, K) or, where marked, as (K, N)): the compiler's own choice, and for every
number of CTAs that share a tile the `--tiles` tiles that a roof of three rates ranks first, none of them by the
compiler's own model. All are compiled in parallel processes, timed in turns beside torch.mm from CUDA graphs whose
inputs rotate through more memory than the L2 cache holds, and compared with float64.

A row says: the best time of every split, the choice's time over the best, torch's over the choice's, the relative
errors of the choice and of torch. The result file keeps every run. `--from FILE` times nothing and needs no GPU: it
asks the compiler again, and says what its choice took in that file's runs where it was among them.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.decided import decided_product
from bench.interleaved import captured, replay_milliseconds, sets_for
from bench.long_sum_fit import fit
from bench.record import write
from bench.tile_names import by_tile_names, tile_names

if TYPE_CHECKING:
    from tilewright.runtime.bundle import Bundle
    from tilewright.synth.tile.wanted import Wanted


@dataclass(frozen=True, slots=True)
class Sum:
    """A product c (m, n) = a (m, k) @ b (k, n). rows_of_b: whether b's rows, of n elements, lie in memory."""

    m: int
    n: int
    k: int
    rows_of_b: bool = False

    def __str__(self) -> str:
        return f"{self.m}, {self.n}, {self.k}{' rows of b' if self.rows_of_b else ''}"


_SQUARES = (
    (128, (8192, 32768)),
    (192, (8192,)),
    (256, (2048, 4096, 16384, 32768)),
    (384, (4096, 16384)),
    (512, (2048, 4096, 8192, 32768)),
    (640, (8192,)),
    (768, (4096, 16384)),
    (1024, (2048, 4096, 16384)),
)
_OTHERS = (
    (128, 512, 16384),
    (128, 1024, 8192),
    (160, 1024, 8192),
    (192, 384, 8192),
    (200, 304, 10000),
    (256, 512, 8192),
    (256, 1024, 4096),
    (256, 1024, 16384),
    (256, 2048, 4096),
    (256, 4096, 4096),
    (256, 4096, 14336),
    (320, 768, 16384),
    (512, 1024, 4096),
    (512, 1024, 16384),
    (512, 2048, 4096),
    (512, 2048, 8192),
    (1024, 512, 32768),
)
_ROWS_OF_B = ((256, 256, 16384), (512, 512, 8192), (256, 1024, 16384), (512, 512, 32768), (384, 768, 8192))
SHAPES: tuple[Sum, ...] = (
    *(Sum(size, size, k) for size, depths in _SQUARES for k in depths),
    *(Sum(*each) for each in _OTHERS),
    *(Sum(*each, True) for each in _ROWS_OF_B),
)
ONE_TILE: tuple[Sum, ...] = tuple(Sum(size, size, k, True) for size in (16, 32, 48, 64) for k in (8192, 20480, 32768))
"""Of `--one-tile`."""
SPLITS = (1, 2, 4, 8, 16)
_ROWS = (64, 128, 192, 256)
_COLUMNS = (16, 32, 48, 64, 96, 128, 160, 192, 256)
_OPERATIONS_PER_CYCLE = 8192
_FETCHED_BYTES_PER_CYCLE = 64
_MEETING_CYCLES = 1500
"""Of the roof that ranks tiles; no parameters of the compiler."""
_CLUSTERS = {1: 132, 2: 66, 4: 28, 8: 14, 16: 7}
_TEAMS = (2, 3, 4, 6, 8)
TEAM_SHAPES = 8
"""Configurations in which teams share tiles, for each tile of a split."""
_REPLAY_MILLISECONDS = 0.3
_TOLERANCE = 0.02
_RESULT_BYTES = 2
"""Of an element of the results, bf16."""


@dataclass(frozen=True, slots=True)
class Run:
    """One timed configuration. kept: what was decided; error: relative to float64, in the Frobenius norm."""

    shape: Sum
    chosen: bool
    kept: dict[str, int]
    predicted_microseconds: float
    microseconds: float
    error: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--shape", action="append", metavar="M,N,K[,rows]", help="a sum (rows: B as (K, N)) instead of the list"
    )
    parser.add_argument("--tiles", type=int, default=5, help="of each split (default 5)")
    parser.add_argument("--replays", type=int, default=5, help="timed replays of each (default 5)")
    parser.add_argument("--one-tile", action="store_true", help="sums of one tile instead of the list")
    parser.add_argument("--chosen", action="store_true", help="the compiler's choices alone")
    parser.add_argument("--occupancy", action="store_true", help="how many clusters of each size run at once, alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compiling processes")
    parser.add_argument(
        "--from", dest="stored", type=Path, action="append", help="judge today's choices by this file's runs"
    )
    parser.add_argument("--fit", action="store_true", help="with --from: fit the model's parameters to those files")
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="folder of the result file")


def run(arguments: argparse.Namespace) -> int:
    begin = time.perf_counter()
    if arguments.fit and arguments.stored is None:
        raise SystemExit("--fit takes the runs of result files: --from FILE")
    if arguments.stored is not None:
        rows = [row for path in arguments.stored for row in json.loads(path.read_text(encoding="utf-8"))["rows"]]
        return fit(rows) if arguments.fit else _judged(rows)
    if arguments.occupancy:
        return _occupancy()
    shapes = ONE_TILE if arguments.one_tile else SHAPES
    if arguments.shape:
        shapes = tuple(_sum_of(text) for text in arguments.shape)
    wishes = [(shape, each) for shape in shapes for each in _wishes(shape, 0 if arguments.chosen else arguments.tiles)]
    with ProcessPoolExecutor(arguments.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        built = list(pool.map(_build, wishes, chunksize=4))
    done = sum(not isinstance(each, str) for each in built)
    print(f"{done} of {len(wishes)} configurations compiled in {time.perf_counter() - begin:.0f} s", flush=True)
    import torch

    torch.manual_seed(0)
    rows: list[dict[str, object]] = []
    for shape in shapes:
        made = [
            (not wish, each)
            for (of, wish), each in zip(wishes, built, strict=True)
            if of == shape and not isinstance(each, str)
        ]
        runs, peer, error = _measure(torch, shape, made, arguments.replays)
        print(line_of(shape, runs, peer, error), flush=True)
        rows.append({**asdict(shape), "torch": peer, "torch_error": error, "runs": [_row(each) for each in runs]})
    name = "one_tile_sums" if arguments.one_tile else "further_sums" if arguments.shape else "long_sums"
    print(f"written to {write(name, rows, arguments.results)} after {time.perf_counter() - begin:.0f} s")
    return 0


def _sum_of(text: str) -> Sum:
    """M,N,K of the command line, or M,N,K,rows."""
    m, n, k, *rows = text.split(",")
    return Sum(int(m), int(n), int(k), rows == ["rows"])


def _row(run: Run) -> dict[str, object]:
    """A run beside others of one product."""
    return {name: value for name, value in asdict(run).items() if name != "shape"}


# ---------------------------------------------------------------- configurations

Wish = tuple[tuple[str, Any], ...]


def _wishes(shape: Sum, tiles: int) -> Iterator[Wish]:
    """The compiler's own choice, then of every split the tiles that are expected to be quickest."""
    yield ()
    candidates = [(rows, columns) for rows in _ROWS for columns in _COLUMNS if rows * columns <= 32768]
    for split in SPLITS:
        candidates.sort(key=lambda tile: _roof(shape, tile, split, 1))
        for tile in candidates[:tiles]:
            yield (("tile", tile), ("split", split), ("swapped", False))
    by_teams = [
        (tile, split, teams)
        for tile in candidates
        for split in SPLITS[:4]
        for teams in _TEAMS
        if shape.k >= 128 * split * teams
    ]
    by_teams.sort(key=lambda each: _roof(shape, *each))
    for tile, split, teams in by_teams[: TEAM_SHAPES * tiles]:
        yield (("tile", tile), ("split", split), ("teams", teams), ("swapped", False))


def _roof(shape: Sum, tile: tuple[int, int], split: int, teams: int) -> float:
    """Cycles of the longest of multiplying and fetching, and of meeting."""
    rows, columns = tile
    tiles = math.ceil(shape.m / rows) * math.ceil(shape.n / columns)
    waves = math.ceil(tiles * teams / _CLUSTERS[split])
    depth = math.ceil(shape.k / (split * teams))
    multiply = 2 * rows * max(64, columns) * depth / _OPERATIONS_PER_CYCLE
    fetch = 2 * (rows + columns) * depth / _FETCHED_BYTES_PER_CYCLE
    meeting = _MEETING_CYCLES + rows * columns / 8 if split > 1 else 0
    handing = 2 * _MEETING_CYCLES + 4 * rows * columns / split * (teams - 1) / 32 if teams > 1 else 0
    return waves * (max(multiply, fetch) + meeting) + handing


_KEPT = (
    "tile_m", "tile_n", "tile_k", "stages", "consumers", "swapped", "split", "turns", "cluster_m", "cluster_n", "ctas",
    "staging_slots", "launch_registers", "smem_bytes", "prefetch", "teams",
)  # fmt: skip

Built = tuple["Bundle", dict[str, int], float]


def wanted_of(wish: Wish) -> Wanted:
    from tilewright.synth.tile.wanted import Wanted

    return Wanted(**dict(wish))


def _strides(shape: Sum) -> dict[str, tuple[int, int]]:
    return {} if shape.rows_of_b else {"b": (1, shape.k)}


def _build(work: tuple[Sum, Wish]) -> Built | str:
    """(the bundle, what was decided, the predicted microseconds), or why the compiler refuses the wish."""
    from tilewright.base.error import TilewrightError
    from tilewright.driver.compile.compile import compile_kernel
    from tilewright.driver.compile.kernels import matmul_kernel
    from tilewright.synth.cost.product_kernel import is_summed
    from tilewright.synth.cost.time_model import predicted_time
    from tilewright.targets import target

    shape, wish = work
    extents = {"M": shape.m, "N": shape.n, "K": shape.k}
    try:
        made = compile_kernel(
            matmul_kernel, dims=extents, strides=_strides(shape), wanted=wanted_of(wish), rerun=not wish
        )
    except TilewrightError as refusal:
        return str(refusal)
    decisions = made.decisions
    assert is_summed(decisions)
    bundle = made.bundle()
    predicted = predicted_time(decisions, (shape.m, shape.n, shape.k), target("sm_90a"), stored_bytes=_RESULT_BYTES)
    names = by_tile_names(bundle.decisions)
    return bundle, {name: names[name] for name in _KEPT}, predicted.microseconds


# ---------------------------------------------------------------- times


def _measure(
    torch: Any, shape: Sum, made: Sequence[tuple[bool, Built]], replays: int
) -> tuple[list[Run], float, float]:
    """Each configuration's run, torch's microseconds and error, from turns in which all are replayed once."""
    from tilewright.driver.run.run import CompiledKernel

    m, n, k = shape.m, shape.n, shape.k
    sets = sets_for(2 * k * (m + n), warm=False)
    options: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}

    def b_of() -> Any:
        return torch.randn(k, n, **options) if shape.rows_of_b else torch.randn(n, k, **options).t()

    pairs = [(torch.randn(m, k, **options), b_of()) for _ in range(sets)]
    out, theirs = torch.empty(m, n, **options), torch.empty(m, n, **options)
    exact = pairs[0][0].double() @ pairs[0][1].double()
    fewest = max(2.0 * m * n * k / 7e14, 2.0 * k * (m + n) / 4e12) * 1e3
    calls = max(min(sets, 16), min(64, round(_REPLAY_MILLISECONDS / fewest)))

    def error_of(found: Any) -> float:
        return float(((found.double() - exact).norm() / exact.norm()).item())

    def peer(index: int) -> None:
        torch.mm(*pairs[index % sets], out=theirs)

    peer(0)
    peer_error = error_of(theirs)
    graphs, errors = [captured(torch, peer, calls)], list[float]()
    for _, (bundle, kept, _) in made:
        kernel = CompiledKernel(bundle)

        def call(index: int, kernel: CompiledKernel = kernel) -> None:
            kernel(*pairs[index % sets], out=out)

        out.fill_(float("nan"))
        call(0)
        errors.append(error_of(out))
        if not errors[-1] < _TOLERANCE:
            raise SystemExit(f"a wrong product of {shape} by {kept}: relative error {errors[-1]}")
        graphs.append(captured(torch, call, calls))
    times: list[list[float]] = [[] for _ in graphs]
    for turn in range(replays + 1):
        for graph, found in zip(graphs, times, strict=True):
            taken = 1000 * replay_milliseconds(torch, graph) / calls
            if turn:
                found.append(taken)
    medians = [round(statistics.median(found), 2) for found in times]
    runs = [
        Run(shape, chosen, kept, round(predicted, 2), taken, error)
        for (chosen, (_, kept, predicted)), taken, error in zip(made, medians[1:], errors, strict=True)
    ]
    return runs, medians[0], peer_error


def line_of(shape: Sum, runs: Sequence[Run], peer: float, peer_error: float) -> str:
    """One product in words."""
    chosen = next((each for each in runs if each.chosen), None)
    best = min(runs, key=lambda each: each.microseconds)
    by_shares: dict[tuple[int, int], Run] = {}
    for each in sorted(runs, key=lambda run: run.microseconds):
        by_shares.setdefault((each.kept["split"], each.kept["teams"]), each)
    bests = "; ".join(words_of(each) for each in list(by_shares.values())[:5])
    ours = f"chosen {words_of(chosen)}" if chosen else "refused"
    shown = chosen or best
    return (
        f"{shape}: {ours}, {best.microseconds / shown.microseconds:.3f} of the best; torch {peer} "
        f"(ratio {peer / shown.microseconds:.3f}; errors {shown.error:.3e}, {peer_error:.3e}); {bests}"
    )


def words_of(each: Run) -> str:
    kept = each.kept
    tile = f"{kept['tile_m']}x{kept['tile_n']}x{kept['tile_k']}{' swapped' if kept['swapped'] else ''}"
    shares = f"{kept['teams']} teams of {kept['split']}" if kept["teams"] > 1 else f"split {kept['split']}"
    return f"{each.microseconds} us {tile} {shares}"


def _occupancy() -> int:
    """Clusters of CTAs that take a multiprocessor each."""
    from tilewright.driver.run.run import CompiledKernel

    for split in SPLITS:
        built = _build((Sum(256, 512, 32768), (("tile", (64, 128)), ("split", split), ("swapped", False))))
        if isinstance(built, str):
            raise SystemExit(built)
        plan = CompiledKernel(built[0]).program.loaded()
        (launch,) = plan.plan.launches
        ctas = plan.resident_ctas(launch)
        print(f"clusters of {split}: {ctas // split}, {ctas} CTAs of {launch.dynamic_smem_bytes} bytes")
    return 0


# ---------------------------------------------------------------- stored runs


def _judged(rows: Sequence[dict[str, Any]]) -> int:
    """What today's choices took in result files' runs."""
    lost: list[float] = []
    for row in rows:
        shape = Sum(row["m"], row["n"], row["k"], row["rows_of_b"])
        decided = tile_names(decided_product((shape.m, shape.n, shape.k), rows_of_b=shape.rows_of_b))
        runs = row["runs"]
        best = min(each["microseconds"] for each in runs)
        same = ("tile_m", "tile_n", "tile_k", "split", "teams", "consumers", "swapped", "turns")
        found = [
            each["microseconds"] for each in runs if all(each["kept"].get(name, 1) == decided[name] for name in same)
        ]
        tile = "{tile_m}x{tile_n}x{tile_k} split {split}, {teams} teams".format_map(decided)
        if not found:
            print(f"{shape}: {tile} was not measured")
            continue
        lost.append(best / min(found))
        print(f"{shape}: {tile} {min(found)} us, {lost[-1]:.3f} of the best; torch {row['torch'] / min(found):.3f}")
    if lost:
        print(f"{len(lost)} choices of those measured: least {min(lost):.3f}, mean {statistics.mean(lost):.3f}")
    return 0
