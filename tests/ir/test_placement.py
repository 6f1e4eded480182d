"""The lattice of placements: its laws, and what it says of who holds what, against enumeration."""

from __future__ import annotations

from collections.abc import Collection
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.ir.placement import (
    SPACES,
    Along,
    Digit,
    Held,
    Partial,
    Placement,
    Space,
    State,
    contributors,
    dealt,
    everywhere,
    exchanged,
    folded,
    joined,
    joined_state,
    parted,
    placed,
    sharing,
    unknown,
)
from tilewright.layout.linear.hierarchy import Hierarchy, Level, Mode

LENGTH = 4
"""Places, and elements along both axes."""
STATES: tuple[State, ...] = (
    *Held, Partial("add"), Partial("max"),
    *(Along(axis, 1, count) for axis in ("row", "column") for count in (LENGTH, 2)),
)  # fmt: skip
states = st.sampled_from(STATES)


def two_digits(space: Space, left: State, right: State) -> Placement:
    return Placement(space, (Digit("warp", LENGTH, left), Digit("cta", LENGTH, right)))


placements = st.builds(two_digits, st.sampled_from(SPACES), states, states)


def is_below(low: Placement, high: Placement) -> bool:
    return joined(low, high) == high


@given(placements, placements, placements)
def test_joins_are_least_upper_bounds(one: Placement, other: Placement, third: Placement) -> None:
    bound = joined(one, other)
    assert joined(one, one) == one and bound == joined(other, one)
    assert joined(bound, third) == joined(one, joined(other, third))
    assert is_below(one, bound) and is_below(other, bound)
    if is_below(one, third) and is_below(other, third):
        assert is_below(bound, third)


@given(placements, placements)
def test_what_is_made_of_a_placement_grows_with_it(one: Placement, other: Placement) -> None:
    bound = joined(one, other)
    for axis, function in (("row", "add"), ("column", "max")):
        low, high = folded(one, axis, function), folded(bound, axis, function)
        known = [own.state is not Held.SAME for own in one.digits]
        grown = [joined_state(a.state, b.state) == b.state for a, b in zip(low.digits, high.digits, strict=True)]
        # Of what all hold no fold makes contributions: who folds a slice that all hold alike folds it alone.
        assert all(grows for grows, counts in zip(grown, known, strict=True) if counts)


def test_ends_of_the_lattice() -> None:
    deal = dealt({"cta": [(2, "row", 8), (3, "column", 4)], "cluster": [(4, "row", 16)]})
    for axes in ((), ("row",), ("row", "column")):
        own = placed(deal, axes)
        assert joined(everywhere(deal), own) == own and joined(own, unknown(deal)) == unknown(deal)


def held(state: State, place: int) -> set[tuple[int, int]] | None:
    """What a place surely has of a value, of LENGTH x LENGTH elements; None of a contribution."""
    whole = set(product(range(LENGTH), repeat=2))
    match state:
        case Held.EVERYWHERE | Held.SAME:
            return whole
        case Along(axis, step, count):
            at = 0 if axis == "row" else 1
            return {each for each in whole if each[at] // step == place} if place < count else set()
        case Partial():
            return None
        case Held.ONE | Held.MIXED:
            return set()


@pytest.mark.parametrize("left", STATES)
@pytest.mark.parametrize("right", STATES)
def test_a_join_claims_nothing_that_one_side_lacks(left: State, right: State) -> None:
    for place in range(LENGTH):
        both, own = held(joined_state(left, right), place), (held(left, place), held(right, place))
        if both is None:
            assert Held.EVERYWHERE in (left, right) or left == right
        elif both:
            assert all(each is None or both <= each for each in own)
            assert None not in own or Held.EVERYWHERE in (left, right)


@st.composite
def deals(draw: st.DrawFn) -> Hierarchy:
    """Of slices that do not overlap: along an axis each digit goes past all that those before it reach."""
    step = {"row": draw(st.integers(1, 5)), "column": draw(st.integers(1, 5)), "sum": 1}
    digits: list[tuple[int, str, int]] = []
    for _ in range(draw(st.integers(0, 4))):
        extent, axis = draw(st.integers(1, 4)), draw(st.sampled_from(sorted(step)))
        digits.append((extent, axis, step[axis]))
        step[axis] *= extent
    cut = draw(st.integers(0, len(digits)))
    return dealt({"warp": digits[:cut], "cta": digits[cut:]})


def images(deal: Hierarchy, axes: Collection[str]) -> dict[int, frozenset[tuple[int, ...]]]:
    """By the number of each CTA, the elements of a value that its warps' slices begin at."""
    sizes = deal.input_sizes
    return {
        cta: frozenset(
            tuple(at for name, at in deal(warp=warp, cta=cta).items() if name in axes) for warp in range(sizes["warp"])
        )
        for cta in range(sizes["cta"])
    }


@given(deals(), st.sets(st.sampled_from(["row", "column", "sum"])))
def test_who_shares_a_slice(deal: Hierarchy, axes: set[str]) -> None:
    touched = images(deal, axes)
    groups = sharing(placed(deal, axes), "cta")
    assert sorted(each for group in groups for each in group) == list(touched)
    for one, other in product(touched, repeat=2):
        assert (touched[one] == touched[other]) == any({one, other} <= set(group) for group in groups)


@given(deals())
def test_who_contributes_to_a_sum(deal: Hierarchy) -> None:
    """Of a sum over an axis as many CTAs have a contribution to each element as touch it with different terms."""
    sums = folded(placed(deal, deal.output_sizes), "sum", "add")
    results, terms = images(deal, {"row", "column"}), images(deal, {"row", "column", "sum"})
    for cta, own in results.items():
        found = {terms[other] for other, theirs in results.items() if theirs == own}
        assert len(found) == contributors(sums, "cta"), cta
    whole = exchanged(sums, "cta", Held.SAME)
    assert contributors(whole, "cta") == 1 and contributors(whole, "warp") == contributors(sums, "warp")


def test_places_past_the_parts_of_a_sum_hold_nothing() -> None:
    sums = folded(placed(dealt({"cta": [(16, "k", 64)]}), {"row", "k"}), "k", "add")
    assert contributors(sums, "cta") == 16
    assert sharing(exchanged(sums, "cta", Along("column", 8, 3)), "cta") == ((0,), (1,), (2,))


@given(deals(), st.sets(st.sampled_from(["row", "column"])), st.integers(1, 3))
def test_parts_of_what_several_share(deal: Hierarchy, axes: set[str], size: int) -> None:
    """All parts together are the slice, and none is brought twice."""
    own = placed(deal, axes)
    (group, *_) = sharing(own, "cta")
    extent = size * len(group)
    brought = parted(own, "cta", "depth", extent)
    assert sharing(brought, "cta") == tuple((each,) for each in sorted(sum(sharing(own, "cta"), ())))
    digits = [each for each in brought.digits if each.level == "cta"]
    starts: list[int] = []
    for number in group:
        at = 0
        for digit in digits:
            number, value = divmod(number, digit.extent)
            at += value * digit.state.step if isinstance(digit.state, Along) and digit.state.axis == "depth" else 0
        starts.append(at)
    assert sorted(starts) == list(range(0, extent, size))


def test_a_digit_along_two_axes_is_unknown() -> None:
    deal = Hierarchy((Level("cta", (Mode(2, (4, 4)),)),), (("row", 8), ("column", 8)))
    assert placed(deal, {"row", "column"}).digits[0].state is Held.MIXED
    assert placed(deal, {"row"}).digits[0].state == Along("row", 4, 2)
