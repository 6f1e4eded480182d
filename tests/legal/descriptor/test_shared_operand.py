"""Descriptors of operands in shared memory: their bits, and the bytes they mean, against what the machine reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.base.error import TilewrightError
from tilewright.legal.descriptor.shared_operand import (
    OperandDescriptor,
    decode,
    decode_tcgen05,
    decode_wgmma,
    depth_step,
    encode,
    encode_tcgen05,
    encode_wgmma,
    field_problems,
    instruction_of,
    layout_of,
    major_problem,
)
from tilewright.legal.tensor_map.swizzle_code import operand_swizzles
from tilewright.machine.tensor_core.fragment import accumulator_coordinates
from tilewright.machine.tensor_core.tensor_operand import tile_chunks
from tilewright.machine.tensor_core.wgmma import operand_addresses
from tilewright.targets import target

DATA = Path(__file__).parents[2] / "data"
HOPPER, BLACKWELL = target("sm_90a"), target("sm_100a")
TCGEN05_ELEMENTS: dict[int, Any] = {1: "e4m3", 2: "bf16", 4: "tf32"}


def test_products_that_an_h200_made_of_the_bytes_that_descriptors_mean() -> None:
    with np.load(DATA / "wgmma.npz") as archive:
        case = {name: archive[name] for name in archive.files}
    shared = np.zeros(1 << 18, np.uint8)
    image = case["image"].view(np.uint8)
    shared[1024 : 1024 + image.size] = image
    words = shared.view(np.uint16)
    rows, columns = accumulator_coordinates(64)
    for index, fields in enumerate(zip(case["a"].tolist(), case["b"].tolist(), strict=True)):
        operands: list[Any] = []
        for bits, transposed in zip(fields, case["transposed"][index], strict=True):
            layout = layout_of(decode_wgmma(bits, HOPPER), "MN" if transposed else "K", 64, 16, 2, HOPPER)
            operands.append((words[layout >> 1].astype(np.uint32) << 16).view(np.float32))
        product = operands[0] @ operands[1].T
        assert np.array_equal(product[rows, columns], case["accumulator"][index])
    assert index == 79


DESCRIPTORS = st.builds(
    OperandDescriptor,
    st.integers(0, 1 << 12).map(lambda units: 16 * units),
    st.integers(0, 1 << 10).map(lambda units: 16 * units),
    st.integers(0, 1 << 10).map(lambda units: 16 * units),
    st.sampled_from(operand_swizzles("wgmma", HOPPER)),
    st.integers(0, 7),
)


@given(DESCRIPTORS, st.sampled_from(["K", "MN"]), st.sampled_from([8, 64, 256]), st.sampled_from([1, 2, 4]))
def test_wgmma_reads_what_the_descriptor_means(descriptor: Any, major: Any, rows: int, element_bytes: int) -> None:
    if descriptor.swizzle == "none":
        descriptor = OperandDescriptor(*(getattr(descriptor, name) for name in descriptor.__slots__[:4]))
    depth = depth_step(element_bytes, HOPPER)
    if major_problem(descriptor.swizzle, major, element_bytes, HOPPER):
        assert major == "MN" and element_bytes != 2
        with pytest.raises(TilewrightError, match="16 bits alone"):
            layout_of(descriptor, major, rows, depth, element_bytes, HOPPER)
        return
    bits = encode_wgmma(descriptor, HOPPER)
    assert decode_wgmma(bits, HOPPER) == descriptor == decode(encode(descriptor, HOPPER), HOPPER)
    meant = layout_of(descriptor, major, rows, depth, element_bytes, HOPPER)
    assert np.array_equal(meant, operand_addresses(bits, rows, depth, element_bytes, major.lower()))


@given(DESCRIPTORS, st.sampled_from(["K", "MN"]), st.sampled_from([16, 64, 256]), st.sampled_from([1, 2, 4]))
def test_tcgen05_reads_what_the_descriptor_means(descriptor: Any, major: Any, rows: int, element_bytes: int) -> None:
    swizzle = descriptor.swizzle
    if major == "MN" and element_bytes == 4:
        swizzle = "128B_atom_32B"
    base_offset = 0 if swizzle == "none" else descriptor.base_offset
    descriptor = OperandDescriptor(
        descriptor.start_address, descriptor.leading_bytes, descriptor.stride_bytes, swizzle, base_offset
    )
    bits = encode_tcgen05(descriptor, BLACKWELL)
    assert decode_tcgen05(bits, BLACKWELL) == descriptor == decode(encode(descriptor, BLACKWELL), BLACKWELL)
    depth = depth_step(element_bytes, BLACKWELL)
    meant = layout_of(descriptor, major, rows, depth, element_bytes, BLACKWELL)
    chunks = tile_chunks(bits, rows, depth, TCGEN05_ELEMENTS[element_bytes], major.lower())
    if major == "K":
        assert np.array_equal(meant[:, :: 16 // element_bytes], chunks)
    else:
        assert np.array_equal(meant[:: 16 // element_bytes], chunks)


def test_layouts_that_no_instruction_reads() -> None:
    plain = OperandDescriptor(0, 16, 1024, "128B")
    atom = OperandDescriptor(0, 4096, 512, "128B_atom_32B")
    wrong: list[tuple[Any, Any, int, int, Any, str]] = [
        (plain, "MN", 8, 4, BLACKWELL, "take swizzle 128B_atom_32B"),
        (atom, "K", 8, 4, BLACKWELL, "is for MN-major operands of 32 bits"),
        (atom, "MN", 16, 2, BLACKWELL, "is for MN-major operands of 32 bits"),
        (atom, "MN", 16, 2, HOPPER, "knows no swizzle"),
        (plain, "MN", 8, 4, HOPPER, "16 bits alone"),
        (plain, "K", 4, 8, HOPPER, "8 bytes"),
        (plain, "K", 128, 2, HOPPER, "longer than a row of 128 bytes"),
    ]
    for descriptor, major, depth, element_bytes, where, words in wrong:
        with pytest.raises(TilewrightError, match=words):
            layout_of(descriptor, major, 64, depth, element_bytes, where)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ((8, 16, 16, "none"), "start address 8"),
        ((1 << 18, 16, 16, "none"), "start address 262144"),
        ((0, 1 << 18, 16, "none"), "leading offset"),
        ((0, 16, -16, "none"), "stride offset -16"),
        ((0, 16, 16, "128B", 8), "base offset 8"),
        ((0, 16, 16, "none", 1), "without a swizzle"),
    ],
)
def test_fields_that_hold_no_such_number(change: Any, words: str) -> None:
    descriptor = OperandDescriptor(*change)
    for where in (HOPPER, BLACKWELL):
        assert any(words in problem for problem in field_problems(descriptor, where))
        with pytest.raises(TilewrightError, match=words):
            encode(descriptor, where)


def test_bits_that_are_no_descriptor() -> None:
    for bits, words in ((1 << 14, "reserved"), (1 << 46, "reserved"), (1 << 64, "64 bits"), (-1, "64 bits")):
        with pytest.raises(TilewrightError, match=words):
            decode_wgmma(bits, HOPPER)
    for bits, words in (
        (0, "not 0b001"), (1 << 46 | 3 << 61, "name no layout"), (1 << 46 | 1 << 52, "sm_103a"),
        (1 << 46 | 1 << 53, "reserved"), (1 << 64, "64 bits"),
    ):  # fmt: skip
        with pytest.raises(TilewrightError, match=words):
            decode_tcgen05(bits, BLACKWELL)
    with pytest.raises(TilewrightError, match="has no"):
        decode_tcgen05(1 << 46, HOPPER)
    assert instruction_of(HOPPER) == "wgmma" and instruction_of(BLACKWELL) == "tcgen05"
