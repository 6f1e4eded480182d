"""Which launches are made of a kernel whose launch is not given, one after another?

Each launch that was run says by its conditions which others would go elsewhere (`path_search`). Where they go is a
goal: a branch that comes out otherwise, a loop that is entered, left after so many iterations or kept for long, an
operand of the protocol with another value, two warps that both differ. Goals are tried in the order of what they add,
each by a launch with small numbers and by one with odd ones, until none is left or the effort is spent. Effort counts
launches and warp instructions, and pools have fixed seeds, so that an exploration is a function of the kernel alone.

Not handled: goals that no launch of a pool reaches (`driver.explore.gaps.coverage` asks a solver for those).
Checked by: tests/driver/explore/test_explore.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import isqrt

import numpy as np

from tilewright.base.span import Span
from tilewright.base.verdict import Refuted, Unknown, Verdict
from tilewright.driver.explore.search.on_the_way import Ways
from tilewright.driver.explore.search.path_search import (
    Assignment,
    Dimension,
    Divergence,
    Pool,
    at_distance,
    cheapest,
    distances,
    divergences,
    label,
    labels,
    pool_of,
    retraces,
    typical,
)
from tilewright.driver.launch.judge_launch import Repeated
from tilewright.machine.symbolic.expression import CannotEvaluate, Evaluation, Input, Leaf, Pointer, Table, needed
from tilewright.machine.symbolic.tracker import Condition, ConstantWay

ENOUGH_ITERATIONS = 28
"""A loop that was begun anew so often has had time to repeat itself."""
FEW_ITERATIONS = 6
"""Numbers of iterations that are tried before it is known after how many a loop repeats itself."""
MOST_ITERATIONS = 72
ITERATIONS_MOST = 96
"""Of a loop, in all its visits together, after which a launch shows no more of it."""
_CTAS_MOST = ((1 << 31) - 1, (1 << 16) - 1, (1 << 16) - 1)
"""Of a grid, along each axis (CUDA C++ Programming Guide, technical specifications)."""
VALUES_MOST = 20
"""Values of one operand of the protocol that are tried."""
_JOINT_MOST = 16
"""Launches that are made for the sake of combinations alone."""
_ATTEMPTS = 2
_UNDECIDED_MOST = 12
"""Launches that are made if none of them is clean."""
_HOPEFUL = 3
"""So many times the effort is spent where nothing is missing but launches."""
_DOUBTED_MOST = 24
"""Launches that are made if one of them is not decided."""
_EXCEEDING_MOST = 2
"""Launches with larger numbers than one that was too long, which are mostly too long themselves."""
_BETWEEN_MOST = 8
"""Launches that are made to find one in which a loop iterates often, but not too often."""
_MORE = (
    ("entered", 1, 1.0),
    ("again", 2, 3.0),
    ("some", 1, 10.0),
    ("several", 1, 22.0),
    ("often", 1, 1.25 * ENOUGH_ITERATIONS),
    ("long", 2, 3.0 * ENOUGH_ITERATIONS),
)
"""How often a loop is to iterate, each with its priority: most repeat themselves after few iterations, pipelines after
twice their stages."""
_BEFORE_LONG = ("some", "several", "often")
_ITERATIONS = {"some": 8, "several": 20, "often": ENOUGH_ITERATIONS, "long": 3 * ENOUGH_ITERATIONS}
HOLDS, FAILS = b"\x01", b"\x00"


@dataclass(frozen=True, slots=True)
class Effort:
    """launches: how many are judged at most; steps: warp instructions of all together."""

    launches: int = 120
    steps: int = 1_000_000


DEFAULT_EFFORT = Effort()


@dataclass(frozen=True, slots=True)
class Judged:
    """One launch, judged. steps: warp instructions run; conditions, covered: of its run; iterations: how often each
    loop with a protocol was begun anew at most, by its number; repeats: of those that iterated often enough; too_long:
    the run was given up, and shows nothing but its conditions; asserted: where the kernel's own assertion failed, which
    excludes the launch; overrun: it failed since an access left an array, in words; oversized: since it takes more
    shared memory than the target has, so that no host launches it; inputs: words of memory that it
    read as inputs; constant_ways: of branches that depended on no input in this run; awaited, counts, waits: as of a
    `LaunchJudgement`."""

    verdict: Verdict
    steps: int
    conditions: Sequence[Condition] = ()
    covered: frozenset[int] = frozenset()
    iterations: Mapping[int, int] = field(default_factory=dict[int, int])
    repeats: Mapping[int, Repeated] = field(default_factory=dict[int, Repeated])
    too_long: bool = False
    asserted: Span | None = None
    overrun: str = ""
    oversized: bool = False
    inputs: tuple[Input, ...] = ()
    constant_ways: frozenset[ConstantWay] = frozenset()
    awaited: frozenset[tuple[int, int]] = frozenset()
    counts: frozenset[tuple[int, int, Span]] = frozenset()
    waits: frozenset[tuple[int, int, Span]] = frozenset()


@dataclass(frozen=True, slots=True)
class Tried:
    """A launch that was made, and what it showed."""

    values: dict[Input, int]
    judged: Judged

    @property
    def fails(self) -> bool:
        return isinstance(self.judged.verdict, Refuted) and self.judged.asserted is None

    @property
    def clean(self) -> bool:
        left_open = isinstance(self.judged.verdict, Refuted | Unknown)
        return not left_open and not self.judged.too_long and self.judged.asserted is None


@dataclass(frozen=True, slots=True, order=True)
class _Wanted:
    """A launch to be made for a goal. Smaller ones come first."""

    priority: int
    cost: float
    order: int
    goal: tuple[object, ...] = field(compare=False)
    values: dict[Input, int] = field(compare=False)


Judge = Callable[[Assignment, int], Judged]
"""Makes a launch and judges it; gives it up once a loop whose end inputs decide was begun anew so many times."""
Place = tuple[int, int, int, int]
"""A decision: position of the instruction, rank of the CTA, warp, register of an operand."""


@dataclass(slots=True, eq=False)
class Exploration:
    """The launches of one kernel. dimensions: its inputs, those that runs discover included; judge: makes a launch and
    judges it; ways: what decisions mean for those after them; latent: inputs that become dimensions as soon as
    something is decided by them; exhausted: questions about operands, and whether nothing else was found possible;
    values_of: of operands of the protocol, those that were seen or wanted; wanted: every
    goal there was; assumed: what else is taken for granted, in words; barred: ways that no launch takes by an
    assumption, by their conditions; stops: a launch after which no other is needed; open: what
    stands in the way of a proof so far, in words, for whoever stops here; deciding: loops
    whose end inputs decide; idle: branches that decide about
    nothing but accesses to global memory, with the ways that need not be seen (True: the one that they jump)."""

    table: Table
    dimensions: dict[Input, Dimension]
    judge: Judge
    effort: Effort
    ways: Ways
    latent: dict[Input, Dimension] = field(default_factory=dict[Input, Dimension])
    exhausted: dict[tuple[object, ...], bool] = field(default_factory=dict[tuple[object, ...], bool])
    stops: Callable[[Tried], bool] = lambda _tried: False
    open: Callable[[], Sequence[str]] = tuple
    idle: Mapping[int, frozenset[bool]] = field(default_factory=dict[int, frozenset[bool]])
    tried: list[Tried] = field(default_factory=list[Tried])
    deciding: dict[int, None] = field(default_factory=dict[int, None])
    steps: int = 0
    ended_early: bool = False
    attempts: dict[tuple[object, ...], int] = field(default_factory=dict[tuple[object, ...], int])
    values_of: dict[Place, set[bytes]] = field(default_factory=dict[Place, set[bytes]])
    wanted: set[tuple[object, ...]] = field(default_factory=set[tuple[object, ...]])
    assumed: dict[str, None] = field(default_factory=dict[str, None])
    barred: list[tuple[Condition, ...]] = field(default_factory=list[tuple[Condition, ...]])
    _known: dict[tuple[tuple[Input, int], ...], Tried] = field(
        default_factory=dict[tuple[tuple[Input, int], ...], Tried]
    )
    # Launches that were given up before the most iterations of a loop.
    _impatient: set[tuple[tuple[Input, int], ...]] = field(default_factory=set[tuple[tuple[Input, int], ...]])
    # The clean launches and those that were given up, with what each decided.
    _decided: list[tuple[Tried, tuple[Condition, ...]]] = field(
        default_factory=list[tuple[Tried, tuple[Condition, ...]]]
    )
    _reached: set[tuple[object, ...]] = field(default_factory=set[tuple[object, ...]])
    _walked: dict[int, None] = field(default_factory=dict[int, None])
    _firsts: dict[Input, int] = field(default_factory=dict[Input, int])
    _waiting: list[_Wanted] = field(default_factory=list[_Wanted])
    _ways_wanted: set[tuple[int, bytes]] = field(default_factory=set[tuple[int, bytes]])
    _halved: set[tuple[int, int, int]] = field(default_factory=set[tuple[int, int, int]])
    _joint: int = 0
    _order: int = 0
    _exceeding: int = 0

    def is_new(self, values: Assignment) -> bool:
        """Whether a launch has not been made yet, or was given up early."""
        key = self._whole(values)[1]
        return key not in self._known or key in self._impatient

    def retraced(self, values: Assignment) -> Tried | None:
        """A launch that is clean, or was given up, and that decided everything as this one would: this one takes the
        same steps, and shows the same (`machine.symbolic.tracker`)."""
        if any(each.kind in _OF_A_RUN for each in self.dimensions):
            return None  # which words and tickets there are depends on the launch
        columns = {given: np.array([value], np.uint64) for given, value in self._whole(values)[0].items()}
        evaluation = Evaluation(self.table, columns, 1)
        return next((tried for tried, decided in self._decided if retraces(evaluation, decided)), None)

    def _enough_iterations(self) -> int:
        """Of a loop, after which a launch that was not asked for is given up: where all loops that inputs end repeat
        themselves, others show what more iterations would."""
        if not self.deciding or not all(map(self.repeats, self.deciding)):
            return ITERATIONS_MOST
        return min(ITERATIONS_MOST, max(ENOUGH_ITERATIONS, 2 * max(map(self.classes, self.deciding))))

    def _whole(self, values: Assignment) -> tuple[dict[Input, int], tuple[tuple[Input, int], ...]]:
        every = {**self.latent, **self.dimensions}
        whole = {
            each: int(values.get(each, dimension.first))
            if dimension.smallest < dimension.largest
            else dimension.largest
            for each, dimension in every.items()
        }
        for each in whole:
            if each.kind == "grid":
                whole[each] = max(1, whole[each])
            if each.kind == "cluster":
                extent = Input("grid", each.place, each.size_bytes)
                whole[each] = min(whole[each], max(1, whole.get(extent, 1)) - 1)
            if each.kind == "offset" and not whole.get(Input("pointer", each.place, each.size_bytes), 1):
                whole[each] = 0
        for each, dimension in every.items():
            self._firsts.setdefault(each, dimension.first)
        return whole, tuple((each, value) for each, value in whole.items() if value != self._firsts[each])

    def narrow(self, given: Input, *, smallest: int = 0, largest: int | None = None, multiple: int = 1) -> None:
        """Let later launches keep to some values of an input, as an assumption says."""
        where = self.dimensions if given in self.dimensions else self.latent
        before = where[given]
        most = before.largest if largest is None else min(before.largest, largest)
        narrower = replace(
            before, smallest=max(before.smallest, smallest), largest=most, multiple=max(before.multiple, multiple)
        )
        where[given] = replace(narrower, first=narrower.nearest(before.first))

    def idle_ways(self, position: int) -> frozenset[bool]:
        """Ways of a branch that need not be seen. Where words of memory are read, what is written may matter."""
        known = self.idle.get(position, frozenset())
        return frozenset() if known and any(each.kind in _OF_A_RUN for each in self.dimensions) else known

    def leaves_out(self, values: Assignment) -> bool:
        """Whether a launch is one that an assumption excludes."""
        narrowed = self.dimensions
        return any(each in narrowed and not narrowed[each].allows(value) for each, value in values.items())

    def at(self, values: Assignment, *, patient: bool = False) -> Tried:
        """A launch, made at most once. values: of inputs; others have their first value; patient: also where its loops
        iterate more often than others need, even if it was given up for that."""
        whole, key = self._whole(values)
        known = self._known.get(key)
        if known is None or (patient and key in self._impatient):
            iterations_most = ITERATIONS_MOST if patient else self._enough_iterations()
            judged = self.judge(whole, iterations_most)
            self.steps += judged.steps
            if self._whole(values)[0] != whole:
                # The launch showed that a number has one value alone.
                return self.at(values, patient=patient)
            for word in judged.inputs:
                if word not in self.dimensions:
                    self.dimensions[word] = dimension_of_word(word, len(self.dimensions))
            self.decided_by(judged.conditions)
            known = self._known[key] = Tried(whole, judged)
            self.tried.append(known)
            self._impatient.discard(key)
            if judged.too_long and iterations_most < ITERATIONS_MOST:
                self._impatient.add(key)
            if known.clean or (judged.too_long and key not in self._impatient):
                self._decided.append((known, tuple(distinct(judged.conditions))))
            if known.clean:
                self._reached.update(map(_goal_of, judged.conditions))
            if judged.asserted is None:
                self._goals(known)
            self._between()
        return known

    def decided_by(self, conditions: Sequence[Condition]) -> None:
        """Latent inputs that decide something are chosen from now on, the smallest numbers first."""
        nodes = needed([each.node for each in conditions], self._walked)
        self._walked.update((each.number, None) for each in nodes)
        for operation in (each.operation for each in nodes):
            if isinstance(operation, (Leaf, Pointer)) and operation.input in self.latent:
                dimension = self.latent.pop(operation.input)
                self.dimensions[operation.input] = replace(dimension, first=dimension.nearest(min(1, dimension.first)))

    def go(self) -> None:
        """Try goals until none is left or the effort is spent."""
        while self._waiting and not any(map(self.stops, self.tried[-1:])):
            if len(self.tried) >= self._launches_most() or self.steps >= self._steps_most():
                self.ended_early = True
                return
            wanted = heappop(self._waiting)
            if self.attempts.get(wanted.goal, 0) >= _ATTEMPTS or not self._needed(wanted.goal):
                continue
            if self.leaves_out(self._whole(wanted.values)[0]) or self.retraced(wanted.values) is not None:
                continue
            self.attempts[wanted.goal] = self.attempts.get(wanted.goal, 0) + 1
            if self._exceeds_what_was_too_long(wanted.values):
                if self._exceeding >= _EXCEEDING_MOST:
                    continue
                self._exceeding += 1
            self.at(wanted.values)

    def _launches_most(self) -> int:
        """Where a launch is not decided, or none is clean, few more are made: for errors, since nothing will be
        proven."""
        asserted = sum(each.judged.asserted is not None for each in self.tried)
        if not any(each.clean for each in self.tried):
            return min(self.effort.launches, _UNDECIDED_MOST + asserted)
        if any(isinstance(each.judged.verdict, Unknown) and not each.judged.too_long for each in self.tried):
            return min(self.effort.launches, _DOUBTED_MOST + asserted)
        return self.effort.launches

    def _steps_most(self) -> int:
        """Where nothing is wrong with any launch and all loops repeat themselves, what is left are launches that
        complete a proof: more effort is spent on these."""
        wrong = (each.judged for each in self.tried if not each.clean and not each.judged.too_long)
        hopeful = all(each.asserted is not None for each in wrong) and all(map(self.repeats, self.deciding))
        return self.effort.steps * (_HOPEFUL if hopeful else 1)

    def _exceeds_what_was_too_long(self, values: Assignment) -> bool:
        """Whether a launch has larger numbers than one that did not come to its end."""
        return any(
            each.judged.too_long and all(values.get(given, 0) >= value for given, value in each.values.items())
            for each in self.tried
        )

    # What loops showed

    def most(self, loop: int) -> int:
        """How often a loop was begun anew at most."""
        return max((each.judged.iterations.get(loop, 0) for each in self.tried), default=0)

    def longest(self, loop: int) -> int:
        """How often a loop was begun anew at most in a launch that came to its end."""
        return max((each.judged.iterations.get(loop, 0) for each in self.tried if not each.judged.too_long), default=0)

    def repetition(self, loop: int) -> Repeated | None:
        """What the launch in which a loop iterated most showed of it; of one that came to its end, if any did."""

        def telling(each: Tried) -> tuple[bool, bool, int]:
            known = each.judged.repeats.get(loop)
            shown = known is not None and known.reason is None
            return known is not None, shown or not each.judged.too_long, each.judged.iterations.get(loop, 0)

        return max(self.tried, key=telling).judged.repeats.get(loop)

    def repeats(self, loop: int) -> bool:
        """Whether a loop was shown to repeat itself."""
        found = self.repetition(loop)
        return found is not None and found.reason is None

    def _is_between(self, loop: int) -> bool:
        """Whether a launch is missing in which a loop iterates often, and comes to its end: to show that it repeats
        itself, or, where a launch that was given up showed that, to leave it after any number of iterations."""
        return self.longest(loop) < (self.classes(loop) - 1 if self.repeats(loop) else self._often(loop))

    def _often(self, loop: int) -> int:
        """How often a loop is to iterate, in a launch that comes to its end, to repeat itself. Rings of many stages
        take more: a period of them is twice as long, and has to be seen three times before the pipeline drains."""
        found = max(
            (each.judged for each in self.tried if not each.judged.too_long and loop in each.judged.repeats),
            key=lambda each: each.iterations.get(loop, 0),
            default=None,
        )
        return 2 * ENOUGH_ITERATIONS if found is not None and found.repeats[loop].short else ENOUGH_ITERATIONS

    def classes(self, loop: int) -> int:
        """Numbers of iterations below this stand for all others: beyond, the loop repeats itself."""
        found = self.repetition(loop)
        if found is None or found.reason is not None:
            return max(FEW_ITERATIONS, min(self.most(loop), ENOUGH_ITERATIONS))
        return min(found.first + found.period + 1, MOST_ITERATIONS)

    # Goals

    def _needed(self, goal: tuple[object, ...]) -> bool:
        if goal in self._reached:
            return False
        match goal:
            case ("trip", int() as loop, int() as iteration):
                return iteration < self.classes(loop)
            case ("more", int() as loop, "entered", int() as iteration):
                return self.longest(loop) <= iteration
            case ("more", int() as loop, "again", int() as iteration):
                return self.longest(loop) < iteration + 3
            case ("more", int() as loop, str() as level, _) if level in _BEFORE_LONG:
                over = any(each.judged.too_long and each.judged.iterations.get(loop, 0) for each in self.tried)
                return not self.repeats(loop) and self.longest(loop) < _ITERATIONS[level] and not over
            case ("more", int() as loop, "between", _):
                self.attempts["between", loop] = self.attempts.get(("between", loop), 0) + 1
                return self.attempts["between", loop] <= _BETWEEN_MOST and self._is_between(loop)
            case ("more", int() as loop, "long", _):
                found = self.repetition(loop)
                return found is not None and found.reason is not None and self.most(loop) < _ITERATIONS["long"]
            case _:
                return True

    def _goals(self, tried: Tried) -> None:
        """Note where other launches would have gone."""
        conditions = [each for each in distinct(tried.judged.conditions) if len(self.idle_ways(each.position)) < 2]
        for condition in conditions:
            if condition.kind == "value":
                self.values_of.setdefault(place_of(condition), set()).add(label(condition.outcome))
            if condition.loop >= 0:
                self.deciding[condition.loop] = None
        if not conditions or not self.dimensions:
            return
        pool = pool_of(self.table, tuple(self.dimensions.values()), tried.values, conditions)
        steps = _steps(pool, conditions)
        found = divergences(pool, conditions)
        for divergence in found:
            self._goal(pool, divergence, steps)
        self._joint_goals(pool, found)

    def _goal(self, pool: Pool, divergence: Divergence, steps: Mapping[Place, float]) -> None:
        condition, rows = divergence.condition, divergence.rows
        if condition.loop >= 0 and condition.outcome.size == 1:
            if label(condition.outcome) == (HOLDS if condition.stays else FAILS):
                goal = _way(condition, FAILS if condition.stays else HOLDS)
                priority = 0 if condition.iteration <= 1 else 2
                self._want(priority, goal, pool, cheapest(pool, rows), typical(pool, rows))
                return
            step = steps.get(place_of(condition), 1.0)
            for level, priority, iterations in _MORE:
                goal = ("more", condition.loop, level, min(condition.iteration, 3))
                self._want(priority, goal, pool, at_distance(pool, condition, rows, iterations * step))
            return
        try:
            found = labels(pool, condition, rows)
        except CannotEvaluate:
            return
        by_label: dict[bytes, list[int]] = {}
        for row, each in zip(rows.tolist(), found, strict=True):
            by_label.setdefault(each, []).append(row)
        known = self.values_of.setdefault(place_of(condition), set()) if condition.kind == "value" else None
        for each, chosen in sorted(by_label.items(), key=lambda item: (-len(item[1]), item[0])):
            if known is not None:
                if each not in known and len(known) >= VALUES_MOST:
                    continue
                known.add(each)
            few = np.array(chosen, np.int64)
            fresh = (condition.position, each) not in self._ways_wanted
            self._ways_wanted.add((condition.position, each))
            goal = _way(condition, each)
            self._want(0 if fresh else 3, goal, pool, cheapest(pool, few), typical(pool, few))

    def _between(self) -> None:
        """A loop iterated too often in one launch and too rarely in all others: a better one lies between."""
        over = [each for each in self.tried if each.judged.too_long]
        ended = [each for each in self.tried if not each.judged.too_long and each.judged.asserted is None]
        if not over or not ended:
            return
        for loop in sorted({loop for each in over for loop, count in each.judged.iterations.items() if count}):
            if not self._is_between(loop):
                continue
            longest = max(ended, key=lambda each: each.judged.iterations.get(loop, 0))
            shortest = min(
                (each for each in over if each.judged.iterations.get(loop, 0) > ENOUGH_ITERATIONS),
                key=lambda each: sum(each.values.values()),
                default=None,
            )
            if shortest is None:
                continue
            if (pair := (loop, id(shortest), id(longest))) in self._halved:
                continue
            self._halved.add(pair)
            middle = _middle(shortest.values, longest.values)
            for _ in range(_BETWEEN_MOST):
                # What would go the way of a launch that was given up is too long as well.
                known = self.retraced(middle)
                if known is None or not known.judged.too_long:
                    break
                middle = _middle(middle, longest.values)
            self._order += 1
            if self.attempts.get(("between", loop), 0) < _BETWEEN_MOST:
                goal = ("more", loop, "between", self._order)
                heappush(self._waiting, _Wanted(0, -1.0, self._order, goal, middle))

    def _joint_goals(self, pool: Pool, found: Sequence[Divergence]) -> None:
        """Launches that differ from this one in several decisions at once."""
        differs: dict[int, list[int]] = {}
        for divergence in found:
            for row in divergence.rows.tolist():
                differs.setdefault(row, []).append(divergence.condition.position)
        for row, positions in differs.items():
            signature = tuple(sorted(set(positions)))
            if len(signature) < 2 or self._joint >= _JOINT_MOST:
                continue
            goal = ("joint", signature)
            if goal not in self.attempts:
                self.attempts[goal] = 0
                self._joint += 1
                self._want(4, goal, pool, row)

    def _want(self, priority: int, goal: tuple[object, ...], pool: Pool, *rows: int) -> None:
        self.wanted.add(goal)
        if self.attempts.get(goal, 0) >= _ATTEMPTS:
            return
        for place, row in enumerate(dict.fromkeys(rows)):
            cost = float(pool.costs[row])
            self._order += 1
            heappush(self._waiting, _Wanted(priority + place, cost, self._order, goal, pool.assignment(row)))


def _middle(many: Assignment, few: Assignment) -> dict[Input, int]:
    """Numbers between those of two launches, each the geometric mean."""
    return {
        given: value if value == (other := few.get(given, value)) else isqrt((value + 1) * (other + 1))
        for given, value in many.items()
    }


def _goal_of(condition: Condition) -> tuple[object, ...]:
    """What a run has reached by deciding a condition as it did."""
    return _way(condition, label(condition.outcome))


def _way(condition: Condition, outcome: bytes) -> tuple[object, ...]:
    """The goal that a condition comes out in some way; of what decides about a loop, after how many iterations."""
    if condition.loop >= 0 and condition.outcome.size == 1:
        leaves = (outcome == HOLDS) != condition.stays
        return ("trip" if leaves else "stay", condition.loop, condition.iteration)
    return (condition.kind, *place_of(condition), min(condition.iteration, 2), outcome)


def place_of(condition: Condition) -> Place:
    return condition.position, condition.cta, condition.warp, condition.slot


def distinct(conditions: Sequence[Condition]) -> list[Condition]:
    """The conditions without those that repeat what the same warp has decided by the same expression."""
    found: dict[tuple[object, ...], Condition] = {}
    for each in conditions:
        key = (each.position, each.cta, each.warp, each.node.number, each.mask, each.outcome.tobytes())
        found.setdefault(key, each)
    return list(found.values())


_OF_A_RUN = ("memory", "ticket", "work")
"""Kinds of inputs of which a run shows that they are there."""


def dimension_of_word(word: Input, number: int) -> Dimension:
    """The values that a word of memory, or what an atomic operation returns, may have."""
    largest = (1 << (8 * word.size_bytes)) - 1
    if word.kind == "ticket":
        return Dimension(word, f"ticket {word.place}", largest, word.place)
    if word.kind == "work":
        axis = word.place % 4
        said = f"the index along {'xyz'[axis]} of work that is taken over"
        return Dimension(word, said, _CTAS_MOST[axis] - 1, 0)
    return Dimension(word, f"word {number} of the memory that is read", largest, 0)


def _steps(pool: Pool, conditions: Sequence[Condition]) -> dict[Place, float]:
    """By how much the sides of a loop's comparison approach one another in an iteration."""
    found: dict[Place, float] = {}
    last: dict[Place, tuple[int, float]] = {}
    for condition in conditions:
        if condition.loop < 0 or place_of(condition) in found:
            continue
        apart = distances(pool, condition)
        if apart is None:
            continue
        place = place_of(condition)
        before = last.get(place)
        now = float(apart[0])
        if before is not None and condition.iteration == before[0] + 1 and now != before[1]:
            found[place] = abs(now - before[1])
        last[place] = (condition.iteration, now)
    return found
