"""Warnings: each where its condition holds, and not where it does not."""

import pytest

from tilewright import legal

USUAL = {
    "dtype": "bf16", "dims": (4096, 4096), "strides": (8192,), "box": (64, 128), "swizzle": "128B", "address": 1 << 20,
}  # fmt: skip


def warned(target: str = "sm_90a", driver: object = None, **changes: object) -> list[str]:
    found = legal.check(legal.TensorMap(**(USUAL | changes)), target, driver)
    assert found.legal
    assert all(not warning.enforced and warning.source and warning.message for warning in found.warnings)
    return [warning.code for warning in found.warnings]


CUBE = {"dims": (4096, 64, 64), "strides": (8192, 1 << 19), "box": (64, 16, 1)}
SLICES = CUBE | {"dims": (256, 64, 64), "interleave": "32B"}  # dimension 0 counts slices of 32 bytes
INNER = {"dtype": "u8", "dims": (256,) * 3, "strides": (256, 65536), "element_strides": (8, 1, 1)}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"l2_promotion": "256B", "oob_fill": "nan"}, []),
        (SLICES | {"swizzle": "32B"}, []),
        (SLICES | {"swizzle": "64B"}, ["TM031"]),
        (SLICES | {"swizzle": "32B", "strides": (4096, 1 << 19)}, ["TM038"]),
        ({"box": (16, 128)}, ["TM034"]),
        ({"box": (16, 128), "swizzle": "32B"}, []),
        ({"dims": (4096, 100)}, ["TM035"]),
        ({"dims": (4100, 4096), "strides": (8208,)}, ["TM036"]),
        ({"dims": (4104, 4096), "strides": (8208,)}, []),
        ({"dims": (4096, 2**31), "strides": (8192,)}, []),
        ({"dims": (4096, 2**31 + 1), "strides": (8192,)}, ["TM046"]),
        ({"strides": (0,)}, ["TM037"]),
        ({"dims": (4096, 1), "strides": (0,), "box": (64, 1)}, []),
        ({"strides": (4096,)}, ["TM038"]),
        ({"strides": (12288,)}, []),
        ({"dims": (4096, 64, 64), "strides": (1 << 19, 8192), "box": (64, 16, 1)}, ["TM039"]),
        (CUBE, []),
        ({"address": (1 << 20) + 16}, ["TM040"]),
        ({"address": (1 << 20) + 16, "swizzle": "none"}, []),
        ({"dims": (64, 4096), "strides": (128,), "l2_promotion": "256B"}, ["TM041"]),
        ({"dims": (64, 4096), "strides": (128,), "l2_promotion": "128B"}, []),
        # Large boxes: the driver counts element strides of the inner dimension, the copy ignores them.
        (INNER | {"box": (128, 256, 28)}, ["TM032"]),
        (INNER | {"box": (128, 256, 57)}, ["TM032", "TM033"]),
    ],
)  # fmt: skip
def test_each_warning_where_its_condition_holds(changes: dict[str, object], expected: list[str]) -> None:
    assert warned(**changes) == expected


def test_restrictions_of_types_and_swizzles_of_later_architectures() -> None:
    packed = {"dims": (256, 64), "strides": (256,), "box": (128, 16)}
    assert warned("sm_100a", dtype="u4x16_align16", **packed) == ["TM044"]
    assert warned("sm_100a", dtype="u6x16_align16", **packed) == []
    assert warned("sm_100a", dtype="u6x16_align16", **(packed | {"swizzle": "128B_atom_64B"})) == ["TM045"]
    assert warned("sm_100a", swizzle="128B_atom_32B_flip_8B") == ["TM044"]


def test_a_driver_that_encodes_small_tensors_wrongly() -> None:
    slice_of_rows = {"dims": (64, 128), "strides": (256,)}
    dense = {"dims": (64, 128), "strides": (128,)}
    assert warned("sm_100a", (13, 1), **slice_of_rows) == ["TM042"]
    assert warned("sm_100a", 13010, **slice_of_rows) == ["TM042"]
    assert warned("sm_100a", (13, 2), **slice_of_rows) == []
    assert warned("sm_100a", None, **slice_of_rows) == []
    assert warned("sm_100a", (13, 1), **dense) == []
    assert warned("sm_100a", (13, 1), dims=(64, 1024), strides=(256,)) == []
    assert warned("sm_90a", (13, 1), **slice_of_rows) == []


def test_an_illegal_map_has_violations_and_no_warnings() -> None:
    found = legal.check(legal.TensorMap(**(USUAL | {"strides": (4097,), "address": (1 << 20) + 16})), "sm_90a")
    assert not found.legal and found.warnings == ()


def test_a_wide_map_takes_no_interleave() -> None:
    wide = legal.Im2colWideMap("bf16", (64, 32, 32), (1024, 32768), 0, 0, 64, 32, interleave="16B")
    found = legal.check(wide, "sm_100a")
    assert found.legal and [warning.code for warning in found.warnings] == ["TM043"]
