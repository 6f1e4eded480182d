"""Tensor maps of a launch plan: every rule broken is named, with value and limit; cautions are for legal maps."""

from dataclasses import replace

import pytest

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import TensorMap
from tilewright.legal.tensor_map.im2col_map import any_from_plan
from tilewright.legal.tensor_map.legality import check
from tilewright.legal.tensor_map.tensormap import cautions, violations
from tilewright.targets import target

HOPPER = target("sm_90a")
LEGAL = TensorMap(Element.BF16, dims=(4096, 4096), strides_bytes=(8192,), box=(64, 128), swizzle="128B")


def test_the_operand_of_a_matrix_multiply_is_legal() -> None:
    assert violations(LEGAL, HOPPER) == ()
    assert cautions(LEGAL, HOPPER) == ()
    assert check(any_from_plan(LEGAL), HOPPER).footprint_bytes == LEGAL.box_bytes == 16384


def test_every_broken_rule_is_reported_not_the_first() -> None:
    broken = replace(LEGAL, dims=(100, 0), strides_bytes=(200,), box=(100, 300), offset_bytes=4)
    found = violations(broken, HOPPER)
    assert {violation.code for violation in found} == {"TM009", "TM011", "TM012", "TM014", "TM015", "TM016"}
    stride = next(violation for violation in found if violation.code == "TM012")
    assert (stride.value, stride.limit, stride.index, stride.field) == (200, 16, 0, "globalStrides")
    assert stride.message == "row stride 200 bytes is not a multiple of 16"
    assert "cuTensorMapEncodeTiled" in stride.source and stride.enforced


def test_the_address_is_the_buffer_s_and_the_offset() -> None:
    assert violations(replace(LEGAL, offset_bytes=8), HOPPER, global_address=(1 << 20) + 8) == ()
    (found,) = violations(replace(LEGAL, offset_bytes=8), HOPPER, global_address=1 << 20)
    assert (found.code, found.value) == ("TM009", (1 << 20) + 8)


@pytest.mark.parametrize("fields", [{"strides_bytes": ()}, {"box": (64,)}, {"element_strides": (1,)}])
def test_contradicting_lengths_are_an_error(fields: dict[str, tuple[int, ...]]) -> None:
    with pytest.raises(TilewrightError, match="rank 2 needs"):
        violations(replace(LEGAL, **fields), HOPPER)


def test_enumerations_are_the_driver_s() -> None:
    fields = any_from_plan(
        replace(LEGAL, interleave="32B", swizzle="64B", l2_promotion="256B", out_of_bounds="nan", element=Element.F64)
    ).fields
    assert (fields.dtype, fields.interleave, fields.swizzle, fields.l2_promotion, fields.oob_fill) == (8, 2, 2, 3, 1)


def test_a_swizzle_wider_than_the_inner_row_takes_more_shared_memory_than_it_moves() -> None:
    narrow = replace(LEGAL, box=(16, 256))
    assert violations(narrow, HOPPER) == ()
    assert narrow.box_bytes == 8192
    assert check(any_from_plan(narrow), HOPPER).footprint_bytes == 256 * 128


def test_what_the_driver_accepts_and_shared_memory_cannot_hold_is_cautioned() -> None:
    tall = TensorMap(Element.U8, (4096,) * 3, (4096, 1 << 24), (16, 100, 100), swizzle="128B")
    assert violations(tall, HOPPER) == ()
    (found,) = cautions(tall, HOPPER)
    assert (found.code, found.enforced) == ("TM032", False)
    assert found.value > found.limit == 232448
    assert cautions(replace(tall, strides_bytes=(4097, 1 << 24)), HOPPER) == ()


def test_interleave_32b_without_its_swizzle_is_cautioned() -> None:
    sliced = TensorMap(Element.U8, (4096,) * 3, (4096, 1 << 24), (32, 4, 4), interleave="32B", swizzle="none")
    assert violations(sliced, HOPPER) == ()
    assert [found.code for found in cautions(sliced, HOPPER)] == ["TM031"]
    assert cautions(replace(sliced, swizzle="32B"), HOPPER) == ()
