"""wgmmas entered together: verdicts and findings are those of runs in which each operation is entered by itself."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest
from event_stream import at
from judged_stream import ONE
from tests.end_to_end.compiled_programs import emitted
from tests.end_to_end.text_edits import Edit, drop, move, repeat, rewrite
from tests.end_to_end.text_fuzz import mutate_text

from tilewright.base.error import TilewrightError
from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.contract.history.operation_batches import add_to_batch
from tilewright.contract.judge.events import warpgroup as judge_warpgroup
from tilewright.contract.judge.happens_before import HappensBefore
from tilewright.contract.judge.launch_state import LaunchState
from tilewright.contract.judge.run_state import ClusterState, OperationBatch, OperationState
from tilewright.contract.replay.replay import replay
from tilewright.contract.replay.unwritten import unwritten_buffers
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core import event as ev
from tilewright.machine.core.event import WgmmaIssue
from tilewright.machine.events_only.dropped_values import DroppedValues, ValueNeeded

NAME = "one-group"
Said = tuple[str, frozenset[tuple[str, int, int]]]


def judged(text: str) -> Said:
    """The kind of verdict, and each finding's code and lines."""
    plan = emitted(NAME).plan
    buffers = {each.name: np.zeros(max(1, each.span_bytes), np.uint8) for each in plan.buffers}
    try:
        verdict = replay(
            read(text, "k.ptx"), plan.launches[-1], buffers, unwritten=unwritten_buffers(plan),
            dropped=DroppedValues({each.name for each in plan.buffers}), step_limit=100_000,
        )  # fmt: skip
    except ValueNeeded:
        return "values", frozenset()
    except TilewrightError:
        return "not run", frozenset()
    match verdict:
        case Refuted(findings):
            places = {
                (
                    each.code,
                    each.primary.line if each.primary else 0,
                    each.conflicts_with.line if each.conflicts_with else 0,
                )
                for each in findings
            }
            return "refuted", frozenset(places)
        case Unknown():
            return "unknown", frozenset()
        case Proven():
            return "proven", frozenset()


def by_itself(
    state: LaunchState, cluster: ClusterState, batch: OperationBatch, operation: OperationState, event: WgmmaIssue
) -> None:
    """As `add_to_batch`, but the operation is entered at once, and the next one is another row's first."""
    add_to_batch(state, cluster, batch, operation, event)
    cluster.shared_memory(event.actor.cta)
    for warp in cluster.warps.values():
        warp.view = None


def both(text: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Said, Said]:
    together = judged(text)
    with monkeypatch.context() as patched:
        patched.setattr(judge_warpgroup, "add_to_batch", by_itself)
        return together, judged(text)


def edited(*edits: Edit) -> str:
    lines = emitted(NAME).text.split("\n")
    for edit in edits:
        lines = edit(lines)
    return "\n".join(lines)


