"""How many slices of its first tile a kernel asks for before the one before it has ended.

A kernel that begins early waits before it loads, since what it loads may be what the one before writes; but it may have
its operands brought into the L2 cache meanwhile (`lower.ptx.copies.prefetch`). Asked for are four slices, half of what
most rings hold: with more, what the kernel that still runs loads comes later, and eight take up to 6 % longer
(`python -m bench.probes.beginnings`). Nothing is asked for where an operand is computed by the launch before, nor where
all CTAs may begin while the kernel before is in its midst: they would ask at the wrong time (measured: 1 us of 10 lost
on an H200, where others gain 0.3). Nor where one tile has fewer slices than the ring, so that some boxes would lie past
the contracted axis and bring nothing (measured: 4 us of 12 lost at 128 x 32768 x 512 with scaled 8-bit operands; that
those boxes are the cause is not). Nor where neither operand is much the larger: asking then takes longer than it saves
(measured: 0.5 us of 5.4 lost at 1024 cubed, 0.2 of 25 at 2048).
Checked by: tests/synth/test_decide.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilewright.base.error import TilewrightError
from tilewright.synth.tile.wanted import Wanted

_MOST_SLICES = 128
"""One thread each, of the producer's warpgroup."""
_USUAL_SLICES = 4
_THIN = 16
"""How many times the elements of the other an operand has, if bringing it is most of the work."""


def prefetched_slices(
    maps: Sequence[tuple[int, ...]],
    stages: int,
    slices: int,
    wanted: Wanted,
    *,
    beside: bool = False,
) -> tuple[int, int]:
    """(slices, 1 if of the columns' operand and 0 if of the rows'): of the operand of more elements.

    maps: dimensions of the maps of the operand of the rows, of that of the columns, then of more of the columns.
    slices: of one tile. beside: whether there is room for
    this launch's CTAs while those of the one before still run. Raises TilewrightError for a wish out of range.
    """
    if wanted.prefetch is not None and not 0 <= wanted.prefetch <= _MOST_SLICES:
        raise TilewrightError(f"{wanted.prefetch} slices cannot be asked for", remedy=f"use 0 to {_MOST_SLICES}")
    plain = all(len(dims) == 2 for dims in maps)
    if not plain or wanted.programmatic is False:
        return 0, 0
    rows, columns = (math.prod(dims) for dims in maps[:2])
    thin = max(rows, columns) >= _THIN * min(rows, columns)
    usual = min(stages, _USUAL_SLICES) if thin and not beside and slices >= stages else 0
    return usual if wanted.prefetch is None else wanted.prefetch, int(columns > rows)
