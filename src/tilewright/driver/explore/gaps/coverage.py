"""Do the launches that were made cover what a kernel can do? What is missing, and what stands in the way.

A proof without a launch rests on launches that were made. It holds for the others if each of them does what one of
these did, loops apart, which must have been shown to repeat themselves (`machine.protocol.loops.induction`). So it is
asked of the launches that were clean. What an assumption excludes is barred (`exploration.barred`, the bounds of an
input):

- every branch that inputs decide, in every warp that comes to it, went either way, unless it decides about nothing but
  accesses to global memory that order nothing;
- every loop whose end inputs decide was entered, iterated long enough to be shown to repeat itself after a period of
  iterations, and was left after every number of iterations up to that, with the loops inside it entered;
- every operand of the protocol that depends on inputs had each of its values;
- of two loops of different warps each goes on long after the other, or their numbers are related (`far_apart`);
- every decision in a loop was seen in a launch in which that repeats itself (`seen_repeating`);
- what iterations decide otherwise than others follows how often their loop iterates (`decided_in_turns`);
- two branches that inputs decide, after which something differs, went every way together (`joint_decisions`).

What no launch showed may be impossible: then a solver shows that the conditions on the way contradict it
(`solve.bit_vectors`). Where it finds a launch instead, that launch is made. Otherwise the verdict is unknown, with the
line and the expression that stands in the way.

What each iteration of a loop decides by an expression of its own (`n - 64 < 0` in the second) is asked about in the
iteration that decides by it, where all that kept the warp in the loop until then holds: whoever decides by this
expression has stayed as long. That is taken of a place alone that each iteration of one loop comes to, as it comes to
the branch that keeps it there, and where no launch decided twice by one expression. Later iterations than those that
were run are for the loop's repetition and `decided_in_turns`.

Not handled: combinations of decisions beyond those.
Checked by: tests/driver/explore/gaps/test_coverage.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from tilewright.base.span import Span
from tilewright.driver.explore.gaps.alike_requests import alike_but_for_requests
from tilewright.driver.explore.gaps.behind_loops import Behind, Example, after_any_count, by_loop
from tilewright.driver.explore.gaps.counted_barriers import counted_barriers
from tilewright.driver.explore.gaps.decided_in_turns import decided_in_turns
from tilewright.driver.explore.gaps.entered_inside import entered_inside
from tilewright.driver.explore.gaps.far_apart import far_apart
from tilewright.driver.explore.gaps.joint_decisions import joint_decisions
from tilewright.driver.explore.gaps.missing import Missing, asking, asking_any, cut, in_groups, question, said_by_place
from tilewright.driver.explore.gaps.open_so_far import not_repeating, open_gaps
from tilewright.driver.explore.gaps.seen_repeating import seen_repeating
from tilewright.driver.explore.gaps.unequal_loops import unequal_loops
from tilewright.driver.explore.gaps.walked_loops import bound_of, visits_of
from tilewright.driver.explore.search.exploration import (
    ENOUGH_ITERATIONS,
    FAILS,
    HOLDS,
    MOST_ITERATIONS,
    VALUES_MOST,
    Exploration,
    Place,
    Tried,
    distinct,
    place_of,
)
from tilewright.driver.explore.search.on_the_way import leaves
from tilewright.driver.explore.search.overflow import reach_that_fits
from tilewright.driver.explore.search.path_search import decided, label
from tilewright.driver.explore.search.reachable import Impossible, Reached, Sought, Undecided, reach_any
from tilewright.driver.launch.judge_launch import Repeated
from tilewright.machine.symbolic.expression import Applied, CannotEvaluate, Evaluation, Input, Node, frontier, rendered
from tilewright.machine.symbolic.tracker import Condition

_QUESTIONS_MOST = 400
_OPEN_MOST = 6
"""Questions about several branches at once that a solver leaves open, after which no more are asked."""
_LINES_SHOWN = 8
_BEFORE = 200
"""Conditions of a warp before one in question that a solver gets."""


@dataclass(frozen=True, slots=True)
class _Come:
    """How a warp came to a decision. outside: what it had decided outside of loops, by branches that leave a trace;
    way, count: all that it decides, and how much of that before; others: by how many other expressions it had decided
    here."""

    outside: tuple[Condition, ...]
    way: list[Condition]
    count: int
    others: int


@dataclass(frozen=True, slots=True)
class Site:
    """A decision as the launches showed it. seen: its outcomes, each by an example; examples: one for each expression
    and what needs to be decided on the way to it, with the conditions of its warp before it; constant: outcomes
    of it where it depended on no input, as in a loop that another launch did not enter; expressions: those that
    decided, by number; exits: by such a number, the decisions by which the last loop before it was left; ways: of each
    example, what its warp had decided before, outside of loops; lasted: of each, by what its warp stayed last in each
    loop around it; comes: to each, how a warp came, if no warp decided here twice by one expression."""

    place: Place
    kind: str
    loop: int
    stays: bool
    seen: dict[bytes, Condition] = field(default_factory=dict[bytes, Condition])
    examples: dict[Example, tuple[Condition, tuple[Condition, ...]]] = field(
        default_factory=dict[Example, tuple[Condition, tuple[Condition, ...]]]
    )
    constant: set[bytes] = field(default_factory=set[bytes])
    expressions: set[int] = field(default_factory=set[int])
    exits: dict[int, dict[int, Condition | None]] = field(default_factory=dict[int, dict[int, Condition | None]])
    ways: dict[Example, dict[tuple[tuple[int, bytes], ...], tuple[Condition, ...]]] = field(
        default_factory=dict[Example, dict[tuple[tuple[int, bytes], ...], tuple[Condition, ...]]]
    )
    lasted: dict[Example, tuple[Condition, ...]] = field(default_factory=dict[Example, tuple[Condition, ...]])
    comes: dict[Example, list[_Come]] = field(default_factory=dict[Example, list[_Come]])

    def passes_by(self, example: Example) -> bool:
        """Whether warps came to an example without leaving a loop that inputs end, as they did to others."""
        around = set(self.exits.get(example[0], {})) == {-1}
        return around and any(number != -1 for lefts in self.exits.values() for number in lefts)


@dataclass(frozen=True, slots=True)
class Covered:
    """What launches cover, in words, and reasons for which that is not all."""

    claims: tuple[str, ...]
    reasons: tuple[str, ...]


def cover(
    exploration: Exploration,
    excuse: Callable[[], None],
    name: Callable[[Input], str],
    span: Callable[[int], Span],
    loop_span: Callable[[int], Span],
    positions: frozenset[int],
    lasting: frozenset[int] = frozenset(),
) -> Covered:
    """Complete an exploration as far as launches can be found, and say what it covers.

    excuse: bars what makes launches fail that an assumption may exclude; name: of an input; span, loop_span: of an
    instruction and of a loop's head; positions: the instructions of the protocol; lasting: decisions
    that leave a trace."""
    answers: dict[tuple[object, ...], Impossible | Undecided] = {}
    questions = 0
    while True:
        every = sites(exploration, _clean(exploration), lasting)
        walked = [(each, visits_of(exploration.table, each)) for each in exploration.tried]
        clean = {id(each) for each in _clean(exploration)}
        counting = [(each, visits) for each, visits in walked if id(each) in clean]
        missing = (
            # A loop that is known to repeat itself has fewer numbers of iterations that stand for others.
            *_further(exploration, every, lasting, loop_span),
            *_missing(exploration, every, name),
            *unequal_loops(exploration, counting, name, loop_span),
            *far_apart(exploration, walked, [each for _, each in counting], _recurring(exploration), name, loop_span),
            *joint_decisions(
                exploration,
                _clean(exploration),
                lasting,
                name,
                answers,
                _always(exploration, every),
                _counted(exploration, lasting),
            ),
            *_left_by_loops(exploration, every, lasting, span, loop_span),
            *counted_barriers(exploration, _clean(exploration), _recurring(exploration), name),
            *decided_in_turns(exploration, _clean(exploration), _recurring(exploration), positions, lasting, name),
            *seen_repeating(exploration, _clean(exploration), _recurring(exploration), lasting, name),
            *entered_inside(exploration, _clean(exploration), _recurring(exploration)),
        )
        exploration.open = partial(open_gaps, missing, answers, span)
        fresh: dict[Input, int] | None = None
        for each in missing:
            if each.key in answers or fresh is not None or exploration.ended_early:
                continue
            if questions >= _QUESTIONS_MOST or (each.key[0] == "joint" and _is_idle(missing, answers)):
                answers[each.key] = Undecided()
                continue
            questions += 1
            match each.ask():
                case Reached(values) if exploration.is_new(values):
                    fresh = values
                case Reached():
                    answers[each.key] = Undecided()
                case Impossible() | Undecided() as answer:
                    answers[each.key] = answer
        if fresh is None:
            break
        if exploration.stops(exploration.at(fresh, patient=True)):
            break
        exploration.go()
        barred = len(exploration.barred), _bounds(exploration)
        excuse()
        if barred != (len(exploration.barred), _bounds(exploration)):
            answers = {key: answer for key, answer in answers.items() if isinstance(answer, Impossible)}
    left = [each for each in missing if not isinstance(answers.get(each.key), Impossible)]
    reasons = said_by_place(left, span)
    reasons += _without_a_solver(answers.get(each.key) for each in left)
    if exploration.ended_early:
        reasons.append(f"after {len(exploration.tried)} launches there were still others to try")
    impossible = sum(isinstance(each, Impossible) for each in answers.values())
    claims = _claims(exploration, positions, span, loop_span, impossible)
    return Covered(claims, tuple(dict.fromkeys(reasons)))


def _recurring(exploration: Exploration) -> list[int]:
    return [loop for loop, _ in _recurring_loops(exploration)]


def _without_a_solver(answers: Iterable[Impossible | Undecided | None]) -> list[str]:
    """What is missing to decide these, in one sentence; nothing where every question was answered or given up."""
    for each in answers:
        if isinstance(each, Undecided) and each.missing is not None:
            return [
                f"{each.missing.distribution} is not installed, so ways that no launch tried are neither found nor "
                f"shown to be impossible: {each.missing.remedy}, or give the launch"
            ]
    return []


def _is_idle(missing: Sequence[Missing], answers: Mapping[tuple[object, ...], Impossible | Undecided]) -> bool:
    """Whether to ask what is decided together leads to no proof: few of these questions stay open, or any other."""
    joint = sum(isinstance(known, Undecided) for key, known in answers.items() if key[0] == "joint")
    alone = (each.key for each in missing if each.key[0] != "joint")
    return joint >= _OPEN_MOST or any(isinstance(answers.get(key), Undecided) for key in alone)


def _clean(exploration: Exploration) -> list[Tried]:
    """The launches that count. Where the kernel's own assertion ends all of them, one that they miss may not end so."""
    asserted = [each for each in exploration.tried if each.judged.asserted is not None]
    return asserted if len(asserted) == len(exploration.tried) else [each for each in exploration.tried if each.clean]


