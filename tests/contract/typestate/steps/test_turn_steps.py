"""Units that take tiles in turn: what is lowered is proved for all counts, and without any one of the things that the
argument rests on it is not."""

from collections.abc import Callable
from typing import TypeVar

import pytest
from xdsl.dialects.builtin import DictionaryAttr, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Operation

from tilewright.base.element import Element
from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.contract.typestate.typestate import protocol_claims, verify
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.compile.sequence import uncut
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac import operations as ac
from tilewright.ir.tile.facts import the_program
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")

Op = TypeVar("Op", bound=Operation)


def in_turn() -> ModuleOp:
    elements: dict[str, Element] = {name: Element.BF16 for name in "abc"}
    module = trace(matmul_kernel, {"M": 4096, "N": 4096, "K": 1024}, elements, None)
    (part,) = uncut(module, HOPPER, Wanted(tile=(128, 192), turns=True, stream_k=False, swapped=False))
    (kernel,) = lower_program(the_program(part.module)).kernels
    return kernel.module


def only(module: ModuleOp, kind: type[Op]) -> Op:
    (found,) = [op for op in module.walk() if isinstance(op, kind)]
    return found


def ring(module: ModuleOp, name: str) -> ac.RingOp:
    return next(op for op in module.walk() if isinstance(op, ac.RingOp) and op.sym_name.data == name)


def consumer(module: ModuleOp) -> ac.RoleOp:
    return next(op for op in module.walk() if isinstance(op, ac.RoleOp) and op.sym_name.data == "consumer")


def test_it_is_proved_and_its_barriers_are_claimed() -> None:
    module = in_turn()
    assert isinstance(verify(module, HOPPER), Proven)
    (claims,) = protocol_claims(module, HOPPER)
    (turns,) = claims.turns
    first = ring(module, "turns").address.data
    assert turns.addresses == (first, first + 8)
    assert [turns.phases(unit, {"tiles": 5}) for unit in (0, 1)] == [2, 3]
    assert [turns.phases(unit, {"tiles": 4}) for unit in (0, 1)] == [2, 2]
    assert [role.takes_turns for role in claims.roles] == [False, True]


def no_pass(module: ModuleOp) -> None:
    only(module, ac.TurnPassOp).detach()


def two_passes(module: ModuleOp) -> None:
    op = only(module, ac.TurnPassOp)
    block = op.parent_block()
    assert block is not None
    block.insert_op_after(op.clone(), op)


def early_pass(module: ModuleOp) -> None:
    """Passed on before the last slots are waited for."""
    op, loop = only(module, ac.TurnPassOp), only(module, ac.TurnTilesOp)
    op.detach()
    first = loop.body.block.first_op
    assert first is not None
    loop.body.block.insert_op_before(op, first)


def no_wait_in_the_loop(module: ModuleOp) -> None:
    """The pass comes while every wgmma of the tile may be in flight: a slow warp has perhaps not come to its wait."""
    loop = only(module, ac.TurnTilesOp)
    inner = next(each for each in loop.body.block.ops if isinstance(each, ac.LoopOp))
    wait = next(each for each in inner.body.block.ops if isinstance(each, ac.WgmmaWaitOp))
    wait.properties["pending"] = IntAttr(1000)


def pass_in_the_loop(module: ModuleOp) -> None:
    """Passed on with every slice."""
    op, loop = only(module, ac.TurnPassOp), only(module, ac.TurnTilesOp)
    inner = next(each for each in loop.body.block.ops if isinstance(each, ac.LoopOp))
    op.detach()
    last = inner.body.block.last_op
    assert last is not None
    inner.body.block.insert_op_before(op, last)


def three_units(module: ModuleOp) -> None:
    role = consumer(module)
    kind = role.execution
    role.properties["execution"] = type(kind)(kind.unit, IntAttr(3), kind.first_thread)


def other_slots(module: ModuleOp) -> None:
    only(module, ac.TurnTilesOp).properties["skipped"] = StringAttr("tiles")


