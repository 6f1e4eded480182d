"""Each rule of the judge by a short stream of events that breaks it, beside the stream that does not."""

from __future__ import annotations

from dataclasses import replace

from tests.contract.event_stream import Program, Simulator, at
from tests.contract.judged_stream import (
    APART,
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
    codes,
    done,
    doubts,
    end,
    ends,
    hand_over,
    init,
    levels,
    load,
    sync,
    wait,
)

from tilewright.base.diagnostic import Level
from tilewright.contract.judge.happens_before import HappensBefore, Interpretations
from tilewright.contract.rules.interpretations import tolerant
from tilewright.contract.rules.replay_codes import REPLAY_RULES, RunFindings
from tilewright.machine.core import event as ev

# ---------------------------------------------------------------- ordinary accesses


def test_a_barrier_orders_and_its_absence_races() -> None:
    assert codes([access(W[0], True, 10), *sync(W[:2]), access(W[1], False, 11), *ends(*W[:2])]) == set()
    assert codes([access(W[0], True, 10), access(W[1], False, 11), *ends(*W[:2])]) == {"NB101"}
    assert codes([access(W[0], False, 10), access(W[1], True, 11), *ends(*W[:2])]) == {"NB101"}
    assert codes([access(W[0], False, 10), access(W[1], False, 11), *ends(*W[:2])]) == set()
    other = ((512, 513),)
    assert codes([access(W[0], True, 10), access(W[1], True, 11, other), *ends(*W[:2])]) == set()
    assert codes([access(W[0], True, 10), access(W[1], True, 11, ((511, 513),)), *ends(*W[:2])]) == {"NB101"}


def test_an_arrive_only_barrier_publishes_one_way() -> None:
    one_way = [
        access(W[0], True, 10),
        ev.NamedBarrierArrive(W[0], 0, 1, False, at(11)),
        ev.NamedBarrierArrive(W[1], 0, 1, True, at(12)),
        ev.NamedBarrier(0, 1, (W[1],), (W[0],), at(12)),
    ]
    assert codes([*one_way, access(W[1], False, 13), *ends(*W[:2])]) == set()
    back = [access(W[1], True, 13, ((600, 700),)), access(W[0], False, 14, ((600, 700),))]
    assert codes([*one_way, *back, *ends(*W[:2])]) == {"NB101"}


def test_an_mbarrier_hands_over_what_came_before_the_arrival_only() -> None:
    start = [init(), *sync(W[:2])]
    handed = [arrive(W[0], 0, 20), end(0), wait(W[1], 0, 21)]
    exits = ends(*W[:2])
    assert codes([*start, access(W[0], True, 10), *handed, access(W[1], False, 22), *exits]) == set()
    late = [*start, *handed[:1], access(W[0], True, 10), *handed[1:], access(W[1], False, 22), *exits]
    assert codes(late) == {"NB101"}
    relaxed = [arrive(W[0], 0, 20, relaxed=True), end(0), wait(W[1], 0, 21)]
    assert codes([*start, access(W[0], True, 10), *relaxed, access(W[1], False, 22), *exits]) == {"NB101"}
    unseen = [arrive(W[0], 0, 20), end(0), wait(W[1], 0, 21, relaxed=True)]
    assert codes([*start, access(W[0], True, 10), *unseen, access(W[1], False, 22), *exits]) == {"NB101"}


def test_global_memory_between_ctas() -> None:
    def store(w: ev.WarpActor, line: int, write: bool = True, atomic: bool = False) -> ev.Access:
        return ev.Access(w, "global", -1, ((1 << 40, (1 << 40) + 64),), write, "generic", at(line), atomic)

    exits = ends(W[0], PEER[0])
    assert codes([store(W[0], 10), store(PEER[0], 11), *exits], APART) == {"CL101"}
    assert codes([store(W[0], 10, False), store(PEER[0], 11), *exits], APART) == {"CL101"}
    assert codes([store(W[0], 10, False), store(PEER[0], 11, False), *exits], APART) == set()
    # CTAs of a cluster can order each other.
    ordered = [store(W[0], 10), *cluster_sync((W[0], PEER[0])), store(PEER[0], 11)]
    assert codes([*ordered, *exits], PAIR) == set()
    assert codes([store(W[0], 10), store(PEER[0], 11), *exits], PAIR) == {"CL101"}
    adds = [store(W[0], 10, True, True), store(PEER[0], 11, True, True), *exits]
    assert codes(adds, APART) == set()


