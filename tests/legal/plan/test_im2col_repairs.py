"""Repairs of im2col maps are legal; an im2col map in place of a tiled one brings the same elements."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tilewright.legal.plan.repairs import repair
from tilewright.legal.plan.want import Want
from tilewright.legal.tensor_map.im2col_map import Im2colMap, Im2colWideMap
from tilewright.legal.tensor_map.legality import check
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.machine import copy_box

LEGAL = Im2colMap("f16", (64, 56, 56, 8), (128, 7168, 401408), (-1, -1), (-1, -1), 64, 64, swizzle="128B")


def changed(**fields: object) -> Im2colMap:
    values = {name: getattr(LEGAL, name) for name in LEGAL.__dataclass_fields__}
    return Im2colMap(**{**values, **fields})  # type: ignore[arg-type]


def test_a_legal_map_comes_first() -> None:
    first = repair(LEGAL, target="sm_90a")[0]
    assert (first.kind, first.im2col, first.map) == ("legal", LEGAL, None)


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"channels_per_pixel": 128, "dims": (128, 56, 56, 8)}, {"channels_per_pixel": 64}),
        ({"pixels_per_column": 2000}, {"pixels_per_column": 1000}),
        ({"strides": (136, 7168, 401408)}, {"strides": (144, 7168, 401408)}),
        ({"address": 8}, {"address": 16}),
        ({"channels_per_pixel": 12}, {"channels_per_pixel": 16}),
    ],
)
def test_the_nearest_value_is_found(fields: dict[str, object], wanted: dict[str, object]) -> None:
    found = repair(changed(**fields), target="sm_90a")
    for each in found:
        assert each.im2col is None or check(each.im2col, "sm_90a").legal
    maps = [each.im2col for each in found if each.im2col is not None]
    assert changed(**{**fields, **wanted}) in maps
    assert found[-1].kind == "loads"


def test_what_says_which_elements_is_not_changed() -> None:
    found = repair(changed(lower_corner=(-300, -1)), target="sm_90a")
    assert {each.kind for each in found} == {"loads"}


def test_a_wide_map_on_hopper_is_left_to_threads() -> None:
    wide = Im2colWideMap("f16", (64, 56, 56, 8), (128, 7168, 401408), 0, 0, 64, 64)
    assert {each.kind for each in repair(wide, target="sm_90a")} == {"loads"}
    assert repair(wide, target="sm_100a")[0].im2col is not None


def test_nothing_to_copy_has_no_repair() -> None:
    assert repair(changed(dims=(64, 0, 56, 8)), target="sm_90a") == []
    assert repair(changed(pixels_per_column=0), target="sm_90a") == []


def taps_view(channels: int, size: int, taps: int, images: int, tile: tuple[int, ...]) -> TensorMap:
    """A convolution's windows as an overlapping view of images: channels, taps, places, images."""
    row, out = 2 * channels * size, size - taps + 1
    strides = (2 * channels, row, 2 * channels, row, row * size)
    return TensorMap("f16", (channels, taps, taps, out, out, images), strides, tile)


def test_windows_of_images_are_taken_by_im2col() -> None:
    map = taps_view(8, 6, 3, 2, (8, 1, 1, 4, 2, 1))
    found = next(each for each in repair(map, Want(box=map.box), target="sm_90a") if each.kind == "im2col")
    im2col = found.im2col
    assert im2col is not None
    assert check(im2col, "sm_90a").legal
    memory = np.random.default_rng(3).integers(0, 256, 8 * 6 * 6 * 2 * 2 + 64, dtype=np.uint8)
    for tap, start in product(product(range(3), range(3)), ((0, 0), (0, 2))):
        for image in range(2):
            column = copy_box(im2col, memory, (0, start[0], start[1], image), tap, target="sm_90a").data
            wanted: list[int] = []
            for row, place in product(range(2), range(4)):
                at = image * 576 + (start[1] + row + tap[1]) * 96 + (place + tap[0]) * 16
                wanted.extend(memory[at : at + 16].tolist())
            assert column[: len(wanted)].tolist() == wanted


def test_views_without_windows_are_not() -> None:
    assert all(
        each.kind != "im2col"
        for each in repair(TensorMap("f16", (8, 3, 6, 2), (48, 16, 96), (8, 1, 4, 1)), target="sm_90a")
    )
