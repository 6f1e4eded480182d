"""Rules of tcgen05 and tensor memory by short streams of events, each beside the fixed one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.contract.event_stream import at
from tests.contract.judged_stream import (
    BAR,
    PAIR,
    PEER,
    TILE,
    W,
    access,
    arrive,
    cluster_sync,
    codes,
    end,
    ends,
    init,
    sync,
    wait,
)

from tilewright.base.diagnostic import Level
from tilewright.base.plan import Launch
from tilewright.contract.judge.happens_before import HappensBefore, Interpretations
from tilewright.contract.judge.run_state import ClusterState
from tilewright.contract.judge.tensor_state import cells_by_cta
from tilewright.contract.rules.interpretations import strict, tolerant
from tilewright.machine.core import event as ev

MMA, EPILOGUE = W[0], W[1]
WHOLE = ev.TensorBlock(0, 0, 128, 0, 64)
BEFORE = {w: ev.TensorMemoryFence(w, "before", at(90)) for w in (*W, PEER[0])}
AFTER = {w: ev.TensorMemoryFence(w, "after", at(91)) for w in W}
PROXY = ev.ProxyFence(W[1], "shared", at(12))
WIDE = Launch("k", (2, 1, 1), (64, 1, 1), (), (2, 1, 1))


def issue(
    w: ev.WarpActor, number: int, kind: str, line: int, *, reads: tuple[ev.TensorBlock, ...] = (),
    writes: tuple[ev.TensorBlock, ...] = (), shared: ev.Ranges = (), group: int = 1,
) -> ev.TensorMemoryIssue:  # fmt: skip
    registers = ("%r0", "%r1") if kind in ("ld", "st") else ()
    operands = ((w.cta, shared),) if shared else ()
    return ev.TensorMemoryIssue(
        w,
        0,
        ev.TensorMemoryActor(number),
        kind,
        reads,
        writes,
        operands,
        group,
        registers,
        at(line),  # type: ignore[arg-type]
    )


def alloc(w: ev.WarpActor = MMA, cta: int = 0, group: int = 1) -> list[ev.Event]:
    return [
        ev.TensorMemoryAllocate(w, cta, 0, 64, group, at(3)),
        ev.Access(w, "shared", cta, ((0x3000, 0x3004),), True, "generic", at(3)),
    ]


def free(w: ev.WarpActor = MMA, cta: int = 0, group: int = 1) -> ev.TensorMemoryDeallocate:
    return ev.TensorMemoryDeallocate(w, cta, 0, 64, group, at(95))


def commit(number: int, operations: int, line: int, w: ev.WarpActor = MMA, group: int = 1) -> ev.TensorMemoryCommit:
    actors = tuple(ev.TensorMemoryActor(index) for index in range(operations))
    return ev.TensorMemoryCommit(w, 0, number, actors, ((0, BAR),), group, at(line))


def committed(number: int, phase: int, line: int) -> list[ev.Event]:
    return [ev.CommitArrive(number, 0, BAR, phase, at(line)), end(phase)]


def start() -> list[ev.Event]:
    return [*alloc(), init(), *sync(W[:2])]


def stored(w: ev.WarpActor, cells: ev.TensorBlock = WHOLE) -> list[ev.Event]:
    """A warp writes cells, so that they hold something."""
    done = [ev.TensorMemoryWait(w, "st", at(6)), ev.TensorMemoryFence(w, "before", at(7))]
    return [issue(w, 90, "st", 5, writes=(cells,)), *done]


def mma_then_load(
    *, waits: bool = True, fence: bool = True, awaited: bool = True, commits: bool = True
) -> list[ev.Event]:
    """An mma, its commit, and the epilogue's load of the accumulator."""
    events = [*start(), issue(MMA, 0, "mma", 20, writes=(WHOLE,), shared=TILE)]
    if commits:
        events += [commit(0, 1, 21), *committed(0, 0, 21)]
    if waits:
        events += [wait(EPILOGUE, 0, 30)]
    if fence:
        events += [AFTER[EPILOGUE]]
    events += [issue(EPILOGUE, 1, "ld", 31, reads=(WHOLE,))]
    if awaited:
        events += [ev.TensorMemoryWait(EPILOGUE, "ld", at(32)), BEFORE[EPILOGUE]]
    return [*events, *sync(W[:2], 1), AFTER[MMA], free(), *ends(*W[:2])]


