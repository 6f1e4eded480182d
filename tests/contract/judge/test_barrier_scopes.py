"""An mbarrier orders memory between CTAs of a cluster only if both sides name the cluster's scope (PTX ISA 8.7, 8.9).

Two CTAs hand each other data through shared memory, as text; and by streams of events, each side's scope by itself.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.contract.event_stream import at
from tests.contract.judged_stream import (
    BAR,
    INIT_FENCE,
    PAIR,
    PEER,
    TILE,
    W,
    access,
    arrive,
    cluster_sync,
    end,
    ends,
    init,
    wait,
)

from tilewright.base.diagnostic import Level
from tilewright.base.plan import Launch, PointerParam
from tilewright.base.verdict import Proven, Refuted, Verdict
from tilewright.contract.judge.happens_before import HappensBefore, Interpretations
from tilewright.contract.judge.order.out_of_scope_order import OutOfScopeOrder
from tilewright.contract.judge.vector_clock import Tracks, VectorClock
from tilewright.contract.replay.replay import replay
from tilewright.contract.rules.interpretations import strict, tolerant
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core import event as ev

ROUNDS = 3


def exchange_text(full: str, seen: str, empty: str, free: str) -> str:
    """Each CTA writes into a slot of the other, ROUNDS times, and adds up what it was given.

    full, empty: how a thread tells the peer that the slot is written, and read; seen, free: how that is waited for.
    """
    head = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry exchange(.param .u64 out) .reqntid 32 .reqnctapercluster 2 {
.reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<4>; .reg .f32 %f<4>;
.shared .align 16 .b8 slot[128];
.shared .align 8 .b8 bars[16];
mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank; xor.b32 %r3, %r2, 1;
mov.u32 %r4, bars; shl.b32 %r5, %r1, 2; mov.u32 %r6, slot; add.u32 %r6, %r6, %r5;
setp.ne.u32 %p1, %r1, 0;
@!%p1 mbarrier.init.shared::cta.b64 [%r4], 1;
@!%p1 mbarrier.init.shared::cta.b64 [%r4+8], 1;
@!%p1 fence.mbarrier_init.release.cluster;
barrier.cluster.arrive.release; barrier.cluster.wait.acquire;
mapa.shared::cluster.u32 %r7, %r6, %r3;
mapa.shared::cluster.u32 %r8, %r4, %r3;
mov.f32 %f1, 0f00000000; mov.f32 %f2, 0f3F800000;
"""
    rounds = "".join(
        f"""FREE{index}:
mbarrier.try_wait.parity{free}.shared::cta.b64 %p2, [%r4+8], {(index & 1) ^ 1};
@!%p2 bra FREE{index};
st.shared::cluster.f32 [%r7], %f2;
bar.warp.sync 0xffffffff;
@!%p1 mbarrier.arrive{full}.shared::cluster.b64 _, [%r8];
SEEN{index}:
mbarrier.try_wait.parity{seen}.shared::cta.b64 %p2, [%r4], {index & 1};
@!%p2 bra SEEN{index};
ld.shared.f32 %f3, [%r6];
add.f32 %f1, %f1, %f3;
bar.warp.sync 0xffffffff;
@!%p1 mbarrier.arrive{empty}.shared::cluster.b64 _, [%r8+8];
"""
        for index in range(ROUNDS)
    )
    tail = """barrier.cluster.arrive.release; barrier.cluster.wait.acquire;
ld.param.u64 %rd1, [out]; mad.lo.u32 %r9, %r2, 32, %r1; mul.wide.u32 %rd2, %r9, 4; add.u64 %rd1, %rd1, %rd2;
st.global.f32 [%rd1], %f1;
ret;
}
"""
    return head + rounds + tail


def judge(text: str, interpretations: Interpretations | None = None) -> Verdict:
    launch = Launch("exchange", (2, 1, 1), (32, 1, 1), (PointerParam("out"),), (2, 1, 1))
    return replay(
        read(text, "exchange.ptx"),
        launch,
        {"out": np.zeros(256, np.uint8)},
        seeds=(0, 1),
        interpretations=interpretations,
    )


def codes(verdict: Verdict) -> set[str]:
    assert isinstance(verdict, Refuted), verdict
    return {finding.code for finding in verdict.findings}


