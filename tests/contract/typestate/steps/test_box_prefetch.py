"""Boxes that a role asks for: where they prove, and what is refuted or doubted."""

from functools import cache

from examples.fused import attention
from tests.paged_programs import paged
from xdsl.dialects.builtin import IntAttr, ModuleOp

from tilewright.base.element import Element
from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac import operations as ac
from tilewright.ir.tile.facts import the_program
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import Wanted, decide
from tilewright.targets import target

HOPPER = target("sm_90a")


@cache
def _lowered(kernel: Kernel, **dims: int) -> ModuleOp:
    elements = {each.name: each.element or Element.BF16 for each in kernel.parameters}
    module = walked(trace(kernel, dims, elements), HOPPER, Wanted()).clone()
    decide(the_program(module), HOPPER, Wanted())
    (lowered,) = lower_program(the_program(module)).kernels
    return lowered.module


def _decode() -> ModuleOp:
    return _lowered(attention, B=2, H=2, Q=4, T=1024, E=64, F=64).clone()


def _asked(module: ModuleOp) -> list[ac.BoxPrefetchOp]:
    return [op for op in module.walk() if isinstance(op, ac.BoxPrefetchOp)]


def test_the_first_tile_is_asked_for_before_the_launch_before_has_ended() -> None:
    module = _decode()
    assert isinstance(verify(module, HOPPER), Proven)
    asked = _asked(module)
    (wait,) = [op for op in module.walk() if isinstance(op, ac.GridWaitOp) and op.parent is asked[0].parent]
    assert len(asked) == 3 and all(op.is_before_in_block(wait) for op in asked)
    assert {op.descriptor for op in asked} == {op.descriptor for op in module.walk() if isinstance(op, ac.CopyIssueOp)}


def test_a_copy_in_its_place_may_touch_what_the_launch_before_writes() -> None:
    module = _decode()
    asked = _asked(module)[0]
    (wait,) = [op for op in module.walk() if isinstance(op, ac.GridWaitOp) and op.parent is asked.parent]
    wait.detach()
    block = asked.parent
    assert block is not None
    block.insert_op_before(wait, block.last_op)  # behind the loads
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Unknown)
    assert not any("prefetch" in reason for reason in verdict.reasons)


def test_a_box_that_starts_within_16_bytes_is_refuted() -> None:
    module = _decode()
    asked = _asked(module)[0]
    inner = asked.coordinates[0].owner
    assert isinstance(inner, ac.AffineOp)
    inner.properties["constant"] = IntAttr(3)
    assert isinstance(verify(module, HOPPER), Refuted)


def test_a_box_of_another_rank_is_refuted() -> None:
    module = _decode()
    asked = _asked(module)[0]
    asked.operands = asked.operands[:-1]
    assert isinstance(verify(module, HOPPER), Refuted)


def _in_pages() -> ModuleOp:
    return _lowered(paged, H=2, Q=4, T=1024, E=64, F=64, P=70, S=16).clone()


def test_a_table_is_asked_early_for_what_is_asked_for_and_once_more() -> None:
    module = _in_pages()
    assert isinstance(verify(module, HOPPER), Proven)
    asked = _asked(module)
    (wait,) = [op for op in module.walk() if isinstance(op, ac.GridWaitOp) and op.parent is asked[0].parent]
    early = [op for op in module.walk() if isinstance(op, ac.IndexLoadOp) and op.parent is wait.parent]
    assert early and all(op.is_before_in_block(wait) for op in early)
    # Keys' and values' boxes are asked for where it says, and what fills slots is loaded behind the wait.
    assert all({type(use.operation) for use in op.result.uses} == {ac.BoxPrefetchOp} for op in early)
    copies = [op for op in module.walk() if isinstance(op, ac.CopyIssueOp)]
    read = {each.owner for op in copies for each in op.coordinates if isinstance(each.owner, ac.IndexLoadOp)}
    assert read and read.isdisjoint(early)


def test_a_copy_by_what_a_table_said_early_may_be_of_other_rows() -> None:
    module = _in_pages()
    (early, *_) = [op for op in module.walk() if isinstance(op, ac.IndexLoadOp)]
    late = next(op for op in module.walk() if isinstance(op, ac.IndexLoadOp) and op.parent is not early.parent)
    copy = next(iter(late.result.uses)).operation
    copy.operands[len(copy.operands) - 1] = early.result
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Unknown)
    assert any("before it is known that the grids before have ended" in reason for reason in verdict.reasons)


def test_a_box_is_asked_for_at_no_innermost_coordinate_that_a_table_says() -> None:
    module = _in_pages()
    (early, *_) = [op for op in module.walk() if isinstance(op, ac.IndexLoadOp)]
    box = next(iter(early.result.uses)).operation
    assert isinstance(box, ac.BoxPrefetchOp)
    box.operands[1] = early.result
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Unknown)
    assert any("more than an outer coordinate" in reason for reason in verdict.reasons)
