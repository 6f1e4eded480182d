"""Is an operand that is computed before the product faster in registers, or in a workspace, and does `synth` know?

    python -m bench computed [--turns N] [--results FOLDER]

Three programs whose left operand is an expression, over five shapes, each compiled with either wish and without one;
timed in turns in one process, on random data, with inputs that together exceed the L2 cache. A row says how long
registers take beside a workspace, what was chosen unasked, and the error of each beside float32 on the GPU.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.interleaved import captured, replay_milliseconds, sets_for
from bench.record import write

if TYPE_CHECKING:
    from tilewright.driver.compile.compile import Compilation
    from tilewright.runtime.bundle import Bundle
    from tilewright.synth.tile.wanted import Wanted

Shape = tuple[int, int, int]
SHAPES: tuple[Shape, ...] = (
    (4096, 4096, 4096),
    (8192, 1024, 4096),
    (2048, 512, 4096),
    (4096, 14336, 4096),
    (1024, 256, 4096),
)
PROGRAMS = ("converted_first", "rows_scaled_first", "both_scaled_first")
_MOST_ERROR_RATIO = 1.01
"""How many times the workspace's error the registers' may be before the row is called wrong: both multiply the same
rounded operand, and their tiles alone differ."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--turns", type=int, default=11, help="timed turns of each kernel (default 11)")
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="folder of the result file")


def run(arguments: argparse.Namespace) -> int:
    import torch

    torch.manual_seed(0)
    rows = [measure(torch, name, shape, arguments.turns) for shape in SHAPES for name in PROGRAMS]
    agreed = 0
    for row in rows:
        better = "registers" if row["ratio"] < 1 else "workspace"
        agreed += row["chosen"] == better or abs(row["ratio"] - 1) < 0.03
        wrong = "" if row["right"] else "; WRONG"
        print(
            f"{row['program']} {'x'.join(map(str, row['shape']))}: registers take {row['ratio']:.2f} of a workspace's "
            f"time, chosen: {row['chosen']}{wrong}"
        )
    print(f"the choice is the faster, or within 3 % of it, in {agreed} of {len(rows)}")
    print(f"written to {write('computed', rows, arguments.results)}")
    return 0 if all(row["right"] for row in rows) else 1


def measure(torch: Any, name: str, shape: Shape, turns: int) -> dict[str, Any]:
    """One program at one shape (rows, columns, contracted), both ways."""
    from tilewright.ir.cascade import CascadeDecisions
    from tilewright.synth.tile.wanted import Wanted

    ways = {way: Wanted(computed=way) for way in ("registers", "workspace")}
    bundles = {way: compiled(name, shape, wanted).bundle() for way, wanted in ways.items()}
    times, errors = timed(torch, name, shape, bundles, turns)
    chosen = compiled(name, shape, Wanted()).decisions
    assert isinstance(chosen, CascadeDecisions)
    ratio = statistics.median(a / b for a, b in zip(times["registers"], times["workspace"], strict=True))
    return {
        "program": name,
        "shape": shape,
        "ratio": round(ratio, 3),
        "milliseconds": {way: round(statistics.median(values), 5) for way, values in times.items()},
        "chosen": "registers" if chosen.computed else "workspace",
        "errors": errors,
        "right": errors["registers"] <= _MOST_ERROR_RATIO * errors["workspace"],
    }


def compiled(name: str, shape: Shape, wanted: Wanted) -> Compilation:
    """One program at one shape."""
    from bench import tile_programs
    from tilewright.driver.compile.compile import compile_kernel

    return compile_kernel(
        getattr(tile_programs, name),
        dims=dict(zip("MNK", shape, strict=True)),
        dtype={"a": "f16"} if name == "converted_first" else "bf16",
        wanted=wanted,
    )


def timed(
    torch: Any, name: str, shape: Shape, bundles: Mapping[str, Bundle], turns: int
) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Of each way to compile a program, milliseconds of every turn, and the error beside float32 on the GPU."""
    from bench import tile_programs
    from tilewright.runtime.call import Program

    kernel, (m, n, k) = getattr(tile_programs, name), shape
    sets = sets_for(2 * (m * k + n * k), warm=False)
    calls = max(4, min(64, int(2e12 / (2 * m * n * k))))
    options: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    kind = torch.float16 if name == "converted_first" else torch.bfloat16
    left = [torch.randn(m, k, **options).to(kind) for _ in range(sets)]
    right = [torch.randn(n, k, **options) for _ in range(sets)]
    factors = [torch.randn(extent, **options) for extent in (m, k)][: len(kernel.parameters) - 3]
    operand = left[0].float()
    for factor, side in zip(factors, ((m, 1), (1, k)), strict=False):
        operand = operand * factor.float().view(side)
    expected = operand.to(torch.bfloat16).float() @ right[0].float().t()
    out = torch.empty(m, n, **options)
    graphs: dict[str, Any] = {}
    errors: dict[str, float] = {}
    for way, bundle in bundles.items():
        call = _call(Program(bundle), left, right, factors, out)
        out.fill_(float("nan"))
        call(0)
        torch.cuda.synchronize()
        errors[way] = float((out.float() - expected).abs().max() / expected.abs().max())
        graphs[way] = captured(torch, call, calls)
    times: dict[str, list[float]] = {way: [] for way in graphs}
    for turn in range(turns):
        # Each goes first as often as the other, so that a clock that drifts moves both.
        for way in list(graphs) if turn % 2 else list(reversed(graphs)):
            times[way].append(replay_milliseconds(torch, graphs[way]) / calls)
    return times, errors


def _call(program: Any, left: list[Any], right: list[Any], factors: list[Any], out: Any) -> Callable[[int], None]:
    def call(index: int) -> None:
        program(left[index % len(left)], *factors, right[index % len(right)], out=out)

    return call
