"""What the GPU tests share: they are skipped, with the reason, where there is no driver or no PyTorch."""

from __future__ import annotations

import pytest

from tilewright.runtime.device import probe_libcuda


@pytest.fixture(scope="session")
def torch():
    """PyTorch on a GPU of compute capability 9.0."""
    reason = probe_libcuda()
    if reason is not None:
        pytest.skip(f"no NVIDIA driver: {reason}")
    module = pytest.importorskip("torch")
    if not module.cuda.is_available() or module.cuda.get_device_capability() != (9, 0):
        pytest.skip("no GPU of compute capability 9.0")
    return module
