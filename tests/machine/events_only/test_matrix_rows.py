"""Rows of stmatrixes that are one step: what is told of them, and judged, is that of runs in which each is a step."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

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
from tilewright.machine.core.event import Access, Event, NamedBarrierArrive, ProxyFence, WarpActor
from tilewright.machine.core.run import run_launch
from tilewright.machine.core.step import Step
from tilewright.machine.events_only.dropped_values import DroppedValues, ValueNeeded

NAME = "one-group"
ROW = 4
"""stmatrixes of its row."""


def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def apart(steps: Sequence[Step], *_arguments: object) -> list[Step]:
        return list(steps)

    monkeypatch.setattr(program, "join_matrix_rows", apart)


def events_of(text: str, name: str = NAME) -> list[Event]:
    plan = emitted(name).plan
    events: list[Event] = []
    buffers = {each.name: np.zeros(max(1, each.span_bytes), np.uint8) for each in plan.buffers}
    dropped = DroppedValues({each.name for each in plan.buffers}, joins=True)
    run_launch(read(text, "k.ptx"), plan.launches[-1], buffers, observe=events.append, dropped=dropped)
    return events


def stored(events: list[Event]) -> dict[WarpActor, list[set[int]]]:
    """The bytes of shared memory that each warp stores to between two steps that order it with others."""
    found: dict[WarpActor, list[set[int]]] = {}
    for event in events:
        match event:
            case ProxyFence() | NamedBarrierArrive():
                found.setdefault(event.actor, []).append(set())
            case Access(actor=WarpActor() as actor, space="shared", write=True):
                bytes_ = found.setdefault(actor, [set()])[-1]
                for begin, end in event.ranges:
                    assert bytes_.isdisjoint(range(begin, end))
                    bytes_.update(range(begin, end))
            case _:
                pass
    return found


def stores(events: list[Event]) -> int:
    return sum(isinstance(each, Access) and each.span.text.strip().startswith("stmatrix") for each in events)


def test_a_row_tells_of_all_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    joined = events_of(emitted(NAME).text)
    one_by_one(monkeypatch)
    apart = events_of(emitted(NAME).text)
    assert 0 < ROW * stores(joined) == stores(apart)
    assert stored(joined) == stored(apart)


def test_a_row_stores_where_its_warp_does(monkeypatch: pytest.MonkeyPatch) -> None:
    # Its stores have one register as their address, which is computed before the row and not read but by them.
    joined = events_of(emitted("cluster-2x1").text, "cluster-2x1")
    one_by_one(monkeypatch)
    apart = events_of(emitted("cluster-2x1").text, "cluster-2x1")
    assert 0 < 2 * stores(joined) == stores(apart)
    assert stored(joined) == stored(apart)


def verdict_of(text: str) -> tuple[str, frozenset[tuple[str, Span | None]]]:
    """The kind of verdict, and its findings' codes and places."""
    plan = emitted(NAME).plan
    buffers = {each.name: np.zeros(max(1, each.span_bytes), np.uint8) for each in plan.buffers}
    try:
        verdict = replay(
            read(text, "k.ptx"), plan.launches[-1], buffers, unwritten=unwritten_buffers(plan), step_limit=100_000,
            dropped=DroppedValues({each.name for each in plan.buffers}, joins=True),
        )  # fmt: skip
    except ValueNeeded:
        return "values", frozenset()
    except TilewrightError:
        return "not run", frozenset()
    found = verdict.findings if isinstance(verdict, Refuted) else ()
    return type(verdict).__name__, frozenset((each.code, each.primary) for each in found)


STORE = r"stmatrix\."
# Of the row's second, third and last store.
SECOND, THIRD, LAST = (rf"xor\.b32 (%r\d+), (%r\d+), {apart};" for apart in (32, 64, 96))
EDITS: dict[str, tuple[tuple[Edit, ...], str]] = {
    "right": ((), ""),
    "two stores that meet": ((rewrite(LAST, r"xor.b32 \1, \2, 64;"),), "UM101"),
    "a store twice": ((repeat(STORE, 2),), "NB106"),
    "a store beyond memory": ((rewrite(THIRD, r"add.u32 \1, \2, 4000000;"),), "MF001"),
    "a store that is not aligned": ((rewrite(THIRD, r"xor.b32 \1, \2, 72;"),), "MF002"),
    "a store by a generic address": ((rewrite(r"(stmatrix\S*)\.shared(?:::cta)?(\S*)", r"\1\2", 1),), "MF001"),
    "all stores by generic addresses": ((rewrite(r"(stmatrix\S*)\.shared(?:::cta)?(\S*)", r"\1\2"),), "MF001"),
    "a store of what nobody wrote": ((drop(r"cvt\.rn\.bf16x2\.f32 %r\d+, %f15, %f14;"),), "MF003"),
    "an address that nobody wrote": ((drop(SECOND), drop(r"add\.u32 %r156,")), "MF003"),
    "a store behind the fence": ((move(STORE, ROW - 1, r"fence\.proxy\.async", 0),), "PX101"),
    "no fence": ((drop(r"fence\.proxy\.async"),), "PX101"),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_text_is_judged_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = emitted(NAME).text.split("\n")
    edits, code = EDITS[name]
    for edit in edits:
        lines = edit(lines)
    text = "\n".join(lines)
    joined = verdict_of(text)
    one_by_one(monkeypatch)
    apart = verdict_of(text)
    assert joined[0] == apart[0] and {each for each, _ in joined[1]} == {each for each, _ in apart[1]}
    if code.startswith("MF"):
        # A fault names the store that is at fault.
        assert joined == apart
    assert (code in {each for each, _ in joined[1]}) if code else True


def test_random_edits_are_judged_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: set[str] = set()
    for seed in range(304, 312):
        text, done = mutate_text(emitted(NAME).text, Random(seed), 1 + seed % 2)
        joined = verdict_of(text)
        with monkeypatch.context() as patched:
            one_by_one(patched)
            assert joined[0] == verdict_of(text)[0], (seed, done)
        kinds.add(joined[0])
    assert {"Proven", "Refuted"} <= kinds
