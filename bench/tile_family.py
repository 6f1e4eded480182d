"""Tiles of every shape that the estimate holds for quick, in both orientations, whole and streamed, beside torch.mm.

What the constants of `synth.tile_estimate` and `synth.stream_k` are fitted to. For each product, those of the family of
tiles that are expected within a quarter of the best are measured (`bench.wished`); so a file tells both how good the
choice is and what the estimate should have said. `--fit FILE` needs no GPU: it moves the target's facts one after the
other until the estimate explains the file's ratios best, each product's clock being free, and tells what the first
choice reaches of the best that was measured.

    python -m bench tile-family --rows-of-b
    python -m bench tile-family --fit bench/results/tile_family.json

Not handled: 8-bit operands, batches, results of 32 bits.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import wished
from bench.record import write

if TYPE_CHECKING:
    from tilewright.synth.tile_estimate import TileFacts
    from tilewright.synth.tile_shape import TileQuestion
    from tilewright.synth.turns import LargeTile
    from tilewright.synth.wanted import Wanted

_SHAPES = (
    *((extent, extent, extent) for extent in (768, 1024, 1152, 1280, 1536, 1792, 2048, 2176, 2560, 3072, 3328, 4096)),
    (8192, 8192, 8192), (4096, 6144, 4096), (2048, 5120, 5120), (2048, 27648, 5120), (1024, 14336, 4096),
    (4096, 14336, 4096), (4096, 7168, 2048),
)  # fmt: skip
_WITHIN = 1.25
_MOST = 18
_STREAMED = 4
"""How many tiles in turn are streamed besides."""
_STEPS = (1.3, 1.1, 1.03)
_ROUNDS = 3
_WEIGHT = 8
_CHOSEN = "chosen"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    wished.add_arguments(parser, len(_SHAPES))
    parser.add_argument("--rows-of-b", action="store_true", help="B is contiguous along N (default: along K)")
    parser.add_argument("--fit", type=Path, action="append", metavar="FILE", help="explain stored runs instead")


def run(arguments: argparse.Namespace) -> int:
    if arguments.fit:
        return _fit([row for path in arguments.fit for row in json.loads(path.read_text())["rows"]])
    shapes = [wished.shape_of(text) for text in arguments.shape] if arguments.shape else list(_SHAPES)
    tried = [candidates(shape, rows_of_b=arguments.rows_of_b) for shape in shapes]
    variants = [(shape, _wishes(tiles)) for shape, tiles in zip(shapes, tried, strict=True)]
    compiled = wished.compile_each(variants, rows_of_b=arguments.rows_of_b, jobs=arguments.jobs)
    import torch

    torch.manual_seed(0)
    rows: list[dict[str, Any]] = []
    for shape, tiles, bundles in zip(shapes, tried, compiled, strict=True):
        found = wished.measure(torch, shape, bundles, arguments.rounds, rows_of_b=arguments.rows_of_b)
        described = {name: _described(tile, streamed) for name, (tile, streamed) in tiles.items()}
        rows.append({"shape": list(shape), "rows of b": arguments.rows_of_b, "tiles": described, **found})
        ratios = sorted(found["ratios"].items(), key=lambda pair: -pair[1])
        print(f"{shape}: {', '.join(f'{name} {ratio:.3f}' for name, ratio in ratios)}", flush=True)
        torch.cuda.empty_cache()
    name = "tile_family_rows_of_b" if arguments.rows_of_b else "tile_family"
    print(f"written to {write(name, rows, arguments.results)}")
    return 1 if any(row["wrong"] for row in rows) else 0


def candidates(shape: tuple[int, int, int], *, rows_of_b: bool) -> dict[str, tuple[LargeTile, bool]]:
    """Tiles, and whether they are streamed, by name, the quickest by the estimate first."""
    from tilewright.synth.model import rates_of
    from tilewright.synth.tile_estimate import tile_cycles
    from tilewright.synth.tile_shape import TileShape
    from tilewright.synth.turns import compared_tiles
    from tilewright.targets import target

    hopper = target("sm_90a")
    question, rates = question_of(shape, rows_of_b=rows_of_b), rates_of(hopper)
    tiles = list(compared_tiles(question, TileShape(128, 128, 64, 2), hopper))
    cycles = {tile: tile_cycles(rates, question, tile.shape, hopper, turns=tile.turns) for tile in tiles}
    near = sorted((tile for tile in tiles if cycles[tile] < _WITHIN * min(cycles.values())), key=cycles.__getitem__)
    whole = [(tile, False) for tile in near[:_MOST]]
    streamed = [(tile, True) for tile in near if tile.turns][:_STREAMED]
    return {_name(tile, is_streamed): (tile, is_streamed) for tile, is_streamed in (*whole, *streamed)}


def question_of(shape: tuple[int, int, int], *, rows_of_b: bool) -> TileQuestion:
    """What `synth.decide` asks of bf16 operands and results."""
    from tilewright.synth.tile_shape import TileQuestion

    return TileQuestion(shape, 2, 2, (False,), (8, 64 if rows_of_b else 8), turnable=True)


def _name(tile: LargeTile, streamed: bool) -> str:
    how = "in turn" if tile.turns else f"shared by {tile.shape.consumers}"
    words = f"{tile.shape.rows}x{tile.shape.columns} {how}"
    return words + (", transposed" if tile.shape.swapped else "") + (", streamed" if streamed else "")


def _wishes(tiles: dict[str, tuple[LargeTile, bool]]) -> dict[str, Wanted]:
    """What is fixed of each tile; and nothing, which is the compiler's choice."""
    from tilewright.synth.wanted import Wanted

    return {_CHOSEN: Wanted()} | {name: _wanted(tile, streamed) for name, (tile, streamed) in tiles.items()}


