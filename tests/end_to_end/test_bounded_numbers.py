"""Bounds of a program's numbers: what is right is within them, one wrong element is not."""

import numpy as np
import pytest
from tests.end_to_end.bounded_numbers import run_program, wrong_places

from tilewright.base.element import Element

ATTENTION = """import tilewright as tw


@tw.kernel
def drawn(q, k, v, y):
    i, t, e, f = tw.axes("M T E F")
    s = tw.where(t <= i, tw.dot(q[i, e], k[t, e], over=e) * 0.25, -float("inf"))
    y[i, f] = tw.dot(tw.softmax(s, over=t), v[t, f], over=t)
"""
SIZES = {"M": 9, "T": 12, "E": 16, "F": 8}
PARAMETERS = [
    (name, tuple(axes), element)
    for name, axes, element in (
        ("q", "ME", Element.F16), ("k", "TE", Element.F16), ("v", "TF", Element.F16), ("y", "MF", Element.F32),
    )
]  # fmt: skip


def attention() -> tuple[dict[str, np.ndarray], np.ndarray]:
    random = np.random.default_rng(0)
    arrays = {
        name: random.standard_normal([SIZES[axis] for axis in axes]).astype(np.float16)
        for name, axes, _ in PARAMETERS[:3]
    }
    q, k, v = (each.astype(np.float64) for each in arrays.values())
    scores = np.where(np.arange(12) <= np.arange(9)[:, None], q @ k.T / 4, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return arrays, weights / weights.sum(axis=1, keepdims=True) @ v


@pytest.mark.parametrize("rounding", [np.float64, np.float32, np.float16])
def test_weights_may_be_rounded_as_the_other_operand_is(rounding: type) -> None:
    arrays, expected = attention()
    number, error = run_program(ATTENTION, "drawn", PARAMETERS, SIZES, arrays)["y"]
    assert np.allclose(number, expected, atol=1e-12) and (error > 0).all() and error.max() < 3e-3
    assert not wrong_places(expected.astype(rounding).astype(np.float32), number, error, Element.F32).any()


def test_one_key_too_many_is_out_of_bounds() -> None:
    arrays, expected = attention()
    number, error = run_program(ATTENTION, "drawn", PARAMETERS, SIZES, arrays)["y"]
    later = run_program(ATTENTION.replace("t <= i", "t <= i + 1"), "drawn", PARAMETERS, SIZES, arrays)["y"][0]
    wrong = wrong_places(np.where(np.arange(9)[:, None] == 8, later, expected), number, error, Element.F32)
    assert wrong[8].any() and not wrong[:8].any()


ROWS = """import tilewright as tw


@tw.kernel
def drawn(x, y, z):
    i, j = tw.axes("M N")
    y[i] = tw.argmax(x[i, j], over=j)
    z[i, j] = tw.where(x[i, j] > 0, x[i, j] / tw.sum(x[i, j], over=j), x[i, j + 1])
"""


def test_what_is_no_number_and_what_overflows() -> None:
    x = np.float32([[1.0, 2.0, 2.0], [np.nan, np.inf, -1.0], [3e38, 3e38, -3e38], [-0.0, -1.0, -1e-40]])
    parameters = [("x", ("M", "N"), Element.F32), ("y", ("M",), Element.S32), ("z", ("M", "N"), Element.F32)]
    found = run_program(ROWS, "drawn", parameters, {"M": 4, "N": 3}, {"x": x})
    place, number = found["y"][0], found["z"][0]
    assert place.tolist() == [1, 0, 0, 0]
    assert np.isnan(number[1, 1]) and number[3].tolist() == [-1.0, float(np.float32(-1e-40)), 0.0]
    assert np.isinf(found["z"][1][2, :2]).all(), "the order of a sum decides whether it overflows"
    assert np.abs(number[0] - [0.2, 0.4, 0.4]).max() < 1e-12
    result = number.astype(np.float32)
    assert not wrong_places(result, *found["z"], Element.F32).any()
    result[1, 1] = 0.0
    assert wrong_places(result, *found["z"], Element.F32).sum() == 1


def test_a_store_saturates_and_rounds_either_way_where_the_bound_leaves_it_open() -> None:
    number, error = np.array([500.0, 1.0, 17.0]), np.array([0.0, 1e-9, 1.0 + 1e-6])
    for values, wrong in (([448, 1, 16], 0), ([448, 1, 18], 0), ([448, 1.125, 20], 2), ([np.nan, 1, 16], 1)):
        assert wrong_places(np.array(values), number, error, Element.F8E4M3).sum() == wrong
