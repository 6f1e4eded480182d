"""Plans of exchanges: every element followed through the steps, every access's wavefronts, and what plans cost."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import numpy as np
import pytest
from bench.register_layouts import register_layouts
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tilewright.base.error import TilewrightError
from tilewright.ir.exchange import Access, Cross, ExchangePlan, Load, Rearrange, Shuffle, Stage, Step, Store, Toggle
from tilewright.layout import bit_matrix
from tilewright.layout.answer import NotExpressible
from tilewright.layout.linear import LinearLayout, images, linear_layout
from tilewright.legal.banks import wavefronts
from tilewright.synth.exchange import candidate_plans, plan_exchange

LAYOUTS = register_layouts(64)
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
    for access, is_store in ((step.store, True), (step.load, False)):
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


@pytest.mark.parametrize("element_bytes", [1, 2, 4])
def test_every_candidate_brings_every_element_and_conflicts_nowhere(element_bytes: int) -> None:
    names = list(LAYOUTS)
    chosen = random.Random(element_bytes).sample(list(itertools.product(names, names)), 6)
    for first, second in chosen:
        source, destination = LAYOUTS[first], LAYOUTS[second]
        plans = candidate_plans(source, destination, element_bytes, "sm_90a")
        assert not isinstance(plans, NotExpressible)
        for plan in (plans[0], plans[-1]):
            reached = follow(holding(source), plan, "sm_90a")
            assert np.array_equal(reached, holding(destination)), (first, second, plan.kind)


def random_layout(generator: random.Random, registers: int, warps: int, free: int) -> LinearLayout:
    """Onto, with `free` columns that repeat others."""
    bits = registers + 5 + warps
    columns: list[int] = []
    while len(columns) < bits - free:
        column = generator.randrange(1, 1 << bits - free)
        if bit_matrix.solve(columns, column) is None:
            columns.append(column)
    columns += [generator.randrange(1 << bits - free) for _ in range(free)]
    generator.shuffle(columns)
    inputs = {"register": columns[:registers], "lane": columns[registers : registers + 5]}
    return linear_layout({**inputs, "warp": columns[registers + 5 :]}, {"place": 1 << bits - free})


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**9), st.integers(0, 3), st.sampled_from([1, 2, 4]), st.integers(0, 1))
def test_layouts_of_any_columns(seed: int, free: int, element_bytes: int, warps: int) -> None:
    generator = random.Random(seed)
    source = random_layout(generator, 3 + free, warps, free)
    destination = random_layout(generator, 3 + free, warps, free)
    plans = candidate_plans(source, destination, element_bytes, "sm_90a")
    assert not isinstance(plans, NotExpressible)
    for plan in plans:
        assert np.array_equal(follow(holding(source), plan, "sm_90a"), holding(destination)), plan.kind


@pytest.mark.parametrize("element_bytes", [1, 2, 4])
@pytest.mark.parametrize("registers", [0, 1, 2])
def test_files_of_a_word_and_less(registers: int, element_bytes: int) -> None:
    generator = random.Random(registers)
    for _ in range(4):
        source, destination = (random_layout(generator, registers, 0, 0) for _ in range(2))
        plans = candidate_plans(source, destination, element_bytes, "sm_90a")
        assert not isinstance(plans, NotExpressible)
        for plan in plans:
            assert np.array_equal(follow(holding(source), plan, "sm_90a"), holding(destination)), plan.kind
        if not registers:
            assert plans[0].kind == "shuffles" and plans[0].cost.shuffles == 1


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from([1, 2, 4]))
def test_lanes_exchange_words_of_layouts_that_differ_within_warps(seed: int, element_bytes: int) -> None:
    generator = random.Random(seed)
    source = random_layout(generator, 4, 1, 0)
    within = (*source.columns[:9],)
    while True:
        mixed = [bit_matrix.apply(within, generator.randrange(1 << 9)) for _ in range(9)]
        if bit_matrix.rank(mixed) == 9:
            break
    destination = LinearLayout(source.input_bits, source.output_bits, (*mixed, source.columns[9]))
    plans = candidate_plans(source, destination, element_bytes, "sm_90a")
    assert not isinstance(plans, NotExpressible)
    assert plans[0].cost.barriers == 0
    for plan in plans:
        assert np.array_equal(follow(holding(source), plan, "sm_90a"), holding(destination)), plan.kind


def test_nothing_moves_between_equal_layouts_and_a_plan_is_made_once() -> None:
    layout = LAYOUTS["row8"]
    plan = plan_exchange(layout, layout, 2, "sm_90a")
    assert isinstance(plan, ExchangePlan)
    assert plan.steps == () and plan.cost.cycles == 0
    assert plan_exchange(layout, layout, 2, "sm_90a") is plan


def test_a_swap_of_one_lane_bit_takes_half_as_many_shuffles_as_words() -> None:
    columns = {"register": [32, 64], "lane": [1, 2, 4, 8, 16], "warp": []}
    swapped = {"register": [32, 16], "lane": [1, 2, 4, 8, 64], "warp": []}
    source, destination = (linear_layout(each, {"place": 128}) for each in (columns, swapped))
    plans = candidate_plans(source, destination, 4, "sm_90a")
    assert not isinstance(plans, NotExpressible)
    assert min(plan.cost.shuffles for plan in plans if plan.kind == "shuffles") == 2


def test_what_the_source_lacks_is_not_expressible() -> None:
    source = linear_layout({"register": [0], "lane": [1, 2, 4, 8, 16], "warp": [0]}, {"place": 64})
    destination = linear_layout({"register": [32], "lane": [1, 2, 4, 8, 16], "warp": [0]}, {"place": 64})
    assert isinstance(plan_exchange(source, destination, 4, "sm_90a"), NotExpressible)
    assert isinstance(plan_exchange(destination, source, 4, "sm_90a"), ExchangePlan)


@pytest.mark.parametrize(
    ("element_bytes", "lanes", "words"),
    [(8, 5, "elements of 8 bytes"), (2, 4, "16 lanes, where a warp has 32")],
)
def test_other_questions_are_refused(element_bytes: int, lanes: int, words: str) -> None:
    layout = linear_layout({"register": [], "lane": [1 << bit for bit in range(lanes)], "warp": []}, {"place": 32})
    with pytest.raises(TilewrightError, match=words):
        plan_exchange(layout, layout, element_bytes, "sm_90a")
