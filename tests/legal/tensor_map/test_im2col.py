"""Im2col maps: as maps, by each rule, and along W alone."""

import pytest

from tilewright import legal
from tilewright.base.error import TilewrightError
from tilewright.legal.tensor_map.im2col_map import any_from_plan

USUAL = {
    "dtype": "bf16", "dims": (64, 32, 32, 8), "strides": (128, 4096, 1 << 17), "lower_corner": (-1, -1),
    "upper_corner": (-1, -1), "channels_per_pixel": 64, "pixels_per_column": 128, "swizzle": "128B", "address": 1 << 20,
}  # fmt: skip
WIDE = USUAL | {"lower_corner": -1, "upper_corner": -1}


def broken(target: str = "sm_90a", driver: object = None, **changes: object) -> list[str]:
    found = legal.check(legal.Im2colMap(**(USUAL | changes)), target, driver)
    assert all(violation.source and violation.message for violation in found.violations)
    return [violation.code for violation in found.violations]


def broken_wide(driver: object = None, **changes: object) -> list[str]:
    return [found.code for found in legal.check(legal.Im2colWideMap(**(WIDE | changes)), "sm_100a", driver).violations]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"channels_per_pixel": 256, "swizzle": "none"}, []),
        ({"channels_per_pixel": 264, "swizzle": "none"}, ["TM024"]),
        ({"channels_per_pixel": 0}, ["TM024"]),
        ({"channels_per_pixel": 128}, ["TM016"]),
        ({"pixels_per_column": 1024}, []),
        ({"pixels_per_column": 1025}, ["TM025"]),
        ({"pixels_per_column": 0}, ["TM025"]),
        ({"channels_per_pixel": 256, "pixels_per_column": 456, "swizzle": "none"}, []),
        ({"channels_per_pixel": 256, "pixels_per_column": 457, "swizzle": "none"}, ["TM018"]),
        ({"lower_corner": (-128, -1)}, []),
        ({"lower_corner": (-129, -1)}, ["TM026"]),
        ({"upper_corner": (127, -1)}, []),
        ({"upper_corner": (128, -1)}, ["TM026"]),
        ({"element_strides": (1, 8, 1, 1)}, []),
        ({"element_strides": (1, 9, 1, 1)}, ["TM017"]),
        ({"strides": (120, 4096, 1 << 17)}, ["TM012"]),
        ({"address": 8}, ["TM009"]),
        ({"dims": (64, 32, 0, 8)}, ["TM011", "TM027"]),
        ({"dims": (64, 32), "strides": (128,), "lower_corner": (), "upper_corner": ()}, ["TM007"]),
        ({"dtype": "i32", "channels_per_pixel": 32, "oob_fill": "nan"}, ["TM006"]),
    ],
)
def test_each_rule(changes: dict[str, object], expected: list[str]) -> None:
    assert broken(**changes) == expected


def test_maps_along_w_alone() -> None:
    assert broken_wide() == []
    assert broken_wide(mode="w128", pixels_per_column=9999) == []
    assert broken_wide(pixels_per_column=1025) == ["TM025"]
    assert broken_wide(pixels_per_column=9999) == ["TM018", "TM025"]
    assert broken_wide(mode=2) == ["TM029"]
    assert broken_wide(swizzle="none") == ["TM030"]
    assert broken_wide(swizzle="128B_atom_32B") == []
    assert broken_wide(lower_corner=-32769) == ["TM026"]
    assert broken_wide(driver=(12, 9)) == ["TM019"]
    assert broken_wide(driver=(13, 0)) == []
    padded = {"dtype": "u6x16_align16", "dims": (128, 32, 32, 8), "channels_per_pixel": 128}
    assert broken_wide(**padded) == []
    assert broken_wide(swizzle="64B", **padded) == ["TM016", "TM022"]


def test_sizes() -> None:
    found = legal.check(legal.Im2colMap(**USUAL), "sm_90a")
    assert found.footprint_bytes == found.transaction_bytes == 128 * 64 * 2
    found = legal.check(legal.Im2colWideMap(**(WIDE | {"mode": "w128", "pixels_per_column": 7})), "sm_100a")
    assert found.transaction_bytes == 128 * 64 * 2
    found = legal.check(legal.Im2colMap(**(USUAL | {"channels_per_pixel": 16})), "sm_90a")
    assert (found.footprint_bytes, found.transaction_bytes) == (128 * 128, 128 * 32)


def test_to_a_launch_plan_and_back() -> None:
    for map in (
        legal.Im2colMap(**USUAL),
        legal.Im2colWideMap(**WIDE),
        legal.Im2colWideMap(**(WIDE | {"mode": "w128"})),
    ):
        assert any_from_plan(map.to_plan()) == map
        assert hash(map) == hash(type(map)(**map.__dict__ | {"dims": list(map.dims)}))
    plan = legal.Im2colMap(**USUAL).to_plan()
    for wrong in (legal.TensorMap, legal.Im2colWideMap):
        with pytest.raises(TilewrightError, match="im2col"):
            wrong.from_plan(plan)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"lower_corner": (-1,)}, "lower_corner has 1 entries; rank 4 needs 2"),
        ({"upper_corner": (-1, 0.5)}, r"upper_corner\[1\] is 0.5"),
        ({"channels_per_pixel": None}, "channels_per_pixel is None"),
        ({"strides": (128,)}, "strides has 1 entries; rank 4 needs 3"),
        ({"swizzle": "127B"}, "did you mean"),
    ],
)
def test_what_is_no_map_is_one_clear_error(changes: dict[str, object], complaint: str) -> None:
    with pytest.raises(TilewrightError, match=complaint):
        legal.Im2colMap(**(USUAL | changes))
