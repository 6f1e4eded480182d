"""Others' kernels for Blackwell, on the machine: the numbers that their mathematics demands, element by element.

Triton, Gluon and CuTe DSL compiled them (`tests/corpus/sources` has what was compiled). Products are of small integers
and scales are powers of two, or few bits, so that every sum is exact and no order of additions can change it; the fused
products are held to what 16 bits resolve. What 4 and 8 bits mean is read here from `ml_dtypes`, by value.
"""

from collections.abc import Mapping
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import DTypeLike, NDArray

from tilewright.driver.launch.launch_file import read_launch_file
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core.run import run_launch

_CORPUS = Path(__file__).parent.parent / "data" / "ptx" / "corpus"


def ran(
    kernel: str,
    given: Mapping[str, NDArray[np.generic]],
    result: str,
    shape: tuple[int, int],
    element: DTypeLike = np.float16,
) -> NDArray[np.float32]:
    """The result's matrix, of which everything was something else before."""
    path = _CORPUS / f"{kernel}.ptx"
    launch = read_launch_file(str(path.with_suffix(".launch.json")))
    module = read(path.read_text("utf-8"), kernel)
    arrays = {buffer.name: np.full(buffer.size_bytes, 0x7F, np.uint8) for buffer in launch.buffers}
    for name, matrix in given.items():
        assert arrays[name].nbytes == matrix.nbytes, name
        arrays[name] = np.ascontiguousarray(matrix).reshape(-1).view(np.uint8).copy()
    run_launch(module, launch.resolve(launch.kernel(module, kernel)), arrays)
    return arrays[result].view(element).reshape(shape).astype(np.float32)


def small_integers(seed: int, rows: int, columns: int) -> NDArray[np.float16]:
    return np.random.default_rng(seed).integers(-2, 3, (rows, columns)).astype(np.float16)


@pytest.mark.parametrize(
    ("kernel", "shape", "transposed"),
    [
        ("gluon/sm_100a/tcgen05_ws_acc2_s3", (512, 256, 320), True),
        ("gluon/sm_100a/tcgen05_plain_m64", (128, 64, 384), True),
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


def test_a_product_of_the_cute_language() -> None:
    a, b = small_integers(5, 256, 320), small_integers(6, 128, 320)
    result = ran("cute/sm_100a/product_s3", {"da": a, "db": b}, "dc", (256, 128), np.float32)
    assert np.array_equal(result, a.astype(np.float32) @ b.astype(np.float32).T)


def test_tiles_that_are_taken_over_from_other_clusters() -> None:
    """`clusterlaunchcontrol`: whoever computes a tile, each is computed once."""
    source = small_integers(7, 256, 64)
    result = ran("gluon/sm_100a/clc_scale", {"src": source}, "dst", (256, 64))
    assert np.array_equal(result, 4 * source.astype(np.float32))


def test_rows_that_are_gathered_and_scattered() -> None:
    rng = np.random.default_rng(8)
    source = small_integers(9, 64, 64)
    taken, put = rng.integers(0, 64, 64).astype(np.int32), rng.permutation(64).astype(np.int32)
    result = ran(
        "gluon/sm_100a/tma_gather_scatter", {"src": source, "gidx": taken, "sidx": put}, "dst", (64, 64)
    )  # fmt: skip
    assert np.array_equal(result[put], source.astype(np.float32)[taken])


_NARROW: dict[str, DTypeLike] = {"e2m1": ml_dtypes.float4_e2m1fn, "e5m2": ml_dtypes.float8_e5m2}


def narrow_operand(
    rng: np.random.Generator, element: str, rows: int, columns: int
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Its bytes, and its values. Of 4 bits, every code; two of them a byte, the lower half first."""
    if element == "e2m1":
        codes = rng.integers(0, 16, (rows, columns), dtype=np.uint8)
        values = codes.view(ml_dtypes.float4_e2m1fn).astype(np.float64)
        return codes[:, 0::2] | codes[:, 1::2] << 4, values
    narrow = rng.integers(-4, 5, (rows, columns)).astype(_NARROW[element])
    return narrow.view(np.uint8), narrow.astype(np.float64)


def block_scales(
    rng: np.random.Generator, rows: int, blocks: int, block: int
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Bytes as the tensor core takes them (128 rows' four in 512 bytes, row 32 i + j at 16 j + 4 i), and values."""
    if block == 32:
        codes = rng.integers(125, 130, (rows, blocks), dtype=np.uint8)
        values = np.ldexp(1.0, codes.astype(np.int64) - 127)
    else:
        narrow = rng.choice([0.25, 0.5, 1, 1.5, 2], (rows, blocks)).astype(ml_dtypes.float8_e4m3fn)
        codes, values = narrow.view(np.uint8), narrow.astype(np.float64)
    return codes.reshape(rows // 128, 4, 32, blocks // 4, 4).transpose(0, 3, 2, 1, 4), values


@pytest.mark.parametrize(
    ("kernel", "elements", "block", "depth"),
    [
        ("matmul_mxfp8_mxfp4", ("e5m2", "e2m1"), 32, 512),
        ("matmul_mxfp4", ("e2m1", "e2m1"), 32, 1024),
        ("matmul_nvfp4", ("e2m1", "e2m1"), 16, 1024),
    ],
)
def test_products_of_blocks_with_scales(kernel: str, elements: tuple[str, str], block: int, depth: int) -> None:
    rng = np.random.default_rng(10)
    (a, wide_a), (b, wide_b) = (narrow_operand(rng, element, 128, depth) for element in elements)
    (scales_a, each_a), (scales_b, each_b) = (block_scales(rng, 128, depth // block, block) for _ in range(2))
    given = {"da": a, "db": b, "dsa": scales_a, "dsb": scales_b}
    result = ran(f"triton/sm_100a/{kernel}", given, "dc", (128, 128), np.float32)
    wanted = (wide_a * each_a.repeat(block, 1)) @ (wide_b * each_b.repeat(block, 1)).T
    assert np.array_equal(result, wanted)
