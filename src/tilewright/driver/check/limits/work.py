"""How much work does a check do, in a unit that is the same on every machine?

The unit is the warp instruction that the machine runs (a *step*); of a structured program (MLIR), the operation that is
evaluated and the protocol step that is judged. Every run of a launch adds its steps to the meters around it. A meter
may have a limit: a run then gets no more steps than are left, and `WorkSpent` ends the block once none are. So what is
tried and what is reported are functions of the input, whatever the clock says; seconds (`budget`) only end a check, and
the report names that.

Not counted: reading a text, the arithmetic of a proof after a run.
Checked by: tests/driver/check/limits/test_work.py.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from tilewright.base.value import dataclass


class WorkSpent(Exception):
    """The steps that were given are run. Raised inside `counted`, to be caught around it."""


@dataclass(slots=True, eq=False)
class Meter:
    """steps: run so far; limit: how many may be run, None for any number."""

    limit: int | None
    steps: int = 0


_METERS: ContextVar[tuple[Meter, ...]] = ContextVar("_METERS", default=())


@contextmanager
def counted(limit: int | None = None) -> Generator[Meter, None, None]:
    """Count the steps of the block. Raises WorkSpent inside it where more than `limit` would be run."""
    meter = Meter(limit)
    token = _METERS.set((*_METERS.get(), meter))
    try:
        yield meter
    finally:
        _METERS.reset(token)


def steps_left(most: int) -> int:
    """How many steps the next run may take, `most` at most. Raises WorkSpent where none are left."""
    for meter in _METERS.get():
        if meter.limit is not None:
            most = min(most, meter.limit - meter.steps)
    if most <= 0:
        raise WorkSpent
    return most


def add_steps(steps: int) -> None:
    """Count the steps of a run. Raises WorkSpent where that is more than a meter allows."""
    for meter in _METERS.get():
        meter.steps += steps
    if any(meter.limit is not None and meter.steps > meter.limit for meter in _METERS.get()):
        raise WorkSpent
