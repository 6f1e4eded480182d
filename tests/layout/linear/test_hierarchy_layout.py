"""Hierarchies and shape:stride layouts say the same of every place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from tilewright.base.error import TilewrightError
from tilewright.layout.layout import Layout
from tilewright.layout.linear.hierarchy import Hierarchy, Level, Mode, coordinates, hierarchy
from tilewright.layout.linear.hierarchy_layout import layout_of


@st.composite
def hierarchies(draw: st.DrawFn) -> Hierarchy:
    modes = st.tuples(st.integers(1, 4), st.integers(0, 8), st.integers(0, 4))
    levels = [
        Level(name, tuple(Mode(extent, (x, y)) for extent, x, y in draw(st.lists(modes, max_size=2))))
        for name in ("register", "lane", "warp")
    ]
    return Hierarchy(tuple(levels), (("x", 256), ("y", 128)), (draw(st.integers(0, 3)), 0))


def _values(given: Hierarchy, strides: dict[str, int]) -> list[int]:
    tables = coordinates(given)
    total = sum(tables[name] * stride for name, stride in strides.items())
    return np.asarray(total).transpose().reshape(-1).tolist()


def test_the_accumulator_of_wgmma_in_the_words_of_cute() -> None:
    given = hierarchy(
        {"value": [(2, {"column": 1}), (2, {"row": 8}), (3, {"column": 8})],
         "thread": [(4, {"column": 2}), (8, {"row": 1}), (4, {"row": 16})]}, {"row": 64, "column": 24},
    )  # fmt: skip
    assert layout_of(given, {"row": 1, "column": 64}) == Layout(((2, 2, 3), (4, 8, 4)), ((64, 8, 512), (128, 1, 16)))


def test_what_a_hierarchy_does_not_have() -> None:
    with pytest.raises(TilewrightError, match="strides for"):
        layout_of(hierarchy({"a": [(2, {"x": 1})]}, {"x": 2}), {"y": 1})
