"""Run-time sizes as attributes: their text reads again, and what is none does not verify."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from tilewright.base.size import Extent, Range, ceil_div, computed
from tilewright.ir import context
from tilewright.ir.sizes import RangeAttr, SizeAttr, ranges_attr, ranges_of, size_array, size_attr, size_of, sizes_of

SIZES = (7, Extent("M"), ceil_div(Extent("M"), 128), computed("min", 132, computed("*", Extent("M"), 3)))


@pytest.mark.parametrize("size", SIZES)
def test_a_size_as_an_attribute(size: int | Extent) -> None:
    attribute = size_attr(size)
    assert size_of(attribute) == size
    if not isinstance(attribute, IntAttr):
        assert Parser(context(), str(attribute)).parse_attribute() == attribute


def test_arrays_and_ranges() -> None:
    assert sizes_of(size_array(SIZES)) == SIZES
    ranges = {"M": Range(0, 64, 8)}
    assert ranges_of(ranges_attr(ranges)) == ranges and ranges_of(None) == {}
    attribute = RangeAttr.of(ranges["M"])
    assert Parser(context(), str(attribute)).parse_attribute() == attribute


@pytest.mark.parametrize("text", ["7", "M+1", "f(M)", "M +", "(M)"])
def test_other_texts_are_no_attributes(text: str) -> None:
    with pytest.raises(VerifyException):
        SizeAttr(StringAttr(text))


def test_other_numbers_are_no_range() -> None:
    with pytest.raises(VerifyException):
        RangeAttr(IntAttr(8), IntAttr(4), IntAttr(1))
