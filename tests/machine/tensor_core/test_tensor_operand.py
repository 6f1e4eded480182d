"""Operand tiles of tcgen05 against wgmma's, which an H200 confirmed, and against tiles placed element by element."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright.base.error import TilewrightError
from tilewright.legal.descriptor.tensor_core_descriptor import Layout, SharedDescriptor, encode_shared
from tilewright.machine.core.engine_fault import EngineFault
from tilewright.machine.tensor_core import wgmma as tensor_core
from tilewright.machine.tensor_core.tensor_operand import (
    load_tile,
    read_descriptor,
    row_chunks,
    scale_values,
    tile_ranges,
)

WGMMA_MODES: dict[Layout, int] = {"none": 0, "128B": 1, "64B": 2, "32B": 3}
DEPTHS: dict[Any, int] = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32}


def _bytes() -> Any:
    return np.random.default_rng(7).integers(0, 256, 65536).astype(np.uint8)


@pytest.mark.parametrize("layout", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("element", ["f16", "tf32", "e4m3", "s8"])
@pytest.mark.parametrize("start", [1024, 1024 + 32, 2048 + 256])
def test_k_major_tiles_are_those_of_wgmma(layout: Layout, element: Any, start: int) -> None:
    base_offset = 2 if start == 2048 + 256 and layout != "none" else 0
    descriptor = encode_shared(SharedDescriptor(start, 2048, 4096, base_offset, layout))
    old = start >> 4 | 128 << 16 | 256 << 32 | base_offset << 49 | WGMMA_MODES[layout] << 62
    shared, depth = _bytes(), DEPTHS[element]
    ours = load_tile(shared, descriptor, 64, depth, element, "k", False)
    theirs = tensor_core.operand(shared, old, 64, depth, element, "k")
    assert np.array_equal(ours, theirs, equal_nan=True)
    width = tensor_core.ELEMENT_BYTES[element]
    assert tile_ranges(descriptor, 64, depth, element, "k") == tensor_core.operand_ranges(old, 64, depth, width, "k")


@pytest.mark.parametrize("layout", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_mn_major_tiles_are_those_of_wgmma(layout: Layout, element: Any) -> None:
    descriptor = encode_shared(SharedDescriptor(4096, 2048, 1024, 0, layout))
    old = 4096 >> 4 | 128 << 16 | 64 << 32 | WGMMA_MODES[layout] << 62
    shared = _bytes()
    ours = load_tile(shared, descriptor, 128, 16, element, "mn", False)
    assert np.array_equal(ours, tensor_core.operand(shared, old, 128, 16, element, "mn"), equal_nan=True)


@pytest.mark.parametrize("layout", ["none", "32B", "64B", "128B"])
def test_mn_major_bytes(layout: Layout) -> None:
    """Element (m, k) placed by the canonical layout ((16, w, m), (8, k)) with the pattern of the address's bits."""
    width = {"none": 16, "32B": 32, "64B": 64, "128B": 128}[layout]
    bits = {"none": 0, "32B": 1, "64B": 2, "128B": 3}[layout]
    leading, stride = (8192, 128) if layout == "none" else (8192, width * 8)
    shared = np.zeros(65536, np.uint8)
    wanted = np.random.default_rng(1).integers(-100, 100, (64, 32)).astype(np.int8)
    for m in range(64):
        for k in range(32):
            if layout == "none":
                at = m % 16 + m // 16 * stride + k % 8 * 16 + k // 8 * leading
            else:
                at = m % width + m // width * leading + k % 8 * width + k // 8 * stride
            at ^= (at >> 7 & (1 << bits) - 1) << 4
            shared[at] = wanted[m, k].view(np.uint8)
    descriptor = encode_shared(SharedDescriptor(0, leading, stride, 0, layout))
    assert np.array_equal(load_tile(shared, descriptor, 64, 32, "s8", "mn", False), wanted)


