"""Consumers of a walk that keep the turn of issue from one iteration to the next: what is lowered is proved for all
counts, and without any one of the things that the argument rests on it is not."""

from collections.abc import Callable
from typing import TypeVar

import pytest
from xdsl.dialects.builtin import IntAttr, ModuleOp
from xdsl.ir import Operation

from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.contract.typestate.cycles.rings import CIRCLE
from tilewright.contract.typestate.typestate import judge, verify
from tilewright.driver.compile.compile import elements_of
from tilewright.driver.compile.kernels_attention import (
    forward_kernel,
    key_gradients_kernel,
    query_gradient_kernel,
)
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import FragmentIssueOp
from tilewright.ir.ac.issue_order import IssuePassOp, IssueTakeOp
from tilewright.ir.tier import MemoryType
from tilewright.ir.tile.facts import the_program
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import decide
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")
DIMS = {"B": 1, "H": 2, "Q": 1024, "T": 1024, "E": 64, "F": 64}

Op = TypeVar("Op", bound=Operation)


def lowered(
    made: Callable[..., Kernel], *, causal: bool = False, ordered: bool | None = None, consumers: int = 2
) -> ModuleOp:
    kernel = made(0.125, causal, 1)
    module = walked(trace(kernel, DIMS, elements_of(kernel, "bf16"), None), HOPPER)
    decide(the_program(module), HOPPER, Wanted(consumers=consumers, ordered=ordered))
    (found,) = lower_program(the_program(module)).kernels
    return found.module


def every(module: ModuleOp, kind: type[Op]) -> list[Op]:
    return [op for op in module.walk() if isinstance(op, kind)]


def in_iteration(module: ModuleOp, kind: type[Op]) -> list[Op]:
    """Those of the walk's own iterations; the first one stands before the loop."""
    loop = every(module, FragmentIssueOp)[-1].parent_block()
    return [op for op in every(module, kind) if op.parent_block() is loop]


def moved(op: Operation, place: Operation, *, behind: bool = False) -> None:
    op.detach()
    block = place.parent_block()
    assert block is not None
    if behind:
        block.insert_op_after(op, place)
    else:
        block.insert_op_before(op, place)


@pytest.mark.parametrize("made", [key_gradients_kernel, query_gradient_kernel])
@pytest.mark.parametrize("causal", [False, True])
def test_what_is_lowered_is_proved(made: Callable[..., Kernel], causal: bool) -> None:
    module = lowered(made, causal=causal)
    assert len(every(module, IssueTakeOp)) == len(every(module, IssuePassOp)) == 3
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Proven), verdict


@pytest.mark.parametrize("consumers", [2, 3])
@pytest.mark.parametrize("causal", [False, True])
def test_a_walk_that_leaves_a_product_passes_the_turn_in_each_iteration(consumers: int, causal: bool) -> None:
    module = lowered(forward_kernel, causal=causal, ordered=True, consumers=consumers)
    assert len(every(module, IssueTakeOp)) == len(every(module, IssuePassOp)) == 2
    *_, take = every(module, IssueTakeOp)
    loop = take.parent_block()
    assert loop is not None
    kinds = (IssueTakeOp, ac.WgmmaIssueOp, FragmentIssueOp, IssuePassOp)
    found = [op for op in loop.ops if isinstance(op, kinds)]
    assert [type(op) for op in found] == list(kinds)
    assert isinstance(verify(module, HOPPER), Proven)


@pytest.mark.parametrize("kind", [IssueTakeOp, IssuePassOp])
@pytest.mark.parametrize("place", [0, 1])
def test_a_turn_that_is_not_taken_or_not_passed_is_not_proven(kind: type[Operation], place: int) -> None:
    module = lowered(forward_kernel, ordered=True)
    every(module, kind)[place].detach()
    assert not isinstance(verify(module, HOPPER), Proven)