def stored_text(waits: tuple[str, ...]) -> str:
    """Each lane stores a word to the peer by st.async, and reads the one that it was given, after these waits."""
    head = exchange_text("", "", "", "").split("FREE0:")[0]
    waiting = "".join(
        f"SEEN{index}:\nmbarrier.try_wait.parity{wait}.shared::cta.b64 %p2, [%r4], 0;\n@!%p2 bra SEEN{index};\n"
        for index, wait in enumerate(waits)
    )
    return f"""{head}
@!%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 128;
st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%r7], %f2, [%r8];
{waiting}
ld.shared.f32 %f1, [%r6];
barrier.cluster.arrive.release; barrier.cluster.wait.acquire;
ld.param.u64 %rd1, [out]; mad.lo.u32 %r9, %r2, 32, %r1; mul.wide.u32 %rd2, %r9, 4; add.u64 %rd1, %rd1, %rd2;
st.global.f32 [%rd1], %f1;
ret;
}}
"""


@pytest.mark.parametrize("waits", [(".acquire.cluster",), ("", ".acquire.cluster"), (".acquire.cluster", "")])
def test_what_a_peer_stores_asynchronously_is_seen_by_a_wait_of_the_clusters_scope(waits: tuple[str, ...]) -> None:
    assert isinstance(judge(stored_text(waits), strict()), Proven)


@pytest.mark.parametrize("waits", [("",), (".acquire.cta",), ("", ".relaxed.cluster")])
def test_by_a_wait_of_the_ctas_scope_that_is_contested(waits: tuple[str, ...]) -> None:
    assert codes(judge(stored_text(waits), strict())) == {"CL104"}
    assert isinstance(judge(stored_text(waits), tolerant()), Proven)


WIDE = (".release.cluster", ".acquire.cluster", ".release.cluster", ".acquire.cluster")


def with_side(place: int, scope: str) -> str:
    full, seen, empty, free = (scope if index == place else wide for index, wide in enumerate(WIDE))
    return exchange_text(full, seen, empty, free)


@pytest.mark.parametrize("interpretations", [None, strict(), tolerant()])
def test_an_exchange_at_the_scope_of_the_cluster_is_proven(interpretations: Interpretations | None) -> None:
    assert isinstance(judge(exchange_text(*WIDE), interpretations), Proven)


@pytest.mark.parametrize("interpretations", [None, strict(), tolerant()])
@pytest.mark.parametrize(("place", "scope"), [(0, ".release.cta"), (0, ""), (1, ".acquire.cta"), (1, "")])
def test_data_handed_over_at_the_scope_of_a_cta_races(
    place: int, scope: str, interpretations: Interpretations | None
) -> None:
    verdict = judge(with_side(place, scope), interpretations)
    assert "CL104" in codes(verdict)
    assert isinstance(verdict, Refuted)
    found = next(finding for finding in verdict.findings if finding.code == "CL104")
    assert any("scope of the CTA" in step for step in found.interleaving), found


@pytest.mark.parametrize(("place", "scope"), [(2, ".release.cta"), (2, ""), (3, ".acquire.cta"), (3, "")])
def test_a_slot_given_back_after_reads_at_the_scope_of_a_cta_is_contested(place: int, scope: str) -> None:
    text = with_side(place, scope)
    assert codes(judge(text)) == codes(judge(text, strict())) == {"CL104"}
    mild = judge(text, tolerant())
    assert isinstance(mild, Proven)


def test_a_relaxed_arrival_is_no_narrow_one() -> None:
    """It publishes nothing, so the race is one without any edge."""
    relaxed = judge(with_side(0, ".relaxed.cluster"), tolerant())
    assert "NB101" in codes(relaxed)


# ---------------------------------------------------------------- by events

PAIRED = (W[0], W[1], PEER[0], PEER[1])
START = [init(), INIT_FENCE, *cluster_sync(PAIRED)]
"""A barrier in CTA 0, which the peer knows."""


def handed(release: str, acquire: str, phase: int = 0) -> list[ev.Event]:
    """CTA 1's first warp tells CTA 0's second one."""
    told = replace(arrive(PEER[0], phase, 20), scope=release)
    return [told, end(phase), replace(wait(W[1], phase, 21), scope=acquire)]


def found(events: list[ev.Event], interpretations: Interpretations | None = None) -> dict[str, Level]:
    judge_ = HappensBefore(PAIR, interpretations)
    for event in [*events, *cluster_sync(PAIRED), *ends(*PAIRED)]:
        judge_.feed(event)
    assert judge_.finish() is not None and not judge_.doubts
    return {finding.code: finding.level for finding in judge_.findings}


SCOPES = [(a, b) for a in ("cta", "cluster") for b in ("cta", "cluster")]