MMA, RELEASE = r"wgmma\.mma_async", r"mbarrier\.arrive\.release\.cta"
EDITS: dict[str, tuple[Edit, ...]] = {
    "right": (),
    "a slot is released before its reads are done": (rewrite(r"(wait_group\.sync\.aligned) 1", r"\1 2"),),
    "a slot is released before it is read": (move(RELEASE, 0, MMA, 4),),
    "a slot is read that nobody waited for": (drop(r"mbarrier\.try_wait\.parity", 2),),
    "a wgmma reads another slot": (rewrite(r"(add\.s64 %rd\d+, %rd\d+), 2;", r"\1, 514;", 0),),
    "a wgmma reads bytes that nobody writes": (rewrite(r"(add\.s64 %rd\d+, %rd\d+), 4;", r"\1, 9000;", 0),),
    "a wgmma behind the commit": (move(MMA, 3, r"wgmma\.commit", 0),),
    "a wgmma behind the wait": (move(r"wgmma\.commit", 1, r"wgmma\.wait", 0),),
    "a wgmma twice": (repeat(MMA, 2),),
    "no commit": (drop(r"wgmma\.commit", 1),),
    "no fence": (drop(r"wgmma\.fence", 0), drop(r"wgmma\.fence", 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_text_is_judged_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    together, alone = both(edited(*EDITS[name]), monkeypatch)
    assert together == alone
    assert (together[0] == "proven") == (name in ("right", "a wgmma twice"))


def test_random_edits_are_judged_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: list[str] = []
    for seed in range(24):
        text, done = mutate_text(emitted(NAME).text, Random(seed), 1 + seed % 2)
        together, alone = both(text, monkeypatch)
        assert together == alone, (seed, done)
        kinds.append(together[0])
    assert {"proven", "refuted"} <= set(kinds)


def test_operations_of_a_slot_are_one_access(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    enter = LaunchState.enter

    def counted(state: LaunchState, *arguments: object, **named: object) -> None:
        record = arguments[2]
        counts.append(len(record.parts) if getattr(record, "operation", "") == "reads" else -1)  # type: ignore[attr-defined]
        enter(state, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(LaunchState, "enter", counted)
    assert judged(emitted(NAME).text)[0] == "proven"
    assert 4 in counts


def in_rows(by_rows: int, *, committed: int = 4, unfenced: bool = False, whole: bool = False) -> list[ev.Event]:
    """Two wgmmas that four warps issue, so many of them as a row; a copy brings what they read. whole: the row's event
    stands for the fence and the commit, too."""
    four = [ev.WarpActor(0, warp) for warp in range(4)]
    operations = tuple(ev.TensorCoreActor(number) for number in range(2))
    forms = tuple(
        ev.WgmmaForm((f"%f{number}",), (), ((512 * number, 512 * number + 512),), at(10 + number))
        for number in range(2)
    )
    events: list[ev.Event] = [
        ev.Access(four[0], "shared", 0, ((0, 1024),), True, "generic", at(1)),
        *(ev.WgmmaFence(warp, at(9)) for warp in four[by_rows if whole else 0 :]),
    ]
    for warp in four:
        row = ev.WgmmaRow(warp, operations, forms, (False, False))
        if warp.warp < by_rows and whole:
            commit = (at(13), 0) if warp.warp < committed else (None, -1)
            events.append(ev.WgmmaRow(warp, operations, forms, (False, False), at(9), *commit))
        elif warp.warp < by_rows:
            events.append(row)
        else:
            events += [row.issue(number) for number in range(2)]
    events += [ev.WgmmaCommit(warp, 0, operations, at(13)) for warp in four[by_rows if whole else 0 : committed]]
    if unfenced:
        events.append(ev.RegisterHazard(four[1], operations[1], "%f1", True, at(14)))
    events += [ev.WgmmaWait(warp, 0, at(15)) for warp in four[:committed]]
    return [*events, *(ev.Exit(warp, at(20)) for warp in four)]


@pytest.mark.parametrize("committed", [0, 3, 4])
def test_a_row_that_some_warps_issue_one_by_one_is_judged_alike(committed: int) -> None:
    said: list[list[tuple[str, str, object, object]]] = []
    epochs: list[list[int]] = []
    for by_rows, whole in product(range(5), (False, True)):
        judge = HappensBefore(ONE)
        for event in in_rows(by_rows, committed=committed, unfenced=True, whole=whole):
            judge.feed(event)
        epochs.append([warp.epoch for cluster in judge.state.clusters.values() for warp in cluster.warps.values()])
        said.append([(each.code, each.message, each.primary, each.conflicts_with) for each in judge.finish()])
        assert judge.doubts == ()
    assert all(each == said[0] for each in said[1:])
    assert all(sorted(each) == sorted(epochs[0]) for each in epochs)
    assert {code for code, *_ in said[0]} >= {"TM101", "WG104"} | ({"WG102"} if not committed else set())