# ---------------------------------------------------------------- life of an mbarrier


def test_use_before_init() -> None:
    assert codes([arrive(W[0], 0, 10), *ends(W[0])]) == {"MB101"}
    assert codes([init(), arrive(W[1], 0, 10), end(0), *ends(*W[:2])]) == {"MB104"}
    assert codes(hand_over() + ends(*W[:2])) == set()


def test_init_over_a_live_object_and_invalidation_in_use() -> None:
    assert codes([init(), init(), *ends(W[0])]) == {"MB115"}
    assert "MB103" in codes([init(), arrive(W[0], 0, 5), end(0), init(), *ends(W[0])])
    over = [*hand_over(), ev.BarrierInvalidate(W[0], 0, BAR, at(30)), *ends(*W[:2])]
    assert codes(over) == {"MB103", "NB106"}  # the other warp's use, and that of other lanes
    fine = [*hand_over(), *sync(W[:2], 2), ev.BarrierInvalidate(W[0], 0, BAR, at(30))]
    assert codes([*fine, *ends(*W[:2])]) == set()
    again = [*fine, init(), *sync(W[:2]), arrive(W[1], 0, 40), end(0), wait(W[0], 0, 41)]
    assert codes([*again, *ends(*W[:2])]) == set()
    assert codes([*fine, arrive(W[0], 0, 40), *ends(*W[:2])]) == {"MB101"}


def test_data_where_a_barrier_is() -> None:
    touched = ((BAR + 7, BAR + 9),)
    assert codes([*hand_over(), access(W[0], False, 30, touched), *ends(*W[:2])]) == {"MB102"}
    beside = ((BAR + 8, BAR + 9),)
    assert codes([*hand_over(), access(W[0], False, 30, beside), *ends(*W[:2])]) == set()
    before = [access(W[1], True, 0, touched), init(), *ends(*W[:2])]
    assert codes(before) == {"NB101"}


def test_init_across_the_cluster() -> None:
    warps = (W[0], PEER[0])
    fence = ev.MemoryFence(W[0], "mbarrier_init", "cluster", at(2))
    use = [arrive(PEER[0], 0, 20), end(0), wait(W[0], 0, 21), *cluster_sync(warps), *ends(*warps)]
    assert codes([init(), fence, *cluster_sync(warps, True), *use], PAIR) == set()
    assert codes([init(), fence, *cluster_sync(warps), *use], PAIR) == set()
    assert codes([init(), *cluster_sync(warps), *use], PAIR) == {"MB105"}
    # By nothing that is released, not even the other lanes of the warp know of it.
    assert codes([init(), *cluster_sync(warps, True), *use], PAIR) == {"MB104", "NB106"}
    # A fence before the init publishes nothing of it, nor one by a warp that has initialised another.
    assert codes([fence, init(), *cluster_sync(warps), *use], PAIR) == {"MB105"}
    assert codes([fence, init(), *cluster_sync(warps, True), *use], PAIR) == {"MB104", "NB106"}
    others = [init(address=BAR + 8), ev.MemoryFence(W[0], "mbarrier_init", "cluster", at(2)), init()]
    assert codes([*others, *cluster_sync(warps), *use], PAIR) == {"MB105"}
    unwaited = [event for event in cluster_sync(warps) if not isinstance(event, ev.ClusterWait)]
    assert codes([init(), fence, *unwaited, *use[:3], *ends(*warps)], PAIR) >= {"MB104", "CL102"}


