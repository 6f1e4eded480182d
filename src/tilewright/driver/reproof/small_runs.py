"""Which small instance stands for a kernel whose threads take runs of points?

A thread goes round a loop over pairs of runs, then round one over single runs. The instance has two CTAs, or as many
more as it takes for what follows. Its extents are those with which threads go round the first loop as often as in the
program, but at most twice, and with which what is left is taken as it is there: as single runs alone, or by some
threads as a pair, by others as a single one. So whoever may skip a loop there may do so here. The remainder of the last
axis by a run is the program's, and so are all strides: rows begin at addresses of every alignment that they have there.
Extents that differ in the program differ in the instance, so that one in the place of another shows.

Not handled: what is left over of programs for which _CTAS_MOST CTAs do not suffice.
Checked by: tests/driver/reproof/test_small_runs.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tilewright.ir.decisions import ElementwiseDecisions

_CTAS = 2
_CTAS_MOST = 16
_PAIRED = 2
"""Runs that a thread has in flight at once."""
_ROUNDS = 2
"""How often each thread goes round the loop over as many runs, at most; some more often."""
_RUNS_OF_ROW = 48
"""At most: so few rows that what lies between them is no large part of memory."""
_MATRICES = 2
"""Elements left of an axis besides the last and the longest."""


def runs_instance(
    d: ElementwiseDecisions, axes: Sequence[str], extents: Mapping[str, int]
) -> tuple[dict[str, int], int]:
    """Extents, and CTAs. axes: of the grid, in order; extents: of the program."""
    least = min(d.ctas, _CTAS)
    for ctas in range(least, min(d.ctas, _CTAS_MOST) + 1):
        found = _extents(d, axes, extents, ctas, or_nearest=False)
        if found is not None:
            return found, ctas
    found = _extents(d, axes, extents, least, or_nearest=True)
    assert found is not None
    return found, least


def runs_quantities(d: ElementwiseDecisions, axes: Sequence[str], extents: Mapping[str, int]) -> list[int]:
    """What the lowering may write as an immediate that depends on extents."""
    *others, last = (extents[axis] for axis in axes)
    runs = -(-last // d.run)
    return [runs, runs * math.prod(others), *others]


def _extents(
    d: ElementwiseDecisions, axes: Sequence[str], extents: Mapping[str, int], ctas: int, *, or_nearest: bool
) -> dict[str, int] | None:
    """With which threads of so many CTAs do what those of the program do; None if there are none. or_nearest: the
    largest that were looked at, then."""
    *others, last = axes
    runs = -(-extents[last] // d.run)
    kept = min(runs, _RUNS_OF_ROW)
    found = {axis: min(extents[axis], _MATRICES) for axis in others}
    found[last] = d.run * (kept - 1) + (extents[last] % d.run or d.run)
    if not others:
        return found | {last: extents[last]} if runs == kept or or_nearest else found
    longest = max(others, key=lambda axis: extents[axis])
    total = runs * math.prod(extents[axis] for axis in others)
    threads = ctas * d.threads
    rounds, rest = divmod(total, _PAIRED * d.ctas * d.threads)
    most = _PAIRED * threads
    begin = min(rounds, _ROUNDS) * most
    left = range(threads + 1, most) if rest > d.ctas * d.threads else range(1, threads)
    row = kept * math.prod(found[axis] for axis in others if axis != longest)
    taken = {found[last], kept} if extents[longest] not in (extents[last], runs) else set[int]()
    sizes = range(1, min(extents[longest], (begin + most) // row + 2) + 1)
    # The most, so that threads of all CTAs take what is left.
    wanted = (size for size in reversed(sizes) if size not in taken and row * size - begin in left)
    size = next(wanted, sizes[-1] if or_nearest else None)
    return None if size is None else found | {longest: size}
