"""compute-sanitizer finds nothing in our kernels: memcheck (out-of-bounds, misaligned) and synccheck (barriers)."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

PROGRAM = """
import ml_dtypes, numpy as np, tilewright as tw
from tests.end_to_end import kernels
random = np.random.default_rng(0)
for m, n, k in ((512, 512, 512), (257, 129, 72), (64, 64, 100), (300, 520, 200)):
    a, b = (random.standard_normal(s).astype(ml_dtypes.bfloat16) for s in ((m, k), (k, n)))
    for options in ({}, {"tile": (128, 128), "cluster": (2, 1)}):
        compiled = tw.compile(kernels.matmul, M=m, N=n, K=k, **options)
        c = compiled(a, b, on="gpu")
        assert np.allclose(c.astype(float), a.astype(float) @ b.astype(float), rtol=0.05, atol=0.5)
print("ran")
"""


@pytest.mark.parametrize("tool", ["memcheck", "synccheck"])
def test_sanitizer_is_clean(torch, tool):
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("compute-sanitizer is not installed")
    root = Path(__file__).resolve().parents[2]
    # Asking for a parameter beyond the last is how the driver tells their number: an expected error of the interface.
    options = ["--tool", tool, "--error-exitcode", "9", "--report-api-errors", "no"]
    command = [sanitizer, *options, sys.executable, "-c", PROGRAM]
    result = subprocess.run(command, capture_output=True, text=True, cwd=root, timeout=400)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-2000:]
    assert "ran" in result.stdout
    assert "ERROR SUMMARY: 0 errors" in result.stdout
