"""Contested points: every switch has its page, strict refutes what tolerant reports, and each point shows in a run."""

from __future__ import annotations

from dataclasses import fields

import pytest
from tests.contract.event_stream import at
from tests.contract.judged_stream import BAR, TILE, W, access, arrive, codes, end, ends, init, levels, sync, wait

from tilewright.base.diagnostic import Level
from tilewright.contract.rules.interpretations import POINTS, Interpretations, strict, tolerant
from tilewright.contract.rules.replay_codes import REPLAY_RULES
from tilewright.machine.core import event as ev


def test_every_switch_is_a_point_with_a_page() -> None:
    switches = {field.name for field in fields(Interpretations)} - {"fence_on_path"}
    assert {point.name for point in POINTS} == switches
    for point in POINTS:
        assert point.question.endswith("?") and point.strict and point.tolerant and point.sources
        assert all(code in REPLAY_RULES for code in point.codes), point


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.name)
def test_strict_is_never_milder_than_tolerant(point: object) -> None:
    name: str = getattr(point, "name")  # noqa: B009
    order = (None, Level.REVIEW, Level.ERROR)
    assert order.index(strict().level_of(name)) >= order.index(tolerant().level_of(name))
    assert tolerant().level_of(name) is not Level.ERROR


def test_strict_refutes_all_but_what_the_isa_leaves_open() -> None:
    mild = {point.name for point in POINTS if strict().level_of(point.name) is not Level.ERROR}
    assert mild == {"reuse_after_engine", "commit_nothing"}


def elected(synchronized: bool) -> list[ev.Event]:
    """All lanes of warp 0 write; lane 0 arrives alone."""
    middle: list[ev.Event] = [ev.MemoryFence(W[0], "fence", "warp", at(11))] if synchronized else []
    one_lane = ev.BarrierArrive(W[0], 0, BAR, 0, 1, 0, at(12), lanes=1)
    return [
        init(), *sync(W[:2]), access(W[0], True, 10), *middle, one_lane, end(0), wait(W[1], 0, 13),
        access(W[1], False, 14), *ends(*W[:2]),
    ]  # fmt: skip


def test_one_lanes_arrival_speaks_for_others_after_a_warp_barrier() -> None:
    assert codes(elected(True), interpretations=strict()) == set()
    assert codes(elected(False), interpretations=strict()) == {"MB112"}
    assert levels(elected(False), strict()) == {Level.ERROR}
    assert levels(elected(False), tolerant()) == {Level.REVIEW}
    own = [
        init(), *sync(W[:2]), ev.Access(W[0], "shared", 0, TILE, True, "generic", at(10), lanes=1),
        ev.BarrierArrive(W[0], 0, BAR, 0, 1, 0, at(12), lanes=1), end(0), wait(W[1], 0, 13), access(W[1], False, 14),
    ]  # fmt: skip
    assert codes([*own, *ends(*W[:2])], interpretations=strict()) == set()
    every = [init(), *sync(W[:2]), access(W[0], True, 10), arrive(W[0], 0, 12), end(0), wait(W[1], 0, 13)]
    assert codes([*every, access(W[1], False, 14), *ends(*W[:2])], interpretations=strict()) == set()


def test_stores_of_one_constant() -> None:
    def store(w: ev.WarpActor, constant: tuple[int, ...], line: int = 10) -> ev.Access:
        return ev.Access(w, "shared", 0, ((0, 4),), True, "generic", at(line), constant=constant)

    both = [store(W[0], (7,)), store(W[1], (7,)), *ends(*W[:2])]
    assert codes(both, interpretations=strict()) == {"NB104"}
    assert levels(both, tolerant()) == {Level.REVIEW}
    assert codes([store(W[0], (7,)), store(W[1], (8,)), *ends(*W[:2])]) == {"NB101"}
    assert codes([store(W[0], (), 10), store(W[1], (), 11), *ends(*W[:2])]) == {"NB101"}


def initialised(warps: int, *, used: bool = False, ordered: bool = True) -> list[ev.Event]:
    """Two lanes of each warp execute one init; then the warps meet, if they do, and pass a phase."""
    inits: list[ev.Event] = [ev.BarrierInit(w, 0, BAR, 1, at(1), lane) for w in W[:warps] for lane in (0, 1)]
    if used:
        inits.insert(1, arrive(W[0], 0, 2))
    meet = sync(W[:2]) if ordered else []
    phase = [] if used else [arrive(W[0], 0, 10), end(0), wait(W[1], 0, 11)]
    return [*inits, *meet, *phase, *ends(*W[:2])]


