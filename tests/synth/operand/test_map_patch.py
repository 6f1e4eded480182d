"""Patches of tensor maps: which fields, what template, and which conditions remain to be asked."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from tilewright.base.error import TilewrightError
from tilewright.ir.map_patch import MapPatch
from tilewright.layout.numbers.condition import holds
from tilewright.legal.symbolic.symbolic_map import Dim, SymbolicMap
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.legal.tensor_map.tiled_rules import tiled_rules
from tilewright.synth.operand.map_patch import plan_patch
from tilewright.targets import target

HOPPER = target("sm_90a")
ADDRESS = Dim("address", 0, 2**48, multiple_of=16)


def legal(map: TensorMap, name: str = "sm_90a") -> bool:
    return all(rule.stated(map.fields) is True for rule in tiled_rules(target(name)))


def rows_of(k: Dim, m: Dim, **more: Any) -> SymbolicMap:
    return SymbolicMap("bf16", (k, m), (2 * k,), (64, 8), address=ADDRESS, **more)


def asked(patch: MapPatch) -> list[str]:
    return [str(condition) for condition in patch.conditions]


def test_what_differs_is_replaced_and_nothing_else() -> None:
    patch = plan_patch(rows_of(Dim("K", 8, 65536, 8), Dim("M", 1, 65536), swizzle="128B"), HOPPER)
    assert [(item.field, item.index, str(item.value)) for item in patch.replacements] == [
        ("global_address", 0, "address"), ("global_dim", 0, "K"), ("global_dim", 1, "M"), ("global_stride", 0, "2*K"),
    ]  # fmt: skip
    assert (asked(patch), patch.slots, patch.record_bytes) == ([], 2, 24)
    assert [patch.offset_bytes(name) for name in ("K", "M", "address")] == [0, 8, 16]
    assert patch.record({"K": 8, "M": 1, "address": 2**40}) == b"".join(n.to_bytes(8, "little") for n in (8, 1, 2**40))
    fixed = plan_patch(SymbolicMap("bf16", (4096, Dim("M", 1, 2**31)), (8192,), (64, 8)), HOPPER)
    assert [item.field for item in fixed.replacements] == ["global_dim"]


def test_the_template_is_legal_and_has_what_groups_share() -> None:
    for swizzle in ("none", "128B"):
        map = rows_of(Dim("K", 8, 65536, 8), Dim("M", 1, 65536), swizzle=swizzle, oob_fill="nan")
        template = plan_patch(map, HOPPER).template
        assert legal(TensorMap.from_plan(template))
        assert (template.box, template.swizzle, template.out_of_bounds) == ((64, 8), swizzle, "nan")


def test_what_is_not_promised_is_asked_of_each_group() -> None:
    map = rows_of(Dim("K", 0, 2**40), Dim("M", 0, 2**40))
    patch = plan_patch(map, HOPPER)
    assert asked(patch) == ["K >= 1", "K <= 4294967296", "M >= 1", "M <= 4294967296", "K % 8 == 0",
                            "K <= 4294967295", "M <= 4294967295"]  # fmt: skip
    for k, m in product((0, 1, 7, 8, 12, 64, 2**32 - 8, 2**32, 2**40), (0, 1, 2**32 - 1, 2**32)):
        sizes = {"K": k, "M": m, "address": 0}
        fits = max(k, m) < 2**32
        assert all(holds(condition, sizes) for condition in patch.conditions) == (fits and legal(map.at(sizes)))


def test_promises_that_are_not_trusted_are_asked_too() -> None:
    map = rows_of(Dim("K", 8, 65536, 8), Dim("M", 1, 65536))
    assert asked(plan_patch(map, HOPPER, trusted=False)) == [
        "K >= 8", "K <= 65536", "K % 8 == 0", "M >= 1", "M <= 65536",
        "address >= 0", "address <= 281474976710656", "address % 16 == 0",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"box": (Dim("B", 8, 64, 8), 8)}, "box differs from group to group: B"),
        ({"element_strides": (1, Dim("S", 1, 8))}, "element_strides differs"),
        ({"strides": ("2*K + 8",)}, "no group has a legal tensor map"),
        ({"strides": ("K*M*H*H*H",), "sizes": (Dim("H", 16, 2**30, 16),)}, "may overflow 64 bits"),
        ({"strides": ("(H + 1000)//2*16",), "sizes": (Dim("H", -4000, 4000),)}, "negative operand"),
        ({"where": "K <= M"}, "not promises of one size"),
    ],
)
def test_what_cannot_be_patched_is_one_error(change: dict[str, Any], words: str) -> None:
    k, m = Dim("K", 8, 65536, 8), Dim("M", 1, 65536)
    values: dict[str, Any] = {"dtype": "bf16", "dims": (k, m), "strides": ("2*K",), "box": (64, 8), "address": ADDRESS}
    with pytest.raises(TilewrightError) as caught:
        plan_patch(SymbolicMap(**(values | change)), HOPPER)
    assert words in str(caught.value)


def test_no_slots_is_an_error() -> None:
    with pytest.raises(TilewrightError, match="0 slots"):
        plan_patch(rows_of(Dim("K", 8, 64, 8), Dim("M", 1, 8)), HOPPER, slots=0)
