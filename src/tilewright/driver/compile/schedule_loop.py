"""Which task graph and schedule has the loop of a kernel, without lowering it?

Checked by: tests/cli/commands/test_schedule_command.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from tilewright.base.error import TilewrightError
from tilewright.driver.compile.compile import elements_of
from tilewright.driver.compile.sequence import settled, uncut
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import ElementwiseDecisions
from tilewright.ir.schedule import Schedule
from tilewright.ir.task_graph import TaskGraph
from tilewright.synth.cost.tile_loop import TileCosts, TileSchedule, schedule_tiles
from tilewright.synth.schedule.loop_schedule import schedule_of
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target


def decided_schedule(
    kernel: Kernel, target: Target, dims: Mapping[str, int], dtype: str | Mapping[str, str], wanted: Wanted
) -> tuple[TaskGraph, Schedule]:
    """The task graph and the schedule of the loop of a kernel, decided as `driver.compile.compile` does.

    Raises TilewrightError for a program that is not compiled, and for one without a loop over a contracted axis.
    """
    return _decided(kernel, target, dims, dtype, wanted)[1:]


def decided_tiles(
    kernel: Kernel,
    target: Target,
    dims: Mapping[str, int],
    dtype: str | Mapping[str, str],
    wanted: Wanted,
    epilogue_cycles: int,
) -> tuple[TileSchedule, ...]:
    """Schedules of the loop over tiles, shared and in turn, the shorter first. epilogue_cycles: of one tile, which
    nobody knows here. Raises as `decided_schedule` does, and for a negative number of cycles."""
    if epilogue_cycles < 0:
        raise TilewrightError(f"an epilogue of {epilogue_cycles} cycles", remedy="give 0 or more")
    decisions, graph, schedule = _decided(kernel, target, dims, dtype, wanted)
    sides = (decisions.row, decisions.tile_rows), (decisions.column, decisions.tile_columns)
    accumulators = decisions.tile_rows * decisions.tile_columns * decisions.slots[-1].among
    tiles = math.prod(math.ceil(dims[axis] / extent) for axis, extent in sides)
    costs = TileCosts(
        graph.trips * schedule.interval_cycles,
        epilogue_cycles,
        math.ceil(accumulators / target.limit("warpgroup.threads")),
        decisions.consumers,
        decisions.consumer_registers,
        math.ceil(tiles / decisions.ctas),
    )
    return schedule_tiles(kernel.name, costs, target, wanted.schedule)


def _decided(
    kernel: Kernel, target: Target, dims: Mapping[str, int], dtype: str | Mapping[str, str], wanted: Wanted
) -> tuple[CascadeDecisions, TaskGraph, Schedule]:
    demanded = tuple(item.name for item in kernel.parameters if item.by_map)
    traced = trace(kernel, dims, elements_of(kernel, dtype), None)
    decisions = settled(uncut(traced, target, replace(wanted, mapped=demanded))[-1], wanted).decisions
    found = None if isinstance(decisions, ElementwiseDecisions) else schedule_of(decisions)
    if found is None or isinstance(decisions, ElementwiseDecisions):
        raise TilewrightError(f"{kernel.name} has no loop to schedule", remedy="give a kernel with a dot")
    return decisions, *found
