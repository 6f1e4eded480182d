"""Is the emitted text the same in every process, however Python hashes names there? A cache relies on it."""

from __future__ import annotations

import os
import subprocess
import sys

_EMIT = """
import hashlib
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.compile.kernels import matmul_kernel
compiled = compile_kernel(matmul_kernel, dims={"M": 1000, "N": 1001, "K": 1023}, assembled=False, rerun=False)
print(hashlib.sha256(compiled.ptx.encode()).hexdigest(), len(compiled.ptx))
"""


def test_text_does_not_depend_on_hashes() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", _EMIT],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in (1, 2)
    }
    assert len(found) == 1