def _bounds(exploration: Exploration) -> list[tuple[int, int, int]]:
    return [(each.smallest, each.largest, each.multiple) for each in exploration.dimensions.values()]


def sites(
    exploration: Exploration, tried: Iterable[Tried], lasting: frozenset[int] = frozenset()
) -> dict[Place, Site]:  # fmt: skip
    """Every decision that depends on inputs, with the outcomes that launches showed. lasting: decisions that leave a
    trace, which alone tell ways apart: those of all of them together are asked for (`joint_decisions`)."""
    found: dict[Place, Site] = {}
    constant: dict[tuple[int, int, int], set[bytes]] = {}
    again: set[Place] = set()
    for each in tried:
        for position, cta, index, holds in each.judged.constant_ways:
            outcome = b"split" if holds is None else HOLDS if holds else FAILS
            constant.setdefault((position, cta, index), set()).add(outcome)
        before: dict[tuple[int, int], list[Condition]] = {}
        # What branches outside of loops decided so far.
        chosen: dict[tuple[int, int], frozenset[tuple[int, bytes]]] = {}
        left: dict[tuple[int, int], Condition] = {}
        others: Counter[Place] = Counter()
        fresh = {id(condition) for condition in distinct(each.judged.conditions)}
        for condition in each.judged.conditions:
            place = place_of(condition)
            last = left.get(place[1:3])
            if leaves(condition):
                left[place[1:3]] = condition
            if place in found and condition.node.number in found[place].exits:
                found[place].exits[condition.node.number][-1 if last is None else last.node.number] = last
            if id(condition) not in fresh:
                again.add(place)
                continue
            site = found.get(place)
            if site is None:
                site = found[place] = Site(place, condition.kind, condition.loop, condition.stays)
            warp = condition.cta, condition.warp
            way = before.setdefault(warp, [])
            outcome = label(condition.outcome)
            site.seen.setdefault(outcome, condition)
            site.expressions.add(condition.node.number)
            if condition.kind == "value":
                # One for each set of branches on the way: what loops do to it is for their repetition to show.
                key = outcome, chosen.get(warp, frozenset())
                if key not in site.examples:
                    site.examples[key] = condition, tuple(way[-_BEFORE:])
            elif b"split" not in site.seen and len(site.seen) < 2:
                needed = exploration.ways.needed(way[-_BEFORE:], condition.position, condition)
                key = condition.node.number, *map(decided, needed)
                known, _ = site.examples.setdefault(key, (condition, needed))
                if condition.mask & ~known.mask:
                    # Other lanes came: it is asked of all of them.
                    site.examples[key] = replace(known, mask=known.mask | condition.mask), needed
                site.exits.setdefault(condition.node.number, {-1 if last is None else last.node.number: last})
                outside = _chosen(way[-_BEFORE:], lasting)
                site.ways.setdefault(key, {})[tuple(map(decided, outside))] = outside
                site.lasted.setdefault(key, _stayed(exploration, way[-_BEFORE:], condition.position))
                site.comes.setdefault(key, []).append(_Come(outside, way, len(way), others[place]))
            others[place] += 1
            if condition.kind != "value" and condition.loop < 0:
                chosen[warp] = chosen.get(warp, frozenset()) | {(condition.position, outcome)}
            way.append(condition)
    for place in again & found.keys():
        found[place].comes.clear()
    for site in found.values():
        if site.kind == "branch":
            site.constant.update(constant.get(site.place[:3], ()))
    return found


