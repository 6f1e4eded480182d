"""The copy engine's model, run on the maps of a repair, leaves the wanted elements where the repair says they are."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.legal.reading_places import WIDTH_BYTES, address_of

from tilewright.legal.bank.banks import wavefronts
from tilewright.legal.plan.box_choice import conflict_ways
from tilewright.legal.plan.repair_plan import Repair
from tilewright.legal.plan.repairs import repair
from tilewright.legal.plan.want import Want
from tilewright.legal.tensor_map.footprint import copy_bytes
from tilewright.legal.tensor_map.swizzle_code import swizzled
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.machine import copy_box
from tilewright.targets import target

HOPPER = target("sm_90a")

ILLEGAL = {
    "odd rows": TensorMap("bf16", (20, 9), (40,), (8, 4)),
    "odd rows, wanted box": TensorMap("bf16", (20, 9), (42,), (20, 8)),
    "misaligned base": TensorMap("bf16", (24, 6), (48,), (8, 2), address=6),
    "colours": TensorMap("u8", (3, 20, 4), (3, 60), (3, 16, 2)),
    "six dimensions": TensorMap("bf16", (8, 2, 3, 2, 2, 2), (16, 32, 96, 192, 384), (8, 2, 3, 1, 1, 2)),
    "large element strides": TensorMap("f32", (8, 40), (32,), (4, 18), (1, 9)),
    "narrow box": TensorMap("u8", (40, 5), (48,), (12, 2)),
    "long box": TensorMap("u8", (16, 600), (16,), (16, 300)),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", ILLEGAL)
def test_the_copy_engine_delivers_what_a_repair_promises(name: str) -> None:
    map = ILLEGAL[name]
    found = repair(map, Want(box=map.box), target="sm_90a")
    mapped = [each for each in found if each.maps]
    assert mapped
    for each in mapped:
        memory, tensor = _memory(each)
        for start in _starts(each):
            _check_box(each, memory, tensor, start)


def _memory(plan: Repair) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Random global memory as the plan wants the tensor stored, and the tensor's elements, dimension 0 first."""
    stored = plan.stored
    memory = np.random.default_rng(7).integers(0, 256, stored.address + stored.span_bytes + 512, dtype=np.uint8)
    tensor = np.zeros((*stored.dims, stored.element_bytes), np.uint8)
    for index in product(*(range(extent) for extent in stored.dims)):
        at = address_of(index, stored)
        tensor[index] = memory[at : at + stored.element_bytes]
    return memory, tensor


def _starts(plan: Repair) -> list[tuple[int, ...]]:
    stored = plan.stored
    every = list(
        product(
            *(
                (0,) if step == 0 else range(0, extent, step)
                for extent, step in zip(stored.dims, stored.starts, strict=True)
            )
        )
    )
    return [every[0], every[len(every) // 2], every[-1]]


def _check_box(plan: Repair, memory: NDArray[np.uint8], tensor: NDArray[np.uint8], start: tuple[int, ...]) -> None:
    stored = plan.stored
    images = [(copy, _rows(plan.maps[copy.map_index], memory, copy.coords)) for copy in plan.copies(start)]
    wanted = product(
        *(range(at, at + size, step) for at, size, step in zip(start, stored.box, stored.element_strides, strict=True))
    )
    for index in wanted:
        inside = all(i < extent for i, extent in zip(index, stored.dims, strict=True))
        place = plan.locate(index)
        if place is None:
            assert not inside
            continue
        map = plan.maps[place.map_index]
        for copy, image in images:
            offset = [i - at for i, at in zip(place.coords, copy.coords, strict=True)]
            if copy.map_index != place.map_index or not all(
                0 <= o < size for o, size in zip(offset, map.box, strict=True)
            ):
                continue
            taken = tuple(o // step for o, step in zip(offset, (1, *map.steps[1:]), strict=True))
            found = image[taken[::-1]]
            if not inside:
                assert not found.any()
                break
            width = WIDTH_BYTES[str(map.dtype)]
            address = map.address + sum(i * s for i, s in zip(place.coords, (width, *map.strides), strict=True))
            ahead = address_of(index, stored) - address
            element = found[ahead : ahead + stored.element_bytes]
            if width < stored.element_bytes:
                element = image[taken[::-1][:-1]].reshape(-1)[taken[0] * width :][: stored.element_bytes]
            assert (element == tensor[index]).all(), (plan.title, start, index)
            break
        else:
            assert not inside, (plan.title, start, index)


def _rows(map: TensorMap, memory: NDArray[np.uint8], coords: tuple[int, ...]) -> NDArray[np.uint8]:
    """The box that one copy left, outermost dimension first, elements as bytes: rows at their pitch, not swizzled."""
    image = copy_box(map, memory, coords, target="sm_90a")
    counts = [map.box[0], *(-(-size // step) for size, step in zip(map.box[1:], map.steps[1:], strict=True))]
    width = WIDTH_BYTES[str(map.dtype)]
    assert map.swizzle == "none"
    return image.data[: prod(counts) * width].reshape(*counts[::-1], width)


def _ways(map: TensorMap, pitch: int) -> int:
    """Wavefronts of the worst eight rows of 16 bytes that `ldmatrix` reads of a box, whose rows stand `pitch` apart."""
    groups = (np.arange(map.box[1]) * pitch).reshape(-1, 8)
    first = [starts + place for starts in groups for place in range(0, map.box[0], 16)]
    lanes = [[*swizzled(each, map.swizzle, HOPPER).tolist(), *[0] * 24] for each in first]
    return max(wavefronts("ldmatrix.x1", lanes, HOPPER))


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("inner", [16, 32, 48, 64, 128, 256])
def test_bank_conflicts_and_footprints_are_those_of_the_box(inner: int, swizzle: str) -> None:
    span = {"none": 0, "32B": 32, "64B": 64, "128B": 128}[swizzle]
    if span and inner > span:
        return
    map = TensorMap("u8", (256, 64), (256,), (inner, 64), swizzle=swizzle)
    assert conflict_ways(inner, span) == _ways(map, span or inner)
    bytes_of = copy_bytes(map, HOPPER)
    assert bytes_of is not None
    plan = repair(map, target="sm_90a")[0]
    assert plan.kind == "legal"
    assert plan.cost.smem_bytes == bytes_of[0]
