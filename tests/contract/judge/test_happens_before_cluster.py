"""The judge on clusters: what has happened in a peer CTA, and what of it can be seen.

A consumer that sees the bytes of a peer's multicast knows that the peer issued the copy, hence all that the peer's
producer had waited for: arrivals are in their phases (no MB107). It does not see what the peer had stored, and a signal
that was executed may still be under way. Right rings and wrong ones, in any schedule.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.event_stream import Program, Simulator, at

from tilewright.base.plan import Launch
from tilewright.contract.judge.happens_before import HappensBefore
from tilewright.machine.core import event as ev

PAIR = Launch("k", (2, 1, 1), (64, 1, 1), (), (2, 1, 1))
CONSUMERS = (ev.WarpActor(0, 0), ev.WarpActor(1, 0))
PRODUCERS = (ev.WarpActor(0, 1), ev.WarpActor(1, 1))
FULL, EMPTY, STAGES = 0x2000, 0x2100, 2
HALF_BYTES = 256


@dataclass(frozen=True)
class Ring:
    """A ring in each CTA of a pair, filled half and half by both producers. What may be spoiled:

    release_to: whom a consumer releases its slots to; filled_by: which CTAs fill; late_empty_wait: a producer issues
    its copies before it waits for the slot; release_twice: a consumer releases its last slot again; no_full_wait: a
    consumer does not look at its full barrier (in the schedules tried, the bytes are there); ending: how a CTA ends.
    """

    release_to: tuple[tuple[int, ...], tuple[int, ...]] = ((0, 1), (0, 1))
    filled_by: tuple[int, ...] = (0, 1)
    late_empty_wait: bool = False
    release_twice: bool = False
    no_full_wait: bool = False
    ending: str = "sync"

    @property
    def releases(self) -> int:
        return len(self.release_to[0])


def slot(stage: int) -> ev.Ranges:
    return ((stage * 1024, stage * 1024 + 2 * HALF_BYTES),)


def half(stage: int, which: int) -> ev.Ranges:
    begin = stage * 1024 + which * HALF_BYTES
    return ((begin, begin + HALF_BYTES),)


def stream(ring: Ring, seed: int, fills: int) -> list[ev.Event]:
    sim = Simulator(seed)

    def setup(w: ev.WarpActor) -> Program:
        if w in PRODUCERS:
            for stage in range(STAGES):
                yield lambda stage=stage: sim.init(w, FULL + 8 * stage, 1)
                yield lambda stage=stage: sim.init(w, EMPTY + 8 * stage, ring.releases)
            yield lambda: sim.emit(ev.MemoryFence(w, "mbarrier_init", "cluster", at(2)))
        yield from sim.cluster_sync(w, 4, 3, relaxed=True)

    def finish(w: ev.WarpActor) -> Program:
        if ring.ending == "drain" and w in PRODUCERS:
            # The producer waits until every slot is released, so that the peer's arrivals find the CTA alive.
            for index in range(fills, fills + STAGES):
                parity = (index // STAGES & 1) ^ 1
                yield lambda index=index, parity=parity: sim.wait(w, EMPTY + 8 * (index % STAGES), parity, 80)
        elif ring.ending in ("sync", "relaxed sync"):
            yield from sim.cluster_sync(w, 4, 90, relaxed=ring.ending == "relaxed sync")

    def produce(w: ev.WarpActor) -> Program:
        yield from setup(w)
        for index in range(fills):
            stage, round_ = index % STAGES, index // STAGES
            full, empty, parity = FULL + 8 * stage, EMPTY + 8 * stage, (round_ & 1) ^ 1
            mine, whole = half(stage, w.cta), slot(stage)
            if not ring.late_empty_wait:
                yield lambda empty=empty, parity=parity: sim.wait(w, empty, parity, 10)
            else:
                yield lambda empty=empty, round_=round_: sim.barriers[w.cta, empty].phase >= round_
            yield lambda full=full: sim.arrive(w, full, 11, bytes_=2 * HALF_BYTES)
            if len(ring.filled_by) == 2:
                yield lambda full=full, r=mine: sim.load(w, r, HALF_BYTES, full, 12, ctas=(0, 1))
            elif w.cta in ring.filled_by:
                yield lambda full=full, r=whole: sim.load(w, r, 2 * HALF_BYTES, full, 12, ctas=(0, 1))
            if ring.late_empty_wait:
                yield lambda empty=empty, parity=parity: sim.wait(w, empty, parity, 10)
        yield from finish(w)

    def consume(w: ev.WarpActor) -> Program:
        yield from setup(w)
        for index in range(fills):
            stage, round_ = index % STAGES, index // STAGES
            full = FULL + 8 * stage
            if not ring.no_full_wait:
                yield lambda full=full, parity=round_ & 1: sim.wait(w, full, parity, 20)
            else:
                yield lambda full=full, round_=round_: sim.barriers[w.cta, full].phase > round_
            yield lambda stage=stage: sim.emit(ev.Access(w, "shared", w.cta, slot(stage), False, "generic", at(21)))
            yield lambda: sim.emit(ev.ProxyFence(w, "shared", at(22)))
            for cta in ring.release_to[w.cta]:
                yield lambda stage=stage, cta=cta: sim.arrive(w, EMPTY + 8 * stage, 23, cta=cta)
            if ring.release_twice and index == fills - 1:
                yield lambda stage=stage: sim.arrive(w, EMPTY + 8 * stage, 24, cta=1 - w.cta)
        yield from finish(w)

    return sim.run({**{w: produce(w) for w in PRODUCERS}, **{w: consume(w) for w in CONSUMERS}})


def judge(events: list[ev.Event]) -> tuple[set[str], tuple[str, ...]]:
    happens_before = HappensBefore(PAIR)
    for event in events:
        happens_before.feed(event)
    return {finding.code for finding in happens_before.finish()}, happens_before.doubts


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(1, 9), st.sampled_from(["sync", "drain"]))
def test_a_multicast_ring_is_clean_in_every_schedule(seed: int, fills: int, ending: str) -> None:
    codes, doubts = judge(stream(Ring(ending=ending), seed, fills))
    assert codes == set()
    assert doubts == ()


BROKEN = {
    # A slot's bytes may be overwritten, and counted a phase early, while the peer still reads them.
    "released in the own CTA only": (Ring(release_to=((0,), (1,))), {"TX102", "TM101"}),
    # Nothing of CTA 1 comes back to the consumer of CTA 0, which may release CTA 1's slot twice in a phase.
    "filled by one CTA alone": (Ring(filled_by=(0,)), {"MB107"}),
    # The copy is no longer issued after the wait: what the copy's bytes prove is less.
    "copies issued before the wait": (Ring(late_empty_wait=True), {"MB107", "TM101"}),
    "slots read without a wait": (Ring(no_full_wait=True), {"MB107", "MB111"}),
    "CTAs end without a word": (Ring(ending="none"), {"CL103"}),
    # Arrivals that were executed need not have been performed when a relaxed barrier lets the owner go.
    "a relaxed barrier at the end": (Ring(ending="relaxed sync"), {"CL103"}),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("seed", range(4))
def test_a_broken_cluster_ring_is_refuted(name: str, seed: int) -> None:
    ring, expected = BROKEN[name]
    codes, _ = judge(stream(ring, seed, 6))
    assert codes & expected == expected, codes


def test_a_second_release_is_seen() -> None:
    """It would count in the next phase, which has begun when all releases of this one are in."""
    found = [judge(stream(Ring(release_twice=True), seed, 6))[0] for seed in range(8)]
    assert all(codes & {"MB107", "MB110", "MB106"} for codes in found), found
