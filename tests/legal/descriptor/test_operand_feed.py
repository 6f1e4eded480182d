"""What the copy engine writes is what the matrix instruction reads: every pair of map and descriptor, against models.

The models of the machine (copy engine, wgmma, tcgen05) move real bytes; an H200 confirmed the first two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tilewright.base.error import TilewrightError
from tilewright.legal.descriptor.operand_feed import tma_feeds_mma
from tilewright.legal.descriptor.shared_operand import OperandDescriptor, depth_step, encode, instruction_of, layout_of
from tilewright.legal.descriptor.shared_operand_fit import OperandFit, descriptor_for
from tilewright.legal.tensor_map.im2col_map import Im2colMap
from tilewright.legal.tensor_map.loaded_tile import loaded_layout
from tilewright.legal.tensor_map.swizzle_code import operand_swizzles, row_bytes, swizzles
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.machine.copy.copy_engine import load_box
from tilewright.machine.tensor_core.tensor_operand import tile_chunks
from tilewright.machine.tensor_core.wgmma import operand_addresses
from tilewright.targets import Target, target

HOPPER = target("sm_90a")

DATA = Path(__file__).parents[2] / "data"
HOPPER, BLACKWELL = target("sm_90a"), target("sm_100a")
DTYPES = {1: "u8", 2: "bf16", 4: "f32"}
TCGEN05_ELEMENTS: dict[int, Any] = {1: "e4m3", 2: "bf16", 4: "tf32"}
MEMORY = np.random.default_rng(5).integers(0, 256, 1 << 18).astype(np.uint8)


@dataclass(frozen=True)
class Case:
    """A tile: some boxes of a map at their destinations, its contiguous side along K or along the rows."""

    map: TensorMap
    coordinates: tuple[tuple[int, ...], ...]
    destinations: tuple[int, ...]
    row_dims: tuple[int, ...]
    depth_dims: tuple[int, ...]

    def written(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Shared memory after the loads, and the tile's elements as bytes. [rows, depth, element bytes]"""
        shared = np.full(1 << 20, 0xCC, np.uint8)
        plan = self.map.to_plan()
        for start, place in zip(self.coordinates, self.destinations, strict=True):
            load = load_box(plan, start, MEMORY, place, HOPPER)
            shared[load.shared_offsets] = load.values
        width = plan.element.bytes
        indices: list[NDArray[np.int64]] = []
        counts = (*self.map.box, len(self.destinations))
        for dims in (self.row_dims, self.depth_dims):
            index = np.arange(np.prod([counts[dim] for dim in dims], dtype=int))
            place: dict[int, NDArray[np.int64]] = {}
            for dim in dims:
                place[dim], index = index % counts[dim], index // counts[dim]
            box = place.pop(self.map.rank, 0)
            corner = np.array(self.coordinates)[box]
            strides = (width, *self.map.strides)
            moved = sum((place.get(dim, 0) * strides[dim] for dim in range(self.map.rank)), np.zeros(1, np.int64))
            indices.append(moved + (corner * np.array(strides)).sum(axis=-1) * (self.map.rank in dims))
        base = 0 if any(self.map.rank in dims for dims in (self.row_dims, self.depth_dims)) else self._corner(width)
        at = base + indices[0][:, None] + indices[1][None, :]
        return shared, MEMORY[at[:, :, None] + np.arange(width)]

    def _corner(self, width: int) -> int:
        return int((np.array(self.coordinates[0]) * np.array((width, *self.map.strides))).sum())


