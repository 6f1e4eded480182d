"""How many bytes does a copy through an unknown tensor map move? What its mbarrier's phase still expects.

A copy whose map is unknown cannot say when its phase is complete, nor whether another copy of the same phase is yet to
come. So it waits until nothing else in the cluster can move: then every copy that can be issued has been, and a phase
whose arrivals are all there and whose bytes are not is filled by the copies of unknown size that name its barrier. One
phase is filled at a time, the longest waiting first. What each phase expected, and of which maps, is recorded: whoever
wants the bytes of each map solves these sums, and runs again with them.

A copy that no phase waits for is recorded, too, with 0 bytes expected. So is a copy out of shared memory, which no
phase counts (`UnknownStore`).
Such copies yield accesses to the first 16 bytes alone, the least that a box has. So what goes wrong in a run with them
goes wrong with every box that its phases allow; what does not shows nothing.

Not handled: which of several copies of a phase moved how many bytes; a run with them is never a proof.
Checked by: tests/machine/copy/test_unknown_copies.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.machine.barrier import signals
from tilewright.machine.core.event import CopyActor

if TYPE_CHECKING:
    from tilewright.machine.core.state import Cluster, Cta


LEAST_BYTES = 16
"""Of a box."""


@dataclass(frozen=True, slots=True)
class UnknownShare:
    """One copy: the generic address that its map came from, in which memory that is (a buffer's or variable's name, or
    that of the parameters' block) and at which offset in it, and the copy's offset in shared memory."""

    origin: int
    offset: int
    span: Span
    where: str = ""
    at: int = 0


@dataclass(frozen=True, slots=True)
class UnknownStore:
    """A copy of unknown size out of the shared memory of CTA `cta`."""

    cta: int
    share: UnknownShare


def share_of(cluster: Cluster, origin: int, offset: int, span: Span) -> UnknownShare:
    """A copy through the unknown map that came from the generic address `origin`."""
    region = cluster.memory.find(origin)
    if region is None:
        return UnknownShare(origin, offset, span)
    return UnknownShare(origin, offset, span, region.name, origin - region.base)


@dataclass(frozen=True, slots=True)
class UnknownPhase:
    """Phase `phase` of the mbarrier at `address` of CTA `cta` expected `expected_bytes` more than known copies moved.

    shares: the copies of unknown size that name the barrier, in order of issue.
    """

    cta: int
    address: int
    phase: int
    expected_bytes: int
    shares: tuple[UnknownShare, ...]


@dataclass(frozen=True, slots=True, eq=False)
class UnknownCopy:
    """A copy of unknown size that has been issued: who signals which barrier, and what writes its first bytes."""

    copy: CopyActor
    cta: Cta
    barrier: int
    share: UnknownShare
    write: Callable[[], None]


def complete_unknown(cluster: Cluster) -> bool:
    """Fill one phase that waits for copies of unknown size. Call it where nothing else can move; False if none does."""
    for first in cluster.unknown_copies:
        state = first.cta.barriers.get(first.barrier)
        if state is None or state.pending or state.transaction_bytes <= 0:
            continue
        members = _same_barrier(cluster, first)
        _record(cluster, first, state.phase, state.transaction_bytes, members)
        expected = state.transaction_bytes
        for member in members:
            member.write()
            last = member is members[-1]
            signals.complete(member.copy, member.cta, member.barrier, expected if last else 0, member.share.span)
        return True
    return False


def leave_unknown(cluster: Cluster) -> None:
    """Record the copies that no phase waited for. Call it at the cluster's end."""
    while cluster.unknown_copies:
        first = cluster.unknown_copies[0]
        state = first.cta.barriers.get(first.barrier)
        phase = -1 if state is None else state.phase
        _record(cluster, first, phase, 0, _same_barrier(cluster, first))


def _same_barrier(cluster: Cluster, first: UnknownCopy) -> list[UnknownCopy]:
    return [each for each in cluster.unknown_copies if each.cta is first.cta and each.barrier == first.barrier]


def _record(cluster: Cluster, first: UnknownCopy, phase: int, expected_bytes: int, members: list[UnknownCopy]) -> None:
    shares = tuple(member.share for member in members)
    cluster.unknown_phases.append(UnknownPhase(first.cta.linear, first.barrier, phase, expected_bytes, shares))
    cluster.unknown_copies = [each for each in cluster.unknown_copies if each not in members]
