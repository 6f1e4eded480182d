"""Are operands that no tensor map describes faster copied by threads, or by a launch before, and does `synth` know?

    python -m bench unmapped [--only WORDS] [--turns N] [--jobs N] [--results FOLDER]

Products of which an operand's rows begin at multiples of 4 or 8 bytes and not of 16, or of 2, compiled with either wish
and without one, with the product begun beside the launch that copies and after it, and with several numbers of stages
where threads copy; timed in turns in one process, on random data, with
inputs that together exceed the L2 cache. A row says how long threads take beside a launch that copies first, what was
chosen unasked and how long that takes, and the greatest error of all beside float64. The tile of threads' copies is the
one chosen for them, wherever the choice itself falls.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.cliffs import DENSE, TRANSPOSED, Case, View, matrix
from bench.interleaved import captured, replay_milliseconds, sets_for
from bench.record import write
from bench.tile_names import by_tile_names

if TYPE_CHECKING:
    from tilewright.runtime.bundle import Bundle

CASES = (
    Case("left rows of 8196 bytes", 4096, 4096, 4098),
    Case("left rows of 8200 bytes", 4096, 4096, 4100),
    Case("right begins 2 elements in", 4096, 4096, 4096, b=View(offset=2)),
    Case("both begin 4 elements in", 4096, 4096, 4096, a=View(offset=4), b=View(offset=4)),
    Case("left rows of 16388 bytes", 8192, 8192, 8194),
    Case("both, linear layer", 2048, 2048, 2050, b=TRANSPOSED),
    Case("both, small linear layer", 1024, 1024, 1026, b=TRANSPOSED),
    Case("16 rows, linear layer", 16, 4096, 4098, b=TRANSPOSED),
    Case("64 rows, linear layer", 64, 4096, 4098, b=TRANSPOSED),
    Case("64 rows, linear layer, 8 bytes", 64, 4096, 4100, b=TRANSPOSED),
    Case("128 rows, linear layer", 128, 14336, 4098, b=TRANSPOSED),
    Case("64 rows, N of 4098", 64, 4098, 4096, b=DENSE),
    Case("odd K", 4096, 4096, 4095),
    Case("small, odd K", 1024, 1024, 1025, b=TRANSPOSED),
)
_MOST_ERROR = 3e-3
_CLOSE = 0.03


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", action="append", metavar="WORDS", help="cases whose name contains these words")
    parser.add_argument("--turns", type=int, default=11, help="timed turns of each kernel (default 11)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compiling processes")
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="folder of the result file")


def run(arguments: argparse.Namespace) -> int:
    cases = [case for case in CASES if not arguments.only or any(words in case.name for words in arguments.only)]
    # Spawned, since CUDA may not be used on both sides of a fork.
    with ProcessPoolExecutor(arguments.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        compiled = list(pool.map(compiled_ways, cases))
    import torch

    torch.manual_seed(0)
    rows = [measure(torch, case, ways, arguments.turns) for case, ways in zip(cases, compiled, strict=True)]
    agreed = 0
    for row in rows:
        best = min(row["microseconds"].values())
        agreed += row["microseconds"]["chosen"] <= best * (1 + _CLOSE)
        wrong = "" if row["right"] else "; WRONG"
        times = ", ".join(f"{name} {time:.1f}" for name, time in row["microseconds"].items())
        print(f"{row['case']} ({'x'.join(map(str, row['shape']))}): {times} us; chosen: {row['chosen']}{wrong}")
    print(f"what is chosen is the fastest, or within {_CLOSE:.0%} of it, in {agreed} of {len(rows)}")
    print(f"written to {write('unmapped', rows, arguments.results)}")
    return 0 if all(row["right"] for row in rows) else 1


def compiled_ways(case: Case) -> dict[str, Bundle]:
    """The kernels of a case: by threads with several numbers of stages, copied first, and the one that is chosen."""
    from tilewright.base.error import TilewrightError
    from tilewright.driver.compile.compile import compile_kernel
    from tilewright.driver.compile.kernels import matmul_kernel
    from tilewright.synth.tile.wanted import Wanted

    strides = {name: view.strides(rows, columns) for name, rows, columns, view in case.views}
    begins = {name: 2 * view.offset for name, _, _, view in case.views if view.misaligned}
    found: dict[str, Bundle] = {}

    def ask(name: str, **wishes: Any) -> None:
        wanted = Wanted(
            misaligned=tuple(begins), aligned=tuple((name, at & -at) for name, at in begins.items()), **wishes
        )
        try:
            found[name] = compile_kernel(
                matmul_kernel,
                dims={"M": case.m, "N": case.n, "K": case.k},
                dtype=case.dtype,
                strides=strides,
                wanted=wanted,
            ).bundle()
        except TilewrightError:
            return  # more stages than fit

    ask("chosen")
    ask("copied first", unmapped="workspace")
    ask("copied first, begun early", unmapped="workspace", programmatic=True)
    ask("copied first, begun after", unmapped="workspace", programmatic=False)
    decided = by_tile_names(found["chosen"].decisions)
    tile = (decided["tile_m"], decided["tile_n"]) if _by_threads(found["chosen"]) else None
    tiles = {tile} if tile is not None or min(case.m, case.n) < 2048 else {(128, 256), (256, 128)}
    for tile in sorted(tiles, key=str):
        ask(f"threads{'' if tile is None else ' {}x{}'.format(*tile)}", unmapped="threads", tile=tile)
        for stages in (3, 4, 6, 9):
            shape = "" if tile is None else " {}x{}".format(*tile)
            ask(f"threads{shape}, {stages} stages", unmapped="threads", tile=tile, stages=stages)
    return found


def _by_threads(bundle: Bundle) -> bool:
    return any(slot["piece_bytes"] for slot in by_tile_names(bundle.decisions)["slots"])


def measure(torch: Any, case: Case, ways: Mapping[str, Bundle], turns: int) -> dict[str, Any]:
    """One case's kernels in turns."""
    from tilewright.runtime.call import Program

    m, n, k = case.m, case.n, case.k
    dtype = torch.bfloat16 if case.dtype == "bf16" else torch.float16
    sets = sets_for(2 * (m * k + n * k), warm=False)
    calls = sets * max(1, min(64, int(1e12 / (2 * m * n * k))) // sets)
    pairs = [(matrix(torch, m, k, case.a, dtype), matrix(torch, k, n, case.b, dtype)) for _ in range(sets)]
    out = torch.empty(m, n, device="cuda", dtype=dtype)
    expected = pairs[0][0].double() @ pairs[0][1].double()
    graphs: dict[str, Any] = {}
    errors: dict[str, float] = {}
    for name, bundle in ways.items():
        program = Program(bundle)

        def call(index: int, program: Any = program) -> None:
            program(*pairs[index % sets], out=out)

        call(0)
        torch.cuda.synchronize()
        errors[name] = float((out.double() - expected).norm() / expected.norm())
        graphs[name] = captured(torch, call, calls)
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(turns):
        for name, graph in graphs.items():
            times[name].append(1000 * replay_milliseconds(torch, graph) / calls)
    chosen = by_tile_names(ways["chosen"].decisions)
    return {
        "case": case.name,
        "shape": [m, n, k],
        "microseconds": {name: round(statistics.median(values), 2) for name, values in times.items()},
        "chosen": "threads" if _by_threads(ways["chosen"]) else "copied first",
        "tile": [chosen["tile_m"], chosen["tile_n"], chosen["tile_k"]],
        "stages": {name: by_tile_names(bundle.decisions)["stages"] for name, bundle in ways.items()},
        "errors": errors,
        "right": max(errors.values()) <= _MOST_ERROR,
    }
