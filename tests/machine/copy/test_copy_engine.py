"""The copy engine against what an H200's left in shared and in global memory, and against properties of stores.

`tma_11s`, `tma_11e`, `tma_11es`, `tma_3i`: loads to a 1024-byte-aligned destination. `tma_phase`: loads to destinations
that are multiples of 128, NaN fill of all widths, interleave with every swizzle. `tma_store`: stores.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.machine.copy.measured_copies import DATA, POISON, SWIZZLES, Row, measured_buffer, rows

from tilewright.base.element import Element
from tilewright.base.plan import Swizzle, TensorMap
from tilewright.machine.copy.box import merged
from tilewright.machine.copy.copy_engine import BoxLoad, footprint_bytes, load_box, store_box, transaction_bytes
from tilewright.machine.core.engine_fault import EngineFault
from tilewright.targets import target

HOPPER = target("sm_90a")

SHARED_BYTES = 1 << 18


def after(row: Row, load: BoxLoad) -> NDArray[np.uint8]:
    shared = np.full(SHARED_BYTES, POISON, np.uint8)
    shared[load.shared_offsets] = load.values
    return shared


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["tma_11s.npz", "tma_11e.npz", "tma_11es.npz", "tma_3i.npz"])
def test_loads_match_the_hardware(name: str) -> None:
    for index, row in enumerate(rows(name)):
        load = load_box(row.map, row.coordinates, measured_buffer()[row.offset :], 0, HOPPER)
        shared = after(row, load)
        assert np.array_equal(shared[: row.payload.size], row.payload), (name, index, row.map, row.coordinates)
        # The harness read 64 KiB back and counted bytes that differ from the poison past the expected transaction.
        tail = np.count_nonzero(shared[row.expected_bytes : 1 << 16] != POISON)
        assert tail == row.tail, (name, index, tail, row.tail)
        # A box larger than expected may still have ended the phase: the barrier is told piece by piece, and the sum so
        # far may have met the expectation on the way. A smaller one never does.
        if load.transaction_bytes <= row.expected_bytes:
            assert row.done == (load.transaction_bytes == row.expected_bytes), (name, index)
        else:
            assert row.map.interleave != "none", (name, index)
        assert load.shared_ranges == merged(load.shared_offsets)
        assert load.transaction_bytes == load.values.size == transaction_bytes(row.map, HOPPER)
        assert load.shared_ranges[-1][1] <= footprint_bytes(row.map, HOPPER)


def cases(name: str) -> list[tuple[TensorMap, dict[str, Any], NDArray[np.uint8]]]:
    """Each measured copy: its map, the rest of the case, and the bytes seen afterwards."""
    with np.load(DATA / name) as archive:
        given_, data = json.loads(str(archive["cases"])), archive["data"]
    fields = ("dims", "strides_bytes", "box", "element_strides")
    found: list[tuple[TensorMap, dict[str, Any], NDArray[np.uint8]]] = []
    start = 0
    for case in given_:
        tensor_map = TensorMap(
            element=Element(case["element"]),
            swizzle=case["swizzle"],
            interleave=case["interleave"],
            out_of_bounds=case["out_of_bounds"],
            **{field: tuple(case[field]) for field in fields},
        )
        found.append((tensor_map, case, data[start : start + case["bytes"]]))
        start += case["bytes"]
    return found


def test_loads_to_any_line_of_the_swizzle_match_the_hardware() -> None:
    for index, (tensor_map, case, seen) in enumerate(cases("tma_phase.npz")):
        load = load_box(
            tensor_map, tuple(case["coordinates"]), measured_buffer()[: 1 << 19], case["shared_address"], HOPPER
        )
        shared = np.full(SHARED_BYTES, POISON, np.uint8)
        shared[load.shared_offsets] = load.values
        assert np.array_equal(shared[1024 : 1024 + seen.size], seen), (index, tensor_map, case)
        assert not np.any(shared[1024 + seen.size :] != POISON)
        assert load.transaction_bytes == case["transaction_bytes"]


def test_stores_match_the_hardware() -> None:
    # Shared byte 1024 + i held the top 8 bits of i * 2654435761 + 485, modulo 2^32.
    source = np.arange(1 << 16, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(485)
    shared = np.zeros(SHARED_BYTES, np.uint8)
    shared[1024 : 1024 + source.size] = (source >> np.uint32(24)).astype(np.uint8)
    clipped = overrun = 0
    for index, (tensor_map, case, seen) in enumerate(cases("tma_store.npz")):
        store = store_box(tensor_map, tuple(case["coordinates"]), shared, case["shared_address"], HOPPER)
        tensor = np.full(seen.size, POISON, np.uint8)
        tensor[store.global_offsets] = store.values
        assert np.array_equal(tensor, seen), (index, tensor_map, case)
        clipped += store.values.size < transaction_bytes(tensor_map, HOPPER)
        inner_bytes = tensor_map.dims[0] * tensor_map.element.bytes
        pitch = tensor_map.strides_bytes[0] if tensor_map.strides_bytes else 1 << 20
        if tensor_map.interleave == "none" and store.values.size:
            overrun += bool(np.any(store.global_offsets % pitch >= inner_bytes))
    assert clipped > 50
    assert overrun > 10


def matrix(rows_: int, columns: int, **fields: object) -> TensorMap:
    """A dense row-major bf16 matrix, boxed 8 x 64 unless `fields` say otherwise."""
    given: dict[str, object] = {
        "element": Element.BF16,
        "dims": (columns, rows_),
        "strides_bytes": (-(-columns * 2 // 16) * 16,),
        "box": (64, 8),
        **fields,
    }
    return TensorMap(**given)  # pyright: ignore[reportArgumentType]


def image(size: int, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)


@given(
    rows_=st.integers(1, 20),
    columns=st.integers(1, 100),
    swizzle=st.sampled_from(SWIZZLES),
    chunks=st.integers(1, 8),
    height=st.integers(1, 16),
    row=st.integers(0, 24),
    column=st.integers(0, 14),
    page=st.integers(0, 9),
)
def test_a_store_undoes_a_load(
    rows_: int, columns: int, swizzle: Swizzle, chunks: int, height: int, row: int, column: int, page: int
) -> None:
    width = min(chunks, {"none": 8, "32B": 2, "64B": 4, "128B": 8}[swizzle]) * 8
    tensor_map = matrix(rows_, columns, swizzle=swizzle, box=(width, height))
    source = image(rows_ * tensor_map.strides_bytes[0])
    coordinates = (column * 8, row)
    load = load_box(tensor_map, coordinates, source, page * 128, HOPPER)
    shared = np.zeros(1 << 15, np.uint8)
    shared[load.shared_offsets] = load.values
    store = store_box(tensor_map, coordinates, shared, page * 128, HOPPER)
    target = np.full(source.size, POISON, np.uint8)
    target[store.global_offsets] = store.values
    picture, original = target.view(np.uint16), source.view(np.uint16)
    pitch = tensor_map.strides_bytes[0] // 2
    for r in range(rows_):
        for c in range(pitch):
            covered = row <= r < row + height and column * 8 <= c < column * 8 + width
            at = r * pitch + c
            if covered and c < columns:
                assert picture[at] == original[at]
            elif not covered:
                assert picture[at] == 0xCCCC
    assert store.global_ranges == merged(store.global_offsets)
    assert store.shared_ranges == load.shared_ranges


def test_a_store_past_the_inner_edge_runs_to_16_bytes() -> None:
    tensor_map = matrix(4, 60, strides_bytes=(256,), box=(64, 2))
    store = store_box(tensor_map, (0, 0), image(256), 0, HOPPER)
    assert store.global_ranges == ((0, 128), (256, 384))
    far = matrix(4, 56, strides_bytes=(256,), box=(64, 2))
    assert store_box(far, (0, 3), image(256), 0, HOPPER).global_ranges == ((768, 880),)


def test_a_box_wholly_outside_is_filled_and_not_stored() -> None:
    tensor_map = matrix(4, 64, out_of_bounds="nan")
    load = load_box(tensor_map, (-64, 0), image(4 * 128), 0, HOPPER)
    assert set(load.values.view(np.uint16).tolist()) == {0x7FF7}
    assert load.global_ranges == ()
    assert load.transaction_bytes == 1024
    store = store_box(tensor_map, (64, 0), image(1024), 0, HOPPER)
    assert store.global_offsets.size == 0
    assert store.shared_ranges == ((0, 1024),)


@pytest.mark.parametrize(
    ("fields", "coordinates", "address", "size", "name"),
    [
        ({}, (4, 0), 0, 1 << 12, "coordinate-alignment"),
        ({}, (0, 0), 64, 1 << 12, "shared-alignment"),
        ({}, (0, 0), 0, 1000, "global-range"),
        ({}, (0, 0, 0), 0, 1 << 12, "tensor-map"),
        ({"swizzle": "64B"}, (0, 0), 0, 1 << 12, "tensor-map"),
        ({"box": (60, 8)}, (0, 0), 0, 1 << 12, "tensor-map"),
        ({"interleave": "16B"}, (0, 0), 0, 1 << 12, "tensor-map"),
        ({"element": Element.U16, "out_of_bounds": "nan"}, (64, 0), 0, 1 << 12, "tensor-map"),
    ],
)
def test_misuse_is_a_fault(
    fields: dict[str, object], coordinates: tuple[int, ...], address: int, size: int, name: str
) -> None:
    with pytest.raises(EngineFault) as caught:
        load_box(matrix(8, 64, **fields), coordinates, image(size), address, HOPPER)
    assert caught.value.name == name


def test_store_faults() -> None:
    with pytest.raises(EngineFault) as caught:
        store_box(matrix(8, 64), (-8, 0), image(1024), 0, HOPPER)
    assert caught.value.name == "store-coordinate"
    with pytest.raises(EngineFault) as caught:
        store_box(matrix(8, 64), (0, 0), image(1000), 0, HOPPER)
    assert caught.value.name == "shared-range"


def test_a_box_within_bounds_reads_just_its_rows() -> None:
    tensor_map = matrix(64, 128, swizzle="128B")
    load = load_box(tensor_map, (64, 3), image(64 * 256), 1024, HOPPER)
    assert load.global_ranges == tuple((256 * r + 128, 256 * r + 256) for r in range(3, 11))
    assert load.shared_ranges == ((1024, 2048),)
