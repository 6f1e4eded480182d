"""Register budgets, dependent grids, and the end of warps.

Source: PTX ISA 9.7.19.5 (setmaxnreg), 9.7.13.13 (griddepcontrol). Checked by:
tests/contract/judge/test_happens_before_rules.py, test_grid_dependency.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.contract.judge.launch_state import LaunchState
from tilewright.contract.judge.register_budgets import Budget
from tilewright.machine.core.event import Exit, GridDependency, RegisterBudget


def register_budget(state: LaunchState, event: RegisterBudget) -> None:
    """setmaxnreg takes effect."""
    _, warp = state.step(event.actor)
    budget = Budget(event.before, event.registers, event.increase, event.span, warp.epoch, warp.order.copy())
    warp.budgets.append(budget)


def grid_dependency(state: LaunchState, event: GridDependency) -> None:
    """griddepcontrol."""
    cluster, warp = state.step(event.actor)
    if event.kind == "wait":
        cluster.advance(warp.clock, "grids before", 1)
        state.grid.waits.append(event.span)
    else:
        state.grid.launches.append(event.span)


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
