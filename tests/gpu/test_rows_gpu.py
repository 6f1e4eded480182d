"""Programs that fold rows, on a GPU: against float64 at lengths around what a thread, a warp and a CTA hold."""

from __future__ import annotations

import pytest
from examples.rows import argmax, layer_norm, log_softmax, quantize, quantize_int8, rms_norm, softmax

pytestmark = pytest.mark.gpu

LENGTHS = (1, 2, 7, 31, 32, 33, 255, 256, 257, 1023, 1024, 1025, 4096, 5000, 16384, 16385, 40000, 131072)


def expected(torch, kernel, x, vectors):
    functional, wide = torch.nn.functional, [each.double() for each in vectors]
    match kernel.name:
        case "softmax":
            return functional.softmax(x.double(), -1)
        case "log_softmax":
            return functional.log_softmax(x.double(), -1)
        case "rms_norm":
            return functional.rms_norm(x.double(), x.shape[-1:], wide[0], 1e-6)
        case _:
            return functional.layer_norm(x.double(), x.shape[-1:], wide[0], wide[1], 1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("kernel", [softmax, log_softmax, rms_norm, layer_norm], ids=lambda each: each.name)
def test_rows_agree_with_float64(torch, kernel, dtype):
    kind = getattr(torch, dtype)
    for length in LENGTHS:
        torch.manual_seed(length)
        rows = 5 if length > 20000 else 37
        x = (3 * torch.randn(rows, length, device="cuda")).to(kind)
        vectors = [torch.randn(length, device="cuda").to(kind) for _ in range(len(kernel.parameters) - 2)]
        out = torch.full_like(x, float("nan"))
        kernel(x, *vectors, out=out)
        exact = expected(torch, kernel, x, vectors)
        error = ((out.double() - exact).norm() / exact.norm().clamp(min=1e-30)).item()
        allowed = {"bfloat16": 4e-3, "float16": 6e-4, "float32": 2e-6}[dtype]
        assert error < allowed, (length, error)


def test_runs_are_bit_identical(torch):
    x = torch.randn(64, 5000, device="cuda", dtype=torch.bfloat16)
    first = torch.empty_like(x)
    softmax(x, out=first)
    for _ in range(20):
        again = torch.full_like(x, float("nan"))
        softmax(x, out=again)
        assert torch.equal(first.view(torch.int16), again.view(torch.int16))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_places_are_those_of_torch(torch, dtype):
    """Few different numbers, so that most of them stand at many places; and NaN, of which the first is meant."""
    kind = getattr(torch, dtype)
    for length in LENGTHS:
        torch.manual_seed(length)
        rows = 5 if length > 20000 else 37
        x = torch.randint(-3, 4, (rows, length), device="cuda").to(kind)
        x[0] = -float("inf")
        x[1, length // 2 :] = float("nan")
        out = torch.full((rows,), -7, device="cuda", dtype=torch.int32)
        argmax(x, out=out)
        expected = torch.from_numpy(x.float().cpu().numpy().argmax(axis=1)).int()
        assert torch.equal(out.cpu(), expected), length


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_quantized_rows_are_torchs(torch, dtype):
    """Bit for bit: quotients and roundings are correctly rounded on both sides. A row of zeros stays one."""
    kind = getattr(torch, dtype)
    for kernel, most, stored in ((quantize_int8, 127.0, torch.int8), (quantize, 448.0, torch.float8_e4m3fn)):
        for length in LENGTHS:
            torch.manual_seed(length)
            rows = 5 if length > 20000 else 37
            x = (3 * torch.randn(rows, length, device="cuda")).to(kind)
            x[1] = 0
            out = torch.empty((rows, length), device="cuda", dtype=stored)
            scales = torch.empty(rows, device="cuda")
            kernel(x, out=(out, scales))
            wide = x.float().cpu()
            expected = (wide.abs().amax(-1) / most).clamp(min=1e-12)
            assert torch.equal(scales.cpu(), expected), length
            scaled = (wide / expected[:, None]).clamp(-most, most)
            rounded = scaled.round().to(torch.int8) if stored is torch.int8 else scaled.to(stored)
            assert torch.equal(out.cpu().view(torch.int8), rounded.view(torch.int8)), length
