"""Exponentials of which each column takes another number off: the difference first, with no guard for huge numbers."""

import numpy as np
import pytest
from lowered_programs import lower, random_inputs, run

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


@pytest.mark.parametrize(("scale", "guarded"), [(0.125, False), (-2.0, False), (0.3, True)])
def test_powers_of_two_need_no_guard(scale: float, guarded: bool) -> None:
    lowered = weighed(scale)
    assert ("abs.f32" in lowered.ptx) == guarded
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
