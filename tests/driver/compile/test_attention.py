"""`tw.attention` and its gradients on the CPU machine: against float64 at small and boundary sizes, and every wrong
argument answered by one message."""

from __future__ import annotations

import numpy as np
import pytest
from tests.driver.compile.attention_runs import BF16, exact_attention, random, relative

import tilewright as tw
from tilewright.driver.compile import attention as verbs


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path_factory.getbasetemp() / "programs"))


def exact_gradients(query, key, value, gradient, lse_gradient, *, causal, scale):
    out, _, weights = exact_attention(query, key, value, causal=causal, scale=scale)
    query, key, value, gradient = (np.asarray(each).astype(np.float64) for each in (query, key, value, gradient))
    sharing = query.shape[1] // key.shape[1]
    shape = (*key.shape[:2], sharing, *key.shape[2:3], -1)
    key, value = (np.repeat(each, sharing, 1) for each in (key, value))
    delta = (gradient * out).sum(-1, keepdims=True) - lse_gradient[..., None]
    of_scores = weights * (gradient @ value.swapaxes(-1, -2) - delta) * scale
    of_key, of_value = of_scores.swapaxes(-1, -2) @ query, weights.swapaxes(-1, -2) @ gradient
    return of_scores @ key, *(each.reshape(shape).sum(2) for each in (of_key, of_value))


CASES = {
    "one": ((1, 1, 1, 1, 8, 8), 1, False),
    "odd": ((1, 1, 5, 7, 16, 8), 1, False),
    "causal": ((1, 2, 65, 33, 16, 24), 1, True),
    "groups": ((1, 4, 17, 19, 16, 16), 2, True),
}
"""(batch, heads, queries, keys, head size, value size), heads that share keys, causal."""


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", list(CASES))
def test_forward_and_backward_against_float64(name):
    (batch, heads, queries, keys, size, value_size), sharing, causal = CASES[name]
    query, key = random(0, batch, heads, queries, size), random(1, batch, heads // sharing, keys, size)
    value, gradient = random(2, batch, heads // sharing, keys, value_size), random(3, batch, heads, queries, value_size)
    lse_gradient = random(4, batch, heads, queries, dtype=np.float32)
    asked = {"is_causal": causal, "scale": 0.3, "enable_gqa": sharing > 1}
    out, lse = tw.attention(query, key, value, **asked, return_lse=True)
    exact, exact_lse, _ = exact_attention(query, key, value, causal=causal, scale=0.3)
    assert out.dtype == BF16 and relative(out, exact) < 4e-3
    assert lse.dtype == np.float32 and np.abs(lse - exact_lse).max() < 1e-5
    found = tw.attention_backward(gradient, query, key, value, out, lse, lse_gradient=lse_gradient, **asked)
    wanted = exact_gradients(query, key, value, gradient, lse_gradient, causal=causal, scale=0.3)
    for one, other, like in zip(found, wanted, (query, key, value), strict=True):
        assert one.shape == like.shape and one.dtype == BF16 and relative(one, other) < 8e-3


def test_leading_axes_may_be_absent():
    """A question of two axes is that of one head of one batch; nothing is compiled to see what it asks."""
    arrays = [verbs._of_four(random(0, 5, 16), name) for name in ("query", "key", "value")]
    asked = verbs._question(*arrays, is_causal=True, scale=None, enable_gqa=False)
    assert (asked.batch, asked.heads, asked.queries, asked.scale) == (1, 1, 5, 0.25)


@pytest.mark.parametrize(("batch", "queries", "keys"), [(0, 3, 3), (2, 0, 3), (2, 3, 0)])
def test_nothing_to_attend_to_or_nobody_who_does(batch, queries, keys):
    query, key = random(0, batch, 2, queries, 8), random(1, batch, 2, keys, 8)
    out, lse = tw.attention(query, key, key, return_lse=True)
    assert out.shape == query.shape and not np.asarray(out).astype(np.float32).any()
    assert (lse == -np.inf).all()
    found = tw.attention_backward(out, query, key, key, out, lse)
    for one, like in zip(found, (query, key, key), strict=True):
        assert one.shape == like.shape and not np.asarray(one).astype(np.float32).any()


def refused(message, *arrays, **asked):
    with pytest.raises(tw.TilewrightError, match=message):
        tw.attention(*arrays, **asked)


def test_what_is_not_taken_is_refused():
    query, key = random(0, 1, 4, 3, 16), random(1, 1, 2, 3, 16)
    refused("takes no attn_mask", query, query, query, np.ones((3, 3), bool))
    refused("no dropout, and dropout_p is 0.1", query, query, query, dropout_p=0.1)
    refused("4 heads for 2", query, key, key)
    refused("4 heads for 3", query, random(0, 1, 3, 3, 16), random(0, 1, 3, 3, 16), enable_gqa=True)
    refused("query and key have 12 elements in a head", *[random(0, 1, 1, 3, 12)] * 3)
    refused("value have 3 elements in a head", key, key, random(1, 1, 2, 3, 3))
    refused("attention of query", query, random(0, 2, 4, 3, 16), random(0, 2, 4, 3, 16))
    refused("has elements f32, which attention does not take", *[random(0, 1, 1, 3, 16, dtype=np.float32)] * 3)
    refused("attention of bf16, bf16 and f16", query, query, query.astype(np.float16))
    refused("query has shape", *[random(0, 1, 1, 1, 3, 16)] * 3)
    out, lse = np.zeros(query.shape, BF16), np.zeros((1, 4, 3), np.float32)
    with pytest.raises(tw.TilewrightError, match="lse has shape"):
        tw.attention_backward(out, query, query, query, out, lse[:, :2])
    with pytest.raises(tw.TilewrightError, match="gradient has elements"):
        tw.attention_backward(out.astype(np.float32), query, query, query, out, lse)
