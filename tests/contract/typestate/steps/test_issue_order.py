"""Units that issue in order: what is lowered is proved for all counts, and without any one of the things that the
argument rests on it is not."""

from collections.abc import Callable
from typing import TypeVar

import pytest
from xdsl.dialects.builtin import IntAttr, ModuleOp
from xdsl.ir import Operation

from tilewright.base.verdict import Proven, Refuted
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.compile.compile import elements_of
from tilewright.driver.compile.kernels_attention import key_gradients_kernel, query_gradient_kernel
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.issue_order import IssueOrderEndOp, IssueOrderStartOp, IssuePassOp, IssueTakeOp
from tilewright.ir.tile.facts import the_program
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import decide
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")

Op = TypeVar("Op", bound=Operation)


DIMS = {"B": 1, "H": 2, "Q": 1024, "T": 1024, "E": 64, "F": 64}


def ordered(made: Callable[..., Kernel] = query_gradient_kernel) -> ModuleOp:
    kernel = made(0.125, False, 1)
    module = walked(trace(kernel, DIMS, elements_of(kernel, "bf16"), None), HOPPER)
    decide(the_program(module), HOPPER, Wanted(consumers=2, ordered=True))
    (found,) = lower_program(the_program(module)).kernels
    return found.module


def every(module: ModuleOp, kind: type[Op]) -> list[Op]:
    return [op for op in module.walk() if isinstance(op, kind)]


def before(op: Operation, place: Operation) -> None:
    op.detach()
    block = place.parent_block()
    assert block is not None
    block.insert_op_before(op, place)


@pytest.mark.parametrize("made", [query_gradient_kernel, key_gradients_kernel])
def test_what_is_lowered_is_proved(made: Callable[..., Kernel]):
    module = ordered(made)
    assert len(every(module, IssueTakeOp)) == len(every(module, IssuePassOp)) > 0
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Proven), verdict


def no_pass(module: ModuleOp) -> None:
    every(module, IssuePassOp)[0].detach()


def no_take(module: ModuleOp) -> None:
    every(module, IssueTakeOp)[0].detach()


def no_end(module: ModuleOp) -> None:
    every(module, IssueOrderEndOp)[0].detach()


def pass_before_take(module: ModuleOp) -> None:
    before(every(module, IssuePassOp)[0], every(module, IssueTakeOp)[0])


def waits_while_it_has_the_turn(module: ModuleOp) -> None:
    """Unit 1 waits for unit 0, which waits for a slot that unit 1 must release."""
    before(every(module, IssueTakeOp)[0], every(module, ac.BarrierWaitOp)[-1])


def passes_on_when_the_product_is_done(module: ModuleOp) -> None:
    op, wait = every(module, IssuePassOp)[-1], every(module, ac.WgmmaWaitOp)[-1]
    op.detach()
    block = wait.parent_block()
    assert block is not None
    block.insert_op_after(op, wait)


def takes_the_next_units_barrier(module: ModuleOp) -> None:
    (start,) = every(module, IssueOrderStartOp)
    every(module, IssueTakeOp)[0].operands[0] = start.following


def passes_to_itself(module: ModuleOp) -> None:
    (start,) = every(module, IssueOrderStartOp)
    every(module, IssuePassOp)[0].operands[0] = start.own


def ends_before_the_tiles(module: ModuleOp) -> None:
    before(every(module, IssueOrderEndOp)[0], every(module, ac.TilesOp)[-1])


def started_in_the_loop(module: ModuleOp) -> None:
    (start,) = every(module, IssueOrderStartOp)
    loop = every(module, ac.TilesOp)[-1]
    first = loop.body.block.first_op
    assert first is not None
    before(start, first)


def barriers_past_the_last(module: ModuleOp) -> None:
    every(module, IssueOrderStartOp)[0].properties["first_barrier"] = IntAttr(15)


def barrier_of_the_cta(module: ModuleOp) -> None:
    every(module, IssueOrderStartOp)[0].properties["first_barrier"] = IntAttr(0)


def barriers_of_stores(module: ModuleOp) -> None:
    """Each unit syncs at the end on a barrier that hands the turn on."""
    (start,) = every(module, IssueOrderStartOp)
    role = start.parent_op()
    assert isinstance(role, ac.RoleOp)
    sync = ac.NamedBarrierSyncOp.create(
        operands=[role.body.block.args[0]],
        properties={"first_barrier": start.first_barrier, "threads": IntAttr(128)},
    )
    role.body.block.add_op(sync)


MUTATIONS = (
    no_pass,
    no_take,
    no_end,
    pass_before_take,
    waits_while_it_has_the_turn,
    passes_on_when_the_product_is_done,
    takes_the_next_units_barrier,
    passes_to_itself,
    ends_before_the_tiles,
    started_in_the_loop,
    barriers_past_the_last,
    barrier_of_the_cta,
    barriers_of_stores,
)


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda each: each.__name__)
def test_mutations_are_not_proved(mutate: Callable[[ModuleOp], None]):
    module = ordered()
    mutate(module)
    assert not isinstance(verify(module, HOPPER), Proven)


@pytest.mark.parametrize(
    ("mutate", "code"),
    [(no_pass, "LV005"), (no_take, "NB002"), (barrier_of_the_cta, "NB001"), (barriers_of_stores, "NB003")],
)
def test_what_goes_wrong_is_told(mutate: Callable[[ModuleOp], None], code: str):
    module = ordered()
    mutate(module)
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Refuted) and code in {each.code for each in verdict.findings}, verdict
