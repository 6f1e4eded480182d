"""How many bytes does a copy through each unknown tensor map transfer, if the kernel is right?

A phase of an mbarrier ends once the bytes it expects have arrived. So the bytes expected are an equation: the sum over
the phase's copies of what each transfers. One unknown in a phase is thereby known. Where two maps always share a phase,
the slots tell them apart: a copy can't be longer than the distance to the next place that something is copied to, and
buffers are mostly packed, so that distance is tried, and kept if all equations hold.

What is inferred is an assumption, and is stated as one; the kernel is then judged as if the maps had these boxes. A
phase whose equation contradicts the others is left to that judgement, which will refute it.
Not handled: maps none of whose copies signal an mbarrier (stores need no byte count).
Checked by: tests/driver/test_copied_bytes.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

Place = tuple[int, int]
"""A tensor map among the parameters: the parameter's number and an offset in it, in bytes."""

UNIT_BYTES = 16


@dataclass(frozen=True, slots=True)
class PhaseEquation:
    """One phase: the bytes it expects beyond those of known copies, and where each unknown copy writes (shared-memory
    offset), by its map."""

    expected_bytes: int
    copies: tuple[tuple[Place, int], ...]


def copied_bytes(equations: Sequence[PhaseEquation], landmarks: Sequence[int] = ()) -> dict[Place, int]:
    """Bytes a copy, by map, for every map that the equations decide. landmarks: offsets at which something else
    begins (mbarriers)."""
    counted = Counter((equation.expected_bytes, _counts(equation)) for equation in equations if equation.copies)
    phases = [key for key, _ in counted.most_common()]
    maps = sorted({place for _, counts in phases for place, _ in counts})
    gaps = _gaps(equations, landmarks)
    known: dict[Place, int] = {}
    while len(known) < len(maps):
        if _substitute(phases, known):
            continue
        open_maps = [place for place in maps if place not in known]
        chosen = next((place for place in open_maps if place in gaps and _fits(phases, known, gaps, place)), None)
        if chosen is None:
            break
        known[chosen] = gaps[chosen]
    return known


def _counts(equation: PhaseEquation) -> tuple[tuple[Place, int], ...]:
    return tuple(sorted(Counter(place for place, _ in equation.copies).items()))


_Phases = Sequence[tuple[int, tuple[tuple[Place, int], ...]]]


def _substitute(phases: _Phases, known: dict[Place, int]) -> bool:
    """Solve every phase with one unknown. Returns whether there was one."""
    for expected, counts in phases:
        left = [(place, count) for place, count in counts if place not in known]
        if len(left) != 1:
            continue
        place, count = left[0]
        rest = expected - sum(known[each] * times for each, times in counts if each in known)
        if rest > 0 and rest % (count * UNIT_BYTES) == 0:
            known[place] = rest // count
            return True
    return False


def _fits(phases: _Phases, known: Mapping[Place, int], gaps: Mapping[Place, int], place: Place) -> bool:
    """With every open map as long as its gap allows, or this one alone, do the phases it is in add up?"""
    trial = {**gaps, **known}
    mine = [(expected, counts) for expected, counts in phases if any(each == place for each, _ in counts)]
    return all(
        all(each in trial for each, _ in counts) and sum(trial[each] * times for each, times in counts) == expected
        for expected, counts in mine[:1]
    )


def _gaps(equations: Sequence[PhaseEquation], landmarks: Sequence[int]) -> dict[Place, int]:
    """For every map, the least distance from a place it is copied to, to the next place that is used."""
    starts = sorted({start for equation in equations for _, start in equation.copies} | set(landmarks))
    following = dict(pairwise(starts))
    gaps: dict[Place, int] = {}
    for equation in equations:
        for place, start in equation.copies:
            if start in following:
                gaps[place] = min(gaps.get(place, 1 << 30), following[start] - start)
    return gaps


def proportional(equations: Sequence[PhaseEquation], known: Mapping[Place, int]) -> dict[Place, int]:
    """Some lengths for maps that the equations leave open: equal shares of a phase. The sum is what matters to the
    phase; which map has how much is not known."""
    found = dict(known)
    for equation in equations:
        left = [place for place, _ in equation.copies if place not in found]
        rest = equation.expected_bytes - sum(found.get(place, 0) for place, _ in equation.copies)
        for index, place in enumerate(left):
            share = rest // (len(left) - index) // UNIT_BYTES * UNIT_BYTES
            found.setdefault(place, max(share, UNIT_BYTES))
            rest -= found[place]
    return found
