"""Texts of conditions: what they mean by Python's own evaluation, and one line with a column for each that is wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.layout.numbers.drawn_conditions import conditions

from tilewright.base.error import TilewrightError
from tilewright.layout.numbers.condition import Comparison, Condition, condition_text, holds
from tilewright.layout.numbers.condition_parser import parse_expression, parse_where

values = st.fixed_dictionaries({name: st.integers(0, 40) for name in ("K", "M", "N")})


@given(values)
def test_meaning_is_pythons(at: dict[str, int]) -> None:
    for text in (
        "K%8==0, 1<=M<=65536",
        "1 < M != 7 and N > 3",
        "K*N % 16 == 0 && -K <= 2**4,",
        "(K + 7)//8*8 >= K",
        "K - N - M == - - 2",
        "0x10 > K % 3 * 2 + M // 2",
    ):
        python = text.rstrip(",").replace("&&", " and ").replace(",", " and ")
        assert holds(parse_where(text), at) == eval(python, {}, dict(at)), text
    for text in ("2*K + 16", "K//2//3%5", "2*(K+M)*N - 1_000", "-K % 8", "10 - 3 - 2"):
        assert parse_expression(text).at(at) == eval(text, {}, dict(at)), text


@given(conditions, values)
def test_a_comparison_is_read_as_it_is_written(condition: Condition, at: dict[str, int]) -> None:
    if isinstance(condition, Comparison) and "//-" not in str(condition):
        text = condition_text(condition)
        try:
            again = parse_where(text)
        except TilewrightError as error:
            assert "division by" in error.message
            return
        assert holds(again, at) == holds(condition, at)


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("K % 8 = 0", 7, "write =="),
        ("K % 8", 6, "no comparison"),
        ("K / 8 == 1", 3, "write //"),
        ("K %% 8 == 0", 4, "stands where an expression"),
        ("K % 0 == 0", 3, "division by 0"),
        ("K % N == 0", 3, "division by N"),
        ("1 <= M <= ", 10, "ends where"),
        ("(K + 1 == 2", 8, "not closed"),
        ("K ~ 2", 3, "no part"),
        ("K == 1; M == 2", 7, "no part"),
        ("K == 1 M == 2", 8, "stands where"),
        ("", 1, "ends where"),
        ("K == nan or M == 1", 10, "stands where"),
        ("K == 1e5", 7, "stands where"),
        ("K ** 2 == 4", 3, "a power"),
        ("2**999 == K", 2, "a power"),
        ("007 == K", 1, "no integer"),
        ("(" * 99 + "K", 65, "nested"),
        ("K" * 5000, 4097, "longer"),
    ],
)
def test_errors_are_one_line_with_the_column(text: str, column: int, words: str) -> None:
    with pytest.raises(TilewrightError) as caught:
        parse_where(text, what="--where")
    assert f"column {column} of --where" in caught.value.message
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