@pytest.mark.parametrize("scopes", SCOPES)
def test_both_sides_must_name_the_cluster(scopes: tuple[str, str]) -> None:
    write = access(PEER[0], True, 10, cta=0)
    events = [*START, write, *handed(*scopes), access(W[1], False, 30)]
    assert found(events) == ({} if scopes == ("cluster", "cluster") else {"CL104": Level.ERROR})


@pytest.mark.parametrize("scopes", SCOPES)
def test_within_a_cta_its_scope_is_enough(scopes: tuple[str, str]) -> None:
    told = replace(arrive(W[0], 0, 20), scope=scopes[0])
    events = [*START, access(W[0], True, 10), told, end(0), replace(wait(W[1], 0, 21), scope=scopes[1])]
    assert found([*events, access(W[1], True, 30)]) == {}


def test_knowledge_survives_a_narrow_edge_after_a_wide_one() -> None:
    """Causality order is transitive: what CTA 0 learnt at cluster scope goes on within it at CTA scope."""
    second = BAR + 64
    narrow = [arrive(W[1], 0, 22), end(0), wait(W[0], 0, 23)]
    on = [replace(event, address=second, **({} if event is narrow[1] else {"scope": "cta"})) for event in narrow]
    start = [init(address=second), *START, access(PEER[0], True, 10, cta=0)]
    assert found([*start, *handed("cluster", "cluster"), *on, access(W[0], False, 30)]) == {}
    heard = found([*start, *handed("cta", "cluster"), *on, access(W[0], False, 30)])
    assert heard == {"CL104": Level.ERROR}


def test_hearsay_of_hearsay_through_a_wide_edge_is_still_hearsay() -> None:
    barrier = replace(init(w=PEER[0]), cta=1)
    start = [init(), INIT_FENCE, barrier, ev.MemoryFence(PEER[0], "mbarrier_init", "cluster", at(2))]
    back = [arrive(W[1], 0, 40, cta=1), end(0, cta=1), wait(PEER[1], 0, 41)]
    events = [*start, *cluster_sync(PAIRED), access(PEER[0], True, 10, cta=0), *handed("cta", "cluster"), *back]
    assert found([*events, access(PEER[1], False, 50, cta=0)]) == {"CL104": Level.ERROR}


@pytest.mark.parametrize("interpretations", [Interpretations(), tolerant()])
def test_ordinary_reads_before_a_narrow_release_are_contested(interpretations: Interpretations) -> None:
    events = [*START, access(PEER[0], False, 10, cta=0), *handed("cta", "cta"), access(W[1], True, 30)]
    assert found(events, interpretations) == {"CL104": interpretations.narrow_release}


def test_what_a_tensor_core_has_read_is_done_whatever_the_scope() -> None:
    """A peer's slot, read by wgmma and released by an arrival that names no scope, is filled again by a multicast."""
    four = tuple(ev.WarpActor(1, index) for index in range(4))
    everyone = (*W[:2], *four)
    operation = ev.TensorCoreActor(0)
    multiplied: list[ev.Event] = [
        *(ev.WgmmaFence(warp, at(10)) for warp in four),
        *(ev.WgmmaIssue(warp, operation, ("%f0",), (), TILE, at(11)) for warp in four),
        *(ev.WgmmaCommit(warp, 0, (operation,), at(12)) for warp in four),
    ]
    waited = [ev.WgmmaWait(warp, 0, at(13)) for warp in four]
    told = replace(arrive(four[0], 0, 20), scope="cta")
    peers = ev.BarrierInit(four[0], 1, BAR + 64, 1, at(1))
    fill: list[ev.Event] = [
        told, end(0), replace(wait(W[1], 0, 21), scope="cta"),
        ev.CopyIssue(W[1], 0, ev.CopyActor(0), "load", (1,), TILE, 512, BAR + 64, at(30), barrier_ctas=(1,)),
        ev.Access(ev.CopyActor(0), "shared", 1, TILE, True, "async", at(30)),
    ]  # fmt: skip
    start = [init(), INIT_FENCE, peers, ev.MemoryFence(four[0], "mbarrier_init", "cluster", at(2))]

    def found_here(events: list[ev.Event]) -> set[str]:
        judge_ = HappensBefore(replace(PAIR, block=(128, 1, 1)), strict())
        for event in [*start, *cluster_sync(everyone), *events]:
            judge_.feed(event)
        return {finding.code for finding in judge_.findings}

    assert found_here([*multiplied, *waited, *fill]) == set()
    assert "WG105" in found_here([*multiplied, *fill])


