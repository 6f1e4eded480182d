"""Random tensor copies of every class against what an H200's copy engine left: bytes, and what barriers were told.

The data is `bench.probes.tma_copies`' (trimmed by `bench.probes.tma_trim`): loads of all data types, swizzles,
interleaves, element strides, coordinates on both sides of every edge; stores and reductions; im2col columns.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from bench.probes.tma_cases import CLASSES
from bench.probes.tma_model import Judge, Measured, read_archive

from tilewright.legal import check
from tilewright.legal.tensor_map.im2col_map import any_from_plan
from tilewright.machine.copy.copy_engine import footprint_bytes, transaction_bytes
from tilewright.targets import target

HOPPER = target("sm_90a")

ARCHIVE = Path(__file__).parents[2] / "data" / "tma_copies.npz"
REFUSED = ("huge", "im2col_wild", "im2col_store_outside", "misaligned", "misaligned_im2col")
"""Classes of which most copies raise CUDA_ERROR_ILLEGAL_INSTRUCTION, and no model gives bytes."""


@cache
def judge() -> Judge:
    with np.load(ARCHIVE) as archive:
        return Judge(archive["special"])


@cache
def measured() -> dict[str, list[Measured]]:
    found: dict[str, list[Measured]] = {}
    for each in read_archive(ARCHIVE):
        found.setdefault(each.name, []).append(each)
    return found


@pytest.mark.sample(7)
@pytest.mark.parametrize("name", [name for name in CLASSES if name not in REFUSED])
def test_copies_match_the_hardware(name: str) -> None:
    copies = measured()[name]
    assert len(copies) >= 20
    for index, each in enumerate(copies):
        image, problem = judge().afterwards(each.case)
        assert image is not None, (name, index, problem)
        assert np.array_equal(image, each.image), (name, index, each.case)
        if each.case.kernel.startswith("load"):
            assert each.counted_bytes == transaction_bytes(each.case.map, HOPPER), (name, index, each.case)


def test_the_data_has_every_type_rank_and_mode() -> None:
    copies = [each.case for found in measured().values() for each in found]
    types = Counter((case.map.element.value, case.map.variant) for case in copies)
    assert len(types) == 13 and min(types.values()) > 10
    assert {case.kernel for case in copies} >= {
        *(f"{kind}_{rank}" for kind in ("load", "store", "reduce_add") for rank in range(1, 6)),
        *(f"{kind}_im2col_{rank}" for kind in ("load", "store", "reduce_add") for rank in range(3, 6)),
    }
    assert {case.map.swizzle for case in copies} == {"none", "32B", "64B", "128B"}
    assert {case.map.interleave for case in copies} == {"none", "16B", "32B"}
    assert sum(min(case.coordinates) < 0 for case in copies) > 100


def test_the_judge_takes_every_map_and_sizes_it_alike() -> None:
    """The driver encoded all these maps; and what `legal` says of a copy is what the copy engine does."""
    for found in measured().values():
        for each in found:
            plan = each.case.map
            judged = check(any_from_plan(plan, 0), "sm_90a")
            assert judged.legal, (plan, judged.violations)
            assert judged.transaction_bytes == transaction_bytes(plan, HOPPER), plan
            assert judged.footprint_bytes == footprint_bytes(plan, HOPPER), plan
