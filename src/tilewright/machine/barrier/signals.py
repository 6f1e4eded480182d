"""What happens to an mbarrier object in a running cluster: arrivals, transactions, waits, and who wakes.

Binds the state machine of `mbarrier` to CTAs, events and blocked warps. Objects are kept beside shared memory, keyed by
offset: the bytes under a live object are not modelled. Checked by: tests/machine/barrier/test_barriers.py.
"""

from __future__ import annotations

from tilewright.base.plural import counted
from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.machine.barrier import mbarrier
from tilewright.machine.barrier.mbarrier import Mbarrier
from tilewright.machine.core.event import BarrierArrive, BarrierComplete, BarrierExpect, CopyActor, PhaseEnd
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.memory import OFFSET_MASK, RANK_SHIFT, out_of_bounds
from tilewright.machine.core.state import Cta, Warp


def owner(cta: Cta, address: int, span: Span, *, cluster: bool) -> tuple[Cta, int]:
    """The CTA and offset that a 32-bit shared address of an mbarrier names. Raises MachineFault."""
    address &= 0xFFFF_FFFF  # a shared address has 32 bits; a generic one has it in its low half
    rank, offset = address >> RANK_SHIFT, address & OFFSET_MASK
    if cluster:
        if rank >= len(cta.cluster.ctas):
            raise MachineFault("MF001", "foreign-shared-memory", f"address {address:#x} is outside the cluster", span)
        found = cta.cluster.ctas[rank]
    else:
        if rank not in (0, cta.rank):
            raise MachineFault(
                "MB211", "remote-barrier", f"mbarrier at {address:#x} belongs to CTA rank {rank} of the cluster", span,
                "PTX ISA, mbarrier: remote objects take arrive, expect_tx and complete_tx only",
            )  # fmt: skip
        found = cta
    if offset % 8:
        raise MachineFault("MF002", "misaligned-address", f"mbarrier at {offset:#x} is not 8-byte aligned", span)
    if offset < found.shared.reserved_bytes:
        raise out_of_bounds(found.shared, address, offset, 8, span)
    if offset + 8 > found.shared.size_bytes:
        raise MachineFault(
            "MF001", "out-of-bounds", f"mbarrier at {offset:#x} is past the CTA's {found.shared.size_bytes} bytes",
            span,
        )  # fmt: skip
    return found, offset


@dataclass(frozen=True, slots=True)
class Arrival:
    """What kind of arrival an instruction makes: mbarrier.arrive or arrive_drop, its semantics and scope."""

    drop: bool
    no_complete: bool
    relaxed: bool
    scope: str
    span: Span


def store_barrier(cta: Cta, offset: int, before: Mbarrier, after: Mbarrier) -> None:
    """Put the new state in place; at a phase's end, say so and wake who waits."""
    cta.barriers[offset] = after
    if after.phase == before.phase:
        return
    cluster = cta.cluster
    cluster.counts.phases += 1
    cluster.failed_polls = 0
    if cluster.observe is not None:
        cluster.observe(PhaseEnd(cta.linear, offset, before.phase))
    waiters = cta.barrier_waiters.pop(offset, None)
    if waiters:
        cluster.wake(waiters)


def arrive(
    warp: Warp, cta: Cta, offset: int, times: int, each: int, expect_bytes: int, form: Arrival, lanes: int
) -> None:
    """`times` lanes (bit i of `lanes` = lane i) arrive, each with `each` arrivals and `expect_bytes` more expected
    bytes."""
    observe = cta.cluster.observe
    function = mbarrier.arrive_drop if form.drop else mbarrier.arrive
    total = times * each
    while times:
        before = cta.barriers.get(offset)
        here = 1
        if times > 1 and before is not None and each > 0:
            # As many lanes as the current phase still takes, so that one event names one phase.
            here = min(times, max(1, before.pending // each))
        arrivals, byte_count = here * each, here * expect_bytes
        after = function(before, arrivals, byte_count, form.no_complete)
        assert before is not None, "mbarrier.arrive refuses a missing object"
        if observe is not None:
            observe(
                BarrierArrive(
                    warp.actor, cta.linear, offset, before.phase, arrivals, byte_count, form.span, form.drop,
                    form.relaxed, lanes, form.scope, total - arrivals,
                )
            )  # fmt: skip
        store_barrier(cta, offset, before, after)
        times -= here


def expect(warp: Warp, cta: Cta, offset: int, byte_count: int, span: Span) -> None:
    """`mbarrier.expect_tx` by one lane."""
    before = cta.barriers.get(offset)
    after = mbarrier.expect(before, byte_count)
    assert before is not None, "mbarrier.expect refuses a missing object"
    if cta.cluster.observe is not None:
        cta.cluster.observe(BarrierExpect(warp.actor, cta.linear, offset, before.phase, byte_count, span))
    store_barrier(cta, offset, before, after)


def complete(copy: CopyActor, cta: Cta, offset: int, byte_count: int, span: Span) -> None:
    """A copy's bytes have arrived."""
    before = cta.barriers.get(offset)
    after = mbarrier.complete(before, byte_count)
    assert before is not None, "mbarrier.complete refuses a missing object"
    if cta.cluster.observe is not None:
        cta.cluster.observe(BarrierComplete(copy, cta.linear, offset, before.phase, byte_count, span))
    store_barrier(cta, offset, before, after)


def describe(cta: Cta, offset: int, parity: int | None) -> str:
    """What a wait on a barrier still lacks, as one line."""
    state = cta.barriers.get(offset)
    if state is None:
        return f"waits on mbarrier CTA {cta.linear} +{offset:#x}, which holds no valid object"
    lacks: list[str] = []
    if state.pending:
        lacks.append(f"{state.pending} of {counted(state.expected, 'arrival')}")
    if state.transaction_bytes > 0:
        lacks.append(f"{state.transaction_bytes} bytes")
    if state.transaction_bytes < 0:
        lacks.append(f"an expect_tx of {-state.transaction_bytes} bytes that have already arrived")
    wanted = "" if parity is None else f", parity {parity}"
    return f"waits on mbarrier CTA {cta.linear} +{offset:#x}{wanted}: phase {state.phase} lacks {' and '.join(lacks)}"
