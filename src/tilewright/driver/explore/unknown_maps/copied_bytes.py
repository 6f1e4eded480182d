"""How many bytes does a copy through each unknown tensor map transfer, if the kernel is right?

A phase of an mbarrier ends once the bytes it expects have arrived. So the bytes expected are an equation: the sum over
the phase's copies of what each transfers. The equations of all phases are solved in multiples of 16 bytes, all of them
positive (exact elimination over fractions). The answer is a set of solutions:

- one, where the equations decide every map;
- several, where maps always share a phase. The slots are a hint then: a copy is hardly longer than the distance to the
  next place that something is copied to. If all copies as long as that make every sum right, that solution stands first
  (`packed`); else a few that the sums allow are listed, first those that no slot forbids;
- none, where two phases contradict each other. The most common phases are then solved, and the contradiction is named.

Every solution is an assumption about the launch, never a fact; whoever judges a kernel with them says so.
Not handled: maps none of whose copies signal an mbarrier (`store_extents` has a bound for those).
Checked by: tests/driver/explore/unknown_maps/test_copied_bytes.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import islice, pairwise, product
from operator import itemgetter

Place = tuple[str, int]
"""Where a tensor map stands: the name of a memory (a buffer, or the parameters' block) and an offset in bytes."""

UNIT_BYTES = 16
SOLUTIONS_KEPT = 4
_SUMS_KEPT = 64
"""So many different phases are solved, the most common ones first."""
_COMBINATIONS = 512
"""So many values of the maps that are open are looked at for solutions."""


@dataclass(frozen=True, slots=True)
class PhaseEquation:
    """One phase: the bytes it expects beyond those of known copies, and where each unknown copy writes (shared-memory
    offset), by its map."""

    expected_bytes: int
    copies: tuple[tuple[Place, int], ...]


@dataclass(frozen=True, slots=True)
class Sum:
    """What a phase says: so many copies through each map bring `bytes` together."""

    bytes: int
    counts: tuple[tuple[Place, int], ...]

    def of(self, boxes: Mapping[Place, int]) -> int:
        return sum(boxes[place] * count for place, count in self.counts)


@dataclass(frozen=True, slots=True)
class BoxSolutions:
    """Bytes a copy, by map.

    solutions: the likeliest first; empty where no map is in an equation. decided: maps that the equations decide;
    packed: maps that the slots decide. sums: what the equations say of the other maps; slots: the distance from where
    these are copied to, to what is copied next; inside: so many solutions, the first ones, have no box that is longer
    than its slot. contradiction: two sums that no boxes satisfy together, the first of which the solutions satisfy.
    """

    solutions: tuple[Mapping[Place, int], ...] = ()
    decided: frozenset[Place] = frozenset()
    packed: frozenset[Place] = frozenset()
    sums: tuple[Sum, ...] = ()
    slots: Mapping[Place, int] = field(default_factory=dict[Place, int])
    inside: int = 0
    contradiction: tuple[Sum, Sum] | None = None


def solve_boxes(equations: Sequence[PhaseEquation], landmarks: Iterable[int] = ()) -> BoxSolutions:
    """All boxes, or a spread of them, for the maps of some phases. landmarks: offsets at which something else begins
    (mbarriers, the sources of copies)."""
    found = Counter(_sum_of(equation) for equation in equations if equation.copies and equation.expected_bytes > 0)
    ordered = [each for each, _ in found.most_common(_SUMS_KEPT)]
    gaps = _gaps(equations, landmarks)
    solved, contradiction = _solve_all(ordered, gaps)
    if contradiction is None:
        return solved
    # What the odd phase asks for, and the others as far as they go along with it.
    other, _ = _solve_all([contradiction[1], *ordered], gaps)
    solutions = tuple({**solved.solutions[0], **each} for each in other.solutions[:1]) if solved.solutions else ()
    kept = [each for each in solutions if each not in solved.solutions]
    return replace(solved, solutions=(*solved.solutions, *kept), contradiction=contradiction)


def _solve_all(ordered: list[Sum], gaps: Mapping[Place, int]) -> tuple[BoxSolutions, tuple[Sum, Sum] | None]:
    """The solutions of as many sums as hold together, the first ones first, and two that don't."""
    sums, contradiction = _consistent(ordered)
    parts = [_solve(part, gaps) for part in _parts(sums)]
    count = min(SOLUTIONS_KEPT, max((len(part.solutions) for part in parts), default=0))
    if contradiction is None:
        contradiction = next((part.contradiction for part in parts if part.contradiction is not None), None)
    solutions = tuple(
        {
            place: box
            for part in parts
            if part.solutions
            for place, box in part.solutions[min(number, len(part.solutions) - 1)].items()
        }
        for number in range(count)
    )
    solved = BoxSolutions(
        solutions,
        frozenset[Place]().union(*(part.decided for part in parts)),
        frozenset[Place]().union(*(part.packed for part in parts)),
        tuple(each for part in parts for each in part.sums),
        gaps,
        sum(_inside(boxes, gaps) for boxes in solutions),
    )
    return solved, contradiction


def _sum_of(equation: PhaseEquation) -> Sum:
    return Sum(equation.expected_bytes, tuple(sorted(Counter(place for place, _ in equation.copies).items())))


# ---------------------------------------------------------------- elimination

_Row = tuple[dict[Place, Fraction], Fraction]
"""Factors of maps, and what they add up to."""


def _consistent(sums: list[Sum]) -> tuple[list[Sum], tuple[Sum, Sum] | None]:
    """The sums that can hold together, the first ones first, and a pair that can't."""
    kept: list[Sum] = []
    contradiction: tuple[Sum, Sum] | None = None
    for each in sums:
        rows = _reduced([*kept, each])
        if rows is not None and all(_legal(total) for factors, total in rows.values() if len(factors) == 1):
            kept.append(each)
        elif contradiction is None:
            places = {place for place, _ in each.counts}
            rival = next((other for other in kept if places & {place for place, _ in other.counts}), each)
            contradiction = rival, each
    return kept, contradiction


def _legal(box: Fraction) -> bool:
    return box > 0 and box.denominator == 1 and int(box) % UNIT_BYTES == 0


def _reduced(sums: Sequence[Sum]) -> dict[Place, _Row] | None:
    """The reduced echelon form, by leading map; None if the sums contradict each other."""
    rows: dict[Place, _Row] = {}
    for each in sums:
        factors = {place: Fraction(count) for place, count in each.counts}
        total = Fraction(each.bytes)
        for place in [place for place in factors if place in rows]:
            factors, total = _minus((factors, total), rows[place], factors.get(place, Fraction(0)))
        if not factors:
            if total:
                return None
            continue
        lead = min(factors)
        scale = factors[lead]
        row = {place: factor / scale for place, factor in factors.items()}, total / scale
        for place, other in rows.items():
            if lead in other[0]:
                rows[place] = _minus(other, row, other[0][lead])
        rows[lead] = row
    return rows


def _minus(one: _Row, other: _Row, times: Fraction) -> _Row:
    factors = dict(one[0])
    for place, factor in other[0].items():
        rest = factors.get(place, Fraction(0)) - times * factor
        if rest:
            factors[place] = rest
        else:
            factors.pop(place, None)
    return factors, one[1] - times * other[1]


# ---------------------------------------------------------------- solutions


def _parts(sums: Sequence[Sum]) -> list[list[Sum]]:
    """Sums that share maps, together."""
    parts: list[tuple[set[Place], list[Sum]]] = []
    for each in sums:
        places = {place for place, _ in each.counts}
        members = [each]
        apart: list[tuple[set[Place], list[Sum]]] = []
        for others, held in parts:
            if others & places:
                places |= others
                members = [*held, *members]
            else:
                apart.append((others, held))
        parts = [*apart, (places, members)]
    return [members for _, members in parts]


def _solve(sums: list[Sum], gaps: Mapping[Place, int]) -> BoxSolutions:
    """The solutions of sums that share maps."""
    rows = _reduced(sums)
    assert rows is not None, "the sums were found to hold together"
    places = sorted({place for each in sums for place, _ in each.counts})
    free = [place for place in places if place not in rows]
    decided = frozenset(place for place, (factors, _) in rows.items() if len(factors) == 1)
    if not free:
        return BoxSolutions(({place: int(rows[place][1]) for place in places},), decided)
    if all(place in gaps for place in places) and all(each.of(gaps) == each.bytes for each in sums):
        packed = {place: gaps[place] for place in places}
        others = _spread(rows, free, sums, gaps, packed)
        return BoxSolutions((packed, *others), decided, frozenset(places) - decided)
    solutions = _spread(rows, free, sums, gaps, None)
    if not solutions:
        return BoxSolutions(contradiction=(sums[0], sums[-1]))
    open_sums = tuple(each for each in sums if any(place not in decided for place, _ in each.counts))
    if len(solutions) == 1 and _only(rows, free, sums):
        return BoxSolutions(solutions, frozenset(places))
    return BoxSolutions(solutions, decided, sums=open_sums)


def _spread(
    rows: Mapping[Place, _Row],
    free: list[Place],
    sums: list[Sum],
    gaps: Mapping[Place, int],
    but: Mapping[Place, int] | None,
) -> tuple[Mapping[Place, int], ...]:
    """A few solutions that differ: those that no slot forbids first. but: a solution to leave out."""
    most = {place: _most(place, sums) for place in free}
    marks: list[list[int]] = []
    for place in free:
        shares = [each.bytes // sum(count for _, count in each.counts) for each in sums if place in dict(each.counts)]
        wanted = [
            gaps.get(place, 0),
            *shares,
            UNIT_BYTES,
            most[place],
            *(most[place] * k // 8 for k in (2, 4, 6, 1, 7)),
        ]
        marks.append([box for box in dict.fromkeys(each // UNIT_BYTES * UNIT_BYTES for each in wanted) if box > 0])
    found = _those_that_hold(rows, free, marks)
    if len(found) < SOLUTIONS_KEPT:
        every = [list(range(UNIT_BYTES, most[place] + 1, UNIT_BYTES)) for place in free]
        hold = _those_that_hold(rows, free, every)
        found += [each for each in hold[:: max(1, len(hold) // SOLUTIONS_KEPT)] if each not in found]
    found = [each for each in found if each != but]
    found.sort(key=lambda each: not _inside(each, gaps))
    return tuple(found[: SOLUTIONS_KEPT - (but is not None)])


def _inside(boxes: Mapping[Place, int], gaps: Mapping[Place, int]) -> bool:
    """Is no box longer than its slot?"""
    return all(box <= gaps.get(place, box) for place, box in boxes.items())


def _most(place: Place, sums: Sequence[Sum]) -> int:
    """The most that a box can have, if every other copy of its phases brings 16 bytes."""
    bounds: list[int] = []
    for each in sums:
        counts = dict(each.counts)
        if place in counts:
            rest = each.bytes - UNIT_BYTES * (sum(counts.values()) - counts[place])
            bounds.append(rest // counts[place] // UNIT_BYTES * UNIT_BYTES)
    return min(bounds)


def _those_that_hold(
    rows: Mapping[Place, _Row], free: list[Place], marks: list[list[int]]
) -> list[Mapping[Place, int]]:
    found: list[Mapping[Place, int]] = []
    for chosen in islice(product(*marks), _COMBINATIONS):
        boxes = dict(zip(free, chosen, strict=True))
        for place, (factors, total) in rows.items():
            box = total - sum(factor * boxes[each] for each, factor in factors.items() if each != place)
            if not _legal(box):
                break
            boxes[place] = int(box)
        else:
            found.append(boxes)
    return found


def _only(rows: Mapping[Place, _Row], free: list[Place], sums: Sequence[Sum]) -> bool:
    """Is there one solution alone? Asked of small sums, where all values of the open maps can be tried."""
    ranges = [list(range(UNIT_BYTES, _most(place, sums) + 1, UNIT_BYTES)) for place in free]
    count = 1
    for each in ranges:
        count *= len(each)
    return count <= _COMBINATIONS and len(_those_that_hold(rows, free, ranges)) == 1


def _gaps(equations: Sequence[PhaseEquation], landmarks: Iterable[int]) -> dict[Place, int]:
    """For every map, the least distance from a place it is copied to, to the next place that is used."""
    starts = sorted({start for equation in equations for _, start in equation.copies} | set(landmarks))
    following = dict(pairwise(starts))
    gaps: dict[Place, int] = {}
    for equation in equations:
        for place, start in equation.copies:
            if start in following:
                gaps[place] = min(gaps.get(place, 1 << 30), following[start] - start)
    return gaps


@dataclass(frozen=True, slots=True, order=True)
class StoreExtent:
    """What a copy out of shared memory reads at most. which: what ends these bytes, in words that follow "64 bytes"."""

    bytes: int
    which: str


def store_extents(
    stores: Iterable[tuple[Place, int]], landmarks: Iterable[int], written: Sequence[tuple[int, int]], shared_bytes: int
) -> dict[Place, StoreExtent]:
    """What a copy out of shared memory reads at most, by map: from its first byte to the next one that another copy or
    an mbarrier begins at, and no further than what was written without a gap. stores: the map and the offset of each
    copy; written: bytes of shared memory that were written, sorted and disjoint; shared_bytes: how many there are."""
    copies = list(stores)
    starts = sorted({start for _, start in copies} | set(landmarks))
    found: dict[Place, StoreExtent] = {}
    for place, start in copies:
        ends = [(end, "that threads write where it is stored from") for begin, end in written if begin <= start < end]
        ends += [(each, "before the next copy or mbarrier") for each in starts if each > start]
        ends.append((max(shared_bytes, start), "before the end of shared memory"))
        end, which = min(ends, key=itemgetter(0))
        extent = StoreExtent(max(UNIT_BYTES, (end - start) // UNIT_BYTES * UNIT_BYTES), which)
        found[place] = min(found.get(place, extent), extent)
    return found