def _stayed(exploration: Exploration, way: Sequence[Condition], position: int) -> tuple[Condition, ...]:
    """By what a warp stayed last in each loop around a position, if it did not leave that since."""
    flow = exploration.ways.flow
    last = {each.loop: each for each in way if each.loop >= 0 and each.outcome.size == 1}
    block = flow.block_of[position]
    return tuple(each for loop, each in last.items() if block in flow.loops[loop].blocks and not leaves(each))


def _missing(exploration: Exploration, every: Mapping[Place, Site], name: Callable[[Input], str]) -> list[Missing]:
    found: list[Missing] = []
    chosen = _clean(exploration)
    counting = {
        position
        for loop in {each.loop for each in every.values() if each.loop >= 0}
        if (repeated := exploration.repetition(loop)) is not None
        for position in repeated.further
    }
    for site in every.values():
        position = site.place[0]
        if site.kind == "value":
            found += _values(exploration, chosen, site, name)
            continue
        # Where it depended on no input, it says nothing of what inputs may decide elsewhere.
        if b"split" in site.seen or len(site.seen) > 1:
            continue
        jumped = any((way == HOLDS) != condition.negated for way, condition in site.seen.items())
        if site.kind == "branch" and (not jumped) in exploration.idle_ways(position):
            continue
        (outcome,) = site.seen
        entering = site.loop >= 0 and (outcome == HOLDS) != site.stays
        # What later iterations decide by the same instruction is another expression, which no run had.
        expressions = {each.node.number: each.node for each, _ in site.examples.values()}
        moves = site.loop >= 0 and not entering and not alike_but_for_requests(expressions.values())
        where = "goes on in the loop" if entering else "leaves the loop" if site.loop >= 0 else "goes the other way"
        groups = [] if site.loop >= 0 else _groups(exploration, every, site)
        for group in (*groups, *({key: None} for key in site.examples if not any(key in group for group in groups))):
            first = next(iter(group))
            said = cut(rendered(site.examples[first][0].node, name))
            reason = f"no launch tried {where}: it would need {_not(said, outcome == FAILS)}"
            asks = [_asked(exploration, every, site, Sought(*site.examples[key], (outcome,)), key) for key in group]
            # After more iterations than were tried it is another expression, unless the way there passes by the loop.
            further = position in counting and not all(map(site.passes_by, group))
            behind = [each for each in group.values() if each is not None]
            ask = _after_any_count(exploration, behind, outcome, asks, further=further)
            key = (
                "way", outcome,
                *((question(Sought(*site.examples[key], ())), tuple(site.ways.get(key, ()))) for key in group),
            )  # fmt: skip
            found.append(Missing(position, reason, key, _not_yet(ask) if moves else ask))
    found += _trips(exploration, name)
    return found


