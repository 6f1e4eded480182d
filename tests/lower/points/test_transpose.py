# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Programs whose loads run along another axis than their stores: warps turn tiles through shared memory."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.driver.compile.exchange_addresses import ExchangeAddresses, WrongExchangeAddress, exchange_addresses
from tests.lower.lowered_programs import Lowered, lower, random_inputs, run, small

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.verdict import Proven
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.reproof.small import immediate_pairs, same_but_for_extents
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.reference import evaluate
from tilewright.ir.decisions import ElementwiseDecisions
from tilewright.ir.tile.facts import the_program
from tilewright.ir.transpose import LOADED, STORED, TransposeDecision, places_of, side_layout
from tilewright.synth.decide import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")


@tw.kernel
def transpose(x: tw.Tensor["I", "J"], y: tw.Tensor["J", "I"]):
    j, i = tw.grid("J", "I")
    y[j, i] = x[i, j].T


@tw.kernel
def batched(x: tw.Tensor["B", "J", "I"], y: tw.Tensor["B", "J", "I"]):
    b, j, i = tw.grid("B", "J", "I")
    y[b, j, i] = x[b, j, i]


@tw.kernel
def symmetrized(x: tw.Tensor["I", "J"], z: tw.Tensor["J", "I"], bias: tw.Tensor["J"], y: tw.Tensor["J", "I"]):
    j, i = tw.grid("J", "I")
    y[j, i] = tw.relu(0.5 * (x[i, j].T + z[j, i]) + bias[j])


@tw.kernel
def shifted(x: tw.Tensor["I", "J"], z: tw.Tensor["J", "I"], y: tw.Tensor["J", "I"]):
    j, i = tw.grid("J", "I")
    y[j, i] = x[i, j].T - z[j, i - 1]


@tw.kernel
def two_results(x: tw.Tensor["I", "J"], y: tw.Tensor["J", "I"], doubled: tw.Tensor["J", "I"]):
    j, i = tw.grid("J", "I")
    y[j, i] = x[i, j].T
    doubled[j, i] = 2.0 * x[i, j].T


@tw.kernel
def turned_sum(x: tw.Tensor["I", "J"], z: tw.Tensor["I", "J"], y: tw.Tensor["J", "I"]):
    j, i = tw.grid("J", "I")
    y[j, i] = (x[i, j] + z[i, j]).T


def decision_of(lowered: Lowered) -> TransposeDecision:
    assert isinstance(lowered.decisions, ElementwiseDecisions)
    (decision,) = lowered.decisions.transpose
    return decision


def assert_equal(lowered: Lowered) -> None:
    arrays = random_inputs(lowered)
    found, wanted = run(lowered, arrays), evaluate(lowered.module, arrays)
    for name, values in found.items():
        np.testing.assert_array_equal(values, wanted[name])


extent = st.one_of(st.integers(16, 150), st.sampled_from([16, 64, 96, 128, 200]))
element = st.sampled_from([Element.BF16, Element.F16, Element.F32])


@settings(max_examples=12, deadline=None)
@given(extent, extent, element, element)
def test_transposes(m, n, given, stored):
    lowered = lower(transpose, {"I": m, "J": n}, {"x": given, "y": stored})
    assert isinstance(verify(lowered.kernels[0], HOPPER), Proven)
    assert decision_of(lowered).plans
    assert_equal(lowered)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("kernel", "dims", "elements"),
    [
        (symmetrized, {"I": 64, "J": 80}, {}),
        (symmetrized, {"I": 63, "J": 81}, {"z": Element.F32}),
        (symmetrized, {"I": 64, "J": 64}, {"x": Element.F8E4M3, "z": Element.F32}),
        (shifted, {"I": 70, "J": 48}, {}),
        (two_results, {"I": 72, "J": 40}, {"doubled": Element.F32}),
        (turned_sum, {"I": 136, "J": 48}, {"x": Element.F16, "z": Element.F32}),
        (turned_sum, {"I": 64, "J": 80}, {"x": Element.F8E4M3, "z": Element.F16}),
        (transpose, {"I": 128, "J": 64}, {"x": Element.F8E4M3, "y": Element.F8E4M3}),
    ],
)
def test_programs(kernel, dims, elements):
    """Turned loads beside others, element by element, displaced, along the stored axis, repeated."""
    lowered = lower(kernel, dims, elements)
    assert isinstance(verify(lowered.kernels[0], HOPPER), Proven)
    decision_of(lowered)
    assert_equal(lowered)


