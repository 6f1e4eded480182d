"""Disjointness of stores, against enumeration of small programs."""

from __future__ import annotations

from itertools import product
from math import prod
from operator import mul

from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects import test as unknown_dialect

from tilewright.contract.typestate.places.store_places import may_alias, may_wrap, overlap_reason
from tilewright.contract.typestate.summary import StorePlace
from tilewright.contract.typestate.token import UNIT, Index

ATOMS = ("m", "n", UNIT)
LOOPS = frozenset({"m", "n"})
indices = st.dictionaries(st.sampled_from(ATOMS), st.integers(1, 8), max_size=2)


def places_touched_once(places: list[StorePlace], units: int, tiles: int = 4) -> bool:
    touched: set[tuple[int, ...]] = set()
    for m, n, unit in product(range(tiles), range(tiles), range(units)):
        atoms = {"m": m, "n": n, UNIT: unit}
        for place in places:
            begins = [
                index.constant + sum(factor * atoms[atom] for atom, factor in index.terms) for index in place.origin
            ]
            box = [range(begin, begin + extent) for begin, extent in zip(begins, place.extents, strict=True)]
            for element in product(*box):
                if element in touched:
                    return False
                touched.add(element)
    return True


@given(
    dimensions=st.tuples(indices, indices),
    sites=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=2),
    extents=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    units=st.integers(1, 2),
)
def test_no_reason_means_no_element_twice(
    dimensions: tuple[dict[str, int], dict[str, int]],
    sites: list[tuple[int, int]],
    extents: tuple[int, int],
    units: int,
) -> None:
    op = unknown_dialect.TestOp()
    places = [
        StorePlace(
            op,
            "C",
            tuple(
                Index(tuple(sorted(terms.items())), constant) for terms, constant in zip(dimensions, site, strict=True)
            ),
            extents,
            ("m", "n"),
        )
        for site in sites
    ]
    if not overlap_reason(places, {UNIT: units}, LOOPS):
        assert places_touched_once(places, units)


def test_the_usual_tiling_is_disjoint() -> None:
    op = unknown_dialect.TestOp()
    row = Index((("m", 128), (UNIT, 64)))
    places = [StorePlace(op, "C", (row, Index((("n", 128),), chunk)), (64, 64), ("m", "n")) for chunk in (0, 64)]
    assert overlap_reason(places, {UNIT: 2}, LOOPS) == ""
    assert "unit" in overlap_reason(places, {UNIT: 3}, LOOPS) or "m" in overlap_reason(places, {UNIT: 3}, LOOPS)
    assert "two boxes" in overlap_reason([places[0], places[0]], {UNIT: 2}, LOOPS)


def test_strides_that_alias_against_enumeration() -> None:
    """Whatever is called free of aliases is; rows in order, padded or not, are called so."""
    proven = 0
    for extents in product(range(1, 4), repeat=3):
        for strides in product((-4, -1, 0, 1, 2, 3, 6, 9), repeat=3):
            places = {sum(map(mul, index, strides)) for index in product(*map(range, extents))}
            if not may_alias(extents, strides):
                assert len(places) == prod(extents)
                proven += 1
    assert proven > 1000
    assert not may_alias((33, 45), (45, 1)) and not may_alias((45, 33), (1, 48)) and not may_alias((3, 1), (1, 0))
    assert may_alias((33, 45), (44, 1)) and may_alias((2, 3), (0, 1))


def test_rows_of_one_array_stored_with_two_strides() -> None:
    op = unknown_dialect.TestOp.create()
    origins = [(Index((("m", 64),)), Index((("n", 128),), chunk)) for chunk in (0, 64)]
    strides = ((256, 2), (128, 2))
    for second, reason in ((strides[0], ""), (strides[1], "its stores see it with different strides")):
        places = [
            StorePlace(op, "C", origin, (64, 64), ("m", "n"), stride)
            for origin, stride in zip(origins, (strides[0], second), strict=True)
        ]
        assert overlap_reason(places, {UNIT: 1}, LOOPS) == reason


def test_an_index_of_which_nothing_is_known_may_pass_32_bits() -> None:
    """It was once taken for one of two values: 2**30 times it, from 0 to 4, are two that are one in 32 bits."""
    place = StorePlace(unknown_dialect.TestOp(), "C", (Index((("quotient", 1 << 30),)),), (1,), ())
    assert may_wrap(place, {})
    assert may_wrap(place, {"quotient": 5})
    assert not may_wrap(place, {"quotient": 2})
