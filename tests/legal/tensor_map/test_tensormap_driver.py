"""The tensor-map rules against a driver: 71,588 calls of cuTensorMapEncodeTiled on an H200, and some at the borders."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tilewright.legal.tensor_map.legality import judge
from tilewright.legal.tensor_map.rows import check_rows
from tilewright.legal.tensor_map.rule import Fields
from tilewright.legal.tensor_map.tiled_rules import tiled_rules
from tilewright.targets import target

HOPPER = target("sm_90a")
BASE = Fields(
    dtype=0,
    rank=3,
    address=1 << 20,
    dims=(4096, 4096, 4096),
    strides=(4096, 1 << 24),
    box=(16, 1, 1),
    element_strides=(1, 1, 1),
    interleave=0,
    swizzle=0,
    l2_promotion=0,
    oob_fill=0,
)


def driver_columns(name: str = "tensormap") -> dict[str, np.ndarray]:
    with np.load(Path(__file__).parents[2] / "data" / f"{name}.npz") as archive:
        rows = archive["rows"]
        return {str(name): rows[:, index] for index, name in enumerate(archive["cols"])}


def driver_rows() -> list[list[int]]:
    columns = driver_columns()
    wanted = ["dtype", "rank", "addr"]
    wanted += [
        f"{letter}{index}" for letter, count in (("d", 5), ("s", 4), ("b", 5), ("e", 5)) for index in range(count)
    ]
    wanted += ["interleave", "swizzle", "l2", "oob", "cuResult"]
    return np.stack([columns[name] for name in wanted], axis=1).tolist()


def fields_of(row: list[int]) -> Fields:
    dims, strides, box, element_strides = (tuple(row[a:b]) for a, b in ((3, 8), (8, 12), (12, 17), (17, 22)))
    return Fields(row[0], row[1], row[2], dims, strides, box, element_strides, *row[22:26])


def broken_codes(fields: Fields) -> set[str]:
    return {rule.code for rule in judge(fields, tiled_rules, HOPPER)}


def test_every_row_agrees_with_the_driver() -> None:
    rows = driver_rows()
    alone: Counter[str] = Counter()
    disagreements: list[list[int]] = []
    for row in rows:
        codes = broken_codes(fields_of(row))
        if bool(codes) != (row[26] != 0):
            disagreements.append(row)
        if len(codes) == 1:
            alone.update(codes)
    assert len(rows) == 71588
    assert disagreements == []
    # Each rule decides rows by itself, so none of them is idle in the comparison. Addresses there are all small.
    every_code = {f"TM{number:03d}" for number in range(1, 19)} - {"TM010"}
    assert {code for code, count in alone.items() if count >= 50} == every_code


def test_columns_agree_with_the_driver() -> None:
    columns = driver_columns()
    legal = check_rows(columns, "sm_90a")
    assert legal.size == 71588
    assert not np.flatnonzero(legal != (columns["cuResult"] == 0)).size


def test_rows_near_every_limit_agree_with_the_driver() -> None:
    # Some of 1,500,000 drawn by bench.probes.tensormap_rows, all of which agreed when they were asked.
    columns = driver_columns("tensormap_near")
    legal = check_rows(columns, "sm_90a")
    assert legal.size == 12000 and 0.4 < legal.mean() < 0.7
    assert not np.flatnonzero(legal != (columns["cuResult"] == 0)).size


def test_entries_past_the_rank_do_not_matter() -> None:
    generator = random.Random(7)
    rows = generator.sample([row for row in driver_rows() if 1 <= row[1] <= 5], 2000)
    for row in rows:
        fields = fields_of(row)
        rank = fields.rank
        noisy = replace(
            fields,
            dims=fields.dims[:rank] + (0,) * (5 - rank),
            strides=fields.strides[: rank - 1] + (7,) * (5 - rank),
            box=fields.box[:rank] + (300,) * (5 - rank),
            element_strides=fields.element_strides[:rank] + (9,) * (5 - rank),
        )
        assert judge(noisy, tiled_rules, HOPPER) == judge(fields, tiled_rules, HOPPER)


def test_every_limit_is_a_row_of_the_target() -> None:
    for name in ("sm_90a", "sm_100a"):
        facts = target(name)
        for rule in tiled_rules(facts):
            fact = facts.fact(rule.key)
            values = fact.value if isinstance(fact.value, tuple) else (fact.value,)
            assert rule.limit in values or rule.code == "TM006", rule
            assert rule.source and (fact.since or fact.measured)


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
        ({"address": 0}, True),
        ({"address": 2**57 - 16}, True),
        ({"address": 2**57}, False),
        ({"address": 2**63}, False),
        ({"address": (1 << 20) + 8}, False),
        ({"dims": (2**32, 1, 1)}, True),
        ({"dims": (2**32 + 1, 1, 1)}, False),
        ({"box": (32, 1, 1), "interleave": 2, "swizzle": 0}, True),
        ({"box": (32, 1, 1), "interleave": 2, "swizzle": 3}, True),
        ({"dtype": 12, "oob_fill": 1}, True),
        ({"dtype": 5, "oob_fill": 1}, False),
        ({"dtype": 13}, False),
        ({"swizzle": -1}, False),
        ({"interleave": -1}, False),
        ({"dtype": -1}, False),
    ],
)
def test_borders_measured_on_the_driver(fields: dict[str, object], accepted: bool) -> None:
    assert (not broken_codes(replace(BASE, **fields))) == accepted
