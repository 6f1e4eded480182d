"""`copy_box` against what an H200's copy engine left in shared memory, for every measured load, and its errors."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from tests.machine.copy.measured_copies import POISON, measured_buffer, rows

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import Im2col
from tilewright.base.plan import TensorMap as PlanMap
from tilewright.legal.tensor_map.legality import check
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.machine import BoxImage, copy_box

DTYPES = {
    Element.U8: "u8",
    Element.U16: "u16",
    Element.U32: "u32",
    Element.U64: "u64",
    Element.F16: "f16",
    Element.BF16: "bf16",
}


def poisoned(image: BoxImage) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    shared = np.full(1 << 18, POISON, np.uint8)
    shared[: image.data.size][image.written] = image.data[image.written]
    return shared


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["tma_11s.npz", "tma_11e.npz", "tma_11es.npz", "tma_3i.npz"])
def test_boxes_match_the_hardware(name: str) -> None:
    interleaved_guesses_wrong = 0
    for index, row in enumerate(rows(name)):
        plan = row.map
        described = TensorMap(
            DTYPES[plan.element],
            plan.dims,
            plan.strides_bytes,
            plan.box,
            element_strides=plan.element_strides,
            interleave=plan.interleave,
            swizzle=plan.swizzle,
            oob_fill=plan.out_of_bounds,
            address=row.offset,
        )
        image = copy_box(described, measured_buffer(), row.coordinates, target="sm_90a")
        shared = poisoned(image)
        assert np.array_equal(shared[: row.payload.size], row.payload), (name, index, described, row.coordinates)
        assert np.count_nonzero(shared[row.expected_bytes : 1 << 16] != POISON) == row.tail, (name, index)
        assert not image.data[~image.written].any()
        assert image.transaction_bytes == np.count_nonzero(image.written)
        if plan.interleave == "none":
            assert row.done and image.transaction_bytes == row.expected_bytes, (name, index)
        elif image.transaction_bytes == row.expected_bytes:
            assert row.done, (name, index)
        else:
            interleaved_guesses_wrong += 1
    assert (interleaved_guesses_wrong > 10) == (name == "tma_3i.npz")


def matrix(**fields: object) -> TensorMap:
    given: dict[str, object] = {"dtype": "bf16", "dims": (64, 8), "strides": (128,), "box": (64, 4), **fields}
    return TensorMap(**given)  # pyright: ignore[reportArgumentType]


def test_rows_narrower_than_the_swizzle_stand_a_span_apart() -> None:
    image = copy_box(matrix(box=(16, 4), swizzle="128B"), np.arange(1024, dtype=np.uint8), (0, 0), target="sm_90a")
    assert (image.footprint_bytes, image.transaction_bytes, np.count_nonzero(image.written)) == (512, 128, 128)


def test_a_map_of_a_plan_and_a_described_one_are_one() -> None:
    memory = np.random.default_rng(3).integers(0, 256, 2048, dtype=np.uint8)
    plan = PlanMap(Element.BF16, (64, 8), (128,), (64, 4), swizzle="128B", offset_bytes=64)
    one, other = (
        copy_box(plan, memory, [0, 5], target="sm_90a"),
        copy_box(matrix(swizzle="128B", address=64), memory, np.array([0, 5]), target="sm_90a"),
    )
    assert np.array_equal(one.data, other.data)
    assert not one.data[384:].any() and one.data[:384].any()


@pytest.mark.parametrize(
    ("fields", "coords", "size", "message"),
    [
        ({}, (0,), 1024, "1 coordinates for a tensor map of rank 2"),
        ({}, (4, 0), 1024, "start coordinate 4 of dimension 0 is 8 bytes in, no multiple of 16"),
        ({}, (0, 0), 500, "a tensor copy reads to byte 512 of a tensor whose buffer has 500"),
        ({"address": 4096}, (0, 0), 500, "the tensor begins at 4096, outside the 500 bytes of memory"),
        ({"box": (128, 4), "swizzle": "128B"}, (0, 0), 1024, "row of 256 bytes exceeds the swizzle span 128"),
        ({"box": (64, 2**40)}, (0, 0), 1024, "a box of 1099511627776 rows of 128 bytes"),
        ({"dims": (64, 2**31 + 1)}, (0, 0), 1024, "an extent of 2147483649 is beyond a copy's 2147483648"),
        ({"strides": (-16,)}, (0, 0), 1024, "a stride of -16 bytes is no tensor map's"),
        ({}, (0, 2**31), 1024, "coordinate 2147483648 is no signed 32-bit number"),
        ({}, (0.5, 0), 1024, "coords[0] is 0.5, not an integer"),
    ],
)  # fmt: skip
def test_misuse_is_one_line(fields: dict[str, object], coords: tuple[int, ...], size: int, message: str) -> None:
    with pytest.raises(TilewrightError) as caught:
        copy_box(matrix(**fields), np.zeros(size, np.uint8), coords, target="sm_90a")
    assert message in caught.value.message
    assert "\n" not in caught.value.message and caught.value.remedy


def test_memory_is_one_dimension_of_bytes() -> None:
    with pytest.raises(TilewrightError, match="memory is an array of float32 with 2 dimensions"):
        copy_box(matrix(), np.zeros((4, 4), np.float32), (0, 0), target="sm_90a")  # pyright: ignore[reportArgumentType]


def test_what_is_no_map_and_no_memory() -> None:
    with pytest.raises(TilewrightError, match="'map' is no tensor map"):
        copy_box("map", np.zeros(16, np.uint8), (0, 0), target="sm_90a")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TilewrightError, match="memory is no array"):
        copy_box(matrix(), [1, 2], (0, 0), target="sm_90a")  # pyright: ignore[reportArgumentType]


def test_offsets_are_for_im2col_maps() -> None:
    with pytest.raises(TilewrightError, match="2 pixel offsets for a tensor map of rank 2 in tile mode"):
        copy_box(matrix(), np.zeros(1024, np.uint8), (0, 0), (1, 1), target="sm_90a")


def test_packed_values_of_4_bits_take_half_the_space_they_are_given() -> None:
    # PTX ISA 5.5.1.1: sixteen values of 4 bits, 8 bytes, go to the first 8 of 16 bytes of shared memory.
    memory = np.arange(1, 129, dtype=np.uint8)
    plan = PlanMap(Element.U8, (128, 2), (64,), (128, 2), variant="u4x16_align16")
    image = copy_box(plan, memory, (0, 0), target="sm_90a")
    # CUTLASS and Triton expect the packed bytes of such a copy.
    assert (image.footprint_bytes, image.transaction_bytes) == (256, 128)
    lines, written = image.data.reshape(16, 16), image.written.reshape(16, 16)
    assert np.array_equal(lines[:, :8].reshape(-1), memory)
    assert written[:, :8].all() and not written[:, 8:].any()


def test_packed_values_of_6_bits_leave_4_bytes_of_16() -> None:
    memory = np.arange(96, dtype=np.uint8)
    image = copy_box(PlanMap(Element.U8, (128,), (), (128,), variant="u6x16_align16"), memory, (0,), target="sm_90a")
    assert np.array_equal(image.data.reshape(8, 16)[:, :12].reshape(-1), memory)
    assert not image.written.reshape(8, 16)[:, 12:].any()
    dense = copy_box(PlanMap(Element.U8, (64,), (), (64,), variant="u4x16_align8"), memory, (32,), target="sm_90a")
    assert np.array_equal(dense.data, np.concatenate((memory[16:32], np.zeros(16, np.uint8))))
    assert dense.transaction_bytes == 32


def test_a_map_without_images_is_no_column() -> None:
    column = Im2col((0,), (0,), 8, 4)
    with pytest.raises(TilewrightError, match="im2col takes rank 3 to 5"):
        copy_box(
            PlanMap(Element.BF16, (8, 8), (16,), (), im2col=column), np.zeros(128, np.uint8), (0, 0), target="sm_90a"
        )


def test_importing_the_machine_stays_light() -> None:
    code = "import sys, tilewright.machine; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(("swizzle", "footprint"), [("none", 288), ("32B", 288), ("64B", 320), ("128B", 384)])
def test_slices_that_end_inside_a_span_take_all_of_it(swizzle: str, footprint: int) -> None:
    # 18 slices of 16 bytes: the last two stand in line 2, where the swizzles of 64 and 128 bytes turn by 2 chunks.
    map = TensorMap("f64", (64, 64, 16), (1024, 65536), (2, 1, 9), interleave="16B", swizzle=swizzle)
    image = copy_box(map, np.full(1 << 21, 7, np.uint8), (0, 0, 0), target="sm_90a")
    assert image.footprint_bytes == footprint == check(map, "sm_90a").footprint_bytes
    assert image.transaction_bytes == image.written.sum() == 288 == check(map, "sm_90a").transaction_bytes
    turned = swizzle in ("64B", "128B")
    assert np.flatnonzero(image.written)[-1] + 1 == (320 if turned else 288)
    assert ("TM034" in {warning.code for warning in check(map, "sm_90a").warnings}) == turned