def _always(exploration: Exploration, every: Mapping[Place, Site]) -> frozenset[Place]:
    """The decisions that came out the same in all launches: `_missing` asks whether they may do otherwise."""
    return frozenset(
        place
        for place, site in every.items()
        if site.kind != "value" and place[0] not in exploration.idle
        if len(site.seen) == 1 and b"split" not in site.seen
    )


_Ask = Callable[[], Reached | Impossible | Undecided]


def _asked(exploration: Exploration, every: Mapping[Place, Site], site: Site, sought: Sought, key: Example) -> _Ask:
    """Whether a launch decides otherwise, in whatever way it comes, or else in each of the ways that were seen. Only
    what a branch outside of loops always decides by one expression tells ways apart: these are seen together."""

    def ask() -> Reached | Impossible | Undecided:
        answer = in_iteration()
        lasting = _in_any_iteration(exploration, every, sought.before)
        if not isinstance(answer, Impossible) or len(lasting) == len(sought.before):
            return answer
        # In an iteration that no launch has chosen so far, other decisions lead here.
        further = replace(sought, before=lasting)
        anywhere = reach_that_fits(exploration, further)
        if not isinstance(anywhere, Reached) or exploration.is_new(anywhere.values):
            return anywhere
        return Impossible() if _never_there(exploration, every, site, sought, key) else Undecided()

    def in_iteration() -> Reached | Impossible | Undecided:
        answer = reach_that_fits(exploration, sought)
        if site.loop >= 0 or not isinstance(answer, Reached) or exploration.is_new(answer.values):
            return answer
        for way in site.ways[key].values():
            before = (*_outside(exploration, every, way), *sought.before)
            answer = reach_that_fits(exploration, replace(sought, before=before))
            if not isinstance(answer, Impossible):
                break
        if not isinstance(answer, Reached) or exploration.is_new(answer.values) or not site.lasted[key]:
            return answer
        # A later iteration of a loop that is left where an iteration ends takes a launch that stays in it.
        staying = reach_that_fits(exploration, replace(sought, before=(*site.lasted[key], *sought.before)))
        if isinstance(staying, Reached):
            return staying
        nowhere = isinstance(staying, Impossible) and _never_there(exploration, every, site, sought, key)
        return Impossible() if nowhere else answer

    return ask