def test_mn_major_words_have_atoms_of_32_bytes() -> None:
    shared = np.zeros(65536, np.uint8)
    wanted = np.arange(64 * 8, dtype=np.float32).reshape(64, 8)
    for m in range(64):
        for k in range(8):
            at = m % 32 * 4 + m // 32 * 4096 + k % 4 * 128 + k // 4 * 512
            at ^= (at >> 7 & 3) << 5
            shared[at : at + 4] = wanted[m, k : k + 1].view(np.uint8)
    descriptor = encode_shared(SharedDescriptor(0, 4096, 512, 0, "128B_atom_32B"))
    assert np.array_equal(load_tile(shared, descriptor, 64, 8, "tf32", "mn", False), wanted)


def test_narrow_elements() -> None:
    rows, generator = 8, np.random.default_rng(3)
    plain = encode_shared(SharedDescriptor(0, 128, 256, 0, "none"))
    codes = generator.integers(0, 16, (rows, 64)).astype(np.uint8)
    shared = np.zeros(1024, np.uint8)
    packed = codes[:, 0::2] | codes[:, 1::2] << 4
    shared[:128], shared[128:256] = packed[:, :16].reshape(-1), packed[:, 16:].reshape(-1)
    expected = codes.view(ml_dtypes.float4_e2m1fn).astype(np.float32)
    assert np.array_equal(load_tile(shared, plain, rows, 64, "e2m1", "k", True), expected)

    # Sixteen elements a chunk: 8 bytes of 4-bit codes, or 12 of 6-bit codes, then nothing.
    for element, bits, dtype in (("e2m1", 4, ml_dtypes.float4_e2m1fn), ("e2m3", 6, ml_dtypes.float6_e2m3fn),
                                 ("e3m2", 6, ml_dtypes.float6_e3m2fn)):  # fmt: skip
        codes = generator.integers(0, 1 << bits, (rows, 32)).astype(np.uint8)
        shared = np.full(1024, 0xCC, np.uint8)
        for row in range(rows):
            for chunk in range(2):
                number = sum(int(code) << bits * i for i, code in enumerate(codes[row, 16 * chunk : 16 * chunk + 16]))
                at = chunk * 128 + row * 16
                shared[at : at + 2 * bits] = np.frombuffer(number.to_bytes(2 * bits, "little"), np.uint8)
        element_any: Any = element
        found = load_tile(shared, plain, rows, 32, element_any, "k", False)
        assert np.array_equal(found, codes.view(dtype).astype(np.float32))


def test_scale_factors() -> None:
    codes = np.array([0, 126, 127, 130, 254, 255], np.uint8)
    powers = scale_values(codes, "ue8m0")
    assert powers[:5].tolist() == [2.0**-127, 0.5, 1.0, 8.0, 2.0**127]
    assert np.isnan(powers[5])
    assert scale_values(np.array([0x38, 0xB8, 0x40], np.uint8), "ue4m3").tolist() == [1.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (SharedDescriptor(0, 0, 0, constant=0), "wgmma"),
        (SharedDescriptor(0, 0, 0, layout=None), "no layout"),
        (SharedDescriptor(0, 0, 0, reserved=1 << 55), "reserved"),
    ],
)
def test_illegal_descriptors(fields: SharedDescriptor, message: str) -> None:
    with pytest.raises(EngineFault, match=message) as caught:
        read_descriptor(encode_shared(fields))
    assert caught.value.code == "TC209"


def test_absolute_offsets_are_refused() -> None:
    with pytest.raises(TilewrightError, match="absolute"):
        read_descriptor(encode_shared(SharedDescriptor(0, 0, 0, absolute_leading=True)))


def test_layouts_that_do_not_fit_the_operand() -> None:
    atoms = SharedDescriptor(0, 0, 512, 0, "128B_atom_32B")
    with pytest.raises(EngineFault, match="MN-major"):
        row_chunks(atoms, 64, 2)
    with pytest.raises(EngineFault, match="32-bit"):
        load_tile(_bytes(), encode_shared(atoms), 64, 16, "f16", "mn", False)
    with pytest.raises(EngineFault, match="32-bit"):
        load_tile(_bytes(), encode_shared(SharedDescriptor(0, 0, 512, 0, "128B")), 64, 8, "tf32", "mn", False)
    with pytest.raises(EngineFault, match="covers bytes"):
        load_tile(_bytes()[:1024], encode_shared(SharedDescriptor(0, 16, 1024)), 64, 16, "f16", "k", False)
