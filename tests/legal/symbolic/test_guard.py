"""Guards: what they answer."""

from __future__ import annotations

import pytest

from tilewright.base.error import TilewrightError
from tilewright.layout.numbers.condition import is_zero
from tilewright.layout.numbers.condition_parser import parse_where
from tilewright.layout.numbers.integer_expression import variable
from tilewright.layout.numbers.integer_fact import IntegerFact
from tilewright.legal.symbolic.guard import Guard

M, N = variable("M"), variable("N")


def test_declared_ranges_are_part_of_the_guard() -> None:
    guard = Guard((("N", IntegerFact(1, 100, 4)),), parse_where("N != 8"), (is_zero(N % 8),))
    assert [size for size in range(-8, 120) if guard.holds({"N": size})] == list(range(16, 97, 8))
    with pytest.raises(TilewrightError, match="needs the size N"):
        guard.holds({"M": 8})
