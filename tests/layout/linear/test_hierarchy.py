"""Hierarchies against enumeration of their places."""

from __future__ import annotations

from itertools import product as pairs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.base.error import TilewrightError
from tilewright.layout.answer import NotExpressible
from tilewright.layout.linear.hierarchy import (
    Hierarchy,
    Level,
    Mode,
    coordinates,
    hierarchy,
    hierarchy_of,
    linear_of,
)
from tilewright.layout.linear.maps import LinearLayout


@st.composite
def hierarchies(draw: st.DrawFn, extents: tuple[int, ...] = (1, 2, 3, 4)) -> Hierarchy:
    levels: list[Level] = []
    for name in ("register", "lane"):
        modes = [
            Mode(draw(st.sampled_from(extents)), (draw(st.integers(0, 8)), draw(st.sampled_from([0, 0, 1, 2, 4]))))
            for _ in range(draw(st.integers(0, 2)))
        ]
        levels.append(Level(name, tuple(modes)))
    return Hierarchy(tuple(levels), (("x", 128), ("y", 64)))


@st.composite
def linears(draw: st.DrawFn) -> LinearLayout:
    columns = draw(st.lists(st.sampled_from([0, 1, 2, 4, 8, 16, 3, 5]), min_size=4, max_size=4))
    return LinearLayout((("register", 2), ("lane", 2)), (("x", 3), ("y", 2)), tuple(columns))


def _graph(layout: Hierarchy | LinearLayout) -> dict[tuple[int, ...], dict[str, int]]:
    sizes = layout.input_sizes
    return {
        each: layout(**dict(zip(sizes, each, strict=True))) for each in pairs(*(range(size) for size in sizes.values()))
    }


def test_an_accumulator_of_width_24() -> None:
    layout = hierarchy(
        {"register": [(2, {"column": 1}), (2, {"row": 8}), (3, {"column": 8})],
         "lane": [(4, {"column": 2}), (8, {"row": 1})], "warp": [(4, {"row": 16})]},
        {"row": 64, "column": 24},
    )  # fmt: skip
    assert layout(register=11, lane=31, warp=3) == {"row": 63, "column": 23}
    images = [tuple(each.values()) for each in _graph(layout).values()]
    assert sorted(images) == [(row, column) for row in range(64) for column in range(24)]
    assert linear_of(layout) == NotExpressible("column has 24 places, no power of two")
    assert "3 x (column +8)" in str(layout)


@given(hierarchies())
def test_tables_hold_what_calls_say(layout: Hierarchy) -> None:
    tables = coordinates(layout)
    for place, image in _graph(layout).items():
        assert {name: int(table[place]) for name, table in tables.items()} == image


@given(hierarchies((1, 2, 4)))
def test_linear_exactly_where_it_is(layout: Hierarchy) -> None:
    linear = linear_of(layout)
    graph = _graph(layout)
    sizes = list(layout.input_sizes.values())
    is_linear = all(
        graph[tuple(a ^ b for a, b in zip(p, q, strict=True))]
        == {name: graph[p][name] ^ graph[q][name] for name in "xy"}
        for p, q in pairs(graph, graph)
    )
    assert all(size & size - 1 == 0 for size in sizes)
    assert isinstance(linear, LinearLayout) == is_linear
    if isinstance(linear, LinearLayout):
        assert _graph(linear) == graph


@given(linears())
def test_by_addition_exactly_where_it_can_be(layout: LinearLayout) -> None:
    added = hierarchy_of(layout)
    bases = [layout(**{name: 1 << bit}, **{other: 0}) for name, other in (("register", "lane"), ("lane", "register"))
             for bit in range(2)]  # fmt: skip
    carries = any(bases[i][name] & bases[j][name] for i in range(4) for j in range(i) for name in ("x", "y"))
    assert isinstance(added, NotExpressible) == carries
    if isinstance(added, Hierarchy):
        assert _graph(added) == _graph(layout)
        assert linear_of(added) == layout


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hierarchy({"a": [(4, {"x": 2})]}, {"x": 6}), "0 to 6"),
        (lambda: hierarchy({"a": [(4, {"x": -1})]}, {"x": 6}), "-3"),
        (lambda: hierarchy({"a": [(0, {"x": 1})]}, {"x": 6}), "below 1"),
        (lambda: hierarchy({"a": [(2, {"z": 1})]}, {"x": 6}), "no output"),
        (lambda: Hierarchy((Level("a", ()), Level("a", ())), (("x", 1),)), "twice"),
        (lambda: Hierarchy((Level("a", (Mode(2, (1, 1)),)),), (("x", 4),)), "one for each output"),
        (lambda: hierarchy({"a": [(2, {"x": 1})]}, {"x": 2})(a=2), "0 to 1"),
        (lambda: hierarchy({"a": [(2, {"x": 1})]}, {"x": 2})(b=0), "levels are"),
        (lambda: coordinates(hierarchy({"a": [(1 << 40, {"x": 1})]}, {"x": 1 << 40})), "too many"),
    ],
)
def test_bad_input_is_told(make, message: str) -> None:
    with pytest.raises(TilewrightError, match=message):
        make()


def test_offsets_and_flips_add() -> None:
    flip = Hierarchy((Level("a", (Mode(100, (-1,)),)),), (("x", 100),), (99,))
    assert [flip(a=each)["x"] for each in (0, 1, 99)] == [99, 98, 0]
    assert isinstance(linear_of(flip), NotExpressible)
