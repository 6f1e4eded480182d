"""Names of axes: plain ones, and blocks of their elements."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.ir.tile.axes import base_axis, block_axis, block_size, blocks_of, covers, derived_extent, is_axis_name


@pytest.mark.parametrize("name", ["K", "K_2", "K/128", "rows/2"])
def test_names(name):
    assert is_axis_name(name)


@pytest.mark.parametrize("name", ["", "2", "K/", "K/0", "K/1", "K/x", "K/4/2", "/4", "K 2", 3, None, "K/99999999999"])
def test_no_names(name):
    assert not is_axis_name(name)


@given(st.sampled_from(["K", "rows"]), st.integers(2, 300), st.integers(1, 2000))
def test_blocks_cover_their_axis(base, size, extent):
    axis = block_axis(base, size)
    assert blocks_of(axis) == (base, size) == (base_axis(axis), block_size(axis))
    blocks = derived_extent(axis, {base: extent})
    assert {element // size for element in range(extent)} == set(range(blocks))
    assert derived_extent(base, {base: extent}) == extent


def test_plain_axes_are_blocks_of_one():
    assert (blocks_of("K"), base_axis("K"), block_size("K")) == (None, "K", 1)


def test_elements_cover_blocks_and_not_the_other_way():
    assert covers(("M", "K"), "K/128") and covers(("K/128",), "K/128")
    assert not covers(("K/128",), "K") and not covers(("K/64",), "K/128") and not covers(("M",), "K/128")
