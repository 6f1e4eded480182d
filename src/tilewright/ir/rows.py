"""How do threads share the points of a program that folds them along an axis?

The points along that axis, for one place along the others, are a row. A unit of threads takes a row: a warp or a part
of one, whose partial results meet in registers, or several, whose results meet in shared memory. It walks the row by
strips, of which each thread holds `pieces` runs of `run` neighbouring points; runs of neighbouring threads lie next to
each other, so that a piece of a strip is dense. Rows that begin anywhere in a vector are taken by whole vectors too: a
row's runs begin where its array's vectors do, and its first and its last run have points of its neighbours. Where one
strip holds the row, each element is loaded once and stays in registers; else every fold, or several that do not depend
on each other, is a walk of its own.

Checked by: tests/lower/points/test_rows.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir.function import Function

COSTLY = frozenset(
    {
        Function.EXP, Function.TANH, Function.SIGMOID, Function.GELU, Function.SILU, Function.DIV, Function.SQRT,
        Function.RSQRT, Function.LOG,
    }
)  # fmt: skip
"""Functions whose results a thread keeps for later walks along the row, rather than compute them anew."""


@dataclass(frozen=True, slots=True)
class RowDecision:
    """axis: the name of the one along which rows lie; threads: of a unit, whole warps or a power of two below; run,
    pieces: as above; streamed: 1 where a row is walked by several strips; vectors: parameters whose elements are read
    or written a run at a time; across: the axis along which neighbouring units' rows lie, "" for the grid's last."""

    axis: str
    threads: int
    run: int
    pieces: int
    streamed: int
    vectors: tuple[str, ...]
    across: str = ""
    shifted: str = ""

    @property
    def most_before(self) -> int:
        """Points of the row before, that its first run has at most."""
        return self.run - 1 if self.shifted else 0

    @property
    def strip(self) -> int:
        """Points of a row that a unit takes at once."""
        return self.threads * self.run * self.pieces
