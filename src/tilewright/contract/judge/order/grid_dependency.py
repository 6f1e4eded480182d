"""Does a kernel of a programmatic dependent launch touch global memory before it has waited for the grids before?

One kernel does not show which bytes those grids write, so what is touched too early is reported at the level of a
contested point, and stays among the assumptions of a proof otherwise. Only griddepcontrol.wait makes results visible;
a kernel that never waits may run before the grid before it has ended, if it is launched so or lets dependents begin
early itself.
Source: PTX ISA 9.7.13.13 (griddepcontrol). Checked by: tests/contract/judge/order/test_grid_dependency.py.
"""

from __future__ import annotations

from dataclasses import field

from tilewright.base.diagnostic import Level
from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.contract.judge.order import lane_order
from tilewright.contract.judge.run_state import ClusterState, is_ordered
from tilewright.contract.judge.vector_clock import VectorClock
from tilewright.contract.rules.replay_codes import RunFindings
from tilewright.machine.core.event import Actor

_PLACES_KEPT = 64


@dataclass(slots=True)
class GridUse:
    """Where a launch waits for grids, lets dependents begin, and touches global memory without having waited: each
    place with whether it writes. asking: loads that may (`waits.asking_loads`)."""

    asking: frozenset[Span] = frozenset()
    waits: list[Span] = field(default_factory=list[Span])
    launches: list[Span] = field(default_factory=list[Span])
    early: dict[Span, bool] = field(default_factory=dict[Span, bool])

    def touch_early(self, write: bool, span: Span) -> None:
        """A warp that has not waited touches global memory."""
        if span not in self.early and (write or span not in self.asking) and len(self.early) < _PLACES_KEPT:
            self.early[span] = write


def knows_grids_before(cluster: ClusterState, clock: VectorClock, warp: Actor, lanes: int) -> bool:
    """Do lanes of a warp, or a copy for them, know a wait for the grids before? clock: what the warp knows; of a copy,
    what it knew when it issued it."""
    return cluster.at(clock, "grids before") > 0 or any(
        is_ordered(wait, clock) and (wait.actor != warp or lane_order.any_known_to(who, wait, lanes))
        for who, wait in cluster.grid_waits
    )


def judge_grid(use: GridUse, level: Level | None, findings: RunFindings, *, programmatic: bool = False) -> None:
    """Judge a launch that has ended. programmatic: the grids before may let it begin before they have ended."""
    if level is None:
        return
    if use.waits:
        for span, write in use.early.items():
            verb = "writes" if write else "reads"
            findings.report(
                "GD101",
                f"the kernel {verb} global memory before griddepcontrol.wait; that is right only if no grid before it "
                f"{'uses' if write else 'writes'} those bytes",
                span,
                use.waits[0],
                (
                    "the grid before lets this one begin early",
                    f"this kernel {verb} global memory ({span})",
                    "the grid before still writes there",
                ),
                level,
            )
    elif use.early and (use.launches or programmatic):
        begun = "lets dependent grids begin" if use.launches else "may begin before the grids before it have ended"
        findings.report(
            "GD102",
            f"the kernel {begun} and never waits for the grids before it",
            use.launches[0] if use.launches else next(iter(use.early)),
            next(iter(use.early)) if use.launches else None,
            (
                "the grid before lets this one begin early",
                f"this kernel touches global memory ({next(iter(use.early))}) with no griddepcontrol.wait before it",
            ),
            level,
        )
