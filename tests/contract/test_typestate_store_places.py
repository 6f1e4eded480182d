"""Disjointness of stores, against enumeration of small programs."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import test as unknown_dialect

from tilewright.contract.store_places import overlap_reason
from tilewright.contract.summary import StorePlace
from tilewright.contract.token import UNIT, Index

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
@settings(max_examples=300, deadline=None)
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