def unknown_slots(module: ModuleOp) -> None:
    only(module, ac.TurnTilesOp).properties["skipped"] = StringAttr("J")


def other_order(module: ModuleOp) -> None:
    loop = only(module, ac.TurnTilesOp)
    loop.properties["raster_group"] = IntAttr(loop.raster_group.data + 1)


def two_arrivals_a_turn(module: ModuleOp) -> None:
    ring(module, "turns").properties["full_arrivals"] = IntAttr(2)


def turns_on_the_ring(module: ModuleOp) -> None:
    """The ring of slots itself is taken for the barriers of turns."""
    slots = ring(module, "a_ring").result
    only(module, ac.TurnTilesOp).operands[0] = slots
    only(module, ac.TurnPassOp).operands[0] = slots


def turns_not_initialised(module: ModuleOp) -> None:
    for op in list(module.walk()):
        if isinstance(op, ac.BarrierInitOp) and op.ring is ring(module, "turns").result:
            op.detach()


def unit_moves_stores(module: ModuleOp) -> None:
    role = consumer(module)
    unit = role.body.block.args[0]
    store = next(op for op in role.walk() if isinstance(op, ac.CopyStoreOp))
    column = store.coordinates[0].owner
    assert isinstance(column, ac.AffineOp)
    coefficients = [item.data for item in column.coefficients]
    fresh = ac.AffineOp.create(
        operands=[*column.operands_, unit],
        properties={
            "coefficients": type(column.coefficients)([IntAttr(item) for item in (*coefficients, 192)]),
            "constant": column.constant,
        },
        result_types=[column.result.type],
    )
    block = column.parent_block()
    assert block is not None
    block.insert_op_after(fresh, column)
    column.result.replace_all_uses_with(fresh.result)


DOUBTED = (
    no_pass, two_passes, early_pass, no_wait_in_the_loop, pass_in_the_loop, three_units, other_slots, unknown_slots,
    other_order, two_arrivals_a_turn, turns_on_the_ring, unit_moves_stores,
)  # fmt: skip


@pytest.mark.parametrize("mutate", DOUBTED, ids=lambda each: each.__name__)
def test_what_the_argument_rests_on_may_not_be_missing(mutate: Callable[[ModuleOp], None]) -> None:
    module = in_turn()
    mutate(module)
    assert not isinstance(verify(module, HOPPER), Proven)


def test_wrong_counts_are_refuted() -> None:
    module = in_turn()
    ring(module, "a_ring").properties["empty_arrivals"] = IntAttr(2)
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Refuted) and verdict.findings[0].code == "MB009"
    module = in_turn()
    turns_not_initialised(module)
    assert isinstance(verify(module, HOPPER), Refuted)


def test_a_release_that_is_missing_is_refuted() -> None:
    module = in_turn()
    releases = [op for op in consumer(module).walk() if isinstance(op, ac.ArriveOp)]
    releases[-1].detach()
    assert isinstance(verify(module, HOPPER), Refuted)


def test_tiles_of_one_slot_are_not_proven() -> None:
    """A thread might pass the turn on before another warp of its unit has waited for it."""
    module = in_turn()
    (kernel,) = [op for op in module.ops if isinstance(op, ac.KernelOp)]
    kernel.properties["minima"] = DictionaryAttr({**kernel.minima.data, "K": IntAttr(1)})
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Unknown)
    assert any("finds the parity of a later one" in reason for reason in verdict.reasons), verdict


@pytest.mark.parametrize("depth", [8, 64, 72])
def test_a_product_of_little_depth_is_proven(depth: int) -> None:
    elements: dict[str, Element] = {name: Element.BF16 for name in "abc"}
    module = trace(matmul_kernel, {"M": 4096, "N": 4096, "K": depth}, elements, None)
    (part,) = uncut(module, HOPPER, Wanted())
    (kernel,) = lower_program(the_program(part.module)).kernels
    assert isinstance(verify(kernel.module, HOPPER), Proven)
