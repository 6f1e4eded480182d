"""Rows of wgmmas that are one step: what is told of them, and judged, is that of runs in which each is a step."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.end_to_end.compiled_programs import emitted
from tests.end_to_end.text_edits import Edit, drop, move, repeat, rewrite
from tests.end_to_end.text_fuzz import mutate_text

from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.base.verdict import Refuted
from tilewright.contract.replay.replay import replay
from tilewright.contract.replay.unwritten import unwritten_buffers
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core import program
from tilewright.machine.core.event import Event, WarpActor, WgmmaIssue, WgmmaRow
from tilewright.machine.core.run import run_launch
from tilewright.machine.core.state import Counts
from tilewright.machine.core.step import Step
from tilewright.machine.events_only.dropped_values import DroppedValues, ValueNeeded
from tilewright.machine.tensor_core.warpgroup import (
    NO_RESULT,
    MatrixInstruction,
    Operation,
    Warpgroup,
    WarpMatrixState,
    row_form,
)
from tilewright.machine.tensor_core.wgmma_registers import fencing, settle, write_back

NAME = "one-group"


def step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def apart(steps: Sequence[Step], *_arguments: object) -> list[Step]:
        return list(steps)

    monkeypatch.setattr(program, "join_rows", apart)


def events_of(text: str, seed: int) -> list[Event]:
    plan = emitted(NAME).plan
    events: list[Event] = []
    buffers = {each.name: np.zeros(max(1, each.span_bytes), np.uint8) for each in plan.buffers}
    dropped = DroppedValues({each.name for each in plan.buffers}, joins=True)
    run_launch(
        read(text, "k.ptx"), plan.launches[-1], buffers, seed=seed, observe=events.append, dropped=dropped,
        step_limit=100_000,
    )  # fmt: skip
    return events


def issued(events: list[Event]) -> dict[WarpActor, list[tuple[object, ...]]]:
    """What each warp issues, in order, but for the operations' numbers, which follow the order among warps."""
    found: dict[WarpActor, list[tuple[object, ...]]] = {}
    for event in events:
        match event:
            case WgmmaIssue():
                issues = [event]
            case WgmmaRow():
                issues = [event.issue(number) for number in range(len(event.forms))]
            case _:
                continue
        for each in issues:
            found.setdefault(each.actor, []).append(
                (each.accumulator, each.shared, each.span, each.own_rows, each.matrices, each.accumulates, each.taken)
            )
    return found


