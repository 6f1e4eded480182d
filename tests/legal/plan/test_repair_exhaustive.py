"""Where a plan exists, it is found; where a copy is needed, it pads least. Against exhaustive search on small cases.

That no map can bring exactly the wanted boxes is decided here from addresses alone: a box's bytes must be whole,
aligned units of 16, and each of its bytes past the tensor's end must be filled. The cases are the suite's classes,
scaled down: every residue of rows and bases, every tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations, product

import pytest
from tests.legal.reading_places import faults_of, starts_of

from tilewright.base.element import Element
from tilewright.layout.view.strided_view import StridedView
from tilewright.legal.plan.operand_plan import OperandPlan, plan_operand
from tilewright.legal.plan.reading import Reading

UNIT = 16
Case = tuple[StridedView, tuple[int, ...], Element]


def dense(extents: tuple[int, ...], element: Element, offset_bytes: int = 0) -> StridedView:
    strides, reach = list[int](), element.bytes
    for extent in extents:
        strides.append(reach)
        reach *= extent
    return StridedView(extents, tuple(strides), offset_bytes, element.bytes)


def matrices() -> Iterator[Case]:
    """Weights, activations, logits, scores, slices, misaligned bases: rows of every length, pitch and beginning."""
    for columns, gap, offset in product((8, 9, 12, 16, 20, 24), (0, 2, 4, 8, 16), (0, 2, 8, 16)):
        view = StridedView((columns, 6), (2, 2 * columns + gap), offset, 2)
        for tile in ((8, 2), (16, 4), (columns, 3), (columns, 6), (4, 2)):
            yield view, tile, Element.BF16


def permuted() -> Iterator[Case]:
    """Heads permuted, transposed arrays, pixels of few channels, as dense arrays read in another order."""
    for extents in ((8, 3, 2), (4, 4, 4), (3, 8, 4), (12, 2, 5), (2, 4, 8)):
        array = dense(extents, Element.BF16)
        for order in permutations(range(3)):
            view = array.permute(order)
            for cut in ((1, 1, 1), (2, 1, 2), (1, 2, 1)):
                tile = tuple(max(1, extent // part) for extent, part in zip(view.extents, cut, strict=True))
                yield view, tile, Element.BF16


def windows() -> Iterator[Case]:
    """Patches and windows: more dimensions than a map has."""
    for patch, count, channels in ((4, 2, 4), (8, 2, 3), (2, 4, 8)):
        side = patch * count
        row, plane = 2 * side, 2 * side * side
        view = StridedView(
            (patch, patch, channels, count, count, 2),
            (2, row, plane, 2 * patch, row * patch, plane * channels),
            0,
            2,
        )
        yield view, (patch, patch, channels, 1, 1, 1), Element.F16
        yield view, (patch, 1, 1, count, 1, 1), Element.F16


def pixels() -> Iterator[Case]:
    """Images of one to four channels, every width: rows of bytes that no map takes as they are."""
    for channels, width, columns in product((1, 3, 4), (5, 11, 16, 19), (4, 8, 16)):
        for element in (Element.U8, Element.F16):
            yield dense((channels, width, 3, 2), element), (channels, min(columns, width), 2, 1), element


CASES = {
    "pixels": list(pixels()),
    "matrices": list(matrices()),
    "permuted": list(permuted()),
    "windows": list(windows()),
}


def exact_boxes(view: StridedView, tile: tuple[int, ...]) -> bool:
    """Whether every box is made of whole units of 16 bytes, and what lacks at an end begins a unit of its own.

    A row of a box (elements that stand next to one another and follow one another in it) that reaches past the end of
    its dimension is filled up, so it needs only to begin at a unit.
    """
    for start in product(*(range(0, extent, size) for extent, size in zip(view.extents, tile, strict=True))):
        inside: set[int] = set()
        ended: set[int] = set()
        for index in product(*(range(at, at + size) for at, size in zip(start, tile, strict=True))):
            if all(i < extent for i, extent in zip(index, view.extents, strict=True)):
                at = view.offset_bytes + sum(i * s for i, s in zip(index, view.strides_bytes, strict=True))
                inside.update(range(at, at + view.element_bytes))
                follows = [
                    d
                    for d, (i, extent, stride) in enumerate(zip(index, view.extents, view.strides_bytes, strict=True))
                    if stride == view.element_bytes and i == extent - 1
                ]
                if follows:
                    ended.add(at + view.element_bytes)
        for byte in inside:
            if byte - 1 not in inside and byte % UNIT:
                return False
            if byte + 1 not in inside and (byte + 1) % UNIT and byte + 1 not in ended:
                return False
    return True


def in_place(plans: list[OperandPlan]) -> list[OperandPlan]:
    return [plan for plan in plans if plan.map is not None and plan.kind != "copy"]


@pytest.mark.sample(2)
@pytest.mark.parametrize("group", CASES)
def test_a_plan_is_found_wherever_boxes_are_made_of_whole_units(group: str) -> None:
    missed: list[Case] = []
    for view, tile, element in CASES[group]:
        plans = plan_operand(view, tile, element, swizzle="none", target="sm_90a")
        for plan in plans:
            starts = starts_of(plan.repair.stored)
            assert not plan.repair.maps or faults_of(plan.repair, starts[:2] + starts[-2:]) == [], (view, tile, plan)
        if exact_boxes(view, tile) and not in_place(plans):
            missed.append((view, tile, element))
    assert missed == []


def least_padding(view: StridedView, tile: tuple[int, ...], inner: int) -> int | None:
    """Of all dense orders of the dimensions with `inner` first, and all sets of strides rounded up, the least padding
    with which a map can bring exactly every box: rows that begin at units, or boxes that take whole what stands
    within. None where tiles cut units apart in any copy."""
    best: int | None = None
    others = [at for at in range(view.rank) if at != inner]
    for order in permutations(others):
        for rounded in (rounded for size in range(view.rank) for rounded in combinations(order, size)):
            strides = [view.element_bytes] * view.rank
            reach = view.element_bytes * view.extents[inner]
            for at in order:
                if at in rounded:
                    reach = -(-reach // UNIT) * UNIT
                strides[at] = reach
                reach *= view.extents[at]
            copy = StridedView(view.extents, tuple(strides), 0, view.element_bytes)
            end = sum((extent - 1) * stride for extent, stride in zip(view.extents, strides, strict=True))
            padding = end + view.element_bytes - view.elements * view.element_bytes
            if (best is None or padding < best) and copied_rows_begin_at_units(copy, tile, (inner, *order)):
                best = padding
    return best


def copied_rows_begin_at_units(copy: StridedView, tile: tuple[int, ...], order: tuple[int, ...]) -> bool:
    """Whether rows of boxes begin at units: the dimensions taken whole from the innermost on are one row."""
    row = True
    for place, at in enumerate(order):
        if copy.extents[at] == 1:
            continue
        starts_apart = tile[at] < copy.extents[at] and tile[at] * copy.strides_bytes[at] % UNIT
        if row:
            if starts_apart:
                return False
        elif copy.strides_bytes[at] % UNIT:
            return False
        # A row goes on while what is within is taken whole, exactly, and the next dimension follows without a gap.
        outer = order[place + 1 :]
        row = row and tile[at] == copy.extents[at]
        if row and outer and copy.strides_bytes[outer[0]] != copy.strides_bytes[at] * copy.extents[at]:
            row = False
    return True


@pytest.mark.parametrize("group", CASES)
def test_copies_pad_least(group: str) -> None:
    compared = 0
    for view, tile, element in CASES[group][::3]:
        if any(tile[at] > view.extents[at] for at in range(view.rank)):
            continue
        for inner in {at for at in range(view.rank) if view.strides_bytes[at] == view.element_bytes}:
            plans = [
                plan
                for plan in plan_operand(view, tile, element, swizzle="none", inner=(inner,), target="sm_90a")
                if plan.kind == "copy"
            ]
            least = least_padding(view, tile, inner)
            if plans and least is not None:
                assert min(plan.cost.padded_bytes for plan in plans) <= least, (view, tile)
                compared += 1
    assert compared


def test_exhaustive_search_tells_cases_apart() -> None:
    verdicts = [exact_boxes(view, tile) for group in CASES.values() for view, tile, _ in group]
    assert 0.1 < sum(verdicts) / len(verdicts) < 0.9


def test_readings_and_views_agree() -> None:
    view, tile, element = CASES["windows"][0]
    stored: Reading = plan_operand(view, tile, element, target="sm_90a")[0].repair.stored
    assert stored.box_elements == 4 * 4 * 4
