# Axis names in annotations are data, not types.
# ruff: noqa: F821
"""Programs that walk an axis by tiles: each element's value on the CPU machine, against the program's own meaning."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lower.cascade.value_runs import assert_near, elements_of
from tests.lower.cascade_programs import INFINITY, PROGRAMS, SCALE, attention, causal, dims_of, matmul_softmax
from tests.lower.lowered_programs import lower, random_inputs, run

import tilewright as tw
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.synth.decide import Wanted

BY_SPANS = ("biased", "rms_norm_matmul", "two_products")
"""Programs with an array whose rows run along the axis that is walked: they are read by whole spans of 64 elements."""


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_at_lengths_around_tiles(name):
    for rows, streamed in ((1, 8), (63, 64), (65, 72), (130, 264)):
        dims, elements = dims_of(name, rows, streamed), elements_of(name, Element.BF16)
        lowered = lower(PROGRAMS[name], dims, elements, wanted=Wanted(consumers=2, depth=64))
        assert_near(name, dims, lowered, random_inputs(lowered, rows), elements)


@pytest.mark.sample(2)
@pytest.mark.parametrize("many", [(0, 264), (63, 64), (65, 128), (127, 263), (-1, 2**24 + 3)])
def test_sequences_that_end_within_tiles_and_at_their_edges(many):
    """Tiles before the end are passed over by a branch, which lengths decide: the same values everywhere."""
    dims, elements = dims_of("lengths", 65, 264) | {"B": 2}, elements_of("lengths", Element.BF16)
    lowered = lower(PROGRAMS["lengths"], dims, elements, wanted=Wanted(consumers=2, depth=64))
    assert "bra everywhere" in lowered.ptx
    arrays = random_inputs(lowered)
    arrays["many"][...] = many
    assert_near("lengths", dims, lowered, arrays, elements)


@tw.kernel
def by_head(q: tw.Tensor["H", "Q", "E"], k: tw.Tensor["H", "T", "E"], w: tw.Tensor["H", "Q", "T", tw.f32]):
    h, i, t, e = tw.axes("H Q T E")
    scores = tw.dot(q[h, i, e], k[h, t, e], over=e)
    w[h, i, t] = tw.softmax(tw.where(t <= i + h, scores * (h + 1), -INFINITY), over=t)


def test_numbers_along_axes_of_the_batch():
    dims, elements = {"H": 3, "Q": 5, "T": 70, "E": 16}, {each: Element.BF16 for each in "qk"} | {"w": Element.F32}
    lowered = lower(by_head, dims, elements)
    arrays = random_inputs(lowered)
    expected = evaluate(trace(by_head, dims, elements), arrays, rounded=False)["w"]
    assert np.abs(run(lowered, arrays)["w"] - expected).max() < 1e-5


@pytest.mark.sample(1)
@pytest.mark.parametrize("streamed", [1, 2, 63, 65, 127, 129])
def test_odd_lengths_of_what_is_walked(streamed):
    for name in ("attention", "causal", "window", "grouped_heads"):
        dims, elements = dims_of(name, 70, streamed), elements_of(name, Element.F16)
        lowered = lower(PROGRAMS[name], dims, elements)
        assert_near(name, dims, lowered, random_inputs(lowered, streamed), elements)


@pytest.mark.full
@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(list(PROGRAMS)),
    st.integers(1, 200),
    st.integers(1, 40),
    st.sampled_from([8, 16, 40, 64, 72, 136]),
    st.sampled_from([8, 24, 64, 104]),
    st.sampled_from([Element.BF16, Element.F16]),
    st.sampled_from([None, 16, 32, 64]),
)
def test_drawn_extents(name, rows, eighths, held, columns, element, depth):
    dims, elements = dims_of(name, rows, 8 * eighths, held, columns), elements_of(name, element)
    if name in BY_SPANS and depth is not None:
        depth = 64
    lowered = lower(PROGRAMS[name], dims, elements, wanted=Wanted(consumers=2, depth=depth))
    assert_near(name, dims, lowered, random_inputs(lowered, rows), elements)


@pytest.mark.parametrize("name", BY_SPANS)
def test_a_depth_that_cuts_spans_is_refused(name):
    dims, elements = dims_of(name, 130, 320), elements_of(name, Element.F16)
    with pytest.raises(TilewrightError, match="no tile has the extents that are asked for"):
        lower(PROGRAMS[name], dims, elements, wanted=Wanted(consumers=2, depth=32))
    assert lower(PROGRAMS[name], dims, elements, wanted=Wanted(consumers=2, depth=64))


def test_products_of_long_axes_go_by_slices():
    dims, elements = {"M": 70, "N": 200, "K": 2056}, elements_of("matmul_softmax", Element.BF16)
    lowered = lower(matmul_softmax, dims, elements)
    assert lowered.decisions.sliced == ("K",)
    arrays = random_inputs(lowered)
    arrays = {name: (array.astype(np.float32) / 8).astype(array.dtype) for name, array in arrays.items()}
    assert_near("matmul_softmax", dims, lowered, arrays, elements)


def test_one_consumer_and_several_give_the_same():
    dims = dims_of("attention", 100, 72) | {"B": 1, "H": 1}
    arrays = random_inputs(lower(attention, dims))
    one, two, three = (
        run(lower(attention, dims, wanted=Wanted(consumers=count, depth=48)), arrays)["o"] for count in (1, 2, 3)
    )
    assert np.array_equal(one, two) and np.array_equal(one, three)


def softmax_of(scores):
    with np.errstate(all="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True)


@pytest.mark.sample(2)
@pytest.mark.parametrize("spike", [0, 40, 99])
def test_maxima_that_rise_late_correct_what_came_before(spike):
    dims = {"B": 1, "H": 1, "Q": 3, "T": 100, "E": 16, "F": 16}
    lowered = lower(attention, dims, wanted=Wanted(consumers=2, depth=16))
    arrays = random_inputs(lowered)
    arrays["k"][0, 0, spike] *= 60
    q, k, v = (arrays[name][0, 0].astype(np.float64) for name in "qkv")
    wanted = softmax_of(q @ k.T * SCALE) @ v
    assert np.abs(run(lowered, arrays)["o"][0, 0].astype(np.float64) - wanted).max() < 0.03


def test_rows_without_anything_are_not_numbers_and_others_are_right():
    dims = {"B": 1, "Q": 40, "T": 40, "E": 16, "F": 16}
    lowered = lower(causal, dims, wanted=Wanted(consumers=2, depth=16))
    arrays = random_inputs(lowered)
    arrays["k"][0, 0] = -INFINITY  # what the first row sees alone
    arrays["q"][...] = np.abs(arrays["q"].astype(np.float32)).astype(arrays["q"].dtype)
    got = run(lowered, arrays)["o"][0].astype(np.float64)
    q, k, v = (arrays[name][0].astype(np.float64) for name in "qkv")
    with np.errstate(all="ignore"):
        scores = np.where(np.tri(40, dtype=bool), q @ k.T * SCALE, -np.inf)
    wanted = softmax_of(scores) @ v
    assert np.isnan(got[0]).all() and np.isnan(wanted[0]).all()
    assert np.abs(got[1:] - wanted[1:]).max() < 0.03


def test_what_is_not_a_number_stays_so_in_its_row():
    dims = dims_of("attention", 8, 50, 16, 16)
    lowered = lower(attention, dims, wanted=Wanted(consumers=2, depth=16))
    arrays = random_inputs(lowered)
    arrays["q"][0, 1, 3, 5] = np.nan
    got = run(lowered, arrays)["o"].astype(np.float64)
    assert np.isnan(got[0, 1, 3]).all() and np.isnan(got).sum() == 16


@pytest.mark.parametrize("scale", [3e38, -3e38, 1e-45])
def test_scales_that_leave_no_room_beside_log2_e(scale):
    """The product of both would be no float32."""

    def scaled(q, k, v, o):
        i, t, e, f = tw.axes("Q T E F")
        o[i, f] = tw.dot(tw.softmax(tw.dot(q[i, e], k[t, e], over=e) * scale, over=t), v[t, f], over=t)

    tensors = {"q": ("Q", "E"), "k": ("T", "E"), "v": ("T", "F"), "o": ("Q", "F")}
    scaled.__annotations__ = {name: tw.Tensor[axes] for name, axes in tensors.items()}
    lowered = lower(tw.kernel(scaled), {"Q": 20, "T": 40, "E": 16, "F": 16}, wanted=Wanted(depth=16))
    arrays = random_inputs(lowered)
    arrays["q"][...] = 0  # so that all weights are the same
    wanted = np.broadcast_to(arrays["v"].astype(np.float64).mean(0), (20, 16))
    assert np.abs(run(lowered, arrays)["o"].astype(np.float64) - wanted).max() < 0.01
