"""Which order of a straight-line block needs the fewest registers, and why does none need fewer?

Constraint programming (CP-SAT): each operation has a place, no two the same; a value is an interval from its own place
to that of its last reader, which takes its registers of a cumulative resource whose capacity is minimized. The search
begins from `solve.scheduling.register_block.fast_order`; where that meets the bound nothing is searched. Else the
solver's proof is the certificate, or its lower bound all that is known.

Effort is counted in the solver's deterministic seconds, on one worker: the same question ends the same way. At the
limit the answer is the best order found, without certificate. Checked by: `register_block.pressure`, which judges every
order anew; tests/solve/scheduling/test_register_order.py, against all orders of small blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.solve.installed import solver
from tilewright.solve.scheduling.register_block import RegisterBlock, bound, fast_order, pressure

if TYPE_CHECKING:
    from ortools.sat.python import cp_model
else:
    cp_model = solver("ortools.sat.python.cp_model")

DEFAULT_SECONDS = 2.0
"""Deterministic seconds; one is one to two seconds of a core."""


@dataclass(frozen=True, slots=True)
class LeastPressure:
    """registers: live at once in this order; lower: no order has fewer; searched: whether the solver was asked."""

    order: tuple[int, ...]
    registers: int
    lower: int
    searched: bool

    @property
    def proved(self) -> bool:
        """Whether no order needs fewer registers."""
        return self.registers == self.lower


def least_pressure(block: RegisterBlock, *, seconds: float = DEFAULT_SECONDS) -> LeastPressure:
    """The order with the fewest registers that is found in the time, with what is proved of it."""
    known = fast_order(block)
    lower, upper = bound(block), pressure(block, known)
    if lower == upper:
        return LeastPressure(known, upper, lower, searched=False)
    model, places, most = _model(block, lower, upper)
    for number, place in enumerate(known):
        model.add_hint(places[place], number)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.max_deterministic_time = seconds
    status = solver.solve(model)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        found = tuple(sorted(range(len(places)), key=lambda number: solver.value(places[number])))
        if pressure(block, found) != solver.value(most):
            raise AssertionError("an order needs what the solver says")
        if pressure(block, found) < upper:
            known, upper = found, pressure(block, found)
    elif status != cp_model.UNKNOWN:
        raise AssertionError("a block has an order")
    proved = max(lower, round(solver.best_objective_bound)) if status != cp_model.UNKNOWN else lower
    return LeastPressure(known, upper, min(proved, upper), searched=True)


def _model(block: RegisterBlock, lower: int, upper: int) -> tuple[cp_model.CpModel, list[Any], Any]:
    model = cp_model.CpModel()
    count = len(block.operations)
    readers: list[list[int]] = [[] for _ in range(count)]
    for number, operation in enumerate(block.operations):
        for read in set(operation.reads):
            readers[read].append(number)
    before, behind = _ancestors(block, readers)
    # No sooner than what comes first, no later than what comes behind leaves room.
    places: list[Any] = [model.new_int_var(before[n], count - 1 - behind[n], f"place {n}") for n in range(count)]
    model.add_all_different(places)
    most = model.new_int_var(lower, upper, "registers")
    lives: list[Any] = []
    demands: list[int] = []
    for number, operation in enumerate(block.operations):
        for read in set(operation.reads):
            model.add(places[read] < places[number])
        if not operation.registers:
            continue
        end: Any = count
        if number not in block.kept:
            end = model.new_int_var(0, count, f"end {number}")
            for reader in readers[number]:
                model.add(end >= places[reader])
            if not readers[number]:
                model.add(end >= places[number] + 1)
        length = model.new_int_var(1, count, "")
        lives.append(model.new_interval_var(places[number], length, end, f"life {number}"))
        demands.append(operation.registers)
    model.add_cumulative(lives, demands, most)
    model.minimize(most)
    return model, places, most


def _ancestors(block: RegisterBlock, readers: list[list[int]]) -> tuple[list[int], list[int]]:
    """How many operations come before each whatever the order, and how many behind."""
    above: list[int] = []
    for operation in block.operations:
        mask = 0
        for read in operation.reads:
            mask |= above[read] | 1 << read
        above.append(mask)
    below = [0] * len(readers)
    for number in range(len(readers) - 1, -1, -1):
        for reader in readers[number]:
            below[number] |= below[reader] | 1 << reader
    return [mask.bit_count() for mask in above], [mask.bit_count() for mask in below]
