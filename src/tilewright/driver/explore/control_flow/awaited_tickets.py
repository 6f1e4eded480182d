"""Which loops may never end, since what an atomic operation gives decides whether they do?

A lock is tried for by `atom.cas` until it was free: whether that ends is for other threads to say, and no run of one
cluster shows it. A loop that takes tickets ends by itself: each turn adds to the counter, and the loop goes on while
the ticket is below a bound. So a loop whose end depends on an atomic operation in it must add a number above zero
there, and must not go on where the ticket is as large as it can be.

Not handled: that a lock is freed by whoever holds it; a counter that others set back, or that wraps around. Checked by:
tests/driver/explore/control_flow/test_awaited_tickets.py.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilewright.machine.core.lanes import selector
from tilewright.machine.protocol.slicing.slice_flow import Flow
from tilewright.machine.symbolic.expression import CannotEvaluate, Evaluation, Input, inputs_of
from tilewright.machine.symbolic.tracker import Condition, SymbolicRun

_LAST = (1 << 31) - 1
"""The largest ticket that is the same number with a sign and without."""


def awaited_tickets(symbolic: SymbolicRun, values: Mapping[Input, int], flow: Flow) -> tuple[str, ...]:
    """The loops of a run that may go on for as long as others please, in words. values: of its inputs; flow: of the
    text that was run."""
    found: dict[str, None] = {}
    for condition in symbolic.conditions:
        if condition.loop < 0:
            continue
        blocks = flow.loops[condition.loop].blocks
        given = [each for each in inputs_of((condition.node,)) if each in symbolic.issued]
        taken = [each for each in given if flow.block_of[symbolic.issued[each][0]] in blocks]
        if not taken:
            continue
        known = {**dict(values), **{each: each.place for each in given}, **dict.fromkeys(taken, _LAST)}
        if all(symbolic.issued[each][1] for each in taken) and _ends(symbolic, condition, known):
            continue
        places = ", ".join(dict.fromkeys(str(flow.instructions[symbolic.issued[each][0]].span) for each in taken))
        found[
            f"{flow.instructions[condition.position].span}: whether the loop ends depends on the result of an atomic "
            f"operation in it at {places}, and so on other threads"
        ] = None
    return tuple(found)


def _ends(symbolic: SymbolicRun, condition: Condition, known: Mapping[Input, int]) -> bool:
    """Is the loop left, with such values?"""
    columns = {given: np.array([value & (1 << 64) - 1], np.uint64) for given, value in known.items()}
    try:
        holds = Evaluation(symbolic.table, columns, 1).lanes(condition.node)[0]
    except CannotEvaluate:
        return False
    return not (holds[selector(condition.mask)] == condition.stays).any()