def test_a_commit_hands_the_accumulator_over() -> None:
    assert codes(mma_then_load(), interpretations=strict()) == set()
    assert codes(mma_then_load(waits=False)) == {"TC107", "TC103", "TC119"}
    assert "TC114" in codes(mma_then_load(waits=False, commits=False))
    assert codes(mma_then_load(fence=False)) == {"TC111"}
    assert review(mma_then_load(fence=False)) == {"TC111"}


def review(events: list[ev.Event], launch: Launch | None = None) -> set[str]:
    """Codes under the tolerant reading, if all are for review."""
    judge = HappensBefore(launch or Launch("k", (1, 1, 1), (128, 1, 1), ()), tolerant())
    for event in events:
        judge.feed(event)
    findings = judge.finish()
    assert all(finding.level is Level.REVIEW for finding in findings), findings
    return {finding.code for finding in findings}


def test_a_commit_may_come_after_what_its_issuer_does_next() -> None:
    product = [
        *alloc(),
        init(2),
        *sync(W[:2]),
        issue(MMA, 0, "mma", 20, writes=(WHOLE,), shared=TILE),
        commit(0, 1, 21),
    ]
    both = [arrive(EPILOGUE, 0, 22), ev.CommitArrive(0, 0, BAR, 0, at(21)), end(0), *sync(W[:2], 1)]
    # Without a wait the issuer's arrival may take the place of the commit's: the phase ends before the product is done.
    early = [arrive(MMA, 1, 24), wait(EPILOGUE, 0, 25), AFTER[EPILOGUE], issue(EPILOGUE, 1, "ld", 31, reads=(WHOLE,))]
    rest = [ev.TensorMemoryWait(EPILOGUE, "ld", at(32)), BEFORE[EPILOGUE], *sync(W[:2], 2), AFTER[MMA]]
    last = [arrive(EPILOGUE, 1, 33), end(1), free(), *ends(*W[:2])]
    assert codes([*product, *both, *early, *rest, *last]) == {"MB107"}
    assert codes([*product, *both, wait(MMA, 0, 23), *early, *rest, *last]) == set()
    # The commit itself: what its issuer has learned since it was issued does not count.
    late = [arrive(EPILOGUE, 0, 22, count=2), end(0), *sync(W[:2], 1), ev.CommitArrive(0, 0, BAR, 1, at(21))]
    waits = [arrive(EPILOGUE, 1, 23), end(1), wait(EPILOGUE, 1, 25)]
    assert "MB107" in codes([*product, *late, *waits, *early[2:], *rest, free(), *ends(*W[:2])])


def test_a_commit_that_nobody_waits_for() -> None:
    events = [*start(), issue(MMA, 0, "mma", 20, writes=(WHOLE,)), commit(0, 1, 21), *committed(0, 0, 21)]
    assert codes([*events, *ends(*W[:2])]) == {"TC119"}


def test_a_load_is_waited_for_before_its_columns_are_freed_or_overwritten() -> None:
    assert codes(mma_then_load(awaited=False)) == {"TC103", "TC115"}
    rewritten = [
        *start(), *stored(EPILOGUE), issue(EPILOGUE, 0, "ld", 20, reads=(WHOLE,)), *sync(W[:2], 1), AFTER[MMA],
        issue(MMA, 1, "mma", 30, writes=(WHOLE,)), commit(0, 2, 31), *committed(0, 0, 31), wait(MMA, 0, 32),
    ]  # fmt: skip
    finish = [ev.TensorMemoryWait(EPILOGUE, "ld", at(40)), *ends(*W[:2])]
    assert codes([*rewritten, *finish]) == {"TC109"}
    used = [
        ev.TensorMemoryRegisterUse(EPILOGUE, ev.TensorMemoryActor(0), name, False, at(21)) for name in ("%r0", "%r1")
    ]
    at_issue = next(i for i, event in enumerate(rewritten) if getattr(event, "kind", "") == "ld")
    consumed = [*rewritten[: at_issue + 1], *used, *rewritten[at_issue + 1 :], *finish]
    assert review(consumed) >= {"TC109", "TC112"}
    assert errors([*consumed[:at_issue], consumed[at_issue], *consumed[at_issue + 2 :]]) == {"TC109"}


