# Axis names in annotations are data, not types: checkers of types take them for undefined names.
# ruff: noqa: F821
# pyright: reportUndefinedVariable=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
"""Programs of many operands: in which order they are emitted, that it is right, and that values stay the same."""

from dataclasses import replace

import pytest
from tests.lower.lowered_programs import assert_close, random_inputs, small
from tests.lower.lowered_programs import lower as lower_program

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.frontends.tile.trace import trace
from tilewright.ir.decisions import ElementwiseDecisions, to_attribute
from tilewright.ir.expression_nodes import expression_nodes
from tilewright.ir.schedule import Method
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import the_program
from tilewright.lower.tile_to_ac import lower_program as lower_decided
from tilewright.solve.scheduling.register_block import pressure
from tilewright.synth.decide import decide
from tilewright.synth.schedule.expression_order import block_of, loads_first
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

_MANY = 1 << 24
"""Points of as many CTAs as run beside one another."""
_FLOATS = {"x": Element.F32, "y": Element.F32, "z": Element.F32}


def chain(count: int) -> tw.Kernel:
    """Two sums of shared terms, of which the last is wanted first, and a constant."""

    @tw.kernel
    def kernel(x: tw.Tensor["N"], y: tw.Tensor["N"], z: tw.Tensor["N"]) -> None:
        i = tw.grid("N")
        terms = [tw.sigmoid(x[i + number]).to(tw.bf16) for number in range(count)]
        total = terms[-1]
        for term in reversed(terms[:-1]):
            total = term + total * 0.5
        y[i] = total
        z[i] = total * terms[0]

    return kernel


def program_of(kernel: tw.Kernel) -> tile.ProgramOp:
    return the_program(trace(kernel, {"N": _MANY}, _FLOATS))


def test_nodes_come_behind_what_they_read() -> None:
    found = expression_nodes(program_of(chain(4)))
    assert all(read < number for number, reads in enumerate(found.reads) for read in reads)
    kinds = [type(node) for node in found.nodes]
    assert (kinds.count(tile.LoadOp), kinds.count(tile.StoreOp), kinds.count(tile.CastOp)) == (4, 2, 4)
    assert len(set(found.nodes)) == len(found.nodes)


@pytest.mark.parametrize("schedule", ["heuristic", "optimal"])
def test_an_order_is_decided_where_registers_are_short(schedule: Method) -> None:
    program = program_of(chain(32))
    decisions = decide(program, target("sm_90a"), Wanted(schedule=schedule))
    assert isinstance(decisions, ElementwiseDecisions)
    expressions = expression_nodes(program)
    block = block_of(expressions)
    # The last term's sum and the first term, which both results need.
    assert pressure(block, decisions.order) <= 4
    assert pressure(block, loads_first(expressions)) >= 32
    assert any("keeps" in reason for reason in decisions.reasons)


def test_few_operands_keep_their_loads_first() -> None:
    decisions = decide(program_of(chain(4)), target("sm_90a"))
    assert isinstance(decisions, ElementwiseDecisions)
    assert decisions.order == ()


def test_values() -> None:
    lowered = small(lower_program(chain(32), {"N": _MANY}, _FLOATS))
    assert isinstance(lowered.decisions, ElementwiseDecisions) and lowered.decisions.order
    assert_close(lowered, random_inputs(lowered))


def test_an_order_that_is_none_is_refused() -> None:
    program = program_of(chain(32))
    decisions = decide(program, target("sm_90a"))
    assert isinstance(decisions, ElementwiseDecisions)
    for order, words in ((decisions.order[1:], "every node once"), (decisions.order[::-1], "before what it reads")):
        program.attributes["decisions"] = to_attribute(replace(decisions, order=order))
        with pytest.raises(ValueError, match=words):
            lower_decided(program)
