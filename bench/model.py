"""Does the model's predicted time rank configurations as the GPU does, and is its first choice among the best?

For each of 20 products (squares, layers of public models, few rows), `--configurations` configurations are drawn at
random, from a fixed seed, out of the tiles, turns, stages, splits and orientations that the compiler takes, and its own
choice is added. All are compiled in parallel processes and timed in turns from one process, from CUDA graphs whose
inputs rotate through more memory than the L2 cache holds. Three numbers result: Spearman's rank correlation of
predicted and measured times over all runs (which differences between products make easy), the mean of it within one
product (which is what a choice needs), and, for each product, the time of the best configuration over that of the one
predicted to be fastest, and over that of the compiler's choice.

`--from FILE` times nothing and needs no GPU: it predicts again, with the model as it stands, what a result file's runs
took, and writes that file with the new predictions. `--shape M,N,K`, repeatable, takes other products than the 20:
some that the model was not fitted to. `--fit` fits the model's parameters to the runs of `--from` (`bench.model_fit`).

The kernels' protocols are proved; the second proof, of each text on a small instance, is made with `--texts` alone,
since it takes longer than all else. Values are compared with torch's.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.interleaved import captured, replay_milliseconds, sets_for
from bench.model_fit import fit
from bench.model_runs import RESULT_BYTES, Run, Shape, decisions_of, line_of, read_runs, summary, write_runs
from bench.record import write
from bench.tile_names import by_tile_names

if TYPE_CHECKING:
    from tilewright.runtime.bundle import Bundle
    from tilewright.synth.tile.wanted import Wanted

SHAPES: tuple[Shape, ...] = (
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (3072, 3072, 3072),
    (4096, 4096, 4096),
    (6144, 6144, 6144),
    (512, 4096, 4096),
    (4096, 6144, 4096),
    (4096, 7168, 2048),
    (4096, 2112, 7168),
    (2048, 5120, 5120),
    (1024, 14336, 4096),
    (4096, 4096, 14336),
    (1, 4096, 4096),
    (16, 14336, 4096),
    (32, 6144, 4096),
    (64, 4096, 14336),
    (128, 7168, 2048),
    (128, 4096, 4096),
    (128, 2112, 7168),
    (256, 8192, 8192),
)
"""(M, N, K), the right operand held as (N, K)."""
_FEW_ROWS = 128
_SPARE = 1.8
"""Configurations drawn for one that is wanted: some do not fit the hardware and are refused."""
_REPLAY_MILLISECONDS = 0.3
_TOLERANCE = 0.02


@dataclass(frozen=True, slots=True)
class Job:
    """One configuration to compile. wishes: of `Wanted`, None for the compiler's own choice."""

    shape: Shape
    wishes: tuple[tuple[str, Any], ...]
    texts: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--configurations", type=int, default=50, help="of each product (default 50)")
    parser.add_argument("--replays", type=int, default=5, help="timed replays of each (default 5)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (default 0)")
    parser.add_argument("--texts", action="store_true", help="prove each text too")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compiling processes")
    parser.add_argument("--shape", action="append", type=_parsed_shape, metavar="M,N,K", help="instead of the 20")
    parser.add_argument("--from", dest="stored", type=Path, help="predict the runs of this result file again")
    parser.add_argument("--fit", action="store_true", help="fit the model's parameters to them; write nothing")
    parser.add_argument("--held-out", type=Path, help="a result file of other products, foretold by what was fitted")
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="folder of the result file")


def _parsed_shape(text: str) -> Shape:
    parts = text.split(",")
    if len(parts) != 3 or not all(part.strip().isdigit() and int(part) > 0 for part in parts):
        raise argparse.ArgumentTypeError(f"{text}: give three positive numbers, M,N,K")
    m, n, k = map(int, parts)
    return m, n, k


