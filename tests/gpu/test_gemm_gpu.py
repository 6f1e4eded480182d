"""Matrix products on a GPU: against float64, at 20 shapes, through every way in."""

from __future__ import annotations

import numpy as np
import pytest
from tests.end_to_end import kernels

import tilewright as tw

pytestmark = pytest.mark.gpu

SHAPES = (
    (512, 512, 512),
    (384, 640, 192),
    (128, 256, 64),
    (257, 129, 72),
    (64, 64, 100),
    (1, 8, 16),
    (1, 1, 1),
    (3, 5, 7),
    (1, 4096, 4096),
    (4096, 1, 4096),
    (16, 14336, 4096),
    (128, 14336, 4096),
    (1024, 1024, 1024),
    (1000, 1001, 1002),
    (2048, 2048, 2048),
    (4096, 4096, 4096),
    (4096, 14336, 4096),
    (4097, 4095, 4096),
    (8192, 512, 8192),
    (8192, 8192, 8192),
)


def relative_error(result, reference):
    return ((result.double() - reference.double()).norm() / reference.double().norm()).item()


def poisoned(torch, *shape, dtype):
    return torch.full(shape, float("nan"), device="cuda", dtype=dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def test_products_agree_with_float64(torch, shape):
    m, n, k = shape
    torch.manual_seed(0)
    a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(k, n, device="cuda", dtype=torch.bfloat16)
    out = poisoned(torch, m, n, dtype=torch.bfloat16)
    tw.matmul(a, b, out=out)
    large = m * n * k > 1 << 36
    reference = a.float() @ b.float() if large else a.double() @ b.double()
    assert relative_error(out, reference) < 1e-2
    assert relative_error(out, (a.float() @ b.float()).to(torch.bfloat16)) < 2e-3


@pytest.mark.parametrize("shape", [(512, 512, 512), (257, 129, 72), (4097, 4095, 4096), (2048, 4096, 1024)])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_bias_gelu_epilogue(torch, shape, dtype):
    m, n, k = shape
    kind = getattr(torch, dtype)
    torch.manual_seed(1)
    a, b = torch.randn(m, k, device="cuda", dtype=kind), torch.randn(k, n, device="cuda", dtype=kind)
    bias = torch.randn(n, device="cuda", dtype=kind)
    out = poisoned(torch, m, n, dtype=kind)
    kernels.matmul_bias_gelu(a, b, bias, out=out)
    exact = torch.nn.functional.gelu(a.double() @ b.double() + bias.double(), approximate="tanh")
    assert relative_error(out, exact) < 1e-2
    single = torch.nn.functional.gelu(a.float() @ b.float() + bias.float(), approximate="tanh").to(kind)
    assert relative_error(out, single) < 2e-3


def test_strides_of_every_kind(torch):
    torch.manual_seed(2)
    a = torch.randn(300, 400, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(400, 200, device="cuda", dtype=torch.bfloat16)
    cases = [
        (a, b),
        (a, b.T.contiguous().T),
        (a.T.contiguous().T, b),
        (a[::2, ::2], b[::2]),
        (a[:1].expand(300, 400), b),
        (a[:, 1:], b[1:]),
    ]
    for left, right in cases:
        assert relative_error(tw.matmul(left, right), left.double() @ right.double()) < 1e-2


def laid_out(torch, rows, columns, leading, offset, transposed, dtype):
    """A matrix in the middle of a larger allocation, and that allocation."""
    outer = columns if transposed else rows
    storage = torch.randn(offset + outer * leading + 16, device="cuda", dtype=dtype)
    strides = (1, leading) if transposed else (leading, 1)
    return torch.as_strided(storage, (rows, columns), strides, offset), storage


@pytest.mark.parametrize("offset", [0, 1, 2, 3, 4, 7])
@pytest.mark.parametrize("more", [0, 1, 2, 4])
def test_views_in_the_middle_of_arrays_are_read_and_written_and_nothing_beside_them(torch, offset, more):
    """Every base modulo 16 bytes and every kind of pitch, for both operands and the result."""
    torch.manual_seed(offset)
    m, n, k = 200 + offset, 136 - more, 72 + more
    kind = torch.bfloat16 if offset % 2 else torch.float16
    for transposed in (False, True):
        a, _ = laid_out(torch, m, k, (m if transposed else k) + more, offset, transposed, kind)
        b, _ = laid_out(torch, k, n, (k if transposed else n) + more, (3 * offset) % 8, transposed, kind)
        out, storage = laid_out(torch, m, n, n + more, (5 * offset) % 8, False, kind)
        before = storage.clone()
        out.fill_(float("nan"))
        tw.matmul(a, b, out=out)
        assert relative_error(out, a.double() @ b.double()) < 1e-2
        inside = torch.zeros_like(storage, dtype=torch.bool)
        torch.as_strided(inside, out.shape, out.stride(), out.storage_offset()).fill_(True)
        assert torch.equal(storage[~inside], before[~inside])


def test_leading_axes_are_rows(torch):
    torch.manual_seed(4)
    tokens = torch.randn(4, 65, 3, 264, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(264, 96, device="cuda", dtype=torch.bfloat16)
    for left in (tokens, tokens[:, :, 1], tokens[:, 1:, 2, :]):
        assert relative_error(tw.matmul(left, weight), left.double() @ weight.double()) < 1e-2


@pytest.mark.parametrize("tile", [(256, 128), (128, 192), (128, 128), (128, 64), (64, 256), (64, 128), (64, 64)])
@pytest.mark.parametrize("cluster", [(1, 1), (2, 1), (1, 2)])
def test_every_tile_and_cluster(torch, tile, cluster):
    if tile[1] // cluster[0] % 64 or tile[0] // cluster[1] % 64:
        pytest.skip("such a tile cannot be shared")
    torch.manual_seed(3)
    a = torch.randn(1000, 776, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(776, 1032, device="cuda", dtype=torch.bfloat16)
    compiled = tw.compile(kernels.matmul, M=1000, N=1032, K=776, tile=tile, cluster=cluster)
    out = poisoned(torch, 1000, 1032, dtype=torch.bfloat16)
    compiled(a, b, out=out)
    assert relative_error(out, a.double() @ b.double()) < 1e-2


def test_numpy_arrays_on_the_gpu(torch):
    compiled = tw.compile(kernels.matmul, M=100, N=72, K=40, dtype="f16")
    a = torch.randn(100, 40, dtype=torch.float16).numpy()
    b = torch.randn(40, 72, dtype=torch.float16).numpy()
    assert (compiled(a, b, on="gpu") == compiled(a, b, on="cpu")).mean() > 0.98


def test_out_of_memory_is_one_message(torch):
    m, n, k = 64, 1 << 22, 104
    compiled = tw.compile(kernels.matmul, M=m, N=n, K=k, dtype="f16")
    a, b = np.zeros((m, k), np.float16), np.zeros((k, n), np.float16)
    torch.cuda.empty_cache()
    hog = torch.empty(torch.cuda.mem_get_info()[0] - (512 << 20), device="cuda", dtype=torch.uint8)
    try:
        with pytest.raises(tw.TilewrightError, match="OUT_OF_MEMORY"):
            compiled(a, b, on="gpu")
    finally:
        del hog
        torch.cuda.empty_cache()
