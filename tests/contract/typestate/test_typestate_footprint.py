"""Footprints against an enumeration of elements by wgmma's canonical layouts."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contract.gemm_program import gemm

from tilewright.contract.typestate.finding import Findings, ordinal_places
from tilewright.contract.typestate.places.footprint import (
    box_extent_bytes,
    box_ranges,
    merged,
    operand_ranges,
    overlap,
    size,
)
from tilewright.contract.typestate.program import SWIZZLE_SPAN_BYTES
from tilewright.contract.typestate.read_program import read_kernel
from tilewright.ir.ac import operations as ac
from tilewright.targets import target

HOPPER = target("sm_90a")

pieces = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=6)


def bytes_of(ranges: object) -> set[int]:
    assert isinstance(ranges, tuple | list)
    return {byte for begin, end in ranges for byte in range(begin, end)}


@given(pieces, pieces)
def test_ranges_are_sets_of_bytes(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    first, second = merged(left), merged(right)
    assert bytes_of(first) == bytes_of(left)
    assert size(first) == len(bytes_of(first))
    assert all(a_end < b_begin for (_, a_end), (b_begin, _) in pairwise(first))
    assert bytes_of(overlap(first, second)) == bytes_of(first) & bytes_of(second)


def element_address(major: str, span: int, mn: int, depth: int, leading: int, stride: int) -> int:
    """Byte address of element (mn, depth), by the canonical layouts of PTX ISA 9.7.15.5.1 (16-bit elements)."""
    if major == "K" and span:
        return (mn % 8) * span + (mn // 8) * stride + depth * 2
    if major == "K":
        return (mn % 8) * 16 + (mn // 8) * stride + (depth % 8) * 2 + (depth // 8) * leading
    if span:
        per_row = span // 2
        return (mn % per_row) * 2 + (mn // per_row) * leading + (depth % 8) * span + (depth // 8) * stride
    return (mn % 8) * 2 + (mn // 8) * stride + (depth % 8) * 16 + (depth // 8) * leading


@pytest.mark.parametrize("extent", [64, 80, 256])
def test_operand_of_8_bits_contiguous_along_its_columns(extent: int) -> None:
    """tcgen05.mma takes 32 depths, of which each is a row of spans of 128 elements."""
    leading, stride, start, span = 16384, 4096, 512, 128
    expected = {
        start + mn % span + mn // span * leading + depth % 8 * span + depth // 8 * stride
        for mn in range(extent)
        for depth in range(32)
    }
    assert bytes_of(operand_ranges("MN", "128B", extent, leading, stride, (start,), 1)) == expected


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("major", ["K", "MN"])
@pytest.mark.parametrize("extent", [8, 64, 72, 256])
def test_operand_against_enumeration(major: str, swizzle: str, extent: int) -> None:
    span = SWIZZLE_SPAN_BYTES[swizzle]
    leading, stride, start = 16384, 4096 if span else 256, 512
    expected: set[int] = set()
    for mn in range(extent):
        for depth in range(16):
            begin = start + element_address(major, span, mn, depth, leading, stride)
            expected |= {begin, begin + 1}
    assert bytes_of(operand_ranges(major, swizzle, extent, leading, stride, (start,))) == expected


def test_unknown_major_is_an_error() -> None:
    with pytest.raises(ValueError, match="unknown major"):
        operand_ranges("row", "none", 64, 16, 128, (0,))


def test_boxes() -> None:
    module = gemm()
    kernel = module.body.block.first_op
    assert isinstance(kernel, ac.KernelOp)
    tensor_map = read_kernel(kernel, HOPPER, Findings(ordinal_places(module))).maps["b_map"]
    assert tensor_map.box_bytes == size(box_ranges(tensor_map, 0)) == 128 * 128
    assert box_ranges(tensor_map, 1024) == ((1024, 1024 + 128 * 128),)
    narrow = replace(tensor_map, box=(16, 4))
    assert box_ranges(narrow, 0) == ((0, 32), (128, 160), (256, 288), (384, 416))
    assert (narrow.box_bytes, box_extent_bytes(narrow)) == (128, 512)
