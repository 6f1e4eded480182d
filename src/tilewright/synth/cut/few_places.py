"""Up to how many places of a batch of a range is what they walk worth parts, and how long does a launch take in parts?

One kernel for all of a range leaves multiprocessors idle where a launch has few places. Kernels of their own, for parts
of the range, walk in parts there (`synth.empty_axes.parts_of_range`), as many as suit the least and the most places.

Not handled: ranges of the axis that is walked; more than one axis of a batch that has a range.
Checked by: tests/end_to_end/test_run_time_parts.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from xdsl.dialects.builtin import ModuleOp

from tilewright.base.size import Range
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import Decisions
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import the_program
from tilewright.synth.cut.time import Parts, microseconds_in_parts, shares_of_work
from tilewright.synth.empty_axes import with_range
from tilewright.targets import Target

_FEW, _FEWER = 0.75, 4
"""Of the multiprocessors, those that have a tile of the most places of a batch that are few; and so many times fewer
places are served by a kernel of their own. A policy: of parts that suit the least, the most have so many times as many
as needed."""


def ends_of_few(program: tile.ProgramOp, decisions: Decisions, target: Target) -> list[tuple[str, int]]:
    """Of a walk that does more than sum, and an axis of its batch that has a range: up to how many places leave so many
    multiprocessors idle that its parts may be quicker, and more of them."""
    found: list[tuple[str, int]] = []
    if not isinstance(decisions, CascadeDecisions) or decisions.sums_alone:
        return found
    for axis, values in program.run_time.items():
        if axis in decisions.batch and not found:
            of_place = shares_of_work(program, decisions, target) / values.most
            most = int(target.limit("device.multiprocessors") * _FEW / of_place)
            while (end := min(most, values.most - values.multiple_of)) >= values.least_launched:
                found.insert(0, (axis, end - end % values.multiple_of))
                most = end // _FEWER
    return found


def microseconds_over_range(module: ModuleOp, decisions: Decisions, target: Target) -> Callable[[Parts], float]:
    """What `microseconds_in_parts` says; of batches of a range the mean of the least and the most."""
    few = module
    for axis, values in the_program(module).run_time.items():
        few = with_range(few, axis, Range(values.least_launched, values.least_launched))
    most, least = (microseconds_in_parts(the_program(each), decisions, target) for each in (module, few))
    return lambda parts: math.sqrt(most(parts) * least(parts))
