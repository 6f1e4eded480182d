"""Which descriptor means a layout: every canonical one is found again, and what is none says where it differs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.legal.descriptor.matrix_descriptor import MatrixDescriptor, violations
from tilewright.legal.descriptor.shared_operand import OperandDescriptor, depth_step, encode, layout_of, major_problem
from tilewright.legal.descriptor.shared_operand_fit import NotEncodable, OperandFit, descriptor_for, strided_layout
from tilewright.legal.tensor_map.swizzle_code import operand_swizzles, period_bytes, row_bytes, swizzled
from tilewright.targets import Target, target

HOPPER, BLACKWELL = target("sm_90a"), target("sm_100a")
CASES = [
    (where, swizzle, major, element_bytes)
    for where, instruction in ((HOPPER, "wgmma"), (BLACKWELL, "tcgen05"))
    for swizzle in operand_swizzles(instruction, where)
    for major in ("K", "MN")
    for element_bytes in (1, 2, 4)
    if major_problem(swizzle, major, element_bytes, where) is None
]


@pytest.mark.parametrize(("where", "swizzle", "major", "element_bytes"), CASES)
@pytest.mark.parametrize("rows", [8, 64, 256])
def test_every_canonical_layout_is_found_again(
    where: Target, swizzle: Any, major: Any, element_bytes: int, rows: int
) -> None:
    depth = depth_step(element_bytes, where)
    lines = max(1, period_bytes(swizzle, where) // 128)
    for line in range(lines):
        start = 4096 + 128 * line
        descriptor = OperandDescriptor(start, 2048, 1536 if swizzle != "none" else 128, swizzle, line)
        layout = layout_of(descriptor, major, rows, depth, element_bytes, where)
        fit = descriptor_for(layout, element_bytes, where)
        assert isinstance(fit, OperandFit), (fit, line)
        (found,) = fit.descriptors
        assert np.array_equal(layout_of(found, fit.major, rows, depth, element_bytes, where), layout)
        assert encode(found, where) >= 0 and fit.step_bytes == 0
        if rows == 256 and element_bytes != 4:
            assert (fit.major, fit.swizzle) == (major, swizzle)


ELEMENTS = {1: Element.U8, 2: Element.BF16, 4: Element.F32}


@pytest.mark.parametrize(("swizzle", "major", "element_bytes"), [case[1:] for case in CASES if case[0] is HOPPER])
def test_what_is_found_is_legal(swizzle: Any, major: Any, element_bytes: int) -> None:
    """No rule of wgmma's descriptors is broken by one that was found, wherever the tile stands."""
    period, depth = period_bytes(swizzle, HOPPER), depth_step(element_bytes, HOPPER)
    for start in range(8192, 8192 + 1024, 128):
        for base_offset in range(max(1, period // 128)):
            made = OperandDescriptor(start, 2048, 1024, swizzle, base_offset)
            layout = layout_of(made, major, 64, depth, element_bytes, HOPPER)
            fit = descriptor_for(layout, element_bytes, HOPPER)
            assert isinstance(fit, OperandFit)
            (found,) = fit.descriptors
            lines = max(1, period_bytes(fit.swizzle, HOPPER) // 128)
            at = found.start_address // 128
            judged = MatrixDescriptor(
                "A", ELEMENTS[element_bytes], fit.major, fit.swizzle, 64, found.start_address, found.leading_bytes,
                found.stride_bytes, found.base_offset, 128 * (at - (at - found.base_offset) % lines),
            )  # fmt: skip
            assert violations(judged, HOPPER) == (), (made, found)


@pytest.mark.parametrize("swizzle", ["32B", "64B", "128B"])
def test_k_steps_inside_a_row_advance_by_32_bytes(swizzle: Any) -> None:
    width = row_bytes(swizzle, HOPPER)
    layout = strided_layout(64, width // 2, width, 2, 1024, swizzle, HOPPER)
    fit = descriptor_for(layout, 2, HOPPER)
    assert isinstance(fit, OperandFit) and (fit.major, fit.swizzle) == ("K", swizzle)
    assert [each.start_address for each in fit.descriptors] == list(range(1024, 1024 + width, 32))
    assert fit.step_bytes == (32 if width > 32 else 0)
    assert {(each.stride_bytes, each.base_offset) for each in fit.descriptors} == {(8 * width, 0)}
    again = descriptor_for(
        lambda row, k: swizzled(1024 + row * width + 2 * k, swizzle, HOPPER), 2, HOPPER, 64, width // 2
    )
    assert again == fit


def test_a_deep_tile_of_several_boxes_jumps_at_each_box() -> None:
    """128 rows by 128 bf16: two boxes of 64, one after the other."""
    row, k = np.arange(128)[:, None], np.arange(128)[None, :]
    layout = swizzled(2048 + row * 128 + k // 64 * 128 * 128 + k % 64 * 2, "128B", HOPPER)
    fit = descriptor_for(layout, 2, HOPPER)
    assert isinstance(fit, OperandFit) and fit.step_bytes is None
    assert [each.start_address - 2048 for each in fit.descriptors] == [0, 32, 64, 96, 16384, 16416, 16448, 16480]


def test_mn_major_steps_advance_by_groups_of_k() -> None:
    row, k = np.arange(128)[:, None], np.arange(64)[None, :]
    layout = swizzled(1024 + row % 64 * 2 + row // 64 * 64 * 128 + k * 128, "128B", HOPPER)
    fit = descriptor_for(layout, 2, HOPPER)
    assert isinstance(fit, OperandFit) and (fit.major, fit.swizzle, fit.step_bytes) == ("MN", "128B", 2048)
    assert (fit.descriptors[0].leading_bytes, fit.descriptors[0].stride_bytes) == (8192, 1024)


def test_what_is_not_canonical_says_where() -> None:
    padded = strided_layout(64, 16, 144, 2, 0, "none", HOPPER)
    found = descriptor_for(padded, 2, HOPPER)
    assert isinstance(found, NotEncodable) and found.nearest is not None and found.mismatch is not None
    row, k, stands, read = found.mismatch
    assert found.swizzle_instead is None and stands == padded[row, k] != read
    assert f"{stands:#x}" in found.reasons[0] and f"{read:#x}" in found.reasons[0]
    plain = descriptor_for(strided_layout(64, 64, 128, 2, 1024, "none", HOPPER), 2, HOPPER)
    assert isinstance(plain, NotEncodable) and plain.mismatch is not None and plain.swizzle_instead == "128B"
    wrong = descriptor_for(strided_layout(64, 64, 128, 2, 1024, "64B", HOPPER), 2, HOPPER)
    assert isinstance(wrong, NotEncodable) and wrong.swizzle_instead == "128B" and "swizzle 128B" in wrong.reasons[1]
    one_off = strided_layout(64, 64, 128, 2, 1024, "128B", HOPPER)
    one_off[17, 40] += 2
    late = descriptor_for(one_off, 2, HOPPER)
    assert isinstance(late, NotEncodable) and late.mismatch is not None
    assert late.mismatch[:2] == (17, 40) and late.nearest is not None and late.nearest.swizzle == "128B"
    assert "(99 %" in late.reasons[0]
    apart = descriptor_for(strided_layout(64, 16, 4, 256, 0, "none", HOPPER), 2, HOPPER)
    assert isinstance(apart, NotEncodable) and apart.nearest is None and "0x4" in apart.reasons[0]


def test_canonical_layouts_that_the_instruction_does_not_take() -> None:
    row, k = np.arange(64)[:, None], np.arange(16)[None, :]
    transposed = swizzled(1024 + row % 32 * 4 + row // 32 * 4096 + k * 128, "128B", HOPPER)
    for where, words in ((HOPPER, "16 bits alone"), (BLACKWELL, "take swizzle 128B_atom_32B")):
        found = descriptor_for(transposed, 4, where)
        assert isinstance(found, NotEncodable) and words in found.reasons[0] and found.mismatch is None
    atoms = swizzled(1024 + row * 128 + k * 2, "128B_atom_64B", BLACKWELL)
    found = descriptor_for(atoms, 2, BLACKWELL)
    assert isinstance(found, NotEncodable) and "knows no swizzle 128B_atom_64B" in found.reasons[0]
    high = strided_layout(64, 64, 128, 2, 1 << 18, "128B", HOPPER)
    found = descriptor_for(high, 2, HOPPER)
    assert isinstance(found, NotEncodable) and "start address 262144" in found.reasons[0]
    odd = strided_layout(64, 16, 32, 2, 1032, "32B", HOPPER)
    found = descriptor_for(odd, 2, HOPPER)
    assert isinstance(found, NotEncodable) and found.reasons


def test_what_is_no_operand() -> None:
    whole = strided_layout(64, 64, 128, 2, 0, "128B", HOPPER)
    for layout, element_bytes, words in (
        (whole[:, :24], 2, "not a multiple of 16"),
        (whole[:60], 2, "60 rows"),
        (whole, 8, "8 bytes"),
        (whole - 4096, 2, "below shared memory"),
    ):
        found = descriptor_for(layout, element_bytes, HOPPER)
        assert isinstance(found, NotEncodable) and words in found.reasons[0]
    for layout in (whole[0], np.zeros((0, 16), np.int64), whole.astype(np.float64)):
        with pytest.raises(TilewrightError, match="matrix of addresses"):
            descriptor_for(layout, 2, HOPPER)
    with pytest.raises(TilewrightError, match="rows and depth"):
        descriptor_for(lambda row, k: row + k, 2, HOPPER)
