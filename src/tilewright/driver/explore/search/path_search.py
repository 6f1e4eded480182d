"""Which other launches would a run have gone differently for, and where?

A run's conditions (`machine.symbolic`) are functions of the inputs. Evaluated for a pool of a few thousand launches at
once, they say for each of them at which condition, of each warp, it would have left the way of this run: there the
launch shows something that this run has not. The pool holds the run's own values, every input alone at many values
(small ones, powers of two, the constants of the expressions and what is near them), and several inputs at random ones.
All of it is drawn from a fixed seed: the same run always has the same pool.

Where a goal needs one value of many (how often a loop iterates), the launch is taken whose comparison has the wanted
distance between its sides. Source: generational search (Godefroid, Levin and Molnar, "Automated Whitebox Fuzz Testing",
NDSS 2008). Not handled: goals that no launch of the pool reaches; `driver.explore.search.reachable` asks a solver for
those. Checked by: tests/driver/explore/search/test_path_search.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.machine.core.lanes import WARP_SIZE, selector
from tilewright.machine.symbolic.expression import (
    Applied,
    CannotEvaluate,
    Evaluation,
    Input,
    Node,
    Not,
    Table,
    constants_of,
)
from tilewright.machine.symbolic.tracker import Condition

Assignment = Mapping[Input, int]
Booleans = npt.NDArray[np.bool_]

_SINGLE_MOST = 1600
_TOGETHER = 700
_CONSTANTS_MOST = 48
_SHIFTS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20)
_NEGATIVE_COST = 1000.0


@dataclass(frozen=True, slots=True)
class Dimension:
    """An input that launches choose. largest, smallest: bounds of its values; first: its value at the beginning;
    multiple: of what its values are multiples, a power of two."""

    input: Input
    name: str
    largest: int
    first: int = 1
    smallest: int = 0
    multiple: int = 1

    def allows(self, value: int) -> bool:
        """Whether the input may have a value."""
        return self.smallest <= value <= self.largest and value % self.multiple == 0

    def nearest(self, value: int) -> int:
        """The next value above that it may have, or the largest one."""
        up = -(-max(value, self.smallest) // self.multiple) * self.multiple
        return up if up <= self.largest else self.largest // self.multiple * self.multiple


@dataclass(frozen=True, slots=True)
class Divergence:
    """Launches that leave a run's way at one condition. rows: which of the pool; labels: how the condition comes out
    for each."""

    condition: Condition
    rows: npt.NDArray[np.int64]
    labels: tuple[bytes, ...]


@dataclass(slots=True, eq=False)
class Pool:
    """Launches to compare a run with. columns: the values of each input; row 0 is the run itself; costs: of each."""

    dimensions: tuple[Dimension, ...]
    columns: dict[Input, npt.NDArray[np.uint64]]
    count: int
    evaluation: Evaluation
    costs: npt.NDArray[np.float64]

    def assignment(self, row: int) -> dict[Input, int]:
        return {given: int(values[row]) for given, values in self.columns.items()}


def pool_of(table: Table, dimensions: Sequence[Dimension], base: Assignment, conditions: Sequence[Condition]) -> Pool:
    """The launches that a run is compared with. base: the run's own values."""
    random = Random(len(conditions))
    nodes = list(dict.fromkeys(condition.node for condition in conditions))
    constants = _sampled(constants_of(nodes), _CONSTANTS_MOST)
    several = [int(base.get(each.input, each.first)) for each in dimensions]
    near = _near(dict.fromkeys(several), constants)
    values = [_values(each, near, random) for each in dimensions]
    share = max(40, _SINGLE_MOST // max(1, len(dimensions)))
    alone = [(place, value) for place, chosen in enumerate(values) for value in _sampled(chosen, share)]
    wide = sum(not node.uniform for node in nodes)
    together = _TOGETHER if wide < 64 else _TOGETHER // 4
    matrix = np.tile(np.array(several, np.uint64), (1 + len(alone) + together, 1))
    for at, (place, value) in enumerate(alone, 1):
        matrix[at, place] = value
    draw = random.getrandbits
    for at in range(1 + len(alone), len(matrix)):
        row = list(several)
        for place, chosen in enumerate(values):
            match _below(4, draw):
                case 0:
                    pass
                case 1:
                    row[place] = chosen[_below(len(chosen), draw)]
                case 2:
                    row[place] = min(dimensions[place].largest, draw(1 + _below(14, draw)))
                case _:
                    row[place] = min(dimensions[place].largest, draw(1 + _below(31, draw)))
        matrix[at] = row
    for place, each in enumerate(dimensions):
        if each.multiple > 1 or each.smallest or not each.largest:
            matrix[1:, place] = [each.nearest(value) for value in matrix[1:, place].tolist()]
    columns = {each.input: np.ascontiguousarray(matrix[:, place]) for place, each in enumerate(dimensions)}
    _within_the_grid(columns)
    return Pool(
        tuple(dimensions), columns, len(matrix), Evaluation(table, columns, len(matrix)), _costs(columns, len(matrix))
    )


def _below(most: int, draw: Callable[[int], int]) -> int:
    """A number below `most`. draw: so many random bits. (`Random.randrange` takes three times as long.)"""
    bits = most.bit_length()
    found = draw(bits)
    while found >= most:
        found = draw(bits)
    return found


def _costs(columns: Mapping[Input, npt.NDArray[np.uint64]], count: int) -> npt.NDArray[np.float64]:
    """What each launch costs: small numbers make short runs; negative ones come last."""
    total = np.zeros(count)
    for given, values in columns.items():
        total += np.log2(values.astype(np.float64) + 1)
        total += np.where(values >> np.uint64(8 * given.size_bytes - 1), _NEGATIVE_COST, 0)
    return total


def _within_the_grid(columns: Mapping[Input, npt.NDArray[np.uint64]]) -> None:
    """A cluster's index is smaller than the number of clusters."""
    for given, values in columns.items():
        if given.kind == "cluster":
            extent = columns.get(Input("grid", given.place, given.size_bytes))
            if extent is not None:
                np.maximum(extent, np.uint64(1), out=extent)
                np.minimum(values, extent - np.uint64(1), out=values)


def _sampled(values: Sequence[int], most: int) -> list[int]:
    """At most so many of the values, the first ones and a spread of the others."""
    if len(values) <= most:
        return list(values)
    head = most // 2
    rest = values[head:]
    step = len(rest) / (most - head)
    return [*values[:head], *(rest[int(index * step)] for index in range(most - head))]


def _near(others: Iterable[int], constants: Sequence[int]) -> tuple[list[int], list[int]]:
    """Values that may matter to any input, before and after its powers of two. others: those of the run's inputs."""
    some, few = constants[:24], constants[:12]
    first = [value for each in constants for value in (each, each - 1, each + 1)]
    found: list[int] = []
    for other in others:
        found += (other, other + 1, other - 1, 2 * other, other + 2, other + 3)
        for each in some:
            found += (other + each, other + each + 1, other - each, other ^ each, other * each)
    for each in some:
        found += [value for shift in _SHIFTS for value in (each << shift, (each << shift) - 1)]
        found += [value for another in few for value in (each * another, each * another + 1)]
    return list(dict.fromkeys(first)), list(dict.fromkeys(found))


def _values(dimension: Dimension, near: tuple[list[int], list[int]], random: Random) -> list[int]:
    """Values of one input that may matter, the most promising first. near: as of `_near`."""
    bits = dimension.largest.bit_length()
    first, then = near
    found = [*first, *(1 << bit for bit in range(bits)), *then]
    found += [dimension.largest - below for below in (0, 1, 2, 63, 127, 1000)]
    found += [value for bit in range(bits) for value in ((1 << bit) - 1, (1 << bit) + 1, 3 << bit)]
    found += [random.getrandbits(random.randrange(1, bits + 1)) for _ in range(48 if bits else 0)]
    return list(dict.fromkeys([*range(10), *(value for value in found if 0 <= value <= dimension.largest)]))


# ---------------------------------------------------------------- where launches leave a run's way


def label(outcome: npt.NDArray[Any]) -> bytes:
    """How a condition came out, to be compared."""
    if outcome.dtype == np.bool_ and outcome.size > 1:
        return b"split"
    return outcome[:1].tobytes() if outcome.size == 1 else outcome.tobytes()


def decided(condition: Condition) -> tuple[int, bytes]:
    """What was decided, and how."""
    return condition.node.number, label(condition.outcome)


def divergences(pool: Pool, conditions: Sequence[Condition]) -> list[Divergence]:
    """For every condition, in the order of each warp: the launches that come to it and decide it otherwise."""
    warps: dict[tuple[int, int], list[Condition]] = {}
    for condition in conditions:
        warps.setdefault((condition.cta, condition.warp), []).append(condition)
    agrees: dict[tuple[int, int, bytes], Booleans | None] = {}
    found: list[Divergence] = []
    for own in warps.values():
        following = np.ones(pool.count, np.bool_)
        following[0] = False
        for condition in own:
            key = (condition.node.number, 0 if condition.node.uniform else condition.mask, condition.outcome.tobytes())
            if key not in agrees:
                agrees[key] = agreement(pool.evaluation, condition)
            same = agrees[key]
            if same is None:
                continue
            rows = np.flatnonzero(following & ~same)
            if rows.size:
                found.append(Divergence(condition, rows, ()))
                following &= same
            if not following.any():
                break
    return found


def agreement(evaluation: Evaluation, condition: Condition) -> Booleans | None:
    """For which launches the condition comes out as in its run; None where that can't be said."""
    node, outcome = condition.node, condition.outcome
    try:
        if node.uniform:
            values = evaluation.of(node)
            return values == (outcome[0] if outcome.size == 1 else outcome[selector(condition.mask)][0])
        rows = evaluation.lanes(node)[:, selector(condition.mask)]
    except CannotEvaluate:
        return None
    expected = outcome if outcome.size == 1 else outcome[selector(condition.mask)]
    return (rows == expected).all(axis=1)


def retraces(evaluation: Evaluation, conditions: Sequence[Condition]) -> bool:
    """Whether a launch decides all conditions of a run as the run did. evaluation: of this launch alone."""
    return all((found := agreement(evaluation, each)) is not None and bool(found[0]) for each in conditions)


def labels(pool: Pool, condition: Condition, rows: npt.NDArray[np.int64]) -> list[bytes]:
    """How the condition comes out for launches of the pool."""
    if condition.node.uniform:
        values = pool.evaluation.of(condition.node)[rows]
        return [label(values[index : index + 1]) for index in range(len(rows))]
    every = pool.evaluation.lanes(condition.node)[rows][:, selector(condition.mask)]
    found: list[bytes] = []
    for row in every:
        if (row == row[0]).all():
            found.append(label(row[:1]))
        elif row.dtype == np.bool_:
            found.append(b"split")
        else:
            whole = np.zeros(WARP_SIZE, row.dtype)
            whole[selector(condition.mask)] = row
            found.append(whole.tobytes())
    return found


def distances(pool: Pool, condition: Condition) -> npt.NDArray[np.float64] | None:
    """How far apart the sides of the comparison that a condition rests on are, in every launch."""
    comparison = comparison_of(condition.node)
    if comparison is None or len(comparison.sources) < 2 or not isinstance(comparison.operation, Applied):
        return None
    sides: list[npt.NDArray[np.float64]] = []
    signed = any(each.startswith("s") for each in comparison.operation.instruction.modifiers)
    for source in comparison.sources[:2]:
        if isinstance(source, Node):
            if not source.uniform:
                return None
            try:
                values = pool.evaluation.of(source)
            except CannotEvaluate:
                return None
        else:
            if source.size != 1:
                return None
            values = np.repeat(source, pool.count)
        if values.dtype.kind != "u":
            return None
        sides.append((values.view(f"i{values.dtype.itemsize}") if signed else values).astype(np.float64))
    return np.abs(sides[0] - sides[1])


def comparison_of(node: Node) -> Node | None:
    """The first comparison that a predicate is made of."""
    waiting: list[Node] = [node]
    while waiting:
        each = waiting.pop(0)
        if isinstance(each.operation, Applied) and each.operation.instruction.row == "setp":
            return each
        if isinstance(each.operation, Not) or (
            isinstance(each.operation, Applied) and each.operation.instruction.row in ("and", "or", "not", "mov")
        ):
            waiting += [source for source in each.sources if isinstance(source, Node)]
    return None


def cheapest(pool: Pool, rows: npt.NDArray[np.int64]) -> int:
    """The launch among `rows` with the smallest numbers."""
    return int(rows[int(np.argmin(pool.costs[rows]))])


def typical(pool: Pool, rows: npt.NDArray[np.int64], used: Iterable[int] = ()) -> int:
    """A launch among `rows` whose numbers are neither small nor round: of moderate ones, those with most bits set."""
    left = rows[~np.isin(rows, list(used))]
    left = left if left.size else rows
    cost = pool.costs[left]
    near = left[cost <= np.quantile(cost, 0.7)]
    ones = sum(np.bitwise_count(values[near]).astype(np.int64) for values in pool.columns.values())
    return int(near[int(np.argmax(ones))])


def at_distance(pool: Pool, condition: Condition, rows: npt.NDArray[np.int64], wanted: float) -> int:
    """The launch among `rows` whose comparison has about the distance `wanted` between its sides, rather more."""
    apart = distances(pool, condition)
    if apart is None:
        return cheapest(pool, rows)
    ratio = np.log2((apart[rows] + 1) / (wanted + 1))
    penalty = np.where(ratio < 0, -4 * ratio, ratio) + 0.01 * pool.costs[rows]
    return int(rows[int(np.argmin(penalty))])
