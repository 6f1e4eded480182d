"""Others' kernels for Blackwell, on the machine: the numbers that their mathematics demands, element by element.

Triton and Gluon compiled them (`tests/corpus/sources` has what was compiled). Products are of small integers, so that
every sum is exact and no order of additions can change it; the fused products are held to what 16 bits resolve.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tilewright.driver.launch.launch_file import read_launch_file
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core.run import run_launch

_CORPUS = Path(__file__).parent.parent / "data" / "ptx" / "corpus"


def ran(
    kernel: str, given: Mapping[str, NDArray[np.float16]], result: str, shape: tuple[int, int]
) -> NDArray[np.float32]:
    """The result's matrix, of which everything was something else before."""
    path = _CORPUS / f"{kernel}.ptx"
    launch = read_launch_file(str(path.with_suffix(".launch.json")))
    module = read(path.read_text("utf-8"), kernel)
    arrays = {buffer.name: np.full(buffer.size_bytes, 0x7F, np.uint8) for buffer in launch.buffers}
    for name, matrix in given.items():
        assert arrays[name].nbytes == matrix.nbytes, name
        arrays[name] = matrix.reshape(-1).view(np.uint8).copy()
    run_launch(module, launch.resolve(launch.kernel(module, kernel)), arrays)
    return arrays[result].view(np.float16).reshape(shape).astype(np.float32)


def small_integers(seed: int, rows: int, columns: int) -> NDArray[np.float16]:
    return np.random.default_rng(seed).integers(-2, 3, (rows, columns)).astype(np.float16)


@pytest.mark.parametrize(
    ("kernel", "shape", "transposed"),
    [
        ("gluon/sm_100a/tcgen05_ws_acc2_s3", (512, 256, 320), True),
        ("triton/sm_100a/matmul_persistent_ws_s2", (512, 256, 256), True),
        ("triton/sm_100a/matmul_tma_2cta_s2", (512, 128, 384), False),
        ("triton/sm_100a/matmul_tma_s3", (256, 128, 384), False),
    ],
)
def test_products(kernel: str, shape: tuple[int, int, int], transposed: bool) -> None:
    """transposed: whether B lies along the contracted axis."""
    m, n, k = shape
    a, b = small_integers(1, m, k), small_integers(2, *((n, k) if transposed else (k, n)))
    result = ran(kernel, {"da": a, "db": b}, "dc", (m, n))
    wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
    assert np.array_equal(result, wide_a @ (wide_b.T if transposed else wide_b))


def test_two_products_with_an_exponential_between() -> None:
    """Two sequences of 256 rows, whose factor is 1/16: exp2(q k^T / 16) v, the first rounded to 16 bits."""
    rng = np.random.default_rng(3)
    q, k, v = (rng.uniform(-0.5, 0.5, (512, 64)).astype(np.float16) for _ in range(3))
    result = ran("gluon/sm_100a/tcgen05_two_products", {"dq": q, "dk": k, "dv": v}, "dout", (512, 64))
    for part in (slice(0, 256), slice(256, 512)):
        scores = q[part].astype(np.float32) @ k[part].astype(np.float32).T
        weights = np.exp2(scores * np.float32(0.0625)).astype(np.float16).astype(np.float32)
        wanted = weights @ v[part].astype(np.float32)
        assert np.abs(result[part] - wanted).max() <= 2e-3 * np.abs(wanted).max()


def test_a_ring_that_scales() -> None:
    source = small_integers(4, 128, 384)
    result = ran("gluon/sm_100a/tma_scale_ring_s4", {"src": source}, "dst", (128, 384))
    factor = result[source != 0] / source[source != 0]
    assert factor.min() == factor.max() != 0
    assert np.array_equal(result, source.astype(np.float32) * factor.max())
