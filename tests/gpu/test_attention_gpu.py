"""Attention, norms and softmax on a GPU: no further from float64 than PyTorch's own, and a transformer that learns."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.gpu


@pytest.fixture
def ours(torch):
    from tilewright.integrations import torch_operators

    torch.manual_seed(0)
    return torch_operators


def random(torch, *shape, dtype="bfloat16"):
    return torch.randn(*shape, device="cuda").to(getattr(torch, dtype)).requires_grad_()


def relative(one, other):
    return ((one.double() - other.double()).norm() / other.double().norm().clamp_min(1e-30)).item()


def assert_as_good_as(torch, function, ours, inputs):
    """Results and gradients of `function` of a module, ours against PyTorch's and both against float64."""
    functional = torch.nn.functional
    wide = [each.detach().double().requires_grad_() for each in inputs]
    found, peer, exact = function(ours, *inputs), function(functional, *inputs), function(functional, *wide)
    weights = torch.randn_like(found)
    assert relative(found, exact) <= 1.02 * relative(peer, exact) + 1e-6
    pairs = (torch.autograd.grad(result, inputs, weights) for result in (found, peer))
    for one, other, best in zip(*pairs, torch.autograd.grad(exact, wide, weights.double()), strict=True):
        # Where a gradient is 0, as that of the weight of a single key, rounding is all that there is.
        assert (one - best).norm() <= 1.1 * (other - best).norm() + 1e-5 * weights.norm()


SHAPES = (
    ((2, 4, 1, 1, 64), 1, False),
    ((1, 2, 129, 257, 64), 1, False),
    ((2, 8, 300, 300, 128), 4, True),
    ((1, 2, 130, 65, 256), 1, True),
)
"""(batch, heads, queries, keys, head size), heads that share keys, causal."""


@pytest.mark.parametrize(("shape", "sharing", "causal"), SHAPES, ids=lambda value: str(value))
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_attention_is_as_good_as_pytorchs(torch, ours, shape, sharing, causal, dtype):
    batch, heads, queries, keys, size = shape
    inputs = [
        random(torch, batch, rows[0], rows[1], size, dtype=dtype)
        for rows in ((heads, queries), (heads // sharing, keys), (heads // sharing, keys))
    ]

    def attended(module, *arrays):
        return module.scaled_dot_product_attention(*arrays, is_causal=causal, enable_gqa=sharing > 1)

    assert_as_good_as(torch, attended, ours, inputs)


@pytest.mark.parametrize("shape", [(1, 1), (5, 333), (3, 1000, 1024), (4096, 4096)], ids=str)
def test_norms_and_softmax_are_as_good_as_pytorchs(torch, ours, shape):
    x, weight, bias = random(torch, *shape), random(torch, *shape[-1:]), random(torch, *shape[-1:])
    last = shape[-1:]
    assert_as_good_as(torch, lambda module, x, w: module.rms_norm(x, last, w, 1e-5), ours, [x, weight])
    assert_as_good_as(torch, lambda module, x, w, b: module.layer_norm(x, last, w, b), ours, [x, weight, bias])
    assert_as_good_as(torch, lambda module, x: module.softmax(x, -1), ours, [x])


def test_heads_of_one_array_need_no_copy(torch, ours):
    """Queries, keys and values as they lie in the result of one product."""
    packed = random(torch, 2, 200, 3, 4, 64)

    def attended(module, packed):
        query, key, value = (each.transpose(1, 2) for each in packed.unbind(2))
        return module.scaled_dot_product_attention(query, key, value, is_causal=True)

    assert_as_good_as(torch, attended, ours, [packed])


def test_a_transformer_learns_and_goes_on(torch, ours):
    from examples import transformer

    numbers = torch.tensor([ord(each) for each in transformer.TEXT], device="cuda")
    model = transformer.Transformer().cuda()
    losses = transformer.train(model, numbers, transformer.STEPS)
    assert 4 < losses[0] < 8 and losses[-1] < 0.5
    written = transformer.generate(model, numbers[:30], 20)
    assert (written == numbers[:50]).float().mean() > 0.9