def test_an_owner_that_saw_the_phase_end_may_leave() -> None:
    """A phase that has ended has counted its arrivals, though a narrow one publishes nothing."""

    def codes_at_exit(waits: bool) -> set[str]:
        judge_ = HappensBefore(PAIR)
        told = handed("cta", "cta")
        for event in [*START, *(told if waits else told[:2]), *ends(*PAIRED)]:
            judge_.feed(event)
        return {finding.code for finding in judge_.finish()}

    assert codes_at_exit(True) == set()
    assert codes_at_exit(False) == {"CL103"}


SECOND = BAR + 64
TWO = [init(), init(address=SECOND), INIT_FENCE, *cluster_sync(PAIRED)]
MILD = {Interpretations(): Level.ERROR, tolerant(): Level.REVIEW}


def told_of(address: int, phase: int = 0) -> list[ev.Event]:
    """As `handed`, at the scope of a CTA, by a barrier at another address of CTA 0."""
    return [replace(event, address=address) for event in handed("cta", "cta", phase)]


@pytest.mark.parametrize("interpretations", MILD)
def test_an_arrival_before_a_narrow_one_that_was_waited_for_is_contested(interpretations: Interpretations) -> None:
    """The owner waits for the peer's last arrival alone, as it goes."""

    def at_exit(waits: bool) -> dict[str, Level]:
        judge_ = HappensBefore(PAIR, interpretations)
        first = handed("cta", "cta")[:2]
        for event in [*TWO, *first, *told_of(SECOND)[: 3 if waits else 2], *ends(*PAIRED)]:
            judge_.feed(event)
        return {finding.code: finding.level for finding in judge_.finish()}

    assert at_exit(True) == {"CL103": MILD[interpretations]}
    assert at_exit(False) == {"CL103": Level.ERROR}


@pytest.mark.parametrize("interpretations", MILD)
def test_contributions_that_were_only_heard_of_are_contested(interpretations: Interpretations) -> None:
    """Who arrives for the next phase has not waited for the one before, and knows its contributions by hearsay."""
    first = handed("cta", "cta")[:2]
    again = [arrive(W[1], 1, 40), end(1), wait(W[1], 1, 41)]
    assert found([*TWO, *first, *told_of(SECOND), *again], interpretations)["MB107"] is MILD[interpretations]
    assert found([*TWO, *first, *again], interpretations)["MB107"] is Level.ERROR


@pytest.mark.parametrize("interpretations", MILD)
@pytest.mark.parametrize("fenced", [True, False])
def test_an_init_that_was_only_heard_of_is_contested_if_a_fence_published_it(
    interpretations: Interpretations, fenced: bool
) -> None:
    late: list[ev.Event] = [replace(init(w=PEER[0]), cta=1)]
    late += [ev.MemoryFence(PEER[0], "mbarrier_init", "cluster", at(2))] if fenced else []
    use = [arrive(W[1], 0, 40, cta=1), end(0, cta=1), wait(PEER[0], 0, 41)]
    levels = found([*START, *late, *handed("cta", "cta"), *use], interpretations)
    assert levels["MB104"] is (MILD[interpretations] if fenced else Level.ERROR)


def test_lanes_that_arrive_together_are_heard_of_together() -> None:
    """One instruction gives back slots of both CTAs; who hears of one arrival hears of the other."""
    own = replace(init(w=PEER[0]), cta=1)
    start = [init(), INIT_FENCE, own, ev.MemoryFence(PEER[0], "mbarrier_init", "cluster", at(2)), *cluster_sync(PAIRED)]
    both = [replace(arrive(PEER[0], 0, 20), scope="cta"), arrive(PEER[0], 0, 20, cta=1)]
    heard = [end(0), end(0, cta=1), replace(wait(W[1], 0, 21), scope="cta")]
    on = [arrive(W[1], 1, 40, cta=1), end(1, cta=1), wait(PEER[0], 1, 41)]
    assert found([*start, *both, *heard, *on], tolerant())["MB107"] is Level.REVIEW


def test_hearsay_is_kept_beside_knowledge() -> None:
    tracks = Tracks()
    first, second = tracks.of("a"), tracks.of("b")
    out_of_scope = OutOfScopeOrder(tracks)
    clock = VectorClock()
    clock.advance(first, 5)
    assert not out_of_scope
    heard = out_of_scope.of(clock)
    assert out_of_scope and heard.at(first) == 0 and out_of_scope.believed(heard).at(first) == 5
    heard.advance(second, 2)
    again = out_of_scope.of(heard)
    assert (again.at(first), again.at(second)) == (0, 0)
    assert [out_of_scope.believed(again).at(track) for track in (first, second)] == [5, 2]
