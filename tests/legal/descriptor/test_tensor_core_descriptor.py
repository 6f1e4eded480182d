"""Descriptors of tcgen05: what Triton and CUTLASS emit is read as they mean it; each rule is broken by one change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.legal.descriptor.shared_operand import OperandDescriptor, field_problems
from tilewright.legal.descriptor.tensor_core_descriptor import (
    InstructionDescriptor,
    SharedDescriptor,
    column_counts,
    decode_instruction,
    decode_shared,
    encode_instruction,
    encode_shared,
    instruction_problems,
    shared_problems,
)
from tilewright.targets import target

BLACKWELL = target("sm_100a")
F16 = InstructionDescriptor("f16", 128, 128, 16, "f32", "f16", "f16")
EIGHT = InstructionDescriptor("f8f6f4", 128, 128, 32, "f32", "e4m3", "e5m2")
MX = InstructionDescriptor("mxf8f6f4", 128, 128, 32, "f32", "e4m3", "e2m1", scale="ue8m0")
FOUR = InstructionDescriptor("mxf4nvf4", 256, 64, 64, "f32", "e2m1", "e2m1", scale="ue4m3")


def test_a_descriptor_that_triton_emits() -> None:
    """A 64-wide 16-bit operand, MN-major with a 128-byte swizzle, as Triton 3.9 writes it for sm_100a."""
    fields = decode_shared(1073758272 << 32 | 33554432 | 0x1400)
    assert fields == SharedDescriptor(0x14000, 8192, 1024, 0, "128B")
    assert shared_problems(fields) == ()


def test_an_instruction_that_triton_emits() -> None:
    """128 x 128 x 16, f16 operands, f32 accumulator, B transposed."""
    fields = decode_instruction(136380432, "f16")
    assert fields == replace(F16, b_major="mn")
    assert instruction_problems(fields, BLACKWELL, cta_group=1, weight_stationary=False) == ()


@given(st.integers(0, (1 << 64) - 1))
def test_shared_descriptors_are_read_back(bits: int) -> None:
    fields = decode_shared(bits)
    if fields.layout is not None:
        assert decode_shared(encode_shared(fields)) == fields
        assert encode_shared(fields) == bits


@given(st.integers(0, (1 << 32) - 1), st.sampled_from(["f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4"]))
def test_instruction_descriptors_are_read_back(bits: int, kind: Any) -> None:
    fields = decode_instruction(bits, kind)
    if None not in (fields.a, fields.b, fields.accumulator):
        assert encode_instruction(fields) == bits


@pytest.mark.parametrize(
    ("fields", "group", "ws"),
    [
        (F16, 1, False), (replace(F16, m=64, n=8), 1, False), (replace(F16, m=256, n=256), 2, False),
        (replace(F16, m=32, n=64), 1, True), (MX, 1, False), (replace(MX, scale_a_id=3), 1, False), (FOUR, 2, False),
        (replace(F16, a_major="mn", b_major="mn", negate_a=True), 1, False),
        (InstructionDescriptor("i8", 128, 48, 32, "s32", "s8", "u8", saturate=True), 1, False),
        (replace(F16, accumulator="f16"), 1, False), (replace(F16, a="bf16", b="bf16"), 1, False),
        (replace(F16, n=24, b_major="mn"), 1, False), (replace(EIGHT, n=24), 1, False),
        (replace(EIGHT, n=48, b_major="mn"), 1, False), (replace(EIGHT, m=256, n=96, b_major="mn"), 2, False),
        (replace(F16, sparse=True, k=32, n=128), 1, True), (replace(MX, sparse=True, k=64, m=256), 2, False),
        (replace(MX, sparse=True, k=64), 1, False), (replace(MX, m=128, n=32), 2, False),
    ],
)  # fmt: skip
def test_legal(fields: InstructionDescriptor, group: int, ws: bool) -> None:
    assert instruction_problems(fields, BLACKWELL, cta_group=group, weight_stationary=ws) == ()


@pytest.mark.parametrize(
    ("fields", "group", "ws", "problem"),
    [
        (replace(F16, m=192), 1, False, "M 192"),
        (replace(F16, m=256), 1, False, "M 256"),
        (replace(F16, m=64), 2, False, "M 64"),
        (replace(F16, n=264), 1, False, "N 264"),
        (replace(F16, n=24, m=128), 2, False, "N 24"),
        (replace(F16, n=0), 1, False, "N 0"),
        (InstructionDescriptor("i8", 128, 40, 32, "s32", "s8", "s8"), 1, False, "N 40"),
        (InstructionDescriptor("i8", 128, 64, 32, "s32", "s8", "s8", negate_a=True), 1, False, "negates"),
        (replace(F16, saturate=True), 1, False, "saturation"),
        (replace(F16, accumulator=None), 1, False, "type of D"),
        (replace(F16, a=None), 1, False, "type of A"),
        (replace(F16, reserved=1 << 6), 1, False, "reserved"),
        (replace(F16, maximum_shift=8), 1, False, "maximum shift"),
        (replace(MX, m=64), 1, False, "M 64"),
        (replace(MX, scale="ue4m3"), 1, False, "UE8M0"),
        (replace(MX, b_major="mn"), 1, False, "transposed"),
        (replace(FOUR, scale_b_id=1), 2, False, "ids"),
        (replace(FOUR, k=96, m=128), 2, False, "M of 256"),
        (replace(F16, m=128, n=96), 1, True, "N 64 or 128 or 256"),
        (MX, 1, True, "block scales"),
        (replace(F16, accumulator="f16", b="bf16"), 1, False, "accumulate in F32"),
        (replace(EIGHT, n=24, b_major="mn"), 1, False, "not a multiple of 16"),
        (replace(EIGHT, m=256, n=48, b_major="mn"), 2, False, "not a multiple of 32"),
        (replace(F16, sparse=True, k=32, n=256), 1, True, "N 64 or 128"),
        (replace(MX, sparse=True, k=64), 2, False, "M 128"),
        (replace(FOUR, kind="mxf4"), 2, False, "UE8M0"),
        (replace(FOUR, k=192, sparse=True), 2, False, "dense"),
        (decode_instruction(encode_instruction(MX) | 1, "mxf8f6f4"), 1, False, "reserved bits are set: 0x1"),
        (decode_instruction(encode_instruction(MX) | 1 << 31, "mxf8f6f4"), 1, False, "reserved"),
        (decode_instruction(encode_instruction(FOUR) | 1 << 12, "mxf4nvf4"), 2, False, "reserved"),
    ],
)
def test_illegal(fields: InstructionDescriptor, group: int, ws: bool, problem: str) -> None:
    found = instruction_problems(fields, BLACKWELL, cta_group=group, weight_stationary=ws)
    assert any(problem in each for each in found), found


def test_column_counts() -> None:
    assert column_counts("f16", 1, BLACKWELL)[:2] == (8, 16)
    assert column_counts("f16", 2, BLACKWELL)[:2] == (16, 32)
    assert column_counts("i8", 1, BLACKWELL)[:6] == (8, 16, 24, 32, 48, 64)
    assert column_counts("i8", 2, BLACKWELL)[-1] == 256


@pytest.mark.parametrize(
    ("fields", "problems"),
    [
        (SharedDescriptor(1024, 8192, 262128, 7), 0),
        (SharedDescriptor(1024 + 8, 8192, 1024), 1),
        (SharedDescriptor(262144, 8192, 1000), 2),
        (SharedDescriptor(-16, 0, 0, 8), 2),
    ],
)
def test_what_can_be_encoded(fields: SharedDescriptor, problems: int) -> None:
    assert fields.layout is not None
    written = OperandDescriptor(
        fields.start_address, fields.leading_offset_bytes, fields.stride_offset_bytes, fields.layout, fields.base_offset
    )
    assert len(field_problems(replace(written, swizzle="128B"), BLACKWELL)) == problems
    assert (decode_shared(encode_shared(fields) & (1 << 64) - 1) == fields) == (not problems)