def test_a_store_is_waited_for_before_the_mma_reads_it() -> None:
    def stream(waits: bool) -> list[ev.Event]:
        store = issue(EPILOGUE, 0, "st", 20, writes=(WHOLE,))
        done = [ev.TensorMemoryWait(EPILOGUE, "st", at(21)), BEFORE[EPILOGUE]] if waits else []
        use = [issue(MMA, 1, "mma", 30, reads=(WHOLE,)), commit(0, 2, 31), *committed(0, 0, 31), wait(MMA, 0, 32)]
        late = [] if waits else [ev.TensorMemoryWait(EPILOGUE, "st", at(40))]
        return [*start(), store, *done, *sync(W[:2], 1), AFTER[MMA], *use, *late, *ends(*W[:2])]

    assert codes(stream(True), interpretations=strict()) == set()
    assert codes(stream(False)) == {"TC108"}


def test_unordered_threads_race_in_tensor_memory() -> None:
    events = [
        *start(), *stored(EPILOGUE), issue(EPILOGUE, 0, "ld", 20, reads=(WHOLE,)),
        ev.TensorMemoryWait(EPILOGUE, "ld", at(21)), issue(MMA, 1, "st", 30, writes=(WHOLE,)),
        ev.TensorMemoryWait(MMA, "st", at(31)),
    ]  # fmt: skip
    assert codes([*events, *ends(*W[:2])]) == {"TC118"}
    apart = ev.TensorBlock(0, 32, 64, 0, 64)
    mine = ev.TensorBlock(0, 0, 32, 0, 64)
    beside = [
        *start(), *stored(EPILOGUE, apart), issue(EPILOGUE, 0, "ld", 20, reads=(apart,)),
        ev.TensorMemoryWait(EPILOGUE, "ld", at(21)), issue(MMA, 1, "st", 30, writes=(mine,)),
        ev.TensorMemoryWait(MMA, "st", at(31)),
    ]  # fmt: skip
    assert codes([*beside, *ends(*W[:2])]) == set()


def test_one_threads_operations_run_in_order_where_the_isa_says_so() -> None:
    other = ev.TensorBlock(0, 0, 128, 32, 96)

    def stream(first: str, second: str, cells: ev.TensorBlock) -> set[str]:
        events = [
            *start(), issue(MMA, 0, first, 20, writes=(WHOLE,)), issue(MMA, 1, second, 21, writes=(cells,)),
            commit(0, 2, 22), *committed(0, 0, 22), wait(MMA, 0, 23), *ends(*W[:2]),
        ]  # fmt: skip
        return codes(events)

    assert stream("mma", "mma", WHOLE) == set()
    assert stream("cp", "mma", WHOLE) == set()
    assert stream("mma", "shift", WHOLE) == set()
    assert stream("mma", "cp", WHOLE) == {"TC113"}
    assert stream("mma", "mma", other) == {"TC113"}


def test_operands_stay_until_the_commit_is_observed() -> None:
    def stream(waits: bool, fenced: bool = True) -> set[str]:
        events: list[ev.Event] = [*start(), access(EPILOGUE, True, 10)]
        events += [PROXY] if fenced else []
        events += [*sync(W[:2], 1), issue(MMA, 0, "mma", 20, shared=TILE), commit(0, 1, 21), *committed(0, 0, 21)]
        events += [wait(EPILOGUE, 0, 30)] if waits else []
        events += [access(EPILOGUE, True, 31), wait(MMA, 0, 40), *ends(*W[:2])]
        return codes(events)

    assert stream(True) == set()
    assert stream(False) == {"TC110"}
    assert stream(True, fenced=False) == {"PX101"}


def test_the_address_is_read_after_the_allocation() -> None:
    read = ev.Access(EPILOGUE, "shared", 0, ((0x3000, 0x3004),), False, "generic", at(9))
    load = issue(EPILOGUE, 0, "ld", 20, reads=(WHOLE,))
    use = [*stored(EPILOGUE), load, ev.TensorMemoryWait(EPILOGUE, "ld", at(21))]
    assert codes([*alloc(), *sync(W[:2]), read, *use, *ends(*W[:2])]) == set()
    assert codes([*alloc(), read, *ends(*W[:2])]) == {"TC104"}
    assert codes([*alloc(), *use, *ends(*W[:2])]) == {"TC104"}