def test_init_before_the_copy_engine() -> None:
    """A contested reading: for review by default, and never instead of an error."""
    rest = [*sync(W[:2]), arrive(W[0], 0, 10, bytes_=512), load(W[0], 0, 11), *done(0, 0, 11), end(0)]
    rest += [wait(W[1], 0, 12), *ends(*W[:2])]
    assert codes([init(), *rest]) == {"MB105"}
    assert levels([init(), *rest]) == {Level.REVIEW}
    assert levels([init(), *rest], Interpretations(fenced_init="always")) == {Level.ERROR}
    by_one_lane = ev.ProxyFence(W[0], "shared", at(2), lanes=1)
    for fence in (INIT_FENCE, ev.ProxyFence(W[0], "shared", at(2)), by_one_lane):
        assert codes([init(), fence, *rest], interpretations=Interpretations(fenced_init="always")) == set()
    other = ev.ProxyFence(W[1], "shared", at(2))
    assert codes([init(), other, *rest], interpretations=Interpretations(fenced_init="always")) == {"MB105"}


def test_review_never_hides_an_error() -> None:
    found = RunFindings()
    for line in range(500):
        found.report("MB105", "for review", at(line), at(1), level=Level.REVIEW)
    for line in (7, 499):
        found.report("MB105", "wrong", at(line), at(1))
        found.report("MB105", "for review", at(line), at(1), level=Level.REVIEW)
    errors = [finding for finding in found.found.values() if finding.level is Level.ERROR]
    assert [finding.primary for finding in errors] == [at(7), at(499)]


# ---------------------------------------------------------------- phases


def test_arrivals_must_match_the_count() -> None:
    start = [init(2), *sync(W[:2])]
    assert codes([*start, arrive(W[0], 0, 10), end(0), *ends(*W[:2])]) == {"MB106"}
    assert codes([*start, arrive(W[0], 0, 10, count=2), end(0), *ends(*W[:2])]) == set()
    dropped = ev.BarrierArrive(W[0], 0, BAR, 0, 1, 0, at(10), drop=True)
    after = [*start, dropped, arrive(W[1], 0, 11), end(0), wait(W[1], 0, 12), arrive(W[1], 1, 13), end(1)]
    assert codes([*after, *ends(*W[:2])]) == set()


def test_an_arrival_must_know_that_the_phase_before_ended() -> None:
    start = [init(2), *sync(W[:3])]
    both = [arrive(W[0], 0, 10), arrive(W[1], 0, 11), end(0)]
    exits = ends(*W[:3])
    unaware = [arrive(W[0], 1, 12), arrive(W[1], 1, 13), end(1)]
    assert "MB107" in codes([*start, *both, *unaware, *exits])
    aware = [wait(W[0], 0, 14), wait(W[1], 0, 15), *unaware]
    assert codes([*start, *both, *aware, *exits]) == set()


def test_a_phase_that_nobody_waits_for_is_for_review() -> None:
    judge = HappensBefore(ONE)
    for event in [init(), *sync(W[:1]), arrive(W[0], 0, 10), end(0), arrive(W[0], 1, 11), end(1), *ends(W[0])]:
        judge.feed(event)
    (finding,) = judge.finish()
    assert (finding.code, finding.level) == ("MB109", Level.REVIEW)


def test_a_phase_left_open_is_for_review() -> None:
    judge = HappensBefore(ONE)
    for event in [init(2), *sync(W[:1]), arrive(W[0], 0, 10), *ends(W[0])]:
        judge.feed(event)
    (finding,) = judge.finish()
    assert (finding.code, finding.level) == ("MB110", Level.REVIEW)