def _never_there(
    exploration: Exploration, every: Mapping[Place, Site], site: Site, sought: Sought, key: Example
) -> bool:  # fmt: skip
    """Whether no launch decides otherwise in the iteration that decides by an expression, whichever way it comes: where
    each iteration decides by one of its own, all who decide by this one have stayed in the loop for so long."""
    come = {each: [_how(exploration, way, site.place) for way in some] for each, some in site.comes.items()}
    if key not in come or any(stayed is None for some in come.values() for _, stayed in some):
        return False
    ways = {
        tuple(map(decided, (*outside, *stayed))): (*_outside(exploration, every, outside), *stayed)
        for outside, stayed in come[key]
        if stayed is not None
    }
    asked = (replace(sought, before=(*before, *sought.before)) for before in ways.values())
    return all(isinstance(reach_that_fits(exploration, each), Impossible) for each in asked)


def _how(
    exploration: Exploration, come: _Come, place: Place
) -> tuple[tuple[Condition, ...], tuple[Condition, ...] | None]:  # fmt: skip
    """What a warp that came to a decision had decided outside of loops, and by what it stayed in those around it."""
    return come.outside, exploration.ways.stayed(come.way[: come.count], place[0], come.others)


def _in_any_iteration(
    exploration: Exploration, every: Mapping[Place, Site], needed: Sequence[Condition]
) -> tuple[Condition, ...]:  # fmt: skip
    """Those of the decisions on a way that lead there in whatever iteration of the loops around them: what each
    iteration decides by an expression of its own is left out, unless it is how the first one goes on."""
    flow = exploration.ways.flow

    def lasts(each: Condition) -> bool:
        around = [loop for loop in flow.loops if flow.block_of[each.position] in loop.blocks]
        site = every.get(place_of(each))
        if not around or (site is not None and len(site.expressions) == 1):
            return True
        return each.loop >= 0 and not leaves(each) and not each.iteration and len(around) == 1

    return tuple(filter(lasts, needed))


def _outside(exploration: Exploration, every: Mapping[Place, Site], way: Sequence[Condition]) -> list[Condition]:
    """What a warp decided outside of loops, by the one expression that always decides there."""
    flow = exploration.ways.flow
    return [
        each for each in way if len(every[place_of(each)].expressions) == 1 and not flow.is_in_a_loop(each.position)
    ]


def _groups(exploration: Exploration, every: Mapping[Place, Site], site: Site) -> list[dict[Example, Behind]]:
    """Decisions behind one loop, each with what all ways decide that lead to it or led to it."""
    groups = by_loop(site.examples, site.exits)
    for group in groups:
        for key, each in group.items():
            ways = [_outside(exploration, every, way) for way in site.ways[key].values()]
            shared = [one for one in ways[0] if all(decided(one) in map(decided, way) for way in ways)]
            group[key] = replace(each, needed=(*shared, *each.needed))
    return groups


def _after_any_count(
    exploration: Exploration, behind: Sequence[Behind], outcome: bytes, asks: Sequence[_Ask], *, further: bool
) -> _Ask:  # fmt: skip
    """Whether a launch decides otherwise, of decisions asked about one by one, or, behind a loop, together. further:
    after other numbers of iterations it is another expression."""

    def ask() -> Reached | Impossible | Undecided:
        answer: Reached | Impossible | Undecided = Impossible()
        for each in asks:
            answer = each()
            if not isinstance(answer, Impossible):
                break
        if isinstance(answer, Impossible) and not further:
            return answer
        left = Undecided() if isinstance(answer, Impossible) else answer
        return (after_any_count(exploration, behind, (outcome,)) if behind else None) or left

    return ask


def _not_yet(ask: _Ask) -> _Ask:
    """The question where that it is impossible in the iterations that were run says nothing of later ones."""

    def asked() -> Reached | Impossible | Undecided:
        answer = ask()
        return Undecided() if isinstance(answer, Impossible) else answer

    return asked


