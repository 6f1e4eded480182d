# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Batches of products: values on the CPU machine, proofs, maps of three dimensions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.end_to_end.blackwell_programs import check_numbers
from tests.lower.lowered_programs import Lowered, assert_close, instructions, lower, random_inputs, small
from xdsl.dialects.builtin import IntAttr

import tilewright.frontends.tile.language as tw
from tilewright.base.error import TilewrightError
from tilewright.base.verdict import Proven, Unknown
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.reproof.address_proof import SameAddresses, staged_stores
from tilewright.ir.ac import operations as ac
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.tier import int_array
from tilewright.synth.decide import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")


@tw.kernel
def batched(a: tw.Tensor["B", "M", "K"], b: tw.Tensor["B", "K", "N"], c: tw.Tensor["B", "M", "N"]):
    p, i, j = tw.grid("B", "M", "N")
    acc = tw.zeros(p, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[p, i, k], b[p, k, j])
    c[p, i, j] = acc


@tw.kernel
def shared_weights(
    a: tw.Tensor["B", "M", "K"],
    w: tw.Tensor["N", "K"],
    r: tw.Tensor["B", "M", "N"],
    s: tw.Tensor["B"],
    t: tw.Tensor["M", "B"],
    u: tw.Tensor["N"],
    c: tw.Tensor["B", "M", "N"],
):
    p, i, j = tw.grid("B", "M", "N")
    acc = tw.zeros(p, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[p, i, k], w[j, k].T)
    c[p, i, j] = acc * s[p] + r[p, i, j] + t[i, p] + u[j]


@tw.kernel
def turned(a: tw.Tensor["M", "K"], b: tw.Tensor["B", "K", "N"], c: tw.Tensor["B", "N", "M"]):
    p, i, j = tw.grid("B", "M", "N")
    acc = tw.zeros(p, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[p, k, j])
    c[p, j, i] = acc.T


@tw.kernel
def computed(a: tw.Tensor["B", "M", "K"], b: tw.Tensor["B", "K", "N"], c: tw.Tensor["B", "M", "N"]):
    p, i, j = tw.grid("B", "M", "N")
    acc = tw.zeros(p, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(tw.relu(a[p + 1, i, k]).to(tw.bf16), b[p, k, j])
    c[p, i, j] = acc


@tw.kernel
def unlike(
    a: tw.Tensor["B", "M", "K"], w: tw.Tensor["B", "N", "K"], v: tw.Tensor["N", "K"], c: tw.Tensor["B", "M", "N"]
):
    p, i, j = tw.grid("B", "M", "N")
    one, two = tw.zeros(p, i, j), tw.zeros(p, i, j)
    for k in tw.loop("K"):
        one += tw.dot(a[p, i, k], w[p, j, k].T)
        two += tw.dot(a[p, i, k], v[j, k].T)
    c[p, i, j] = tw.silu(one) * two


@tw.kernel
def gated(
    a: tw.Tensor["B", "M", "K"],
    w: tw.Tensor["B", "N", "K"],
    v: tw.Tensor["B", "N", "K"],
    c: tw.Tensor["B", "M", "N"],
):
    p, i, j = tw.grid("B", "M", "N")
    one, two = tw.zeros(p, i, j), tw.zeros(p, i, j)
    for k in tw.loop("K"):
        one += tw.dot(a[p, i, k], w[p, j, k].T)
        two += tw.dot(a[p, i, k], v[p, j, k].T)
    c[p, i, j] = tw.silu(one) * two


@tw.kernel
def elementwise(x: tw.Tensor["B", "M", "N"], s: tw.Tensor["B", "N"], c: tw.Tensor["B", "M", "N"]):
    p, i, j = tw.grid("B", "M", "N")
    c[p, i, j] = x[p, i, j - 1] * s[p, j]


def proven(lowered: Lowered) -> None:
    for module in lowered.kernels:
        assert isinstance(verify(module, HOPPER), Proven)


extent = st.one_of(st.integers(1, 100), st.sampled_from([8, 64, 72, 128]))


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from([batched, shared_weights, turned, computed]),
    st.integers(1, 3),
    extent,
    extent,
    extent,
    st.sampled_from([None, (64, 64), (128, 64)]),
)
def test_values(kernel, batch, m, n, k, tile):
    lowered = lower(kernel, {"B": batch, "M": m, "N": n, "K": k}, wanted=Wanted(tile=tile))
    proven(lowered)
    assert_close(lowered, random_inputs(lowered))


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 3), extent, extent)
def test_elementwise_over_three_axes(batch, m, n):
    lowered = lower(elementwise, {"B": batch, "M": m, "N": n})
    proven(lowered)
    assert_close(lowered, random_inputs(lowered))


