"""Does a bulk store send bytes of shared memory that were written for it, or those that another store has sent before?

A warp puts its results into a piece of shared memory, a bulk store sends them, and the piece is used again. A lane that
does not write its part the second time leaves the first one's there: all is in order, nothing is unwritten, and what is
stored is of another part of the result. So it is asked that every byte which a store sends was written since a store
sent it last. Of a right program that holds wherever results are staged: each part of a result is stored once, so that
the bytes of no two are the same ones, even where part of a box lies beyond its array.

Not handled: bytes that threads read from there (`ld.shared`) and store themselves; which value was written.
Source: derived: the program's meaning. Checked by: tests/contract/replay/test_staged_bytes.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.base.diagnostic import Diagnostic, Repair
from tilewright.base.span import Span
from tilewright.contract.history.granules import Footprints, Segment
from tilewright.contract.rules.replay_codes import REPLAY_RULES
from tilewright.machine.core.event import Access, AsyncCopyIssue, CopyIssue, Ranges

_CODE = "UM109"
_GRANULE_BYTES = 16
_TOLD = 3
_SENT = np.ones(1, np.int32).tobytes()


@dataclass(slots=True)
class StagedBytes:
    """Feed it the events of launches in order (`replay`). sent: of each CTA, 1 for the granules (`granules`) that a
    store has sent and nobody has written since; found: by the instruction that sends such a byte again, the first one,
    with its CTA."""

    sent: dict[int, Segment] = field(default_factory=dict[int, Segment])
    footprints: Footprints = field(default_factory=Footprints)
    found: dict[Span, tuple[int, int]] = field(default_factory=dict[Span, tuple[int, int]])

    def begin(self) -> None:
        """A launch begins, and those before it have ended."""
        self.sent.clear()

    @property
    def handlers(self) -> dict[type, Callable[[Any], None]]:
        """Who takes which kind of event."""
        return {CopyIssue: self._copy, Access: self._access, AsyncCopyIssue: self._async_copy}

    def _copy(self, event: CopyIssue) -> None:
        for cta in event.destinations:
            if event.direction == "load":
                self._write(cta, event.shared)
                continue
            sent = self.sent.get(cta)
            if sent is None:
                sent = self.sent[cta] = Segment(0, _GRANULE_BYTES)
            for begin, end in event.shared:
                cells = sent.stretch(begin, end)
                again = sent.held(cells).tobytes().find(_SENT)
                if again >= 0:
                    place = cells.start + again // len(_SENT)
                    self.found.setdefault(event.span, (cta, place * sent.granule_bytes))
                sent.put(cells, 1)

    def _access(self, event: Access) -> None:
        # What a copy brings was taken for written when it was issued.
        if event.write and event.space == "shared" and event.proxy == "generic":
            self._write(event.cta, event.ranges)

    def _async_copy(self, event: AsyncCopyIssue) -> None:
        self._write(event.actor.cta, event.shared)

    def _write(self, cta: int, ranges: Ranges) -> None:
        sent = self.sent.get(cta)
        if sent is None:
            return
        if len(ranges) == 1:
            sent.put(sent.stretch(*ranges[0]), 0)
        elif ranges:
            for part in self.footprints.parts(ranges):  # shared memory is one segment
                for cells in sent.fitted(part):
                    sent.put(cells, 0)

    def findings(self) -> tuple[Diagnostic, ...]:
        """One for each instruction; asked when the last launch has ended."""
        rule = REPLAY_RULES[_CODE]
        return tuple(
            Diagnostic(
                rule.code, rule.name,
                f"shared byte {place:#x} of CTA {cta} is stored, which another store has sent and nobody written since",
                primary=span, source=rule.source, repair=Repair(rule.remedy),
            )
            for span, (cta, place) in list(self.found.items())[:_TOLD]
        )  # fmt: skip