def test_use_after_deallocation() -> None:
    use = [issue(EPILOGUE, 0, "ld", 20, reads=(WHOLE,)), ev.TensorMemoryWait(EPILOGUE, "ld", at(21))]
    assert codes([*alloc(), *sync(W[:2]), free(), *use, *ends(*W[:2])]) == {"TC103"}


def test_one_cta_group_in_a_kernel() -> None:
    both = [*alloc(), *sync(W[:2]), issue(MMA, 0, "mma", 20, group=2), commit(0, 1, 21, group=2)]
    assert "TC106" in codes([*both, *committed(0, 0, 21)])


def test_a_commit_of_nothing_for_a_pair_is_for_review() -> None:
    events = [init(), *sync((MMA,)), commit(0, 0, 21, group=2), *committed(0, 0, 21), wait(MMA, 0, 22), *ends(MMA)]
    assert review(events) == {"TC116"}


@pytest.mark.parametrize(("waits", "found"), [(False, set()), (True, {"TC116"})])
def test_a_second_commit_of_a_pair_has_something_pending_until_the_first_is_observed(
    waits: bool, found: set[str]
) -> None:
    """As where operands are released, and the sums handed over: a commit covers all operations before it."""
    warps = (W[0], PEER[0])
    product = issue(MMA, 0, "mma", 20, writes=(WHOLE,), group=2)
    events = [*cluster_sync(warps), *alloc(MMA, 0, 2), *alloc(PEER[0], 1, 2), init(1 if waits else 2), *sync((MMA,))]
    events += [product, commit(0, 1, 21, group=2), ev.CommitArrive(0, 0, BAR, 0, at(21))]
    events += [end(0), wait(MMA, 0, 22), AFTER[MMA]] if waits else []
    last = 1 if waits else 0
    events += [commit(1, 1, 23, group=2), *committed(1, last, 23), wait(MMA, last, 24), AFTER[MMA]]
    events += [*cluster_sync(warps), free(MMA, 0, 2), free(PEER[0], 1, 2), *ends(*warps)]
    assert review(events, PAIR) == found


def test_a_pair_allocates_when_both_run() -> None:
    first = [*alloc(W[0], 0, 2), *alloc(PEER[0], 1, 2)]
    warps = (W[0], PEER[0])
    finish = [*cluster_sync(warps), *ends(*warps)]
    assert codes([*cluster_sync(warps), *first, *finish], PAIR) == set()
    assert codes([*first, *finish], PAIR) == {"TC117"}


def test_who_knows_one_half_of_a_pairs_allocation_knows_both() -> None:
    warps = (W[0], PEER[0])
    peers = ev.TensorBlock(1, 0, 128, 0, 64)
    both = [*cluster_sync(warps), *alloc(W[0], 0, 2), *alloc(PEER[0], 1, 2), init(), *sync(W[:1])]
    use = [issue(W[0], 0, "mma", 20, writes=(WHOLE, peers), group=2), commit(0, 1, 21, group=2)]
    finish = [*committed(0, 0, 21), wait(W[0], 0, 22), AFTER[W[0]], *cluster_sync(warps), *ends(*warps)]
    assert codes([*both, *use, *finish], PAIR) == set()


def test_a_pair_deallocates_after_both_are_done() -> None:
    warps = (W[0], PEER[0])
    peers = ev.TensorBlock(1, 0, 128, 0, 64)
    both = [*cluster_sync(warps), *alloc(W[0], 0, 2), *alloc(PEER[0], 1, 2)]
    load = issue(PEER[0], 0, "ld", 20, reads=(peers,))
    use = [*stored(PEER[0], peers), load, ev.TensorMemoryWait(PEER[0], "ld", at(21))]
    last = [free(W[0], 0, 2), *cluster_sync(warps), free(PEER[0], 1, 2), *ends(*warps)]
    assert codes([*both, *use, *last], PAIR) == {"TC103"}
    assert codes([*both, *use, *cluster_sync(warps), *last], PAIR) == set()


