"""Tuning on a GPU: times that another clock confirms, and tuned products as right as untuned ones."""

from __future__ import annotations

import pytest

import tilewright as tw
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.compile.ready import compile_for
from tilewright.runtime.alternating import alternating_times
from tilewright.synth.tile.wanted import Wanted

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))


def test_times_are_those_of_events(torch):
    dims, extent = {"M": 4096, "N": 4096, "K": 4096}, 4096
    tiles = [(128, 256), (64, 64)]
    programs = [compile_for(matmul_kernel, dims, wanted=Wanted(tile=tile)) for tile in tiles]
    times = alternating_times([program.bundle for program in programs], rounds=5)
    a, b = (torch.randn(extent, extent, device="cuda").bfloat16() for _ in range(2))
    for program, found in zip(programs, times, strict=True):
        loaded = program.program.loaded()
        out = torch.empty_like(a)
        addresses = {"a": a.data_ptr(), "b": b.data_ptr(), "c": out.data_ptr()}
        event = sorted(loaded.time(addresses, 20, flush_l2=True))[10] * 1000
        assert 0.7 * event < sorted(found)[2] < 1.2 * event
    assert sorted(times[0])[2] < sorted(times[1])[2], "small tiles are slower for large products"


@pytest.mark.parametrize("shape", [(1, 4096, 4096), (300, 2048, 4096), (2048, 2048, 2048)])
def test_a_tuned_product_is_right_and_tuned_once(torch, shape, tmp_path):
    m, n, k = shape
    a, w = torch.randn(m, k, device="cuda").bfloat16(), torch.randn(n, k, device="cuda").bfloat16()
    tuned = tw.matmul(a, w.t(), tune=True)
    (record,) = tmp_path.glob("*.tuned.json")
    written = record.stat().st_mtime_ns
    exact = a.double() @ w.t().double()
    assert ((tuned.double() - exact).norm() / exact.norm()).item() < 3e-3
    assert torch.equal(tuned, tw.matmul(a, w.t(), tune=True)) and record.stat().st_mtime_ns == written
