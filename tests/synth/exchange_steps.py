"""Follows every element of a tile through the steps of an exchange, and counts the wavefronts of every access."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tilewright.ir.exchange import (
    Access,
    Cross,
    ExchangePlan,
    Load,
    Rearrange,
    Shuffle,
    Stage,
    Step,
    Store,
    Toggle,
    Turn,
)
from tilewright.layout.linear.maps import LinearLayout, images
from tilewright.legal.bank.banks import wavefronts

Files = NDArray[np.int64]
"""What each thread's elements are, by warp, lane and number."""


def holding(layout: LinearLayout) -> Files:
    registers, lanes, warps = (layout.input_sizes[name] for name in ("register", "lane", "warp"))
    return images(layout, np.arange(registers * lanes * warps)).reshape(warps, lanes, registers)


def bits_of(masked: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.array([bin(int(each)).count("1") & 1 for each in masked.reshape(-1)]).reshape(masked.shape)


def follow(files: Files, plan: ExchangePlan, target: str | None = None) -> Files:
    for step in plan.steps:
        files = after(files, step, plan.element_bytes, target)
    return files


def after(files: Files, step: Step, element_bytes: int, target: str | None) -> Files:
    warps, lanes, elements = files.shape
    warp, lane, number = np.ogrid[:warps, :lanes, :elements]
    per_word = 4 // element_bytes
    match step:
        case Rearrange(order):
            return files[:, :, list(order)]
        case Toggle(masks):
            turned = number
            for mask, (of_lane, of_warp) in masks:
                turned = turned ^ mask * (bits_of(lane & of_lane) ^ bits_of(warp & of_warp))
            return files[warp, lane, turned]
        case Shuffle():
            origin = sum_of_images(step.lanes, lane) ^ sum_of_images(step.warps, warp)
            constants = np.repeat(np.array(step.constants), per_word)[:elements]
            return files[warp, origin ^ constants, number]
        case Cross(element_bit, lane_bit):
            ours, theirs = number >> element_bit & 1, lane >> lane_bit & 1
            differ = ours ^ theirs
            return files[warp, lane ^ differ << lane_bit, number ^ differ << element_bit]
        case Turn():
            # Element bit, lane bits 0 and 1 with lane bits 2, 3 and 4.
            column, row = (number & 1) + 2 * (lane & 3), lane >> 2
            return files[warp, (column << 2) + (row >> 1), (number & ~1) + (row & 1)]
        case Stage():
            return through_memory(files, step, element_bytes, target)
        case Store() | Load():
            raise AssertionError("an exchange between registers has no memory of its caller")


def sum_of_images(columns: tuple[int, ...], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    total = np.zeros_like(numbers)
    for bit, column in enumerate(columns):
        total ^= (numbers >> bit & 1) * column
    return total


def addresses(access: Access, constant: int, warps: int) -> NDArray[np.int64]:
    warp, lane = np.ogrid[:warps, :32]
    return sum_of_images(access.lane_bytes, lane) ^ sum_of_images(access.warp_bytes, warp) ^ constant


def through_memory(files: Files, step: Stage, element_bytes: int, target: str | None) -> Files:
    """Bytes of memory hold (element, byte); matrices move halves of words as PTX ISA's figures say."""
    warps = files.shape[0]
    memory = np.full((step.size_bytes,), -1, np.int64)
    found = np.full((warps, 32, step.elements), -1, np.int64)
    for access, moved, constant, is_store in each_instruction(step):
        place = addresses(access, constant, warps)
        count_conflicts(access, place, len(moved) * element_bytes, is_store=is_store, target=target)
        if access.form == "vector":
            for warp, lane in itertools.product(range(warps), range(32)):
                if is_store and (lane & access.lane_active or warp & access.warp_active):
                    continue
                for at, element in enumerate(moved):
                    begin = place[warp, lane] + at * element_bytes
                    if is_store:
                        memory[begin : begin + element_bytes] = files[warp, lane, element] * element_bytes + np.arange(
                            element_bytes
                        )
                    else:
                        held = memory[begin : begin + element_bytes]
                        assert (held == held[0] + np.arange(element_bytes)).all() and held[0] % element_bytes == 0
                        found[warp, lane, element] = held[0] // element_bytes
            continue
        per_word = 4 // element_bytes
        for warp, lane, word in itertools.product(range(warps), range(32), range(len(moved) // per_word)):
            halves: list[int] = []
            for half in (0, 1):
                row, unit = (lane >> 2, 2 * (lane & 3) + half)
                if access.form == "transposed matrix":
                    row, unit = unit, row
                halves.append(int(place[warp, 8 * word + row]) + 2 * unit)
            where = [halves[0], halves[0] + 1, halves[1], halves[1] + 1]
            elements = moved[word * per_word : (word + 1) * per_word]
            for position, element in enumerate(elements):
                own = where[position * element_bytes : (position + 1) * element_bytes]
                if is_store:
                    memory[own] = files[warp, lane, element] * element_bytes + np.arange(element_bytes)
                else:
                    held = memory[own]
                    assert (held == held[0] + np.arange(element_bytes)).all()
                    found[warp, lane, element] = held[0] // element_bytes
    assert (found >= 0).all()
    return found


def each_instruction(step: Stage) -> Iterator[tuple[Access, tuple[int, ...], int, bool]]:
    for store, load in step.parts:
        for access, is_store in ((store, True), (load, False)):
            for moved, constant in zip(access.elements, access.constants, strict=True):
                yield access, moved, constant, is_store


def count_conflicts(access: Access, place: NDArray[np.int64], size: int, *, is_store: bool, target: str | None) -> None:
    if target is None:
        return
    if access.form == "vector":
        kind = f"{'st' if is_store else 'ld'}.shared.b{8 * size}"
        lanes = np.arange(32) & access.lane_active == 0
        counted = wavefronts(kind, place, target, np.broadcast_to(lanes, place.shape))
    else:
        counted = wavefronts(f"ldmatrix.x{size // 4}", place, target)
    assert (counted <= access.wavefronts).all(), (access, counted)
