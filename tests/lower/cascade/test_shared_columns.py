# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Numbers of walked columns in shared memory, results that leave in vectors, masks of ragged tiles: what is right is
proven, edits of it are not."""

import re

import numpy as np
import pytest
from tests.lower.cascade_programs import two_gradients, weights_stored
from tests.lower.lowered_programs import lower, random_inputs, run
from xdsl.dialects.builtin import IntAttr

import tilewright as tw
from tilewright.base.element import Element
from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.reproof.reproof import reprove
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import FragmentIssueOp, FragmentMapOp
from tilewright.ir.function import Function
from tilewright.synth.decide import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")
WANTED = Wanted(consumers=2, depth=48, ordered=False)
IN_ORDER = Wanted(consumers=2, depth=48)
DIMS = {"M": 100, "T": 130, "E": 64, "F": 40}


def gradients(wanted=WANTED):
    elements = {each.name: each.element or Element.BF16 for each in two_gradients.parameters}
    return lower(two_gradients, DIMS, elements, wanted=wanted)


def shared_loads(kernel):
    return [op for op in kernel.walk() if isinstance(op, ac.FragmentLoadOp) and op.through]


def codes(found):
    return {each.code for each in found.findings} if isinstance(found, Refuted) else set()


def test_each_number_is_loaded_once_by_a_warp():
    lowered = gradients()
    (kernel,) = lowered.kernels
    (load,) = shared_loads(kernel)
    assert isinstance(verify(kernel, HOPPER), Proven)
    # 48 numbers, by lanes and by half of them; a thread reads two in each of six groups of eight columns.
    text = lowered.ptx.splitlines()
    assert sum("st.shared.f32" in line for line in text) == 2
    assert sum("ld.shared.v2.f32" in line for line in text) == 6
    assert load.part == IntAttr(0)


def test_a_part_that_the_buffer_does_not_have_is_refuted():
    (kernel,) = gradients().kernels
    shared_loads(kernel)[0].properties["part"] = IntAttr(1)
    assert "AL004" in codes(verify(kernel, HOPPER))


def test_a_buffer_that_units_share_is_refuted():
    (kernel,) = gradients().kernels
    buffer = shared_loads(kernel)[0].through[0].owner
    buffer.properties["instances"] = IntAttr(1)
    assert "AL003" in codes(verify(kernel, HOPPER))


@pytest.mark.parametrize("where", ["before the use", "behind the use"])
def test_numbers_that_others_replace_before_they_are_used_are_doubted(where):
    (kernel,) = gradients().kernels
    (load,) = shared_loads(kernel)
    users = [op for op in load.parent.ops if load.result in op.operands]
    assert all(isinstance(op, FragmentMapOp) for op in users)
    again = load.clone()
    if where == "before the use":
        load.parent.insert_op_before(again, users[0])
        assert isinstance(verify(kernel, HOPPER), Unknown)
    else:
        load.parent.insert_op_after(again, users[-1])
        assert isinstance(verify(kernel, HOPPER), Proven)


@tw.kernel
def between_segments(
    q: tw.Tensor["M", "E"],
    k: tw.Tensor["T", "E"],
    bias: tw.Tensor["T"],
    own: tw.Tensor["M", tw.i32],
    other: tw.Tensor["T", tw.i32],
    v: tw.Tensor["T", "F"],
    o: tw.Tensor["M", "F"],
):
    i, t, e, f = tw.axes("M T E F")
    scores = tw.where(tw.equal(own[i], other[t]), tw.dot(q[i, e], k[t, e], over=e) + bias[t], -1e9)
    o[i, f] = tw.dot(tw.softmax(scores, over=t), v[t, f], over=t)


def test_parts_of_one_buffer_may_have_numbers_of_several_elements():
    elements = {each.name: each.element or Element.BF16 for each in between_segments.parameters}
    lowered = lower(between_segments, DIMS, elements, wanted=Wanted(consumers=1))
    (kernel,) = lowered.kernels
    assert {load.result.type.element.data for load in shared_loads(kernel)} == {"bf16", "i32"}
    assert isinstance(verify(kernel, HOPPER), Proven)


def test_numbers_that_are_read_in_another_block_are_doubted():
    (kernel,) = gradients().kernels
    (load,) = shared_loads(kernel)
    loop = load.parent_op()
    load.detach()
    loop.parent.insert_op_before(load, loop)
    assert isinstance(verify(kernel, HOPPER), Unknown)


def test_a_text_whose_warps_do_not_wait_for_their_lanes_is_not_proven():
    lowered = gradients()
    lines = lowered.ptx.splitlines()
    first = next(at for at, line in enumerate(lines) if "st.shared.f32" in line)
    behind = next(at for at in range(first, len(lines)) if "bar.warp.sync" in lines[at])
    edited = "\n".join(line for at, line in enumerate(lines) if at != behind)
    assert isinstance(reprove(lowered.module, lowered.ptx, "sm_90a", "two_gradients"), Proven)
    assert not isinstance(reprove(lowered.module, edited, "sm_90a", "two_gradients"), Proven)


@pytest.mark.parametrize("wanted", [WANTED, IN_ORDER], ids=["waited for", "running when an iteration ends"])
def test_the_registers_of_an_operand_live_until_its_product_is_waited_for(wanted):
    lowered = gradients(wanted)
    text = [line for line in lowered.ptx.splitlines() if not re.match(r"\s*(st\.shared\.v4\.b32|kept_)", line)]
    kept = [at for at, line in enumerate(text) if "bra kept_" in line]
    (kernel,) = lowered.kernels
    # In order there are two products before the loop as well, and two that are waited for behind it.
    assert len(kept) == sum(isinstance(op, FragmentIssueOp) for op in kernel.walk())
    assert all(any("wgmma.wait_group" in line for line in text[at - 5 : at]) for at in kept)
    # Nor is one moved there.
    registers = {each for line in text if "wgmma" in line for each in re.findall(r"%r\d+", line.partition("}, {")[2])}
    assert registers and not [line for line in text if "mov" in line and re.split(r"[ ,]+", line)[1] in registers]


@pytest.mark.parametrize("streamed", [200, 208, 201])
def test_results_leave_in_vectors_where_rows_are_whole_ones(streamed):
    dims = {"M": 100, "T": streamed, "E": 64, "F": 40}
    lowered = lower(weights_stored, dims, wanted=WANTED)
    (kernel,) = lowered.kernels
    assert set(lowered.decisions.in_vectors) == ({"o", "w"} if streamed % 8 == 0 else {"o"})
    assert isinstance(verify(kernel, HOPPER), Proven)
    arrays = random_inputs(lowered)
    expected = evaluate(trace(weights_stored, dims, dict.fromkeys("qkvow", Element.BF16)), arrays, rounded=False)
    for name, values in run(lowered, arrays).items():
        allowed = 2.0**-6 * np.abs(expected[name]).max()
        np.testing.assert_allclose(values.astype(float), expected[name], rtol=0, atol=allowed, err_msg=name)
    if streamed % 8:
        for op in kernel.walk():
            if isinstance(op, ac.GlobalStoreOp):
                op.properties["vectors"] = IntAttr(1)
        assert isinstance(verify(kernel, HOPPER), Unknown)


def test_vectors_of_an_array_that_begins_anywhere_are_not_taken():
    dims = {"M": 100, "T": 200, "E": 64, "F": 40}
    wanted = Wanted(consumers=2, depth=48, misaligned=("o",))
    assert lower(weights_stored, dims, wanted=wanted).decisions.in_vectors == ("w",)


@tw.kernel
def masked_weights(q: tw.Tensor["M", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], o: tw.Tensor["M", "F"]):
    i, t, e, f = tw.axes("M T E F")
    weights = tw.relu(tw.dot(q[i, e], k[t, e], over=e) * 0.2)
    o[i, f] = tw.dot(tw.where(t <= i, weights, 0.0), v[t, f], over=t)


def test_a_mask_and_the_end_of_the_axis_are_one_selection():
    lowered = lower(masked_weights, {"M": 200, "T": 200, "E": 64, "F": 40}, wanted=WANTED)
    (kernel,) = lowered.kernels
    chosen = [
        op.body.block.last_op.operands[0].owner
        for op in kernel.walk()
        if isinstance(op, FragmentMapOp) and op.outputs[0].type.element.data == "bf16"
    ]
    selected = [op for op in chosen if isinstance(op, ac.ScalarOp) and op.function.data == Function.WHERE.value]
    conditions = {op.inputs[0].owner.function.data for op in selected}
    assert conditions == {Function.MIN.value}
    assert "everywhere" in lowered.ptx
    arrays = random_inputs(lowered)
    found = run(lowered, arrays)["o"].astype(float)
    expected = evaluate(lowered.source, arrays, rounded=False)["o"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=2.0**-6 * np.abs(expected).max())
