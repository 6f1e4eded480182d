"""Which decisions of a kernel did no launch take in each of their ways together?

A branch that the launch decides may leave a trace (`branch_traces`): something of the protocol, or registers that steer
what comes after it. What comes after several such branches depends on all of them, though no condition says so. (Where
a branch only chooses what registers hold, `machine.protocol.slicing.guarded_regions` has made it a choice, which
conditions speak of.)

So the decisions of a run form a word: in the order of warps, each expression over inputs that decided such a branch or
was an operand of the protocol, and had not been decided before. The words of all launches form a tree. Every branching
of the tree is a goal: after the same decisions, another outcome of the next one. It is met by a launch, or a solver
shows that the decisions before exclude it. Decisions that exclude one another, or that come only after others, need no
launches of their own. Beyond so many words the verdict stays open.

Of a loop that inputs bound and that repeats itself, the first decision at each place is part of the word: whether it
goes on where it may first be left, and what its first iteration does; and each expression of an operand. Where
something behind it depends on how often it iterated, so is each decision to go on, up to a number that stands for more.
What a place in it decides later is asked about in each word where it had one outcome only.

Where lanes part by more than predicates and leave a trace, the ways are too many: the verdict stays open.
Where nothing but numbers at which a sum overflows leads there, an assumption excludes these.

Source: directed search of all paths (Godefroid, Klarlund and Sen, "DART: Directed Automated Random Testing", PLDI
2005).
Not handled: decisions of later iterations of such loops together with one another (`decided_in_turns`).
Checked by: tests/coverage_attacks/test_joint_decisions.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from tilewright.driver.explore.gaps.later_iterations import later_iterations
from tilewright.driver.explore.gaps.missing import Missing, cut
from tilewright.driver.explore.search.exact_ranges import SUMS
from tilewright.driver.explore.search.exploration import FAILS, Exploration, Place, Tried, distinct, place_of
from tilewright.driver.explore.search.on_the_way import leaves
from tilewright.driver.explore.search.overflow import overflows, reach_that_fits
from tilewright.driver.explore.search.path_search import Assignment, Dimension, Pool, decided, label, pool_of
from tilewright.driver.explore.search.reachable import Impossible, Reached, Sought, Undecided, reach
from tilewright.machine.core.lanes import selector
from tilewright.machine.symbolic.expression import (
    CannotEvaluate,
    Evaluation,
    Input,
    Node,
    Not,
    frontier,
    inputs_of,
    rendered,
)
from tilewright.machine.symbolic.tracker import Condition

_BEFORE = 200
WORDS_MOST = 64
"""Ways of all decisions together, beyond which the verdict stays open."""
_NEAR_MOST = 20
_SAID_MOST = 5
"""Decisions that a reason names."""


@dataclass(frozen=True, slots=True)
class _Letter:
    """A decision of a word: by a condition, negations apart; the conditions of its warp before; and whether it is an
    operand, which may have more values than two. others: how many other expressions its warp decided there before."""

    condition: Condition
    before: tuple[Condition, ...]
    operand: bool = False
    others: int = 0

    @property
    def key(self) -> tuple[int, int]:
        node = self.condition.node
        return node.number, 0 if node.uniform else self.condition.mask

    @property
    def outcome(self) -> bytes:
        return label(self.condition.outcome)


_Key = tuple[tuple[tuple[int, int], bytes], ...]


@dataclass(slots=True, eq=False)
class _Word:
    """What a launch decided, and what its loops decided later, by position and expression. values: of the launch."""

    values: Assignment
    letters: list[_Letter] = field(default_factory=list[_Letter])
    later: dict[int, dict[int, _Letter]] = field(default_factory=dict[int, dict[int, _Letter]])
    outcomes: dict[int, set[bytes]] = field(default_factory=dict[int, set[bytes]])

    @property
    def key(self) -> _Key:
        return tuple((each.key, each.outcome) for each in self.letters)


@dataclass(frozen=True, slots=True)
class _Branching:
    """A place in the tree of words: a word that comes to it, how many letters come before, the outcomes of the next;
    stayed: by what its warp stayed in a loop up to the iteration that it is in."""

    word: _Word
    place: int
    outcomes: frozenset[bytes]
    stayed: tuple[Condition, ...] = ()

    @property
    def last(self) -> _Letter:
        return self.word.letters[self.place]

    @property
    def before(self) -> tuple[_Letter, ...]:
        return tuple(self.word.letters[: self.place])


def joint_decisions(
    exploration: Exploration, chosen: Sequence[Tried], lasting: Collection[int], name: Callable[[Input], str],
    answers: Mapping[tuple[object, ...], Impossible | Undecided], always: Collection[Place] = (),
    counted: Mapping[int, int] | None = None,
) -> list[Missing]:  # fmt: skip
    """Ways of decisions together that no launch of `chosen` took. lasting: decisions that leave a trace; answers: what
    was found of earlier gaps, by their keys; always: those that come out the same in all launches, and no gap is left
    where another might do otherwise: they part no ways; counted: loops of which words say how often they iterated, up
    to a number."""
    parting: dict[int, Missing] = {}
    recurring = _recurring(exploration, chosen, lasting)
    words = [_word(exploration, tried, lasting, recurring, name, parting, always, counted or {}) for tried in chosen]
    seen: dict[Place, set[bytes]] = {}
    for condition in (each for tried in chosen for each in tried.judged.conditions):
        seen.setdefault(place_of(condition), set()).add(label(condition.outcome))
    found: list[Missing] = []
    operands: dict[tuple[object, ...], list[_Branching]] = {}
    for key, branching in _tree(words).items():
        last = branching.last
        if last.operand:
            needed = exploration.ways.needed(last.before, last.condition.position)
            operands.setdefault((last.key, *map(decided, needed)), []).append(branching)
        # `coverage` asks for the other outcome where there was one only, whatever came before.
        elif len(branching.outcomes) == 1 and len(seen[place_of(last.condition)]) > 1:
            found.append(_missing(exploration, branching, key, name))
    for key, some in operands.items():
        found += _of_operand(exploration, key, some, name)
    found.sort(key=lambda each: len(each.key))
    left = [each for each in found if not isinstance(answers.get(each.key), Impossible)]
    if left and len({word.key for word in words}) >= WORDS_MOST:
        said = f"what inputs decide goes more than {WORDS_MOST} ways together"
        return [Missing(left[0].position, said, ("joint", "many"), Undecided), *parting.values()]
    later = later_iterations(exploration, chosen, recurring, lasting, name)
    return [*found, *_later(exploration, words, name), *later, *parting.values()]


def _tree(words: Sequence[_Word]) -> dict[tuple[object, ...], _Branching]:
    """After which decisions comes which, and how did it come out? By the decisions before and the next one."""
    outcomes: dict[tuple[object, ...], set[bytes]] = {}
    first: dict[tuple[object, ...], tuple[_Word, int]] = {}
    for word in words:
        key = word.key
        for place, (letter, outcome) in enumerate(key):
            outcomes.setdefault((*key[:place], letter), set()).add(outcome)
            first.setdefault((*key[:place], letter), (word, place))
    return {key: _Branching(*first[key], frozenset(found)) for key, found in outcomes.items()}


def _recurring(exploration: Exploration, chosen: Sequence[Tried], lasting: Collection[int]) -> frozenset[int]:
    """Positions in loops that repeat themselves, as often as inputs say."""
    deciding = {each.loop for tried in chosen for each in tried.judged.conditions if each.loop >= 0}
    flow, blocks = exploration.ways.flow, set[int]()
    for loop in deciding:
        repeated = exploration.repetition(loop)
        if repeated is not None and repeated.reason is None:
            blocks |= flow.loops[loop].blocks
    return frozenset(flow.positions(frozenset(blocks)))


def _word(
    exploration: Exploration, tried: Tried, lasting: Collection[int], recurring: Collection[int],
    name: Callable[[Input], str], parting: dict[int, Missing], always: Collection[Place], counted: Mapping[int, int],
) -> _Word:  # fmt: skip
    """What a launch decided. recurring: positions of which the first decision of each warp is part of the word;
    parting: gets decisions by which lanes part in ways that launches may do otherwise; always: decisions that are no
    part of the word."""
    ways: dict[tuple[int, int], list[Condition]] = {}
    for condition in distinct(tried.judged.conditions):
        ways.setdefault((condition.cta, condition.warp), []).append(condition)
    word = _Word(tried.values)
    decided: set[tuple[int, int]] = set()
    evaluation = _evaluation(exploration, tried)
    for _, way in sorted(ways.items()):
        visited: set[tuple[int, int]] = set()
        decided_there: Counter[tuple[int, int]] = Counter()
        for index, condition in enumerate(way):
            position, where = condition.position, (condition.position, condition.slot)
            others = decided_there[where]
            decided_there[where] += 1
            if condition.kind != "value" and (position not in lasting or place_of(condition) in always):
                continue
            counts = condition.loop >= 0 and condition.iteration < counted.get(condition.loop, 0)
            again = where in visited and position in recurring and not counts and condition.kind != "value"
            visited.add(where)
            if _parts(evaluation, condition):
                said = f"lanes part by {cut(rendered(condition.node, name))}, which launches may do in other ways"
                parting[position] = Missing(position, said, ("parting", position), Undecided)
            for letter in _letters(evaluation, condition, way[max(0, index - _BEFORE) : index]):
                if again:
                    if condition.loop < 0:
                        known = word.later.setdefault(position, {})
                        known.setdefault(letter.condition.node.number, replace(letter, others=others))
                        word.outcomes.setdefault(position, set()).add(letter.outcome)
                elif letter.key not in decided:
                    decided.add(letter.key)
                    word.letters.append(letter)
                    word.outcomes.setdefault(position, set()).add(letter.outcome)
    return word


def _evaluation(exploration: Exploration, tried: Tried) -> Evaluation:
    columns = {
        given: np.array([tried.values.get(given, dimension.first)], np.uint64)
        for given, dimension in exploration.dimensions.items()
    }
    return Evaluation(exploration.table, columns, 1)


def _letters(evaluation: Evaluation, condition: Condition, before: Sequence[Condition]) -> Iterator[_Letter]:
    """The decisions over inputs that a condition rests on: itself, or, of one that differs by lane, what it is made of
    that does not."""
    node = condition.node
    operand = condition.kind == "value" and condition.outcome.dtype != np.bool_
    if not node.uniform and not node.opaque and (operand or _of_predicates(evaluation, node)):
        for each in frontier(node):
            with suppress(CannotEvaluate):
                about = replace(condition, node=each, outcome=evaluation.of(each))
                yield from _letters(evaluation, about, before)
    elif condition.outcome.size == 1:
        if isinstance(node.operation, Not) and isinstance(node.sources[0], Node):
            condition = replace(condition, node=node.sources[0], outcome=~condition.outcome)
        yield _Letter(condition, tuple(before), operand)


def _parts(evaluation: Evaluation, condition: Condition) -> bool:
    """Whether inputs decide by more than predicates how lanes part: then they may do so in ways that were not seen."""
    split = condition.loop < 0 and condition.kind != "value" and label(condition.outcome) == b"split"
    return split and not condition.node.uniform and not _of_predicates(evaluation, condition.node)


def _of_predicates(evaluation: Evaluation, node: Node) -> bool:
    try:
        return not node.opaque and all(evaluation.of(each).dtype == np.bool_ for each in frontier(node))
    except CannotEvaluate:
        return False


def _later(exploration: Exploration, words: Sequence[_Word], name: Callable[[Input], str]) -> list[Missing]:
    """What a loop decides after its first iteration: where it had one outcome only in all launches of one word, and
    both in others, the other one is asked about."""
    every: dict[int, set[bytes]] = {}
    alike: dict[_Key, list[_Word]] = {}
    for word in words:
        alike.setdefault(word.key, []).append(word)
        for position in word.later:
            every.setdefault(position, set()).update(word.outcomes[position])
    found: list[Missing] = []
    for key, same in alike.items():
        for position in sorted({each for word in same for each in word.later}):
            outcomes = set[bytes]().union(*(word.outcomes.get(position, set()) for word in same))
            if len(outcomes) != 1 or len(every[position]) != 2:
                continue
            letters: dict[int, tuple[_Word, _Letter]] = {}
            for word in same:
                for number, letter in word.later.get(position, {}).items():
                    letters.setdefault(number, (word, letter))
            asked = [
                _missing(
                    exploration,
                    _Branching(
                        _Word(word.values, [*word.letters, letter]),
                        len(word.letters),
                        frozenset(outcomes),
                        _stayed(exploration, letter),
                    ),
                    (*key, number),
                    name,
                )
                for number, (word, letter) in letters.items()
            ]
            found.append(replace(asked[0], key=("joint", *(each.key for each in asked)), ask=_any_of(asked)))
    return found


def _stayed(exploration: Exploration, letter: _Letter) -> tuple[Condition, ...]:
    """By what a warp stayed in the loops around a decision, each since its last visit began, where each iteration has
    decided by an expression of its own: then all who decide by this one are in this iteration."""
    flow = exploration.ways.flow
    block = flow.block_of[letter.condition.position]
    around = {number for number, loop in enumerate(flow.loops) if block in loop.blocks}
    visits = {each.loop: each.visit for each in letter.before if each.loop in around}
    stayed = tuple(
        each
        for each in letter.before
        if each.loop in around and each.visit == visits[each.loop] and each.kind == "branch" and not leaves(each)
    )
    return stayed if len(stayed) == letter.others else ()


def _of_operand(
    exploration: Exploration, key: tuple[object, ...], some: Sequence[_Branching], name: Callable[[Input], str]
) -> list[Missing]:
    """Further values of an operand, after each of the decisions that came before it. Where all its values were seen,
    one question may answer for all of these."""
    values = frozenset[bytes]().union(*(each.outcomes for each in some))
    found = [
        _missing(exploration, each, (key, each.word.key[: each.place]), name)
        for each in some
        if each.outcomes != values
    ]
    whole = [_missing(exploration, each, key, name) for each in some if each.outcomes == values]
    if not whole:
        return found
    last = next(each.last for each in some if each.outcomes == values)
    each_alone = _any_of(whole)

    def ask() -> Reached | Impossible | Undecided:
        needed = exploration.ways.needed(last.before, last.condition.position)
        anyhow = reach(
            exploration.table, exploration.dimensions, last.condition, needed, sorted(values),
            tuple(exploration.barred),
        )  # fmt: skip
        return anyhow if isinstance(anyhow, Impossible) else each_alone()

    ways = tuple(each.word.key[: each.place] for each in some if each.outcomes == values)
    return [*found, replace(whole[0], key=("joint", "operand", key, values, ways), ask=ask)]


def _any_of(asked: Sequence[Missing]) -> Callable[[], Reached | Impossible | Undecided]:
    """The first of these that a launch fills; impossible if all are."""

    def ask() -> Reached | Impossible | Undecided:
        found: Reached | Impossible | Undecided = Impossible()
        for each in asked:
            answer = each.ask()
            if isinstance(answer, Reached):
                return answer
            if isinstance(answer, Undecided) and not (isinstance(found, Undecided) and found.missing):
                found = answer
        return found

    return ask


def _missing(
    exploration: Exploration, branching: _Branching, key: tuple[object, ...], name: Callable[[Input], str]
) -> Missing:
    """The gap that no launch decides the next one otherwise after the same decisions."""
    whole_key = ("joint", *key, branching.outcomes)
    ask = _ask(exploration, branching)
    return Missing(branching.last.condition.position, lambda: _reason(branching, name), whole_key, ask)


def _reason(branching: _Branching, name: Callable[[Input], str]) -> str:
    before, last = branching.before, branching.last
    ways = [
        f"{'!' if each.outcome == FAILS else ''}{cut(rendered(each.condition.node, name))}"
        for each in before[-_SAID_MOST + 1 :]
        if not each.operand
    ]
    said = cut(rendered(last.condition.node, name))
    if last.operand:
        where = f" where {' and '.join(ways)}" if ways else ""
        return f"no launch tried gives {said} another value than {len(branching.outcomes)}{where}"
    said = said if FAILS in branching.outcomes else f"!{said}"
    if not before:
        return f"no launch tried goes the other way: it would need {said}"
    return f"no launch tried decides {len(before) + 1} branches so at once: {' and '.join((*ways, said))}"


def _ask(exploration: Exploration, branching: _Branching) -> Callable[[], Reached | Impossible | Undecided]:
    """Whether a launch comes to this place of the tree and has another outcome there; where possible one that is near
    an earlier launch, or that comes there as that one did."""
    last, excluded = branching.last, sorted(branching.outcomes)

    def ask() -> Reached | Impossible | Undecided:
        others, asked = (*branching.stayed, *(each.condition for each in branching.before)), last.condition
        table, dimensions = exploration.table, exploration.dimensions
        barred = tuple(exploration.barred)
        pinned = _where_words_are(exploration, branching)
        near = _near(exploration, branching, pinned) if pinned else None
        if near is None and pinned:
            there = reach(table, pinned, asked, others, excluded, barred)
            near = there.values if isinstance(there, Reached) and exploration.is_new(there.values) else None
        near = near if near is not None else _near(exploration, branching, dimensions)
        if near is not None and not overflows(exploration, near, [each.node for each in (*others, asked)], SUMS):
            return Reached(near)
        anyhow = reach_that_fits(exploration, Sought(asked, others, tuple(excluded)))
        if not isinstance(anyhow, Reached):
            return anyhow
        own = {each.node.number for each in (*others, asked)}
        way = tuple(each for each in last.before if each.node.number not in own)
        same = reach(table, dimensions, asked, (*way, *others), excluded, barred, fits=True) if way else anyhow
        return same if isinstance(same, Reached) and exploration.is_new(same.values) else anyhow

    return ask


def _where_words_are(exploration: Exploration, branching: _Branching) -> dict[Input, Dimension]:
    """The dimensions, where words of memory decide: those that say nothing here as in the launch that came to the place
    of the tree. Most words stand at places that other inputs lead to, so that a launch with others of these reads other
    words, and says nothing of the same ones. Nothing where no word decides."""
    conditions = (*branching.stayed, *(each.condition for each in branching.before), branching.last.condition)
    spoken = set(inputs_of([each.node for each in conditions]))
    if all(each.kind != "memory" for each in spoken):
        return {}
    values = branching.word.values
    return {
        each: dimension if each in spoken else _fixed(dimension, values.get(each, dimension.first))
        for each, dimension in exploration.dimensions.items()
    }


def _fixed(dimension: Dimension, value: int) -> Dimension:
    return replace(dimension, smallest=value, largest=value, first=value, multiple=1)


def _near(
    exploration: Exploration, branching: _Branching, dimensions: Mapping[Input, Dimension]
) -> dict[Input, int] | None:
    """The smallest launch near an earlier one that comes to a place of the tree and has another outcome there, if it is
    found among few thousands."""
    before = [*branching.stayed, *(each.condition for each in branching.before)]
    last = branching.last.condition
    pool = pool_of(exploration.table, tuple(dimensions.values()), branching.word.values, (*before, last))
    try:
        rows = ~_holding(pool, [last])
        if branching.last.operand:
            values = pool.evaluation.of(last.node)
            rows = ~np.isin(values, [np.frombuffer(each, values.dtype)[0] for each in branching.outcomes])
        rows &= _holding(pool, before)
        for way in exploration.barred:
            rows &= ~_holding(pool, [each for each in way if each.node.uniform])
    except CannotEvaluate:
        return None
    found = np.flatnonzero(rows)
    for row in found[np.argsort(pool.costs[found], kind="stable")][:_NEAR_MOST].tolist():
        launch = pool.assignment(row)
        if exploration.is_new(launch) and not exploration.leaves_out(launch):
            return launch
    return None


def _holding(pool: Pool, conditions: Sequence[Condition]) -> npt.NDArray[np.bool_]:
    """In which launches of a pool conditions come out as they did, in all lanes that came to them."""
    found = np.ones(pool.count, np.bool_)
    for each in conditions:
        if each.node.uniform:
            found &= pool.evaluation.of(each.node) == each.outcome[0]
        else:
            lanes = pool.evaluation.lanes(each.node)[:, selector(each.mask)]
            found &= (lanes == each.outcome[0]).all(axis=1)
    return found
