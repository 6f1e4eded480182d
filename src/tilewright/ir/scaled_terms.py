"""Which numbers of blocks scale a product of a walk before it is added?

A product that is scaled in its loop is multiplied, in the loop's walk, with expressions over the numbers of the block
that its tile lies in (`tile.walked_block`), one after the other; what comes of the last is the term that is added.

Not handled, and no scales: factors that anything else goes into. Checked by:
tests/synth/cascade/sums/test_scaled_sums.py and tests/synth/streaming/test_loop_products.py.
"""

from __future__ import annotations

import math

from xdsl.ir import Operation, SSAValue

from tilewright.ir.function import Function
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, block_size
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.facts import index_offset
from tilewright.ir.tile.types import tensor_type
from tilewright.ir.tile.walked_block import WalkedBlockOp

_POINTWISE = (tile.UnaryOp, tile.BinaryOp, tile.CastOp, tile.BroadcastOp, tile.TransposeOp, tile.ConstantOp)


def scale_ops(value: SSAValue) -> list[Operation] | None:
    """What computes a scale of numbers of blocks, without their loads; None where anything else goes into it."""
    found: dict[Operation, None] = {}
    open_ = [value]
    while open_:
        owner = open_.pop().owner
        if not isinstance(owner, (WalkedBlockOp, *_POINTWISE)):
            return None
        if owner not in found:
            found[owner] = None
            open_ += () if isinstance(owner, WalkedBlockOp) else owner.operands
    return list(found) if any(isinstance(op, WalkedBlockOp) for op in found) else None


def blocks_of_scale(value: SSAValue) -> list[WalkedBlockOp]:
    """The numbers of blocks in a scale, each once."""
    return [op for op in scale_ops(value) or () if isinstance(op, WalkedBlockOp)]


def scaled_term(op: ContractOp) -> tuple[SSAValue, tuple[SSAValue, ...]]:
    """What is added of a product, and its scales in order; the product itself where none scales it."""
    term, scales = op.result, list[SSAValue]()
    while True:
        uses = list(term.uses)
        times = uses[0].operation if len(uses) == 1 else None
        if not isinstance(times, tile.BinaryOp) or times.function.data is not Function.MUL:
            return term, tuple(scales)
        other = times.right if times.left is term else times.left
        if scale_ops(other) is None:
            return term, tuple(scales)
        scales.append(other)
        term = times.result


def scales_of(op: ContractOp) -> tuple[SSAValue, ...]:
    """A product's scales."""
    return scaled_term(op)[1]


def loads_of_scales(op: ContractOp) -> list[tile.LoadOp]:
    """The loads behind a product's scales, each once."""
    owners = [block.operand.owner for scale in scales_of(op) for block in blocks_of_scale(scale)]
    return list(dict.fromkeys(owner for owner in owners if isinstance(owner, tile.LoadOp)))


def column_run(load: tile.LoadOp, column: str, columns: int) -> int:
    """Neighbouring columns of a tile of so many that share a number of a load. column: their axis."""
    for axis, index in zip(tensor_type(load.tensor).axis_names, load.indices, strict=True):
        if base_axis(axis) == column:
            return math.gcd(columns, block_size(axis), index_offset(index))
    return columns
