"""Boxes against enumeration of their points."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from tilewright.layout.numbers import boxes
from tilewright.layout.numbers.boxes import Box


def points(box: Box) -> set[tuple[int, ...]]:
    return set(product(*(range(low, high) for low, high in box)))


INTERVAL = st.tuples(st.integers(-3, 4), st.integers(1, 5)).map(lambda pair: (pair[0], pair[0] + pair[1]))


def box_of(rank: int) -> st.SearchStrategy[Box]:
    return st.tuples(*[INTERVAL] * rank)


PAIRS = st.integers(0, 3).flatmap(lambda rank: st.tuples(box_of(rank), box_of(rank)))


@given(PAIRS)
def test_intersection_and_difference(pair: tuple[Box, Box]) -> None:
    left, right = pair
    shared = boxes.intersection(left, right)
    assert (set() if shared is None else points(shared)) == points(left) & points(right)
    rest = boxes.without(left, right)
    assert sum(map(boxes.volume, rest)) == len(points(left) - points(right))
    assert set().union(*map(points, rest)) == points(left) - points(right)


@given(
    st.integers(0, 3).flatmap(lambda rank: st.tuples(box_of(rank), st.tuples(*[st.integers(-9, 9)] * rank))),
    st.integers(-5, 5),
    st.integers(-20, 20),
    st.integers(0, 20),
)
def test_where_a_form_lies_in_a_range(given: tuple[Box, tuple[int, ...]], offset: int, low: int, length: int) -> None:
    box, row = given
    found = boxes.where_between(box, row, offset, low, low + length, 1000)
    assert found is not None
    wanted = {
        point
        for point in points(box)
        if low <= offset + sum(a * b for a, b in zip(row, point, strict=True)) < low + length
    }
    assert sum(map(boxes.volume, found)) == len(wanted)
    assert set().union(*map(points, found)) == wanted


def test_digits_need_few_slices() -> None:
    box = ((0, 32), (0, 16), (0, 1000))
    found = boxes.where_between(box, (1, 32, 512), 0, 777, 300_001, 10)
    assert found is not None and len(found) <= 5
    assert sum(map(boxes.volume, found)) == 300_001 - 777


def test_more_than_the_budget_is_no_answer() -> None:
    assert boxes.where_between(((0, 1 << 40), (0, 1 << 40)), (1, 1), 0, 0, 1 << 39, 100) is None


@given(st.integers(0, 3).flatmap(lambda rank: st.lists(box_of(rank), max_size=5)))
def test_overlaps(given: list[Box]) -> None:
    met = boxes.overlapping(given)
    wanted = any(points(given[a]) & points(given[b]) for a in range(len(given)) for b in range(a + 1, len(given)))
    assert (met is not None) == wanted
    if met is not None:
        assert points(given[met[0]]) & points(given[met[1]]) and met[0] != met[1]
