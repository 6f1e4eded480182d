"""Which decisions of a kernel did no launch take in each of their ways together?

A branch that the launch decides may leave a trace (`branch_traces`): something of the protocol, or registers that steer
what comes after it. What comes after several such branches depends on all of them, though no condition says so. (Where
a branch only chooses what registers hold, `machine.guarded_regions` has made it a choice, which conditions speak of.)

So the decisions of a run form a word: in the order of warps, each predicate over inputs that decided such a branch, or
whether a loop went on where it may first be left, and that was not decided before. The words of all launches form a
tree. Every branching of the tree is a goal: after the same decisions, the other outcome of the next one. It is met by a
launch, or a solver shows that the decisions before exclude it. Decisions that exclude one another, or that come only
after others, need no launches of their own. What a loop decides in later iterations is asked about in each word where
it had one outcome only. Beyond so many words the verdict stays open.

Where lanes part by more than predicates and leave a trace, the ways are too many: the verdict stays open.
Where nothing but numbers at which a sum overflows leads there, an assumption excludes these.

Source: directed search of all paths (Godefroid, Klarlund and Sen, "DART: Directed Automated Random Testing", PLDI
2005).
Not handled: decisions of later iterations together with one another; of numbers of iterations more than whether a loop
goes on where it may first be left.
Checked by: tests/coverage_attacks/test_joint_decisions.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from tilewright.driver.exploration import FAILS, HOLDS, Exploration, Place, Tried, distinct, place_of
from tilewright.driver.missing import Missing, cut
from tilewright.driver.overflow import SUMS, overflow_limit, overflows
from tilewright.driver.path_search import Assignment, Pool, label, pool_of
from tilewright.driver.reachable import Impossible, Reached, Undecided, reach
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
_LATER_MOST = 4
"""Expressions of one decision in later iterations that are asked about in each word."""
_NEAR_MOST = 20
_SAID_MOST = 5
"""Decisions that a reason names."""


@dataclass(frozen=True, slots=True)
class _Letter:
    """A decision of a word: a predicate, negations apart, how it came out, by which condition, and the conditions of
    its warp before."""

    node: Node
    outcome: bytes
    condition: Condition
    before: tuple[Condition, ...]


@dataclass(slots=True, eq=False)
class _Word:
    """What a launch decided, and what its loops decided later, by position and expression. values: of the launch."""

    values: Assignment
    letters: list[_Letter] = field(default_factory=list[_Letter])
    later: dict[int, dict[int, _Letter]] = field(default_factory=dict[int, dict[int, _Letter]])
    outcomes: dict[int, set[bytes]] = field(default_factory=dict[int, set[bytes]])

    @property
    def key(self) -> tuple[tuple[int, bytes], ...]:
        return tuple((each.node.number, each.outcome) for each in self.letters)


def joint_decisions(
    exploration: Exploration, chosen: Sequence[Tried], lasting: Collection[int], name: Callable[[Input], str]
) -> list[Missing]:
    """Ways of decisions together that no launch of `chosen` took. lasting: decisions that leave a trace."""
    parting: dict[int, Missing] = {}
    words = [_word(exploration, tried, lasting, name, parting) for tried in chosen]
    seen: dict[Place, set[bytes]] = {}
    for condition in (each for tried in chosen for each in tried.judged.conditions):
        seen.setdefault(place_of(condition), set()).add(label(condition.outcome))
    # After which decisions comes which, how did it come out, and in which word first?
    tree: dict[tuple[tuple[int, bytes], ...], dict[int, dict[bytes, tuple[_Word, int]]]] = {}
    for word in words:
        key = word.key
        for place, (number, outcome) in enumerate(key):
            tree.setdefault(key[:place], {}).setdefault(number, {}).setdefault(outcome, (word, place))
    found: list[Missing] = []
    for key, nodes in tree.items():
        for number, outcomes in nodes.items():
            if len(outcomes) == 1:
                ((outcome, (word, place)),) = outcomes.items()
                if len(seen[place_of(word.letters[place].condition)]) == 1:
                    continue  # `coverage` asks for the other outcome, whatever comes before
                wanted = HOLDS if outcome == FAILS else FAILS
                found.append(
                    _missing(exploration, word, word.letters[:place], word.letters[place], wanted, (*key, number), name)
                )
    found.sort(key=lambda each: len(each.key))
    distinct_words = {word.key for word in words}
    if len(distinct_words) >= WORDS_MOST and found:
        first = found[0]
        said = f"branches that inputs decide go more than {WORDS_MOST} ways together"
        return [Missing(first.position, said, ("joint", "many"), Undecided), *parting.values()]
    return [*found, *_later(exploration, words, name), *parting.values()]


def _word(
    exploration: Exploration, tried: Tried, lasting: Collection[int], name: Callable[[Input], str],
    parting: dict[int, Missing],
) -> _Word:  # fmt: skip
    """What a launch decided. parting: gets decisions by which lanes part in ways that launches may do otherwise."""
    ways: dict[tuple[int, int], list[Condition]] = {}
    for condition in distinct(tried.judged.conditions):
        ways.setdefault((condition.cta, condition.warp), []).append(condition)
    word = _Word(tried.values)
    decided: set[int] = set()
    evaluation: Evaluation | None = None
    for _, way in sorted(ways.items()):
        visited: set[int] = set()
        for index, condition in enumerate(way):
            position = condition.position
            if condition.kind == "value" or position not in lasting:
                continue
            if not condition.node.uniform:
                if evaluation is None:
                    evaluation = _evaluation(exploration, tried)
                if condition.loop < 0 and label(condition.outcome) == b"split" and not _parts_by_predicates(
                    evaluation, condition.node
                ):  # fmt: skip
                    said = f"lanes part by {cut(rendered(condition.node, name))}, which launches may do in other ways"
                    parting[position] = Missing(position, said, ("parting", position), Undecided)
            for letter in _letters(evaluation, condition, way[max(0, index - _BEFORE) : index]):
                if position in visited:
                    if condition.loop < 0:
                        word.later.setdefault(position, {}).setdefault(letter.node.number, letter)
                        word.outcomes.setdefault(position, set()).add(letter.outcome)
                elif letter.node.number not in decided:
                    decided.add(letter.node.number)
                    word.letters.append(letter)
                    word.outcomes.setdefault(position, set()).add(letter.outcome)
            visited.add(position)
    return word


def _evaluation(exploration: Exploration, tried: Tried) -> Evaluation:
    columns = {
        given: np.array([tried.values.get(given, dimension.first)], np.uint64)
        for given, dimension in exploration.dimensions.items()
    }
    return Evaluation(exploration.table, columns, 1)


def _letters(evaluation: Evaluation | None, condition: Condition, before: Sequence[Condition]) -> Iterator[_Letter]:
    """The predicates over inputs that a condition rests on: itself, or, of one that differs by lane, those that it is
    made of."""
    node = condition.node
    if node.uniform:
        outcome = label(condition.outcome)
        if isinstance(node.operation, Not) and isinstance(node.sources[0], Node):
            node, outcome = node.sources[0], HOLDS if outcome == FAILS else FAILS
        if not node.opaque:
            yield _Letter(node, outcome, condition, tuple(before))
        return
    if evaluation is None or node.opaque or not _parts_by_predicates(evaluation, node):
        return
    for each in frontier(node):
        value = evaluation.of(each)
        about = replace(condition, node=each, outcome=value)
        yield from _letters(evaluation, about, before)


def _parts_by_predicates(evaluation: Evaluation, node: Node) -> bool:
    """Whether inputs decide by predicates alone whether lanes part: then they do so in the ways that were seen."""
    try:
        return not node.opaque and all(evaluation.of(each).dtype == np.bool_ for each in frontier(node))
    except CannotEvaluate:
        return False


def _later(exploration: Exploration, words: Sequence[_Word], name: Callable[[Input], str]) -> list[Missing]:
    """What a loop decides after its first iteration: where it had one outcome only in all launches of one word, and
    both in others, the other one is asked about."""
    every: dict[int, set[bytes]] = {}
    alike: dict[tuple[tuple[int, bytes], ...], list[_Word]] = {}
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
            (outcome,) = outcomes
            wanted = HOLDS if outcome == FAILS else FAILS
            letters: dict[int, tuple[_Word, _Letter]] = {}
            for word in same:
                for number, letter in word.later.get(position, {}).items():
                    letters.setdefault(number, (word, letter))
            asked = [
                _missing(exploration, word, word.letters, letter, wanted, (*key, number), name)
                for number, (word, letter) in list(letters.items())[:_LATER_MOST]
            ]
            found.append(replace(asked[0], key=("joint", *(each.key for each in asked)), ask=_any_of(asked)))
    return found


def _any_of(asked: Sequence[Missing]) -> Callable[[], Reached | Impossible | Undecided]:
    """The first of these that a launch fills; impossible if all are."""

    def ask() -> Reached | Impossible | Undecided:
        found: Reached | Impossible | Undecided = Impossible()
        for each in asked:
            answer = each.ask()
            if isinstance(answer, Reached):
                return answer
            found = answer if isinstance(answer, Undecided) else found
        return found

    return ask


def _missing(
    exploration: Exploration, word: _Word, before: Sequence[_Letter], last: _Letter, wanted: bytes,
    key: tuple[object, ...], name: Callable[[Input], str],
) -> Missing:  # fmt: skip
    ways = [*((each.node, each.outcome) for each in before[-_SAID_MOST + 1 :]), (last.node, wanted)]
    said = " and ".join(f"{'' if way == HOLDS else '!'}{cut(rendered(node, name))}" for node, way in ways)
    reason = f"no launch tried decides {len(before) + 1} branches so at once: {said}"
    if not before:
        reason = f"no launch tried goes the other way: it would need {said}"
    ask = _ask(exploration, word.values, before, last, wanted)
    return Missing(last.condition.position, reason, ("joint", *key, wanted), ask)


def _ask(
    exploration: Exploration, values: Assignment, before: Sequence[_Letter], last: _Letter, wanted: bytes
) -> Callable[[], Reached | Impossible | Undecided]:
    """Whether a launch decides all of them so; where possible one that is near a launch of these `values`, or that
    comes to them as an earlier one did."""

    def condition_of(letter: _Letter, outcome: bytes) -> Condition:
        return replace(letter.condition, node=letter.node, outcome=np.array([outcome == HOLDS]))

    def ask() -> Reached | Impossible | Undecided:
        opposite = HOLDS if wanted == FAILS else FAILS
        others = tuple(condition_of(each, each.outcome) for each in before)
        asked = condition_of(last, wanted)
        table, dimensions = exploration.table, exploration.dimensions
        barred = tuple(exploration.barred)
        near = _near(exploration, values, (*others, asked))
        if near is not None:
            return Reached(near)
        anyhow = reach(table, dimensions, asked, others, (opposite,), barred)
        if not isinstance(anyhow, Reached):
            return anyhow
        nodes = [each.node for each in (*others, asked)]
        if overflows(exploration, anyhow.values, nodes, SUMS):
            numbers = [
                given
                for given in inputs_of(nodes)
                if given.kind == "number" and given.size_bytes in (4, 8) and given in dimensions
            ]
            narrowed = {
                **dimensions,
                **{
                    each: replace(dimensions[each], largest=min(dimensions[each].largest, overflow_limit(each) - 1))
                    for each in numbers
                },
            }
            within = reach(table, narrowed, asked, others, (opposite,), barred)
            if isinstance(within, Impossible):
                names = " and ".join(dimensions[each].name for each in numbers)
                bits = max(overflow_limit(each) for each in numbers).bit_length() - 1
                said = f"{names} {'are' if len(numbers) > 1 else 'is'} at least 0 and below 2^{bits}"
                exploration.assumed[f"{said} (else a sum overflows, and ways were not tried)"] = None
                return within
            anyhow = within if isinstance(within, Reached) else anyhow
        own = {each.node.number for each in (*others, asked)}
        way = tuple(each for each in last.before if each.node.number not in own)
        same = reach(table, dimensions, asked, (*way, *others), (opposite,), barred)
        if isinstance(same, Reached) and exploration.is_new(same.values):
            return same
        return anyhow

    return ask


def _near(exploration: Exploration, values: Assignment, wanted: Sequence[Condition]) -> dict[Input, int] | None:
    """The smallest launch near one of these `values` in which conditions come out as they are wanted, if it is found
    among few thousands."""
    pool = pool_of(exploration.table, tuple(exploration.dimensions.values()), values, wanted)
    try:
        rows = _holding(pool, wanted)
        for way in exploration.barred:
            rows &= ~_holding(pool, [each for each in way if each.node.uniform])
    except CannotEvaluate:
        return None
    found = np.flatnonzero(rows)
    for row in found[np.argsort(pool.cost(found), kind="stable")][:_NEAR_MOST].tolist():
        launch = pool.assignment(row)
        if exploration.is_new(launch) and not exploration.leaves_out(launch):
            return launch
    return None


def _holding(pool: Pool, conditions: Sequence[Condition]) -> npt.NDArray[np.bool_]:
    """In which launches of a pool conditions come out as they did."""
    found = np.ones(pool.count, np.bool_)
    for each in conditions:
        found &= pool.evaluation.of(each.node) == each.outcome[0]
    return found
