"""Values that the type checker freezes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.base.span import Span
from tilewright.base.value import value


@value
class _Pair:
    one: int
    two: str = "two"


@value
class _Triple(_Pair):
    three: int = 3


def test_values_are_equal_and_hashed_by_their_fields() -> None:
    assert _Pair(1) == _Pair(1, "two") != _Pair(2)
    assert hash(_Pair(1)) == hash(_Pair(1, "two"))
    assert {Span("file", 1), Span("file", 1), Span("file", 2)} == {Span("file", 2), Span("file", 1)}


def test_a_value_of_another_class_is_not_equal() -> None:
    assert _Pair(1) != _Triple(1)
    assert _Triple(1).two == "two"


def test_values_have_slots_and_can_be_replaced() -> None:
    one = _Pair(1)
    assert replace(one, two="other") == _Pair(1, "other")
    assert one == _Pair(1)
    with pytest.raises(AttributeError):
        object.__setattr__(one, "three", 3)
