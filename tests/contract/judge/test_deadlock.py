"""Hangs: what is said to be the cause, where, and who waits for whom."""

from __future__ import annotations

from tests.contract.event_stream import at
from tests.contract.judged_stream import BAR, ONE, PEER, W, init, sync

from tilewright.base.diagnostic import Diagnostic
from tilewright.base.plan import Launch
from tilewright.contract.judge.happens_before import HappensBefore
from tilewright.machine.core import event as ev
from tilewright.machine.core.fault import Awaited, MachineHang, Waiter

BARRIER = Awaited("mbarrier", 0, BAR, 0)


def waiter(w: ev.WarpActor, awaited: Awaited, line: int) -> Waiter:
    return Waiter(w.cta, w.warp, 32, f"waits at {line}", at(line), awaited)


def cause(events: list[ev.Event], *waiters: Waiter, launch: Launch = ONE) -> Diagnostic:
    judge = HappensBefore(launch)
    for event in events:
        judge.feed(event)
    return judge.hang(MachineHang("LV201", "the kernel hangs", waiters))[0]


def arrive(w: ev.WarpActor, phase: int, line: int, bytes_: int = 0, address: int = BAR) -> ev.BarrierArrive:
    return ev.BarrierArrive(w, 0, address, phase, 1, bytes_, at(line))


def load(w: ev.WarpActor, number: int, bytes_: int, line: int, phase: int = 0) -> list[ev.Event]:
    copy, ranges = ev.CopyActor(number), ((0, bytes_),)
    return [
        ev.CopyIssue(w, 0, copy, "load", (0,), ranges, bytes_, BAR, at(line)),
        ev.Access(copy, "shared", 0, ranges, True, "async", at(line)),
        ev.BarrierComplete(copy, 0, BAR, phase, bytes_, at(line)),
    ]


def test_bytes_that_do_not_add_up() -> None:
    start = [init(), *sync(W[:2])]
    found = cause([*start, arrive(W[0], 0, 10, 1024), *load(W[0], 0, 512, 11)], waiter(W[1], BARRIER, 20))
    assert found.code == "TX104" and found.primary == at(10) and found.conflicts_with == at(11)
    assert "512 of 1024 bytes" in found.message
    unexpected = cause([*start, *load(W[0], 0, 512, 11), arrive(W[0], 0, 10)], waiter(W[1], BARRIER, 20))
    assert unexpected.code == "TX104" and unexpected.primary == at(11)


def test_arrivals_that_never_come() -> None:
    start = [init(2), *sync(W[:2]), arrive(W[0], 0, 10)]
    found = cause([*start, ev.Exit(W[0], at(99))], waiter(W[1], BARRIER, 20))
    assert found.code == "MB113" and found.primary == at(1) and found.conflicts_with == at(20)
    assert "1 of 2 arrivals" in found.message
    nobody = cause([init(), *sync(W)], *(waiter(w, BARRIER, 20) for w in W[:2]))
    assert nobody.code == "MB113" and "nobody ever arrives" in nobody.message


def test_a_first_wait_for_a_phase_of_a_fresh_barrier() -> None:
    full = Awaited("mbarrier", 0, BAR + 8, 0)
    second = ev.BarrierInit(W[0], 0, BAR + 8, 1, at(1))
    found = cause([init(), second, *sync(W)], waiter(W[0], BARRIER, 20), *(waiter(w, full, 30) for w in W[1:]))
    assert found.code == "MB114" and found.primary == at(20)
    assert any("CTA 0 warp 1, CTA 0 warp 2 and CTA 0 warp 3" in step for step in found.interleaving)


def test_a_release_that_comes_no_more() -> None:
    first = [init(), *sync(W[:2]), arrive(W[1], 0, 10), ev.PhaseEnd(0, BAR, 0)]
    seen = [ev.BarrierWait(W[0], 0, BAR, 0, 0, at(11)), ev.Exit(W[1], at(99))]
    found = cause([*first, *seen], waiter(W[0], Awaited("mbarrier", 0, BAR, 1), 20))
    assert found.code == "MB113" and found.primary == at(20)


def test_a_circle_of_waits() -> None:
    other = ev.BarrierInit(W[0], 0, BAR + 8, 1, at(1))
    rounds = [
        init(), other, *sync(W[:2]), arrive(W[0], 0, 10), ev.PhaseEnd(0, BAR, 0),
        ev.BarrierWait(W[1], 0, BAR, 0, 0, at(11)),
        arrive(W[1], 0, 12, address=BAR + 8), ev.PhaseEnd(0, BAR + 8, 0),
        ev.BarrierWait(W[0], 0, BAR + 8, 0, 0, at(13)),
    ]  # fmt: skip
    found = cause(
        rounds, waiter(W[1], Awaited("mbarrier", 0, BAR, 1), 20), waiter(W[0], Awaited("mbarrier", 0, BAR + 8, 1), 30)
    )
    assert found.code == "LV102"
    assert sum("who arrived before, waits as well" in step for step in found.interleaving) == 2


def test_a_named_barrier_that_lacks_warps() -> None:
    came = [ev.NamedBarrierArrive(W[0], 0, 3, True, at(10)), ev.Exit(W[1], at(99))]
    found = cause(came, waiter(W[0], Awaited("named barrier", 0, 3), 10))
    assert found.code == "NB103" and "named barrier 3" in found.message
    # Where the missing warp waits for bytes that never come, these are the cause.
    start = [init(), *sync(W[:2]), arrive(W[0], 0, 12, 1024), *load(W[0], 0, 512, 13)]
    both = cause([*start, *came[:1]], waiter(W[0], Awaited("named barrier", 0, 3), 10), waiter(W[1], BARRIER, 20))
    assert both.code == "TX104"


def test_other_things_that_are_waited_for() -> None:
    pair = Launch("k", (2, 1, 1), (64, 1, 1), (), (2, 1, 1))
    arrived = [ev.ClusterArrive(W[0], 0, False, at(5))]
    assert cause(arrived, waiter(W[0], Awaited("cluster barrier"), 6), launch=pair).code == "CL105"
    assert cause([], waiter(W[0], Awaited("registers", 0), 6)).code == "SR102"
    assert cause([], waiter(W[0], Awaited("tensor memory", 0), 6)).code == "TC121"
    assert cause([], waiter(W[0], Awaited("lanes"), 6)).code == "LV102"
    assert cause([], waiter(PEER[0], Awaited(), 6), launch=pair).code == "LV102"


def test_an_mma_that_is_not_committed() -> None:
    operation = ev.TensorMemoryIssue(
        W[0], 0, ev.TensorMemoryActor(0), "mma", (), (ev.TensorBlock(0, 0, 128, 0, 32),), (), 1, (), at(15)
    )
    found = cause([init(), *sync(W[:2]), operation], waiter(W[1], BARRIER, 20))
    assert found.code == "TC114" and found.primary == at(15)


def test_an_arrival_suspected_before_explains_a_circle() -> None:
    twice = [
        init(), *sync(W[:2]), arrive(W[0], 0, 10), ev.PhaseEnd(0, BAR, 0), arrive(W[0], 1, 11), ev.PhaseEnd(0, BAR, 1),
    ]  # fmt: skip
    found = cause(twice, waiter(W[1], Awaited("mbarrier", 0, BAR, 0), 20), waiter(W[0], Awaited("lanes"), 21))
    assert found.code == "MB109" and found.primary == at(11)
