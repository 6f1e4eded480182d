"""Short streams of events by hand, and what the judge says of them."""

from __future__ import annotations

from tests.contract.event_stream import at

from tilewright.base.diagnostic import Level
from tilewright.base.plan import Launch
from tilewright.contract.judge.happens_before import HappensBefore, Interpretations
from tilewright.machine.core import event as ev

BAR = 0x2000
W = tuple(ev.WarpActor(0, index) for index in range(4))
PEER = tuple(ev.WarpActor(1, index) for index in range(2))
ONE = Launch("k", (1, 1, 1), (128, 1, 1), ())
PAIR = Launch("k", (2, 1, 1), (64, 1, 1), (), (2, 1, 1))
APART = Launch("k", (2, 1, 1), (64, 1, 1), ())
TILE = ((0, 512),)
INIT_FENCE = ev.MemoryFence(W[0], "mbarrier_init", "cluster", at(2))


def codes(events: list[ev.Event], launch: Launch = ONE, interpretations: Interpretations | None = None) -> set[str]:
    judge = HappensBefore(launch, interpretations)
    for event in events:
        judge.feed(event)
    return {finding.code for finding in judge.finish()}


def levels(events: list[ev.Event], interpretations: Interpretations | None = None) -> set[Level]:
    judge = HappensBefore(ONE, interpretations)
    for event in events:
        judge.feed(event)
    return {finding.level for finding in judge.finish()}


def doubts(events: list[ev.Event], launch: Launch = ONE) -> tuple[str, ...]:
    judge = HappensBefore(launch)
    for event in events:
        judge.feed(event)
    judge.finish()
    return judge.doubts


def sync(warps: tuple[ev.WarpActor, ...], barrier: int = 0, line: int = 5) -> list[ev.Event]:
    """bar.sync by all of `warps`."""
    arrivals: list[ev.Event] = [ev.NamedBarrierArrive(warp, warp.cta, barrier, True, at(line)) for warp in warps]
    return [*arrivals, ev.NamedBarrier(warps[0].cta, barrier, warps, (), at(line))]


def cluster_sync(warps: tuple[ev.WarpActor, ...], relaxed: bool = False) -> list[ev.Event]:
    return [
        *(ev.ClusterArrive(warp, 0, relaxed, at(6)) for warp in warps),
        ev.ClusterBarrier(0, warps, relaxed, at(6)),
        *(ev.ClusterWait(warp, 0, at(7)) for warp in warps),
    ]


def ends(*warps: ev.WarpActor) -> list[ev.Event]:
    return [ev.Exit(warp, at(999)) for warp in warps]


def access(w: ev.WarpActor, write: bool, line: int, ranges: ev.Ranges = TILE, cta: int | None = None) -> ev.Access:
    return ev.Access(w, "shared", w.cta if cta is None else cta, ranges, write, "generic", at(line))


def init(count: int = 1, w: ev.WarpActor = W[0], address: int = BAR) -> ev.BarrierInit:
    return ev.BarrierInit(w, w.cta, address, count, at(1))


def arrive(
    w: ev.WarpActor, phase: int, line: int, *, count: int = 1, bytes_: int = 0, cta: int = 0, relaxed: bool = False,
) -> ev.BarrierArrive:  # fmt: skip
    return ev.BarrierArrive(w, cta, BAR, phase, count, bytes_, at(line), relaxed=relaxed)


def wait(w: ev.WarpActor, phase: int, line: int, relaxed: bool = False) -> ev.BarrierWait:
    return ev.BarrierWait(w, w.cta, BAR, phase & 1, phase, at(line), relaxed)


def end(phase: int, cta: int = 0) -> ev.PhaseEnd:
    return ev.PhaseEnd(cta, BAR, phase)


def hand_over(line: int = 20, relaxed: bool = False) -> list[ev.Event]:
    """Warp 0 signals warp 1 through a fresh barrier."""
    return [init(), *sync(W[:2]), arrive(W[0], 0, line, relaxed=relaxed), end(0), wait(W[1], 0, line + 1)]


def load(w: ev.WarpActor, copy: int, line: int, ranges: ev.Ranges = TILE, ctas: tuple[int, ...] = (0,)) -> ev.CopyIssue:
    return ev.CopyIssue(w, 0, ev.CopyActor(copy), "load", ctas, ranges, 512, BAR, at(line))


def done(copy: int, phase: int, line: int, cta: int = 0, bytes_: int = 512) -> list[ev.Event]:
    actor = ev.CopyActor(copy)
    return [
        ev.Access(actor, "shared", cta, TILE, True, "async", at(line)),
        ev.BarrierComplete(actor, cta, BAR, phase, bytes_, at(line)),
    ]