def cases(where: Target, width: int) -> Iterator[tuple[str, Case]]:
    """Tiles of 64 rows or columns under every swizzle, with whole and half spans, one and two boxes, every phase."""
    for swizzle in swizzles(where):
        span = row_bytes(swizzle, where) if swizzle != "none" else 32
        for inner_bytes in {span, max(16, span // 2), 16}:
            inner = inner_bytes // width
            pitch = span if swizzle != "none" else inner_bytes
            for outer in (64, 32):
                footprint = outer * pitch
                wide = TensorMap(DTYPES[width], (4 * inner, outer), (4 * inner_bytes,), (inner, outer), swizzle=swizzle)
                for boxes, phase, gap in ((1, 0, 0), (2, 0, 0), (4, 0, 128), (1, 3, 0), (2, 1, 0)):
                    places = tuple(4096 + 128 * phase + box * (footprint + gap) for box in range(boxes))
                    starts = tuple((box * inner, 0) for box in range(boxes))
                    yield "K", Case(wide, starts, places, (1,), (0, 2))
                    yield "MN", Case(wide, starts, places, (0, 2), (1,))
    # Core matrices: chunks of 16 bytes, one after the other, as the third dimension of one box.
    chunk, chunks = 16 // width, 4
    cores = TensorMap(DTYPES[width], (chunk, 64, chunks), (16 * chunks, 16), (chunk, 64, chunks))
    yield "K", Case(cores, ((0, 0, 0),), (4096,), (1,), (0, 2))
    yield "MN", Case(cores, ((0, 0, 0),), (4096,), (0, 2), (1,))


def descriptors(case: Case, where: Target) -> Iterator[OperandDescriptor]:
    """Descriptors of every layout with the distances that dense tiles have, and one that is off."""
    start = case.destinations[0]
    apart = case.destinations[1] - start if len(case.destinations) > 1 else 64 * 16
    for swizzle in operand_swizzles(instruction_of(where), where):
        width = row_bytes(swizzle, where)
        for leading, stride in ((apart, 8 * width), (apart, 4 * width), (8 * width, apart), (16, 8 * width + 16)):
            yield OperandDescriptor(start, leading, stride, swizzle)
        if swizzle != "none":
            yield OperandDescriptor(start, apart, 8 * width, swizzle, base_offset=1)


def read_by_machine(descriptor: OperandDescriptor, major: Any, rows: int, width: int, where: Target) -> Any:
    """Where the machine reads the elements of one instruction's operand. [rows, depth]"""
    bits, depth = encode(descriptor, where), depth_step(width, where)
    if instruction_of(where) == "wgmma":
        return operand_addresses(bits, rows, depth, width, major.lower())
    chunks = tile_chunks(bits, rows, depth, TCGEN05_ELEMENTS[width], major.lower())
    inside = np.arange(16 // width) * width
    if major == "K":
        return (chunks[:, :, None] + inside).reshape(rows, depth)
    return (chunks[:, None, :] + inside[:, None]).reshape(rows, depth)


@pytest.mark.sample(1)
@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("where", [HOPPER, BLACKWELL], ids=["sm_90a", "sm_100a"])
def test_every_pair_of_map_and_descriptor(where: Target, width: int) -> None:
    agreeing: set[tuple[Any, ...]] = set()
    proofs: set[str] = set()
    for major, case in cases(where, width):
        shared, tile = case.written()
        depth = depth_step(width, where)
        if tile.shape[1] < depth or tile.shape[0] % 16:
            continue
        layout = loaded_layout(case.map, where, case.destinations, case.row_dims, case.depth_dims)
        assert np.array_equal(shared[layout[:, :, None] + np.arange(width)], tile)
        rows = tile.shape[0]
        for descriptor in descriptors(case, where):
            found = tma_feeds_mma(
                case.map, descriptor, where, major=major, destinations=case.destinations, row_dims=case.row_dims,
                depth_dims=case.depth_dims,
            )  # fmt: skip
            try:
                layout_of(descriptor, major, rows, depth, width, where)
            except TilewrightError as error:
                assert not found.ok and found.why in error.message
                continue
            at = read_by_machine(descriptor, major, rows, width, where)
            same = np.array_equal(shared[at[:, :, None] + np.arange(width)], tile[:, :depth])
            assert found.ok == same, (case, descriptor, found)
            assert found.ok == (found.why == "") == (found.proof is not None)
            if found.ok:
                assert found.proof is not None
                proofs.add(found.proof)
                agreeing.add((case.map.swizzle, descriptor.swizzle, major))
            else:
                assert found.mismatch is not None
                row, k, written, read = found.mismatch
                assert written == layout[row, k] != read == at[row, k]
    assert proofs == {"linear", "enumerated"}
    same_swizzle = [(name, name) for name in ("none", "32B", "64B", "128B")]
    expected: set[tuple[Any, ...]] = {(*pair, "K") for pair in same_swizzle}
    if width == 2 or (where is BLACKWELL and width == 1):
        expected |= {(*pair, "MN") for pair in same_swizzle}
    if where is BLACKWELL and width == 4:
        expected.add(("128B_atom_32B", "128B_atom_32B", "MN"))
    assert agreeing == expected


@pytest.mark.sample(1)
@pytest.mark.parametrize("where", [HOPPER, BLACKWELL], ids=["sm_90a", "sm_100a"])
def test_descriptors_that_were_found_feed(where: Target) -> None:
    """`descriptor_for` and `tma_feeds_mma` say the same of what boxes wrote."""
    encodable = 0
    for major, case in cases(where, 2):
        layout = loaded_layout(case.map, where, case.destinations, case.row_dims, case.depth_dims)
        if layout.shape[1] % 16 or layout.shape[0] % 16:
            continue
        fit = descriptor_for(layout, 2, where)
        if not isinstance(fit, OperandFit):
            for descriptor in descriptors(case, where):
                found = tma_feeds_mma(
                    case.map, descriptor, where, major=major, destinations=case.destinations, row_dims=case.row_dims,
                    depth_dims=case.depth_dims,
                )  # fmt: skip
                # A descriptor may read the first K step of a tile whose other steps it cannot reach alike.
                assert not found.ok or layout.shape[1] > 16
            continue
        encodable += 1
        for step, descriptor in enumerate(fit.descriptors):
            assert tma_feeds_mma(
                case.map, descriptor, where, major=fit.major, destinations=case.destinations, row_dims=case.row_dims,
                depth_dims=case.depth_dims, first=(0, 16 * step),
            ).ok  # fmt: skip
    assert encodable > 20


@pytest.mark.parametrize("name", ["tma_11s", "tma_11e", "tma_11es", "tma_3i"])
def test_boxes_that_an_h200_loaded_stand_where_the_layout_says(name: str) -> None:
    with np.load(DATA / f"{name}.npz") as archive:
        case = {each: archive[each] for each in archive.files}
    columns, begins = case["cols"].tolist(), np.cumsum(case["lens"]) - case["lens"]
    compared = 0
    for index, values in enumerate(case["cfg"].tolist()):
        row = dict(zip(columns, values, strict=True))
        rank = row["rank"]
        map = TensorMap(
            row["dtype"], *([row[f"{field}{i}"] for i in range(rank - (field == "s"))] for field in "dsbe"),
            row["interleave"], row["swizzle"],
        )  # fmt: skip
        assert map.data_type is not None
        width = map.data_type.global_bits // 8
        unit = (0, 16, 32)[row["interleave"]] or width
        counts = [-(-extent // step) for extent, step in zip(map.box, map.steps, strict=True)]
        inside_slice = ()
        if row["interleave"]:
            counts[rank - 2], inside_slice = 1, (rank + 1,)
        found = loaded_layout(map, HOPPER, (0,), tuple(range(rank)), (*inside_slice, rank))[:, 0]
        offset, inside = np.int64(row["off"]), np.True_
        for dim in range(rank):
            at = case["coords"][index, dim] + np.arange(counts[dim], dtype=np.int64) * map.steps[dim]
            shape = [-1 if each == dim else 1 for each in reversed(range(rank))]
            stride = unit if dim == 0 else map.strides[dim - 1]
            offset = offset + (at * stride).reshape(shape)
            inside = inside & ((at >= 0) & (at < map.dims[dim])).reshape(shape)
        offset, inside = offset.reshape(-1), inside.reshape(-1)
        wanted = ((offset[inside][:, None] + np.arange(16)) * 2654435761 & 0xFFFFFFFF) >> 24
        held = case["data"][begins[index] : begins[index] + case["lens"][index]]
        held = np.concatenate((held, np.zeros(32, np.uint8)))
        # Within 16 bytes nothing is moved: of an element its own bytes are compared, of a slice the first 16.
        size = min(unit, 16)
        assert np.array_equal(held[found[inside][:, None] + np.arange(size)], wanted[:, :size])
        compared += int(inside.sum())
    assert compared > 2_000


def test_an_im2col_column_stands_as_a_box_of_channels_and_pixels() -> None:
    column = Im2colMap("bf16", (512, 30, 30, 4), (1024, 30720, 921600), (-1, -1), (-1, -1), 64, 128, swizzle="128B")
    box = TensorMap("bf16", (512, 3600), (1024,), (64, 128), swizzle="128B")
    layouts = [loaded_layout(map, HOPPER, (2048, 32768), (1,), (0, 2)) for map in (column, box)]
    assert np.array_equal(*layouts)
    read = OperandDescriptor(2048 + 64, 16, 1024, "128B")
    assert tma_feeds_mma(column, read, HOPPER, major="K", destinations=(2048,), first=(0, 32)).ok


def test_slices_feed_the_layout_of_core_matrices() -> None:
    """Interleaved NC/8HWC8: 64 pixels of two groups of 8 channels, a box for each group."""
    map = TensorMap("f16", (64, 30, 2, 4), (1024, 30720, 61440), (64, 1, 1, 1), interleave="16B")
    read = OperandDescriptor(4096, 1024, 128, "none")
    assert tma_feeds_mma(map, read, HOPPER, major="K", destinations=(4096, 5120)).ok
    found = tma_feeds_mma(map, read, HOPPER, major="K", destinations=(4096, 6144))
    assert not found.ok and found.mismatch == (0, 8, 6144, 5120)


def test_padded_values_feed_as_bytes() -> None:
    map = TensorMap("u6x16_align16", (4096, 64), (3072,), (128, 64), swizzle="128B")
    read = OperandDescriptor(4096, 16, 1024, "128B")
    assert tma_feeds_mma(map, read, BLACKWELL, major="K", destinations=(4096,)).ok
    assert not tma_feeds_mma(replace(map, swizzle="none"), read, BLACKWELL, major="K", destinations=(4096,)).ok
    found = tma_feeds_mma(map, read, BLACKWELL, major="MN", destinations=(4096,))
    assert not found.ok and "u6x16_align16 cannot be MN-major" in found.why


TILE = TensorMap("bf16", (4096, 4096), (8192,), (64, 128), swizzle="128B")
READ = OperandDescriptor(4096, 16, 1024, "128B")


def test_one_operand_of_a_larger_tile() -> None:
    for row in (0, 64):
        for step in range(4):
            place = replace(READ, start_address=4096 + 128 * row + 32 * step)
            asked = {"major": "K", "destinations": (4096,), "rows": 64}
            assert tma_feeds_mma(TILE, place, HOPPER, first=(row, 16 * step), **asked).proof == "linear"
            assert not tma_feeds_mma(TILE, place, HOPPER, first=(64 - row, 16 * step), **asked).ok


@pytest.mark.parametrize(
    ("map", "descriptor", "options", "words"),
    [
        (TILE, replace(READ, swizzle="64B"), {}, "the map swizzles 128B, the descriptor 64B"),
        (TILE, replace(READ, base_offset=2), {}, "base offset 2, although"),
        (TILE, replace(READ, start_address=4100), {}, "start address 4100"),
        (TILE, READ, {"destinations": (4160,)}, "0x1040 is not a multiple of 128"),
        (TILE, READ, {"destinations": (4096, 8192)}, "boxes of 16384 bytes at 0x1000 and 0x2000 overlap"),
        (TILE, READ, {"rows": 256}, "reads 256 rows by K 16"),
        (TILE, READ, {"rows": 0}, "reads 0 rows"),
        (TILE, READ, {"first": (0, 56)}, "from element (0, 56)"),
        (TILE, READ, {"element_bytes": 1}, "elements of 2 bytes, the operand has 1"),
        (replace(TILE, dtype="f32", box=(32, 128)), READ, {"major": "MN"}, "16 bits alone"),
    ],
)
def test_why_not(map: TensorMap, descriptor: OperandDescriptor, options: dict[str, Any], words: str) -> None:
    found = tma_feeds_mma(map, descriptor, HOPPER, **({"major": "K", "destinations": (4096,)} | options))
    assert not found.ok and words in found.why


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        ({"interleave": "16B"}, {}, "interleave 16B has rank 2"),
        ({"interleave": 3}, {}, "not judged"),
        ({"dtype": "u4x16_align8"}, {}, "not judged"),
        ({"dtype": 77}, {}, "not judged"),
        ({"swizzle": "128B_atom_32B"}, {}, "has no swizzle"),
        ({"box": (128, 64)}, {}, "wider than the span"),
        ({"box": (0, 64)}, {}, "nothing to judge"),
        ({}, {"destinations": ()}, "nothing to judge"),
        ({}, {"row_dims": (1,), "depth_dims": (1, 0)}, "belongs to one of them"),
        ({}, {"row_dims": (1,), "depth_dims": ()}, "belongs to one of them"),
    ],
)
def test_maps_that_are_not_judged(change: dict[str, Any], options: dict[str, Any], words: str) -> None:
    with pytest.raises(TilewrightError, match=words):
        tma_feeds_mma(replace(TILE, **change), READ, HOPPER, **({"major": "K", "destinations": (4096,)} | options))