def test_two_products_of_a_batch():
    for kernel, dims in ((unlike, {"M": 64, "N": 64, "K": 64}), (gated, {"M": 160, "N": 112, "K": 72})):
        lowered = lower(kernel, {"B": 2, **dims})
        proven(lowered)
        assert_close(lowered, random_inputs(lowered))


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "strides",
    [
        {"a": (64, 192, 1), "b": (64 * 80, 80, 1), "c": (64, 192, 1)},  # rows of all matrices in turn
        {"a": (64 * 100 + 1, 64, 1)},  # matrices at odd distances: through a workspace
        {"c": (100 * 64 + 3, 64, 1)},  # results at odd distances: plain stores
        {"b": (64 * 80, 1, 80)},
        {"c": (100 * 64, 1, 100)},
    ],
)
def test_matrices_lie_anyhow(strides):
    lowered = lower(batched, {"B": 3, "M": 100, "N": 64, "K": 64}, strides=strides)
    proven(lowered)
    assert_close(lowered, random_inputs(lowered))


@pytest.mark.parametrize("cluster", [(2, 1), (1, 2)])
def test_clusters(cluster):
    lowered = lower(batched, {"B": 2, "M": 200, "N": 136, "K": 72}, wanted=Wanted((128, 128), cluster=cluster))
    proven(lowered)
    assert_close(lowered, random_inputs(lowered))


def test_maps_have_the_batch_as_third_dimension():
    lowered = lower(batched, {"B": 5, "M": 256, "N": 128, "K": 512})
    plan = lowered.decisions
    assert isinstance(plan, CascadeDecisions) and plan.batch == ("B",)
    (a,) = (slot.map for slot in plan.slots if slot.buffer == "a")
    assert a.dims == (512, 256, 5) and a.box[2] == 1
    assert plan.stores[0].map.dims == (128, 256, 5)
    loads = [item for item in instructions(lowered.parsed) if item.opcode.startswith("cp.async.bulk.tensor.3d")]
    assert loads
    assert not [item for item in instructions(lowered.parsed) if item.opcode.startswith("cp.async.bulk.tensor.2d")]
    staged = staged_stores(lowered.parsed, lowered.plan.launches)
    assert staged and all(isinstance(store.verdict, SameAddresses) for store in staged)


def test_the_small_instance_keeps_a_batch_of_two_close_together():
    lowered = small(lower(batched, {"B": 64, "M": 4096, "N": 4096, "K": 4096}))
    sizes = {buffer.name: buffer for buffer in lowered.plan.buffers}
    assert {buffer.shape[0] for buffer in sizes.values()} == {2}
    # Rows stay as far apart as they are; matrices move together.
    assert all(buffer.span_bytes < 2**24 for buffer in sizes.values())


def test_a_part_that_may_lie_outside_is_not_proven():
    lowered = lower(shared_weights, {"B": 2, "M": 64, "N": 64, "K": 64})
    (module,) = lowered.kernels
    for tiles in [op for op in module.walk() if isinstance(op, ac.TilesOp)]:
        tiles.properties["batch"] = int_array([3])
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Unknown) and any("may lie outside" in reason for reason in verdict.reasons)


def test_results_of_all_matrices_in_one_place_are_not_proven():
    lowered = lower(batched, {"B": 2, "M": 256, "N": 256, "K": 64})
    (module,) = lowered.kernels
    store = next(op for op in module.walk() if isinstance(op, ac.CopyStoreOp))
    constant = ac.AffineOp.create(
        properties={"coefficients": int_array([]), "constant": IntAttr(0)}, result_types=[ac.IndexType()]
    )
    block = store.parent
    assert block is not None
    block.insert_op_before(constant, store)
    store.operands[len(store.operands) - 1] = constant.result
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Unknown) and any("store an element of c twice" in reason for reason in verdict.reasons)


def test_a_batch_that_no_operand_has_is_added_by_another_kernel():
    @tw.kernel
    def alone(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], x: tw.Tensor["B"], c: tw.Tensor["B", "M", "N"]):
        p, i, j = tw.grid("B", "M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[i, k], b[k, j])
        c[p, i, j] = x[p] + acc

    made = compile_kernel(alone, dims={"B": 2, "M": 64, "N": 64, "K": 64})
    assert len(made.plan.launches) == 2
    check_numbers(made)


def test_a_neighbouring_matrix_is_refused():
    @tw.kernel
    def neighbour(a: tw.Tensor["B", "M", "K"], b: tw.Tensor["K", "N"], x: tw.Tensor["B"], c: tw.Tensor["B", "M", "N"]):
        p, i, j = tw.grid("B", "M", "N")
        acc = tw.zeros(p, i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[p, i, k], b[k, j])
        c[p, i, j] = x[p + 1] + acc

    with pytest.raises(TilewrightError, match="a tile of a neighbouring matrix") as caught:
        lower(neighbour, {"B": 2, "M": 64, "N": 64, "K": 64})
    assert caught.value.remedy


def test_consumers_take_tiles_of_a_batch_in_turn():
    wanted = Wanted((128, 128), turns=True, swapped=False)
    for kernel in (batched, shared_weights):
        lowered = lower(kernel, {"B": 3, "M": 136, "N": 200, "K": 200}, wanted=wanted)
        assert isinstance(lowered.decisions, CascadeDecisions) and lowered.decisions.turns
        proven(lowered)
        assert_close(lowered, random_inputs(lowered))
