"""Does a sum or product overflow in a launch, on the way to something that it decides?

Numbers of made-up launches may be as large as their width, and a kernel's sums then wrap. No author thinks of those:
such a launch refutes nothing, and that there is none is assumed, in words, where a proof needs it. It is needed where
launches take a way by a sum that overflows, and none does without. Of small numbers it is not assumed, but shown by
their ranges that no sum overflows: one that does with small numbers, too, is meant to wrap, as that of a hash.
Not handled: results of instructions whose exact value is not said here. Checked by:
tests/driver/explore/search/test_overflow.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.base.extra import MissingExtra
from tilewright.driver.explore.search.exact_ranges import SUMS, sums_fit
from tilewright.driver.explore.search.exploration import Exploration
from tilewright.driver.explore.search.path_search import Assignment, Dimension
from tilewright.driver.explore.search.reachable import Impossible, Reached, Sought, Undecided, reach
from tilewright.frontends.ptx.ast import Immediate, Register
from tilewright.machine.symbolic.expression import (
    Applied,
    CannotEvaluate,
    Evaluation,
    Input,
    Node,
    inputs_of,
    needed,
)

_SMALL = 1 << 14
"""With numbers below, a product of one and a place in the grid is no larger than its register."""


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


def reach_that_fits(exploration: Exploration, sought: Sought) -> Reached | Impossible | Undecided:
    """Find a launch as `reach` does, one in which all sums on the way fit, if there is one. Impossible where there is
    none, by an assumption, unless small numbers do it."""
    dimensions = exploration.dimensions

    def found(most: int = 0, *, fits: bool = False) -> Reached | Impossible | Undecided:
        below: dict[Input, Dimension] = {}
        for each in numbers if most else ():
            largest = max(dimensions[each].smallest, min(dimensions[each].largest, most - 1))
            below[each] = replace(dimensions[each], largest=largest)
        return reach(
            exploration.table, {**dimensions, **below}, sought.condition, sought.before, sought.excluded,
            tuple(exploration.barred), fits=fits,
        )  # fmt: skip

    numbers: list[Input] = []
    anyhow = found()
    nodes = [each.node for each in (*sought.before, sought.condition)]
    match anyhow:
        case Impossible() | Undecided(MissingExtra()):
            return anyhow
        case Reached(values) if not overflows(exploration, values, nodes, SUMS):
            return anyhow
        case _:
            within = found(fits=True)
    if not isinstance(within, Impossible):
        return within if isinstance(within, Reached) else anyhow
    known = (each for each in inputs_of(nodes) if each.kind == "number" and each.size_bytes in (4, 8))
    numbers += [each for each in known if each in dimensions]
    if not numbers:
        return anyhow
    ranges = {each: (dimension.smallest, dimension.largest) for each, dimension in dimensions.items()}
    limit = min(map(overflow_limit, numbers))
    for least, most in ((0, limit), (0, _SMALL), (1, _SMALL)):
        # Where none of these overflows a sum, what was not found among launches without that is not found among these.
        if sums_fit(nodes, ranges | dict.fromkeys(numbers, (least, most - 1))):
            _assume(exploration, numbers, least, most)
            return within
    small = found(limit)
    if isinstance(small, Impossible):
        _assume(exploration, numbers, 0, limit)
    return anyhow if isinstance(small, Undecided) else small


def _assume(exploration: Exploration, numbers: Sequence[Input], least: int, most: int) -> None:
    names = " and ".join(exploration.dimensions[each].name for each in numbers)
    said = f"{names} {'are' if len(numbers) > 1 else 'is'} at least {least} and below 2^{most.bit_length() - 1}"
    exploration.assumed[f"{said}, or no sum overflows that decides something (such ways were not tried)"] = None


_EXACT: dict[str, Callable[[Sequence[int]], int]] = {
    "add": sum,
    "sub": lambda given: given[0] - given[1],
    "mul": prod,
    "mad": lambda given: given[0] * given[1] + given[2],
    "shl": lambda given: given[0] << min(given[1], 128),
}


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
