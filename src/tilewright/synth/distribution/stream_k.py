"""Which tiles are cut along the contracted axis so that idle CTAs help with them, and when does that pay?

Tiles come out even on the multiprocessors only by luck: the last wave leaves some CTAs idle. Streamed, the tiles of
that wave are cut at one slice, and the idle CTAs take what lies before it of several tiles each (`ir.ac.stream`, which
says why at one slice). With n tiles to a helper, the wave takes n / (n + 1) of its time. That costs an exchange through
memory: a helper writes its accumulators for each of its tiles, and each tile's owner reads them.

Not handled: clusters, a contracted axis that a cluster's CTAs share, batches, rows in groups, scaled products, several
products, operands computed in registers or copied by threads. Checked by: tests/synth/distribution/test_stream_k.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from tilewright.base.error import TilewrightError
from tilewright.synth.cost.model import Rates, rates_of
from tilewright.synth.cost.model import slice_cycles as model_cycles
from tilewright.synth.tile.shape import TileQuestion, TileShape
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_HIDING_WAVES = 3
"""With fewer waves in all, few whole tiles follow, behind which handing over would hide."""
_MOST_HEADS = 10
"""Of a helper: with more of them nothing was measured."""
LEAST_TURNED_COLUMNS = 144
"""Of tiles whose results leave turned: most narrower ones lost by streaming, up to a tenth (measured there; why is not
known)."""
STREAMED_BYTES = 2
"""Of operands' elements, for which that was measured."""


@dataclass(frozen=True, slots=True)
class StreamCosts:
    """handed_cycles: what handing over a partial sum takes a helper besides multiplying; head_cycles: the least that a
    head takes then, however short it is; taken_cycles: what taking it up costs an owner, and exposed_cycles besides
    where nothing hides it; worth_cycles: of a head, which shorter ones are not."""

    handed_cycles: int
    head_cycles: int
    taken_cycles: int
    exposed_cycles: int
    worth_cycles: int


@cache
def costs_of(target: Target, *, turns: bool) -> StreamCosts:
    """turns: whether consumers alternate whole tiles, some of the exchange beside the other one's product."""
    kind = "in_turn" if turns else "shared"
    handed, head, taken, worth = (
        target.limit(f"stream_k.{name}_cycles_{kind}") for name in ("handed", "head", "taken", "worth")
    )
    return StreamCosts(handed, head, taken, target.limit("stream_k.exposed_cycles"), worth)


@dataclass(frozen=True, slots=True)
class Stream:
    """tiles: how many are streamed; ctas: over how many; head_slices: of each tile, a helper's; saved_cycles: of the
    whole product's, expected, 0 where none are."""

    tiles: int
    ctas: int
    head_slices: int
    saved_cycles: float


@dataclass(frozen=True, slots=True)
class CutTiles:
    """What is asked of tiles that may be streamed. counts: of tiles, and of slices of each; least: slices of the
    shortest part; extents: rows, columns and depth of a slice; turns: whether consumers take tiles alternately; fitted:
    whether what is known of the gain is of such tiles."""

    counts: tuple[int, int]
    least: int
    extents: tuple[int, int, int]
    element_bytes: int
    turns: bool
    fitted: bool


def choose_stream(cut: CutTiles, obstacle: str, target: Target, wanted: Wanted) -> tuple[Stream, str] | None:
    """The tiles to stream, and the reason in words; None for none. obstacle: why there can be none, if there is a
    reason. Raises TilewrightError where it is asked for and cannot be."""
    if wanted.stream_k is False:
        return None
    rates, (tiles, slices) = rates_of(target, cut.element_bytes), cut.counts
    cycles = max(model_cycles(rates, cut.extents, cut.element_bytes))
    question = (tiles, slices, cut.least, rates.multiprocessors)
    stream = None if obstacle else leftover(*question, slice_cycles=cycles, costs=costs_of(target, turns=cut.turns))
    if stream is None:
        if wanted.stream_k:
            why = obstacle or f"{tiles} tiles of {slices} slices leave nothing to {rates.multiprocessors} CTAs"
            raise TilewrightError(f"no tiles are streamed: {why}", remedy="leave stream_k out, or ask for another tile")
        return None
    if wanted.stream_k is None and not (pays(stream, tiles) and cut.fitted):
        return None
    helpers = stream.ctas - stream.tiles
    return stream, (
        f"the first {stream.tiles} of {tiles} tiles are streamed: {helpers} CTAs take {stream.head_slices} of the "
        f"{slices} slices of each, of up to {math.ceil(stream.tiles / helpers)} tiles"
    )


def leftover(
    tiles: int, slices: int, least: int, ctas: int, *, slice_cycles: float, costs: StreamCosts
) -> Stream | None:
    """The tiles after whole waves, if there are any and their slices can be shared with the CTAs that have none.

    slices: of a tile; least: slices of the shortest part of a tile; slice_cycles: of a slice's product.
    """
    left = tiles % ctas
    if not left:
        return None
    heads = math.ceil(left / (ctas - left))
    handed = costs.handed_cycles
    # A helper is done when owners are.
    head = int((slices - heads * handed / slice_cycles) / (heads + 1))
    if head < least or heads * max(head * slice_cycles + handed, costs.head_cycles) > slices * slice_cycles:
        return None
    worth = head * slice_cycles >= costs.worth_cycles and heads <= _MOST_HEADS
    taken = costs.taken_cycles + (costs.exposed_cycles if tiles < _HIDING_WAVES * ctas else 0)
    return Stream(left, ctas, head, head * slice_cycles - taken if worth else 0.0)


def expected_saving(rates: Rates, question: TileQuestion, shape: TileShape, target: Target, *, turns: bool) -> float:
    """Cycles that a product in tiles of this shape is expected to save by streaming, 0 where it would not stream."""
    plain = question.products == 1 and question.batch == 1 and not question.scaled_depth and shape.split == 1
    narrow = shape.swapped != question.orientations[0] and shape.columns < LEAST_TURNED_COLUMNS
    if not plain or narrow or question.element_bytes != STREAMED_BYTES:
        return 0.0
    rows, columns, depth = question.extents
    if shape.swapped:
        rows, columns = columns, rows
    tiles = math.ceil(rows / shape.rows) * math.ceil(columns / shape.columns)
    cycles = max(model_cycles(rates, (shape.rows, shape.columns, shape.depth), question.element_bytes))
    least, slices = 2 if turns else 1, math.ceil(depth / shape.depth)
    costs = costs_of(target, turns=turns)
    stream = leftover(tiles, slices, least, rates.multiprocessors, slice_cycles=cycles, costs=costs)
    return stream.saved_cycles if stream is not None and pays(stream, tiles) else 0.0


def pays(stream: Stream, tiles: int) -> bool:
    """Whether fewer cycles are expected, of products of more tiles than one wave has: shorter ones are split among
    clusters."""
    return stream.saved_cycles > 0 and tiles > stream.ctas
