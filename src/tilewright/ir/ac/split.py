"""Which part of a tile's result is a CTA's, where CTAs of a cluster share the tile's contracted axis.

A sum's parts are whole fragments of eight columns, so that more CTAs may share a tile than it has parts. Each of the
first `parts` CTAs along z then gets a part; the others only write what they have into those CTAs' shared memory, and
nothing of the tile is theirs. What they would store lies past the last row: see `ac.split.part`.
Checked by: tests/lower/distribution/test_split_product.py, and by `contract.typestate.steps.split` on every kernel.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntAttr
from xdsl.irdl import irdl_op_definition, prop_def, result_def

from tilewright.ir.ac.format import AcOperation
from tilewright.ir.ac.types import IndexType

SPARE_ROWS = 1 << 25
"""Rows past those of any array whose tiles have fewer parts than CTAs. Thirty times as many are an int32."""


@irdl_op_definition
class SplitPartOp(AcOperation):
    """Which of `parts` parts of a tile's columns is this CTA's, and by how many times `parts` CTAs it stands past the
    first ones: its place along z in the cluster modulo `parts`, and divided by it.

    A CTA stores its part at rows `SPARE_ROWS` * spare further down, so that stores of those past the first fall outside
    the array, where nothing is written (bounds checks, and the copy engine).
    """

    name = "ac.split.part"
    parts = prop_def(IntAttr)
    part = result_def(IndexType)
    spare = result_def(IndexType)


def sum_parts(columns: int, ctas: int) -> int:
    """Into how many parts the sum of a tile of so many columns is cut, where `ctas` CTAs share it: as many, up to one
    for each, as make equal parts of whole fragments."""
    return max(parts for parts in range(1, ctas + 1) if columns % (8 * parts) == 0 or parts == 1)


def contributions(ctas: int, parts: int) -> int:
    """How many sums of a part a CTA gets through shared memory: one of each CTA, or of two with a part each the other's
    alone."""
    return 1 if (ctas, parts) == (2, 2) else ctas
