# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Several products of one loop with an operand in common: values on the CPU machine, proofs, and text."""

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lowered_programs import Lowered, assert_close, lower, random_inputs
from xdsl.dialects.builtin import IntAttr

import tilewright.frontends.tile.language as tw
from tilewright.base.error import TilewrightError
from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.reproof.address_proof import SameAddresses, staged_stores
from tilewright.ir.ac import operations as ac
from tilewright.ir.decisions import PipelineDecisions
from tilewright.synth.decide import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")


@tw.kernel
def gated(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], v: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    gate, linear = tw.zeros(i, j), tw.zeros(i, j)
    for k in tw.loop("K"):
        gate += tw.dot(x[i, k], w[j, k].T)
        linear += tw.dot(x[i, k], v[j, k].T)
    y[i, j] = tw.silu(gate) * linear


@tw.kernel
def three(
    x: tw.Tensor["M", "K"],
    u: tw.Tensor["K", "N"],
    v: tw.Tensor["K", "N"],
    w: tw.Tensor["K", "N"],
    bias: tw.Tensor["N"],
    y: tw.Tensor["M", "N"],
    z: tw.Tensor["M", "N"],
):
    i, j = tw.grid("M", "N")
    one, two, last = tw.zeros(i, j), tw.zeros(i, j), tw.zeros(i, j)
    for k in tw.loop("K"):
        last += tw.dot(x[i, k], w[k, j])
        one += tw.dot(x[i, k], u[k, j])
        two += tw.dot(x[i, k], v[k, j])
    y[i, j] = one - two * 2 + last * 4 + bias[j]
    z[i, j] = two


