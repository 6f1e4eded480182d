"""Classes of real bugs as pairs of event streams: the broken one is refuted by the family that fits, the fixed is not.

Named by the class of the public bug it stands for (T transactions, A arrivals, P phases, X proxies, W overwrites, D
tensor maps, C cluster entry and exit, M tensor memory, R registers, G dependent grids). Classes that only a hang shows
are in test_deadlock.py and test_replay.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from tests.contract.event_stream import Simulator, at
from tests.contract.judge import test_async_copies, test_strong_accesses, test_tensor_maps
from tests.contract.judge import test_tensor_memory as tensor
from tests.contract.judged_stream import (
    BAR,
    INIT_FENCE,
    ONE,
    PAIR,
    PEER,
    TILE,
    W,
    access,
    arrive,
    cluster_sync,
    done,
    end,
    ends,
    hand_over,
    init,
    load,
    sync,
    wait,
)
from tests.contract.ring_stream import Faults, programs

from tilewright.base.diagnostic import Level
from tilewright.base.plan import Launch
from tilewright.contract.judge.happens_before import HappensBefore
from tilewright.contract.rules.interpretations import tolerant
from tilewright.machine.core import event as ev

RING = Launch("ring", (1, 1, 1), (288, 1, 1), ())
Stream = Callable[[bool], list[ev.Event]]
"""Events of the broken (True) or the fixed kernel."""


@dataclass(frozen=True)
class BugClass:
    """A class of bugs: its stream, the codes of which one must be found in the broken one, and the launch."""

    name: str
    stream: Stream
    codes: tuple[str, ...]
    launch: Launch = ONE


def ring(fault: str, value: object = True) -> Stream:
    """A warp-specialised pipeline with one thing spoiled."""

    def stream(broken: bool) -> list[ev.Event]:
        faults = Faults(**({fault: value} if broken else {}))  # type: ignore[arg-type]
        sim = Simulator(1)
        made = programs(sim, 5, 2, faults)
        try:
            return sim.run(made)
        except AssertionError:
            return sim.events  # it hangs; what was found until then counts

    return stream


def either(broken: list[ev.Event], mended: list[ev.Event]) -> Stream:
    return lambda spoiled: broken if spoiled else mended


def staged(w: ev.WarpActor, line: int = 30) -> list[ev.Event]:
    """A bulk store of the tile, committed and waited for."""
    copy = ev.CopyActor(7)
    return [
        ev.CopyIssue(w, 0, copy, "store", (0,), TILE, 512, None, at(line)),
        ev.BulkCommit(w, 0, 0, (copy,), at(line + 1)),
        ev.BulkWait(w, 0, 0, True, at(line + 2)),
    ]


def fill(*, expected: int = 512, brought: int = 512) -> list[ev.Event]:
    return [
        init(), INIT_FENCE, *sync(W[:2]), arrive(W[0], 0, 10, bytes_=expected), load(W[0], 0, 11),
        *done(0, 0, 11, bytes_=brought), end(0), wait(W[1], 0, 12), *ends(*W[:2]),
    ]  # fmt: skip


WRITE, FENCE = access(W[0], True, 10), ev.ProxyFence(W[0], "shared", at(11))
LATE_FENCE = ev.ProxyFence(W[0], "shared", at(40))
BOTH = (W[0], PEER[0])
SPLIT = [*cluster_sync(BOTH)]
REMOTE = access(W[0], False, 20, TILE, cta=1)
# What warp 1 does after its wait makes it more than a follower.
WINDOW = [
    init(), *sync(W[:3]), arrive(W[0], 0, 10), end(0), wait(W[1], 0, 11), wait(W[2], 0, 12),
    ev.Access(W[1], "shared", 0, ((0x3000, 0x3004),), False, "generic", at(15)),
]  # fmt: skip
LAP = [wait(W[0], 0, 13), arrive(W[0], 1, 14), end(1), *ends(*W[:3])]
WEAK_ALLOC = [*tensor.alloc(), *sync(W[:2]), ev.Access(W[1], "shared", 0, ((0x3000, 0x3004),), False, "generic", at(9))]
USES = [
    *tensor.stored(W[1]),
    tensor.issue(W[1], 0, "ld", 20, reads=(tensor.WHOLE,)),
    ev.TensorMemoryWait(W[1], "ld", at(21)),
    *ends(*W[:2]),
]

CLASSES = (
    BugClass("T1 expects other bytes than the box brings", either(fill(expected=1024), fill()), ("TX101",)),
    BugClass("T6 both CTAs' bytes on one barrier", either(fill(brought=1024), fill()), ("TX101",)),
    BugClass("A2 more arrive than the count says", either(
        [init(1), *sync(W[:2]), arrive(W[0], 0, 10, count=2), end(0), *ends(*W[:2])],
        [init(2), *sync(W[:2]), arrive(W[0], 0, 10, count=2), end(0), *ends(*W[:2])]), ("MB106",)),
    BugClass("A4 a leader arrives before its siblings have left the wait", either(
        [*WINDOW, *LAP], [*WINDOW, *sync(W[:3], 1), *LAP]), ("MB108",)),
    BugClass("A8 bar.arrive runs ahead into the use before", either(
        [ev.NamedBarrierArrive(W[0], 0, 1, False, at(10)), ev.NamedBarrierArrive(W[1], 0, 1, True, at(11)),
         ev.NamedBarrier(0, 1, (W[1],), (W[0],), at(11)), ev.NamedBarrierArrive(W[0], 0, 1, False, at(12)),
         *ends(*W[:2])],
        [ev.NamedBarrierArrive(W[0], 0, 1, False, at(10)), ev.NamedBarrierArrive(W[1], 0, 1, True, at(11)),
         ev.NamedBarrier(0, 1, (W[1],), (W[0],), at(11)), ev.NamedBarrierArrive(W[0], 0, 5, False, at(12)),
         *ends(*W[:2])]), ("NB102",)),
    BugClass("P1 a wait by the ring's parity instead of the barrier's", ring("wrong_full_parity"), ("MB111", "MB108")),
    BugClass("P2 released twice, a phase ahead", ring("double_release"), ("MB107", "MB109", "TM101", "TX102")),
    BugClass("X1 st.shared, barrier, bulk store without a proxy fence", either(
        [WRITE, *sync(W[:2]), *staged(W[1]), *ends(*W[:2])],
        [WRITE, FENCE, *sync(W[:2]), *staged(W[1]), *ends(*W[:2])]), ("PX101",)),
    BugClass("X5 ordinary writes, then a refill without a proxy fence", either(
        [WRITE, *fill()], [WRITE, FENCE, *fill()]), ("PX102",)),
    BugClass("X8 the fence stands behind the store", either(
        [WRITE, *sync(W[:2]), *staged(W[1]), LATE_FENCE, *ends(*W[:2])],
        [WRITE, FENCE, *sync(W[:2]), *staged(W[1]), *ends(*W[:2])]), ("PX101",)),
    BugClass("X10 cp.async feeds an engine without a proxy fence", either(
        [test_async_copies.issue(), test_async_copies.commit(), test_async_copies.landed(),
         test_async_copies.waited(0), *sync(W[:2]), *staged(W[1]), *ends(*W[:2])],
        [test_async_copies.issue(), test_async_copies.commit(), test_async_copies.landed(),
         test_async_copies.waited(0), FENCE, *sync(W[:2]), *staged(W[1]), *ends(*W[:2])]), ("PX103",)),
    BugClass("W1 the staging buffer is rewritten too early", ring("no_stage_wait"), ("BG103",), RING),
    BugClass("W2 no commit before the rewrite", ring("no_store_commit"), ("BG101", "BG103"), RING),
    BugClass("W3 released before the wgmma is waited for", ring("early_release"), ("WG105",), RING),
    BugClass("W4 no wait before the accumulators are read", ring("no_last_wgmma_wait"), ("WG103",), RING),
    BugClass("W5 one consumer releases for both", ring("release_by_one_group"), ("WG105",), RING),
    BugClass("W10 the producer skips the empty barrier", ring("no_empty_wait"), ("MB107", "TX102", "WG105"), RING),
    BugClass("W11 no barrier between the writes and the store", ring("no_store_sync"), ("TM101",), RING),
    BugClass("W13 two copies of one fill share a slot", ring("overlapping"), ("TM102",), RING),
    BugClass("D1 a tensor map changes while a copy reads it", either(
        [test_tensor_maps.write(), test_tensor_maps.release(), *sync(W[:2]), test_tensor_maps.acquire(),
         *test_tensor_maps.store(False), *sync(W[:2], 1), test_tensor_maps.write(30),
         ev.BulkWait(W[1], 0, 0, True, at(40)), *ends(*W[:2])],
        [test_tensor_maps.write(), test_tensor_maps.release(), *sync(W[:2]), test_tensor_maps.acquire(),
         *test_tensor_maps.store(), *sync(W[:2], 1), test_tensor_maps.write(30), *ends(*W[:2])]), ("TM105",)),
    BugClass("D4 no fence after a tensor map is changed", either(
        [test_tensor_maps.write(), *sync(W[:2]), *test_tensor_maps.store(), *ends(*W[:2])],
        [test_tensor_maps.write(), test_tensor_maps.release(), *sync(W[:2]), test_tensor_maps.acquire(),
         *test_tensor_maps.store(), *ends(*W[:2])]), ("TM104",)),
    BugClass("C1 no barrier after mbarrier.init", ring("no_init_sync"), ("MB104",), RING),
    BugClass("C2 no fence.mbarrier_init before a peer uses the barrier", either(
        [init(), *cluster_sync(BOTH, True), arrive(PEER[0], 0, 20), end(0), wait(W[0], 0, 21), *cluster_sync(BOTH),
         *ends(*BOTH)],
        [init(), INIT_FENCE, *cluster_sync(BOTH, True), arrive(PEER[0], 0, 20), end(0), wait(W[0], 0, 21),
         *cluster_sync(BOTH), *ends(*BOTH)]), ("MB104", "MB105"), PAIR),
    BugClass("C3 a peer's shared memory after its exit", either(
        [*SPLIT, REMOTE, *ends(*BOTH)], [*SPLIT, REMOTE, *cluster_sync(BOTH), *ends(*BOTH)]), ("CL103",), PAIR),
    BugClass("C7 a peer's shared memory before its start", either(
        [REMOTE, *cluster_sync(BOTH), *ends(*BOTH)],
        [*SPLIT, REMOTE, *cluster_sync(BOTH), *ends(*BOTH)]), ("CL102",), PAIR),
    BugClass("C8 exit with a copy into the CTA in flight", ring("one_fill_more"), ("TM103",), RING),
    BugClass("B1 data over a live mbarrier", ring("touch_barrier"), ("MB102",), RING),
    BugClass("B2 an mbarrier is invalidated in use", either(
        [*hand_over(), ev.BarrierInvalidate(W[0], 0, BAR, at(30)), *ends(*W[:2])],
        [*hand_over(), *sync(W[:2], 2), ev.BarrierInvalidate(W[0], 0, BAR, at(30)), *ends(*W[:2])]), ("MB103",)),
    BugClass("M1 columns are freed while a load is in flight", either(
        tensor.mma_then_load(awaited=False), tensor.mma_then_load()), ("TC103",)),
    BugClass("M2 no wait::st before the signal", either(
        [*tensor.start(), tensor.issue(W[1], 0, "st", 20, writes=(tensor.WHOLE,)), *sync(W[:2], 1),
         tensor.issue(W[0], 1, "ld", 30, reads=(tensor.WHOLE,)), ev.TensorMemoryWait(W[0], "ld", at(31)),
         ev.TensorMemoryWait(W[1], "st", at(40)), *ends(*W[:2])],
        [*tensor.start(), tensor.issue(W[1], 0, "st", 20, writes=(tensor.WHOLE,)),
         ev.TensorMemoryWait(W[1], "st", at(21)), *sync(W[:2], 1),
         tensor.issue(W[0], 1, "ld", 30, reads=(tensor.WHOLE,)), ev.TensorMemoryWait(W[0], "ld", at(31)),
         *ends(*W[:2])]), ("TC108",)),
    BugClass("M7 the address is read before it is published", either(
        [*tensor.alloc(), WEAK_ALLOC[-1], *sync(W[:2]), *USES], [*WEAK_ALLOC, *USES]), ("TC104",)),
    BugClass("M12 the accumulator is read before the commit is observed", either(
        tensor.mma_then_load(waits=False), tensor.mma_then_load()), ("TC107",)),
    BugClass("R7 warps of one warpgroup take different budgets", either(
        [*(ev.RegisterBudget(w, 40 + 8 * (w.warp == 3), False, at(5), 168) for w in W), *ends(*W)],
        [*(ev.RegisterBudget(w, 40, False, at(5), 168) for w in W), *ends(*W)]), ("SR101",)),
    BugClass("S1 an atomic counter of too narrow a scope", either(
        [test_strong_accesses.strong(w, True, "relaxed", 10, scope="cta", space="global", modifies=True) for w in BOTH],
        [test_strong_accesses.strong(w, True, "relaxed", 10, space="global", modifies=True) for w in BOTH]),
        ("CL101", "CL104"), Launch("k", (2, 1, 1), (64, 1, 1), ())),
)  # fmt: skip


@pytest.mark.parametrize("bug", CLASSES, ids=lambda bug: bug.name)
def test_a_class_of_bugs_is_refuted_and_its_mend_is_not(bug: BugClass) -> None:
    launch = RING if bug.stream.__qualname__.startswith("ring") else bug.launch
    assert set(bug.codes) & errors(bug.stream(True), launch), errors(bug.stream(True), launch)
    assert errors(bug.stream(False), launch) == set()


def errors(events: list[ev.Event], launch: Launch) -> set[str]:
    """Codes of level error under the tolerant reading, which shipped kernels are judged by."""
    judge = HappensBefore(launch, tolerant(), follows_values=True)
    for event in events:
        judge.feed(event)
    return {finding.code for finding in judge.finish() if finding.level is Level.ERROR}
