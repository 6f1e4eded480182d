"""Norms and softmax of rows with their gradients on the CPU machine, against float64, and wrong arguments."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright.driver.compile import norms

BF16 = ml_dtypes.bfloat16
EPS = 1e-3


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path_factory.getbasetemp() / "programs"))


def random(seed, *shape, dtype=BF16):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32).astype(dtype)


def relative(found, exact):
    return np.linalg.norm(np.asarray(found).astype(np.float64) - exact) / max(np.linalg.norm(exact), 1e-30)


def wide(*arrays):
    return [np.asarray(each).astype(np.float64) for each in arrays]


def normalized(x, centred):
    """The normalized rows and what they were multiplied by, in float64."""
    c = x - x.mean(-1, keepdims=True) if centred else x
    factor = 1 / np.sqrt((c * c).mean(-1, keepdims=True) + EPS)
    return c * factor, factor


def exact_gradient(g, x, centred):
    unit, factor = normalized(x, centred)
    less = g.mean(-1, keepdims=True) if centred else 0
    return factor * (g - less - unit * (g * unit).mean(-1, keepdims=True))


SHAPES = ((1, 1, 1), (2, 3, 40), (3, 11, 333))


@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def test_norms_against_float64(shape):
    x, gradient, bias = random(0, *shape), random(1, *shape), random(3, *shape[-1:])
    for weight in (None, random(2, *shape[-1:], dtype=np.float32)):
        x_, g_, w_, b_ = wide(x, gradient, 1 if weight is None else weight, 0 if weight is None else bias)
        y = tw.rms_norm(x, shape[-1:], weight, EPS)
        assert y.dtype == BF16 and relative(y, normalized(x_, False)[0] * w_) < 4e-3
        y = tw.layer_norm(x, shape[-1:], weight, None if weight is None else bias, EPS)
        assert relative(y, normalized(x_, True)[0] * w_ + b_) < 4e-3
        dx, dw = tw.rms_norm_backward(gradient, x, shape[-1:], weight, EPS)
        exact = exact_gradient(g_ * w_, x_, False)
        assert relative(dx, exact) < 6e-3 or np.abs(exact).max() < 1e-2
        lx, lw, lb = tw.layer_norm_backward(gradient, x, shape[-1:], weight, EPS)
        exact = exact_gradient(g_ * w_, x_, True)
        assert relative(lx, exact) < 6e-3 or np.abs(exact).max() < 1e-2
        if weight is None:
            assert dw is lw is lb is None
            continue
        assert dw.dtype == np.float32 and relative(dw, (g_ * normalized(x_, False)[0]).sum((0, 1))) < 1e-6
        assert relative(lw, (g_ * normalized(x_, True)[0]).sum((0, 1))) < 1e-5
        assert relative(lb, g_.sum((0, 1))) < 1e-6


@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def test_softmax_against_float64(shape):
    x, gradient = random(0, *shape, dtype=np.float32), random(1, *shape, dtype=np.float32)
    x_, g_ = wide(x, gradient)
    exact = np.exp(x_ - x_.max(-1, keepdims=True))
    exact /= exact.sum(-1, keepdims=True)
    y = norms.softmax_rows(x)
    assert y.dtype == np.float32 and relative(y, exact) < 1e-6
    dx = norms.softmax_rows_backward(gradient, y)
    assert relative(dx, exact * (g_ - (g_ * exact).sum(-1, keepdims=True))) < 1e-6 or shape[-1] == 1


def test_no_rows_have_no_result_and_no_gradient():
    x, weight = random(0, 0, 8), random(1, 8)
    assert tw.rms_norm(x, (8,), weight).shape == (0, 8)
    dx, dw, db = tw.layer_norm_backward(x, x, (8,), weight)
    assert dx.shape == (0, 8) and not dw.any() and not db.any()


def test_what_does_not_fit_is_refused():
    x = random(0, 4, 8)
    for message, call in (
        ("normalized_shape is", lambda: tw.rms_norm(x, (4,))),
        ("normalized_shape is ndarray; it is the extents", lambda: tw.rms_norm(x, random(8))),
        ("normalized_shape is int; it is the extents", lambda: tw.rms_norm(x, 8)),  # type: ignore[arg-type]
        ("normalized_shape is", lambda: tw.rms_norm(x, ())),
        ("normalized_shape is", lambda: tw.rms_norm(random(0, 4, 0), (0,))),
        ("weight has shape", lambda: tw.rms_norm(x, (8,), random(0, 4))),
        ("bias and no weight", lambda: tw.layer_norm(x, (8,), None, random(0, 8))),
        ("has elements f64", lambda: tw.layer_norm(x.astype(np.float64), (8,))),
        ("gradient has elements", lambda: tw.rms_norm_backward(x.astype(np.float32), x, (8,))),
        ("gradient has shape", lambda: tw.rms_norm_backward(x[:2], x, (8,))),
    ):
        with pytest.raises(tw.TilewrightError, match=message):
            call()