@tw.kernel
def shared_right(x: tw.Tensor["M", "K"], p: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    one, two = tw.zeros(i, j), tw.zeros(i, j)
    for k in tw.loop("K"):
        one += tw.dot(x[i, k], w[j, k].T)
        two += tw.dot(p[i, k], w[j, k].T)
    y[i, j] = one + two * 3


@tw.kernel
def neighbours(x: tw.Tensor["M", "K"], w: tw.Tensor["K", "N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    one, two = tw.zeros(i, j), tw.zeros(i, j)
    for k in tw.loop("K"):
        one += tw.dot(x[i, k], w[k, j])
        two += tw.dot(x[i, k], (w[k, j + 1] * 2).to(tw.bf16))
    y[i, j] = one - two


def proven(lowered: Lowered) -> None:
    for module in lowered.kernels:
        if any(isinstance(op, ac.RingOp) for op in module.walk()):
            assert isinstance(verify(module, HOPPER), Proven)


extent = st.one_of(st.integers(1, 150), st.integers(1, 20).map(lambda n: 8 * n), st.sampled_from([64, 128, 192]))


@pytest.mark.full
@settings(max_examples=15, deadline=None)
@example(three, 64, 1, 64, (64, 8), None)
@example(neighbours, 3, 1, 1, (128, 40), None)
@given(
    st.sampled_from([gated, three, shared_right, neighbours]),
    extent,
    extent,
    extent,
    st.sampled_from([None, (64, 64), (128, 64), (128, 40), (64, 8)]),
    st.sampled_from([None, 2]),
)
def test_values(kernel, m, n, k, tile, stages):
    # A row of one element lies like a column.
    if kernel not in (gated, shared_right) and n > 1 and tile is not None and tile[1] % 64:
        with pytest.raises(TilewrightError, match="no tile of these columns holds"):
            lower(kernel, {"M": m, "N": n, "K": k}, wanted=Wanted(tile=tile, stages=stages))
        return
    lowered = lower(kernel, {"M": m, "N": n, "K": k}, wanted=Wanted(tile=tile, stages=stages))
    proven(lowered)
    assert_close(lowered, random_inputs(lowered))


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("kernel", "dims", "tile"),
    [
        (gated, (1, 2, 1), None),
        (gated, (64, 40, 1), None),
        (gated, (129, 66, 1), (128, 40)),
        (shared_right, (2, 1, 1), None),
        (shared_right, (66, 40, 1), (64, 8)),
    ],
)
def test_operands_of_one_column_may_have_either_axis_contiguous(kernel, dims, tile):
    # Where both are, the boxes along the columns' axis are wider than such tiles, and others could not stand behind.
    extents = dict(zip("MNK", dims, strict=True))
    lowered = lower(kernel, extents, wanted=Wanted(tile=tile))
    assert isinstance(lowered.decisions, PipelineDecisions)
    assert lowered.decisions.b.loaded_extent(lowered.decisions.tile_n) == lowered.decisions.tile_n
    proven(lowered)
    assert_close(lowered, random_inputs(lowered))
    assert compile_kernel(kernel, dims=extents, wanted=Wanted(tile=tile), assembled=False).text_proof is not None


@pytest.mark.sample(1)
@pytest.mark.parametrize("cluster", [(2, 1), (1, 2)])
def test_clusters_share_each_of_the_operands(cluster):
    wanted = Wanted((128, 128), cluster=cluster)
    for strides in ({}, {"w": (1, 160), "v": (1, 160)}):
        lowered = lower(gated, {"M": 200, "N": 160, "K": 136}, strides=strides, wanted=wanted)
        proven(lowered)
        assert_close(lowered, random_inputs(lowered))


def test_one_instruction_multiplies_all_of_them():
    lowered = lower(gated, {"M": 128, "N": 128, "K": 128}, wanted=Wanted((128, 128)))
    assert isinstance(lowered.decisions, PipelineDecisions)
    assert lowered.decisions.products == 2
    assert "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16" in lowered.ptx


def test_weights_that_lie_differently_are_refused():
    with pytest.raises(TilewrightError, match="lie in memory in different ways") as caught:
        lower(gated, {"M": 128, "N": 128, "K": 128}, strides={"v": (1, 128)})
    assert caught.value.remedy


def test_a_tile_whose_accumulators_do_not_fit_is_refused():
    with pytest.raises(TilewrightError, match=r"no tile shape \(128, 256\)"):
        lower(gated, {"M": 128, "N": 256, "K": 128}, wanted=Wanted((128, 256)))


def test_a_copy_into_the_other_operands_place_is_refuted():
    lowered = lower(gated, {"M": 128, "N": 128, "K": 128}, wanted=Wanted((128, 64)))
    (module,) = lowered.kernels
    copies = [op for op in module.walk() if isinstance(op, ac.CopyIssueOp)]
    assert copies[2].offset_bytes.data == copies[1].box_bytes.data
    copies[2].properties["offset_bytes"] = IntAttr(0)
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Refuted) and "TX005" in {finding.code for finding in verdict.findings}


def test_a_map_of_parts_that_do_not_add_up_is_not_proven():
    lowered = lower(gated, {"M": 128, "N": 128, "K": 128}, wanted=Wanted((128, 64)))
    (module,) = lowered.kernels
    (mapped,) = [op for op in module.walk() if isinstance(op, ac.MapOp)]
    # Two parts of 64 columns in an accumulator of 128: a region for one of them takes too few elements.
    kind = mapped.result.type
    assert isinstance(kind, ac.FragmentType)
    wide = ac.MapOp.create(
        operands=list(mapped.operands),
        result_types=[ac.FragmentType(kind.m, IntAttr(128), kind.axes, kind.element)],
        regions=[mapped.detach_region(mapped.body)],
    )
    block = mapped.parent
    assert block is not None
    block.insert_op_before(wide, mapped)
    mapped.result.replace_all_uses_with(wide.result)
    block.erase_op(mapped)
    assert isinstance(verify(module, HOPPER), Unknown | Refuted)


def test_decisions_of_one_product_have_no_more_operands():
    decisions = lower(shared_right, {"M": 64, "N": 64, "K": 64}).decisions
    assert isinstance(decisions, PipelineDecisions)
    assert (decisions.swapped, len(decisions.more_b)) == (1, 1)
    assert replace(decisions, more_b=()).multiplied_columns == decisions.tile_n


def test_what_is_staged_lies_where_the_maps_expect_it():
    lowered = lower(three, {"M": 256, "N": 256, "K": 256})
    staged = staged_stores(lowered.parsed, lowered.plan.launches)
    assert len({store.map_name for store in staged}) == 2
    assert all(isinstance(store.verdict, SameAddresses) for store in staged)


def test_consumers_take_tiles_of_two_products_in_turn():
    lowered = lower(gated, {"M": 300, "N": 200, "K": 200}, wanted=Wanted((128, 96), turns=True, swapped=False))
    assert isinstance(lowered.decisions, PipelineDecisions) and lowered.decisions.turns
    proven(lowered)
    assert_close(lowered, random_inputs(lowered))
    with pytest.raises(TilewrightError, match="cannot take tiles of 128x128 in ping-pong"):
        lower(gated, {"M": 300, "N": 200, "K": 200}, wanted=Wanted((128, 128), turns=True, swapped=False))
