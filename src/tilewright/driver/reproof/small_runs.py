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
from bisect import bisect_right
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
_FEW = 2
"""Elements left of an axis that is not its result's only one besides the last."""
_ROWS_SHARED = 16
"""Rows left of an axis that several results have."""


def runs_instance(
    d: ElementwiseDecisions, results: Sequence[Sequence[str]], extents: Mapping[str, int]
) -> tuple[dict[str, int], int]:
    """Extents, and CTAs. results: the axes of each, in the order in which its runs are taken; extents: of the
    program."""
    least = min(d.ctas, _CTAS)
    for ctas in range(least, min(d.ctas, _CTAS_MOST) + 1):
        found = _extents(d, results, extents, ctas, or_nearest=False)
        if found is not None:
            return found, ctas
    found = _extents(d, results, extents, least, or_nearest=True)
    assert found is not None
    return found, least


def runs_quantities(d: ElementwiseDecisions, results: Sequence[Sequence[str]], extents: Mapping[str, int]) -> list[int]:
    """What the lowering may write as an immediate that depends on extents."""
    found: list[int] = []
    for axes in results:
        *others, last = (extents[axis] for axis in axes)
        runs = -(-last // d.run)
        found += [runs, runs * math.prod(others), *others, runs * d.run]
    return found


def _extents(
    d: ElementwiseDecisions,
    results: Sequence[Sequence[str]],
    extents: Mapping[str, int],
    ctas: int,
    *,
    or_nearest: bool,
) -> dict[str, int] | None:
    """With which threads of so many CTAs do what those of the program do; None if there are none. or_nearest: the
    largest that were looked at, then."""
    free = {axes: _free_axis(axes, results, extents) for axes in map(tuple, results)}
    found: dict[str, int] = {}
    for axes in results:
        *others, last = axes
        for axis in others:
            least = _FEW if len(others) > 1 else _ROWS_SHARED
            found[axis] = max(found.get(axis, 0), min(extents[axis], least))
        found[last] = max(found.get(last, 0), _in_runs(d, extents[last], _RUNS_OF_ROW))
    threads = ctas * d.threads
    most = _PAIRED * threads
    for axes, axis in free.items():
        *others, last = axes
        runs = -(-extents[last] // d.run)
        total = runs * math.prod(extents[each] for each in others)
        rounds, rest = divmod(total, _PAIRED * d.ctas * d.threads)
        begin = min(rounds, _ROUNDS) * most
        left = range(threads + 1, most) if rest > d.ctas * d.threads else range(1, threads)

        def count(size: int, axis: str = axis, others: Sequence[str] = others, last: str = last) -> int:
            sizes = found | {axis: size}
            return -(-sizes[last] // d.run) * math.prod(sizes[each] for each in others)

        step = d.run if axis == last else 1
        parts = range(1, -(-extents[axis] // step) + 1)
        # The more of an axis, the more runs there are.
        enough = bisect_right(parts, begin + most, key=lambda each, step=step: count(step * each - step + 1))
        sizes = [_in_runs(d, extents[axis], each) if axis == last else each for each in parts[:enough]]
        taken = {size for each, size in found.items() if extents[each] != extents[axis]}
        fitting = (size for size in reversed(sizes) if size not in taken and count(size) - begin in left)
        size = next(fitting, sizes[-1] if or_nearest else None)
        if size is None:
            return None
        found[axis] = size
    return found


def _in_runs(d: ElementwiseDecisions, extent: int, most: int) -> int:
    """At most so many runs of an axis, the last one as long as the axis's."""
    runs = min(-(-extent // d.run), most)
    return d.run * (runs - 1) + (extent % d.run or d.run)


def _free_axis(axes: Sequence[str], results: Sequence[Sequence[str]], extents: Mapping[str, int]) -> str:
    """The axis of which as much is left as it takes: one that no result over other axes has, not the last if another
    one will do."""
    others = {axis for each in results if set(each) != set(axes) for axis in each}
    own = [axis for axis in axes if axis not in others] or list(axes)
    return max(own, key=lambda axis: (axis != axes[-1], extents[axis]))