def _wanted(tile: LargeTile, streamed: bool) -> Wanted:
    from tilewright.synth.wanted import Wanted

    shape = tile.shape
    return Wanted(
        tile=(shape.rows, shape.columns),
        consumers=shape.consumers,
        turns=tile.turns,
        swapped=shape.swapped,
        stream_k=streamed,
    )


def _described(tile: LargeTile, streamed: bool) -> dict[str, int]:
    shape = tile.shape
    return {
        "rows": shape.rows,
        "columns": shape.columns,
        "consumers": shape.consumers,
        "transposed": int(shape.swapped),
        "turns": int(tile.turns),
        "streamed": int(streamed),
    }


# ---------------------------------------------------------------- the fit


@dataclass(frozen=True, slots=True)
class _Run:
    """A tile that was measured whole. seconds: in an unknown unit, the same for all of a product."""

    product: int
    name: str
    question: TileQuestion
    tile: LargeTile
    seconds: float


def _runs(rows: Sequence[dict[str, Any]]) -> Iterator[_Run]:
    from tilewright.synth.tile_shape import TileShape
    from tilewright.synth.turns import LargeTile

    for number, row in enumerate(rows):
        m, n, k = row["shape"]
        question = question_of((m, n, k), rows_of_b=bool(row["rows of b"]))
        for name, ratio in row["ratios"].items():
            told = row["tiles"].get(name)
            if told is None or told["streamed"] or name in row["wrong"]:
                continue
            shape = TileShape(told["rows"], told["columns"], 64, told["consumers"], bool(told["transposed"]))
            yield _Run(number, name, question, LargeTile(shape, bool(told["turns"])), 1 / ratio)


def _fit(rows: Sequence[dict[str, Any]]) -> int:
    from tilewright.synth.tile_estimate import facts_of
    from tilewright.targets import target

    runs = list(_runs(rows))
    facts = facts_of(target("sm_90a"), 2)
    error = _error(facts, runs)
    print(f"{len(runs)} runs of {len(rows)} products; mean error {100 * error:.2f} % by {asdict(facts)}")
    for step in [step for step in _STEPS for _ in range(_ROUNDS)]:
        for name in asdict(facts):
            for factor in (step, 1 / step):
                moved = replace(facts, **{name: max(1, round(getattr(facts, name) * factor))})
                if (other := _error(moved, runs)) < error:
                    facts, error = moved, other
    print(f"fitted: {100 * error:.2f} % by {asdict(facts)}")
    for number, row in enumerate(rows):
        mine = [each for each in runs if each.product == number]
        first = min(mine, key=lambda each: _cycles(facts, each))
        best = min(mine, key=lambda each: each.seconds)
        print(f"{row['shape']}: first choice {first.name}, {best.seconds / first.seconds:.3f} of {best.name}")
    _say_streams(rows)
    return 0


def _cycles(facts: TileFacts, run: _Run) -> float:
    from tilewright.synth.model import rates_of
    from tilewright.synth.tile_estimate import tile_cycles
    from tilewright.targets import target

    hopper = target("sm_90a")
    rates = rates_of(hopper)
    return tile_cycles(rates, run.question, run.tile.shape, hopper, turns=run.tile.turns, facts=facts)


def _error(facts: TileFacts, runs: Sequence[_Run]) -> float:
    """How far, as a share, runs are from the estimate in the mean, each product in its own median unit. The quick tiles
    of a product count most: of slow ones it matters little how slow they are."""
    products: dict[int, list[_Run]] = {}
    for run in runs:
        products.setdefault(run.product, []).append(run)
    far, weights = 0.0, 0.0
    for mine in products.values():
        shares = [math.log(run.seconds / _cycles(facts, run)) for run in mine]
        middle, least = statistics.median(shares), min(run.seconds for run in mine)
        for run, share in zip(mine, shares, strict=True):
            weight = (least / run.seconds) ** _WEIGHT
            far, weights = far + weight * abs(share - middle), weights + weight
    return far / weights


def _say_streams(rows: Sequence[dict[str, Any]]) -> None:
    """What streaming gained, tile by tile."""
    for row in rows:
        gains = {
            name: row["ratios"][name] / row["ratios"][name.removesuffix(", streamed")] - 1
            for name in row["ratios"]
            if name.endswith(", streamed") and name.removesuffix(", streamed") in row["ratios"]
        }
        if gains:
            print(f"{row['shape']}, streamed: {', '.join(f'{name} {gain:+.3f}' for name, gain in gains.items())}")
