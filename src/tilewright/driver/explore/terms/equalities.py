"""Which expressions have one value alone where decisions come out as they did?

A comparison of an expression with a number for equality says so where the two were equal: a loop that goes on while its
counter differs from its bound says of the bound, once it has ended, how often it iterated. Terms that hold the number
instead of the expression are much smaller, and mostly say at once that nothing else may come of it.

Not handled: equalities of two expressions, and bounds that meet. Checked by: tests/driver/explore/terms.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tilewright.frontends.ptx.ast import Immediate, Register
from tilewright.machine.symbolic.expression import Applied, Node, Not, Source
from tilewright.machine.symbolic.tracker import Condition
from tilewright.solve.bit_vectors import Number

_WIDTHS = {f"{kind}{width}": width for kind in "sub" for width in (16, 32, 64)}


@dataclass(frozen=True, slots=True)
class Equalities:
    """numbers: what expressions are equal to, by the expression's number; comparisons: that say so, by theirs: in them
    the expression stays what it is."""

    numbers: dict[int, Number]
    comparisons: frozenset[int]


NONE = Equalities({}, frozenset())


def equalities(conditions: Iterable[Condition]) -> Equalities:
    """What these conditions, come out as they did, say that expressions are equal to."""
    numbers: dict[int, Number] = {}
    comparisons: set[int] = set()
    for condition in conditions:
        if condition.node.uniform and condition.outcome.size == 1 and condition.outcome.dtype.kind == "b":
            found = _equality(condition.node, bool(condition.outcome[0]))
            if found is not None:
                node, comparison, number = found
                numbers.setdefault(node.number, number)
                comparisons.add(comparison.number)
    return Equalities(numbers, frozenset(comparisons)) if numbers else NONE


def _equality(node: Node, holds: bool) -> tuple[Node, Node, Number] | None:
    """The expression, the comparison, and the number that the expression is equal to."""
    if isinstance(node.operation, Not) and isinstance(node.sources[0], Node):
        return _equality(node.sources[0], not holds)
    applied = node.operation
    if not isinstance(applied, Applied) or applied.instruction.row != "setp" or len(applied.instruction.operands) != 3:
        return None
    words = applied.instruction.modifiers
    width = _WIDTHS.get(words[-1], 0)
    if not width or len(words) != 2 or (words[0], holds) not in (("eq", True), ("ne", False)):
        return None
    given = dict(zip(applied.names, node.sources, strict=True))
    sides: list[Node | int | None] = []
    for operand in applied.instruction.operands[1:]:
        match operand:
            case Immediate(int() as value):
                sides.append(value)
            case Register(name):
                sides.append(_side(given[name]) if name in given else None)
            case _:
                return None
    match sides:
        case [Node() as one, int() as value] | [int() as value, Node() as one] if one.uniform:
            return one, node, Number(value & ((1 << width) - 1), width)
        case _:
            return None


def _side(source: Source) -> Node | int | None:
    """An expression, or a number that all lanes have; None of what is neither."""
    if isinstance(source, Node):
        return source
    return int(source[0]) if source.size == 1 and source.dtype.kind in "ui" else None