def test_bytes_expected_that_no_copy_brings_are_for_review_if_nobody_waits() -> None:
    judge = HappensBefore(ONE)
    for event in [init(), INIT_FENCE, *sync(W[:1]), arrive(W[0], 0, 10, bytes_=512), *ends(W[0])]:
        judge.feed(event)
    (finding,) = judge.finish()
    assert (finding.code, finding.level) == ("MB110", Level.REVIEW)
    assert "512 bytes expected" in finding.message
    # A copy that brings others is an error whoever waits, and so is a wait.
    expects = [init(), INIT_FENCE, *sync(W[:2]), arrive(W[0], 0, 10, bytes_=512), load(W[0], 0, 11)]
    assert codes([*expects, *done(0, 0, 11, bytes_=256), *ends(*W[:2])]) >= {"TX101"}
    ended = [init(), INIT_FENCE, *sync(W[:2]), arrive(W[0], 0, 10, bytes_=512), end(0), wait(W[1], 0, 12)]
    assert codes([*ended, *ends(*W[:2])]) == {"TX101"}


def test_a_late_waiter_may_be_lapped() -> None:
    start = [init(), *sync(W[:3])]
    first = [arrive(W[0], 0, 10), end(0), wait(W[1], 0, 11), wait(W[2], 0, 12)]
    exits = ends(*W[:3])
    # Warp 0 waits as well, and goes on; nothing tells it that warps 1 and 2 have waited.
    lap = [wait(W[0], 0, 13), arrive(W[0], 1, 14), end(1)]
    assert codes([*start, *first, *lap, *exits]) == {"MB108"}
    told = [*sync(W[:3], 1), *lap]
    assert codes([*start, *first, *told, *exits]) == set()


def test_a_waiter_must_know_the_phases_before() -> None:
    start = [init(), *sync(W[:2])]
    rounds = [arrive(W[0], 0, 10), end(0), wait(W[0], 0, 11), arrive(W[0], 1, 12), end(1)]
    # Warp 1 waits for phase 1 without having heard of phase 0: parity 1 may be that of the phase before the first.
    assert codes([*start, *rounds, wait(W[1], 1, 13), *ends(*W[:2])]) == {"MB108"}
    both = [*rounds[:3], wait(W[1], 0, 9), *sync(W[:2], 1), *rounds[3:], wait(W[1], 1, 13)]
    assert codes([*start, *both, *ends(*W[:2])]) == set()


def test_who_knows_all_arrivals_of_a_phase_knows_that_it_ended() -> None:
    exits = ends(*W[:3])
    second = [wait(W[0], 0, 12), arrive(W[0], 1, 13), end(1), wait(W[2], 1, 14)]
    start, armed = [init(), *sync(W[:3])], [arrive(W[0], 0, 10), end(0)]
    # Armed by hand before a barrier of all: the barrier tells that the phase is over.
    assert codes([*start, *armed, *sync(W[:3], 1), *second, *exits]) == set()
    assert codes([*start, *armed, *sync(W[:2], 1), *second, *exits]) == {"MB108"}
    start, armed = [init(2), *sync(W[:3])], [arrive(W[0], 0, 10), arrive(W[1], 0, 11), end(0)]
    second[1:2] = [arrive(W[0], 1, 13, count=2)]
    assert codes([*start, *armed, *sync(W[:3], 1), *second, *exits]) == set()
    # It tells of one of the two.
    assert codes([*start, *armed, *sync((W[0], W[2]), 1), *second, *exits]) == {"MB108"}


def test_bytes_of_a_phase_come_later_than_its_arrivals() -> None:
    start = [init(), INIT_FENCE, *sync(W[:2])]
    filled = [arrive(W[0], 0, 10, bytes_=512), load(W[0], 0, 11), *done(0, 0, 11), end(0), *sync(W[:2], 1)]
    second = [wait(W[0], 0, 12), arrive(W[0], 1, 13), end(1), wait(W[1], 1, 14)]
    assert codes([*start, *filled, *second, *ends(*W[:2])]) == {"MB108"}
    assert codes([*start, *filled, wait(W[1], 0, 12), *sync(W[:2], 1), *second, *ends(*W[:2])]) == set()


