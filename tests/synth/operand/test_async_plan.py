"""The asynchronous plan is what the kernel does: announced, waited for and proved as it stands in the decisions."""

# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
from dataclasses import replace

import pytest

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.verdict import Proven
from tilewright.contract.typestate.typestate import verify
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac import operations as ac
from tilewright.ir.decisions import PipelineDecisions, decisions_of, to_attribute
from tilewright.ir.tile.facts import the_program
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import Wanted, decide
from tilewright.synth.operand.async_plan import plan_words
from tilewright.targets import target

HOPPER = target("sm_90a")


@tw.kernel
def matmul(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    c[i, j] = acc


def decided(m=1024, n=1024, k=1024, **wanted):
    """(program, its decisions)."""
    elements = dict.fromkeys("abc", Element.BF16)
    program = the_program(trace(matmul, {"M": m, "N": n, "K": k}, elements))
    decisions = decide(program, target("sm_90a"), Wanted(**wanted))
    assert isinstance(decisions, PipelineDecisions)
    return program, decisions


def kernel_of(program):
    return lower_program(program).kernels[-1].module


@pytest.mark.parametrize("cluster", [(1, 1), (2, 1), (1, 2)])
def test_what_is_announced_is_what_the_copies_bring(cluster):
    program, decisions = decided(tile=(128, 256), cluster=cluster)
    module = kernel_of(program)
    (announced,) = [op.bytes.data for op in module.walk() if isinstance(op, ac.ArriveExpectOp)]
    copies = [op for op in module.walk() if isinstance(op, ac.CopyIssueOp)]
    assert announced == decisions.announced_bytes == sum(op.box_bytes.data * op.multicast.data for op in copies)
    assert announced == (128 + 256) * 64 * 2
    assert len(copies) == sum(plan.boxes for plan in decisions.async_plans if plan.direction == "load")


def test_stores_are_groups_that_take_turns_in_their_slots():
    program, decisions = decided(tile=(128, 128))
    plan = decisions.plan_of(decisions.stores[0])
    assert (plan.mechanism, plan.stages, plan.pending) == ("bulk groups", decisions.staging_slots, plan.stages - 1)
    # Before a slot is written again the newer groups may go on; before the CTA ends, every slot has been read.
    *between, last = [op for op in kernel_of(program).walk() if isinstance(op, ac.BulkWaitOp) and op.read.data]
    assert {op.pending.data for op in between} == {plan.pending}
    assert last.pending.data == 0
    assert "1 still being read" in plan_words(plan)


def test_a_plain_store_has_no_plan():
    _, decisions = decided(n=1023)
    assert [plan.buffer for plan in decisions.async_plans] == ["a", "right_operand"]
    with pytest.raises(KeyError):
        decisions.plan_of(decisions.stores[0])


def test_plans_survive_the_attribute():
    program, decisions = decided()
    assert decisions_of(program.attributes["decisions"]) == decisions
    for plan in decisions.async_plans:
        assert plan_words(plan) in decisions.reasons


@pytest.mark.parametrize("field, change", [("stage_bytes", 128), ("stage_bytes", -128), ("boxes", 1)])
def test_a_plan_that_announces_other_bytes_is_not_proven(field, change):
    program, decisions = decided(tile=(128, 128))
    load = decisions.async_plans[0]
    wrong = replace(load, **{field: getattr(load, field) + change})
    program.attributes["decisions"] = to_attribute(replace(decisions, async_plans=(wrong, *decisions.async_plans[1:])))
    assert not isinstance(verify(kernel_of(program), HOPPER), Proven)


def test_a_store_that_waits_for_too_few_groups_is_not_proven():
    program, decisions = decided(tile=(128, 128))
    *loads, store = decisions.async_plans
    wrong = replace(store, pending=store.pending + 1)
    program.attributes["decisions"] = to_attribute(replace(decisions, async_plans=(*loads, wrong)))
    assert not isinstance(verify(kernel_of(program), HOPPER), Proven)