def run(arguments: argparse.Namespace) -> int:
    begin = time.perf_counter()
    if arguments.fit:
        if arguments.stored is None:
            raise SystemExit("--fit takes the runs of a result file: --from FILE")
        return fit(arguments.stored, arguments.held_out)
    if arguments.stored is not None:
        return predict_again(arguments.stored, arguments.results)
    shapes = tuple(dict.fromkeys(arguments.shape or SHAPES))
    jobs = [job for shape in shapes for job in drawn(shape, arguments)]
    context = multiprocessing.get_context("spawn")  # CUDA may not be used on both sides of a fork
    with ProcessPoolExecutor(arguments.jobs, mp_context=context) as pool:
        built = list(pool.map(build, jobs, chunksize=4))
    done = sum(each is not None for each in built)
    print(f"{done} of {len(jobs)} configurations compiled in {time.perf_counter() - begin:.0f} s", flush=True)
    import torch

    torch.manual_seed(0)
    runs: list[Run] = []
    for shape in shapes:
        made = [(job, each) for job, each in zip(jobs, built, strict=True) if job.shape == shape and each is not None]
        runs += measure(torch, shape, distinct(made, arguments.configurations), arguments.replays)
        print(line_of(shape, [each for each in runs if each.shape == shape]), flush=True)
    for line in summary(runs):
        print(line)
    rows: list[dict[str, object]] = [asdict(each) for each in runs]
    path = write("model", rows, arguments.results)
    write_runs(read_runs(path)[0], path)
    print(f"written to {path} after {time.perf_counter() - begin:.0f} s")
    return 0


# ---------------------------------------------------------------- configurations


def drawn(shape: Shape, arguments: argparse.Namespace) -> list[Job]:
    """The compiler's own choice, then more than are wanted, in an order that the seed and the shape fix."""
    wishes = list(dict.fromkeys(family(shape)))
    random.Random(f"{arguments.seed} {shape}").shuffle(wishes)
    count = round(_SPARE * arguments.configurations)
    return [Job(shape, each, arguments.texts) for each in ((), *wishes[:count])]


