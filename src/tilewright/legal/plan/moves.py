"""In which other words can the same elements of a tensor, and the same box of them, be described?

A move turns one reading into another that has the same elements at the same addresses: it drops a dimension of one
element, folds two dimensions into one, splits one, permutes them, reads elements as wider or narrower ones, begins
earlier, or takes in what lies between strided elements. Each move says where an index and a box's first coordinate go,
so that a plan can be checked element by element.

Theory: a reading is an affine map from indices to addresses on a box of integers. A move is right where (1) addresses
agree on every index of the tensor, (2) every box that begins at a permitted coordinate lies, after the move, in the
moved box, and (3) an index past the tensor's end, within a wanted box, is past the end afterwards too, so that it is
filled and not read from a neighbour. A move whose conditions do not hold answers None. Two moves make several copies
of one: `Unroll` takes one index at a time, `Select` is one of several maps that share the tensor's indices.

Not handled: element strides other than 1 in a dimension that a move combines (`Permute` and `Subsample` accept them).
Checked by tests/legal/plan/test_moves.py, element by element.
"""

from __future__ import annotations

from tilewright.legal.plan.dimension_moves import DropUnit, Fill, Fold, InsertUnit, Permute, Restride, Split, Subsample
from tilewright.legal.plan.element_moves import Absorb, Expose, Narrow, Realign, Select, Shift, Unroll, Widen

Move = (
    DropUnit | InsertUnit | Fold | Split | Permute | Fill | Subsample | Restride
    | Widen | Narrow | Expose | Absorb | Shift | Realign | Unroll | Select
)  # fmt: skip

__all__ = [
    "Absorb", "DropUnit", "Expose", "Fill", "Fold", "InsertUnit", "Move", "Narrow", "Permute", "Realign", "Restride",
    "Select", "Shift", "Split", "Subsample", "Unroll", "Widen",
]  # fmt: skip
