"""When does an instruction touch a register that a wgmma in flight still owns, and what then?

Observed runs yield an event and go on with the register's old value; unobserved strict runs stop. Source: PTX ISA,
`wgmma.wait_group`, `wgmma.fence`. Checked by: tests/machine/test_wgmma.py.
"""

from __future__ import annotations

from tilewright.base.span import Span
from tilewright.machine.event import RegisterHazard, TensorCoreActor
from tilewright.machine.fault import MachineFault
from tilewright.machine.lanes import FULL, predicate_mask
from tilewright.machine.state import Warp
from tilewright.machine.step import Step


def report_step_hazard(warp: Warp, step: Step, mask: int) -> None:
    """The step touches registers of a wgmma in flight: an event, or a fault where nobody observes."""
    if step.guard >= 0:
        holds = predicate_mask(warp.r[step.guard])
        if step.negated:
            holds ^= FULL
        if not mask & holds:
            return
    report_register_hazard(warp, step.span, step.reads & warp.in_flight, step.writes & warp.in_flight)


def report_register_hazard(
    warp: Warp, span: Span, reads: frozenset[int] | set[int], writes: frozenset[int] | set[int]
) -> None:
    """Report registers (slots) of wgmmas in flight that are touched. Raises MachineFault if strict and unobserved."""
    cluster = warp.cta.cluster
    names = cluster.program.names
    for slot in sorted(reads | writes):
        operation = warp.wgmma.operation_of(slot)
        if cluster.observe is not None:
            cluster.observe(RegisterHazard(warp.actor, TensorCoreActor(operation), names[slot], slot in writes, span))
        elif cluster.strict:
            raise MachineFault(
                "MF004",
                "register-in-flight",
                f"{names[slot]} belongs to wgmma {operation}, which is still in flight, and is "
                f"{'written' if slot in writes else 'read'}; wgmma.wait_group must come first",
                span,
                "PTX ISA, wgmma.wait_group",
            )