@pytest.mark.parametrize("seed", [0, 3])
def test_a_row_tells_of_each_of_its_wgmmas(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = emitted(NAME).text
    joined = events_of(text, seed)
    rows = [event for event in joined if isinstance(event, WgmmaRow)]
    assert len(rows) > 8 and {len(row.forms) for row in rows} == {4}
    step_by_step(monkeypatch)
    apart = events_of(text, seed)
    assert not any(isinstance(event, WgmmaRow) for event in apart)
    assert issued(joined) == issued(apart)


def test_warps_that_issue_different_wgmmas_are_refused() -> None:
    # The last operand of a row depends on the warp.
    text = emitted(NAME).text
    of_warp = r"shr.u32 %r0, %r2, 5; cvt.u64.u32 \1, %r0; mad.lo.s64 \1, \1, 2, \2;"
    lines = rewrite(r"add\.s64 (%rd\d+), (%rd\d+), 6;", of_warp, 1)(text.split("\n"))
    with pytest.raises(TilewrightError, match="different wgmmas"):
        events_of("\n".join(lines), 0)


def verdict_of(text: str, name: str = NAME, *, joins: bool = True) -> tuple[str, frozenset[str]]:
    """The kind of verdict, and the codes of its findings."""
    plan = emitted(name).plan
    buffers = {each.name: np.zeros(max(1, each.span_bytes), np.uint8) for each in plan.buffers}
    try:
        verdict = replay(
            read(text, "k.ptx"), plan.launches[-1], buffers, unwritten=unwritten_buffers(plan), step_limit=100_000,
            dropped=DroppedValues({each.name for each in plan.buffers}, joins=joins),
        )  # fmt: skip
    except ValueNeeded:
        return "values", frozenset()
    except TilewrightError:
        return "not run", frozenset()
    codes = frozenset(each.code for each in verdict.findings) if isinstance(verdict, Refuted) else frozenset[str]()
    return type(verdict).__name__, codes


def test_what_is_done_at_once_is_judged_as_what_is_done_by_and_by() -> None:
    # Copies and wgmmas that are carried out at once, and rows, against runs in which nothing is joined.
    kinds: set[str] = set()
    for seed in range(7000, 7008):
        text, done = mutate_text(emitted("cluster-2x1").text, Random(seed), 1 + seed % 2)
        kind, _ = verdict_of(text, "cluster-2x1")
        assert kind == verdict_of(text, "cluster-2x1", joins=False)[0], (seed, done)
        kinds.add(kind)
    assert {"Proven", "Refuted"} <= kinds


def both(text: str, monkeypatch: pytest.MonkeyPatch) -> tuple[tuple[str, frozenset[str]], tuple[str, frozenset[str]]]:
    joined = verdict_of(text)
    with monkeypatch.context() as patched:
        step_by_step(patched)
        return joined, verdict_of(text)


MMA, RELEASE = r"wgmma\.mma_async", r"mbarrier\.arrive\.release\.cta"
BY_HALF_OF_THE_WARPS = (
    rewrite(r"(\.reg \.pred .*)", r"\1 .reg .pred %half; .reg .b32 %own;"),
    rewrite(
        r"(wgmma\.fence\.sync\.aligned;)",
        r"\1 and.b32 %own, %r2, 32; setp.eq.u32 %half, %own, 0; @%half mov.f32 %f3, 0f00000000;",
    ),
)
"""Their rows have something to report, so that they issue each wgmma by itself, and the others all as one."""
EDITS: dict[str, tuple[Edit, ...]] = {
    "right": (),
    "a slot is released before its reads are done": (rewrite(r"(wait_group\.sync\.aligned) 1", r"\1 2"),),
    "a slot is released within a row": (move(RELEASE, 0, MMA, 6),),
    "a wgmma reads another slot": (rewrite(r"(add\.s64 %rd\d+, %rd\d+), 2;", r"\1, 514;", 0),),
    "a wgmma reads bytes that nobody writes": (rewrite(r"(add\.s64 %rd\d+, %rd\d+), 4;", r"\1, 9000;", 0),),
    "a wgmma behind the commit": (move(MMA, 3, r"wgmma\.commit", 0),),
    "no commit": (drop(r"wgmma\.commit", 1),),
    "no fence": (drop(r"wgmma\.fence", 0), drop(r"wgmma\.fence", 0)),
    "an accumulator that is written within a row": (
        rewrite(r"add\.s64 (%rd\d+), (%rd\d+), 6;", r"add.s64 \1, \2, 6; mov.f32 %f3, 0f00000000;", 1),
    ),
    "an accumulator that half of the warps write behind the fence": BY_HALF_OF_THE_WARPS,
    "the same, and no commit": (*BY_HALF_OF_THE_WARPS, drop(r"wgmma\.commit", 1)),
    "a wgmma twice": (repeat(MMA, 2),),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_text_is_judged_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = emitted(NAME).text.split("\n")
    for edit in EDITS[name]:
        lines = edit(lines)
    joined, apart = both("\n".join(lines), monkeypatch)
    assert joined[0] == apart[0]
    # Where groups are lost, the order among warps, which rows change, has a part in what is found first.
    assert joined == apart or ("no commit" in name and {"WG104", "WG105"} <= joined[1] & apart[1])
    assert (joined[0] == "Proven") == (name in ("right", "a wgmma twice"))


def test_random_edits_are_judged_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: set[str] = set()
    for seed in range(100, 108):
        text, done = mutate_text(emitted(NAME).text, Random(seed), 1 + seed % 2)
        (joined, _), (apart, _) = both(text, monkeypatch)
        assert joined == apart, (seed, done)
        kinds.add(joined)
    assert {"Proven", "Refuted"} <= kinds


def test_a_row_that_a_warp_issues_one_by_one_is_none() -> None:
    text, other = (MatrixInstruction(
        8, 16, "f32", "bf16", "bf16", (2, 3, 4, 5), (), "k", "k", False, False, False, Span("k.ptx", line),
    ) for line in (1, 2))  # fmt: skip
    form = row_form(((text, False, 0, 0), (text, True, 2, 2)))

    def started() -> tuple[Warpgroup, list[Any]]:
        cluster = SimpleNamespace(counts=Counts(), pending=[])
        cta: Any = SimpleNamespace(cluster=cluster)
        warps: list[Any] = [SimpleNamespace(cta=cta, index=index, wgmma=WarpMatrixState()) for index in range(4)]
        return Warpgroup(cta, warps), warps

    group, warps = started()
    rows = [group.issue_row(warp, form) for warp in warps]
    assert rows[0] is not None and all(row is rows[0] for row in rows)
    assert list(group.queue) == [rows[0]] and not group.rows and not group.begun
    assert rows[0] is not None and [each.operation for each in rows[0].actors] == [0, 1]

    group, warps = started()
    first = group.issue_row(warps[0], form)
    assert first is not None and group.issue_row(warps[1], form) is first
    alone = group.issue(warps[2], text, False, 0, 0, None, [])
    assert alone.actor is first.actors[0] and sorted(alone.inputs) == [0, 1, 2] and not group.queue
    group.issue(warps[2], text, True, 2, 2, None, [])
    assert group.issue_row(warps[3], form) is None and warps[3].wgmma.issued == 0
    group.issue(warps[3], text, False, 0, 0, None, [])
    group.issue(warps[3], text, True, 2, 2, None, [])
    assert [each.actors for each in group.queue] == [(actor,) for actor in first.actors] and not group.begun
    # Those that have issued it as one find it done when its last operation is.
    last = group.queue[-1]
    assert isinstance(last, Operation) and last.row is first and first.result is None
    # The next row is one again.
    assert all(group.issue_row(warp, form) is not None for warp in warps) and len(group.queue) == 3

    group, warps = started()
    group.issue_row(warps[0], form)
    with pytest.raises(TilewrightError, match="different wgmmas"):
        group.issue(warps[1], other, False, 0, 0, None, [])
    assert group.issue_row(warps[2], row_form(form.wgmmas)) is None


@pytest.mark.parametrize("accumulator", [(2, 3, 4, 5), (5, 3, 2, 4)])
def test_registers_that_are_written_back_hold_vectors_of_their_own(accumulator: tuple[int, ...]) -> None:
    text = MatrixInstruction(
        8, 16, "f32", "bf16", "bf16", accumulator, (), "k", "k", False, False, False, Span("k.ptx", 1),
    )  # fmt: skip
    state = WarpMatrixState()
    warp: Any = SimpleNamespace(r=[object() for _ in range(8)], wgmma=state, tensor=None, index=0)
    warp.in_flight = frozenset()
    decoder: Any = SimpleNamespace(wgmma_registers=set(accumulator))
    fence, held = fencing(decoder), list(warp.r)
    fence(warp)
    kept: list[object] = []
    for number in range(3):
        write_back(warp, text, NO_RESULT)
        kept += [warp.r[slot] for slot in accumulator]
        assert len(set(map(id, kept))) == 4 * (number + 1)
        assert state.fenced is not None and all(state.fenced[slot] is warp.r[slot] for slot in accumulator)
    assert [warp.r[slot] for slot in (0, 1, 6, 7)] == [held[slot] for slot in (0, 1, 6, 7)]
    # A fence remembers what registers hold, but for those of rows in flight, which are written back.
    cta: Any = SimpleNamespace(cluster=SimpleNamespace(counts=Counts(), pending=[]))
    warp.r[2] = other = object()
    row = Warpgroup(cta, []).issue_row(warp, row_form(((text, False, 0, 0),)))
    assert row is not None
    state.in_flight.append(row)
    settle(warp)
    fence(warp)
    assert state.fenced is not None and state.fenced[2] is not other
    state.in_flight.clear()
    settle(warp)
    fence(warp)
    assert state.fenced[2] is other
