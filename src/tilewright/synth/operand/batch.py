"""How operands and results that have a batch axis are reached: by maps with a third dimension for it.

A map's third dimension costs nothing: the copy engine clips rows at the end of their own matrix. Where the distance
between matrices is none that a map may have, an operand is copied as a whole into a workspace whose matrices lie
together, and a result leaves by plain stores. Tiles of one matrix follow one another, so that its operands stay in the
L2 cache. Source: PTX ISA and CUDA driver, cuTensorMapEncodeTiled.
Checked by: tests/lower/test_batch.py.
"""

from __future__ import annotations

from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import grouping
from tilewright.ir.tile.types import value_type


def batch_axis(program: tile.ProgramOp, dot: tile.DotOp) -> str:
    """The axis of a product's batch, or "" where there is none."""
    axes = value_type(dot.result).axis_names
    return axes[0] if len(axes) == 3 and grouping(program) is None else ""
