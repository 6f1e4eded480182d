"""What does the small instance of a program look like whose first tiles are streamed over CTAs?

The instance has two streamed tiles and five CTAs, so that there are a CTA with the beginning of a tile alone, one with
slices from the middle of a tile, one that ends a tile which two others have begun and begins another, and CTAs that go
on with whole tiles. Where a program has less, it is taken as it is.
Checked by: tests/driver/test_small_streams.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from tilewright.ir.decisions import PipelineDecisions
from tilewright.lower.stream_share import share_quantities

_CTAS, _STREAMED, _WHOLE = 5, 2, 3


@dataclass(frozen=True, slots=True)
class SmallStream:
    """ctas; streamed: tiles; tiles: no fewer than these in all; slices: of a tile."""

    ctas: int
    streamed: int
    tiles: int
    slices: int


def small_stream(d: PipelineDecisions, tiles: int, slices: int) -> SmallStream:
    """The instance of decisions that stream. tiles, slices: of the program, in all and of each tile."""
    streamed = min(_STREAMED, d.streamed)
    # A ring's worth of slots and nearly another, so that every slot is filled again; an odd number of granules, so that
    # the middle of all is no place where one share of five ends.
    granules = max(_CTAS, math.ceil((2 * d.stages - 1) / d.granule)) | 1
    short = min(slices, granules * d.granule)
    most = min(_CTAS, d.ctas, streamed * short // d.granule)
    choices = [ctas for ctas in range(most, streamed, -1) if _crosses(streamed, short // d.granule, ctas)]
    ctas = choices[0] if choices else most
    return SmallStream(ctas, streamed, streamed + min(_WHOLE, tiles - d.streamed), short)


def _crosses(streamed: int, granules: int, ctas: int) -> bool:
    """Whether a share lies in two tiles. granules: of a tile."""
    base, larger = divmod(streamed * granules, ctas)
    edges = [cta * base + min(cta, larger) for cta in range(ctas + 1)]
    return any(low // granules < (high - 1) // granules for low, high in pairwise(edges))


def stream_quantities(d: PipelineDecisions, slices: int) -> list[int]:
    """Immediates of the text that depend on extents. slices: of a tile."""
    return [d.streamed, *share_quantities(d.streamed, slices, d.granule, d.ctas)] if d.streamed else []
