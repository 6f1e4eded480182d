"""Cycles without a token, against an enumeration of all simple cycles of small graphs."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from tilewright.contract.typestate.cycles.marked_graph import Arc, Tokens, cycle_without_token
from tilewright.contract.typestate.cycles.symbolic_cycles import SymbolicArc, all_hold_tokens
from tilewright.contract.typestate.polynomial import Polynomial, variable

NODES = 4
LEVELS = 2
_tokens = st.tuples(*[st.one_of(st.none(), st.integers(-3, 3)) for _ in range(LEVELS)])
_arcs = st.lists(st.builds(Arc, st.integers(0, NODES - 1), st.integers(0, NODES - 1), _tokens), max_size=7, unique=True)


def simple_cycles(arcs: list[Arc]) -> Iterator[tuple[Arc, ...]]:
    def extended(path: tuple[Arc, ...]) -> Iterator[tuple[Arc, ...]]:
        if path[-1].after == path[0].before:
            yield path
            return
        for arc in arcs:
            if arc.before == path[-1].after and arc.after not in {each.after for each in path}:
                yield from extended((*path, arc))

    for arc in arcs:
        yield from extended((arc,))


def above_zero(cycle: tuple[Arc, ...]) -> bool:
    for level in range(LEVELS):
        numbers = [arc.tokens[level] for arc in cycle]
        known = [number for number in numbers if number is not None]
        if len(known) < len(numbers):
            return False
        if sum(known):
            return sum(known) > 0
    return False


@given(_arcs)
def test_a_cycle_is_found_exactly_where_there_is_one(arcs: list[Arc]) -> None:
    found = cycle_without_token(NODES, arcs)
    bad = [cycle for cycle in simple_cycles(arcs) if not above_zero(cycle)]
    assert bool(found) == bool(bad)
    if found:
        assert all(one.after == other.before for one, other in zip(found, (*found[1:], found[0]), strict=True))
        assert not above_zero(found)


def test_levels_are_compared_in_order() -> None:
    there, back = (1, -100), (0, 5)
    assert not cycle_without_token(2, [_arc(0, 1, there), _arc(1, 0, back)])
    assert cycle_without_token(2, [_arc(0, 1, (-1, 100)), _arc(1, 0, (1, -100))])
    assert not cycle_without_token(2, [_arc(0, 1, (-1, 100)), _arc(1, 0, (1, -99))])
    assert cycle_without_token(2, [_arc(0, 1, (0, None)), _arc(1, 0, (0, 9))])
    assert not cycle_without_token(2, [_arc(0, 1, (0, None)), _arc(1, 0, (1, 0))])
    assert not cycle_without_token(0, [])


def _arc(before: int, after: int, tokens: Tokens) -> Arc:
    return Arc(before, after, tokens)


# ---------------------------------------------------------------- tokens that depend on a symbol


_rests = st.builds(lambda slots, times: variable("K") * times + slots, st.integers(-2, 3), st.integers(-1, 2))
_symbolic = st.lists(
    st.builds(
        SymbolicArc,
        st.integers(0, NODES - 1),
        st.integers(0, NODES - 1),
        st.tuples(st.integers(-1, 1)),
        st.one_of(st.none(), _rests),
        st.sampled_from([(), (("K", 1),), (("K", 2),)]),
    ),
    max_size=7,
    unique=True,
)


@given(_symbolic)
def test_what_holds_for_a_symbol_holds_for_its_numbers(arcs: list[SymbolicArc]) -> None:
    if not all_hold_tokens(arcs):
        return
    for number in range(6):
        numbers = [
            Arc(arc.before, arc.after, (*arc.outer, None if arc.rest is None else arc.rest.at({"K": number})))
            for arc in arcs
            if number >= dict(arc.minima).get("K", 0)
        ]
        assert not cycle_without_token(NODES, numbers)


def test_a_cycle_may_hold_tokens_by_a_symbol() -> None:
    before = SymbolicArc(0, 1, (), variable("K") * -1 + 1, ())
    after = SymbolicArc(1, 0, (), variable("K"), ())
    assert all_hold_tokens([before, after])
    assert not all_hold_tokens([before, SymbolicArc(1, 0, (), variable("K") - 1, ())])
    assert not all_hold_tokens([before, after, SymbolicArc(0, 0, (), variable("K"), ())])
    assert all_hold_tokens([before, after, SymbolicArc(0, 0, (), variable("K"), (("K", 1),))])
    assert not all_hold_tokens([before, after, SymbolicArc(0, 1, (), None, ())])


@given(_symbolic)
def test_arcs_that_outer_levels_decide_are_left_out_of_none_that_matters(arcs: list[SymbolicArc]) -> None:
    cycles = simple_cycles([Arc(arc.before, arc.after, (number,)) for number, arc in enumerate(arcs)])
    below = False
    for cycle in cycles:
        listed = [arcs[each.tokens[0] or 0] for each in cycle]
        outer = sum(arc.outer[0] or 0 for arc in listed)
        rests = [arc.rest for arc in listed]
        minima = {"K": max(dict(arc.minima).get("K", 0) for arc in listed)}
        held = None not in rests and (sum(map(_known, rests), Polynomial()) - 1).is_never_negative(minima)
        below = below or outer < 0 or (outer == 0 and not held)
    assert all_hold_tokens(arcs) == (not below)


def _known(rest: Polynomial | None) -> Polynomial:
    assert rest is not None
    return rest


def test_cycles_that_an_outer_level_decides_are_not_counted() -> None:
    """Of twelve events that wait for each other in every order, in two of them only within one iteration."""
    count = 12
    arcs = [
        SymbolicArc(before, after, (1 if after <= before else 0,), variable("K") * -1, ())
        for before in range(count)
        for after in range(count)
        if {before, after} != {0, 1}
    ]
    within = [SymbolicArc(0, 1, (0,), variable("K") * -1, ()), SymbolicArc(1, 0, (0,), variable("K") + 1, ())]
    assert all_hold_tokens([*arcs, *within])
    assert not all_hold_tokens([*arcs, within[0], SymbolicArc(1, 0, (0,), variable("K"), ())])
