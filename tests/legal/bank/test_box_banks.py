"""Bank conflicts of reading a box: the known ones, and none for canonical layouts."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.base.error import TilewrightError
from tilewright.legal.bank.box_banks import bank_conflict_ways
from tilewright.legal.descriptor.shared_operand_fit import OperandFit, descriptor_for
from tilewright.legal.tensor_map.loaded_tile import loaded_layout
from tilewright.legal.tensor_map.swizzle_code import row_bytes, swizzles
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.targets import target

HOPPER, BLACKWELL = target("sm_90a"), target("sm_100a")


def bf16(inner: int, rows: int, swizzle: str) -> TensorMap:
    return TensorMap("bf16", (4096, 4096), (8192,), (inner, rows), swizzle=swizzle)


@pytest.mark.parametrize(("swizzle", "inner", "ways"), [
    ("none", 64, 8), ("none", 32, 4), ("none", 16, 2), ("none", 8, 1), ("none", 128, 8), ("none", 72, 1),
    ("none", 48, 2),
    ("128B", 64, 1), ("128B", 32, 1), ("64B", 32, 1), ("32B", 16, 1), ("64B", 16, 1),
])  # fmt: skip
def test_ldmatrix(swizzle: str, inner: int, ways: int) -> None:
    """Rows a line apart fall into one group of banks; 16 bytes more of pitch, or the right swizzle, spread them."""
    assert bank_conflict_ways(bf16(inner, 64, swizzle), "ldmatrix", HOPPER) == ways


def test_atoms_of_32_bytes_leave_two_ways() -> None:
    assert bank_conflict_ways(bf16(64, 64, "128B_atom_32B"), "ldmatrix", BLACKWELL) == 2
    assert bank_conflict_ways(bf16(64, 64, "128B_atom_64B"), "ldmatrix", BLACKWELL) == 4


@pytest.mark.parametrize(("dtype", "inner", "swizzle", "ways"), [
    ("f32", 32, "none", 32), ("f32", 32, "128B", 4), ("f32", 4, "none", 4), ("bf16", 64, "none", 32),
    ("f64", 16, "none", 16), ("u8", 16, "none", 4),
])  # fmt: skip
def test_columns(dtype: str, inner: int, swizzle: str, ways: int) -> None:
    map = TensorMap(dtype, (4096, 4096), (32768,), (inner, 64), swizzle=swizzle)
    assert bank_conflict_ways(map, "column", HOPPER) == ways


def test_few_rows() -> None:
    assert bank_conflict_ways(bf16(64, 1, "none"), "ldmatrix", HOPPER) == 1
    assert bank_conflict_ways(bf16(64, 3, "none"), "ldmatrix", HOPPER) == 3
    assert bank_conflict_ways(TensorMap("bf16", (4096,), (), (64,)), "column", HOPPER) == 1


@pytest.mark.parametrize("where", [HOPPER, BLACKWELL], ids=["sm_90a", "sm_100a"])
def test_matrix_instructions_read_what_is_canonical_without_conflicts(where: Any) -> None:
    consumer: Any = "wgmma" if where is HOPPER else "tcgen05"
    for swizzle in swizzles(where):
        for inner in (8, 16, 32, 64):
            if swizzle != "none" and inner * 2 > row_bytes(swizzle, where):
                continue
            map = bf16(inner, 64, swizzle)
            layouts = [
                loaded_layout(map, where, tuple(4096 + 16384 * box for box in range(2)), *dims)
                for dims in (((1,), (0, 2)), ((0, 2), (1,)))
            ]
            readable = any(isinstance(descriptor_for(layout, 2, where), OperandFit) for layout in layouts)
            try:
                assert bank_conflict_ways(map, consumer, where) == 1 and readable
            except TilewrightError:
                assert not readable
            if readable and swizzle != "none":
                assert bank_conflict_ways(map, "ldmatrix", where) == 1


def test_the_pattern_of_transposed_words() -> None:
    words = TensorMap("f32", (4096, 4096), (16384,), (32, 64), swizzle="128B_atom_32B")
    assert bank_conflict_ways(words, "tcgen05", BLACKWELL) == 1


def test_what_has_no_model() -> None:
    wrong: Any = "tea"
    with pytest.raises(TilewrightError, match="no model of 'tea'"):
        bank_conflict_ways(bf16(64, 64, "none"), wrong, HOPPER)
    with pytest.raises(TilewrightError, match="sm_100a has no wgmma"):
        bank_conflict_ways(bf16(64, 64, "128B"), "wgmma", BLACKWELL)
    with pytest.raises(TilewrightError, match="does not read rows of 128 bytes"):
        bank_conflict_ways(bf16(64, 64, "none"), "wgmma", HOPPER)
    with pytest.raises(TilewrightError, match="rows of 16 bytes"):
        bank_conflict_ways(TensorMap("u8", (64, 64), (64,), (24, 8)), "ldmatrix", HOPPER)