def with_one_slot(module: ModuleOp) -> ModuleOp:
    """Of whatever passes by: the next slot comes only when all consumers have released this one."""
    for op in every(module, ac.RingOp):
        if op.stages.data > 2:
            op.properties["stages"] = IntAttr(1)
            op.result._type = ac.RingType(op.sym_name, IntAttr(1))  # pyright: ignore[reportPrivateUsage]
    for op in every(module, ac.BufferOp):
        kind = op.result.type
        assert isinstance(kind, MemoryType)
        if kind.slots.data > 2:
            narrow = MemoryType(kind.tier, kind.element, IntAttr(1), kind.slot_bytes, kind.swizzle)
            op.result._type = narrow  # pyright: ignore[reportPrivateUsage]
    return module


def test_a_consumer_that_has_the_turn_may_not_wait_for_what_the_other_releases_behind_its_own() -> None:
    assert isinstance(verify(with_one_slot(lowered(query_gradient_kernel, ordered=False)), HOPPER), Proven)
    refused = verify(with_one_slot(lowered(query_gradient_kernel)), HOPPER)
    assert isinstance(refused, Refuted) and [each.code for each in refused.findings] == ["LV005"]
    # Nor is it shown where nothing is run.
    unknown, _ = judge(with_one_slot(lowered(query_gradient_kernel)), HOPPER, boundaries=False)
    assert isinstance(unknown, Unknown) and any(CIRCLE in each for each in unknown.reasons)


def test_a_walk_is_not_gone_through_with_the_turn() -> None:
    """The other consumer releases none of its slots meanwhile; no run at a few counts is asked for that."""
    module = lowered(query_gradient_kernel)
    for op in (*in_iteration(module, IssueTakeOp), *in_iteration(module, IssuePassOp)):
        op.detach()
    unknown, _ = judge(module, HOPPER, boundaries=False)
    assert isinstance(unknown, Unknown)
    assert isinstance(verify(module, HOPPER), Refuted)


def no_pass_in_the_iteration(module: ModuleOp) -> None:
    in_iteration(module, IssuePassOp)[0].detach()


def no_take_in_the_iteration(module: ModuleOp) -> None:
    in_iteration(module, IssueTakeOp)[0].detach()


def no_take_before_the_walk(module: ModuleOp) -> None:
    every(module, IssueTakeOp)[0].detach()


def no_pass_behind_the_walk(module: ModuleOp) -> None:
    every(module, IssuePassOp)[-1].detach()


def passes_on_after_its_next_take(module: ModuleOp) -> None:
    (taken,), (passed,) = in_iteration(module, IssueTakeOp), in_iteration(module, IssuePassOp)
    moved(passed, taken, behind=True)


def takes_before_a_slot_that_stays(module: ModuleOp) -> None:
    """The slot comes when both consumers have gone through the tile before."""
    first = every(module, IssueTakeOp)[0]
    waits = [op for op in every(module, ac.BarrierWaitOp) if op.parent_block() is first.parent_block()]
    moved(first, waits[0])


def gives_back_slots_that_products_read(module: ModuleOp) -> None:
    """The products of values of the iteration before may still run."""
    first = next(op for op in in_iteration(module, ac.WgmmaWaitOp) if op.reading is not None)
    assert first.pending.data == 1
    for op in in_iteration(module, ac.WgmmaWaitOp):
        if op.parent_block() is first.parent_block() and op.pending.data == 1 and op.accumulator is None:
            op.properties["pending"] = IntAttr(2)


def signals_between_a_take_and_the_walk(module: ModuleOp) -> None:
    """The first iteration waits for slots while its unit has the turn that it took before this signal."""
    (loop,) = [op for op in every(module, ac.LoopOp) if in_iteration(module, IssueTakeOp)[0].parent_op() is op]
    release = next(op for op in every(module, ac.ArriveOp) if op.parent_block() is loop.parent_block())
    moved(release, loop)


MUTATIONS = (
    gives_back_slots_that_products_read,
    signals_between_a_take_and_the_walk,
    no_pass_in_the_iteration,
    no_take_in_the_iteration,
    no_take_before_the_walk,
    no_pass_behind_the_walk,
    passes_on_after_its_next_take,
    takes_before_a_slot_that_stays,
)


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda each: each.__name__)
def test_mutations_are_not_proved(mutate: Callable[[ModuleOp], None]) -> None:
    module = lowered(query_gradient_kernel)
    mutate(module)
    assert not isinstance(verify(module, HOPPER), Proven)