def test_a_lane_that_arrives_tells_the_others_by_a_synchronization() -> None:
    one = replace(arrive(W[0], 0, 10), lanes=1)
    start, second = [init(), *sync(W[:2]), one, end(0)], [wait(W[1], 0, 11), arrive(W[1], 1, 12), end(1)]
    waits, exits = wait(W[0], 1, 13), ends(*W[:2])
    assert codes([*start, *second, waits, *exits]) == {"MB108"}
    assert codes([*start, *second, replace(waits, lanes=2), *exits]) == {"MB108"}
    assert codes([*start, *second, replace(waits, lanes=1), *exits]) == set()
    assert codes([*start, *sync(W[:2], 1), *second, waits, *exits]) == set()
    each = [init(32), *sync(W[:2]), arrive(W[0], 0, 10, count=32), end(0)]
    lap = [wait(W[1], 0, 11), arrive(W[1], 1, 12, count=32), end(1)]
    assert codes([*each, *lap, waits, *exits]) == {"MB108"}


# ---------------------------------------------------------------- copies and bytes


def test_bytes_expected_and_completed() -> None:
    start = [init(), INIT_FENCE, *sync(W[:2]), arrive(W[0], 0, 10, bytes_=512), load(W[0], 0, 11)]
    assert codes([*start, *done(0, 0, 11), end(0), wait(W[1], 0, 12), *ends(*W[:2])]) == set()
    short = [*start, *done(0, 0, 11, bytes_=256), *ends(*W[:2])]
    assert codes(short) >= {"TX101"}
    early = [*start, *done(0, 0, 11, bytes_=256), end(0), wait(W[1], 0, 12), *ends(*W[:2])]
    assert codes(early) == {"TX101"}


def test_a_copy_into_a_phase_that_has_not_begun() -> None:
    start = [
        init(),
        INIT_FENCE,
        *sync(W[:2]),
        arrive(W[0], 0, 10, bytes_=512),
        load(W[0], 0, 11),
        *done(0, 0, 11),
        end(0),
    ]
    second = [wait(W[1], 0, 12), load(W[0], 1, 13, ((512, 1024),)), arrive(W[1], 1, 14, bytes_=512)]
    finish = [*done(1, 1, 13), end(1), wait(W[1], 1, 15), *ends(*W[:2])]
    assert "TX102" in codes([*start, *second, *finish])
    waited = [second[0], wait(W[0], 0, 12), *sync(W[:2], 1), *second[1:]]
    assert codes([*start, *waited, *finish]) == set()


def test_a_bare_expect_must_be_held_open() -> None:
    start = [init(), INIT_FENCE, *sync(W[:2])]
    expect = ev.BarrierExpect(W[1], 0, BAR, 0, 512, at(9))
    rest = [load(W[0], 0, 11), *done(0, 0, 11), end(0), wait(W[1], 0, 12), *ends(*W[:2])]
    assert codes([*start, expect, arrive(W[0], 0, 10), *rest]) == {"TX103"}
    assert codes([*start, expect, *sync(W[:2], 1), arrive(W[0], 0, 10), *rest]) == set()


def test_a_copy_that_nobody_awaits() -> None:
    start = [
        init(),
        INIT_FENCE,
        *sync(W[:2]),
        arrive(W[0], 0, 10, bytes_=512),
        load(W[0], 0, 11),
        *done(0, 0, 11),
        end(0),
    ]
    assert codes([*start, *ends(*W[:2])]) == {"TM103"}
    assert codes([*start, access(W[1], False, 12), *ends(*W[:2])]) == {"MB111", "TM103"}


def test_a_copy_through_the_barriers_bytes() -> None:
    over = load(W[0], 0, 11, ((BAR - 512, BAR + 1),))
    start = [init(), INIT_FENCE, *sync(W[:2]), arrive(W[0], 0, 10, bytes_=512), over]
    assert codes([*start, *done(0, 0, 11), end(0), wait(W[1], 0, 12), *ends(*W[:2])]) == {"MB102"}


