"""The search for readings: bounded, honest about it, and never larger boxes for stores."""

from __future__ import annotations

from math import prod

from hypothesis import given
from hypothesis import strategies as st

from tilewright.legal.plan.moves import Permute, Shift, Widen
from tilewright.legal.plan.reading import Reading
from tilewright.legal.plan.reading_search import OVERFETCH_MOST, first_fault, search
from tilewright.legal.tensor_map.map_limits import map_limits
from tilewright.targets import target

LIMITS = map_limits(target("sm_90a"))


@st.composite
def readings(draw: st.DrawFn) -> Reading:
    rank = draw(st.integers(1, 7))
    dims = tuple(draw(st.sampled_from((1, 2, 3, 8, 16))) for _ in range(rank))
    strides, reach = [0] * rank, 2
    for at in draw(st.permutations(range(rank))):
        strides[at] = reach
        reach *= dims[at]
    box = tuple(draw(st.sampled_from((1, extent))) for extent in dims)
    starts = tuple(0 if size == extent else size for size, extent in zip(box, dims, strict=True))
    return Reading(2, dims, tuple(strides), box, (1,) * rank, starts, draw(st.sampled_from((0, 2, 16))))


@given(readings(), st.booleans())
def test_chains_lead_to_readings_without_faults(reading: Reading, store: bool) -> None:
    found = search(reading, LIMITS, store=store)
    wanted = prod(reading.box) * reading.element_bytes
    for chain in found.chains:
        assert first_fault(chain.reading, LIMITS) is None
        replayed: Reading | None = reading
        for move in chain.moves:
            assert replayed is not None
            replayed = move.apply(replayed)
        assert replayed == chain.reading
        fetched = prod(chain.reading.box) * chain.reading.element_bytes * chain.copies
        assert fetched <= (wanted if store else OVERFETCH_MOST * wanted + 64)


def test_a_reading_without_faults_is_its_own_answer() -> None:
    legal = Reading(2, (64, 64), (2, 128), (64, 8), (1, 1), (0, 8), 0)
    found = search(legal, LIMITS)
    assert (found.chains[0].moves, found.chains[0].reading, found.complete) == ((), legal, True)


def test_what_is_ruled_out_is_not_used() -> None:
    huge = Reading(1, (2**33,), (1,), (256,), (1,), (256,), 0)
    assert all(
        not isinstance(move, Widen) for chain in search(huge, LIMITS, retype=False).chains for move in chain.moves
    )
    displaced = Reading(2, (64, 64), (2, 128), (64, 8), (1, 1), (0, 8), 2)
    assert any(isinstance(move, Shift) for chain in search(displaced, LIMITS).chains for move in chain.moves)
    assert search(displaced, LIMITS, moved=False).chains == ()
    turned = Reading(2, (64, 64), (128, 2), (64, 64), (1, 1), (0, 0), 0)
    assert any(isinstance(move, Permute) for chain in search(turned, LIMITS).chains for move in chain.moves)
    assert search(turned, LIMITS, rotate=False).chains == ()


def test_a_search_that_meets_its_bound_says_so() -> None:
    tangled = Reading(
        2, (2, 3, 5, 7, 2, 3, 5, 7, 11), (2, 5, 7, 11, 13, 17, 19, 23, 29), (1, 2, 3, 4, 1, 2, 3, 4, 5), (1,) * 9,
        (1, 2, 3, 4, 1, 2, 3, 4, 5), 2,
    )  # fmt: skip
    found = search(tangled, LIMITS)
    assert found.complete or not found.chains
