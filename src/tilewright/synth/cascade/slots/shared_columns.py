"""Which numbers of streamed columns does a walk load while products run, and keep in shared memory?

Checked by: tests/synth/cascade/test_decide.py.
"""

from __future__ import annotations

from tilewright.ir.cascade_facts import CascadeAxes, first_alike, load_number
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import block_size
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.facts import loops
from tilewright.ir.tile.types import tensor_type
from tilewright.targets import Target


def shared_columns(
    program: tile.ProgramOp, axes: CascadeAxes, brought: tuple[tile.LoadOp, ...], target: Target
) -> tuple[int, ...]:
    """The loads of numbers of streamed columns that a walk makes while products of slots run."""
    if target.supports("tensor_memory"):
        return ()
    found: dict[int, None] = {}
    for loop in loops(program):
        inside = list(loop.body.block.ops)
        scores = any(isinstance(op, ContractOp) and op.axis.data != axes.streamed for op in inside)
        for op in inside:
            if not isinstance(op, tile.LoadOp) or not scores or axes.kept(op.result) != frozenset({axes.streamed}):
                continue
            first = first_alike(program, op)
            if first not in brought and all(block_size(axis) == 1 for axis in tensor_type(op.tensor).axis_names):
                found[load_number(program, first)] = None
    return tuple(found)
