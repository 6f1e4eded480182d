# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Warps that turn tiles: what breaks a rule of theirs is refuted or left undecided, never proved."""

from dataclasses import replace

import pytest
from xdsl.dialects.builtin import IntAttr, ModuleOp
from xdsl.rewriter import Rewriter

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.contract.typestate.typestate import verify
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac import operations as ac
from tilewright.ir.decisions import to_attribute, transpose_of
from tilewright.ir.exchange import ExchangePlan, Stage
from tilewright.ir.tier import MemoryType, int_array
from tilewright.ir.tile.facts import the_program
from tilewright.ir.transpose import TransposeDecision
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import decide
from tilewright.targets import target

HOPPER = target("sm_90a")


@tw.kernel
def transpose(x: tw.Tensor["I", "J"], y: tw.Tensor["J", "I"]):
    j, i = tw.grid("J", "I")
    y[j, i] = x[i, j].T


@tw.kernel
def turned_sum(x: tw.Tensor["I", "J"], z: tw.Tensor["I", "J"], y: tw.Tensor["J", "I"]):
    j, i = tw.grid("J", "I")
    y[j, i] = (x[i, j] + z[i, j]).T


def lowered() -> tuple[ModuleOp, ac.ElementwiseOp, TransposeDecision]:
    module = trace(transpose, {"I": 128, "J": 256}, {"x": Element.BF16, "y": Element.BF16})
    decide(the_program(module), target("sm_90a"))
    (kernel,) = lower_program(the_program(module)).kernels
    (op,) = [each for each in kernel.module.walk() if isinstance(each, ac.ElementwiseOp)]
    assert op.transpose is not None
    return kernel.module, op, transpose_of(op.transpose)


def with_decision(changed: TransposeDecision) -> Verdict:
    module, op, _ = lowered()
    op.properties["transpose"] = to_attribute(changed)
    return verify(module, HOPPER)


def with_stage(**changes: object) -> Verdict:
    """The plan's trip through memory changed."""
    _, _, decision = lowered()
    (plan,) = decision.plans
    steps = tuple(replace(step, **changes) if isinstance(step, Stage) else step for step in plan.steps)
    return with_decision(replace(decision, plans=(replace(plan, steps=steps),)))


def stage_of(plan: ExchangePlan) -> Stage:
    (stage,) = [step for step in plan.steps if isinstance(step, Stage)]
    return stage


def test_what_is_lowered_is_proved() -> None:
    module, _, decision = lowered()
    assert isinstance(verify(module, HOPPER), Proven)
    assert isinstance(with_decision(decision), Proven)


def test_warps_that_share_memory_are_not_proved() -> None:
    _, _, decision = lowered()
    stage = stage_of(decision.plans[0])
    assert isinstance(with_stage(scope="block"), Unknown)
    assert isinstance(with_stage(store=replace(stage.store, warp_bytes=(0, 0))), Unknown)
    swapped = replace(stage.load, warp_bytes=stage.load.warp_bytes[::-1])
    assert isinstance(with_stage(load=swapped), Unknown)


def test_memory_that_is_too_small_is_refuted() -> None:
    module, op, decision = lowered()
    memory = op.through[0].owner
    assert isinstance(memory, ac.BufferOp)
    small = MemoryType(*(IntAttr(1024) if at == 3 else each for at, each in enumerate(memory.result.type.parameters)))
    replaced = ac.BufferOp.create(properties=dict(memory.properties), result_types=[small])
    assert memory.parent is not None
    memory.parent.insert_op_before(replaced, memory)
    memory.result.replace_all_uses_with(replaced.result)
    memory.detach()
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Refuted) and {each.code for each in verdict.findings} == {"AL004"}
    assert isinstance(with_stage(size_bytes=decision.smem_bytes // 4), Refuted)


def test_memory_that_exchanges_of_two_sizes_share_is_not_proved() -> None:
    """Warps do not wait for each other, and parts of warps lie elsewhere for each size of element."""
    module = trace(turned_sum, {"I": 128, "J": 256}, {"x": Element.BF16, "z": Element.F32, "y": Element.F32})
    decide(the_program(module), HOPPER)
    (kernel,) = lower_program(the_program(module)).kernels
    (op,) = [each for each in kernel.module.walk() if isinstance(each, ac.ElementwiseOp)]
    assert op.transpose is not None
    decision = transpose_of(op.transpose)
    assert len(decision.plans) == 2 and decision.smem_bytes == sum(plan.shared_bytes for plan in decision.plans)
    assert isinstance(verify(kernel.module, HOPPER), Proven)
    small, large = decision.plans
    for held in (0, small.shared_bytes // 2, small.shared_bytes - 8):
        shared = replace(small, cost=replace(small.cost, shared_bytes=held))
        op.properties["transpose"] = to_attribute(replace(decision, plans=(shared, large)))
        assert isinstance(verify(kernel.module, HOPPER), Unknown), held
    memory = op.through[0].owner
    assert isinstance(memory, ac.BufferOp)
    op.properties["transpose"] = to_attribute(decision)
    sizes = memory.result.type.parameters
    less = MemoryType(*(IntAttr(large.shared_bytes) if at == 3 else each for at, each in enumerate(sizes)))
    Rewriter.replace_value_with_new_type(memory.result, less)
    assert isinstance(verify(kernel.module, HOPPER), Refuted)


@pytest.mark.parametrize(
    "changes",
    [{"warps": 8}, {"stored_run": 512}, {"loaded_run": 3}, {"side": 4}, {"stored_axis": 5}, {"stored_axis": 0},
     {"loaded_axis": 1}],
)  # fmt: skip
def test_other_tiles_than_the_role_and_the_arrays_have(changes: dict[str, int]) -> None:
    _, _, decision = lowered()
    assert not isinstance(with_decision(replace(decision, **changes)), Proven)


@pytest.mark.parametrize("name", ["x", "y"])
def test_rows_that_begin_inside_a_vector(name: str) -> None:
    module, _, _ = lowered()
    (array,) = [op for op in module.walk() if isinstance(op, ac.GlobalOp) and op.buffer.data == name]
    array.properties["strides"] = int_array((1001, 1))
    assert isinstance(verify(module, HOPPER), Unknown)


def test_a_buffer_that_something_else_uses() -> None:
    module, op, _ = lowered()
    op.parent.insert_op_before(op.clone(), op)  # type: ignore[union-attr]
    assert isinstance(verify(module, HOPPER), Unknown)