@pytest.mark.parametrize("warps", [1, 2])
def test_several_threads_execute_one_init(warps: int) -> None:
    assert codes(initialised(warps), interpretations=strict()) == {"MB115"}
    assert levels(initialised(warps), strict()) == {Level.ERROR}
    assert levels(initialised(warps), tolerant()) == {Level.REVIEW}


def test_an_init_that_may_come_after_a_use_is_no_repetition() -> None:
    assert "MB103" in codes(initialised(1, used=True), interpretations=tolerant())
    assert "MB104" in codes(initialised(2, ordered=False), interpretations=tolerant())
    count = [ev.BarrierInit(W[0], 0, BAR, count, at(1), count) for count in (1, 2)]
    assert codes([*count, *ends(W[0])], interpretations=tolerant()) == {"MB103"}


def test_an_init_is_repeated_by_another_instruction() -> None:
    again = ev.BarrierInit(W[0], 0, BAR, 1, at(5))
    used = [arrive(W[0], 0, 10), end(0), wait(W[1], 0, 11)]
    events = [init(), again, *sync(W[:2]), *used, *ends(*W[:2])]
    assert codes(events, interpretations=strict()) == {"MB115"}
    assert levels(events, tolerant()) == {Level.REVIEW}
    waited = [init(), *sync(W[:1]), ev.BarrierWait(W[0], 0, BAR, 1, -1, at(4)), again, *ends(W[0])]
    assert codes(waited, interpretations=tolerant()) == {"MB103"}
    by_another = [init(), ev.BarrierInit(W[1], 0, BAR, 1, at(5)), arrive(W[0], 0, 10), end(0)]
    assert "MB104" in codes([*by_another, *ends(*W[:2])], interpretations=tolerant())


def test_a_parity_of_minus_one() -> None:
    def waited(parity: int) -> list[ev.Event]:
        last = ev.BarrierWait(W[0], 0, BAR, parity, 1, at(5))
        first = [init(), *sync(W[:1]), arrive(W[0], 0, 2), end(0), wait(W[0], 0, 3)]
        return [*first, arrive(W[0], 1, 4), end(1), last, *ends(W[0])]

    assert codes(waited(1), interpretations=strict()) == set()
    assert codes(waited(0xFFFF_FFFF), interpretations=strict()) == {"MB117"}
    assert levels(waited(0xFFFF_FFFF), strict()) == {Level.ERROR}
    assert levels(waited(0xFFFF_FFFF), tolerant()) == {Level.REVIEW}


def overwritten(*, ordered: bool = True, write: bool = True, lines: tuple[ev.Event, ...] = ()) -> list[ev.Event]:
    """A warp initialises a barrier, and another accesses its bytes, once it knows of it, if it does."""
    meet = sync(W[:2]) if ordered else []
    touch = ev.Access(W[1], "shared", 0, ((BAR + 4, BAR + 8),), write, "generic", at(20))
    return [init(), *meet, touch, *lines, *ends(*W[:2])]


def test_bytes_of_an_unused_barrier_may_hold_data() -> None:
    assert codes(overwritten(), interpretations=strict()) == {"MB116"}
    assert levels(overwritten(), strict()) == {Level.ERROR}
    assert levels(overwritten(), tolerant()) == {Level.REVIEW}


def test_bytes_of_a_barrier_are_no_data_where_anybody_uses_it_or_may_initialise_it_later() -> None:
    assert codes(overwritten(ordered=False), interpretations=tolerant()) == {"MB102"}
    assert codes(overwritten(write=False), interpretations=tolerant()) == {"MB102"}
    later = (arrive(W[0], 0, 30), end(0))
    assert "MB101" in codes(overwritten(lines=later), interpretations=tolerant())
    before = overwritten()
    before.insert(1, ev.BarrierWait(W[0], 0, BAR, 1, -1, at(5), lanes=1))
    assert codes(before, interpretations=tolerant()) == {"MB102"}


