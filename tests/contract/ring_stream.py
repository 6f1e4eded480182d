"""A warp-specialised pipeline as a stream of events: one producer, two consumer warpgroups, stores at the end.

Each keyword of `Faults` spoils one thing. Lines are fixed, so that a test can say where a finding must point.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.contract.event_stream import Program, Simulator

from tilewright.machine.core import event as ev

STAGES = 3
SLOT_BYTES = 2048
BARRIERS = 0x8000
STAGING = 0x9000
STAGING_BYTES = 1024
PRODUCER = ev.WarpActor(0, 8)
CONSUMERS = tuple(ev.WarpActor(0, index) for index in range(8))
WARPS = (*CONSUMERS, PRODUCER)
GLOBAL_OUT = 0x10_0000_0000

LINE_INIT, LINE_SYNC = 10, 12
LINE_EMPTY_WAIT, LINE_EXPECT, LINE_LOAD = 20, 21, 22
LINE_FULL_WAIT, LINE_FENCE, LINE_WGMMA, LINE_COMMIT, LINE_WGMMA_WAIT, LINE_RELEASE = 30, 31, 32, 33, 34, 35
LINE_STAGE_WAIT, LINE_STAGE_SYNC, LINE_STAGE, LINE_PROXY, LINE_STORE_SYNC, LINE_STORE = 40, 41, 42, 43, 44, 45
LINE_STORE_COMMIT, LINE_DRAIN = 46, 47


@dataclass(frozen=True)
class Faults:
    """What to spoil."""

    no_init_sync: bool = False
    no_init_fence: bool = False
    no_empty_wait: bool = False
    no_full_wait: bool = False
    wrong_full_parity: bool = False
    early_release: bool = False
    release_by_one_group: bool = False
    no_wgmma_fence: bool = False
    no_commit: bool = False
    no_last_wgmma_wait: bool = False
    no_release: bool = False
    double_release: bool = False
    expect_bytes: int = SLOT_BYTES
    overlapping: bool = False
    no_proxy_fence: bool = False
    no_store_sync: bool = False
    no_stage_wait: bool = False
    no_stage_sync: bool = False
    no_store_commit: bool = False
    no_drain: bool = False
    one_fill_more: bool = False
    touch_barrier: bool = False


def full(stage: int) -> int:
    return BARRIERS + 8 * stage


def empty(stage: int) -> int:
    return BARRIERS + 64 + 8 * stage


def slot(stage: int) -> ev.Ranges:
    return ((stage * SLOT_BYTES, (stage + 1) * SLOT_BYTES),)


def programs(sim: Simulator, fills: int, tiles: int, faults: Faults) -> dict[ev.WarpActor, Program]:
    """The warps' programs: `tiles` tiles of `fills` slots each."""
    made: dict[ev.WarpActor, Program] = {PRODUCER: _producer(sim, fills * tiles, faults)}
    for actor in CONSUMERS:
        made[actor] = _consumer(sim, actor, fills, tiles, faults)
    return made


def _setup(sim: Simulator, w: ev.WarpActor, faults: Faults) -> Program:
    if w == PRODUCER:
        for stage in range(STAGES):
            yield lambda stage=stage: sim.init(w, full(stage), 1, LINE_INIT)
            releases = 1 if faults.release_by_one_group else 2
            yield lambda stage=stage, count=releases: sim.init(w, empty(stage), count, LINE_INIT)
        if not faults.no_init_fence:
            yield lambda: sim.emit(ev.MemoryFence(w, "mbarrier_init", "cluster", span(LINE_INIT + 1)))
    if faults.no_init_sync:
        # Wait until the barriers exist, without an edge: what a lucky schedule looks like.
        yield lambda: len(sim.barriers) == 2 * STAGES
    else:
        yield from sim.named_arrive(w, 0, len(WARPS), LINE_SYNC, waits=True)


def span(line: int) -> ev.Span:
    return ev.Span("<stream>", line)


