"""Who did what, in what order, in one run? Its events as a timeline of roles, cut to what a finding is about.

Warps have the roles that findings name (`contract.judge.roles`). The copy engine and the tensor core have lanes of
their own, in which an operation lasts from its issue to the event that reports its completion. Time counts marks.

Where there are findings, what is kept is the neighbourhood of the first one's places; else the run's beginning.
Checked by: tests/driver/check/test_role_timeline.py.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.span import Span
from tilewright.base.timeline import Arrow, Mark, MarkKind, Timeline
from tilewright.contract.judge.roles import Roles
from tilewright.machine.core.event import (
    Access,
    AsyncCopyIssue,
    AsyncCopyWait,
    BarrierArrive,
    BarrierComplete,
    BarrierExpect,
    BarrierInit,
    BarrierWait,
    BulkCommit,
    BulkWait,
    ClusterArrive,
    ClusterWait,
    CommitArrive,
    CopyIssue,
    Event,
    Exit,
    MemoryFence,
    NamedBarrier,
    NamedBarrierArrive,
    PhaseEnd,
    ProxyFence,
    TensorMemoryCommit,
    TensorMemoryFence,
    TensorMemoryIssue,
    TensorMemoryWait,
    WarpActor,
    WgmmaCommit,
    WgmmaFence,
    WgmmaIssue,
    WgmmaWait,
)

_KEPT_FIRST = 40_000
_KEPT_LAST = 4_000
_SHOWN = 400
"""Marks of a timeline that is shown."""
_BEFORE = 60
_WARPGROUP_WARPS = 4
_WARP = re.compile(r"\bCTA (\d+)(?: [a-z]+)*?(?: \d+)? warp (\d+)\b")
"""A warp as findings name it, with its role or without."""

Lane = tuple[str, int, int]
"""What ("warp", "copy engine", "tensor core"), which CTA, which warp or warpgroup (0 for the copy engine)."""


@dataclass(slots=True)
class _Raw:
    """A mark before it is known which are shown. source: the number of the mark that it waited for."""

    number: int
    lane: Lane
    begin: int
    end: int
    kind: MarkKind
    label: str
    span: Span | None
    source: int | None = None
    why: str = ""


@dataclass(slots=True)
class TimelineRecorder:
    """Feed it every event of a run in order, then ask for the timeline."""

    first: list[_Raw] = field(default_factory=list[_Raw])
    last: deque[_Raw] = field(default_factory=lambda: deque[_Raw](maxlen=_KEPT_LAST))
    now: int = 0
    _latest: dict[Lane, _Raw] = field(default_factory=dict[Lane, _Raw])
    _copies: dict[int, _Raw] = field(default_factory=dict[int, _Raw])
    _signals: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    _ended: dict[tuple[int, int, int], int] = field(default_factory=dict[tuple[int, int, int], int])
    _matrix: dict[Lane, list[_Raw]] = field(default_factory=dict[Lane, list[_Raw]])
    _roles: Roles = field(default_factory=Roles)

    def feed(self, event: Event) -> None:
        """Note one event."""
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event)

    def add(self, lane: Lane, kind: MarkKind, label: str, span: Span | None) -> _Raw:
        """A mark of one unit, now."""
        raw = _Raw(self.now, lane, self.now, self.now + 1, kind, label, span)
        self.now += 1
        if len(self.first) < _KEPT_FIRST:
            self.first.append(raw)
        else:
            self.last.append(raw)
        self._latest[lane] = raw
        return raw

    def by_warp(self, actor: WarpActor, kind: MarkKind, label: str, span: Span) -> _Raw:
        """A mark of a warp. The same instruction again and again, with nothing in between, is one mark."""
        lane = ("warp", actor.cta, actor.warp)
        before = self._latest.get(lane)
        if before is not None and kind in ("access", "wait") and (before.span, before.label) == (span, label):
            before.end = max(before.end, self.now)
            return before
        return self.add(lane, kind, label, span)

    # ---------------------------------------------------------------- events

    def access(self, event: Access) -> None:
        if isinstance(event.actor, WarpActor):
            verb = "atomic on" if event.atomic else "writes" if event.write else "reads"
            self.by_warp(event.actor, "access", f"{verb} {event.space}", event.span)

    def issue(self, event: CopyIssue) -> None:
        self.by_warp(event.actor, "copy", f"issues a {event.direction} of {event.bytes} bytes", event.span)
        self._roles.note(event.actor, event.direction)
        raw = self.add(
            ("copy engine", event.actor.cta, 0), "copy", f"{event.direction}s {event.bytes} bytes", event.span
        )
        self._copies[event.copy.copy] = raw

    def async_issue(self, event: AsyncCopyIssue) -> None:
        self.by_warp(event.actor, "copy", "issues cp.async", event.span)

    def complete(self, event: BarrierComplete) -> None:
        raw = self._copies.get(event.actor.copy)
        if raw is not None:
            raw.end = max(raw.end, self.now)
            self._signals[event.cta, event.address] = raw.number

    def arrive(self, event: BarrierArrive) -> None:
        words = f"arrives at barrier {event.address:#x} phase {event.phase}"
        if event.expect_bytes:
            words += f", expects {event.expect_bytes} bytes"
        raw = self.by_warp(event.actor, "signal", words, event.span)
        self._signals[event.cta, event.address] = raw.number

    def commit_arrive(self, event: CommitArrive) -> None:
        raw = self.add(
            ("tensor core", event.cta, 0), "signal", f"arrives at barrier {event.address:#x} phase {event.phase}",
            event.span,
        )  # fmt: skip
        self._signals[event.cta, event.address] = raw.number

    def phase_end(self, event: PhaseEnd) -> None:
        number = self._signals.get((event.cta, event.address))
        if number is not None:
            self._ended[event.cta, event.address, event.phase] = number

    def wait(self, event: BarrierWait) -> None:
        lane = ("warp", event.actor.cta, event.actor.warp)
        before = self._latest.get(lane)
        label = f"waited for barrier {event.address:#x} phase {event.phase}"
        if before is not None and before.span == event.span and before.label == label:
            return  # each of the lanes by itself
        raw = self.add(lane, "wait", label, event.span)
        raw.source = self._ended.get((event.cta, event.address, event.phase))
        raw.why = "ends the phase"
        if before is not None:
            raw.begin = min(max(before.end, raw.end - 40), raw.begin)

    def bulk_wait(self, event: BulkWait) -> None:
        self.by_warp(event.actor, "wait", f"waited for its bulk groups but {event.pending}", event.span)
        for raw in self._copies.values():
            if raw.lane[1] == event.actor.cta and raw.label.startswith("store") and event.pending == 0:
                raw.end = max(raw.end, self.now)

    def wgmma(self, event: WgmmaIssue) -> None:
        self._roles.note(event.actor, "wgmma")
        self.by_warp(event.actor, "matrix", "issues wgmma", event.span)
        if event.actor.warp % _WARPGROUP_WARPS == 0:
            lane = ("tensor core", event.actor.cta, event.actor.warp // _WARPGROUP_WARPS)
            self._matrix.setdefault(lane, []).append(self.add(lane, "matrix", "wgmma", event.span))

    def wgmma_wait(self, event: WgmmaWait) -> None:
        self.by_warp(event.actor, "wait", f"waited for its wgmma groups but {event.pending}", event.span)
        lane = ("tensor core", event.actor.cta, event.actor.warp // _WARPGROUP_WARPS)
        if event.pending == 0:
            for raw in self._matrix.pop(lane, []):
                raw.end = max(raw.end, self.now)

    def tensor_memory(self, event: TensorMemoryIssue) -> None:
        if event.kind in ("mma", "ld"):
            self._roles.note(event.actor, "mma" if event.kind == "mma" else "tensor load")
        self.by_warp(event.actor, "matrix", f"issues tcgen05.{event.kind}", event.span)
        if event.kind == "mma":
            self.add(("tensor core", event.actor.cta, 0), "matrix", "tcgen05.mma", event.span)

    def named(self, event: NamedBarrier) -> None:
        for actor in event.synchronized:
            self.by_warp(actor, "wait", f"passed barrier {event.barrier}", event.span)

    def exit(self, event: Exit) -> None:
        self.by_warp(event.actor, "work", "exits", event.span)

    # ---------------------------------------------------------------- the result

    def timeline(self, findings: Sequence[Diagnostic] = ()) -> Timeline:
        """What is worth showing: around the places of the first error (else of the first finding), or from the run's
        beginning."""
        marks = [*self.first, *self.last]
        errors = [finding for finding in findings if finding.level is Level.ERROR]
        marked = (errors or [*findings])[:1]
        places = [
            _Place(span, _warp_at(finding, span))
            for finding in marked
            for span in (finding.primary, finding.conflicts_with)
            if span
        ]
        chosen, named = _neighbourhood(marks, places)
        lanes = sorted({raw.lane for raw in chosen}, key=lambda lane: (lane[1], _ORDER[lane[0]], lane[2]))
        index = {raw.number: position for position, raw in enumerate(chosen)}
        start = min((raw.begin for raw in chosen), default=0)
        shown = tuple(
            Mark(
                lanes.index(raw.lane),
                max(raw.begin - start, 0),
                raw.end - start,
                "finding" if raw.number in named else raw.kind,
                raw.label,
                raw.span,
            )
            for raw in chosen
        )
        arrows = [
            Arrow(index[raw.source], position, raw.why)
            for position, raw in enumerate(chosen)
            if raw.source is not None and raw.source in index
        ]
        if len(named) == 2:
            first, second = sorted(named)
            arrows.append(Arrow(index[first], index[second], marked[0].code, conflict=True))
        omitted = self.now - len(chosen)
        return Timeline(tuple(self._lane_name(lane) for lane in lanes), shown, tuple(arrows), omitted)

    def _lane_name(self, lane: Lane) -> str:
        what, cta, number = lane
        if what != "warp":
            return f"CTA {cta} {what}" + (f" {number}" if what == "tensor core" and number else "")
        role = self._roles.role(WarpActor(cta, number))
        return f"CTA {cta} {role} warp {number}" if role else f"CTA {cta} warp {number}"


_ORDER = {"warp": 0, "copy engine": 1, "tensor core": 2}


def _neighbourhood(marks: Sequence[_Raw], places: Sequence[_Place]) -> tuple[list[_Raw], set[int]]:
    """The marks to show, in order, and the numbers of those that stand for the finding's places."""
    named = _pair([_at(marks, place) for place in places])
    if not named:
        chosen = list(marks[:_SHOWN]) if not places else list(marks[-_SHOWN:])
        return chosen, set()
    begin, position = max(0, min(named) - _BEFORE), max(named) + _BEFORE // 2
    ctas = {marks[index].lane[1] for index in named}
    window = [raw for raw in marks[begin:position] if raw.lane[1] in ctas]
    if len(window) > _SHOWN:
        # Far apart: what is near either place.
        near = {number for index in named for number in range(index - _SHOWN // 4, index + _SHOWN // 4)}
        window = [raw for number, raw in enumerate(marks) if number in near and raw.lane[1] in ctas]
    return window, {marks[index].number for index in named}


@dataclass(frozen=True, slots=True)
class _Place:
    """A place of a finding, and the warp that its words name there, if they name one."""

    span: Span
    warp: tuple[int, int] | None


def _warp_at(finding: Diagnostic, span: Span) -> tuple[int, int] | None:
    """The CTA and the warp of the step that names this place."""
    steps = (step for step in finding.interleaving if f"({span})" in step)
    found = next((match for step in steps if (match := _WARP.search(step)) is not None), None)
    return (int(found[1]), int(found[2])) if found is not None else None


def _at(marks: Sequence[_Raw], place: _Place) -> list[int]:
    """Where in `marks` the line of `place` is executed, by the warp that the finding names if it was that warp."""
    found = [index for index, raw in enumerate(marks) if raw.span is not None and raw.span.line == place.span.line]
    own = [index for index in found if place.warp is not None and marks[index].lane == ("warp", *place.warp)]
    return own or found


def _pair(candidates: Sequence[list[int]]) -> list[int]:
    """One index for each place: of the finding's own and the one it conflicts with, the nearest two in that order."""
    found = [indices for indices in candidates if indices]
    if len(found) < 2:
        return [indices[-1] for indices in found]
    own, other = found
    # What conflicts came first; where it never did, what follows next will do.
    earlier = [(index - other[at - 1], [other[at - 1], index]) for index in own if (at := bisect_left(other, index))]
    later = [
        (other[at] - index, [index, other[at]]) for index in own if (at := bisect_right(other, index)) < len(other)
    ]
    best = min(earlier or later, default=None)
    return best[1] if best is not None else [own[-1]]


def _said(kind: MarkKind, words: Callable[[Any], str]) -> Callable[[TimelineRecorder, Any], None]:
    """A handler for an event of a warp that needs no more than a word."""

    def handle(recorder: TimelineRecorder, event: Any) -> None:
        recorder.by_warp(event.actor, kind, words(event), event.span)

    return handle


_HANDLERS: dict[type, Callable[[TimelineRecorder, Any], None]] = {
    Access: TimelineRecorder.access,
    CopyIssue: TimelineRecorder.issue,
    AsyncCopyIssue: TimelineRecorder.async_issue,
    BarrierComplete: TimelineRecorder.complete,
    BarrierArrive: TimelineRecorder.arrive,
    CommitArrive: TimelineRecorder.commit_arrive,
    PhaseEnd: TimelineRecorder.phase_end,
    BarrierWait: TimelineRecorder.wait,
    BulkWait: TimelineRecorder.bulk_wait,
    WgmmaIssue: TimelineRecorder.wgmma,
    WgmmaWait: TimelineRecorder.wgmma_wait,
    TensorMemoryIssue: TimelineRecorder.tensor_memory,
    NamedBarrier: TimelineRecorder.named,
    Exit: TimelineRecorder.exit,
    BarrierInit: _said("signal", lambda event: f"initialises barrier {event.address:#x} for {event.count}"),
    BarrierExpect: _said("signal", lambda event: f"expects {event.expect_bytes} bytes at barrier {event.address:#x}"),
    BulkCommit: _said("signal", lambda event: "commits a bulk group"),
    AsyncCopyWait: _said("wait", lambda event: "waited for its cp.async groups"),
    WgmmaFence: _said("signal", lambda event: "wgmma.fence"),
    WgmmaCommit: _said("signal", lambda event: "commits a wgmma group"),
    ProxyFence: _said("signal", lambda event: "fence.proxy.async"),
    MemoryFence: _said("signal", lambda event: f"fence {event.scope}"),
    NamedBarrierArrive: _said("signal", lambda event: f"arrives at barrier {event.barrier}"),
    ClusterArrive: _said("signal", lambda event: "arrives at the cluster's barrier"),
    ClusterWait: _said("wait", lambda event: "passed the cluster's barrier"),
    TensorMemoryWait: _said("wait", lambda event: f"waited for its tcgen05.{event.kind}"),
    TensorMemoryCommit: _said("signal", lambda event: "tcgen05.commit"),
    TensorMemoryFence: _said("signal", lambda event: f"tcgen05.fence {event.side}"),
}
