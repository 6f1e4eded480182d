"""The asynchronous plan is what the kernel does: announced, waited for and proved as it stands in the decisions."""

from dataclasses import replace

import pytest
from tests.synth.walked_products import HOPPER, parts_of, walk_of
from xdsl.dialects.builtin import IntAttr

from tilewright.base.verdict import Proven
from tilewright.contract.typestate.typestate import verify
from tilewright.ir.ac import operations as ac
from tilewright.ir.decisions import decisions_of, to_attribute
from tilewright.ir.tile.facts import the_program
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.operand.async_plan import plan_words
from tilewright.synth.tile.wanted import Wanted


def decided(m=1024, n=1024, k=1024, **wanted):
    """(program, its decisions)."""
    parts = parts_of({"M": m, "N": n, "K": k}, wanted=Wanted(swapped=False, **wanted))
    return the_program(parts[-1].module), walk_of(parts)


def kernel_of(program):
    return lower_program(program).kernels[-1].module


@pytest.mark.parametrize("cluster", [(1, 1), (2, 1), (1, 2)])
def test_what_is_announced_is_what_the_copies_bring(cluster):
    program, decisions = decided(tile=(128, 256), cluster=cluster)
    module = kernel_of(program)
    (announced,) = [op.bytes.data for op in module.walk() if isinstance(op, ac.ArriveExpectOp)]
    copies = [op for op in module.walk() if isinstance(op, ac.CopyIssueOp)]
    assert announced == sum(slot.slot_bytes for slot in decisions.slots)
    assert announced == sum(op.box_bytes.data * op.multicast.data for op in copies)
    assert announced == (128 + 256) * 64 * 2
    boxes = sum(slot.spans * slot.boxes_down // slot.peers for slot in decisions.slots)
    assert len(copies) == boxes


def test_stores_are_groups_that_take_turns_in_their_slots():
    program, decisions = decided(tile=(128, 128), turns=False)
    found = decisions.boxed("c")
    assert found is not None
    _, plan = found
    assert (plan.stages, plan.pending) == (decisions.staging_slots, plan.stages - 1)
    # Before a slot is written again the newer groups may go on; before the CTA ends, every slot has been read.
    *between, last = [op for op in kernel_of(program).walk() if isinstance(op, ac.BulkWaitOp) and op.read.data]
    assert {op.pending.data for op in between} == {plan.pending}
    assert last.pending.data == 0
    assert "1 still being read" in plan_words(plan)


def test_a_plain_store_has_no_plan():
    _, decisions = decided(n=1023)
    assert decisions.store_plans == () and decisions.boxed("c") is None


def test_plans_survive_the_attribute():
    program, decisions = decided()
    assert decisions_of(program.attributes["decisions"]) == decisions
    for plan in decisions.store_plans:
        assert plan_words(plan) in decisions.reasons


@pytest.mark.parametrize("more", [128, -128])
def test_slots_that_announce_other_bytes_are_not_proven(more):
    module = kernel_of(decided(tile=(128, 128), turns=False)[0])
    assert isinstance(verify(module, HOPPER), Proven)
    (announced,) = [op for op in module.walk() if isinstance(op, ac.ArriveExpectOp)]
    announced.properties["bytes"] = IntAttr(announced.bytes.data + more)
    assert not isinstance(verify(module, HOPPER), Proven)


@pytest.mark.parametrize("number", [0, 1])
def test_a_slot_of_other_rows_is_not_proven(number):
    program, decisions = decided(tile=(128, 128), turns=False)
    slots = [*decisions.slots]
    slots[number] = replace(slots[number], rows=slots[number].rows + slots[number].box_rows)
    program.attributes["decisions"] = to_attribute(replace(decisions, slots=tuple(slots)))
    assert not isinstance(verify(kernel_of(program), HOPPER), Proven)


def test_a_store_that_waits_for_too_few_groups_is_not_proven():
    program, decisions = decided(tile=(128, 128), turns=False)
    (store,) = decisions.store_plans
    wrong = replace(store, pending=store.pending + 1)
    program.attributes["decisions"] = to_attribute(replace(decisions, store_plans=(wrong,)))
    assert not isinstance(verify(kernel_of(program), HOPPER), Proven)
