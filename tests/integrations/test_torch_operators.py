"""The operators of PyTorch on CPU tensors, which the CPU machine multiplies: schemas, fake results, gradients, graphs.

Skipped where PyTorch is not installed. On a GPU: tests/gpu/test_operators.py.
"""

from __future__ import annotations

import pytest

import tilewright as tw

torch = pytest.importorskip("torch")

from tilewright.integrations import torch_operators  # noqa: E402  (only where PyTorch is)

OPERATORS = torch.ops.tilewright


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path_factory.getbasetemp() / "programs"))


def random(*shape, gradient=False):
    torch.manual_seed(sum(shape))
    return torch.randn(*shape).to(torch.bfloat16).requires_grad_(gradient)


def int32(*numbers):
    return torch.tensor(numbers, dtype=torch.int32)


CALLS = {
    "matmul": lambda: (random(24, 64, gradient=True), random(64, 40, gradient=True)),
    "matmul of rows, with all that there is": lambda: (
        random(2, 12, 64, gradient=True),
        random(64, 40, gradient=True),
        random(40, gradient=True),
        random(2, 12, 40, gradient=True),
        "gelu",
        torch.float32,
    ),
    "matmul of batches": lambda: (random(2, 24, 64, gradient=True), random(2, 64, 40, gradient=True)),
    "gated_matmul": lambda: (random(24, 64, gradient=True), random(64, 40), random(64, 40, gradient=True)),
    "scaled_matmul": lambda: (random(24, 64), random(40, 64).t(), torch.rand(24, 1), torch.rand(1, 40)),
    "grouped_matmul": lambda: (random(24, 64), random(3, 64, 40), int32(5, 5, 24)),
    "masked_matmul": lambda: (random(3, 24, 64), random(3, 64, 40), int32(24, 24, 24)),
}


def operator(name):
    return getattr(OPERATORS, name.split()[0])


@pytest.mark.parametrize("name", list(CALLS))
def test_opcheck(name):
    results = torch.library.opcheck(operator(name).default, CALLS[name]())
    assert set(results.values()) == {"SUCCESS"}


@pytest.mark.parametrize("name", list(CALLS))
def test_fake_results_are_like_real_ones(name):
    from torch._subclasses import FakeTensorMode

    arguments = CALLS[name]()
    real = operator(name)(*arguments)
    with FakeTensorMode() as mode:
        given = [mode.from_tensor(each) if isinstance(each, torch.Tensor) else each for each in arguments]
        fake = operator(name)(*given)
    assert (fake.shape, fake.dtype, fake.stride()) == (real.shape, real.dtype, real.stride())


ACTIVATIONS = ("none", "relu", "silu", "gelu", "sigmoid", "tanh")


def applied(activation, product):
    named = {"none": lambda same: same, "gelu": lambda same: torch.nn.functional.gelu(same, approximate="tanh")}
    return named.get(activation, getattr(torch.nn.functional, activation, None))(product)


def relative(one, other):
    return ((one.double() - other.double()).norm() / other.double().norm()).item()


def gradients(result, inputs):
    weights = torch.randn(result.shape, generator=torch.Generator().manual_seed(5)).to(result.dtype)
    return torch.autograd.grad(result, inputs, weights)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients_of_products(activation):
    inputs = [random(2, 12, 64, gradient=True), random(64, 40, gradient=True), random(40, gradient=True)]
    inputs.append(random(2, 12, 40, gradient=True))
    a, b, bias, residual = inputs
    wide = [each.detach().double().requires_grad_() for each in inputs]
    ours = gradients(OPERATORS.matmul(a, b, bias, residual, activation, torch.float32), inputs)
    exact = gradients(applied(activation, wide[0] @ wide[1] + wide[2]) + wide[3], wide)
    for one, other, given in zip(ours, exact, inputs, strict=True):
        assert one.dtype == given.dtype and relative(one, other) < 8e-3


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients_of_gated_products(activation):
    inputs = [random(2, 12, 64, gradient=True), random(64, 40, gradient=True), random(64, 41, gradient=True)]
    x, gate, up = inputs
    wide = [each.detach().double().requires_grad_() for each in inputs]
    ours = gradients(OPERATORS.gated_matmul(x, gate, up[:, 1:], activation), inputs)
    exact = gradients(applied(activation, wide[0] @ wide[1]) * (wide[0] @ wide[2][:, 1:]), wide)
    for one, other in zip(ours, exact, strict=True):
        assert relative(one, other) < 1.2e-2


def test_a_sum_goes_back_through_products():
    """Its gradient repeats one number, and is no matrix that a kernel reads as it stands."""
    a, b = random(24, 64, gradient=True), random(64, 40, gradient=True)
    OPERATORS.matmul(a, b).sum().backward()
    assert relative(a.grad, b.detach().double().sum(1).expand(24, 64)) < 5e-3


@pytest.mark.parametrize("name", ["scaled_matmul", "grouped_matmul", "masked_matmul"])
def test_nothing_goes_back_through_the_others(name):
    first, *rest = CALLS[name]()
    result = operator(name)(first.requires_grad_(), *rest)
    with pytest.raises(tw.TilewrightError, match=f"tilewright::{name} has no gradient"):
        result.sum().backward()


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        for name, shape in (("gate", (40, 64)), ("up", (40, 64)), ("down", (64, 40))):
            self.register_parameter(name, torch.nn.Parameter(random(*shape)))

    def forward(self, x):
        inner = OPERATORS.gated_matmul(x, self.gate.t(), self.up.t())
        return OPERATORS.matmul(inner, self.down.t(), None, x)


def test_a_compiled_module_is_one_graph_and_gives_the_same():
    module, x = Layer(), random(2, 12, 64, gradient=True)
    inputs = [*module.parameters(), x]
    eager = module(x)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")(x)
    assert torch.equal(eager, compiled)
    for one, other in zip(gradients(eager, inputs), gradients(compiled, inputs), strict=True):
        assert torch.equal(one, other)


def test_wrong_shapes_are_refused_while_a_graph_is_traced():
    a, b = random(24, 64), random(40, 64)
    with pytest.raises(tw.TilewrightError, match="64 against 40"):
        OPERATORS.matmul(a, b)
    with pytest.raises(Exception, match="tilewright: matmul of"):
        torch.compile(OPERATORS.matmul, fullgraph=True, backend="eager")(a, b)
    assert torch_operators.LIBRARY is not None
