"""Which of its tiers does each value take, so that the cost is least and all fit?

A value has options. Each costs something, loads a budget that all share (registers, say), and occupies cells of a line
for spans of time (columns, say). Options are chosen by branch and bound: the value whose options differ most in cost
first, its cheapest option first; a branch is left where its cost with the least of the others' is no better than the
best one, or the budget or some moment's cells do not suffice. What is left is packed (`interval_packing`). Of equal
costs the one of fewest cells is taken. Checked by: tests/solve/test_tier_choice.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.solve.interval_packing import Block, height, least_cells, packed


@dataclass(frozen=True, slots=True)
class Option:
    """A tier that a value may take: its cost, what it takes of the budget, and the cells that it occupies."""

    cost: int
    load: int = 0
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True)
class Chosen:
    """By value: the number of its option, and where that option's blocks begin; what all cost, and the cells."""

    options: tuple[int, ...]
    offsets: tuple[tuple[int, ...], ...]
    cost: int
    cells: int


@dataclass(slots=True)
class _Search:
    values: Sequence[Sequence[Option]]
    order: Sequence[int]
    budget: int
    cells: int
    best: Chosen | None = None

    def run(self, taken: dict[int, int]) -> None:
        chosen = [self.values[number][option] for number, option in taken.items()]
        open_ = self.order[len(taken) :]
        cost = sum(each.cost for each in chosen) + sum(min(each.cost for each in self.values[at]) for at in open_)
        load = sum(each.load for each in chosen) + sum(min(each.load for each in self.values[at]) for at in open_)
        least = least_cells([block for each in chosen for block in each.blocks])
        if load > self.budget or least > self.cells:
            return
        if self.best is not None and (cost, least) >= (self.best.cost, self.best.cells):
            return
        if not open_:
            self._pack(taken, cost)
            return
        options = self.values[open_[0]]
        for option in sorted(range(len(options)), key=lambda each: options[each].cost):
            self.run({**taken, open_[0]: option})

    def _pack(self, taken: dict[int, int], cost: int) -> None:
        numbers = range(len(self.values))
        listed = [self.values[number][taken[number]].blocks for number in numbers]
        blocks = [block for each in listed for block in each]
        offsets = packed(blocks)
        cells, left = height(blocks, offsets), list(offsets)
        if cells > self.cells or (self.best is not None and (cost, cells) >= (self.best.cost, self.best.cells)):
            return
        own: list[tuple[int, ...]] = []
        for each in listed:
            own.append(tuple(left[: len(each)]))
            del left[: len(each)]
        self.best = Chosen(tuple(taken[number] for number in numbers), tuple(own), cost, cells)


def chosen_tiers(values: Sequence[Sequence[Option]], budget: int, cells: int) -> Chosen | None:
    """The cheapest choice within a budget and a number of cells; None where there is none."""

    def spread(number: int) -> int:
        costs = [each.cost for each in values[number]]
        return min(costs) - max(costs)

    search = _Search(values, sorted(range(len(values)), key=spread), budget, cells)
    search.run({})
    return search.best
