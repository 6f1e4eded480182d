"""Which kernel serves a call whose number of rows is new: one for exactly these rows, or one for a range of them?

Where rows vary, as in serving, a kernel for each number is a compilation in the middle of the work for each. So the
first numbers of rows that a kind of call comes with have kernels of their own, as have those that are asked for; from
then on rows are said to vary, and every other number is served by the kernel of its range, compiled and proven when the
range first occurs. Ranges are narrow, since tiles are chosen for the largest number of rows. An
exact kernel that there is goes before.

Not handled: more rows than the last range has, products of batches and of groups: those have exact kernels alone.
Checked by: tests/driver/compile/test_row_ranges.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, get_args

from tilewright.base.error import TilewrightError
from tilewright.base.size import Range
from tilewright.driver.run.run import CompiledKernel
from tilewright.ir.tile.types import MAX_TENSOR_ELEMENTS
from tilewright.runtime.arrays import ArrayView

Rows = Literal["exact", "range"]
"""A caller's wish: a kernel for the very number of rows, or the one of its range."""

EXACT_FIRST = 4
"""Numbers of rows of a kind of call that get kernels of their own: those of training, evaluation and last batches."""
ENDS = (0, 16, 32, 48, *(step << octave for octave in range(4, 13) for step in (4, 5, 6, 7)), 32768)
"""Of ranges: each begins behind one and ends at the next, a fourth of an octave further from 64 rows on. Far below its
end a range is slow: its tiles are those of the end, and what they reach past the rows the copy engine fills with zeros,
which takes as long as bringing it."""


def require_wish(rows: object) -> None:
    """Raises TilewrightError for what is no wish."""
    if rows is not None and rows not in get_args(Rows):
        raise TilewrightError(f"rows is {rows!r}", remedy="leave it out, or give 'exact' or 'range'")


@dataclass(slots=True)
class Kind:
    """Calls that differ in their number of rows alone. exact: numbers that have kernels of their own; ranges: kernels
    of ranges, None where there can be none."""

    exact: set[int] = field(default_factory=set[int])
    ranges: dict[Range, CompiledKernel | None] = field(default_factory=dict["Range", "CompiledKernel | None"])

    def wants_range(self, rows: int, wish: Rows | None) -> bool:
        """Whether a number of rows is served by its range, if it may be."""
        if wish is not None:
            return wish == "range"
        return rows not in self.exact and len(self.exact) >= EXACT_FIRST


def rows_of(views: Mapping[str, ArrayView], axes: Mapping[str, tuple[str, ...]], axis: str) -> int:
    """How many rows a call has."""
    return next(view.shape[0] for name, view in views.items() if axes[name][0] == axis)


def range_of(rows: int, most: int) -> Range | None:
    """The range that a number of rows belongs to, of at most so many; None past the last."""
    for before, end in pairwise(ENDS):
        if rows <= end:
            return Range(before + 1, min(end, most)) if rows <= most else None
    return None


def most_rows(views: Mapping[str, ArrayView], axes: Mapping[str, tuple[str, ...]], axis: str) -> int:
    """Rows with which no array is larger than a program's may be."""
    steps = [view.strides[0] for name, view in views.items() if axes[name][0] == axis]
    return MAX_TENSOR_ELEMENTS // max(1, *steps)
