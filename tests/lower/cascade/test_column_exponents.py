"""Exponentials of which each column takes another number off: the difference first, with no guard for huge numbers."""

import re

import numpy as np
import pytest
from tests.lower.lowered_programs import lower, random_inputs, run

import tilewright as tw
from tilewright.base.element import Element
from tilewright.synth.decide import Wanted

DIMS = {"M": 20, "T": 40, "E": 16, "F": 16}


def weighed(scale: float):
    def program(q, k, v, s, o):
        i, t, e, f = tw.axes("M T E F")
        weights = tw.exp(tw.dot(q[i, e], k[t, e], over=e) * scale - s[t])
        o[i, f] = tw.dot(weights, v[t, f], over=t)

    axes = {"q": ("M", "E"), "k": ("T", "E"), "v": ("T", "F"), "s": ("T", tw.f32), "o": ("M", "F")}
    program.__annotations__ = {name: tw.Tensor[each] for name, each in axes.items()}
    return lower(
        tw.kernel(program), DIMS, {name: Element.F32 if name == "s" else Element.BF16 for name in axes},
        wanted=Wanted(consumers=2, depth=16),
    )  # fmt: skip


@pytest.mark.parametrize("scale", [0.125, -2.0, 0.3])
def test_the_difference_needs_no_guard(scale: float) -> None:
    lowered = weighed(scale)
    assert "abs.f32" not in lowered.ptx
    arrays = random_inputs(lowered)
    q, k, v, s = (arrays[name].astype(np.float64) for name in "qkvs")
    wanted = np.exp(q @ k.T * scale - s) @ v
    assert np.abs(run(lowered, arrays)["o"].astype(np.float64) - wanted).max() < 0.02 * np.abs(wanted).max()


def test_huge_numbers_cancel_and_infinite_ones_leave_nothing() -> None:
    lowered = weighed(0.125)
    arrays = random_inputs(lowered)
    for name in "qk":
        arrays[name][...] = 0
    arrays["q"][:, 0], arrays["k"][:, 0] = 2.0**20, 2.0**14
    arrays["s"][...] = 2.0**31
    arrays["s"][1::2] = np.inf
    wanted = np.broadcast_to(arrays["v"][::2].astype(np.float64).sum(0), (20, 16))
    assert np.abs(run(lowered, arrays)["o"].astype(np.float64) - wanted).max() < 0.01 * np.abs(wanted).max()


def of_rows(q, k, v, s, o):
    i, t, e, f = tw.axes("M T E F")
    weights = tw.exp(tw.dot(q[i, e], k[t, e], over=e) * 0.125 - s[i])
    o[i, f] = tw.dot(weights, v[t, f], over=t)


def test_what_a_row_takes_off_is_multiplied_by_log2_e_once() -> None:
    """An element costs one multiply-add and the power, and the guard is the row's."""
    axes = {"q": ("M", "E"), "k": ("T", "E"), "v": ("T", "F"), "s": ("M", tw.f32), "o": ("M", "F")}
    of_rows.__annotations__ = {name: tw.Tensor[each] for name, each in axes.items()}
    elements = {name: Element.F32 if name == "s" else Element.BF16 for name in axes}
    lowered = lower(tw.kernel(of_rows), DIMS, elements, wanted=Wanted(consumers=2, depth=16))
    powers = re.findall(r"ex2\.approx\.ftz\.f32 %f\d+, (%f\d+);", lowered.ptx)
    assert powers and all(re.search(rf"fma\.rn\.f32 {each},", lowered.ptx) for each in powers)
    assert 0 < lowered.ptx.count("abs.f32") < len(powers)
    arrays = random_inputs(lowered)
    q, k, v, s = (arrays[name].astype(np.float64) for name in "qkvs")
    wanted = np.exp(q @ k.T * 0.125 - s[:, None]) @ v
    assert np.abs(run(lowered, arrays)["o"].astype(np.float64) - wanted).max() < 0.02 * np.abs(wanted).max()
