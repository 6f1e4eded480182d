"""Matrix descriptors: those that compilers emit are legal; each rule is broken by one change."""

from dataclasses import replace

import pytest

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.legal.descriptor.matrix_descriptor import MatrixDescriptor, column_counts, violations
from tilewright.targets import target

HOPPER = target("sm_90a")
A = MatrixDescriptor("A", Element.BF16, "K", "128B", 64, 1024, 16, 1024)
B = MatrixDescriptor("B", Element.BF16, "MN", "128B", 256, 32768, 8192, 1024)


@pytest.mark.parametrize(
    "descriptor",
    [
        A,
        B,
        replace(A, start_address=1024 + 32, pattern_address=1024),
        replace(A, start_address=1024 + 256, base_offset=2),
        replace(A, swizzle="64B", start_address=512, stride_offset_bytes=512),
        replace(A, swizzle="32B", start_address=256, stride_offset_bytes=256),
        replace(A, swizzle="none", start_address=16, leading_offset_bytes=128, stride_offset_bytes=256),
        replace(A, element=Element.F32),
        replace(B, element=Element.U8, major="K", rows=48),
        replace(A, start_address=2**18 - 1024),
    ],
)
def test_legal(descriptor: MatrixDescriptor) -> None:
    assert violations(descriptor, HOPPER) == ()


@pytest.mark.parametrize(
    ("descriptor", "code"),
    [
        (replace(A, stride_offset_bytes=1000), "LY001"),
        (replace(A, leading_offset_bytes=1), "LY001"),
        (replace(A, stride_offset_bytes=2**18), "LY002"),
        (replace(A, leading_offset_bytes=-16), "LY002"),
        (replace(A, base_offset=8), "LY003"),
        (replace(A, start_address=1024 + 32), "LY004"),
        (replace(A, start_address=1024 + 256), "LY005"),
        (replace(A, base_offset=1), "LY005"),
        (replace(A, swizzle="none", base_offset=1), "LY005"),
        (replace(A, element=Element.F64), "LY006"),
        (replace(A, element=Element.F32, major="MN"), "LY007"),
        (replace(B, element=Element.U8), "LY007"),
        (replace(A, rows=128), "LY008"),
        (replace(B, rows=264), "LY008"),
        (replace(B, rows=12), "LY008"),
        (replace(B, rows=0), "LY008"),
        (replace(B, element=Element.U8, major="K", rows=40), "LY008"),
    ],
)
def test_one_change_breaks_one_rule(descriptor: MatrixDescriptor, code: str) -> None:
    (found,) = violations(descriptor, HOPPER)
    assert found.code == code
    assert str(found.value) in found.message or f"{found.value:#x}" in found.message
    assert found.source.startswith("PTX ISA")


def test_all_broken_rules_are_named() -> None:
    broken = replace(B, element=Element.F32, rows=7, leading_offset_bytes=8, stride_offset_bytes=2**20)
    assert {found.code for found in violations(broken, HOPPER)} == {"LY001", "LY002", "LY007", "LY008"}


def test_column_counts() -> None:
    assert len(column_counts(Element.BF16, HOPPER)) == 32
    integers = column_counts(Element.U8, HOPPER)
    assert integers[:6] == (8, 16, 24, 32, 48, 64) and integers[-1] == 256


def test_a_target_without_wgmma_is_an_error_and_not_a_verdict() -> None:
    with pytest.raises(TilewrightError, match="no wgmma"):
        violations(A, target("sm_100a"))
