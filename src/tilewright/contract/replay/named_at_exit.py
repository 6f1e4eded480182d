"""Is an arrival at a named barrier left over when its CTA ends?

Then more threads arrived than its uses took: some use lacks a partner that the program has, or one arrives too often,
and the next use, had there been one, would have begun with a count that is not zero. Nobody waits for it and nothing
races, so no rule about order sees it; the ISA does not forbid it either, and kernels in use do it (they let the first
wait pass by an arrival that the last round leaves behind). So it is asked of texts whose program is known to leave
none.

Not handled: barriers of all of a CTA's threads without a count, which no one can leave. Source: PTX ISA 9.7.13.1.
Checked by: tests/contract/replay/test_named_at_exit.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tilewright.base.diagnostic import Diagnostic, Repair
from tilewright.base.span import Span
from tilewright.contract.rules.replay_codes import REPLAY_RULES
from tilewright.machine.core.event import NamedBarrier, NamedBarrierArrive

_CODE = "NB107"
_TOLD = 3


@dataclass(slots=True)
class LeftArrivals:
    """Feed it the events of launches in order (`replay`). pending: of each barrier of each CTA, the arrivals of the use
    that has not completed."""

    pending: dict[tuple[int, int], list[Span]] = field(default_factory=dict[tuple[int, int], list[Span]])
    left: list[tuple[int, int, Span]] = field(default_factory=list[tuple[int, int, Span]])

    def begin(self) -> None:
        """A launch begins, and those before it have ended."""
        self.left += [(cta, barrier, spans[0]) for (cta, barrier), spans in self.pending.items() if spans]
        self.pending = {}

    @property
    def handlers(self) -> dict[type, Callable[[Any], None]]:
        """Who takes which kind of event."""
        return {NamedBarrierArrive: self._arrive, NamedBarrier: self._complete}

    def _arrive(self, event: NamedBarrierArrive) -> None:
        self.pending.setdefault((event.cta, event.barrier), []).append(event.span)

    def _complete(self, event: NamedBarrier) -> None:
        self.pending[event.cta, event.barrier] = []

    def findings(self) -> tuple[Diagnostic, ...]:
        """One for each instruction whose arrival is left over; asked when the last launch has ended."""
        self.begin()
        rule = REPLAY_RULES[_CODE]
        first = {span: (cta, barrier) for cta, barrier, span in reversed(self.left)}
        return tuple(
            Diagnostic(
                rule.code, rule.name, f"an arrival at named barrier {barrier} is left when CTA {cta} ends",
                primary=span, source=rule.source, repair=Repair(rule.remedy),
            )
            for span, (cta, barrier) in list(first.items())[:_TOLD]
        )  # fmt: skip
