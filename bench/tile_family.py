"""Tiles of every shape that the estimate holds for quick, in both orientations, whole and streamed, beside torch.mm.

What the facts that `synth.cost.tile_estimate` and `synth.distribution.stream_k` ask for are fitted to, and what today's
choices are held against. For each product, those of the family of tiles that are expected near the best are timed, at
the clock that the GPU has under load and, where a product is large enough to lower it, after rests
(`bench.two_clocks`). So a file tells how good the choice is in both states. `--from FILE` needs no GPU: it asks the
compiler again and looks its choices up (`bench.tile_runs`). Nor does `--fit FILE`, which moves the target's facts until
the estimate explains the file's times best (`bench.tile_family_fit`).

    python -m bench tile-family --rows-of-b
    python -m bench tile-family --from bench/results/tile_family.json
    python -m bench tile-family --fit bench/results/tile_family.json

Not handled: 8-bit operands, batches, results of 32 bits, tiles of which several CTAs share the contracted axis.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import two_clocks, wished
from bench.record import write
from bench.tile_family_fit import fit
from bench.tile_runs import CHOSEN, STATES, Candidate, candidate_of, judged, question_of, summary

if TYPE_CHECKING:
    from bench.wished import Shape
    from tilewright.synth.tile.wanted import Wanted

_SMALL = tuple((extent, extent, extent) for extent in (768, 896, 1024, 1152, 1280, 1408, 1536))
_SHAPES = (
    *_SMALL, *((extent, extent, extent) for extent in (2048, 3072, 4096, 6144, 8192, 12288, 16384)),
    (4096, 6144, 4096), (4096, 28672, 4096), (4096, 4096, 14336), (8192, 10240, 8192), (8192, 57344, 8192),
    (8192, 8192, 28672), (2048, 5120, 5120), (2048, 27648, 5120), (1024, 14336, 4096), (4096, 14336, 4096),
    (4096, 7168, 2048), (4096, 2112, 7168),
)  # fmt: skip
_SHAPES_OF_ROWS = (
    *_SMALL, *((extent, extent, extent) for extent in (1792, 2048, 2176, 2560, 3072, 3328, 4096)),
    (768, 768, 4096), (896, 896, 4096), (1024, 1024, 4096), (2048, 5120, 5120), (4096, 7168, 2048),
)  # fmt: skip
_WITHIN = 1.25
_MOST = {True: 10, False: 12}
"""Tiles of a product that are timed, by whether it is a large one."""
_USUAL = (
    Candidate(128, 256, 2, transposed=False, turns=False),
    Candidate(256, 128, 2, transposed=False, turns=False),
    Candidate(128, 128, 2, transposed=False, turns=True),
    Candidate(128, 192, 2, transposed=False, turns=True),
)
"""Timed of large products besides."""
_LARGE = 2.0**33
"""Multiply-adds of a product that lowers the clock."""
_LONG = 2.0**39
"""Of products that are timed in fewer rounds."""
_RESTED_ROUNDS = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    wished.add_arguments(parser, len(_SHAPES))
    parser.add_argument("--rows-of-b", action="store_true", help="B is contiguous along N (default: along K)")
    stored = parser.add_mutually_exclusive_group()
    stored.add_argument("--fit", type=Path, action="append", metavar="FILE", help="explain stored runs instead")
    stored.add_argument(
        "--from", dest="stored", type=Path, action="append", metavar="FILE", help="judge today's choices by stored runs"
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.fit:
        return fit(_rows(arguments.fit))
    if arguments.stored:
        return _judge(_rows(arguments.stored))
    shapes = (
        [wished.shape_of(text) for text in arguments.shape]
        if arguments.shape
        else list(_SHAPES_OF_ROWS if arguments.rows_of_b else _SHAPES)
    )
    tried = [candidates(shape, rows_of_b=arguments.rows_of_b) for shape in shapes]
    variants = [(shape, _wishes(tiles)) for shape, tiles in zip(shapes, tried, strict=True)]
    # Answers are compared with torch.mm's; so many texts would take longer to prove than to time.
    compiled = wished.compile_each(variants, rows_of_b=arguments.rows_of_b, jobs=arguments.jobs, texts=False)
    import torch

    torch.manual_seed(0)
    rows: list[dict[str, Any]] = []
    for shape, tiles, bundles in zip(shapes, tried, compiled, strict=True):
        m, n, k = shape
        found = two_clocks.measure(
            torch,
            shape,
            bundles,
            rounds=arguments.rounds if m * n * k < _LONG else max(1, arguments.rounds // 2),
            rested_rounds=_RESTED_ROUNDS if _LARGE <= m * n * k < _LONG else 0,
            rows_of_b=arguments.rows_of_b,
        )
        described = {str(tile): asdict(tile) for tile in tiles}
        rows.append({"shape": list(shape), "rows of b": arguments.rows_of_b, "tiles": described, **found})
        for state in STATES:
            times = sorted(found[state].items(), key=lambda pair: pair[1])
            if times:
                print(f"{shape} {state}: {', '.join(f'{name} {time:.2f}' for name, time in times[:5])}", flush=True)
        torch.cuda.empty_cache()
    name = "tile_family_rows_of_b" if arguments.rows_of_b else "tile_family"
    print(f"written to {write(name, rows, arguments.results)}")
    return 1 if any(row["wrong"] for row in rows) else 0


def _rows(paths: list[Path]) -> list[dict[str, Any]]:
    return [row for path in paths for row in json.loads(path.read_text(encoding="utf-8"))["rows"]]


def _judge(rows: list[dict[str, Any]]) -> int:
    found = judged(rows)
    for each in found:
        print(each)
    for state in STATES:
        mean, least, count = summary(found, state)
        print(f"{state}: geometric mean {mean:.3f}, least {least:.3f} of {count} choices that were measured")
    return 0


def candidates(shape: Shape, *, rows_of_b: bool) -> list[Candidate]:
    """Tiles, streamed where a saving is expected, the quickest by the estimate first."""
    from tilewright.synth.cost.model import rates_of
    from tilewright.synth.cost.tile_estimate import expected_cycles
    from tilewright.synth.distribution.stream_k import expected_saving
    from tilewright.synth.distribution.turns import compared_tiles
    from tilewright.synth.tile.shape import TileShape
    from tilewright.targets import target

    hopper = target("sm_90a")
    question, rates = question_of(shape, rows_of_b=rows_of_b), rates_of(hopper)
    cycles: dict[Candidate, float] = {}
    for tile in compared_tiles(question, TileShape(128, 128, 64, 2), hopper):
        saved = expected_saving(rates, question, tile.shape, hopper, turns=tile.turns)
        for streamed in (False, True) if saved else (False,):
            cycles[candidate_of(tile, streamed=streamed)] = expected_cycles(
                rates, question, tile.shape, hopper, turns=tile.turns, saved=saved if streamed else 0.0
            )
    m, n, k = shape
    large = m * n * k >= _LARGE
    near = [tile for tile in sorted(cycles, key=cycles.__getitem__) if cycles[tile] < _WITHIN * min(cycles.values())]
    return list(dict.fromkeys([*near[: _MOST[large]], *(_USUAL if large else ())]))


def _wishes(tiles: list[Candidate]) -> dict[str, Wanted]:
    """What is fixed of each tile; and nothing, which is the compiler's choice."""
    from tilewright.synth.tile.wanted import Wanted

    return {CHOSEN: Wanted()} | {str(tile): tile.wanted() for tile in tiles}
