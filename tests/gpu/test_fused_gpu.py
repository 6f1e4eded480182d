"""Programs of products and folds, on a GPU: against float64 at lengths around tiles of rows and of what is walked."""

from __future__ import annotations

import math

import pytest
from examples.fused import (
    attention,
    causal_attention,
    grouped_heads,
    matmul_softmax,
    mlp,
    rms_norm_matmul,
    sliding,
    variable_lengths,
)

pytestmark = pytest.mark.gpu

LENGTHS = (
    (1, 1), (1, 129), (63, 2), (64, 127), (65, 128), (127, 129), (128, 255), (129, 1000), (1000, 77), (300, 4096),
)  # fmt: skip
"""Of rows and of the axis that is walked."""
SCALE, WINDOW, HEADS = 0.125, 128, 4


def exact(torch, kernel, q, k, v, lengths=None):
    if kernel is grouped_heads:
        k, v = (each.repeat_interleave(HEADS, 1) for each in (k, v))
    scores = q.double() @ k.double().transpose(-1, -2) * SCALE
    rows = torch.arange(scores.shape[-2], device="cuda")[:, None]
    keys = torch.arange(scores.shape[-1], device="cuda")[None]
    if kernel in (causal_attention, sliding):
        scores = scores.masked_fill(keys > rows, -math.inf)
    if kernel is sliding:
        scores = scores.masked_fill(keys <= rows - WINDOW, -math.inf)
    if lengths is not None:
        scores = scores.masked_fill(keys >= lengths[:, None, None, None], -math.inf)
    return torch.softmax(scores, -1) @ v.double(), torch.logsumexp(scores, -1)


def near(torch, got, wanted, allowed):
    assert torch.equal(got.isnan(), wanted.isnan())
    kept = ~wanted.isnan()
    error = (got.double() - wanted)[kept].norm() / wanted[kept].norm().clamp(min=1e-30)
    assert error.item() < allowed


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(
    "kernel", [attention, causal_attention, sliding, grouped_heads, variable_lengths], ids=lambda each: each.name
)
def test_attention_agrees_with_float64(torch, kernel, dtype):
    kind = getattr(torch, dtype)
    for rows, keys in LENGTHS:
        torch.manual_seed(rows)
        width, columns = (64, 64) if rows % 2 else (128, 48)
        heads = HEADS if kernel is grouped_heads else 2
        q = torch.randn(2, heads, rows, width, device="cuda").to(kind)
        k = torch.randn(2, 1 if kernel is grouped_heads else heads, keys, width, device="cuda").to(kind)
        v = torch.randn(*k.shape[:3], columns, device="cuda").to(kind)
        lengths = torch.tensor([keys, (keys + 1) // 2], device="cuda", dtype=torch.int32)
        more = [lengths] if kernel is variable_lengths else []
        results = kernel(q, k, v, *more)
        wanted = exact(torch, kernel, q, k, v, *more)
        for got, right in zip(results if isinstance(results, tuple) else (results,), wanted, strict=False):
            near(torch, got, right, {"bfloat16": 5e-3, "float16": 7e-4}[dtype])


@pytest.mark.parametrize("rows", [1, 63, 65, 130, 1000])
def test_products_around_folds_agree_with_float64(torch, rows):
    torch.manual_seed(rows)

    def drawn(*shape):
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)

    for inner, outer in ((64, 1), (64, 200), (520, 257), (4096, 1000)):
        x, w = drawn(rows, inner) / 4, drawn(outer, inner) / 4
        wide = torch.softmax(x.double() @ w.double().T, -1)
        near(torch, matmul_softmax(x, w), wide, 8e-3)
    for inner, outer in ((64, 8), (520, 200), (4096, 1000)):
        x, g, w = drawn(rows, inner), drawn(inner), drawn(outer, inner)
        normal = x.double() * torch.rsqrt((x.double() ** 2).mean(-1, keepdim=True) + 1e-6) * g.double()
        near(torch, rms_norm_matmul(x, g, w), normal @ w.double().T, 5e-3)
    for width, hidden, outer in ((64, 8, 8), (200, 264, 40), (1024, 1000, 256)):
        x, up, down = drawn(rows, width), drawn(hidden, width) / width**0.5, drawn(outer, hidden)
        middle = torch.nn.functional.silu(x.double() @ up.double().T)
        near(torch, mlp(x, up, down), middle @ down.double().T, 5e-3)


def test_runs_are_bit_identical(torch):
    q, k, v = (torch.randn(2, 4, 1000, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    first = attention(q, k, v)
    for _ in range(20):
        assert torch.equal(attention(q, k, v).view(torch.int16), first.view(torch.int16))


def test_a_late_maximum_corrects_what_came_before(torch):
    q, k, v = (torch.randn(1, 2, 300, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    for place in (0, 130, 299):
        keys = k.clone()
        keys[:, :, place] *= 40
        near(torch, attention(q, keys, v), exact(torch, attention, q, keys, v)[0], 5e-3)