def test_lanes_fence_for_themselves() -> None:
    write = ev.Access(W[0], "shared", 0, TILE, True, "generic", at(10), lanes=0b11)
    store = ev.CopyIssue(W[0], 0, ev.CopyActor(0), "store", (0,), TILE, 512, None, at(12))
    finish = [
        ev.BulkCommit(W[0], 0, 0, (ev.CopyActor(0),), at(13)),
        ev.BulkWait(W[0], 0, 0, False, at(14)),
        *ends(W[0]),
    ]

    def fence(lanes: int) -> ev.ProxyFence:
        return ev.ProxyFence(W[0], "shared", at(11), lanes)

    assert codes([write, fence(0b01), store, *finish]) == {"PX101"}
    assert codes([write, fence(0b01), fence(0b10), store, *finish]) == set()
    assert codes([write, fence(0xFFFF_FFFF), store, *finish]) == set()
    assert codes([write, ev.ProxyFence(W[0], "global", at(11)), store, *finish]) == {"PX101"}
    assert codes([fence(0xFFFF_FFFF), write, store, *finish]) == {"PX101"}


def test_whose_fence_counts_is_a_reading() -> None:
    write = access(W[1], True, 10)
    fence = ev.ProxyFence(W[0], "shared", at(12))
    store = ev.CopyIssue(W[0], 0, ev.CopyActor(0), "store", (0,), TILE, 512, None, at(13))
    finish = [ev.BulkCommit(W[0], 0, 0, (ev.CopyActor(0),), at(14)), ev.BulkWait(W[0], 0, 0, False, at(15))]
    events = [write, *sync(W[:2]), fence, store, *finish, *ends(*W[:2])]
    assert codes(events) == {"PX101"}
    assert codes(events, interpretations=tolerant()) == set()
    assert codes([write, fence, *sync(W[:2]), store, *finish, *ends(*W[:2])], interpretations=tolerant()) == {"PX101"}


def test_the_destination_of_a_store_needs_the_full_wait() -> None:
    target = ((1 << 40, (1 << 40) + 512),)
    read = ev.Access(W[0], "global", -1, target, False, "generic", at(20))

    def stream(read_only: bool) -> list[ev.Event]:
        copy = ev.CopyActor(0)
        return [
            ev.CopyIssue(W[0], 0, copy, "store", (0,), TILE, 512, None, at(12)),
            ev.BulkCommit(W[0], 0, 0, (copy,), at(13)),
            ev.Access(copy, "shared", 0, TILE, False, "async", at(12)),
            ev.Access(copy, "global", -1, target, True, "async", at(12)),
            ev.BulkWait(W[0], 0, 0, read_only, at(14)),
            read,
            *ends(W[0]),
        ]

    assert codes(stream(False)) == set()
    assert codes(stream(True)) == {"BG103"}


# ---------------------------------------------------------------- wgmma, named barriers, registers, clusters


def test_a_register_of_a_wgmma_in_flight() -> None:
    operation = ev.TensorCoreActor(0)
    issue = [
        event
        for w in W
        for event in (ev.WgmmaFence(w, at(9)), ev.WgmmaIssue(w, operation, ("%f0",), (), TILE, at(10)))
    ]  # fmt: skip
    commit = [ev.WgmmaCommit(w, 0, (operation,), at(11)) for w in W]
    waits = [ev.WgmmaWait(w, 0, at(12)) for w in W]
    assert codes([*issue, *commit, *waits, *ends(*W)]) == set()
    hazard = ev.RegisterHazard(W[0], operation, "%f0", False, at(13))
    assert codes([*issue, *commit, hazard, *waits, *ends(*W)]) == {"WG104"}
    assert codes([*issue, *commit, *waits[:3], *ends(*W)]) == {"WG103"}


