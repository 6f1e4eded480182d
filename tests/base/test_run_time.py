"""Plans with run-time axes: the numbers of an extent, what arrays say of it, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import (
    Buffer,
    Launch,
    LaunchPlan,
    LaunchSizes,
    PointerParam,
    RunTimeSizes,
    ScalarParam,
    TensorMap,
    TensorMapParam,
)
from tilewright.base.run_time import extents_of, largest_extents, plan_at
from tilewright.base.size import Extent, Range, ceil_div, chosen, computed

TILES = ceil_div(Extent("M"), 64)
GRID = computed("min", TILES, 4)
MAP = TensorMap(Element.BF16, (32, 512), (64,), (32, 64))


def plan() -> LaunchPlan:
    return LaunchPlan(
        (
            Buffer("x", Element.BF16, (512, 32), (32, 1), "input"),
            Buffer("s", Element.F32, (512,), (1,), "input"),
            Buffer("y", Element.F32, (512,), (1,), "output"),
        ),
        (
            Launch(
                "k",
                (4, 1, 1),
                (128, 1, 1),
                (TensorMapParam("x", MAP), PointerParam("y"), ScalarParam("i32", 8), ScalarParam("i32", 7)),
            ),
        ),
        RunTimeSizes(
            (("M", Range(0, 512, 8)),),
            ((Extent("M"), 32), (Extent("M"),), (Extent("M"),)),
            (LaunchSizes((GRID, 1, 1), ((32, Extent("M")), (), (TILES,), ())),),
        ),
    )


def test_numbers_of_an_extent() -> None:
    found = plan_at(plan(), {"M": 72})
    assert found.run_time is None
    assert [buffer.shape for buffer in found.buffers] == [(72, 32), (72,), (72,)]
    (launch,) = found.launches
    assert launch.grid == (2, 1, 1)
    tensor_map, _, tiles, other = launch.params
    assert isinstance(tensor_map, TensorMapParam) and tensor_map.map.dims == (32, 72)
    assert (tiles, other) == (ScalarParam("i32", 2), ScalarParam("i32", 7))


def test_the_largest_extents_give_the_plans_own_numbers() -> None:
    found = plan_at(plan(), largest_extents(plan()))
    assert (found.buffers, found.launches) == (plan().buffers, plan().launches)


def test_an_extent_of_0_launches_nothing() -> None:
    found = plan_at(plan(), {"M": 0})
    assert found.launches == () and found.buffers[2].shape == (0,)


def test_a_launch_of_some_extents_takes_the_place_of_another() -> None:
    sizes = plan().run_time
    assert sizes is not None
    shapes = ((Extent("M"), 32), (Extent("M"),), (512,))
    both = tuple(replace(sizes.launches[0], launched=chosen(Extent("M"), each)) for each in ((1, 0), (0, 1)))
    several = replace(
        plan(), launches=(replace(plan().launches[0], entry="empty"), *plan().launches),
        run_time=replace(sizes, shapes=shapes, launches=both),
    )  # fmt: skip
    assert [each.entry for each in plan_at(several, {"M": 0}).launches] == ["empty"]
    assert [each.entry for each in plan_at(several, {"M": 8}).launches] == ["k"]


def test_a_plan_of_numbers_stays_as_it_is() -> None:
    fixed = plan_at(plan(), {"M": 8})
    assert plan_at(fixed, {}) is fixed and extents_of(fixed, {"x": (8, 32)}) == {} and largest_extents(fixed) == {}


@pytest.mark.parametrize("extent", [-8, 4, 520, 12])
def test_extents_outside_of_the_range_are_refused_by_name(extent: int) -> None:
    with pytest.raises(TilewrightError) as caught:
        plan_at(plan(), {"M": extent})
    assert caught.value.message == f"axis M is {extent}; the program was compiled for 0 to 512 in multiples of 8"


def test_shapes_say_the_extent() -> None:
    assert extents_of(plan(), {"x": (16, 32), "s": (16,)}) == {"M": 16}


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"x": (16, 32), "s": (24,)}, "axis M is 16 in x and 24 in s"),
        ({"x": (16,)}, "x has shape (16,); the program was compiled for (M, 32)"),
        ({}, "no array says the extent of axis M"),
        ({"s": (9,)}, "axis M is 9; the program was compiled for"),
    ],
)
def test_shapes_that_say_none(shapes: dict[str, tuple[int, ...]], words: str) -> None:
    with pytest.raises(TilewrightError) as caught:
        extents_of(plan(), shapes)
    assert words in caught.value.message