@pytest.mark.parametrize(("dims", "kind"), [((3, 72, 40), Element.BF16), ((2, 33, 17), Element.F32)])
def test_other_axes(dims, kind):
    """A batch of column-major matrices."""
    count, down, across = dims
    strides = {"x": (down * across, 1, down)}
    lowered = lower(batched, {"B": count, "J": down, "I": across}, {"x": kind, "y": kind}, strides)
    assert isinstance(verify(lowered.kernels[0], HOPPER), Proven)
    assert decision_of(lowered).plans[0].element_bytes == kind.bytes
    assert_equal(lowered)


def test_strides_decide():
    """A column-major source of a row-major result is turned; a column-major source of a column-major one is not."""
    dims = {"I": 64, "J": 96}
    assert decision_of(lower(transpose, dims)).loaded_run == 8
    assert not lower(transpose, dims, strides={"x": (1, 64)}).decisions.transpose
    lowered = lower(symmetrized, dims, strides={"x": (1, 64), "z": (1, 96)})
    assert [plan.element_bytes for plan in decision_of(lowered).plans] == [2]
    assert_equal(lowered)


def test_runs_follow_alignment():
    dims = {"I": 64, "J": 96}
    assert decision_of(lower(transpose, dims, strides={"x": (98, 1)})).loaded_run == 2
    assert decision_of(lower(transpose, dims, wanted=Wanted(misaligned=("y",)))).stored_run == 1
    assert decision_of(lower(transpose, {"I": 63, "J": 96})).stored_run == 1
    assert not lower(transpose, {"I": 15, "J": 96}).decisions.transpose


@pytest.mark.parametrize("stored", ["f16", "f32"])
def test_elements_of_two_sizes_that_are_turned_compile_with_both_proofs(stored):
    """A warp's part of the memory for one size is not another warp's for the other size."""
    elements = {"x": "f16", "z": "f32", "y": stored}
    compilation = compile_kernel(turned_sum, dims={"I": 136, "J": 48}, dtype=elements, assembled=False)
    (decision,) = compilation.decisions.transpose
    assert [plan.element_bytes for plan in decision.plans] == [2, 4]
    assert compilation.text_proof is not None


@pytest.mark.parametrize("dims", [{"I": 4096, "J": 1000}, {"I": 333, "J": 257}])
def test_compiles_with_both_proofs(dims):
    compilation = compile_kernel(transpose, dims=dims, assembled=False)
    assert compilation.text_proof is not None
    assert "turn" in " ".join(compilation.decisions.reasons)
    if compilation.decisions.transpose[0].loaded_run > 1:
        assert compilation.bundle().facts["alignment_bytes"] == {"x": 16, "y": 16}


def test_the_small_instance_is_the_text_but_for_extents():
    large = lower(transpose, {"I": 4100, "J": 1000})
    little = small(large)
    pairs = immediate_pairs(the_program(large.module), the_program(little.module))
    assert same_but_for_extents(read(large.ptx), read(little.ptx), pairs) == ""
    assert_equal(little)


def test_addresses_are_those_of_the_plan():
    lowered = lower(transpose, {"I": 128, "J": 128})
    (plan,) = decision_of(lowered).plans
    assert isinstance(exchange_addresses(read(lowered.ptx), plan), ExchangeAddresses)
    store = next(line for line in lowered.ptx.splitlines() if "stmatrix" in line or "st.shared" in line)
    register = store.split("[")[1].split("]")[0]
    moved = lowered.ptx.replace(store, store.replace(f"[{register}]", f"[{register}+16]"), 1)
    assert isinstance(exchange_addresses(read(moved), plan), WrongExchangeAddress)


@pytest.mark.parametrize("side", [32, 64])
@pytest.mark.parametrize("taken", [1, 2, 8])
def test_layouts_hold_every_point_once(side, taken):
    for along in (STORED, LOADED):
        layout = side_layout(along, side, taken, 4)
        elements, lanes = places_of(layout, side)
        points = {(0, 0)}
        for lane in lanes:
            points |= {(a + lane[0], b + lane[1]) for a, b in points}
        held = [(a + c, b + d) for a, b in points for c, d in elements]
        assert len(held) == side * side == len(set(held))
        which = 0 if along == STORED else 1
        assert [place[which] for place in elements[:taken]] == list(range(taken))


def test_impossible_tiles_are_refused():
    for side, taken in ((48, 1), (4, 1), (16, 32)):
        with pytest.raises(TilewrightError):
            side_layout(STORED, side, taken, 4)
