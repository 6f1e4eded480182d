"""Did an access of shared memory touch bytes below the first variable?

Where a run keeps those bytes from everybody (`machine.core.shared_layout`), loads, stores, copies and mbarriers that
name them are faults of the machine. What engines read for matrix instructions is told by events alone, so the judge's
history of each CTA's shared memory is asked: it must know nothing of those bytes when the run has ended.

Not handled: an address without the variable's own that lies above the first variable, which stands for the bytes there:
the judge asks of it what it asks of any (it is told where another access or a claim contradicts). Source: CUDA C++
Programming Guide, compute capability 8.x and 9.0 (shared memory that the system reserves of each CTA).
Checked by: tests/contract/replay/test_below_shared.py, tests/driver/reproof/test_shared_base.py.
"""

from __future__ import annotations

from dataclasses import field

from tilewright.base.diagnostic import Diagnostic
from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.contract.judge.run_state import ClusterState

_CODE, _NAME = "MF001", "out-of-bounds"
"""As the machine calls it."""


@dataclass(slots=True)
class BelowShared:
    """reserved_bytes: of each CTA's shared memory, from 0 on. found: by the instruction that touched one of them."""

    reserved_bytes: int
    found: dict[Span, Diagnostic] = field(default_factory=dict[Span, Diagnostic])

    def look(self, cluster: ClusterState) -> None:
        """Look at what a cluster did that has ended."""
        if not self.reserved_bytes:
            return
        ranges = ((0, self.reserved_bytes),)
        for cta in sorted(cluster.shared):
            for record in cluster.shared_memory(cta).touched(ranges):
                message = (
                    f"{record.operation} {record.ranges[0][0]:#x} of CTA {cta}'s shared memory, below its first "
                    f"variable, {self.reserved_bytes:#x} in this run: an address that is computed without the "
                    "variable's"
                )
                self.found.setdefault(record.span, Diagnostic(_CODE, _NAME, message, primary=record.span))

    def findings(self) -> tuple[Diagnostic, ...]:
        """One for each instruction."""
        return tuple(self.found.values())
