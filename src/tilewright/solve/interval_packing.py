"""Where do blocks stand in a line of cells, of which each needs some for a span of time?

Two blocks that live at the same time have no cell in common; others may share all. The least height is found exactly:
in a solution sorted by offset, put each block in that order as low as the blocks before it allow that live together
with it. By induction none comes to stand higher than it stood. So the best of all orders is the optimum, and the search
over orders is cut where a partial height is no better than the best one, and ended where the blocks of one moment leave
nothing lower. After `_MOST_STEPS` it ends too, with the best found.

`overlap` is the proof of a result, and knows nothing of how it was found. Checked by:
tests/solve/test_interval_packing.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

_MOST_STEPS = 100_000


@dataclass(frozen=True, slots=True)
class Block:
    """So many cells, from moment `begin` to before moment `end`."""

    size: int
    begin: int
    end: int

    def lives_with(self, other: Block) -> bool:
        return self.begin < other.end and other.begin < self.end


def least_cells(blocks: Sequence[Block]) -> int:
    """What no solution goes below: the most that live at one moment."""
    return max((sum(each.size for each in blocks if each.begin <= at.begin < each.end) for at in blocks), default=0)


def height(blocks: Sequence[Block], offsets: Sequence[int]) -> int:
    return max((at + each.size for each, at in zip(blocks, offsets, strict=True)), default=0)


def overlap(blocks: Sequence[Block], offsets: Sequence[int]) -> tuple[int, int] | None:
    """Two blocks that live together and have a cell in common, by their numbers; None where there are none."""
    for second, (block, at) in enumerate(zip(blocks, offsets, strict=True)):
        for first in range(second):
            other, begin = blocks[first], offsets[first]
            if block.lives_with(other) and at < begin + other.size and begin < at + block.size:
                return first, second
    return None


@dataclass(slots=True)
class _Search:
    blocks: Sequence[Block]
    least: int
    best: list[int]
    lowest: int
    offsets: dict[int, int] = field(default_factory=dict[int, int])
    steps: int = 0

    def run(self, reached: int) -> None:
        """Try each block as the next one. reached: the height of those that stand."""
        self.steps += 1
        if len(self.offsets) == len(self.blocks):
            self.best, self.lowest = [self.offsets[number] for number in range(len(self.blocks))], reached
            return
        tried: set[tuple[Block, int]] = set()
        for number, block in enumerate(self.blocks):
            if number in self.offsets or self.lowest == self.least or self.steps > _MOST_STEPS:
                continue
            below = [
                at + self.blocks[other].size
                for other, at in self.offsets.items()
                if block.lives_with(self.blocks[other])
            ]
            at = max(below, default=0)
            above = max(reached, at + block.size)
            if (block, at) in tried or above >= self.lowest:
                continue
            tried.add((block, at))
            self.offsets[number] = at
            self.run(above)
            del self.offsets[number]


def packed(blocks: Sequence[Block]) -> tuple[int, ...]:
    """The offset of each block, with the least height."""
    search = _Search(blocks, least_cells(blocks), [], 1 + sum(each.size for each in blocks))
    search.run(0)
    return tuple(search.best)
