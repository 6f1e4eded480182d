"""Do loops whose numbers of iterations were related in every launch always iterate so?

A producer that counts its tiles by one expression and a consumer that counts them by another agree in the launches that
were made; whether they agree in all is a question about the two expressions. Launches with large counts are not run to
their end, so no run answers it. Where the difference of two loops' iterations was the same in all launches, though the
numbers themselves were not, the difference of what bounds them must be the same for all inputs: they are one
expression, or a solver shows it, or a launch is made in which they differ. Of two counters of which one counts down, it
is the sum. The same is asked of all relations with small factors of two and of three numbers: of a loop that is
unrolled and the one that does the rest, or of a loop that does what a loop and one inside it do (a product). A loop
that is unrolled may count in strides; that its bound is a whole number of them, but for a constant, is asked as well.
Where launches did not come to one of three loops, the same is asked of the other two.

A loop is looked at as each warp walks it (`walked_loops`), in later visits as well where another expression bounds it
there. Where a launch says by how much counters move, it must say the same of both loops.

Not handled: other relations of numbers of iterations.
Checked by: tests/driver/explore/gaps/test_unequal_loops.py.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, permutations
from math import prod

import numpy as np
import numpy.typing as npt

from tilewright.base.span import Span
from tilewright.driver.explore.gaps.missing import Missing, cut
from tilewright.driver.explore.gaps.walked_loops import Visit, Visits, Walk, classes_of, first_visits
from tilewright.driver.explore.search.exploration import Exploration, Tried, place_of
from tilewright.driver.explore.search.path_search import label
from tilewright.driver.explore.search.reachable import Impossible, Reached, Undecided, reach_apart
from tilewright.machine.symbolic.expression import CannotEvaluate, Evaluation, Input, Node, rendered
from tilewright.machine.symbolic.tracker import Condition

_FACTOR_MOST = 16
_STRIDES = frozenset({2, 4, 8, 16})
"""Of loops that are unrolled: by how much their counter moves in an iteration."""
_POINTS = 4
"""Different numbers of iterations that must show a relation other than a difference."""
_COUNTS_MOST = 24
"""Numbers of which three at a time are compared; of more, it stays open whether they have a relation."""


def unequal_loops(
    exploration: Exploration, launches: Sequence[tuple[Tried, Visits]], name: Callable[[Input], str],
    loop_span: Callable[[int], Span],
) -> list[Missing]:  # fmt: skip
    """Loops that are not shown to keep the relation that their numbers of iterations always had."""
    chosen, visits = [tried for tried, _ in launches], [each for _, each in launches]
    bounds = [ended(each) for each in visits]
    walks = [*classes_of(visits)]
    blocks = [each.blocks for each in exploration.ways.flow.loops]
    counts: list[_Count] = [(walk,) for walk in walks]
    counts += [(one, other) for one, other in permutations(walks, 2) if blocks[other[0]] < blocks[one[0]]]
    found: list[Missing] = []
    related: set[_Count] = set()
    for size in (2, 3):
        left = counts if size == 2 else [each for each in counts if each not in related]
        if size == 3 and len(left) > _COUNTS_MOST:
            said = f"{len(left)} loops are not related two by two, and no three of more than {_COUNTS_MOST} compared"
            return [*found, Missing(-1, said, ("unequal", "many"), Undecided)]
        for some in combinations(left, size):
            rows = _rows(bounds, some)
            factors = _factors([tuple(map(_iterations, row)) for _, row in rows], some, rows)
            if factors is None:
                continue
            related.update(some[1:] if size == 2 else ())
            spans = [loop_span(walk[0]) for walk, *_ in some]
            found += _kept(exploration, chosen, rows, factors, name, spans)
            found += _kept_later(exploration, chosen, visits, some, factors, name, spans)
            for place in range(size if size == 3 else 0):
                rest, those = _without(bounds, some, place), [*range(place), *range(place + 1, size)]
                if rest:
                    way = _passed(exploration, chosen[rest[0][0]], rows, place)
                    left_factors, left_spans = [factors[each] for each in those], [spans[each] for each in those]
                    found += _kept(exploration, chosen, rest, left_factors, name, left_spans, way)
    return found


def ended(launch: Visits) -> dict[Walk, Visit]:
    """The first visits of a launch that ended."""
    return {walk: visit for walk, visit in first_visits(launch).items() if visit.leaves is not None}


def is_related(bounds: Sequence[Mapping[Walk, Visit]], one: Walk, other: Walk) -> bool:
    """Whether two loops' numbers of iterations had a fixed relation in all launches, which is asked about here. bounds:
    of each launch."""
    counts: list[_Count] = [(one,), (other,)]
    rows = _rows(bounds, counts)
    return _factors([tuple(map(_iterations, row)) for _, row in rows], counts, rows) is not None


_Count = tuple[Walk, ...]
"""A loop, or one and another inside it: how often that one iterates in all."""
_Rows = Sequence[tuple[int, tuple[tuple[Visit, ...], ...]]]
"""The launches in which the loops of some counts were left, by number, with their bounds."""


def _rows(bounds: Sequence[Mapping[Walk, Visit]], counts: Sequence[_Count]) -> _Rows:
    return [
        (index, tuple(tuple(each[walk] for walk in count) for count in counts))
        for index, each in enumerate(bounds)
        if all(walk in each for count in counts for walk in count)
    ]


def _without(bounds: Sequence[Mapping[Walk, Visit]], counts: Sequence[_Count], place: int) -> _Rows:
    """The launches in which the loops of all counts but one were left, and that one was not come to."""
    others = [*counts[:place], *counts[place + 1 :]]
    return [(index, row) for index, row in _rows(bounds, others) if bounds[index].keys().isdisjoint(counts[place])]


def _passed(exploration: Exploration, tried: Tried, rows: _Rows, place: int) -> tuple[Condition, ...] | None:
    """By what a launch did not come to a loop that others came to: the first decision on their way that it took
    otherwise. None where there is none."""
    for _, row in rows:
        for bound in row[place]:
            for needed in exploration.ways.needed(bound.before, bound.position):
                for each in tried.judged.conditions:
                    same = place_of(each) == place_of(needed) and each.node is needed.node
                    if same and each.outcome.size == 1 and label(each.outcome) != label(needed.outcome):
                        return (each,)
    return None


def _iterations(bounds: Sequence[Visit]) -> int:
    return prod(each.iterations for each in bounds)


def _factors(points: Sequence[tuple[int, ...]], counts: Sequence[_Count], rows: _Rows) -> tuple[int, ...] | None:
    """Small factors of two or three counts, with which their sum was the same in all launches, though the counts were
    not and no fewer of them say so."""
    known = np.array(sorted(set(points)), np.int64).reshape(-1, len(counts))
    moves = known[1:] - known[:1]
    factors = _normal(moves)
    if factors is None or (moves @ factors).any():
        return None
    found = tuple(int(each) for each in factors)
    plain = found == (1, -1)
    if len(known) < (2 if plain else _POINTS) or max(map(abs, found)) > _FACTOR_MOST or min(found) > 0:
        return None
    inside = [place for place, count in enumerate(counts) if len(count) > 1]
    shown = all(any(min(each.iterations for each in row[place]) > 1 for _, row in rows) for place in inside)
    return found if shown else None


def _normal(moves: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
    """What is normal to all moves, if they lie in a line or a plane and no coordinate is without a part in it: in whole
    numbers, the first one positive."""
    first = next((each for each in moves if each.any()), None)
    if first is None:
        return None
    if len(first) == 2:
        normal = np.array([first[1], -first[0]], np.int64)
    else:
        across = (np.cross(first, each) for each in moves)
        normal = next((each for each in across if each.any()), np.zeros(3, np.int64))
    if not normal.all():
        return None
    return normal // np.gcd.reduce(normal) * (1 if normal[0] > 0 else -1)


def _kept(
    exploration: Exploration, chosen: Sequence[Tried], rows: _Rows, factors: Sequence[int],
    name: Callable[[Input], str], places: Sequence[Span], way: tuple[Condition, ...] | None = (),
) -> list[Missing]:  # fmt: skip
    """The questions whether the bounds of loops always have the relation that their iterations had: one for each set of
    expressions. way: where only that is asked about; None where it cannot be."""
    found: list[Missing] = []
    asked: set[tuple[tuple[int, ...], bool]] = set()
    plain = tuple(factors) == (1, -1)
    how = "as often as the one" if plain else "in a fixed relation to those"
    for _, row in sorted(rows, key=lambda each: -_iterations(each[1][0])):
        nodes = [tuple(each.bound for each in count) for count in row]
        steps = [each.step for count in row for each in count if each.step is not None]
        numbers = tuple(each.number for count in nodes for each in count)
        stepped = any(step is not steps[0] for step in steps)
        if (numbers, stepped) in asked or (plain and nodes[0] == nodes[1] and not stepped):
            continue
        asked.add((numbers, stepped))
        alike = [
            (chosen[at], tuple(map(_iterations, other)))
            for at, other in rows
            if [tuple(each.bound for each in count) for count in other] == nodes
        ]
        relations = _relations(exploration, alike, nodes, factors)
        if stepped:
            # Where a launch says by how much counters move, too, it must say the same of both.
            moved = _relations(exploration, alike, [(each,) for each in steps], factors) if plain else []
            same = len(steps) == len(nodes) and moved and not any(usual for _, usual in moved)
            relations = [*relations, *moved] if same and relations else []
        expressions = " and ".join(cut(rendered(each, name)) for count in nodes for each in count)
        said = (
            f"{places[0]}: the loop iterated {how} at {' and '.join(map(str, places[1:]))} in every launch tried, "
            f"and it is not shown that {expressions} always go together"
        )
        bounds = [each for count in row for each in count]
        ask = Undecided if way is None or not relations else _asked(exploration, bounds, relations, way)
        passed = tuple((each.node.number, label(each.outcome)) for each in way or ())
        found.append(Missing(-1, said, ("unequal", *places, *factors, *numbers, *passed), ask))
    return found


def _kept_later(
    exploration: Exploration, chosen: Sequence[Tried], visits: Sequence[Visits], counts: Sequence[_Count],
    factors: Sequence[int], name: Callable[[Input], str], places: Sequence[Span],
) -> list[Missing]:  # fmt: skip
    """The same of later visits, of loops that a warp comes to again with another bound than before: two loops whose
    visits go together must do so in each of them."""
    walks = [walk for count in counts for walk in count]
    found: dict[tuple[object, ...], Missing] = {}
    for index, launch in enumerate(visits):
        own = [launch.get(walk, {}) for walk in walks]
        for number in sorted(set[int]().union(*own)):
            here = [each[number] for each in own if number in each and each[number].leaves is not None]
            again = [visit for each in own if (visit := each.get(number)) and visit.bound is not each[min(each)].bound]
            if not again or (len(here) == len(own) and len({each.bound for each in here}) == 1):
                continue
            key = ("unequal", "later", *walks, *(each.bound.number for each in (*here, *again)))
            if key in found:
                continue
            rows = [(index, tuple((each,) for each in here))]
            whole = len(here) == len(own) == len(factors) and not any(len(count) > 1 for count in counts)
            gaps = _kept(exploration, chosen, rows, factors, name, places) if whole else []
            ask = gaps[0].ask if gaps else Undecided
            said = (
                f"{places[0]}: the loop iterated in a fixed relation to those at {' and '.join(map(str, places[1:]))}, "
                f"which is not shown where a warp comes to it again: {cut(rendered(again[0].bound, name))} bounds it"
            )
            found[key] = Missing(-1, said, key, ask)
    return list(found.values())


def _asked(
    exploration: Exploration, row: Sequence[Visit], relations: Sequence[_Relation], way: tuple[Condition, ...]
) -> Callable[[], Reached | Impossible | Undecided]:
    # How often loops iterated before is not needed: in other launches they iterate otherwise.
    before = tuple(
        needed for bound in row for needed in exploration.ways.needed(bound.before, bound.position) if needed.loop < 0
    )
    # Which loops are entered together, launches have shown (`joint_decisions`).
    before = (*before, *way, *(each for bound in row for each in bound.entered))

    def ask() -> Reached | Impossible | Undecided:
        for parts, usual in relations:
            found = reach_apart(
                exploration.table, exploration.dimensions, parts, usual, before, tuple(exploration.barred)
            )
            if not isinstance(found, Impossible):
                return found
        return Impossible()

    return ask


_Relation = tuple[Sequence[tuple[int, Sequence[Node]]], int]
"""A sum of products, each times a factor, modulo their width, and what it is."""


def _relations(
    exploration: Exploration,
    launches: Sequence[tuple[Tried, tuple[int, ...]]],
    counts: Sequence[Sequence[Node]],
    factors: Sequence[int],
) -> list[_Relation]:
    """A sum of expressions, times the factors or their opposites, that is the same in all launches; and of each loop
    that goes in larger strides, that they come out: the rest of its bound is the same, too. The sum of the factors
    themselves where there is no such sum: then it differs already. Nothing where none can be asked about. launches:
    with the numbers of iterations of each count."""
    columns = {
        given: np.array([each.values.get(given, dimension.first) for each, _ in launches], np.uint64)
        for given, dimension in exploration.dimensions.items()
    }
    try:
        evaluation = Evaluation(exploration.table, columns, len(launches))
        values = [[evaluation.of(node) for node in nodes] for nodes in counts]
    except CannotEvaluate:
        return []
    kinds = {each.dtype for some in values for each in some}
    if len(kinds) != 1 or values[0][0].dtype.kind != "u":
        return []
    modulus = 1 << 8 * values[0][0].dtype.itemsize
    products = [[prod(int(each[at]) for each in some) for at in range(len(launches))] for some in values]
    strides = [
        _stride(of, [iterations[place] for _, iterations in launches], modulus) if len(nodes) == 1 else 1
        for place, (of, nodes) in enumerate(zip(products, counts, strict=True))
    ]
    if all(not factor % stride for factor, stride in zip(factors, strides, strict=True)):
        factors = [factor // stride for factor, stride in zip(factors, strides, strict=True)]
    else:
        strides = [1] * len(counts)
    sums: list[tuple[tuple[int, ...], set[int]]] = []
    for signs in itertools.product((1, -1), repeat=len(counts) - 1):
        signed = tuple(sign * factor for sign, factor in zip((1, *signs), factors, strict=True))
        totals = (sum(map(operator.mul, signed, some)) % modulus for some in zip(*products, strict=True))
        sums.append((signed, set(totals)))
    signed, totals = next((each for each in sums if len(each[1]) == 1), sums[0])
    found: list[_Relation] = [(tuple(zip(signed, counts, strict=True)), min(totals))]
    for stride, nodes, of in zip(strides, counts, products, strict=True):
        if stride > 1:
            rest = modulus // stride
            found.append((((rest, nodes),), of[0] * rest % modulus))
    return found


def _stride(bounds: Sequence[int], iterations: Sequence[int], modulus: int) -> int:
    """By how much a bound differs for each iteration that a loop has more: a power of two, 1 where none is seen."""
    moves = {
        ((bound - bounds[0] + modulus // 2) % modulus - modulus // 2, count - iterations[0])
        for bound, count in zip(bounds, iterations, strict=True)
    }
    strides = {Fraction(abs(bound), abs(count)) for bound, count in moves if count}
    stride = strides.pop() if len(strides) == 1 else Fraction(1)
    whole = stride.numerator if stride.denominator == 1 else 1
    return whole if whole in _STRIDES else 1