@pytest.mark.parametrize("kind", ["ld", "st"])
@pytest.mark.parametrize(
    ("release", "acquire", "relaxed"),
    [("cluster", "cluster", False), ("cluster", "cluster", True), ("cta", "cluster", False), ("cluster", "cta", False),
     ("cta", "cta", True)],
)  # fmt: skip
def test_what_a_peer_did_with_its_columns_is_told_at_the_scope_of_the_cluster(
    release: str, acquire: str, relaxed: bool, kind: str
) -> None:
    warps = (W[0], PEER[0])
    peers = ev.TensorBlock(1, 0, 128, 0, 64)
    init_fence = ev.MemoryFence(W[0], "mbarrier_init", "cluster", at(2))
    both = [init(), init(address=BAR + 8), init_fence, *cluster_sync(warps), *alloc(W[0], 0, 2), *alloc(PEER[0], 1, 2)]
    use = [*stored(PEER[0], peers)]
    if kind == "ld":
        use += [issue(PEER[0], 0, "ld", 20, reads=(peers,)), ev.TensorMemoryWait(PEER[0], "ld", at(21))]
    told = replace(arrive(PEER[0], 0, 23, relaxed=relaxed), scope=release)
    heard = replace(wait(W[0], 0, 24, relaxed=relaxed), scope=acquire)
    product = [issue(W[0], 1, "mma", 26, writes=(WHOLE, peers), group=2), commit(0, 2, 27, group=2)]
    product = [replace(event, barriers=((0, BAR + 8),)) if index else event for index, event in enumerate(product)]
    done = [ev.CommitArrive(0, 0, BAR + 8, 0, at(27)), replace(end(0), address=BAR + 8)]
    done += [replace(wait(W[0], 0, 28), address=BAR + 8), AFTER[W[0]], *cluster_sync(warps), *ends(*warps)]
    events = [*both, *use, BEFORE[PEER[0]], told, end(0), heard, AFTER[W[0]], *product, *done]
    wide = (release, acquire) == ("cluster", "cluster")
    assert codes(events, PAIR) == (set() if wide else {"CL104"})
    assert review(events, PAIR) == (set() if wide else {"CL104"})


def test_registers_of_a_load_before_its_wait() -> None:
    load = [*alloc(), *stored(MMA), issue(MMA, 0, "ld", 20, reads=(WHOLE,))]
    done = [ev.TensorMemoryWait(MMA, "ld", at(30)), *ends(MMA)]
    read = ev.TensorMemoryRegisterUse(MMA, ev.TensorMemoryActor(0), "%r0", False, at(21))
    write = ev.TensorMemoryRegisterUse(MMA, ev.TensorMemoryActor(0), "%r0", True, at(21))
    assert codes([*load, *done]) == set()
    assert review([*load, read, *done]) == {"TC112"}
    assert codes([*load, read, *done], interpretations=strict()) == {"TC112"}
    assert errors([*load, write, *done]) == {"TC112"}
    assert errors([*load, read, write, *done]) == set()


def errors(events: list[ev.Event]) -> set[str]:
    judge = HappensBefore(Launch("k", (1, 1, 1), (128, 1, 1), ()), tolerant())
    for event in events:
        judge.feed(event)
    return {finding.code for finding in judge.finish() if finding.level is Level.ERROR}


def test_a_load_that_is_never_waited_for() -> None:
    load = [*alloc(), *stored(MMA), issue(MMA, 0, "ld", 20, reads=(WHOLE,))]
    assert errors([*load, *ends(MMA)]) == {"TC115"}
    used = [ev.TensorMemoryRegisterUse(MMA, ev.TensorMemoryActor(0), name, False, at(21)) for name in ("%r0", "%r1")]
    assert errors([*load, *used, *ends(MMA)]) == set()


def test_a_refill_after_the_commit_needs_no_other_warp() -> None:
    """What the issuer of an mma had waited for is known to who waits for its commit: the producer refills the slot."""
    full, producer = BAR + 8, W[2]
    fill = [
        ev.BarrierArrive(producer, 0, full, 0, 1, 512, at(40)),
        ev.CopyIssue(producer, 0, ev.CopyActor(0), "load", (0,), TILE, 512, full, at(41)),
        ev.Access(ev.CopyActor(0), "shared", 0, TILE, True, "async", at(41)),
        ev.BarrierComplete(ev.CopyActor(0), 0, full, 0, 512, at(41)),
        ev.PhaseEnd(0, full, 0),
        ev.BarrierWait(MMA, 0, full, 0, 0, at(42)),
    ]
    again = [
        ev.BarrierArrive(producer, 0, full, 1, 1, 512, at(40)),
        ev.CopyIssue(producer, 0, ev.CopyActor(1), "load", (0,), TILE, 512, full, at(41)),
        ev.Access(ev.CopyActor(1), "shared", 0, TILE, True, "async", at(41)),
        ev.BarrierComplete(ev.CopyActor(1), 0, full, 1, 512, at(41)),
        ev.PhaseEnd(0, full, 1),
        ev.BarrierWait(MMA, 0, full, 1, 1, at(42)),
    ]
    use = [issue(MMA, 0, "mma", 20, shared=TILE), commit(0, 1, 21), *committed(0, 0, 21)]
    begin = [init(), ev.BarrierInit(W[0], 0, full, 1, at(1)), *sync(W[:3])]
    events = [*begin, *fill, *use, wait(producer, 0, 43), *again, *ends(*W[:3])]
    assert codes(events) == {"MB105"}
    assert {"TC110", "TM102"} & codes([*begin, *fill, *use, *again, wait(producer, 0, 43), *ends(*W[:3])])


