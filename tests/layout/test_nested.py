"""Nested tuples: profiles, products, the bounds."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.base.error import TilewrightError
from tilewright.layout import nested
from tilewright.layout.numbers.integer_expression import as_expression, variable


def test_congruence() -> None:
    assert nested.congruent((1, (2, 3)), (4, (5, 6)))
    assert not nested.congruent((1, (2, 3)), (4, 5))
    assert not nested.congruent((1, 2), (1, 2, 3))


def test_take_apart() -> None:
    value = (2, (3, 4), ((5,),), ())
    assert nested.flatten(value) == (2, 3, 4, 5)
    assert nested.unflatten((2, 3, 4, 5), value) == value
    assert (nested.rank(value), nested.depth(value), nested.rank(7), nested.depth(7)) == (4, 3, 1, 0)
    assert nested.product(value) == 120
    assert nested.compact_strides(((2, 3), 4)) == ((1, 2), 6)
    assert nested.mapped(lambda leaf: leaf + 1, value) == (3, (4, 5), ((6,),), ())
    assert nested.product(()) == 1


def test_wrong_numbers_of_values() -> None:
    with pytest.raises(TilewrightError, match="fewer"):
        nested.unflatten((1, 2), (1, (2, 3)))
    with pytest.raises(TilewrightError, match="more"):
        nested.unflatten((1, 2, 3, 4), (1, (2, 3)))


def test_constants_become_numbers() -> None:
    assert nested.checked((as_expression(4), np.int32(5)), "shape") == (4, 5)
    assert nested.product((variable("N"), 0)) == 0
    assert nested.product((variable("N"), 2)) == variable("N") * 2
