"""The tensor core's operands, products and fragments against an H200's, and against what the copy engine laid out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tilewright.base.element import Element
from tilewright.base.plan import Swizzle, TensorMap
from tilewright.machine.copy.copy_engine import load_box
from tilewright.machine.core.engine_fault import EngineFault
from tilewright.machine.tensor_core.fragment import (
    accumulator_coordinates,
    matrix_fragment,
    operand_coordinates,
)
from tilewright.machine.tensor_core.wgmma import (
    decode_descriptor,
    exact,
    multiply_accumulate,
    multiply_accumulate_half,
    multiply_accumulate_integer,
    operand,
    operand_addresses,
    operand_ranges,
)
from tilewright.targets import target

HOPPER = target("sm_90a")

DATA = Path(__file__).parents[2] / "data"
SPANS: dict[Swizzle, int] = {"32B": 32, "64B": 64, "128B": 128}


def descriptor(start: int, leading: int, stride: int, swizzle: Swizzle, base_offset: int = 0) -> int:
    mode = {"none": 0, "128B": 1, "64B": 2, "32B": 3}[swizzle]
    return start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | base_offset << 49 | mode << 62


def test_products_of_measured_descriptors() -> None:
    """80 wgmma m64n64k16 of integers in bf16: every swizzle, both majors, patterns and starts aligned and not."""
    with np.load(DATA / "wgmma.npz") as archive:
        case = {name: archive[name] for name in archive.files}
    shared = np.zeros(1 << 18, np.uint8)
    image = case["image"].view(np.uint8)
    shared[1024 : 1024 + image.size] = image
    rows, columns = accumulator_coordinates(64)
    for index, (a_field, b_field) in enumerate(zip(case["a"].tolist(), case["b"].tolist(), strict=True)):
        a_major, b_major = ("mn" if transposed else "k" for transposed in case["transposed"][index])
        a = operand(shared, a_field, 64, 16, "bf16", a_major)
        b = operand(shared, b_field, 64, 16, "bf16", b_major)
        product = multiply_accumulate(a, b, np.zeros((64, 64), np.float32))
        assert np.array_equal(product[rows, columns], case["accumulator"][index]), (hex(a_field), hex(b_field))


def bf16_matrix(rows: int, columns: int, seed: int) -> tuple[NDArray[np.uint16], NDArray[np.float32]]:
    numbers = np.random.default_rng(seed).integers(-128, 128, (rows, columns)).astype(np.float32)
    return (numbers.view(np.uint32) >> 16).astype(np.uint16), numbers


def loaded(bits: NDArray[np.uint16], box: tuple[int, int], swizzle: Swizzle, parts: int, address: int):
    """`parts` boxes of a row-major matrix, left to right, one after another in shared memory from `address` on."""
    rows, columns = bits.shape
    tensor_map = TensorMap(Element.BF16, (columns, rows), (columns * 2,), box, swizzle=swizzle)
    shared = np.zeros(1 << 17, np.uint8)
    for part in range(parts):
        place = address + part * box[0] * box[1] * 2
        load = load_box(tensor_map, (part * box[0], 0), bits.reshape(-1).view(np.uint8), place, HOPPER)
        shared[load.shared_offsets] = load.values
    return shared


@pytest.mark.parametrize("swizzle", ["32B", "64B", "128B"])
@pytest.mark.parametrize("rows", [8, 64, 256])
def test_k_major_operand_is_the_tile_that_was_loaded(swizzle: Swizzle, rows: int) -> None:
    width = SPANS[swizzle] // 2
    bits, numbers = bf16_matrix(rows, width, rows)
    shared = loaded(bits, (width, rows), swizzle, 1, 2048)
    for k in range(0, width, 16):
        # A K step inside the atom advances the start address only.
        tile = operand(shared, descriptor(2048 + 2 * k, 16, 8 * SPANS[swizzle], swizzle), rows, 16, "bf16", "k")
        assert np.array_equal(tile, numbers[:, k : k + 16])


@pytest.mark.parametrize("swizzle", ["32B", "64B", "128B"])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_mn_major_operand_is_the_transposed_tile(swizzle: Swizzle, groups: int) -> None:
    width, depth = SPANS[swizzle] // 2, 64
    bits, numbers = bf16_matrix(depth, width * groups, groups)
    shared = loaded(bits, (width, depth), swizzle, groups, 1024)
    leading, stride = depth * SPANS[swizzle], 8 * SPANS[swizzle]
    for k in range(0, depth, 16):
        start = 1024 + k * SPANS[swizzle]
        tile = operand(shared, descriptor(start, leading, stride, swizzle), width * groups, 16, "bf16", "mn")
        assert np.array_equal(tile, numbers[k : k + 16].T)


@given(rows=st.sampled_from([8, 64, 128]), leading=st.integers(1, 40), stride=st.integers(1, 40))
@settings(max_examples=30, deadline=None)
def test_operands_without_swizzle_are_made_of_core_matrices(rows: int, leading: int, stride: int) -> None:
    field = descriptor(256, leading * 16, stride * 16, "none")
    k_major = operand_addresses(field, rows, 16, 2, "k")
    mn_major = operand_addresses(field, rows, 16, 2, "mn")
    for row in range(0, rows, 5):
        for k in range(16):
            group, inner = divmod(row, 8)
            column, byte = divmod(2 * k, 16)
            assert k_major[row, k] == 256 + group * stride * 16 + inner * 16 + column * leading * 16 + byte
            deep, line = divmod(k, 8)
            assert mn_major[row, k] == 256 + group * stride * 16 + inner * 2 + deep * leading * 16 + line * 16


def test_a_pattern_that_starts_between_its_periods() -> None:
    bits, numbers = bf16_matrix(64, 64, 3)
    aligned = loaded(bits, (64, 64), "128B", 1, 0)
    # The same bytes moved by three lines: base offset 3 says where the pattern starts.
    moved = np.roll(aligned, 3 * 128)
    tile = operand(moved, descriptor(3 * 128, 16, 1024, "128B", base_offset=3), 64, 16, "bf16", "k")
    assert np.array_equal(tile, numbers[:, :16])
    untold = operand(moved, descriptor(3 * 128, 16, 1024, "128B"), 64, 16, "bf16", "k")
    assert not np.array_equal(untold, numbers[:, :16])


def test_byte_ranges_cover_what_is_read() -> None:
    field = descriptor(4096, 16, 1024, "128B")
    addresses = operand_addresses(field, 64, 16, 2, "k")
    touched = {int(address) + byte for address in addresses.ravel() for byte in (0, 1)}
    covered = {byte for start, end in operand_ranges(field, 64, 16, 2, "k") for byte in range(start, end)}
    assert covered == touched
    assert operand_ranges(descriptor(0, 8192, 1024, "128B"), 64, 64, 2, "mn") == ((0, 8192),)


def test_descriptor_fields() -> None:
    fields = decode_descriptor(descriptor(0x3FFF0, 0x10, 0x3FFF0, "64B", base_offset=5))
    assert (fields.start_address, fields.leading_bytes, fields.stride_bytes) == (0x3FFF0, 0x10, 0x3FFF0)
    assert (fields.base_offset, fields.swizzle) == (5, "64B")
    for reserved in (14, 15, 30, 31, 46, 48, 52, 61):
        with pytest.raises(EngineFault):
            decode_descriptor(1 << reserved)


def test_products() -> None:
    random = np.random.default_rng(5)
    a = random.integers(-8, 8, (64, 16)).astype(np.float32)
    b = random.integers(-8, 8, (24, 16)).astype(np.float32)
    d = random.integers(-8, 8, (64, 24)).astype(np.float32)
    product = np.einsum("mk,nk->mn", a.astype(np.int64), b.astype(np.int64))
    assert np.array_equal(multiply_accumulate(a, b, d), product + d)
    assert np.array_equal(multiply_accumulate(a, b, d, scale_d=False), product)
    assert np.array_equal(multiply_accumulate(a, b, d, negate_a=True), d - product)
    assert np.array_equal(multiply_accumulate(a, b, d, negate_a=True, negate_b=True), d + product)
    assert np.array_equal(multiply_accumulate_half(a, b, d.astype(np.float16)), (product + d).astype(np.float16))
    big = np.full((64, 24), 2**31 - 1, np.int32)
    clamped = multiply_accumulate_integer(a, b, big, saturate=True)
    assert np.array_equal(clamped, np.minimum(product + (2**31 - 1), 2**31 - 1))
    wrapped = multiply_accumulate_integer(a, b, big)
    assert np.array_equal(wrapped, (product + (2**31 - 1)).astype(np.int64).astype(np.int32))
    with pytest.raises(EngineFault):
        multiply_accumulate(a, b, d[:, :8])


def test_operand_types() -> None:
    assert exact(np.array([0x3F801FFF], np.uint32), "tf32").tolist() == [1.0]
    assert exact(np.array([0x3C01], np.uint16), "f16").tolist() == [1 + 2**-10]
    assert exact(np.array([0x7E, 0x08], np.uint8), "e4m3").tolist() == [448.0, 2**-6]
    assert exact(np.array([0x7B], np.uint8), "e5m2").tolist() == [57344.0]
    assert exact(np.array([0x80], np.uint8), "s8").tolist() == [-128.0]
    assert exact(np.array([0x80], np.uint8), "u8").tolist() == [128.0]
    with pytest.raises(EngineFault):
        operand(np.zeros(1000, np.uint8), descriptor(0, 16, 1024, "128B"), 64, 16, "bf16", "k")
    with pytest.raises(EngineFault):
        operand_addresses(descriptor(0, 16, 1024, "128B"), 64, 32, 1, "mn")


@pytest.mark.parametrize("n", range(8, 257, 8))
def test_every_accumulator_element_has_one_owner(n: int) -> None:
    rows, columns = accumulator_coordinates(n)
    assert rows.shape == columns.shape == (128, n // 2)
    assert set((rows * n + columns).ravel().tolist()) == set(range(64 * n))


def test_accumulator_figure() -> None:
    rows, columns = accumulator_coordinates(16)
    # PTX ISA, figure of wgmma .m64nNk16 D: thread 0 holds (0, 0..1), (8, 0..1), (0, 8..9), (8, 8..9).
    assert list(zip(rows[0].tolist(), columns[0].tolist(), strict=True)) == [
        *((0, 0), (0, 1), (8, 0), (8, 1)),
        *((0, 8), (0, 9), (8, 8), (8, 9)),
    ]
    assert (rows[127, 0], columns[127, 0]) == (55, 6)
    for n in (4, 12, 264):
        with pytest.raises(EngineFault):
            accumulator_coordinates(n)


@pytest.mark.parametrize(("element_bytes", "depth"), [(1, 32), (2, 16), (4, 8)])
def test_every_operand_element_has_one_owner(element_bytes: int, depth: int) -> None:
    rows, k = operand_coordinates(element_bytes)
    assert rows.shape == (128, 16 // element_bytes)
    assert set((rows * depth + k).ravel().tolist()) == set(range(64 * depth))
    assert (rows[5, 0], k[5, 0]) == (1, 4 // element_bytes)


def test_matrix_loads() -> None:
    every = matrix_fragment("m8n8", 4, False)
    assert (every.lines, every.places.shape) == (32, (4, 32, 4))
    # Lane 9 holds of matrix 1 elements 2 and 3, bytes 4 to 7, of row 2, which is line 10.
    assert every.places[1, 9].tolist() == [16 * 10 + byte for byte in range(4, 8)]
    flipped = matrix_fragment("m8n8", 4, True)
    # Transposed: element 2 of row 2 comes from row 2 and 3, column 2; bytes 4 and 5 of lines 10 and 11.
    assert flipped.places[1, 9].tolist() == [16 * 10 + 4, 16 * 10 + 5, 16 * 11 + 4, 16 * 11 + 5]
    for shape, count, transposed in (("m8n8", 2, True), ("m16n16", 2, True), ("m16n8", 4, True)):
        fragment = matrix_fragment(shape, count, transposed)  # pyright: ignore[reportArgumentType]
        assert sorted(fragment.places.reshape(-1).tolist()) == list(range(16 * fragment.lines))
    with pytest.raises(EngineFault):
        matrix_fragment("m8n8", 3, False)
    with pytest.raises(EngineFault):
        matrix_fragment("m16n8", 1, False)
