"""Attention, norms and softmax as PyTorch's functions, on CPU tensors, which the CPU machine computes: the same results
and gradients as PyTorch's own in float64, schemas, fake results, graphs, and what is refused.

Skipped where PyTorch is not installed. On a GPU: tests/gpu/test_attention_gpu.py.
"""

from __future__ import annotations

import pytest

import tilewright as tw

torch = pytest.importorskip("torch")

from tilewright.integrations import torch_operators as ours  # noqa: E402  (only where PyTorch is)

functional = torch.nn.functional


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path_factory.getbasetemp() / "programs"))


def random(*shape, dtype=torch.bfloat16, gradient=True):
    torch.manual_seed(sum(shape))
    return torch.randn(*shape).to(dtype).requires_grad_(gradient)


def relative(one, other):
    return ((one.double() - other.double()).norm() / other.double().norm().clamp_min(1e-30)).item()


def attended(module, query, key, value, **more):
    return module.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True, **more)


FUNCTIONS = {
    "attention": (attended, lambda: (random(1, 2, 9, 16), random(1, 1, 9, 16), random(1, 1, 9, 8))),
    "rms_norm": (lambda module, x, w: module.rms_norm(x, (40,), w, 1e-3), lambda: (random(2, 3, 40), random(40))),
    "layer_norm": (
        lambda module, x, w, b: module.layer_norm(x, (5, 8), w, b, 1e-3),
        lambda: (random(3, 5, 8), random(5, 8), random(5, 8)),
    ),
    "softmax": (lambda module, x: module.softmax(x, -1), lambda: (random(3, 40),)),
}


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_results_and_gradients_are_pytorchs(name):
    function, made = FUNCTIONS[name]
    inputs = made()
    wide = [each.detach().double().requires_grad_() for each in inputs]
    found, exact = function(ours, *inputs), function(functional, *wide)
    assert found.dtype == torch.bfloat16 and found.shape == exact.shape and relative(found, exact) < 4e-3
    weights = random(*found.shape, gradient=False)
    gradients = torch.autograd.grad(found, inputs, weights)
    wanted = torch.autograd.grad(exact, wide, weights.double())
    for one, other, given in zip(gradients, wanted, inputs, strict=True):
        assert one.dtype == given.dtype and one.shape == given.shape and relative(one, other) < 1.2e-2


def test_the_logarithm_of_the_sum_has_a_gradient():
    query, key, value = inputs = [random(1, 1, 9, 16) for _ in range(3)]
    wide = [each.detach().double().requires_grad_() for each in inputs]
    out, lse = torch.ops.tilewright.attention(query, key, value, False, 0.25, False)
    scores = wide[0] @ wide[1].transpose(-1, -2) * 0.25
    exact = torch.logsumexp(scores, -1)
    assert relative(lse, exact) < 1e-5
    (one,), (other,) = torch.autograd.grad(lse.sum(), [query]), torch.autograd.grad(exact.sum(), [wide[0]])
    assert relative(one, other) < 8e-3 and out.shape == (1, 1, 9, 16)


CALLS = {
    "attention": lambda: (*FUNCTIONS["attention"][1](), True, 0.25, True),
    "rms_norm": lambda: (random(2, 3, 40), [40], random(40), 1e-3),
    "layer_norm": lambda: (random(3, 5, 8), [5, 8], random(5, 8), random(5, 8), 1e-3),
    "softmax": lambda: (random(3, 40),),
}


@pytest.mark.parametrize("name", list(CALLS))
def test_opcheck(name):
    results = torch.library.opcheck(getattr(torch.ops.tilewright, name).default, CALLS[name]())
    assert set(results.values()) == {"SUCCESS"}


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_a_compiled_function_is_one_graph_and_gives_the_same(name):
    function, made = FUNCTIONS[name]
    inputs = made()
    compiled = torch.compile(lambda *each: function(ours, *each), fullgraph=True, backend="aot_eager")
    eager, found = function(ours, *inputs), compiled(*inputs)
    assert torch.equal(eager, found)
    weights = random(*found.shape, gradient=False)
    pairs = zip(*(torch.autograd.grad(each, inputs, weights) for each in (eager, found)), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def test_what_is_not_taken_is_refused():
    query = random(1, 1, 9, 16)
    with pytest.raises(tw.TilewrightError, match="takes no attn_mask"):
        ours.scaled_dot_product_attention(query, query, query, query)
    with pytest.raises(tw.TilewrightError, match="no dropout"):
        ours.scaled_dot_product_attention(query, query, query, dropout_p=0.5)
    with pytest.raises(tw.TilewrightError, match="softmax along axis 0 of 4"):
        ours.softmax(query, 0)
    first = torch.autograd.grad(ours.softmax(query).sum(), query, create_graph=True)[0]
    with pytest.raises(tw.TilewrightError, match="softmax_backward has no gradient"):
        first.sum().backward()


def test_a_transformer_is_traced_with_its_gradients():
    """The model of the example by shapes alone, which is what a CPU has time for: forward and backward."""
    from examples import transformer
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        model = transformer.Transformer()
        logits = model(torch.zeros(transformer.BATCH, transformer.LENGTH, dtype=torch.int64))
        assert logits.shape == (transformer.BATCH, transformer.LENGTH, transformer.VOCABULARY)
        logits.float().sum().backward()
        assert all(each.grad is not None and each.grad.shape == each.shape for each in model.parameters())
