"""The instruction sequence depends on the decisions alone: a small instance's text stands for the large one's."""

import re

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.lower.lowered_programs import (
    blur,
    gemm,
    instructions,
    lower,
    matmul_bias_relu,
    product_of_sums,
    residual,
    small,
)

import tilewright.frontends.tile.language as tw
from tilewright.driver.reproof.small import immediate_pairs, same_but_for_extents
from tilewright.frontends.ptx.ast import Immediate
from tilewright.frontends.ptx.reader import read
from tilewright.ir.tile.facts import the_program
from tilewright.synth.decide import Wanted

extent = st.one_of(st.integers(1, 300), st.integers(1, 9000), st.integers(1, 140).map(lambda tiles: 64 * tiles))
TILES = [(64, 64), (128, 128), (64, 256), (128, 64)]


def pairs_of(one, other):
    return immediate_pairs(the_program(one.module), the_program(other.module))


def assert_same_sequence(large):
    for each in large.apart:
        instance = small(each)
        assert same_but_for_extents(each.parsed, instance.parsed, pairs_of(each, instance)) == ""


@settings(max_examples=12, deadline=None)
@given(extent, extent, extent, st.sampled_from(TILES), st.sampled_from([tw.bf16, tw.f32]))
def test_matrix_product_with_epilogue(m, n, k, tile, element):
    dims = {"M": m, "N": n, "K": k}
    assert_same_sequence(lower(matmul_bias_relu, dims, {"c": element, "bias": tw.f32}, wanted=Wanted(tile=tile)))


@settings(max_examples=8, deadline=None)
@given(extent, extent, extent)
def test_materialized_operand_and_displaced_epilogue(m, n, k):
    assert_same_sequence(lower(product_of_sums, {"M": m, "N": n, "K": k}, wanted=Wanted(tile=(64, 64))))
    assert_same_sequence(lower(residual, {"M": m, "N": n, "K": k}, wanted=Wanted(tile=(64, 64))))


@settings(max_examples=8, deadline=None)
@given(extent, extent)
def test_elementwise(m, n):
    assert_same_sequence(lower(blur, {"M": m, "N": n}))


@settings(max_examples=6, deadline=None)
@given(st.integers(2, 40), st.integers(2, 40), st.integers(2, 40), st.integers(0, 63), st.integers(0, 7))
def test_two_large_problems_of_one_shape_differ_in_immediates_only(m, n, k, more_m, more_k):
    """Not only the small instance: any two extents that lead to the same decisions."""
    one = gemm(64 * m, 64 * n, 64 * k, tile=(64, 64), stages=4)
    other = gemm(64 * m + more_m, 64 * n, 64 * k + 8 * more_k, tile=(64, 64), stages=4)
    assume(one.decisions.raster_group == other.decisions.raster_group)
    assert same_but_for_extents(one.parsed, other.parsed, pairs_of(one, other)) == ""


def test_the_comparison_can_fail():
    """A changed byte count, slot stride, trip count, opcode and a missing instruction are all seen."""
    large = gemm(512, 512, 512, tile=(64, 64), depth=64, stages=8, prefetch=0)
    instance = small(large)
    text = large.ptx
    for edited in (
        re.sub(r"(expect_tx\S* _, \[%r\d+\], )16384", r"\g<1>8192", text, count=1),
        text.replace("wgmma.wait_group.sync.aligned 1", "wgmma.wait_group.sync.aligned 0"),
        text.replace("\tfence.proxy.async.shared::cta;\n", ""),
        re.sub(r"(mad\.lo\.u32 %r\d+, %r\d+, )8192", r"\g<1>4096", text, count=1),
        re.sub(r"(setp\.ge\.u32 %p\d+, %r\d+, )8;", r"\g<1>9;", text, count=1),
    ):
        assert edited != text
        assert same_but_for_extents(read(edited), instance.parsed, pairs_of(large, instance)) != ""


def test_extents_do_appear_as_immediates():
    """Otherwise the sequence would not depend on them for a reason that proves nothing."""
    numbers = {
        operand.value
        for item in instructions(gemm(64 * 37, 64 * 41, 64 * 43).parsed)
        for operand in item.operands
        if isinstance(operand, Immediate)
    }
    assert 43 in numbers
