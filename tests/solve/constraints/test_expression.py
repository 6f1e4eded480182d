"""Every reading of a drawn predicate against its plain evaluation, at every point of a small box."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.solve.predicates import drawn_costs, drawn_predicates

from tilewright.base.error import TilewrightError
from tilewright.solve.constraints.interval import NO, YES, bounds, certainty
from tilewright.solve.constraints.narrowing import clip, congruent, narrow, size
from tilewright.solve.constraints.tracing import evaluate, number, trace, trace_term

BOX = st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 4)), min_size=2, max_size=2)


def points(box):
    return list(product(*(range(low, low + width + 1) for low, width in box)))


@given(drawn_predicates(2), BOX)
def test_tree_and_intervals_of_conditions(holds, box):
    tree = trace(holds, 2)
    plain = [holds(*point) for point in points(box)]
    assert [evaluate(tree, point) for point in points(box)] == plain
    answer = certainty(tree)([low for low, _ in box], [low + width for low, width in box])
    if answer == YES:
        assert all(plain)
    if answer == NO:
        assert not any(plain)
    if len(plain) == 1:
        assert answer == (YES if plain[0] else NO)


@given(drawn_costs(2), BOX)
def test_tree_and_intervals_of_terms(value, box):
    tree = trace_term(value, 2)
    plain = [value(*point) for point in points(box)]
    assert [number(tree, point) for point in points(box)] == plain
    low, high = bounds(tree)([low for low, _ in box], [low + width for low, width in box])
    assert low <= min(plain) and max(plain) <= high


@given(st.integers(-40, 40), st.integers(-40, 40), st.integers(0, 9), st.integers(-9, 9), st.integers(0, 9))
def test_intervals_of_quotients_by_a_field(a, b, wide, c, other):
    for function in (lambda x, y: x // y, lambda x, y: x % y):
        low, high = bounds(trace_term(function, 2))([min(a, b), c], [min(a, b) + wide, c + other])
        for x in range(min(a, b), min(a, b) + wide + 1):
            for y in range(c, c + other + 1):
                if y:
                    assert low <= function(x, y) <= high


@given(
    drawn_predicates(2),
    st.integers(-5, 9),
    st.one_of(
        st.builds(
            lambda low, count, step: range(low, low + count * step, step), *map(st.integers, (-30, 1, 1), (9, 30, 7))
        ),
        st.sets(st.integers(-30, 30), min_size=1).map(lambda values: tuple(sorted(values))),
    ),
)
def test_narrowing_keeps_what_holds_and_exact_means_no_more(holds, other, domain):
    for fixed in ([None, other], [other, None]):
        kept, exact = narrow(trace(holds, 2), fixed, domain)
        true = [value for value in domain if holds(*(value if entry is None else entry for entry in fixed))]
        assert list(kept) == sorted(set(kept)) and set(kept) <= set(domain)
        assert set(true) <= set(kept)
        if exact:
            assert list(kept) == true


@given(
    st.integers(-9, 9),
    st.integers(1, 5),
    st.integers(0, 20),
    st.integers(-6, 6),
    st.integers(-9, 9),
    st.integers(1, 12),
)
def test_congruences_on_ranges(start, step, count, factor, offset, modulus):
    domain = range(start, start + count * step, step)
    assert list(congruent(domain, factor, offset, modulus)) == [
        x for x in domain if (factor * x + offset) % modulus == 0
    ]
    assert list(clip(domain, factor, offset)) == [x for x in domain if factor <= x <= offset]
    assert size(domain) == len(domain)


def test_ranges_beyond_machine_words():
    kept, exact = narrow(trace(lambda x: (x % 3**20 == 5) & (x > 2**70), 1), [None], range(0, 2**80))
    assert exact and kept[0] > 2**70 and kept[0] % 3**20 == 5 and kept[0] - 3**20 <= 2**70
    assert size(kept) > 0


def test_guards_and_negations():
    tree = trace(lambda x, y: ~(y != 0) | (x // y > 3), 2)
    assert evaluate(tree, (1, 0)) and evaluate(tree, (8, 2)) and not evaluate(tree, (1, 2))
    divided = trace(lambda x, y: x // y > 3, 2)
    negated = trace(lambda x, y: ~(x // y > 3), 2)
    assert not evaluate(divided, (1, 0)) and not evaluate(negated, (1, 0))
    assert narrow(divided, [None, 0], range(9)) == ((), True)
    assert certainty(tree)([0, 0], [9, 0]) == YES


@pytest.mark.parametrize(
    "holds", [lambda x: x > 1 and x < 3, lambda x: not x, lambda x: 1 if x else 0, lambda x: x, lambda x: "yes"]
)
def test_what_is_no_condition(holds):
    with pytest.raises(TilewrightError):
        trace(holds, 1)