def _producer(sim: Simulator, fills: int, faults: Faults) -> Program:
    w = PRODUCER
    yield from _setup(sim, w, faults)
    for index in range(fills + faults.one_fill_more):
        stage, round_ = index % STAGES, index // STAGES
        if not faults.no_empty_wait:
            yield lambda stage=stage, parity=(round_ & 1) ^ 1: sim.wait(w, empty(stage), parity, LINE_EMPTY_WAIT)
        else:
            # The slot is free in this schedule, but the producer does not look at its barrier.
            yield lambda stage=stage, round_=round_: sim.barriers[0, empty(stage)].phase >= round_
        yield lambda stage=stage: sim.arrive(w, full(stage), LINE_EXPECT, bytes_=faults.expect_bytes)
        half = SLOT_BYTES // 2
        ((begin, end),) = slot(stage)
        first = (begin, begin + half)
        second = first if faults.overlapping else (begin + half, end)
        yield lambda stage=stage, r=first: sim.load(w, (r,), SLOT_BYTES // 2, full(stage), LINE_LOAD)
        yield lambda stage=stage, r=second: sim.load(w, (r,), SLOT_BYTES // 2, full(stage), LINE_LOAD + 1)


def _consumer(sim: Simulator, w: ev.WarpActor, fills: int, tiles: int, faults: Faults) -> Program:
    leader = w.warp % 4 == 0
    yield from _setup(sim, w, faults)
    index = 0

    def release(stage: int) -> bool:
        return sim.arrive(w, empty(stage), LINE_RELEASE)

    for _ in range(tiles):
        previous: int | None = None
        for position in range(fills):
            stage, parity = index % STAGES, index // STAGES & 1
            round_ = index // STAGES
            if faults.no_full_wait:
                yield lambda stage=stage, round_=round_: sim.barriers[0, full(stage)].phase > round_
            elif faults.wrong_full_parity:
                yield lambda stage=stage, parity=parity: sim.wait(w, full(stage), parity ^ 1, LINE_FULL_WAIT)
            else:
                yield lambda stage=stage, parity=parity: sim.wait(w, full(stage), parity, LINE_FULL_WAIT)
            if not faults.no_wgmma_fence:
                yield lambda: sim.emit(ev.WgmmaFence(w, span(LINE_FENCE)))
            yield lambda stage=stage: sim.wgmma(w, slot(stage), LINE_WGMMA)
            if not faults.no_commit:
                yield lambda: sim.wgmma_commit(w, LINE_COMMIT)
            if faults.early_release:
                if leader:
                    yield lambda stage=stage: release(stage)
            elif position:
                yield lambda: sim.wgmma_wait(w, 1, LINE_WGMMA_WAIT)
                if leader and previous is not None and _releases(w, faults):
                    yield lambda stage=previous: release(stage)
            previous = stage
            index += 1
        if not faults.no_last_wgmma_wait:
            yield lambda: sim.wgmma_wait(w, 0, LINE_WGMMA_WAIT + 100)
        if leader and previous is not None and _releases(w, faults) and not faults.early_release:
            if not faults.no_release:
                yield lambda stage=previous: release(stage)
            if faults.double_release:
                yield lambda stage=previous: release(stage)
        yield from _store(sim, w, faults)
    if leader and not faults.no_drain:
        yield lambda: sim.bulk_wait(w, 0, LINE_DRAIN)


def _releases(w: ev.WarpActor, faults: Faults) -> bool:
    return not faults.release_by_one_group or w.warp < 4


def _store(sim: Simulator, w: ev.WarpActor, faults: Faults) -> Program:
    group = w.warp // 4
    leader = w.warp % 4 == 0
    base = STAGING + group * STAGING_BYTES
    mine = base + (w.warp % 4) * (STAGING_BYTES // 4)
    if leader and not faults.no_stage_wait:
        yield lambda: sim.bulk_wait(w, 0, LINE_STAGE_WAIT)
    if not faults.no_stage_sync:
        yield from sim.named_arrive(w, 1 + group, 4, LINE_STAGE_SYNC, waits=True)
    written = ((mine, mine + STAGING_BYTES // 4),)
    yield lambda: sim.emit(ev.Access(w, "shared", 0, written, True, "generic", span(LINE_STAGE)))
    if faults.touch_barrier and leader:
        touched = ((BARRIERS + 4, BARRIERS + 8),)
        yield lambda: sim.emit(ev.Access(w, "shared", 0, touched, False, "generic", span(LINE_STAGE)))
    if not faults.no_proxy_fence:
        yield lambda: sim.emit(ev.ProxyFence(w, "shared", span(LINE_PROXY)))
    if not faults.no_store_sync:
        yield from sim.named_arrive(w, 1 + group, 4, LINE_STORE_SYNC, waits=True)
    if leader:
        yield lambda: sim.store(w, ((base, base + STAGING_BYTES),), LINE_STORE)
        if not faults.no_store_commit:
            yield lambda: sim.bulk_commit(w, LINE_STORE_COMMIT)
