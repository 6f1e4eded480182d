# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Answers about a program are kept while a function reads it, and no longer."""

import tilewright as tw
from tilewright.base.element import Element
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import loads, the_program
from tilewright.ir.tile.operations import ProgramOp
from tilewright.ir.tile.unedited import remembered, while_unedited

asked: list[ProgramOp] = []


@remembered
def number_of_loads(program: ProgramOp) -> int:
    asked.append(program)
    return len(loads(program))


@while_unedited
def twice(program: ProgramOp, other: ProgramOp) -> tuple[int, ...]:
    return tuple(number_of_loads(each) for each in (program, other, program, other))


@tw.kernel
def added(x: tw.Tensor["N"], w: tw.Tensor["N"], y: tw.Tensor["N"]):
    i = tw.axes("N")
    y[i] = x[i] + w[i]


def test_a_question_is_answered_once_of_the_program_that_is_read() -> None:
    first, other = (the_program(trace(added, {"N": 4}, dict.fromkeys("xwy", Element.F32))) for _ in range(2))
    asked.clear()
    assert twice(first, other) == (2, 2, 2, 2)
    assert [each is first for each in asked] == [True, False, False]
    assert number_of_loads(first) == 2 and len(asked) == 4


def test_an_edit_between_two_readings_is_seen() -> None:
    program = the_program(trace(added, {"N": 4}, dict.fromkeys("xwy", Element.F32)))
    assert twice(program, program) == (2, 2, 2, 2)
    load = loads(program)[0]
    assert load.parent is not None
    load.parent.insert_op_before(load.clone(), load)
    assert twice(program, program) == (3, 3, 3, 3)