def test_ordinary_writes_after_an_engine() -> None:
    """No fence is needed by the ISA; a stricter reading asks for one."""
    copy = ev.CopyActor(0)
    events = [
        ev.CopyIssue(W[0], 0, copy, "store", (0,), TILE, 512, None, at(12)),
        ev.BulkCommit(W[0], 0, 0, (copy,), at(13)), ev.BulkWait(W[0], 0, 0, True, at(14)), access(W[0], True, 20),
        *ends(W[0]),
    ]  # fmt: skip
    assert codes(events) == set() and codes(events, interpretations=tolerant()) == set()
    assert codes(events, interpretations=strict()) == {"PX105"}
    assert levels(events, strict()) == {Level.REVIEW}
    fenced = [*events[:3], ev.ProxyFence(W[0], "shared", at(15)), *events[3:]]
    assert codes(fenced, interpretations=strict()) == set()


def test_the_one_way_fences_come_in_pairs() -> None:
    write = access(W[1], True, 10)
    release = ev.ProxyFence(W[1], "shared", at(11), order="release")
    acquire = ev.ProxyFence(W[0], "shared", at(13), order="acquire")
    copy = ev.CopyActor(0)
    store = [
        ev.CopyIssue(W[0], 0, copy, "store", (0,), TILE, 512, None, at(14)),
        ev.BulkCommit(W[0], 0, 0, (copy,), at(15)), ev.BulkWait(W[0], 0, 0, True, at(16)), *ends(*W[:2]),
    ]  # fmt: skip
    assert codes([write, release, *sync(W[:2]), acquire, *store]) == set()
    assert codes([write, release, *sync(W[:2]), *store]) == {"PX101"}
    assert codes([write, *sync(W[:2]), acquire, *store]) == {"PX101"}
    assert codes([write, release, acquire, *sync(W[:2]), *store]) == {"PX101"}


def test_accumulators_written_after_the_fence() -> None:
    operation = ev.TensorCoreActor(0)
    touch = ev.RegisterHazard(W[0], operation, "%f0", True, at(10), after_fence=True)
    fences = [ev.WgmmaFence(w, at(9)) for w in W]
    issues = [ev.WgmmaIssue(w, operation, ("%f0",), (), TILE, at(10)) for w in W]
    finish: list[ev.Event] = [ev.WgmmaCommit(w, 0, (operation,), at(11)) for w in W]
    finish += [*(ev.WgmmaWait(w, 0, at(12)) for w in W), *ends(*W)]
    assert codes([*fences, *issues, *finish], interpretations=strict()) == set()
    assert codes([*fences, touch, *issues, *finish], interpretations=strict()) == {"WG106"}
    assert levels([*fences, touch, *issues, *finish], tolerant()) == {Level.REVIEW}


def test_a_warp_that_takes_part_twice_in_one_use() -> None:
    def use(second: ev.WarpActor) -> list[ev.Event]:
        return [
            ev.NamedBarrierArrive(W[0], 0, 9, False, at(10)), ev.NamedBarrierArrive(second, 0, 9, True, at(11)),
            ev.NamedBarrier(0, 9, (second,), (W[0],), at(11)), *ends(*W[:2]),
        ]  # fmt: skip

    assert codes(use(W[1]), interpretations=strict()) == set()
    assert codes(use(W[0]), interpretations=strict()) == {"NB105"}
    assert levels(use(W[0]), tolerant()) == {Level.REVIEW}
    late = [*use(W[1])[:3], ev.NamedBarrierArrive(W[0], 0, 9, False, at(12)), *ends(*W[:2])]
    assert codes(late, interpretations=tolerant()) == {"NB102"}


def test_rows_of_a_that_are_a_warps_own() -> None:
    operation = ev.TensorCoreActor(0)
    quarters = [((128 * index, 128 * index + 128),) for index in range(4)]

    def stream(rows: list[ev.Ranges]) -> list[ev.Event]:
        """Each warp writes `rows` of it, fences and issues, with no barrier between the warps."""
        events: list[ev.Event] = []
        for w, mine, own in zip(W, rows, quarters, strict=True):
            events += [access(w, True, 5, mine), ev.ProxyFence(w, "shared", at(6)), ev.WgmmaFence(w, at(9))]
            events += [ev.WgmmaIssue(w, operation, ("%f0",), (), TILE, at(10), own)]
        events += [ev.WgmmaCommit(w, 0, (operation,), at(11)) for w in W]
        return [*events, *(ev.WgmmaWait(w, 0, at(12)) for w in W), *ends(*W)]

    assert levels(stream(quarters), tolerant()) == {Level.REVIEW}
    assert levels(stream(quarters), strict()) == {Level.ERROR}
    assert codes(stream(quarters), interpretations=strict()) == {"TM101"}
    assert Level.ERROR in levels(stream(quarters[1:] + quarters[:1]), tolerant())
