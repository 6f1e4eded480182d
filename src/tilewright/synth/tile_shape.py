"""Which part of the result one CTA computes at a time, and by how many consumer warpgroups.

Candidates are ranked by the closed-form model of `synth.model`. Checked by: tests/synth/test_decide.py.
"""

from __future__ import annotations

import math

from tilewright.base.error import TilewrightError
from tilewright.synth.model import Rates, pipeline_cycles
from tilewright.synth.operands import TILE_K
from tilewright.synth.wanted import Wanted

_SHAPES: tuple[tuple[int, int, int], ...] = (
    (128, 256, 2),
    (256, 128, 2),
    (128, 192, 2),
    (128, 128, 2),
    (128, 64, 2),
    (64, 256, 1),
    (64, 128, 1),
    (64, 64, 1),
)
"""(tile_m, tile_n, consumer warpgroups). Accumulators take tile_m * tile_n / (128 * consumers) <= 128 registers."""


def choose_tile_shape(
    rates: Rates,
    extents: tuple[int, int, int],
    element_bytes: int,
    stored_bytes: int,
    wanted: Wanted,
    reasons: list[str],
) -> tuple[int, int, int]:
    shapes = [shape for shape in _SHAPES if wanted.tile is None or shape[:2] == wanted.tile]
    if not shapes:
        known = ", ".join(f"{m}x{n}" for m, n, _ in _SHAPES)
        raise TilewrightError(f"no tile shape {wanted.tile}", remedy=f"choose one of {known}")

    def cycles(shape: tuple[int, int, int]) -> float:
        return pipeline_cycles(rates, extents, (shape[0], shape[1], TILE_K), element_bytes, stored_bytes)

    best = min(shapes, key=cycles)
    tiles = math.ceil(extents[0] / best[0]) * math.ceil(extents[1] / best[1])
    reasons.append(
        f"tile {best[0]}x{best[1]}x{TILE_K}: {tiles} tiles on {rates.multiprocessors} multiprocessors, "
        f"about {cycles(best):.0f} cycles by the model"
    )
    return best