def family(shape: Shape) -> Iterator[tuple[tuple[str, Any], ...]]:
    """Everything that is drawn from, as wishes."""
    rows, columns, _ = shape
    for stages in (None, 3, 4, 6):
        for tile in itertools.product((64, 128, 256), (32, 64, 96, 128, 160, 192, 256)):
            for depth in (64, 128):
                yield (("tile", tile), ("stages", stages), ("depth", depth))
        for width in range(64, 200, 16):
            yield (("tile", (128, width)), ("turns", True), ("stages", stages))
        yield (("tile", (192, 192)), ("consumers", 3), ("stages", stages))
    for cluster in ((2, 1), (1, 2)):
        for tile in ((128, 128), (128, 256), (256, 128), (128, 192)):
            yield (("tile", tile), ("cluster", cluster))
    if rows > _FEW_ROWS:
        return
    height = -(-rows // 64) * 64
    for split, depth, resident in itertools.product((1, 2), (64, 128), (1, 2)):
        common = (("depth", depth), ("split", split), ("resident", resident))
        width = -(-rows // (8 * split)) * 8 * split
        for blocks in (1, 2):
            yield (("tile", (64 * blocks, width)), ("swapped", True), ("consumers", blocks), *common)
        for waves in (1, 2, 3):
            even = -(-columns // (waves * 132 // split))
            width = min(256, -(-even // (8 * split)) * 8 * split)
            yield (("tile", (height, width)), ("swapped", False), *common)


def wanted_of(wishes: Sequence[tuple[str, Any]]) -> Wanted:
    from tilewright.synth.tile.wanted import Wanted

    return Wanted(**dict(wishes))


def build(job: Job) -> tuple[Bundle, dict[str, int], float] | None:
    """(the bundle, what was decided, the predicted microseconds), or None where the compiler refuses the wishes."""
    from tilewright.base.error import TilewrightError
    from tilewright.driver.compile.compile import compile_kernel
    from tilewright.driver.compile.kernels import matmul_kernel
    from tilewright.synth.cost.product_kernel import is_summed
    from tilewright.synth.cost.time_model import predicted_time
    from tilewright.targets import target

    m, n, k = job.shape
    try:
        compilation = compile_kernel(
            matmul_kernel,
            dims={"M": m, "N": n, "K": k},
            strides={"b": (1, k)},
            wanted=wanted_of(job.wishes),
            rerun=job.texts,
        )
    except TilewrightError:
        return None
    decisions = compilation.decisions
    assert is_summed(decisions)
    bundle = compilation.bundle()
    names = by_tile_names(bundle.decisions)
    kept = {name: names[name] for name in _KEPT}
    kept["direct_stores"] = int(decisions.rows_bytes > 0)
    predicted = predicted_time(decisions, job.shape, target("sm_90a"), stored_bytes=RESULT_BYTES)
    return bundle, kept, predicted.microseconds


_KEPT = (
    "tile_m", "tile_n", "tile_k", "stages", "consumers", "swapped", "split", "turns", "cluster_m", "cluster_n", "ctas",
    "staging_slots", "launch_registers", "smem_bytes", "prefetch", "release_distance", "raster_group", "streamed",
    "head_slices",
)  # fmt: skip

Made = tuple[Job, tuple["Bundle", dict[str, int], float]]


def distinct(made: Sequence[Made], count: int) -> list[Made]:
    """The first configurations that differ: the compiler's own, and at most `count` drawn ones."""
    by_decisions: dict[tuple[int, ...], Made] = {}
    for each in made:
        by_decisions.setdefault(tuple(each[1][1].values()), each)
    return list(by_decisions.values())[: count + 1]


# ---------------------------------------------------------------- times


def measure(torch: Any, shape: Shape, made: Sequence[Made], replays: int) -> list[Run]:
    """Each configuration's time, from turns in which all are replayed once."""
    from tilewright.driver.run.run import CompiledKernel

    m, n, k = shape
    sets = sets_for(2 * k * (m + n), warm=False)
    options: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    pairs = [(torch.randn(m, k, **options), torch.randn(n, k, **options).t()) for _ in range(sets)]
    out, reference = torch.empty(m, n, **options), torch.mm(*pairs[0]).float()
    scale = reference.norm()
    fewest = max(2.0 * m * n * k / 7e14, 2.0 * k * (m + n) / 4e12) * 1e3
    calls = max(min(sets, 16), min(64, round(_REPLAY_MILLISECONDS / fewest)))
    graphs: list[Any] = []
    for _, (bundle, _, _) in made:
        kernel = CompiledKernel(bundle)

        def call(index: int, kernel: CompiledKernel = kernel) -> None:
            kernel(*pairs[index % sets], out=out)

        out.fill_(float("nan"))
        call(0)
        error = ((out.float() - reference).norm() / scale).item()
        if not error < _TOLERANCE:
            raise SystemExit(f"a wrong product of {shape}: relative error {error}")
        graphs.append(captured(torch, call, calls))
    times: list[list[float]] = [[] for _ in graphs]
    for _ in range(replays):
        for graph, found in zip(graphs, times, strict=True):
            found.append(1000 * replay_milliseconds(torch, graph) / calls)
    return [
        Run(shape, not job.wishes, kept, round(predicted, 2), round(statistics.median(found), 2))
        for (job, (_, kept, predicted)), found in zip(made, times, strict=True)
    ]


# ---------------------------------------------------------------- stored runs


def predict_again(stored: Path, results: Path) -> int:
    """Write a result file with what the model now predicts of its runs, measured times, date and versions as they are.

    Raises TilewrightError where a stored configuration is no longer decided.
    """
    document, runs = read_runs(stored)
    with ProcessPoolExecutor(os.cpu_count() or 1, mp_context=multiprocessing.get_context("spawn")) as pool:
        runs = list(pool.map(_predicted, runs, chunksize=32))
    for shape in dict.fromkeys(each.shape for each in runs):
        print(line_of(shape, [each for each in runs if each.shape == shape]))
    for line in summary(runs):
        print(line)
    document["rows"] = [asdict(each) for each in runs]
    path = results / stored.name
    write_runs(document, path)
    print(f"written to {path}")
    return 0


def _predicted(run: Run) -> Run:
    from tilewright.synth.cost.time_model import predicted_time
    from tilewright.targets import target

    time = predicted_time(decisions_of(run), run.shape, target("sm_90a"), stored_bytes=RESULT_BYTES)
    return replace(run, predicted_microseconds=round(time.microseconds, 2))
