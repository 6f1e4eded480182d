"""Conversions to and from floats of 8 bits on the CPU machine: every value, every midpoint, saturation, infinities."""

import ml_dtypes
import numpy as np
import pytest
from tests.lower.ptx.computed_scalars import computed

from tilewright.base.element import Element
from tilewright.frontends.tile.reference import DTYPES, converted
from tilewright.lower.ptx.numbers.scalar import emit_round

ELEMENTS = [Element.F8E4M3, Element.F8E5M2]


def values_of(element):
    """Every number of the element, as float32."""
    return np.arange(256, dtype=np.uint8).view(DTYPES[element]).astype(np.float32)


def rounded(element, values):
    return computed(lambda text, loaded: emit_round(text, element.value, loaded[0]), values.astype(np.float32))


@pytest.mark.parametrize("element", ELEMENTS)
def test_every_value_is_kept(element):
    np.testing.assert_array_equal(rounded(element, values_of(element)), values_of(element))


@pytest.mark.parametrize("element", ELEMENTS)
def test_midpoints_and_their_neighbours_round_to_nearest_even(element):
    finite = np.unique(values_of(element)[np.isfinite(values_of(element))])
    middles = (finite[1:] + finite[:-1]) / 2
    near = np.concatenate([middles, np.nextafter(middles, np.float32(np.inf)), np.nextafter(middles, -np.inf)])
    expected = near.astype(np.float32).astype(DTYPES[element]).astype(np.float32)
    np.testing.assert_array_equal(rounded(element, near), expected)


@pytest.mark.parametrize(("element", "infinite"), [(Element.F8E4M3, 448.0), (Element.F8E5M2, np.inf)])
def test_what_is_too_large_becomes_the_largest(element, infinite):
    largest = float(ml_dtypes.finfo(DTYPES[element]).max)
    given = np.array([1.01 * largest, 1e30, -1e30, np.inf, -np.inf, np.nan])
    expected = np.array([largest, largest, -largest, infinite, -infinite, np.nan], np.float32)
    np.testing.assert_array_equal(rounded(element, given), expected)
    reference = converted(given, element, DTYPES[element]).astype(np.float32)
    np.testing.assert_array_equal(reference, expected)