def _values(
    exploration: Exploration, chosen: Sequence[Tried], site: Site, name: Callable[[Input], str]
) -> list[Missing]:
    """Values that an operand may have beside those seen. Of one that differs by lane, what is the same in all lanes of
    what it is computed from is asked about instead."""
    sought: list[Sought] = []
    asked: set[int] = set()
    for condition, needed in site.examples.values():
        for node in frontier(condition.node):
            if node.number in asked:
                continue
            asked.add(node.number)
            seen = tuple(sorted(site.seen)) if node is condition.node else _seen(exploration, chosen, node)
            if _has_no_other(node, seen):
                continue
            about = replace(
                condition, node=node, outcome=np.frombuffer(seen[0], np.uint8) if seen else condition.outcome
            )
            sought.append(Sought(about, needed, seen))
    found: list[Missing] = []
    for some in in_groups(sought):
        said = f"an operand depends on {cut(rendered(some[0].condition.node, name))}, of which "
        asked_now = asking_any(exploration, site.place[0], said + _times(len(some[0].excluded)), some)
        asked_now = replace(asked_now, ask=_whatever_operands_were(exploration, some, asked_now.ask))
        another = _is_always_another(exploration, site)
        found.append(replace(asked_now, ask=_not_yet(asked_now.ask)) if another else asked_now)
    return found


def _whatever_operands_were(exploration: Exploration, some: tuple[Sought, ...], ask: _Ask) -> _Ask:
    """First without what the operands before were, which is the same question for many, and asked once."""
    general = tuple(replace(each, before=tuple(one for one in each.before if one.kind != "value")) for each in some)
    key = tuple(map(question, general))

    def asked() -> Reached | Impossible | Undecided:
        if key not in exploration.exhausted:
            answer = reach_any(exploration.table, exploration.dimensions, general, tuple(exploration.barred))
            exploration.exhausted[key] = isinstance(answer, Impossible)
        return Impossible() if exploration.exhausted[key] else ask()

    return asked


def _has_no_other(node: Node, seen: tuple[bytes, ...]) -> bool:
    """Whether an expression masks a few bits, and had every value that these have: no solver need be asked."""
    operation = node.operation
    if not node.uniform or not isinstance(operation, Applied) or operation.instruction.row != "and":
        return False
    masks = [each for each in node.sources if not isinstance(each, Node)]
    return len(masks) == 1 and masks[0].size == 1 and len(set(seen)) == 1 << int(masks[0][0]).bit_count()


def _is_always_another(exploration: Exploration, site: Site) -> bool:
    """Whether an operand in a loop is another expression in each iteration, so that those which were run do not stand
    for the others; where a loop returns to its expressions after a period, they do."""
    flow = exploration.ways.flow
    around = [number for number, loop in enumerate(flow.loops) if flow.block_of[site.place[0]] in loop.blocks]
    repeated = [each for number in around if (each := exploration.repetition(number)) is not None]
    return any(each.reason is None and len(site.expressions) > each.first + each.period for each in repeated)


def _seen(exploration: Exploration, chosen: Sequence[Tried], node: Node) -> tuple[bytes, ...]:
    """The values of an expression in the launches that were made."""
    columns = {
        given: np.array([each.values.get(given, dimension.first) for each in chosen], np.uint64)
        for given, dimension in exploration.dimensions.items()
    }
    try:
        values = Evaluation(exploration.table, columns, len(chosen)).of(node)
    except CannotEvaluate:
        return ()
    return tuple(sorted({values[index : index + 1].tobytes() for index in range(len(chosen))}))


def _trips(exploration: Exploration, name: Callable[[Input], str]) -> list[Missing]:
    """Numbers of iterations that stand for others and after which no launch left a loop."""
    left: dict[int, set[int]] = {}
    longest: dict[int, list[tuple[Condition, tuple[Condition, ...]]]] = {}
    for each in _clean(exploration):
        before: dict[tuple[int, int], list[Condition]] = {}
        stays: dict[int, list[tuple[Condition, tuple[Condition, ...]]]] = {}
        whose: dict[int, tuple[int, int]] = {}
        for condition in distinct(each.judged.conditions):
            warp = (condition.cta, condition.warp)
            way = before.setdefault(warp, [])
            if condition.loop >= 0 and condition.outcome.size == 1:
                if (label(condition.outcome) == HOLDS) == condition.stays:
                    if whose.setdefault(condition.loop, warp) == warp and condition.iteration < MOST_ITERATIONS:
                        stays.setdefault(condition.loop, []).append((condition, tuple(way[-_BEFORE:])))
                else:
                    left.setdefault(condition.loop, set()).add(condition.iteration)
            way.append(condition)
        for loop, found in stays.items():
            if len(found) > len(longest.get(loop, ())):
                longest[loop] = found
    missing: list[Missing] = []
    for loop, found in longest.items():
        classes = exploration.classes(loop)
        for condition, before_it in found:
            if condition.iteration < classes and condition.iteration not in left.get(loop, ()):
                said = cut(rendered(condition.node, name))
                reason = f"no launch tried leaves the loop after {condition.iteration} iterations: {said} decides"
                excluded = (label(condition.outcome),)
                missing.append(asking(exploration, condition.position, reason, condition, before_it, excluded))
    return missing