def test_cells_of_blocks() -> None:
    assert cells_by_cta((WHOLE,)) == [(0, ((0, 64 * 128),))]
    half = ev.TensorBlock(1, 32, 64, 2, 4)
    assert cells_by_cta((half, WHOLE)) == [
        (1, ((2 * 128 + 32, 2 * 128 + 64), (3 * 128 + 32, 3 * 128 + 64))),
        (0, ((0, 8192),)),
    ]
    touching = (ev.TensorBlock(0, 0, 64, 0, 1), ev.TensorBlock(0, 64, 128, 0, 1))
    assert cells_by_cta(touching) == [(0, ((0, 128),))]
    assert ClusterState(0).tensor.memories == {}


def test_the_pair_of_a_cta() -> None:
    judge = HappensBefore(Launch("k", (4, 4, 1), (32, 1, 1), (), (2, 2, 1)), Interpretations())
    assert [judge.state.pair_of(cta) for cta in (0, 1, 4, 5, 10)] == [1, 0, 5, 4, 11]
    tall = HappensBefore(Launch("k", (2, 2, 1), (32, 1, 1), (), (1, 2, 1)), Interpretations())
    assert [tall.state.pair_of(cta) for cta in range(4)] == [2, 3, 0, 1]


def test_a_load_by_the_address_of_another_quarter() -> None:
    def load(other: bool) -> list[ev.Event]:
        made = ev.TensorMemoryIssue(
            MMA, 0, ev.TensorMemoryActor(0), "ld", (WHOLE,), (), (), 1, ("%r0",), at(20), other_quarter=other
        )
        return [*alloc(), *stored(MMA), made, ev.TensorMemoryWait(MMA, "ld", at(21)), *ends(MMA)]

    assert codes(load(False), interpretations=strict()) == set()
    assert codes(load(True), interpretations=strict()) == {"TC120"}
    assert review(load(True)) == {"TC120"}


def test_what_nobody_has_written_is_not_read() -> None:
    def stream(kind: str, reads: tuple[ev.TensorBlock, ...], written: tuple[ev.TensorBlock, ...]) -> list[ev.Event]:
        stores = [event for cells in written for event in stored(MMA, cells)]
        done, result = [ev.TensorMemoryWait(MMA, "ld", at(21))], ()
        if kind == "mma":
            result = reads[:1]
            done = [commit(0, 1, 22), *committed(0, 0, 22), wait(MMA, 0, 23)]
        return [*start(), *stores, issue(MMA, 0, kind, 20, reads=reads, writes=result), *done, *ends(*W[:2])]

    half = ev.TensorBlock(0, 0, 128, 0, 32)
    scales = ev.TensorBlock(0, 0, 128, 32, 36)
    for kind in ("ld", "mma"):
        assert codes(stream(kind, (WHOLE,), (WHOLE,)), interpretations=strict()) == set()
        assert errors(stream(kind, (WHOLE,), ())) == {"TC122"}
        assert errors(stream(kind, (half, scales), (half,))) == {"TC122"}
        assert codes(stream(kind, (WHOLE,), (half,)), interpretations=strict()) == {"TC122"}
        assert review(stream(kind, (WHOLE,), (half,))) == {"TC122"}


def test_columns_that_are_allocated_again_hold_nothing() -> None:
    again = [*start(), *stored(MMA), free(), *alloc(), issue(MMA, 0, "ld", 20, reads=(WHOLE,))]
    assert codes([*again, ev.TensorMemoryWait(MMA, "ld", at(21)), *ends(*W[:2])]) == {"TC122"}
