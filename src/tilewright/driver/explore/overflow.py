"""Does a sum or product overflow in a launch, on the way to something that it decides?

Numbers of made-up launches may be as large as their width, and a kernel's sums then wrap. No author thinks of those:
such a launch refutes nothing, and that there is none is assumed, in words, where a proof needs it.
Not handled: results of instructions whose exact value is not said here. Checked by:
tests/driver/explore/test_overflow.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.driver.explore.exploration import Exploration
from tilewright.driver.explore.path_search import Assignment
from tilewright.frontends.ptx.ast import Immediate, Register
from tilewright.machine.symbolic.expression import Applied, CannotEvaluate, Evaluation, Input, Node, needed


def overflow_limit(given: Input) -> int:
    """Sums of a few numbers below do not overflow."""
    return 1 << (8 * given.size_bytes - 2)


def overflows(
    exploration: Exploration, values: Assignment, nodes: Sequence[Node], rows: frozenset[str] | None = None
) -> bool:
    """Whether in a launch a result that expressions are made of is too large for its register, signed or not. rows: of
    which instructions; None: of all whose exact result is known."""
    rows = frozenset(_EXACT) if rows is None else rows
    columns = {
        given: np.array([values.get(given, dimension.first)], np.uint64)
        for given, dimension in exploration.dimensions.items()
    }
    evaluation = Evaluation(exploration.table, columns, 1)
    for node in needed(nodes, {}):
        if isinstance(node.operation, Applied) and node.operation.instruction.row in rows and node.uniform:
            try:
                result = int(evaluation.of(node)[0])
                sides = [evaluation.of(each) if isinstance(each, Node) else each for each in node.sources]
            except CannotEvaluate:
                continue
            if "hi" not in node.operation.instruction.modifiers and not _fits(node.operation, sides, result):
                return True
    return False


_EXACT: dict[str, Callable[[Sequence[int]], int]] = {
    "add": sum,
    "sub": lambda given: given[0] - given[1],
    "mul": prod,
    "mad": lambda given: given[0] * given[1] + given[2],
    "shl": lambda given: given[0] << min(given[1], 128),
}


SUMS = frozenset({"add", "sub", "shl"})


def _fits(applied: Applied, sides: list[npt.NDArray[Any]], result: int) -> bool:
    """Whether a result is the exact one, its operands taken as signed numbers, or as unsigned ones where the
    instruction's type is not signed."""
    given = dict(zip(applied.names, sides, strict=True))
    exact = _EXACT[applied.instruction.row]
    types = [each for each in applied.instruction.modifiers if each[:1] in "usb" and each[1:].isdigit()]
    for signed in (True,) if any(each.startswith("s") for each in types) else (True, False):
        values: list[int] = []
        for operand in applied.instruction.operands[1:]:
            match operand:
                case Register(name) if name in given:
                    side = given[name]
                    values.append(int((side.view(f"i{side.dtype.itemsize}") if signed else side)[0]))
                case Immediate(value):
                    values.append(value)
                case _:
                    return True
        found = exact(values)
        width = 64 if "wide" in applied.instruction.modifiers else 8 * next(iter(sides)).dtype.itemsize
        low, high = (-(1 << (width - 1)), 1 << (width - 1)) if signed else (0, 1 << width)
        if low <= found < high:
            return True
    return False