@dataclass(frozen=True, slots=True)
class _Left:
    """How a loop was left after the most iterations on one way: with the conditions before, and of these what was
    decided outside of loops."""

    condition: Condition
    before: tuple[Condition, ...]
    outside: tuple[Condition, ...]


def _further(
    exploration: Exploration, every: Mapping[Place, Site], lasting: frozenset[int], loop_span: Callable[[int], Span]
) -> list[Missing]:  # fmt: skip
    """Loops that are not shown to repeat themselves, or not by a launch that leaves them, and may iterate more often
    than in any launch."""
    last: dict[int, dict[tuple[object, ...], _Left]] = {}
    deciding: set[int] = set()
    ended: dict[int, int] = {}
    for each in exploration.tried:
        if not (each.clean or each.judged.too_long):
            continue
        ways: dict[tuple[int, int], list[Condition]] = {}
        for condition in distinct(each.judged.conditions):
            way = ways.setdefault((condition.cta, condition.warp), [])
            if condition.loop >= 0 and condition.outcome.size == 1:
                deciding.add(condition.loop)
                if each.clean:
                    ended[condition.loop] = max(ended.get(condition.loop, 0), condition.iteration)
                if leaves(condition) and each.clean:
                    before = tuple(way[-_BEFORE:])
                    outside = tuple(_outside(exploration, every, _chosen(before, lasting)))
                    known = last.setdefault(condition.loop, {})
                    key = tuple(map(decided, outside))
                    if key not in known or known[key].condition.iteration <= condition.iteration:
                        known[key] = _Left(condition, before, outside)
            way.append(condition)
    found: list[Missing] = []
    for loop in sorted(deciding):
        repeated = exploration.repetition(loop)
        if repeated is not None and repeated.reason is None:
            # What is known of a run that was given up is that it repeats itself, not where others leave the loop.
            if ended.get(loop, 0) >= exploration.classes(loop) - 1:
                continue
            said = f"no launch tried iterates the loop at {loop_span(loop)} until it repeats itself, and leaves it"
            few = True
        else:
            short = repeated is None or repeated.short
            said = not_repeating(exploration, loop, loop_span)
            few = exploration.longest(loop) < (MOST_ITERATIONS if short else ENOUGH_ITERATIONS)
        if loop in last and few:
            some = sorted(last[loop].values(), key=lambda each: -each.condition.iteration)
            numbers = tuple((each.condition.node.number, tuple(map(decided, each.outside))) for each in some)
            found.append(Missing(-1, said, ("further", loop, *numbers), _stays_longer(exploration, some)))
        else:
            found.append(Missing(-1, said, ("further", loop), Undecided))
    return found


def _stays_longer(exploration: Exploration, some: Sequence[_Left]) -> _Ask:
    """Whether a launch iterates a loop more often than it was on any of the ways to it: few ways lead to a loop, and
    what the launch decides on them may bound it."""

    def ask() -> Reached | Impossible | Undecided:
        for each in some:
            condition = each.condition
            needed = exploration.ways.needed(each.before, condition.position, condition)
            answer: Reached | Impossible | Undecided = Undecided()
            for before in ((), each.outside):
                sought = Sought(condition, (*before, *needed), (label(condition.outcome),))
                answer = reach_any(exploration.table, exploration.dimensions, (sought,), tuple(exploration.barred))
                if isinstance(answer, Impossible):
                    break
            if not isinstance(answer, Impossible):
                return answer
        return Impossible()

    return ask


def _chosen(way: Sequence[Condition], lasting: frozenset[int]) -> tuple[Condition, ...]:
    """What a warp decided by branches that leave a trace and no loop."""
    return tuple(each for each in way if each.kind == "branch" and each.loop < 0 and each.position in lasting)


def _left_by_loops(
    exploration: Exploration, every: Mapping[Place, Site], lasting: frozenset[int], span: Callable[[int], Span],
    loop_span: Callable[[int], Span],
) -> list[Missing]:  # fmt: skip
    """Loops after which something decides that is another one after each number of iterations, beside what inputs
    decide otherwise: not all numbers of iterations were seen with all other decisions."""
    found: list[Missing] = []
    for loop, repeated in _recurring_loops(exploration):
        if repeated.first + repeated.period >= MOST_ITERATIONS:
            said = f"{loop_span(loop)}: the loop repeats itself only after {repeated.first} iterations"
            found.append(Missing(-1, said, ("late", loop), Undecided))
        if repeated.further and _decides_besides(exploration, lasting, loop):
            said = (
                f"{span(repeated.further[0])}: how often the loop at {loop_span(loop)} iterated decides here, and not "
                "every number of iterations was tried with every other decision"
            )
            alike = [each for each in every.values() if each.place[0] in repeated.further]
            key = "left", loop, *(sorted(site.examples, key=str) for site in alike)
            ask = _always_alike(exploration, loop, repeated.further, alike)
            found.append(Missing(-1, said, tuple(map(str, key)), ask))
    return found


