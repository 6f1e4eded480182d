# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Where in a row its largest and smallest elements stand: on the CPU machine, always what NumPy says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lower.lowered_programs import lower, run

import tilewright as tw
from tilewright.base.element import Element
from tilewright.frontends.tile.reference import DTYPES
from tilewright.synth.decide import Wanted

SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-45, -1e-45, 3e38, -3e38], np.float32)


@tw.kernel
def places(x: tw.Tensor["M", "N"], most: tw.Tensor["M", tw.i32], least: tw.Tensor["M", tw.i32]):
    i, j = tw.axes("M N")
    most[i] = tw.argmax(x[i, j], over=j)
    least[i] = tw.argmin(x[i, j], over=j)


@tw.kernel
def place_of_the_farthest(x: tw.Tensor["M", "N"], where: tw.Tensor["M", tw.i32]):
    """Waits for another fold."""
    i, j = tw.axes("M N")
    where[i] = tw.argmax(tw.abs(x[i, j] - tw.max(x[i, j], over=j)), over=j)


def assert_places(x, element: Element, **options) -> None:
    rows, length = x.shape
    elements = {"x": element, "most": Element.S32, "least": Element.S32}
    lowered = lower(places, {"M": rows, "N": length}, elements, **options)
    given_x = x.astype(DTYPES[element])
    found, wide = run(lowered, {"x": given_x}), given_x.astype(np.float32)
    assert found["most"].dtype == found["least"].dtype == np.int32
    np.testing.assert_array_equal(found["most"], wide.argmax(axis=1))
    np.testing.assert_array_equal(found["least"], wide.argmin(axis=1))


@pytest.mark.sample(6)
@pytest.mark.parametrize("element", [Element.F32, Element.BF16, Element.F8E5M2], ids=lambda each: each.value)
@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 31, 32, 33, 127, 128, 129, 1023, 1024, 1025, 4096, 5000])
def test_places_are_those_of_numpy(length, element):
    """Few different numbers, so that most of them stand at many places."""
    x = np.random.default_rng(length).integers(-3, 4, (3, length)).astype(np.float32)
    assert_places(x, element)
    assert_places(np.sort(x, axis=1), element)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(1, 600), st.integers(0, 2**32 - 1), st.sampled_from([Element.F32, Element.BF16]))
def test_special_numbers(rows, length, seed, element):
    """Zeros of both signs are equal, the first NaN is chosen, infinities are numbers."""
    generator = np.random.default_rng(seed)
    kinds = generator.choice(len(SPECIAL), generator.integers(1, 4))
    assert_places(SPECIAL[generator.choice(kinds, (rows, length))], element)


@pytest.mark.sample(12)
@pytest.mark.parametrize("value", SPECIAL.tolist())
@pytest.mark.parametrize("length", [1, 40, 4100])
def test_of_equal_elements_the_first(length, value):
    assert_places(np.full((2, length), value, np.float32), Element.F32)


@pytest.mark.sample(2)
@pytest.mark.parametrize("length", [70000, 66001])
@pytest.mark.parametrize("wanted", [None, Wanted(row_ctas=1, row_kept=False, row_threads=1024)])
def test_long_rows(length, wanted):
    """Shared by a cluster's CTAs, or walked by strips of one."""
    x = np.random.default_rng(length).integers(-3, 4, (2, length)).astype(np.float32)
    x[1, :] = -np.inf
    x[1, length - 1] = np.nan
    elements = {"x": Element.F32, "most": Element.S32, "least": Element.S32}
    (row,) = lower(places, {"M": 2, "N": length}, elements, wanted=wanted).decisions.rows
    assert row.streamed if wanted else row.ctas > 1
    assert_places(x, Element.F32, wanted=wanted)


@pytest.mark.parametrize("strides", [(1, 8), (520, 1), (513, 1)])
def test_strided_arrays(strides):
    x = np.random.default_rng(3).integers(-3, 4, (8, 512)).astype(np.float32)
    assert_places(x, Element.F32, strides={"x": strides})


def test_a_place_that_waits_for_another_fold():
    x = np.random.default_rng(4).integers(-40, 40, (4, 3000)).astype(np.float32)
    lowered = lower(place_of_the_farthest, {"M": 4, "N": 3000}, {"x": Element.F32, "where": Element.S32})
    np.testing.assert_array_equal(run(lowered, {"x": x})["where"], x.argmin(axis=1))
