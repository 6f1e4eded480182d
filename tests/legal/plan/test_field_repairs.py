"""Interleaved and padded maps: the integer solver changes a smallest set of fields, and the rules accept the answer."""

from __future__ import annotations

import pytest

from tilewright.legal.plan.engines import Engines
from tilewright.legal.plan.repairs import repair
from tilewright.legal.plan.want import Want
from tilewright.legal.tensor_map.legality import check
from tilewright.legal.tensor_map.tensor_map import TensorMap

INTERLEAVED = TensorMap("bf16", (8, 64, 64), (32, 2048), (8, 16, 8), interleave="16B")
PACKED = TensorMap("u4x16_align16", (256, 64), (128,), (128, 64), swizzle="128B")

ILLEGAL = [
    (TensorMap("bf16", (8, 64, 64), (24, 1600), (8, 16, 300), interleave="16B"), "sm_90a"),
    (TensorMap("bf16", (64, 64), (128,), (16, 16), interleave="32B"), "sm_90a"),
    (TensorMap("bf16", (16, 64, 64), (48, 3072), (16, 16, 4), interleave="32B", address=16), "sm_90a"),
    (TensorMap("u4x16_align16", (200, 64), (100,), (64, 64), swizzle="32B"), "sm_100a"),
    (TensorMap("u6x16_align16", (256, 64), (200,), (128, 300), swizzle="128B"), "sm_100a"),
]


@pytest.mark.parametrize(("map", "target"), [(INTERLEAVED, "sm_90a"), (PACKED, "sm_100a")])
def test_legal_ones_stay(map: TensorMap, target: str) -> None:
    assert check(map, target).legal
    assert repair(map, target=target)[0].kind == "legal"


@pytest.mark.parametrize(("map", "target"), ILLEGAL)
def test_illegal_ones_are_mended_in_their_form(map: TensorMap, target: str) -> None:
    assert not check(map, target).legal
    found = repair(map, target=target)
    mended = [each for each in found if each.map is not None]
    assert mended
    for each in mended:
        assert each.map is not None
        assert check(each.map, target).legal
        assert each.map.dtype == map.dtype
        assert each.map.rank == map.rank
        assert each.changes
    assert found[-1].kind == "loads"


def test_strides_grow_least() -> None:
    map = TensorMap("bf16", (8, 64, 64), (24, 1600), (8, 16, 8), interleave="16B")
    first = repair(map, target="sm_90a")[0]
    assert first.map is not None
    assert first.map.strides == (32, 1600)
    assert first.title == "strides 32,1600 instead of 24,1600"


@pytest.mark.parametrize("dtype", ["u4x16_align16", "u6x16_align16"])
def test_nothing_but_threads_pads_groups_without_a_map(dtype: str) -> None:
    # Groups of 8 or 12 bytes become 16 in shared memory: a bulk copy or one of 16 bytes moves them as they lie.
    packed = TensorMap(dtype, (256, 64), (192,), (128, 16), swizzle="64B")
    assert {each.kind for each in repair(packed, target="sm_100a") if not each.maps} == {"loads"}


def test_kept_fields_and_an_absent_solver_leave_loads() -> None:
    map = ILLEGAL[0][0]
    assert {each.kind for each in repair(map, Want(keep=frozenset({"strides"})), target="sm_90a")} == {"loads"}
    assert {each.kind for each in repair(map, engines=Engines(solver=False), target="sm_90a")} == {"loads"}