def _counted(exploration: Exploration, lasting: frozenset[int]) -> dict[int, int]:
    """Loops that leave something else after each number of iterations of a period, which decides behind them beside
    what else inputs decide; each with the numbers of iterations that stand for others."""
    return {
        loop: exploration.classes(loop)
        for loop, repeated in _recurring_loops(exploration)
        if not {*repeated.decides} <= {*repeated.further} and _decides_besides(exploration, lasting, loop)
    }


def _recurring_loops(exploration: Exploration) -> list[tuple[int, Repeated]]:
    """The loops that inputs end and that are shown to repeat themselves."""
    loops = {each.loop for tried in _clean(exploration) for each in tried.judged.conditions if each.loop >= 0}
    known = ((loop, exploration.repetition(loop)) for loop in sorted(loops))
    return [(loop, repeated) for loop, repeated in known if repeated is not None and repeated.reason is None]


def _decides_besides(exploration: Exploration, lasting: frozenset[int], loop: int) -> bool:
    """Whether inputs decide anything that leaves a trace, beside how often a loop iterates."""
    decisions = [each for tried in _clean(exploration) for each in tried.judged.conditions if each.kind != "value"]
    bounds = {bound_of(each.node) for each in decisions if each.loop == loop}
    return any(
        each.position in lasting
        and each.loop != loop
        and (each.loop < 0 or bound_of(each.node) is None or bound_of(each.node) not in bounds)
        for each in decisions
    )


def _always_alike(exploration: Exploration, loop: int, decides: Sequence[int], some: Sequence[Site]) -> _Ask:
    """Whether what a loop decides behind it comes out the same after every number of iterations. some: the sites."""

    def ask() -> Reached | Impossible | Undecided:
        if {site.place[0] for site in some} != {*decides} or any(site.kind == "value" for site in some):
            return Undecided()
        for site in some:
            outcomes = tuple(site.seen.keys() | site.constant)
            groups = [
                each for each in by_loop(site.examples, site.exits) if next(iter(each.values())).exit.loop == loop
            ]
            # Of what another way leads to, the loop says nothing.
            exits = [left for key in site.examples for left in site.exits[key[0]].values()]
            count = sum(left is not None and left.loop == loop for left in exits)
            if len(outcomes) != 1 or len(groups) != 1 or len(groups[0]) != count:
                return Undecided()
            if not isinstance(after_any_count(exploration, [*groups[0].values()], outcomes), Impossible):
                return Undecided()
        return Impossible()

    return ask


def _claims(
    exploration: Exploration, positions: frozenset[int], span: Callable[[int], Span],
    loop_span: Callable[[int], Span], impossible: int,
) -> tuple[str, ...]:  # fmt: skip
    chosen = _clean(exploration)
    executed = frozenset[int]().union(*(each.judged.covered for each in chosen)) & positions
    every = sites(exploration, chosen)
    branches = {site.place[0] for site in every.values() if site.kind != "value" and site.loop < 0}
    loops = sorted({site.loop for site in every.values() if site.loop >= 0})
    words = [f"{len(chosen)} launch{'es' if len(chosen) != 1 else ''} covered"]
    words.append(f"{len(executed)} of {len(positions)} instructions of the protocol")
    if branches:
        words.append(f"both ways of {len(branches)} branch{'es' if len(branches) != 1 else ''}")
    for loop in loops:
        words.append(f"the loop at {loop_span(loop)} with 0 to {exploration.most(loop)} iterations")
    said = [f"{words[0]} {', '.join(words[1:])}"]
    never = sorted({span(position).line for position in positions - executed})
    if never:
        more = f" and {len(never) - _LINES_SHOWN} more" if len(never) > _LINES_SHOWN else ""
        lines = ", ".join(map(str, never[:_LINES_SHOWN]))
        said.append(f"no launch executes instructions of the protocol at line{'s' * (len(never) > 1)} {lines}{more}")
    if impossible:
        said.append(f"{impossible} way{'s' if impossible != 1 else ''} through the kernel shown to be impossible")
    return tuple(said)


def _times(count: int) -> str:
    return f"{count} value{'s were' if count != 1 else ' was'} tried" + (" at most" if count >= VALUES_MOST else "")


def _not(said: str, holds: bool) -> str:
    return said if holds else f"!{said}"
