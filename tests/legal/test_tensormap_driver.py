"""The tensor-map rules against a driver: 71,588 calls of cuTensorMapEncodeTiled on an H200, and some at the borders."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tilewright.legal.raw_tensormap import RawTensorMap, raw_violations
from tilewright.targets import target

HOPPER = target("sm_90a")
BASE = RawTensorMap(
    data_type=0,
    rank=3,
    global_address=1 << 20,
    dims=(4096, 4096, 4096),
    strides_bytes=(4096, 1 << 24),
    box=(16, 1, 1),
    element_strides=(1, 1, 1),
    interleave=0,
    swizzle=0,
    l2_promotion=0,
    out_of_bounds=0,
)


def driver_rows() -> list[list[int]]:
    with np.load(Path(__file__).parents[1] / "data" / "tensormap.npz") as archive:
        columns = [str(name) for name in archive["cols"]]
        rows = archive["rows"]
    wanted = ["dtype", "rank", "addr"]
    wanted += [
        f"{letter}{index}" for letter, count in (("d", 5), ("s", 4), ("b", 5), ("e", 5)) for index in range(count)
    ]
    wanted += ["interleave", "swizzle", "l2", "oob", "cuResult"]
    return rows[:, [columns.index(name) for name in wanted]].tolist()


def raw_of(row: list[int]) -> RawTensorMap:
    dims, strides, box, element_strides = (tuple(row[a:b]) for a, b in ((3, 8), (8, 12), (12, 17), (17, 22)))
    return RawTensorMap(row[0], row[1], row[2], dims, strides, box, element_strides, *row[22:26])


def test_every_row_agrees_with_the_driver() -> None:
    rows = driver_rows()
    alone: Counter[str] = Counter()
    disagreements: list[list[int]] = []
    for row in rows:
        codes = {violation.code for violation in raw_violations(raw_of(row), HOPPER)}
        if bool(codes) != (row[26] != 0):
            disagreements.append(row)
        if len(codes) == 1:
            alone.update(codes)
    assert len(rows) == 71588
    assert disagreements == []
    # Each rule decides rows by itself, so none of them is idle in the comparison. Addresses there are all small.
    every_code = {f"TM{number:03d}" for number in range(1, 19)} - {"TM010"}
    assert {code for code, count in alone.items() if count >= 50} == every_code


def test_entries_past_the_rank_do_not_matter() -> None:
    generator = random.Random(7)
    rows = generator.sample([row for row in driver_rows() if 1 <= row[1] <= 5], 2000)
    for row in rows:
        raw = raw_of(row)
        noisy = replace(
            raw,
            dims=raw.dims[: raw.rank] + (0,) * (5 - raw.rank),
            strides_bytes=raw.strides_bytes[: raw.rank - 1] + (7,) * (5 - raw.rank),
            box=raw.box[: raw.rank] + (300,) * (5 - raw.rank),
            element_strides=raw.element_strides[: raw.rank] + (9,) * (5 - raw.rank),
        )
        assert raw_violations(noisy, HOPPER) == raw_violations(raw, HOPPER)


# Answers of the same driver where the rows above leave the border open.
@pytest.mark.parametrize(
    ("fields", "accepted"),
    [
        ({"box": (16, 228, 64)}, True),
        ({"box": (16, 167, 87)}, True),
        ({"box": (16, 229, 64)}, False),
        ({"box": (16, 228, 64), "interleave": 1}, True),
        ({"box": (16, 229, 64), "interleave": 2}, False),
        ({"box": (64, 228, 16), "swizzle": 3}, True),
        ({"box": (64, 229, 16), "swizzle": 3}, False),
        ({"box": (16, 228, 128), "element_strides": (1, 1, 2)}, True),
        ({"box": (16, 229, 128), "element_strides": (1, 1, 2)}, False),
        ({"box": (16, 227, 65), "element_strides": (2, 1, 1)}, True),
        ({"box": (16, 227, 65), "element_strides": (9, 1, 1)}, False),
        ({"box": (16, 100, 100), "swizzle": 3}, True),
        ({"global_address": 0}, True),
        ({"global_address": 2**57 - 16}, True),
        ({"global_address": 2**57}, False),
        ({"global_address": 2**63}, False),
        ({"global_address": (1 << 20) + 8}, False),
        ({"dims": (2**32, 1, 1)}, True),
        ({"dims": (2**32 + 1, 1, 1)}, False),
        ({"box": (32, 1, 1), "interleave": 2, "swizzle": 0}, True),
        ({"box": (32, 1, 1), "interleave": 2, "swizzle": 3}, True),
        ({"data_type": 12, "out_of_bounds": 1}, True),
        ({"data_type": 5, "out_of_bounds": 1}, False),
        ({"data_type": 13}, False),
        ({"swizzle": -1}, False),
        ({"interleave": -1}, False),
        ({"data_type": -1}, False),
    ],
)
def test_borders_measured_on_the_driver(fields: dict[str, object], accepted: bool) -> None:
    assert (raw_violations(replace(BASE, **fields), HOPPER) == ()) == accepted
