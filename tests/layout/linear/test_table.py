"""Tables that are linear layouts, and tables that are not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.base.error import TilewrightError
from tilewright.layout.answer import NotExpressible
from tilewright.layout.linear.maps import LinearLayout, coordinates
from tilewright.layout.linear.table import linear_from_table


@given(st.lists(st.integers(0, 31), min_size=5, max_size=5), st.integers(0, 31), st.integers(0, 2))
def test_a_table_gives_its_layout_back_and_a_changed_entry_none(columns: list[int], at: int, bit: int) -> None:
    layout = LinearLayout((("lane", 3), ("register", 2)), (("x", 3), ("y", 2)), tuple(columns))
    tables = coordinates(layout)
    assert linear_from_table(["lane", "register"], tables, layout.output_sizes) == layout
    tables["x"] = tables["x"].copy()
    tables["x"].reshape(-1)[at] ^= 1 << bit
    assert isinstance(linear_from_table(["lane", "register"], tables, layout.output_sizes), NotExpressible)


def test_what_is_not_linear_says_where() -> None:
    answer = linear_from_table(["i"], {"x": np.array([0, 1, 2, 4])})
    assert answer == NotExpressible("at i = 3 x is 4, and 3 if the powers of two were XORed")
    answer = linear_from_table(["i"], {"x": np.array([1, 0])})
    assert answer == NotExpressible("at i = 0 x is 1, and 0 if the powers of two were XORed")
    assert linear_from_table(["i"], {"x": np.arange(3)}) == NotExpressible("i has 3 places, no power of two")
    assert linear_from_table(["i"], {"x": -np.arange(2)}) == NotExpressible("x has negative places")
    with pytest.raises(TilewrightError, match="shapes"):
        linear_from_table(["i", "j"], {"x": np.arange(2)})
