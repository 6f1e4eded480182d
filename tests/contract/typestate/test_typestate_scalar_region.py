"""Regions of elementwise operations: what cannot be computed is never proven."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.end_to_end import kernels
from tests.end_to_end.compiled_programs import TARGET, product_of
from tests.end_to_end.program_edits import erase, every
from xdsl.dialects.builtin import IntAttr, ModuleOp, StringAttr

from tilewright.base.element import Element
from tilewright.base.verdict import Proven, Unknown
from tilewright.contract.typestate.typestate import verify
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import FragmentMapOp
from tilewright.ir.tier import int_array
from tilewright.ir.tile.facts import the_program
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import decide
from tilewright.targets import target

HOPPER = target("sm_90a")


def unknown_function(module: ModuleOp) -> None:
    every(module, ac.ScalarOp)[0].properties["function"] = StringAttr("cosine")


def function_of_fewer_values(module: ModuleOp) -> None:
    op = next(op for op in every(module, ac.ScalarOp) if len(op.inputs) == 2)
    op.operands = op.operands[:1]


def used_before_it_is_made(module: ModuleOp) -> None:
    first = every(module, ac.ScalarOp)[0]
    assert first.result.uses
    last = every(module, FragmentMapOp)[0].body.block.last_op
    assert last is not None
    first.detach()
    block = last.parent_block()
    assert block is not None
    block.insert_op_after(first, last)


def yield_dropped(module: ModuleOp) -> None:
    last = every(module, FragmentMapOp)[0].body.block.last_op
    assert isinstance(last, ac.YieldOp)
    erase(last)


def nothing_yielded(module: ModuleOp) -> None:
    last = every(module, FragmentMapOp)[0].body.block.last_op
    assert isinstance(last, ac.YieldOp)
    last.operands = ()


def argument_more(module: ModuleOp) -> None:
    block = every(module, FragmentMapOp)[0].body.block
    block.insert_arg(block.args[0].type, len(block.args))


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (unknown_function, "unknown function 'cosine'"),
        (function_of_fewer_values, "of 1 values"),
        (used_before_it_is_made, "nothing before it in its region defines"),
        (yield_dropped, "yields nothing"),
        (nothing_yielded, "does not end its region with 1 value"),
        (argument_more, "a region of 3 arguments for 2 inputs"),
    ],
)
def test_a_region_that_computes_nothing_is_not_proven(edit: Callable[[ModuleOp], None], words: str) -> None:
    module = product_of("bias-gelu")
    assert isinstance(verify(module, HOPPER), Proven)
    edit(module)
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Unknown)
    assert any(words in reason for reason in verdict.reasons), verdict


def elementwise() -> ModuleOp:
    types = dict.fromkeys(("x", "y", "z"), Element.F16)
    module = trace(kernels.elementwise, {"M": 33, "N": 45}, types, None)
    decide(the_program(module), target(TARGET))
    return lower_program(the_program(module)).kernels[-1].module


def test_points_of_an_elementwise_kernel_have_places_of_their_own() -> None:
    module = elementwise()
    assert isinstance(verify(module, HOPPER), Proven)
    destination = every(module, ac.ElementStoreOp)[0].destination.owner
    assert isinstance(destination, ac.GlobalOp)
    for name, value, words in (
        ("strides", (44, 1), "may lie at one place"),
        ("strides", (45, 0), "may lie at one place"),
        ("shape", (33, 44), "may lie outside"),
        ("shape", (33, 0), "shape (33, 0)"),
    ):
        changed = elementwise()
        op = next(op for op in every(changed, ac.GlobalOp) if op.sym_name == destination.sym_name)
        op.properties[name] = int_array(value)
        verdict = verify(changed, HOPPER)
        assert isinstance(verdict, Unknown)
        assert any(words in reason for reason in verdict.reasons), verdict


def test_points_are_dealt_out_along_x() -> None:
    module = elementwise()
    (kernel,) = every(module, ac.KernelOp)
    for name in ("grid", "cluster"):
        kernel.properties[name] = int_array((1, 2, 1))
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Unknown)
    assert "along x" in verdict.reasons[0]


def test_a_constant_is_an_image_of_32_bits() -> None:
    module = elementwise()
    every(module, ac.ConstantOp)[0].properties["bits"] = IntAttr(1 << 32)
    assert isinstance(verify(module, HOPPER), Unknown)