def test_a_wgmma_knows_what_all_four_warps_know() -> None:
    operation = ev.TensorCoreActor(0)

    def stream(synchronized: tuple[ev.WarpActor, ...]) -> list[ev.Event]:
        return [
            access(W[0], True, 5),
            ev.ProxyFence(W[0], "shared", at(6)),
            *sync(synchronized),
            *(ev.WgmmaFence(w, at(9)) for w in W),
            *(ev.WgmmaIssue(w, operation, ("%f0",), (), TILE, at(10)) for w in W),
            *(ev.WgmmaCommit(w, 0, (operation,), at(11)) for w in W),
            *(ev.WgmmaWait(w, 0, at(12)) for w in W),
            *ends(*W),
        ]

    assert codes(stream(W)) == set()
    assert codes(stream(W[:3])) == {"TM101"}


def test_a_wgmma_of_three_warps_is_doubted() -> None:
    operation = ev.TensorCoreActor(0)
    events: list[ev.Event] = [ev.WgmmaFence(w, at(9)) for w in W[:3]]
    events += [ev.WgmmaIssue(w, operation, ("%f0",), (), TILE, at(10)) for w in W[:3]]
    events += [ev.WgmmaCommit(w, 0, (operation,), at(11)) for w in W[:3]]
    events += [ev.WgmmaWait(w, 0, at(12)) for w in W[:3]]
    assert any("four warps" in reason for reason in doubts([*events, *ends(*W[:3])]))


def test_a_named_barrier_entered_twice() -> None:
    def use(arrives: ev.WarpActor, waits: ev.WarpActor) -> list[ev.Event]:
        return [
            ev.NamedBarrierArrive(arrives, 0, 1, False, at(10)),
            ev.NamedBarrierArrive(waits, 0, 1, True, at(11)),
            ev.NamedBarrier(0, 1, (waits,), (arrives,), at(11)),
        ]

    exits = ends(*W[:2])
    assert codes([*use(W[0], W[1]), *use(W[0], W[1]), *exits]) == {"NB102"}
    answer = [
        ev.NamedBarrierArrive(W[1], 0, 2, False, at(12)),
        ev.NamedBarrierArrive(W[0], 0, 2, True, at(13)),
        ev.NamedBarrier(0, 2, (W[0],), (W[1],), at(13)),
    ]
    assert codes([*use(W[0], W[1]), *answer, *use(W[0], W[1]), *exits]) == set()
    assert codes([*sync(W[:2], 1), *sync(W[2:], 1), *ends(*W)]) == {"NB102"}


def test_setmaxnreg_differs_within_a_warpgroup() -> None:
    def budget(w: ev.WarpActor, registers: int) -> ev.RegisterBudget:
        return ev.RegisterBudget(w, registers, False, at(10), 168)

    assert codes([*(budget(w, 40) for w in W), *ends(*W)]) == set()
    assert codes([*(budget(w, 40) for w in W[:3]), budget(W[3], 48), *ends(*W)]) == {"SR101"}


def test_reaching_into_a_peer() -> None:
    warps = (W[0], PEER[0])
    reach = access(W[0], False, 20, TILE, cta=1)
    exits = ends(*warps)
    assert codes([*cluster_sync(warps), reach, *cluster_sync(warps), *exits], PAIR) == set()
    assert codes([reach, *cluster_sync(warps), *exits], PAIR) == {"CL102"}
    assert codes([*cluster_sync(warps), reach, *exits], PAIR) == {"CL103"}


