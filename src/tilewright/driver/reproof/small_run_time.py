"""At which run-time extents is the text of a program run, when only its launch knows one?

The text is one for all extents: they reach it as parameters, so that nothing is put in the place of anything. What
depends on the extent is how many tiles there are, how full the last one is, and how many of them a CTA takes or a walk
goes through. So the small instance, whose other extents are reduced as always (`small`), is run with so many tiles as
show what one CTA does with several, and as take every ring round, the last one full and of one element; and with one
tile and two: at the smallest extent of the range, and one below, at and one above a whole tile. All are extents of the
range, the nearest where these are none.

That what these show holds of every extent is an argument of its own: the program's proof is for any number of tiles and
of iterations, which nothing else of the protocol depends on; the places of tiles are worked out for each number of
them, and how many iterations a launch passes is read off its expression (`tile_places`). Checked by:
tests/driver/reproof/test_run_time.py and test_run_time_walks.py.
"""

from __future__ import annotations

from itertools import zip_longest

from tilewright.base.size import Chosen, Computed, Extent, Range, Size
from tilewright.driver.reproof.small import small_extents
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import ElementwiseDecisions, decisions_of
from tilewright.ir.tile import operations as tile


def run_time_instances(program: tile.ProgramOp) -> tuple[dict[str, int], ...]:
    """Extents of every small instance of a decided program with run-time axes, the one with most tiles first. Each has
    all of its own; what one axis decides no other has a part in, so that they need not be put together in all ways. Two
    axes of equal extents would not be distinguished: so each goes through its own in another order."""
    base, run_time = small_extents(program), program.run_time
    listed = {axis: _extents_along(program, axis, base[axis], number) for number, axis in enumerate(run_time)}
    least = tuple(values.least_launched for values in run_time.values())
    several = [*zip_longest(*listed.values()), *([least] if len(least) > 1 else [])]
    return tuple(
        base | {axis: each or listed[axis][0] for axis, each in zip(listed, extents, strict=True)}
        for extents in several
    )


def _extents_along(program: tile.ProgramOp, axis: str, most: int, number: int) -> list[int]:
    """Of one axis. most: elements of so many tiles as show what is done with several; number: of the axis."""
    values, size = program.run_time[axis], tile_extent(program, axis)
    tiles = -(-most // size)
    several, few = ((tiles - 1) * size + 1, tiles * size), (values.least_launched, size - 1, size, size + 1)
    first = number % len(few)
    wanted = (*several[:: -1 if number % 2 else 1], *few[first:], *few[:first])
    return list(dict.fromkeys(nearest(values, each) for each in wanted))


def tile_extent(program: tile.ProgramOp, axis: str) -> int:
    """Elements of a tile along a run-time axis; of a row, of what all threads of a unit take in one step."""
    decisions = decisions_of(program.attributes["decisions"])
    match decisions:
        case CascadeDecisions():
            return decisions.step_along(axis)
        case ElementwiseDecisions(rows=(row,)) if axis == row.axis:
            return row.strip if row.streamed else row.strip // row.pieces
        case _:
            return 1


def nearest(values: Range, extent: int) -> int:
    """The extent of a range that is nearest to one at which something is launched, and no less where there is one."""
    above = -(-extent // values.multiple_of) * values.multiple_of
    return min(max(above, values.least_launched), values.most)


def is_of_tiles(size: Size, axis: str, tile_size: int) -> bool:
    """Whether a size depends on an axis by its number of tiles alone, as far as its form shows."""
    match size:
        case int():
            return True
        case Computed("ceil_div", Extent(name), int(by)) if (name, by) == (axis, tile_size):
            return True
        case Computed(_, left, right):
            return is_of_tiles(left, axis, tile_size) and is_of_tiles(right, axis, tile_size)
        case Chosen(index):
            return is_of_tiles(index, axis, tile_size)
        case Extent(name):
            return name != axis or tile_size == 1
