"""What do the words hold that strong writes have written: whose knowledge, and for whom?

Plain values; `events.accesses` fills and reads them. Checked by: tests/contract/judge/test_strong_accesses.py.
"""

from __future__ import annotations

from tilewright.base.value import dataclass
from tilewright.contract.judge.order.global_order import WORD_BYTES, Publication
from tilewright.contract.judge.vector_clock import VectorClock
from tilewright.machine.core.event import WarpActor

__all__ = ["WORD_BYTES", "Holding", "reaches"]


@dataclass(frozen=True, slots=True, eq=False)
class Holding:
    """One release that a word holds: what it published, to which scope, by whom; publication: for other clusters."""

    clock: VectorClock
    scope: str
    writer: WarpActor
    cluster: int
    publication: Publication | None


def reaches(holding: Holding, scope: str, reader: WarpActor, cluster: int) -> bool:
    """Do the writer's and the reader's scope include each other's thread? (PTX ISA 8.5, scopes)."""
    if holding.writer.cta == reader.cta:
        return True
    if holding.cluster == cluster:
        return holding.scope != "cta" and scope != "cta"
    return holding.scope in ("gpu", "sys") and scope in ("gpu", "sys")
