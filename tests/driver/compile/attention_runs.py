"""Exact attention, and how far numbers are from it."""

from __future__ import annotations

import ml_dtypes
import numpy as np

BF16 = ml_dtypes.bfloat16


def random(seed, *shape, dtype=BF16):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32).astype(dtype)


def relative(found, exact):
    found = np.asarray(found).astype(np.float64)
    return np.linalg.norm(found - exact) / max(np.linalg.norm(exact), 1e-30)


def exact_attention(query, key, value, *, causal, scale):
    """(result, log-sum-exp, weights) in float64, of arrays of four axes; heads may share keys."""
    query, key, value = (np.asarray(each).astype(np.float64) for each in (query, key, value))
    sharing = query.shape[1] // key.shape[1]
    key, value = (np.repeat(each, sharing, 1) for each in (key, value))
    scores = query @ key.swapaxes(-1, -2) * scale
    if causal:
        scores = np.where(np.arange(key.shape[2]) <= np.arange(query.shape[2])[:, None], scores, -np.inf)
    most = scores.max(-1, keepdims=True)
    weights = np.exp(scores - most)
    total = weights.sum(-1, keepdims=True)
    return weights / total @ value, (most + np.log(total))[..., 0], weights / total
