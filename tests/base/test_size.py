"""Sizes of run-time extents: their values, their bounds against enumeration, and their texts, which read again."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.base.error import TilewrightError
from tilewright.base.size import (
    Computed,
    Extent,
    Function,
    Range,
    Size,
    axes_of,
    bounds,
    ceil_div,
    chosen,
    computed,
    divisor,
    parse_size,
    product,
    settled,
    value_of,
)


def _computed(function: Function, left: Size, right: Size) -> Size:
    """A size of these, or 0 where there is none."""
    try:
        size = computed(function, left, right)
    except ZeroDivisionError:
        return 0
    return max(size, 0) if isinstance(size, int) else size


_FUNCTIONS = st.sampled_from(get_args(Function))
_LEAVES = st.one_of(st.integers(0, 40), st.sampled_from([Extent("M"), Extent("N")]))
_LISTS = st.lists(st.integers(0, 40), min_size=1, max_size=4).map(tuple)


def _made(inner: st.SearchStrategy[Size]) -> st.SearchStrategy[Size]:
    return st.one_of(st.builds(_computed, _FUNCTIONS, inner, inner), st.builds(chosen, inner, _LISTS))


SIZES = st.recursive(_LEAVES, _made, max_leaves=6)
RANGES = {"M": Range(0, 12, 3), "N": Range(2, 6)}


@given(SIZES)
def test_bounds_hold_of_every_extent(size: Size) -> None:
    try:
        least, most = bounds(size, RANGES)
    except (ValueError, ZeroDivisionError):
        return
    values = [value_of(size, {"M": m, "N": n}) for m in RANGES["M"].launched for n in RANGES["N"].launched]
    assert least <= min(values) and max(values) <= most
    assert settled(size, RANGES) == (least if least == most else size)


@given(SIZES)
def test_a_text_reads_as_what_it_was_written_of(size: Size) -> None:
    assert parse_size(str(size)) == size


def test_bounds_of_tiles_are_exact() -> None:
    tiles = ceil_div(Extent("M"), 128)
    ranges = {"M": Range(1, 8192)}
    assert bounds(tiles, ranges) == (1, 64)
    assert bounds(computed("min", product((tiles, 32)), 132), ranges) == (32, 132)
    assert bounds(computed("//", 1 << 32, tiles), ranges) == (1 << 26, 1 << 32)
    assert settled(tiles, {"M": Range(0, 128)}) == 1  # an extent of 0 launches nothing
    assert axes_of(tiles) == {"M"} and axes_of(7) == frozenset()


def test_the_last_of_a_list_stands_for_all_behind_it() -> None:
    size = chosen(computed("-", Extent("M"), 1), (22, 33, 11))
    assert [value_of(size, {"M": extent}) for extent in (1, 2, 3, 4, 50)] == [22, 33, 11, 11, 11]
    assert bounds(size, {"M": Range(2, 9)}) == (11, 33) and bounds(size, {"M": Range(3, 9)}) == (11, 11)
    assert axes_of(size) == {"M"} and chosen(5, (22, 33)) == 33
    with pytest.raises(ValueError, match="may be negative"):
        bounds(chosen(computed("-", Extent("M"), 2), (1, 2)), {"M": Range(1, 9)})


def test_numbers_are_computed_at_once() -> None:
    assert ceil_div(129, 128) == 2 and product((3, 4, 5)) == 60
    assert ceil_div(Extent("M"), 1) == Extent("M") == product((1, Extent("M")))
    assert isinstance(ceil_div(Extent("M"), 2), Computed)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "M +",
        "M ** 2",
        "abs(M)",
        "min(M)",
        "min(M, 1, 2)",
        "choose(M)",
        "choose(M, 1, N)",
        "choose(M, 1.5)",
        "1.5",
        "True",
        "-1",
        "M < 2",
        "1 // 0",
        "x[0]",
        "(" * 500,
    ],
)
def test_other_texts_are_no_sizes(text: str) -> None:
    with pytest.raises(TilewrightError, match="is no size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("least", "most", "multiple_of"),
    [(-1, 4, 1), (5, 4, 1), (0, 0, 1), (1, 4, 0), (1, 8, 8), (0, 9, 8), (True, 4, 1), (1, 2.0, 1)],
)
def test_what_is_no_range(least: int, most: int, multiple_of: int) -> None:
    with pytest.raises(TilewrightError):
        Range(least, most, multiple_of)


@pytest.mark.parametrize(
    ("text", "number"),
    [("6", 6), ("N", 1), ("M", 8), ("M * 6", 48), ("M * 6 + N * 4", 4), ("M // 8", 1), ("choose(M, 6, 9)", 3)],
)
def test_what_a_size_is_a_multiple_of(text: str, number: int) -> None:
    assert divisor(parse_size(text), {"M": Range(8, 64, 8), "N": Range(1, 9)}) == number


def test_a_range_says_what_it_has() -> None:
    values = Range(0, 24, 8)
    assert [extent for extent in range(-8, 33) if extent in values] == [0, 8, 16, 24]
    assert list(values.launched) == [8, 16, 24] and values.least_launched == 8
    assert str(values) == "0 to 24 in multiples of 8" and str(Range(1, 9)) == "1 to 9"
