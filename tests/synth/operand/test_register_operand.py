# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Where a computed operand is computed: what decides, what the wishes fix, and what is refused."""

import pytest

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import the_program
from tilewright.synth.decide import decide
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

BF16, F32 = Element.BF16, Element.F32


@tw.kernel
def scaled(a: tw.Tensor["M", "K"], s: tw.Tensor["M"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot((a[i, k] * s[i]).to(tw.bf16), b[k, j])
    c[i, j] = acc


@tw.kernel
def gelu(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(tw.gelu(a[i, k]).to(tw.bf16), b[k, j])
    c[i, j] = acc


@tw.kernel
def right(a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], tw.relu(b[j, k]).to(tw.bf16).T)
    c[i, j] = acc


@tw.kernel
def both_axes(a: tw.Tensor["M", "K"], d: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot((a[i, k] + d[i, k]).to(tw.bf16), b[k, j])
    c[i, j] = acc


@tw.kernel
def displaced(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(tw.relu(a[i, k + 1]).to(tw.bf16), b[k, j])
    c[i, j] = acc


@tw.kernel
def matmul(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    c[i, j] = acc


def decided(kernel, m, n, k, wanted=None, strides=None, **elements):
    kinds = {parameter.name: BF16 for parameter in kernel.parameters} | elements
    program = the_program(trace(kernel, {"M": m, "N": n, "K": k}, kinds, strides))
    return decide(program, target("sm_90a"), wanted)


def words(decisions):
    return " | ".join(decisions.reasons)


def test_a_wish_puts_a_short_expression_in_registers():
    plan = decided(scaled, 4096, 512, 4096, Wanted(computed="registers"))
    assert plan.computed == 1 and not plan.a.materialized and plan.a.buffer == "a"
    assert "left operand computed in registers" in words(plan)


def test_a_long_expression_for_many_tiles_is_computed_once():
    plan = decided(gelu, 4096, 16384, 4096)
    assert plan.computed == 0 and plan.a.materialized
    assert "not computed in registers: about" in words(plan)


def test_a_wish_fixes_the_choice():
    assert decided(gelu, 4096, 16384, 4096, Wanted(computed="registers")).computed == 1
    assert decided(scaled, 4096, 512, 4096, Wanted(computed="workspace")).computed == 0


def test_a_right_operand_transposes_the_product():
    plan = decided(right, 512, 512, 512, Wanted(computed="registers"))
    assert plan.computed == 1 and plan.swapped == 1 and plan.a.side == "right"


@pytest.mark.parametrize(
    ("kernel", "wanted", "strides", "elements", "why"),
    [
        (both_axes, {}, None, {}, "2 loads of both axes"),
        (displaced, {}, None, {}, "displaced along K"),
        (scaled, {}, {"a": (1, 512)}, {}, "not contiguous along K"),
        (scaled, {}, None, {"a": F32}, "from elements of f32"),
        (matmul, {}, None, {}, "no operand is computed"),
        (scaled, {"swapped": True}, None, {}, "the other operand's"),
        (scaled, {"cluster": (2, 1), "tile": (128, 128)}, None, {}, "share loads"),
        (scaled, {"turns": True}, None, {}, "ping-pong"),
    ],
)
def test_what_is_not_computed_in_registers_is_refused_where_wished_for(kernel, wanted, strides, elements, why):
    with pytest.raises(TilewrightError, match=why) as caught:
        decided(kernel, 512, 512, 512, Wanted(computed="registers", **wanted), strides, **elements)
    assert caught.value.remedy
    if "turns" not in wanted:
        assert decided(kernel, 512, 512, 512, Wanted(**wanted), strides, **elements).computed == 0


def test_a_short_expression_for_few_tiles_is_computed_in_registers_unasked():
    plan = decided(scaled, 4096, 512, 4096)
    assert plan.computed == 1 and not plan.a.materialized and "left operand computed in registers" in words(plan)


def test_few_rows_mean_a_workspace():
    plan = decided(scaled, 16, 4096, 4096)
    assert plan.computed == 0 and plan.b.materialized and "small M" in words(plan)


def test_a_contracted_extent_of_no_whole_slots_is_not():
    with pytest.raises(TilewrightError, match="no whole slots"):
        decided(scaled, 512, 512, 520, Wanted(computed="registers"))
    plan = decided(scaled, 512, 512, 520)
    assert plan.computed == 0 and plan.a.materialized