def multicast(final_sync: bool, both_release: bool = True, both_fill: bool = True) -> list[ev.Event]:
    """Each CTA's producer fills half of both CTAs' slots; consumers release to both CTAs."""
    full, empty = BAR, BAR + 8
    sim = Simulator(3)
    producers, consumers = (ev.WarpActor(0, 1), ev.WarpActor(1, 1)), (W[0], PEER[0])
    slot = ((1024, 1536),)
    halves = (((1024, 1280),), ((1280, 1536),))

    def setup(w: ev.WarpActor) -> Program:
        if w in producers:
            yield lambda: sim.init(w, full, 1)
            yield lambda: sim.init(w, empty, 2 if both_release else 1)
            yield lambda: sim.emit(ev.MemoryFence(w, "mbarrier_init", "cluster", at(2)))
        yield from sim.cluster_sync(w, 4, 3, relaxed=True)

    def finish(w: ev.WarpActor) -> Program:
        if final_sync:
            yield from sim.cluster_sync(w, 4, 90)

    def produce(w: ev.WarpActor) -> Program:
        yield from setup(w)
        for index in range(4):
            yield lambda index=index: sim.wait(w, empty, (index & 1) ^ 1, 10)
            yield lambda: sim.arrive(w, full, 11, bytes_=512)
            if both_fill:
                yield lambda: sim.load(w, halves[w.cta], 256, full, 12, ctas=(0, 1))
            elif w.cta == 0:
                yield lambda: sim.load(w, slot, 512, full, 12, ctas=(0, 1))
        yield from finish(w)

    def consume(w: ev.WarpActor) -> Program:
        yield from setup(w)
        for index in range(4):
            yield lambda index=index: sim.wait(w, full, index & 1, 20)
            yield lambda: sim.emit(access(w, False, 21, slot))
            yield lambda: sim.emit(ev.ProxyFence(w, "shared", at(22)))
            for cta in (0, 1) if both_release else (w.cta,):
                yield lambda cta=cta: sim.arrive(w, empty, 23, cta=cta)
        yield from finish(w)

    return sim.run({**{w: produce(w) for w in producers}, **{w: consume(w) for w in consumers}})


def test_multicast_across_a_cluster() -> None:
    assert codes(multicast(True), PAIR) == set()
    assert codes(multicast(False), PAIR) == {"CL103"}
    assert codes(multicast(True, both_release=False), PAIR) & {"TM101", "TX102"}
    # With one CTA filling alone, a consumer may release the other's barrier twice before its peer has done so once.
    assert "MB107" in codes(multicast(True, both_fill=False), PAIR)


def test_every_rule_is_broken_somewhere() -> None:
    """The codes that the tests of this folder, and of sums, name are all the codes there are."""
    from pathlib import Path

    here = Path(__file__).parents[1]
    # Sums are judged by the driver, which knows the program.
    files = (*here.rglob("test_*.py"), here.parent / "driver" / "reproof" / "test_lost_sums.py")
    text = "".join(path.read_text() for path in files)
    assert [code for code in REPLAY_RULES if f'"{code}"' not in text] == []


def test_a_late_waiter_that_only_follows_is_contested() -> None:
    lap = [arrive(W[0], 0, 10), end(0), wait(W[0], 0, 13), arrive(W[0], 1, 14)]
    start = [init(), *sync(W[:2]), *lap, wait(W[1], 0, 11)]
    rest = [end(1), wait(W[1], 1, 12), *ends(*W[:2])]
    follows, uses = [*start, *rest], [*start, access(W[1], False, 20), *rest]
    reads = replace(access(W[1], False, 20), space="global", read_only=True)
    strictly = replace(tolerant(), idle_followers=Level.ERROR)
    for events, interpretations, level in (
        (follows, tolerant(), Level.REVIEW),
        (follows, strictly, Level.ERROR),
        (uses, tolerant(), Level.ERROR),
        ([*start, reads, *rest], tolerant(), Level.REVIEW),
        ([*start, replace(reads, read_only=False), *rest], tolerant(), Level.ERROR),
        ([*start, reads, access(W[1], False, 20), reads, *rest], tolerant(), Level.ERROR),
        ([*start, access(W[1], False, 20), reads, *rest], tolerant(), Level.ERROR),
    ):
        judge = HappensBefore(ONE, interpretations)
        for event in events:
            judge.feed(event)
        assert [(each.code, each.level) for each in judge.finish()] == [("MB108", level)]
