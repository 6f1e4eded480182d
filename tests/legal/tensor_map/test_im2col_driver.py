"""The rules of im2col maps against a driver: 18,433 calls of cuTensorMapEncodeIm2col on an H200, near every limit."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tilewright.legal.tensor_map.im2col_rules import im2col_rules
from tilewright.legal.tensor_map.legality import judge
from tilewright.legal.tensor_map.rows import check_im2col_rows
from tilewright.legal.tensor_map.rule import Fields
from tilewright.targets import target

HOPPER = target("sm_90a")
BASE = Fields(
    dtype=0, rank=4, address=1 << 20, dims=(64, 32, 32, 8), strides=(128, 4096, 1 << 17), box=(),
    element_strides=(1, 1, 1, 1), interleave=0, swizzle=0, l2_promotion=0, oob_fill=0, lower_corner=(0, 0),
    upper_corner=(0, 0), channels_per_pixel=64, pixels_per_column=128,
)  # fmt: skip


def driver_columns() -> dict[str, np.ndarray]:
    with np.load(Path(__file__).parents[2] / "data" / "tensormap_im2col.npz") as archive:
        rows = archive["rows"]
        return {str(name): rows[:, index] for index, name in enumerate(archive["cols"])}


def fields_of(columns: dict[str, np.ndarray], row: int) -> Fields:
    value = {name: int(column[row]) for name, column in columns.items()}

    def entries(name: str, count: int) -> tuple[int, ...]:
        return tuple(value[f"{name}{index}"] for index in range(count))

    def corner(name: str) -> tuple[int, ...]:
        return tuple(entry - 2**64 if entry >= 2**63 else entry for entry in entries(name, 3))

    return Fields(
        value["dtype"], value["rank"], value["addr"], entries("d", 5), entries("s", 4), (), entries("e", 5),
        value["interleave"], value["swizzle"], value["l2"], value["oob"], corner("lo"), corner("up"), value["channels"],
        value["pixels"],
    )  # fmt: skip


def test_columns_agree_with_the_driver() -> None:
    columns = driver_columns()
    legal = check_im2col_rows(columns, "sm_90a")
    assert legal.size == 18433
    assert not np.flatnonzero(legal != (columns["cuResult"] == 0)).size


def test_each_rule_decides_rows_by_itself() -> None:
    columns = driver_columns()
    alone: Counter[str] = Counter()
    for row in range(0, columns["rank"].size, 2):
        codes = {rule.code for rule in judge(fields_of(columns, row), im2col_rules, HOPPER)}
        assert bool(codes) == (columns["cuResult"][row] != 0)
        if len(codes) == 1:
            alone.update(codes)
    # Interleaved maps need rank 3, and so do all im2col maps: TM008 never decides.
    every_code = {rule.code for rule in im2col_rules(HOPPER)} - {"TM008"}
    assert {code for code, count in alone.items() if count >= 3} == every_code


# What the rows show, one by one: extent, lower and upper corner of dimension 1, and the driver's answer.
@pytest.mark.parametrize(
    ("extent", "lower", "upper", "accepted"),
    [
        (8, 7, 0, True),
        (8, 8, 0, False),
        (8, -3, -10, True),
        (8, -2, -10, False),
        (2**31 - 1, -4, -1, True),
        (2**31 - 1, 6, 4, False),
        (2**31, -1, -1, True),
        (2**31, 0, 0, False),
        (2**31, 15, 14, False),
        (2**32, 4, 5, True),
        (2**32, 5, 5, False),
    ],
)
def test_the_end_of_the_box_of_pixels_is_a_signed_word(extent: int, lower: int, upper: int, accepted: bool) -> None:
    fields = replace(BASE, dims=(64, extent, 32, 8), lower_corner=(lower, 0), upper_corner=(upper, 0))
    assert (not judge(fields, im2col_rules, HOPPER)) == accepted


@pytest.mark.parametrize(("pixels", "accepted"), [(912, True), (913, False)])
def test_a_column_fits_a_multiprocessor(pixels: int, accepted: bool) -> None:
    fields = replace(BASE, channels_per_pixel=256, pixels_per_column=pixels)
    assert (not judge(fields, im2col_rules, HOPPER)) == accepted
