"""The table of fragments fills in whole: every name once, every number exact, every target known."""

from __future__ import annotations

from math import prod

import pytest

from tilewright.targets import BANK_TARGET_NAMES
from tilewright.targets.fragment_table import fragment_aliases, fragment_instructions, fragment_row


def test_every_row_fills_in() -> None:
    instructions = fragment_instructions()
    for instruction in instructions.values():
        assert set(instruction.targets) <= set(BANK_TARGET_NAMES) and instruction.operands
        for operand, _ in instruction.operands:
            row = fragment_row(instruction.name, operand)
            outputs = dict(row.outputs)
            assert row.source
            for _, digits in row.levels:
                assert all(output in outputs and extent > 0 and step > 0 for extent, output, step in digits)
            for output, size in outputs.items():
                reach = sum((n - 1) * step for _, digits in row.levels for n, name, step in digits if name == output)
                assert reach < size
            places = prod(extent for _, digits in row.levels for extent, _, _ in digits)
            assert places <= prod(outputs.values())
    assert set(fragment_aliases().values()) <= set(instructions)


def test_shapes_that_the_isa_has_and_those_it_has_not() -> None:
    names = fragment_instructions()
    for name in (
        "mma.m16n8k16.bf16", "mma.m16n8k4.tf32", "mma.m16n8k64.s4", "mma.m16n8k16.f64", "mma.m8n8k128.b1",
        "mma.m16n8k32.e4m3", "wgmma.m64n248k16", "wgmma.m64n48k256", "ldmatrix.m16n16.x2.trans",
        "tcgen05.ld.16x256b.x32", "tcgen05.mma.ws.m32n64k8",
    ):  # fmt: skip
        assert name in names
    for name in (
        "mma.m16n8k4.f16", "mma.m8n8k16.e4m3", "wgmma.m64n40k256", "wgmma.m64n260k16", "ldmatrix.m16n16.x4.trans",
        "tcgen05.ld.16x256b.x64", "tcgen05.mma.cta_group::2.m256n24k16",
    ):  # fmt: skip
        assert name not in names


def test_what_is_not_there_raises() -> None:
    with pytest.raises(KeyError):
        fragment_row("mma.m16n8k16.bf16", "E")
