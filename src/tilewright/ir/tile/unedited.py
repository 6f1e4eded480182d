"""What is asked of a program again and again while nobody edits it is found out once.

A choice among many tiles asks the same of one program for each: which loads and products it has, which loads are alike.
Each answer walks the whole program. `while_unedited` marks a function that only reads its first argument, and
`remembered` a question whose answers it may keep until it returns. Other programs, and programs outside of such a
function, are asked anew each time.

Checked by: tests/ir/test_unedited.py.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from tilewright.ir.tile.operations import ProgramOp

Answer = TypeVar("Answer")
Rest = ParamSpec("Rest")

_kept: ContextVar[tuple[ProgramOp, dict[object, object]] | None] = ContextVar("kept", default=None)


def while_unedited(
    function: Callable[Concatenate[ProgramOp, Rest], Answer],
) -> Callable[Concatenate[ProgramOp, Rest], Answer]:
    """A function that edits no program: what is `remembered` of its first argument is kept until it returns."""

    @wraps(function)
    def reading(program: ProgramOp, *rest: Rest.args, **named: Rest.kwargs) -> Answer:
        token = _kept.set((program, {}))
        try:
            return function(program, *rest, **named)
        finally:
            _kept.reset(token)

    return reading


def remembered(question: Callable[[ProgramOp], Answer]) -> Callable[[ProgramOp], Answer]:
    """A question whose answer is a value that nobody changes."""

    @wraps(question)
    def asked(program: ProgramOp) -> Answer:
        kept = _kept.get()
        if kept is None or kept[0] is not program:
            return question(program)
        answers = kept[1]
        if question not in answers:
            answers[question] = question(program)
        return answers[question]  # pyright: ignore[reportReturnType]

    return asked
