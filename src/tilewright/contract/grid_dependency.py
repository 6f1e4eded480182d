"""Does a kernel of a programmatic dependent launch touch global memory before it has waited for the grids before?

One kernel does not show which bytes those grids write, so what is touched too early is reported at the level of a
contested point, and stays among the assumptions of a proof otherwise. Only griddepcontrol.wait makes results visible;
a kernel that lets dependents begin early and never waits may run before the grid before it has ended.
Source: PTX ISA 9.7.13.13 (griddepcontrol). Checked by: tests/contract/test_grid_dependency.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.base.diagnostic import Level
from tilewright.base.span import Span
from tilewright.contract.replay_codes import RunFindings

_PLACES_KEPT = 64


@dataclass(slots=True)
class GridUse:
    """Where a launch waits for grids, lets dependents begin, and touches global memory without having waited: each
    place with whether it writes."""

    waits: list[Span] = field(default_factory=list[Span])
    launches: list[Span] = field(default_factory=list[Span])
    early: dict[Span, bool] = field(default_factory=dict[Span, bool])

    def touch_early(self, write: bool, span: Span) -> None:
        """A warp that has not waited touches global memory."""
        if span not in self.early and len(self.early) < _PLACES_KEPT:
            self.early[span] = write


def judge_grid(use: GridUse, level: Level | None, findings: RunFindings) -> None:
    """Judge a launch that has ended."""
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
    elif use.launches and use.early:
        findings.report(
            "GD102",
            "the kernel lets dependent grids begin and never waits for the grids before it",
            use.launches[0],
            next(iter(use.early)),
            (
                "the grid before lets this one begin early",
                f"this kernel touches global memory ({next(iter(use.early))}) with no griddepcontrol.wait before it",
            ),
            level,
        )
