"""Register budgets, dependent grids, and the end of warps.

Source: PTX ISA 9.7.19.5 (setmaxnreg), 9.7.13.13 (griddepcontrol). Checked by:
tests/contract/judge/test_happens_before_rules.py, test_grid_dependency.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.contract.history.shadow_memory import Record
from tilewright.contract.judge.launch_state import LaunchState
from tilewright.contract.judge.order import lane_order
from tilewright.contract.judge.register_budgets import Budget
from tilewright.contract.judge.run_state import ALL_LANES
from tilewright.machine.core.event import Exit, GridDependency, RegisterBudget


def register_budget(state: LaunchState, event: RegisterBudget) -> None:
    """setmaxnreg takes effect."""
    _, warp = state.step(event.actor)
    budget = Budget(event.before, event.registers, event.increase, event.span, warp.epoch, warp.order.copy())
    warp.budgets.append(budget)


def grid_dependency(state: LaunchState, event: GridDependency) -> None:
    """griddepcontrol."""
    cluster, warp = state.step(event.actor)
    if event.kind != "wait":
        state.grid.launches.append(event.span)
        return
    state.grid.waits.append(event.span)
    if event.lanes == ALL_LANES:
        cluster.advance(warp.clock, "grids before", 1)
    else:  # others learn of it as of these lanes' accesses
        lane_order.note_access(warp)
        wait = Record(
            event.actor, None, False, False, event.span, (), warp.access_track, warp.epoch, event.lanes,
            lane_tracks=warp.lane_tracks,
        )  # fmt: skip
        cluster.grid_waits.append((warp, wait))


def end(state: LaunchState, event: Exit) -> None:
    """A warp has exited."""
    cluster, warp = state.step(event.actor)
    warp.exit_span = event.span
    cluster.exited += 1


HANDLERS: dict[type, Callable[[LaunchState, Any], None]] = {
    RegisterBudget: register_budget,
    GridDependency: grid_dependency,
    Exit: end,
}
