"""One map judged: verdict, every violation, minimal sets, sizes, versions; within its time."""

import timeit

import pytest

from tilewright import legal
from tilewright.base.error import TilewrightError
from tilewright.targets import target

GOOD = legal.TensorMap("bf16", (4096, 4096), (8192,), (64, 128), swizzle="128B", address=1 << 20)


def map_of(**changes: object) -> legal.TensorMap:
    fields = {
        "dtype": "bf16", "dims": (4096, 4096), "strides": (8192,), "box": (64, 128), "swizzle": "128B",
        "address": 1 << 20,
    }  # fmt: skip
    return legal.TensorMap(**(fields | changes))


def codes(map: legal.TensorMap, **options: object) -> list[str]:
    return [violation.code for violation in legal.check(map, **({"target": "sm_90a"} | options)).violations]


def test_a_legal_map() -> None:
    found = legal.check(GOOD, "sm_90a")
    assert found.legal and bool(found)
    assert found.violations == found.minimal_sets == found.conflicts == found.minimal_changes == found.warnings == ()
    assert found.footprint_bytes == found.transaction_bytes == 64 * 128 * 2


def test_every_rule_broken_is_a_minimal_set_with_value_limit_and_source() -> None:
    found = legal.check(map_of(dims=(100, 0), strides=(200,), box=(100, 300), address=4), "sm_90a")
    assert not found.legal
    assert [violation.code for violation in found.violations] == ["TM009", "TM011", "TM012", "TM014", "TM015", "TM016"]
    assert found.minimal_sets == tuple((violation,) for violation in found.violations)
    stride = found.violations[2]
    assert (stride.field, stride.index, stride.value, stride.limit) == ("globalStrides", 0, 200, 16)
    assert stride.message == "row stride 200 bytes is not a multiple of 16" and "globalStrides" in stride.source
    assert all(violation.enforced and violation.source for violation in found.violations)


def test_of_limits_that_sharpen_each_other_the_sharpest_is_named() -> None:
    sliced = legal.TensorMap("u8", (4096,) * 3, (4104, 1 << 24), (32, 4, 4), interleave="32B", swizzle="32B", address=8)
    assert [(found.code, found.limit) for found in legal.check(sliced, "sm_90a").violations] == [
        ("TM009", 32),
        ("TM012", 32),
    ]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"dtype": 16}, ["TM001"]),
        ({"dtype": "u4x16_align8"}, ["TM001"]),
        ({"interleave": 3}, ["TM002"]),
        ({"swizzle": "128B_atom_32B"}, ["TM003"]),
        ({"l2_promotion": 4}, ["TM004"]),
        ({"oob_fill": 2}, ["TM005"]),
        ({"dtype": "u16", "oob_fill": "nan"}, ["TM006"]),
        ({"dims": (4096,) * 6, "strides": (8192,) * 5, "box": (64, 1, 1, 1, 1, 1)}, ["TM007"]),
        ({"dims": (), "strides": (), "box": ()}, ["TM007"]),
        ({"interleave": "16B"}, ["TM008"]),
        ({"address": 24}, ["TM009"]),
        ({"address": 2**64}, ["TM010"]),
        ({"address": -16}, ["TM010"]),
        ({"dims": (4096, 2**32 + 1)}, ["TM011"]),
        ({"strides": (8200,)}, ["TM012"]),
        ({"strides": (2**40,)}, ["TM013"]),
        ({"strides": (-8192,)}, ["TM013"]),
        ({"box": (64, 257)}, ["TM014"]),
        ({"box": (4, 1)}, ["TM015"]),
        ({"box": (128, 1)}, ["TM016"]),
        ({"element_strides": (1, 9)}, ["TM017"]),
        ({"swizzle": "none", "box": (256, 256), "dtype": "f64"}, ["TM018"]),
    ],
)
def test_each_rule_alone(changes: dict[str, object], expected: list[str]) -> None:
    assert codes(map_of(**changes)) == expected


