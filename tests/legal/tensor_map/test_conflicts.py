"""Conflicts of fields and smallest changes, against all assignments of small maps."""

from itertools import chain, combinations, product

import pytest

from tilewright import legal
from tilewright.legal.tensor_map.legality import judge
from tilewright.legal.tensor_map.tiled_rules import tiled_rules
from tilewright.targets import target

HOPPER = target("sm_90a")
# Every value that a rule could ask for is among these, for maps of rank 3 with an element of fixed type.
VALUES: dict[str, tuple[int, ...]] = {
    "address": (0, 32, 16, 8),
    "strides[0]": (0, 32, 16, 200),
    "box[0]": (8, 16, 32, 64, 128, 256, 100, 300),
    "box[1]": (1, 128, 256, 300),
    "swizzle": (0, 1, 2, 3, 4),
    "interleave": (0, 1, 2, 3),
}


def fields_of(values: dict[str, int]) -> legal.Fields:
    return legal.TensorMap(
        "bf16", (4096, 64, 64), (values["strides[0]"], 1 << 20), (values["box[0]"], values["box[1]"], 4),
        interleave=values["interleave"], swizzle=values["swizzle"], address=values["address"],
    ).fields  # fmt: skip


def by_hand(values: dict[str, int]) -> set[frozenset[str]]:
    """The minimal sets of fields whose change suffices, by trying all."""
    found: set[frozenset[str]] = set()
    names = tuple(VALUES)
    for free in chain.from_iterable(combinations(names, size) for size in range(len(names) + 1)):
        if any(other <= set(free) for other in found):
            continue
        for chosen in product(*(VALUES[name] for name in free)):
            if not judge(fields_of(values | dict(zip(free, chosen, strict=True))), tiled_rules, HOPPER):
                found.add(frozenset(free))
                break
    return found


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "given",
    [
        {"address": 16, "interleave": 2},
        {"box[0]": 128, "swizzle": 3},
        {"box[0]": 100, "strides[0]": 200, "box[1]": 300},
        {"address": 8, "swizzle": 4, "box[0]": 300},
        {"strides[0]": 16, "address": 16, "interleave": 2, "swizzle": 3, "box[0]": 128},
        {"interleave": 3, "box[0]": 256, "swizzle": 1},
    ],
)
def test_changes_are_those_found_by_trying_all(given: dict[str, int]) -> None:
    values = {"address": 0, "strides[0]": 32, "box[0]": 16, "box[1]": 1, "swizzle": 0, "interleave": 0} | given
    fields = fields_of(values)
    map = legal.TensorMap(
        "bf16", fields.dims, fields.strides, fields.box, None, fields.interleave, fields.swizzle, address=fields.address
    )
    found = legal.check(map, "sm_90a")
    # The map may also change its type, or fields that are not varied here: those sets are other answers.
    comparable = {change for change in found.minimal_changes if change <= set(VALUES)}
    assert comparable == by_hand(values)
    for conflict in found.conflicts:
        assert all(conflict.fields & change for change in found.minimal_changes)
        assert conflict.codes


def test_several_rules_may_leave_no_value_for_a_field() -> None:
    flat = legal.TensorMap("bf16", (4096, 100), (256,), (128, 100), interleave="16B", swizzle="128B")
    found = legal.check(flat, "sm_90a")
    assert [violation.code for violation in found.violations] == ["TM008"]
    conflicts = {conflict.codes: conflict.fields for conflict in found.conflicts}
    assert conflicts[("TM008",)] == {"interleave", "rank"}
    # Without interleave the inner row exceeds the span: whatever the interleave, these four cannot stay.
    assert conflicts[("TM008", "TM016")] == {"box[0]", "dtype", "rank", "swizzle"}
    assert {"rank"} in found.minimal_changes and {"interleave", "swizzle"} in found.minimal_changes
    assert {"interleave"} not in found.minimal_changes


def test_a_map_of_a_kind_that_the_target_lacks_has_no_change() -> None:
    wide = legal.Im2colWideMap("bf16", (64, 32, 32), (128, 4096), 0, 0, 64, 32)
    found = legal.check(wide, "sm_90a")
    assert [violation.code for violation in found.violations] == ["TM028"]
    assert found.conflicts == found.minimal_changes == ()


def test_a_map_that_breaks_everything_is_answered() -> None:
    hostile = legal.TensorMap(
        99, (0, -1, 2**70, 0, 0), (7, 7, 7, -1), (0, 300, 1000, -2, 2**40), (0, 99, 99, 99, 9), 7, 9, 9, 9, -5
    )
    (change,) = legal.check(hostile, "sm_90a").minimal_changes
    assert {"dtype", "swizzle", "interleave", "address", "dims[0]", "box[4]", "strides[3]"} <= change
