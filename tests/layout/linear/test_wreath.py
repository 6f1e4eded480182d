"""Permutations of blocks against permutations of all places."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.base.error import TilewrightError
from tilewright.layout.answer import NotExpressible
from tilewright.layout.linear.maps import LinearLayout, is_bijective, linear_layout
from tilewright.layout.linear.wreath import (
    Wreath,
    compose,
    depends_on_outer,
    identity,
    invert,
    outermost_moved,
    places,
    uniform,
    wreath_of,
    wreath_of_linear,
)

LEVELS = {"element": 3, "row": 2, "tile": 2}


@st.composite
def wreaths(draw: st.DrawFn) -> Wreath:
    outer, tables = 12, []
    for size in LEVELS.values():
        outer //= size
        tables.append(tuple(tuple(draw(st.permutations(range(size)))) for _ in range(outer)))
    return Wreath(tuple(LEVELS.items()), tuple(tables))


def _table(wreath: Wreath) -> list[int]:
    """By calling it at every place."""
    sizes = list(LEVELS.items())
    found: list[int] = []
    for tile, row, element in product(range(2), range(2), range(3)):
        image = wreath(element=element, row=row, tile=tile)
        assert list(image) == [name for name, _ in sizes]
        found.append(image["element"] + 3 * (image["row"] + 2 * image["tile"]))
    return found


@given(wreaths(), wreaths())
def test_it_is_a_group_of_permutations(first: Wreath, second: Wreath) -> None:
    table = places(first)
    assert table.tolist() == _table(first)
    assert sorted(table.tolist()) == list(range(12))
    assert np.array_equal(places(compose(first, second)), table[places(second)])
    assert compose(invert(first), first) == identity(LEVELS) == compose(first, invert(first))
    assert wreath_of(LEVELS, table) == first


def test_exactly_the_permutations_that_keep_blocks() -> None:
    """Of all permutations of 2 x 2 x 1 and 2 x 3 places: those in the wreath product are as many as its order says."""
    kept = [each for each in permutations(range(4)) if isinstance(wreath_of({"a": 2, "b": 2}, each), Wreath)]
    assert len(kept) == 2 * 2 * 2
    kept = [each for each in permutations(range(6)) if isinstance(wreath_of({"a": 3, "b": 2}, each), Wreath)]
    assert len(kept) == 6 * 6 * 2
    torn = wreath_of({"a": 2, "b": 2}, [0, 2, 1, 3])
    assert torn == NotExpressible("elements of one index 0 of level 'b' go to different ones")


@given(st.lists(st.integers(0, 15), min_size=4, max_size=4))
def test_linear_layouts_that_keep_blocks(columns: list[int]) -> None:
    layout = LinearLayout((("column", 2), ("row", 2)), (("column", 2), ("row", 2)), tuple(columns))
    found = wreath_of_linear(layout)
    inner_moves_outer = any(each >> 2 for each in columns[:2])
    assert isinstance(found, Wreath) == (is_bijective(layout) and not inner_moves_outer)
    if isinstance(found, Wreath):
        for row, column in product(range(4), range(4)):
            assert found(row=row, column=column) == layout(row=row, column=column)


def test_a_swizzle_moves_columns_as_rows_say() -> None:
    swizzle = linear_layout(
        {"chunk": [(1, 0), (2, 0), (4, 0)], "row": [(1, 1), (2, 2), (4, 4)]}, {"chunk": 8, "row": 8}
    )
    found = wreath_of_linear(swizzle)
    assert isinstance(found, Wreath)
    assert outermost_moved(found) == "chunk" and depends_on_outer(found) == ("chunk",)
    assert invert(found) == found
    assert outermost_moved(identity(LEVELS)) is None
    flipped = uniform(LEVELS, {"row": (1, 0)})
    assert outermost_moved(flipped) == "row" and depends_on_outer(flipped) == ()
    transpose = linear_layout({"a": [(0, 1)], "b": [(1, 0)]}, {"a": 2, "b": 2})
    assert isinstance(wreath_of_linear(transpose), NotExpressible)
    assert isinstance(wreath_of_linear(linear_layout({"a": [1]}, {"b": 2})), NotExpressible)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Wreath((("a", 2),), (((0, 0),),)), "permutes no 2"),
        (lambda: Wreath((("a", 2), ("b", 2)), (((0, 1),), ((0, 1),))), "not 2"),
        (lambda: Wreath((("a", 2), ("a", 2)), ()), "twice"),
        (lambda: Wreath((("a", 2),), ()), "1 levels"),
        (lambda: identity({"a": 0}), "positive"),
        (lambda: identity({"a": 1 << 40}), "at most"),
        (lambda: uniform({"a": 2}, {"b": (0, 1)}), "no levels"),
        (lambda: compose(identity({"a": 2}), identity({"b": 2})), "differ"),
        (lambda: identity({"a": 2})(a=2), "0 to 1"),
        (lambda: identity({"a": 2})(b=0), "levels are"),
        (lambda: wreath_of({"a": 2}, [0, 0]), "no permutation"),
    ],
)
def test_bad_input_is_told(make, message: str) -> None:
    with pytest.raises(TilewrightError, match=message):
        make()
