"""What the compiler's model of few rows holds for quick, and what would be chosen without it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bench.few_rows_runs import Parts

if TYPE_CHECKING:
    from bench.wished import Shape
    from tilewright.synth.tile.shape import TileQuestion, TileShape

_VERY_FEW = 128


def question_of(shape: Shape, *, rows_of_b: bool) -> TileQuestion:
    """What `synth.decide` asks of bf16 operands and results, B held as (N, K) or (K, N)."""
    from tilewright.synth.tile.shape import TileQuestion

    orientations = (False, True) if shape[0] <= _VERY_FEW else (False,)
    return TileQuestion(shape, 2, 2, orientations, (8, 64 if rows_of_b else 8), turnable=True, bulk=True)


def is_modelled(shape: Shape) -> bool:
    """Whether the model of few rows chooses for a product."""
    from tilewright.synth.tile.few_rows import is_few_rows
    from tilewright.synth.tile.wanted import Wanted

    return is_few_rows(question_of(shape, rows_of_b=True), Wanted())


def by_model(shape: Shape, count: int, *, rows_of_b: bool) -> list[Parts]:
    """The `count` that the model holds for quickest, no two of a kind and about as many columns; and what other models
    would choose."""
    from tilewright.synth.tile.few_rows import estimated
    from tilewright.targets import target

    question = question_of(shape, rows_of_b=rows_of_b)
    ranked = sorted(estimated(question, target("sm_90a")), key=lambda pair: pair[1])
    found: list[Parts] = []
    for tile, _ in ranked:
        parts = parts_of(tile)
        if len(found) < count and not any(_alike(parts, other) for other in found):
            found.append(parts)
    before = without_model(question)
    return found if before in found else [*found, before]


def _alike(one: Parts, other: Parts) -> bool:
    same = replace(one, columns=0, swapped=False) == replace(other, columns=0, swapped=False)
    return same and abs(one.columns - other.columns) <= one.columns // 4


def parts_of(shape: TileShape, *, turns: bool = False) -> Parts:
    """Of a tile that the compiler compares."""
    return Parts(
        shape.rows,
        shape.columns,
        shape.consumers,
        shape.swapped,
        shape.split,
        shape.teams,
        depth=shape.depth,
        resident=shape.resident,
        turns=turns,
        cluster_m=shape.cluster[0],
        cluster_n=shape.cluster[1],
        step_m=shape.steps[0],
        step_n=shape.steps[1],
    )


def tile_of(parts: Parts) -> TileShape:
    """The tile that parts are of."""
    from tilewright.synth.tile.shape import TileShape

    return TileShape(
        parts.rows,
        parts.columns,
        parts.depth,
        parts.consumers,
        parts.swapped,
        parts.split,
        parts.resident,
        parts.teams,
        (parts.cluster_m, parts.cluster_n),
        (parts.step_m, parts.step_n),
    )


def without_model(question: TileQuestion) -> Parts:
    """What would be chosen by the other models."""
    from tilewright.synth.cost.model import rates_of
    from tilewright.synth.distribution.turns import choose_turns
    from tilewright.synth.tile.long_sum import long_sum_shape
    from tilewright.synth.tile.shape import choose_tile_shape
    from tilewright.synth.tile.thin_product import is_thin, thin_shape
    from tilewright.synth.tile.wanted import Wanted
    from tilewright.targets import target

    hopper, wanted, reasons = target("sm_90a"), Wanted(), list[str]()
    rates = rates_of(hopper)
    if is_thin(question, wanted):
        shape = thin_shape(question, hopper, reasons)
    else:
        shape = choose_tile_shape(rates, question, hopper, wanted, reasons)
    large = choose_turns(rates, question, shape, hopper, wanted, reasons, {})
    summed = long_sum_shape(question, large.shape, hopper, wanted, reasons)
    return parts_of(summed, turns=large.turns and summed == large.shape)
