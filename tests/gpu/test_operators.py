"""The library's products on a GPU, as functions and as operators of PyTorch: no further from float64 than PyTorch's
own, under `opcheck`, `torch.compile` and CUDA graphs."""

from __future__ import annotations

import pytest

import tilewright as tw

pytestmark = pytest.mark.gpu

SHAPES = ((512, 512, 512), (1, 4096, 4096), (16, 4096, 1024), (257, 129, 72), (256, 256, 16384))


def random(torch, *shape, dtype="bfloat16", scale=1.0, gradient=False):
    made = (torch.randn(*shape, device="cuda") * scale).to(getattr(torch, dtype))
    return made.requires_grad_(gradient)


@pytest.fixture
def operators(torch):
    from tilewright.integrations import torch_operators

    assert torch_operators.LIBRARY is not None
    torch.manual_seed(0)
    return torch.ops.tilewright


def relative(one, other):
    return ((one.double() - other.double()).norm() / other.double().norm()).item()


def assert_as_good_as(ours, peer, exact):
    """No further from float64 than the peer, but for 1 %; numbers, infinities and NaNs where they belong."""
    wanted = exact.to(ours.dtype)
    assert (ours.isnan() == wanted.isnan()).all()
    # A sum at the edge of what the element holds may be rounded past it by one and not by the other.
    edge = (ours.isinf() != wanted.isinf()).sum().item()
    assert edge <= max((peer.isinf() != wanted.isinf()).sum().item(), wanted.numel() // 1000)
    both = wanted.isfinite() & ours.isfinite() & peer.isfinite()
    if both.any():
        assert relative(ours[both], exact[both]) <= 1.01 * relative(peer[both], exact[both])


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("kind", ["random", "large", "of all sizes", "not numbers"])
def test_products_are_as_good_as_pytorchs(torch, operators, shape, dtype, kind):
    m, n, k = shape
    scale = {"bfloat16": 1e15, "float16": 40.0}[dtype] if kind == "large" else 1.0
    a, b = random(torch, m, k, dtype=dtype, scale=scale), random(torch, n, k, dtype=dtype, scale=scale).t()
    if kind == "of all sizes":
        a = (a.float() * torch.logspace(-3, 3, k, device="cuda")).to(a.dtype)
    if kind == "not numbers":
        for number, value in enumerate((float("nan"), float("inf"), float("-inf"))):
            a[(5 * number) % m, 7 * number] = value
            b[3 + 11 * number, (13 * number) % n] = value
    assert_as_good_as(operators.matmul(a, b), a @ b, a.double() @ b.double())


@pytest.mark.parametrize("kind", ["whole", "rows"])
def test_scaled_products_are_as_good_as_pytorchs(torch, operators, kind):
    """As its fast ones: like them, ours leave all sums to the tensor cores, which add 8-bit products in fewer bits."""
    a, b = random(torch, 512, 1024, dtype="float8_e4m3fn"), random(torch, 768, 1024, dtype="float8_e4m3fn").t()
    rows, columns = ((), ()) if kind == "whole" else ((512, 1), (1, 768))
    scale_a, scale_b = torch.rand(rows, device="cuda") + 0.5, torch.rand(columns, device="cuda") + 0.5
    exact = a.double() @ b.double() * scale_a.double() * scale_b.double()
    peer = torch._scaled_mm(a, b, scale_a, scale_b, out_dtype=torch.bfloat16, use_fast_accum=True)
    assert_as_good_as(operators.scaled_matmul(a, b, scale_a, scale_b), peer, exact)


def test_groups_are_as_good_as_pytorchs(torch, operators):
    x, w = random(torch, 2048, 512), random(torch, 6, 768, 512).transpose(1, 2)
    ends = torch.tensor([100, 100, 700, 701, 1999, 2048], dtype=torch.int32, device="cuda")
    bounds = [0, *ends.tolist()]
    exact = torch.cat([x[bounds[g] : bounds[g + 1]].double() @ w[g].double() for g in range(6)])
    assert_as_good_as(operators.grouped_matmul(x, w, ends), torch._grouped_mm(x, w, offs=ends), exact)


def calls(torch):
    ends = torch.tensor([50, 50, 256], dtype=torch.int32, device="cuda")
    full = torch.tensor([256] * 3, dtype=torch.int32, device="cuda")
    scales = torch.rand(256, 1, device="cuda"), torch.rand(1, 192, device="cuda")

    def kept(*shape):
        return random(torch, *shape, gradient=True)

    return {
        "matmul": (kept(2, 128, 64), kept(64, 256), kept(256), kept(2, 128, 256), "gelu"),
        "gated_matmul": (kept(256, 128), kept(128, 192), kept(128, 192)),
        "grouped_matmul": (random(torch, 256, 128), random(torch, 3, 128, 192), ends),
        "masked_matmul": (random(torch, 3, 256, 128), random(torch, 3, 128, 192), full),
        "scaled_matmul": (random(torch, 256, 128), random(torch, 192, 128).t(), *scales),
    }


@pytest.mark.parametrize("name", ["matmul", "gated_matmul", "grouped_matmul", "masked_matmul", "scaled_matmul"])
def test_opcheck(torch, operators, name):
    results = torch.library.opcheck(getattr(operators, name).default, calls(torch)[name])
    assert set(results.values()) == {"SUCCESS"}


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_a_compiled_module_gives_the_same(torch, operators, mode):
    weights = [random(torch, *shape, scale=0.05) for shape in ((1024, 512), (1024, 512), (512, 1024))]
    gate, up, down = (torch.nn.Parameter(weight) for weight in weights)

    def layer(x):
        return operators.matmul(operators.gated_matmul(x, gate.t(), up.t()), down.t(), None, x)

    x, weight = random(torch, 4, 96, 512, gradient=True), random(torch, 4, 96, 512)
    eager = layer(x)
    wanted = torch.autograd.grad(eager, (x, gate, up, down), weight)
    compiled = torch.compile(layer, fullgraph=True, mode=mode)
    for _ in range(4):
        torch.compiler.cudagraph_mark_step_begin()
        result = compiled(x)
        held = result.detach().clone()
        found = torch.autograd.grad(result, (x, gate, up, down), weight)
    assert relative(held, eager) < 1e-6
    for one, other in zip(found, wanted, strict=True):
        assert relative(one, other) < 1e-2


def test_a_captured_call_reads_what_is_there_at_the_replay(torch, operators):
    a, b = random(torch, 256, 512), random(torch, 512, 512)
    tw.matmul(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = tw.matmul(tw.matmul(a, b), b)
    a.copy_(random(torch, 256, 512))
    graph.replay()
    assert torch.equal(result, tw.matmul(tw.matmul(a, b), b))


def test_calls_that_come_back_use_their_own_arrays(torch, operators):
    """The second call of a kind takes the short way; one array may stand in two places."""
    first, second = random(torch, 256, 256), random(torch, 256, 256)
    for left, right in ((first, first), (first, second), (second, first), (second, second)):
        assert relative(tw.matmul(left, right), left.double() @ right.double()) < 3e-3
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        result = tw.matmul(first, second)
    stream.synchronize()
    assert relative(result, first.double() @ second.double()) < 3e-3
    with pytest.raises(tw.TilewrightError, match="grad"):
        tw.matmul(first.requires_grad_(), second)
