"""Which tiles are cut along the contracted axis and streamed over all CTAs, and when does that pay?

Tiles come out even on the multiprocessors only by luck: the last wave leaves some idle. Streamed, what is left over
after whole waves is dealt out slice by slice, so that all CTAs end together. That costs an exchange through memory: a
CTA whose share ends inside a tile writes its accumulators, and who finishes the tile reads them.

What is left over is less than a wave, so that no share is longer than a tile (`ir.ac_stream`). Shares are counted in
granules: the fewest slices that a part of a tile may have, if they divide a tile.

Not handled: clusters, a contracted axis that a cluster's CTAs share, batches, rows in groups, scaled products, several
products, operands computed in registers or copied by threads. Checked by: tests/synth/test_stream_k.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tilewright.base.error import TilewrightError
from tilewright.ir import tile
from tilewright.ir.decisions import PipelineDecisions
from tilewright.ir.tile_facts import dots
from tilewright.synth.model import rates_of
from tilewright.synth.wanted import Wanted
from tilewright.targets import Target

_EXCHANGE_CYCLES = 12000
"""What the exchange of partial sums costs a CTA, where it is not hidden; fitted (`python -m bench stream-k`)."""


@dataclass(frozen=True, slots=True)
class Stream:
    """tiles: how many are streamed; ctas: over how many; granule: slices; contributors: CTAs, at most, whose partial
    sums one adds up."""

    tiles: int
    ctas: int
    granule: int
    contributors: int


def streamed(program: tile.ProgramOp, d: PipelineDecisions, target: Target, wanted: Wanted) -> PipelineDecisions:
    """The decisions, with tiles streamed where that is asked for or expected to be quicker.

    Raises TilewrightError where it is asked for and cannot be.
    """
    if wanted.stream_k is False:
        return d
    rates = rates_of(target, d.a.map.tensor_map().element.bytes)
    obstacle = _obstacle(program, d)
    tiles, slices = _tiles(program, d), _slices(program, d)
    stream = None if obstacle else leftover(tiles, slices, least_granule(d), rates.multiprocessors)
    if stream is None:
        if wanted.stream_k:
            why = obstacle or f"{tiles} tiles of {slices} slices leave nothing to {rates.multiprocessors} CTAs"
            raise TilewrightError(f"no tiles are streamed: {why}", remedy="leave stream_k out, or ask for another tile")
        return d
    if wanted.stream_k is None:
        return d
    reason = (
        f"the first {stream.tiles} of {tiles} tiles are streamed over {stream.ctas} CTAs, {stream.granule} slices at "
        f"least at a time: at most {stream.contributors} partial sums to a tile"
    )
    return replace(
        d,
        streamed=stream.tiles,
        granule=stream.granule,
        ctas=stream.ctas,
        # What is asked for before the kernel before has ended would belong to a whole tile.
        prefetch=0,
        prefetch_columns=0,
        reasons=(*d.reasons, reason),
    )


def leftover(tiles: int, slices: int, least: int, ctas: int) -> Stream | None:
    """The tiles after whole waves, if there are any and every CTA can have a granule of them.

    slices: of a tile; least: slices of the shortest part of a tile.
    """
    left = tiles % ctas
    granule = next((count for count in range(least, slices // 2 + 1) if slices % count == 0), 0)
    if not left or not granule:
        return None
    share = left * (slices // granule) // ctas
    if share == 0:
        return None
    # Shares that a tile's last slice does not belong to.
    return Stream(left, ctas, granule, math.ceil((slices // granule - 1) / share))


def least_granule(d: PipelineDecisions) -> int:
    """Slices of the shortest part of a tile: those that a consumer's loop takes before it turns, and where tiles are
    taken in turn one that was waited for before the turn is passed on."""
    return max(2, d.release_distance + 1) if d.turns else max(1, d.release_distance)


def _obstacle(program: tile.ProgramOp, d: PipelineDecisions) -> str:
    """Why tiles of these decisions cannot be streamed; empty where they can."""
    plain = {
        "CTAs of a cluster share what they load": d.cluster_ctas > 1,
        "CTAs of a cluster share the contracted axis": d.split > 1,
        "a batch has several matrices": bool(d.batch),
        "rows stand in groups": bool(d.grouping),
        "the product is scaled in its loop": d.partials > 1 or any(dot.scales for dot in dots(program)),
        "several products share an operand": d.products > 1,
        "an operand is computed in registers": bool(d.computed),
        "threads copy an operand": d.copies_by_threads,
    }
    return next((why for why, stands in plain.items() if stands), "")


def _tiles(program: tile.ProgramOp, d: PipelineDecisions) -> int:
    return math.ceil(program.extents[d.rows] / d.tile_m) * math.ceil(program.extents[d.columns] / d.tile_n)


def _slices(program: tile.ProgramOp, d: PipelineDecisions) -> int:
    return math.ceil(program.extents[d.contracted] / d.tile_k)
