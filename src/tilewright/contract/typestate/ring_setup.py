"""Are the barriers of every ring initialised once, fenced and synchronized before the first role begins?

A kernel's body is a straight line, so the order of the line is the whole argument. Rings that peers reach must be ready
in the whole cluster.

Checked by: tests/contract/typestate/test_typestate*.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from tilewright.contract.typestate.finding import Findings
from tilewright.contract.typestate.program import Declared, Ring
from tilewright.ir.ac import operations as ac


def check_ring_setup(
    kernel: ac.KernelOp,
    sequence: Iterable[Operation],
    rings: Mapping[str, Ring],
    declared: Mapping[SSAValue, Declared],
    findings: Findings,
    *,
    reaches: bool,
    freed: bool,
) -> None:
    """sequence: the kernel's synchronization and roles; reaches: whether CTAs write to or arrive on one another's
    rings; freed: whether the CTA has something to take down once its roles have ended."""
    done = _SetUp(findings)
    first_role: Operation | None = None
    for op in sequence:
        match op:
            case ac.BarrierInitOp():
                done.initialise(op, declared.get(op.ring), first_role)
            case ac.FenceBarrierInitOp():
                done.fenced |= done.initialised.keys()
            case ac.CtaSyncOp() | ac.ClusterSyncOp():
                done.synchronize(in_cluster=isinstance(op, ac.ClusterSyncOp))
                if first_role is not None and isinstance(op, ac.CtaSyncOp) and not freed:
                    findings.doubt("a synchronization of the CTA after its roles", op)
            case _ if first_role is None:
                first_role = op
                for ring in rings.values():
                    done.require_ready(ring, op, reaches=reaches)
            case _:
                pass
    if rings and first_role is None:
        findings.doubt("a kernel with rings and no roles", kernel)


@dataclass(slots=True)
class _SetUp:
    """Names of the rings that are initialised; fenced; synchronized; fenced and then synchronized; the same, in the
    cluster."""

    findings: Findings
    initialised: dict[str, Operation] = field(default_factory=dict[str, Operation])
    fenced: set[str] = field(default_factory=set[str])
    ordered: set[str] = field(default_factory=set[str])
    ordered_fenced: set[str] = field(default_factory=set[str])
    ordered_in_cluster: set[str] = field(default_factory=set[str])

    def initialise(self, op: ac.BarrierInitOp, ring: Declared | None, first_role: Operation | None) -> None:
        if not isinstance(ring, Ring):
            self.findings.doubt("initialises something that is no declared ring", op)
        elif ring.name in self.initialised:
            before = self.initialised[ring.name]
            self.findings.report("MB002", op, f"ring {ring.name} is initialised twice", against=before)
        else:
            self.initialised[ring.name] = op
        if first_role is not None:
            self.findings.report("MB004", op, "a ring is initialised after roles have begun", against=first_role)

    def synchronize(self, *, in_cluster: bool) -> None:
        self.ordered |= self.initialised.keys()
        self.ordered_fenced |= self.fenced
        if in_cluster:
            self.ordered_in_cluster |= self.fenced

    def require_ready(self, ring: Ring, role: Operation, *, reaches: bool) -> None:
        """When the first role begins, the ring must be ready for every thread that may touch it."""
        name, report = ring.name, self.findings.report
        init = self.initialised.get(name)
        if init is None:
            report("MB001", ring.op, f"ring {name} is never initialised", against=role)
            return
        if name not in self.fenced:
            report("MB003", init, f"no ac.fence.mbarrier_init follows the init of ring {name}", against=role)
        if name not in self.ordered:
            steps = (
                f"thread 0 is delayed before it initialises ring {name}",
                "a role's thread waits on a barrier that holds no valid object",
            )
            report("MB004", init, f"roles may begin before ring {name} is initialised", against=role, steps=steps)
        elif name in self.fenced and name not in self.ordered_fenced:
            report("MB003", init, f"nothing is synchronized after the fence of ring {name}", against=role)
        elif reaches and name in self.fenced and name not in self.ordered_in_cluster:
            steps = (
                "CTA 1 of the cluster has not started",
                f"CTA 0 passes its own synchronization and reaches ring {name} of CTA 1",
            )
            report("CL004", init, f"peers may reach ring {name} before it is initialised", against=role, steps=steps)
