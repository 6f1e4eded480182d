"""What is computed at one point of a program, operation by operation, and what does each read?

Nodes are loads, operations that compute, and stores, each once, operands before what reads them and stores in the
program's order. Broadcasts, transpositions and casts that round nothing are no nodes: they rename. Constants are none
either: they take no register. Decisions name nodes by their numbers here. Not handled: what lies behind a loop.
Checked by: tests/lower/points/test_expression_order.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from tilewright.base.element import Element
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import stores
from tilewright.ir.tile.types import value_type

Node = tile.LoadOp | tile.PositionOp | tile.UnaryOp | tile.BinaryOp | tile.SelectOp | tile.CastOp | tile.StoreOp


@dataclass(frozen=True, slots=True)
class ExpressionNodes:
    """nodes: in an order that is possible; reads: for each, the numbers of those whose values it reads."""

    nodes: tuple[Node, ...]
    reads: tuple[tuple[int, ...], ...]


def expression_nodes(program: tile.ProgramOp) -> ExpressionNodes:
    """The nodes behind all stores of a program."""
    numbers: dict[Node, int] = {}
    reads: list[tuple[int, ...]] = []

    def number_of(value: SSAValue) -> int | None:
        """Of the node that computes the value; None for constants and what lies behind a loop."""
        owner = value.owner
        match owner:
            case tile.BroadcastOp() | tile.TransposeOp():
                return number_of(owner.operand)
            case tile.CastOp() if not _rounds(owner):
                return number_of(owner.operand)
            case tile.LoadOp() | tile.PositionOp():
                return numbers[owner] if owner in numbers else add(owner, ())
            case tile.UnaryOp() | tile.CastOp():
                return numbers[owner] if owner in numbers else add(owner, (owner.operand,))
            case tile.BinaryOp():
                return numbers[owner] if owner in numbers else add(owner, (owner.left, owner.right))
            case tile.SelectOp():
                return numbers[owner] if owner in numbers else add(owner, tuple(owner.operands))
            case _:
                return None

    def add(node: Node, operands: tuple[SSAValue, ...]) -> int:
        found = [number_of(operand) for operand in operands]
        numbers[node] = len(numbers)
        reads.append(tuple(dict.fromkeys(number for number in found if number is not None)))
        return numbers[node]

    for store in stores(program):
        add(store, (store.value,))
    return ExpressionNodes(tuple(numbers), tuple(reads))


def _rounds(cast: tile.CastOp) -> bool:
    """As `lower.expression` has it: arithmetic is float32, so only a cast to fewer bits does something."""
    source, target = value_type(cast.operand).element_kind, value_type(cast.result).element_kind
    return target is not Element.F32 and source is not target