def test_packed_elements_on_the_architecture_that_has_them() -> None:
    def packed(dtype: str, **changes: object) -> list[str]:
        fields = {"dims": (256, 64), "strides": (256,), "box": (128, 16), "swizzle": "128B"}
        return codes(legal.TensorMap(dtype, **(fields | changes)), target="sm_100a")

    for dtype in ("u4x16_align16", "u6x16_align16"):
        assert packed(dtype) == []
        assert packed(dtype, address=16) == ["TM009"]
        assert packed(dtype, strides=(240,)) == ["TM012"]
        assert packed(dtype, dims=(192, 64)) == ["TM020"]
        assert packed(dtype, box=(64, 16)) == ["TM021"]
        assert packed(dtype, swizzle="64B") == ["TM016", "TM022"]
        assert packed(dtype, swizzle="128B_atom_32B_flip_8B") == ["TM022"]
    assert packed("u6x16_align16", swizzle="128B_atom_64B") == []
    assert packed("u4x16_align16", swizzle="128B_atom_64B") == ["TM022"]
    three = {"dims": (256, 64, 4), "strides": (256, 16384), "box": (128, 16, 1), "swizzle": "none"}
    assert packed("u6x16_align16", interleave="16B", **three) == ["TM023"]
    assert packed("u4x16_align8", box=(256, 16)) == []
    assert packed("u4x16_align8", box=(48, 16)) == ["TM015"]
    assert packed("u4x16_align8", dims=(255, 64)) == ["TM020"]
    assert packed("u4x16_align8", oob_fill="nan") == ["TM006"]


def test_padded_elements_fill_more_than_they_count() -> None:
    found = legal.check(legal.TensorMap("u6x16_align16", (256, 64), (256,), (128, 16), swizzle="128B"), "sm_100a")
    assert (found.footprint_bytes, found.transaction_bytes) == (2048, 1536)
    found = legal.check(legal.TensorMap("u4x16_align8", (256, 64), (256,), (128, 16)), "sm_100a")
    assert (found.footprint_bytes, found.transaction_bytes) == (1024, 1024)


def test_sizes_have_no_meaning_where_the_box_has_none() -> None:
    for changes in ({"dtype": 99}, {"box": (64, 0)}, {"element_strides": (1, 0)}, {"swizzle": 77}):
        found = legal.check(map_of(**changes), "sm_90a")
        assert found.footprint_bytes is None and found.transaction_bytes is None


@pytest.mark.parametrize(
    ("driver", "expected"),
    [(None, []), ((12, 8), []), (12080, []), (13010, []), ((12, 6), ["TM019", "TM019"]), (12060, ["TM019", "TM019"])],
)
def test_a_driver_older_than_a_value_does_not_know_it(driver: object, expected: list[str]) -> None:
    packed = legal.TensorMap("u6x16_align16", (256, 64), (256,), (128, 16), swizzle="128B_atom_32B")
    assert codes(packed, target="sm_100a", driver=driver) == expected
    assert codes(GOOD, target="sm_100a", driver=driver) == []


def test_no_driver_before_tensor_maps_knows_any() -> None:
    assert codes(GOOD, driver=(11, 8)) == ["TM019"]
    assert codes(GOOD, driver=(12, 0)) == []


@pytest.mark.parametrize("driver", [0, -1, "13", (13,), 13, "0.1", float("nan"), "13.0.1", True, (0, 1), (10**5000, 1)])
def test_a_version_that_is_none_is_an_error(driver: object) -> None:
    with pytest.raises(TilewrightError, match="driver version"):
        legal.check(GOOD, "sm_90a", driver=driver)


def test_targets_by_name_and_by_value() -> None:
    assert legal.check(GOOD, "sm_90a") == legal.check(GOOD, target("sm_90a"))
    with pytest.raises(TilewrightError, match="unknown target"):
        legal.check(GOOD, "sm_80")


def test_a_launch_plan_s_map_is_a_map_and_other_things_are_not() -> None:
    assert legal.check(GOOD.to_plan(), "sm_90a") == legal.check(GOOD, "sm_90a")
    for other in (None, "map", 5, {"dtype": "bf16"}):
        with pytest.raises(TilewrightError, match="not a tensor map"):
            legal.check(other, "sm_90a")


def test_a_question_takes_less_than_fifty_microseconds() -> None:
    bad = map_of(dims=(100, 0, 3), strides=(200, 7), box=(100, 300, 0), address=4)
    for map in (GOOD, bad):
        best = min(timeit.repeat(lambda map=map: legal.check(map, "sm_90a").legal, number=2000, repeat=5)) / 2000
        assert best < 50e-6
