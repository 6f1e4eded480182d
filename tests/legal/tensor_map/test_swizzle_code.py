"""Swizzles by each of their numbers: one table, against the copy engine's model and the machine's tensor maps."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.base.error import TilewrightError
from tilewright.legal.tensor_map.swizzle_code import (
    code_of,
    operand_swizzles,
    period_bytes,
    row_bytes,
    swizzle_of,
    swizzled,
    swizzles,
)
from tilewright.machine.copy import swizzle as copy_engine
from tilewright.machine.tensor_core import wgmma as tensor_core
from tilewright.machine.tensor_core.tensor_operand import read_descriptor
from tilewright.targets import TARGET_NAMES, target

HOPPER = target("sm_90a")

HOPPER, BLACKWELL = target("sm_90a"), target("sm_100a")


@pytest.mark.parametrize("name", TARGET_NAMES)
def test_the_pattern_is_that_of_the_copy_engine(name: str) -> None:
    addresses = np.arange(4096, dtype=np.int64)
    for swizzle in swizzles(target(name)):
        ours = swizzled(addresses, swizzle, target(name))
        assert np.array_equal(ours, copy_engine.swizzled(addresses, swizzle))
        assert np.array_equal(swizzled(ours, swizzle, target(name)), addresses)
        assert swizzled(777, swizzle, target(name)) == ours[777]
        assert period_bytes(swizzle, target(name)) == copy_engine.period_bytes(swizzle)
        assert row_bytes(swizzle, target(name)) == max(16, copy_engine.SPAN_BYTES[swizzle])


def test_a_base_offset_moves_the_pattern_by_lines() -> None:
    addresses = np.arange(4096, dtype=np.int64)
    for swizzle in swizzles(BLACKWELL):
        for lines in range(8):
            moved = swizzled(addresses + 128 * lines, swizzle, BLACKWELL, lines)
            assert np.array_equal(moved, swizzled(addresses, swizzle, BLACKWELL) + 128 * lines)


def test_numberings_differ_and_convert() -> None:
    wgmma = {name: code_of(name, "wgmma", HOPPER) for name in swizzles(HOPPER)}
    assert wgmma == {"none": 0, "128B": 1, "64B": 2, "32B": 3}
    tcgen05 = {name: code_of(name, "tcgen05", BLACKWELL) for name in operand_swizzles("tcgen05", BLACKWELL)}
    assert tcgen05 == {"none": 0, "128B_atom_32B": 1, "128B": 2, "64B": 4, "32B": 6}
    for numbering, where in (("driver", BLACKWELL), ("wgmma", HOPPER), ("tcgen05", BLACKWELL)):
        for code in range(-1, 9):
            name = swizzle_of(code, numbering, where)
            assert name is None or code_of(name, numbering, where) == code
    assert [swizzle_of(code, "tcgen05", BLACKWELL) for code in (3, 5, 7)] == [None] * 3


@pytest.mark.parametrize("code", range(4))
def test_wgmma_numbers_are_those_that_the_machine_reads(code: int) -> None:
    assert tensor_core.decode_descriptor(code << 62).swizzle == swizzle_of(code, "wgmma", HOPPER)


@pytest.mark.parametrize("code", [0, 1, 2, 4, 6])
def test_tcgen05_numbers_are_those_that_the_machine_reads(code: int) -> None:
    assert read_descriptor(1 << 46 | code << 61).layout == swizzle_of(code, "tcgen05", BLACKWELL)


def test_what_a_target_lacks_is_an_error() -> None:
    for wrong in (
        lambda: code_of("128B_atom_32B", "wgmma", HOPPER),
        lambda: code_of("128B_atom_64B", "tcgen05", BLACKWELL),
        lambda: code_of("128B", "wgmma", BLACKWELL),
        lambda: swizzle_of(1, "tcgen05", HOPPER),
        lambda: swizzled(0, "128B_atom_64B", HOPPER),
    ):
        with pytest.raises(TilewrightError, match="has no"):
            wrong()
