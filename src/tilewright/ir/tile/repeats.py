"""What does a value of a program only repeat, who uses it, and what is it computed of?

Checked by: tests/ir/tile/test_repeats.py, tests/synth/cascade/walk/test_issue_plan.py and tests/lower/cascade.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Block, Operation, SSAValue

from tilewright.base.element import Element
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.types import ValueType, value_type


def bare(value: SSAValue) -> SSAValue:
    """What a value repeats or renames, or widens exactly."""
    owner = value.owner
    while isinstance(owner, tile.BroadcastOp | tile.TransposeOp) or (
        isinstance(owner, tile.CastOp) and value_type(value).element_kind is Element.F32
    ):
        value = owner.operand
        owner = value.owner
    return value


def untransposed(value: SSAValue) -> SSAValue:
    """A value without the transpositions around it, which change no number."""
    while isinstance(value.owner, tile.TransposeOp):
        value = value.owner.operand
    return value


def users(value: SSAValue) -> list[Operation]:
    """The ops that use a value, or what only repeats it."""
    found: dict[Operation, None] = {}
    for use in value.uses:
        op = use.operation
        if len(op.results) == 1 and bare(op.results[0]) is not op.results[0]:
            found |= dict.fromkeys(users(op.results[0]))
        else:
            found[op] = None
    return list(found)


def in_order(value: SSAValue, goes_on: Callable[[SSAValue], bool]) -> list[SSAValue]:
    """A value and all that it is computed of: each once, operands first, in the order in which they are met. goes_on:
    whether what a value is computed of belongs to it.

    Values are shared: from `v * v + v`, seven times over, two thousand ways lead to the first v. So nothing is gone
    through twice; and a chain of any length is no depth of calls."""
    found: dict[SSAValue, None] = {}
    open_ = [(value, False)]
    while open_:
        each, is_complete = open_.pop()
        if is_complete:
            found[each] = None
        elif each not in found:
            open_.append((each, True))
            if isinstance(each.owner, Operation) and goes_on(each):
                open_ += ((operand, False) for operand in reversed(each.owner.operands))
    return list(found)


def is_computed_tile(value: SSAValue) -> bool:
    """Whether a value is a tile that is computed of others, and not loaded."""
    return isinstance(value.type, ValueType) and not isinstance(value.owner, tile.LoadOp)


def computed_of(value: SSAValue, block: Block) -> set[SSAValue]:
    """The value, and what it is computed of in a block."""
    found: set[SSAValue] = set()
    open_ = [value]
    while open_:
        each = open_.pop()
        owner = each.owner
        if each not in found:
            found.add(each)
            open_ += owner.operands if isinstance(owner, Operation) and owner.parent is block else ()
    return found
