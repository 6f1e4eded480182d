"""Bounds of a program's numbers: what is right is within them, one wrong element is not."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.end_to_end.bounded_numbers import Run, Tile, run_program, wrong_places

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


INF, NAN = np.inf, np.nan
RUN = Run({"M": 1}, {}, set())
TW = RUN.namespace()


def one(number: float, error: float) -> Tile:
    return Tile(RUN, ("M",), np.float64([number]), np.float64([error]))


@pytest.mark.parametrize(
    "made",
    [
        lambda: one(0.0, 0.0) * one(INF, INF),  # a scale that may have overflowed, or not
        lambda: one(INF, INF) * one(0.0, 0.0),
        lambda: one(0.0, 1e-6) * one(INF, 0.0),  # what may be 0, or not
        lambda: one(INF, INF) - one(INF, 0.0),
        lambda: one(0.0, 1e-3) / one(0.0, 0.0),
        lambda: one(INF, INF) / one(INF, 0.0),
        lambda: TW.exp(one(-INF, INF)),
        lambda: TW.exp(one(-1e30, INF)),
        lambda: TW.exp(one(-800.0, 790.0)),
        lambda: TW.tanh(one(3.0, INF)),
        lambda: TW.sigmoid(one(3.0, INF)),
        lambda: one(NAN, INF).to(Element.S8),
        lambda: one(3.0, INF).to(Element.F8E4M3),
    ],
)  # fmt: skip
def test_what_may_be_anything_is_left_open(made: Callable[[], Any]) -> None:
    with np.errstate(all="ignore"):
        assert made().error[0] > 1e-6


@pytest.mark.parametrize(
    ("made", "number"),
    [
        (lambda: one(0.0, 0.0) * one(INF, 0.0), NAN),
        (lambda: one(NAN, 0.0) * one(1.0, INF), NAN),
        (lambda: one(1.0, INF) + one(NAN, 0.0), NAN),
        (lambda: one(NAN, 0.0) / one(3.0, INF), NAN),
        (lambda: one(INF, 0.0) - one(INF, 0.0), NAN),
        (lambda: one(INF, 0.0) * one(-2.0, 1e-3), -INF),
        (lambda: one(INF, 0.0) - one(1.0, 1e-3), INF),
        (lambda: one(INF, 0.0) / one(2.0, 1e-3), INF),
        (lambda: one(3.0, 1e-3) / one(INF, 0.0), 0.0),
        (lambda: TW.exp(one(INF, 0.0)), INF),
        (lambda: TW.exp(one(-INF, 0.0)), 0.0),
        (lambda: TW.log(one(0.0, 0.0)), -INF),
        (lambda: TW.silu(one(INF, 0.0)), INF),
    ],
)  # fmt: skip
def test_what_infinities_certainly_give_is_held_to(made: Callable[[], Any], number: float) -> None:
    with np.errstate(all="ignore"):
        tile = made()
    assert tile.error[0] == 0 and np.array_equal(tile.number, [number], equal_nan=True)
