"""How do threads share the points of a program that folds them along an axis?

The points along that axis, for one place along the others, are a row. A unit of threads takes a row: a warp or a part
of one, whose partial results meet in registers, or several, whose results meet in shared memory. It walks the row by
strips, of which each thread holds `pieces` runs of `run` neighbouring points; runs of neighbouring threads lie next to
each other, so that a piece of a strip is dense. Rows that begin anywhere in a vector are taken by whole vectors too: a
row's runs begin where its array's vectors do, and its first and its last run have points of its neighbours.

The CTAs of a cluster may share a row too: their threads are one unit, whose results meet in each CTA's shared memory.
Where one strip holds the row, each element is loaded once and stays in registers; else every fold, or several that do
not depend on each other, is a walk of its own. What several walks need may wait in shared memory between them: each
thread copies there what it reads of the row itself, so nobody waits for anybody else's copies.

Checked by: tests/lower/points/test_rows.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tilewright.base.size import Size, ceil_div, product
from tilewright.ir.function import Function
from tilewright.ir.placement import Placement, contributors, dealt, folded, placed
from tilewright.layout.linear.hierarchy import Hierarchy

COSTLY = frozenset(
    {
        Function.EXP, Function.TANH, Function.SIGMOID, Function.GELU, Function.SILU, Function.DIV, Function.SQRT,
        Function.RSQRT, Function.LOG,
    }
)  # fmt: skip
"""Functions whose results a thread keeps for later walks along the row, rather than compute them anew."""

_WARP_THREADS = 32
_WORD_BYTES = 4
BARRIER_BYTES = 8
BUFFER_BYTES = 128
"""At whose multiples buffers of shared memory begin."""


@dataclass(frozen=True, slots=True)
class RowDecision:
    """axis: the name of the one along which rows lie; threads: of a unit, whole warps or a power of two below; run,
    pieces: as above; streamed: 1 where a row is walked by several strips; vectors: parameters whose elements are read
    or written a run at a time; across: the axis along which neighbouring units' rows lie, "" for the grid's last;
    shifted: the parameter whose vectors runs follow, "" where rows begin at one; ctas: of a cluster, over which a
    unit's threads are spread evenly; kept: parameters of which a streamed row waits in shared memory; narrow: 1 where
    results of at most 16 bits alone follow of what `ir.tile.narrow` has a quicker form for, which is then taken;
    spaced: parameters between whose rows lie bytes of no element, which a run that a row's end cuts may not read;
    backwards: 1 where CTAs that begin first take the last rows; together: rows that a unit takes at once, so that what
    all rows share is loaded once for them."""

    axis: str
    threads: int
    run: int
    pieces: int
    streamed: int
    vectors: tuple[str, ...]
    across: str = ""
    shifted: str = ""
    ctas: int = 1
    kept: tuple[str, ...] = ()
    narrow: int = 0
    spaced: tuple[str, ...] = ()
    backwards: int = 0
    together: int = 1

    @property
    def most_before(self) -> int:
        """Points of the row before, that its first run has at most."""
        return self.run - 1 if self.shifted else 0

    @property
    def strip(self) -> int:
        """Points of a row that a unit takes at once."""
        return self.threads * self.run * self.pieces

    @property
    def cta_threads(self) -> int:
        """Threads of a unit in one CTA."""
        return self.threads // self.ctas

    @property
    def deal(self) -> Hierarchy:
        """Which points of a strip each place of the unit has."""
        lanes = min(self.threads, _WARP_THREADS)
        return dealt(
            {
                "register": [(self.run, self.axis, 1), (self.pieces, self.axis, self.threads * self.run)],
                "lane": [(lanes, self.axis, self.run)],
                "warp": [(self.cta_threads // lanes, self.axis, lanes * self.run)],
                "cta": [(self.ctas, self.axis, self.cta_threads * self.run)],
            }
        )

    @property
    def of_fold(self) -> Placement:
        """Of a fold along the row: what the places have is folded at each level at which they have contributions."""
        return _of_fold(self)

    @property
    def warps(self) -> int:
        """Of all CTAs, that have a contribution to a fold each."""
        return contributors(self.of_fold, "warp") * contributors(self.of_fold, "cta")

    def grid(self, rows: Size, block: int) -> Size:
        """CTAs of `block` threads for so many rows."""
        if self.ctas > 1:
            return product((ceil_div(rows, self.together), self.ctas))
        return ceil_div(rows, self.together * (block // self.threads))

    def partial_bytes(self, folds: int, words: int) -> int:
        """Shared memory of a CTA for what warps have of folds: words of each warp, of all folds, where units have
        several warps; and a barrier for each fold of a cluster."""
        barriers, warps = folds * BARRIER_BYTES if contributors(self.of_fold, "cta") > 1 else 0, self.warps
        return barriers + self.together * words * warps * _WORD_BYTES if warps > 1 else 0

    def kept_bytes(self, length: int, element_bytes: int) -> int:
        """Shared memory of a CTA in which rows wait: whole strips. element_bytes: of all that wait of a row."""
        strips = -(-(length + self.most_before) // self.strip)
        return self.together * strips * self.kept_strip_bytes(element_bytes)

    def kept_strip_bytes(self, element_bytes: int) -> int:
        """Of one strip of a row."""
        return self.cta_threads * self.run * self.pieces * element_bytes


@lru_cache(maxsize=64)
def _of_fold(row: RowDecision) -> Placement:
    return folded(placed(row.deal, (row.axis,)), row.axis, "fold")
