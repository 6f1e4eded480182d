"""Stretches of arithmetic that were run before: the events and faults of runs in which nothing is remembered."""

from __future__ import annotations

import numpy as np
import pytest
from small_kernels import launch, module
from tests.end_to_end.compiled_programs import emitted

from tilewright.base.plan import PointerParam
from tilewright.frontends.ptx.ast import Module
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core import program
from tilewright.machine.core.event import Event
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.run import run_launch
from tilewright.machine.events_only.dropped_values import DroppedValues
from tilewright.machine.events_only.remembered_runs import Part, RememberedRuns, Table

START = "ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; "
PLACE = "cvt.u64.u32 %rd2, %r5; add.u64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], 7; "
THREADS = 96


def events_of(body: str, threads: int = THREADS, *, joins: bool = False, seed: int = 0) -> list[str]:
    text = module(START + body, parameters=".param .u64 out")
    events: list[Event] = []
    out = np.zeros(4096, np.uint32).view(np.uint8)
    run_launch(
        text, launch(PointerParam("out"), threads=threads), {"out": out}, observe=events.append,
        dropped=DroppedValues(joins=joins), seed=seed,
    )  # fmt: skip
    return [str(event) for event in events]


@pytest.fixture
def remembering(monkeypatch: pytest.MonkeyPatch) -> list[RememberedRuns]:
    """What the runs of a test remember, in order."""
    made: list[RememberedRuns] = []

    class Kept(RememberedRuns):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments)  # type: ignore[arg-type]
            made.append(self)

    monkeypatch.setattr(program, "RememberedRuns", Kept)
    return made


def hits(runs: RememberedRuns) -> int:
    """How often a stretch was given without being run."""
    return sum(part.hits for part in parts(runs))


def tables(runs: RememberedRuns) -> list[Table]:
    memos = {id(part.memo): part.memo for part in parts(runs)}
    return [table for memo in memos.values() for table in memo.values()]


def parts(runs: RememberedRuns) -> list[Part]:
    return [part for found in runs.stretches.values() for each in found for part in each.parts]


def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_arguments: object) -> None:
        return None

    monkeypatch.setattr(program, "RememberedRuns", nothing)


LOOP = "mov.u32 %r2, 0; TURN: {} add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 12; @%p1 bra TURN; ret;"
BODIES = {
    "addresses that come again": LOOP.format("and.b32 %r3, %r2, 3; mad.lo.u32 %r5, %r1, 32, %r3; shl.b32 %r5, %r5, 2;")
    .replace("shl.b32 %r5, %r5, 2;", "shl.b32 %r5, %r5, 2; " + PLACE),
    "writes under a guard": LOOP.format(
        "and.b32 %r3, %r2, 1; setp.eq.u32 %p2, %r3, 0; shl.b32 %r4, %r1, 2; add.u32 %r4, %r4, %r3;"
        "@%p2 add.u32 %r6, %r4, 4; mov.u32 %r5, %r6; and.b32 %r5, %r5, -4; " + PLACE
    ),
    "some lanes only": LOOP.format(
        "and.b32 %r3, %r1, 1; setp.eq.u32 %p2, %r3, 0; @%p2 bra EVEN; shl.b32 %r5, %r1, 3; add.u32 %r5, %r5, 512;"
        "bra BOTH; EVEN: shl.b32 %r5, %r1, 2; add.u32 %r5, %r5, 4; BOTH: " + PLACE
    ),
    "what was read before it is written": LOOP.format(
        "shl.b32 %r5, %r7, 2; add.u32 %r7, %r1, %r2; and.b32 %r7, %r7, 127; " + PLACE
    ).replace("mov.u32 %r2, 0;", "mov.u32 %r2, 0; mov.u32 %r7, 3;"),
    "a register that a loop reads alone": "bar.sync 0; mov.u32 %r2, 0; mov.u32 %r4, 4; AGAIN: add.u32 %r2, %r2, %r4; "
    "setp.lt.u32 %p1, %r2, 12; @%p1 bra AGAIN; mov.u32 %r5, %r2; " + PLACE + LOOP.format(
        "and.b32 %r5, %r2, 3; shl.b32 %r5, %r5, 2; add.u32 %r5, %r5, 4; " + PLACE
    ),
    "what stands before a loop differs by turns": "shr.u32 %r8, %r1, 5; mov.u32 %r6, 0; ROUND: bar.sync 0; "
    "add.u32 %r7, %r6, %r8; and.b32 %r7, %r7, 1; mad.lo.u32 %r4, %r7, 4, 4; mov.u32 %r2, 0; "
    "TURN: add.u32 %r2, %r2, %r4; setp.lt.u32 %p1, %r2, 24; @%p1 bra TURN; and.b32 %r5, %r2, 124; " + PLACE +
    "add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 9; @%p2 bra ROUND; ret;",
    "a clock": LOOP.format("mov.u32 %r3, %clock; and.b32 %r3, %r3, 124; shl.b32 %r5, %r3, 2; " + PLACE),
}  # fmt: skip


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_the_events_are_those_of_a_run_that_remembers_nothing(
    body: str, monkeypatch: pytest.MonkeyPatch, remembering: list[RememberedRuns]
) -> None:
    seen = events_of(body)
    assert hits(remembering[0]) > 5 and len(set(seen)) > 5
    nothing_remembered(monkeypatch)
    assert seen == events_of(body)


@pytest.mark.parametrize("name", ["plain", "cluster-1x2-direct"])
def test_emitted_kernels_remember_most_of_their_arithmetic(
    name: str, monkeypatch: pytest.MonkeyPatch, remembering: list[RememberedRuns]
) -> None:
    item = emitted(name)
    text, each = read(item.text, "k.ptx"), item.plan.launches[-1]

    def run(text: Module) -> list[str]:
        events: list[Event] = []
        buffers = {buffer.name: np.zeros(max(1, buffer.span_bytes), np.uint8) for buffer in item.plan.buffers}
        run_launch(text, each, buffers, seed=5, observe=events.append, dropped=DroppedValues())
        return [str(event) for event in events]

    seen = run(text)
    assert hits(remembering[0]) > sum(len(table) for table in tables(remembering[0]))
    nothing_remembered(monkeypatch)
    assert seen == run(text)


def test_a_register_that_one_warp_never_wrote_is_refused_after_another_wrote_it() -> None:
    body = (
        "setp.ge.u32 %p1, %r1, 32; @%p1 bra LATE; mov.u32 %r8, 4; bar.sync 0; bra USE; LATE: bar.sync 0;"
        "USE: add.u32 %r5, %r8, 4; and.b32 %r5, %r5, 124; " + PLACE + "ret;"
    )
    with pytest.raises(MachineFault, match="never wrote"):
        events_of(body, 64)


def test_inputs_that_never_come_again_are_no_longer_looked_up(remembering: list[RememberedRuns]) -> None:
    body = LOOP.replace("12", "700").format("mad.lo.u32 %r5, %r2, 4, %r1; and.b32 %r5, %r5, -4; " + PLACE)
    assert len(events_of(body, 32)) > 700
    assert any(not part.looked_up and part.news for part in parts(remembering[0]))
    assert all(len(table) <= 512 for table in tables(remembering[0]))


MOVED = (
    "and.b32 %r3, %r2, 1; setp.eq.u32 %p2, %r3, 0; shl.b32 %r4, %r1, 3; mad.lo.u32 %r5, %r3, 1024, %r4;"
    "cvt.u64.u32 %rd2, %r5; add.u64 %rd3, %rd1, %rd2; ld.global.u32 %r6, [%rd3]; ld.global.u32 %r7, [%rd3+4];"
    "add.u32 %r6, %r6, %r7; mov.b64 %rd4, {%r6, %r7}; @%p2 st.global.u64 [%rd3+2048], %rd4; xor.b32 %r8, %r4, 8;"
    "add.u32 %r8, %r8, 8; cvt.u64.u32 %rd5, %r8; add.u64 %rd6, %rd1, %rd5; ld.global.u32 %r9, [%rd6];"
)
QUIET = {
    "loads and stores among arithmetic": MOVED,
    "an address that is written over": MOVED + "add.u64 %rd3, %rd3, 8; @!%p2 st.global.u32 [%rd3+2048], %r9;",
    "some lanes only": "and.b32 %r3, %r1, 1; setp.eq.u32 %p3, %r3, 0; @%p3 bra ELSE; " + MOVED + "bra BOTH; ELSE: "
    "shl.b32 %r5, %r1, 2; add.u32 %r5, %r5, 4; " + PLACE + "BOTH: ",
}  # fmt: skip


@pytest.mark.parametrize("body", QUIET.values(), ids=QUIET.keys())
def test_turns_end_where_they_did_and_nothing_is_told_otherwise(
    body: str, monkeypatch: pytest.MonkeyPatch, remembering: list[RememberedRuns]
) -> None:
    # Turns of a few instructions end in the middle of stretches.
    text = LOOP.format(body + "bar.sync 0; ")
    seen = [events_of(text, joins=True, seed=seed) for seed in range(6)]
    made = [each for found in remembering[0].stretches.values() for each in found]
    assert hits(remembering[0]) > 5 and any(each.quiet and each.left_full for each in made)
    nothing_remembered(monkeypatch)
    assert seen == [events_of(text, joins=True, seed=seed) for seed in range(6)]


def test_accesses_of_which_nothing_else_is_left_are_told_at_once(
    monkeypatch: pytest.MonkeyPatch, remembering: list[RememberedRuns]
) -> None:
    # Guards of lanes that differ by turns, one of which no lane holds in some; registers by which several go.
    body = (
        "add.u32 %r3, %r1, %r2; and.b32 %r3, %r3, 3; setp.eq.u32 %p2, %r3, 0; setp.lt.and.u32 %p3, %r2, 4, %p2;"
        "shl.b32 %r5, %r1, 5; cvt.u64.u32 %rd2, %r5; add.u64 %rd3, %rd1, %rd2; ld.global.u32 %r6, [%rd3];"
        "@%p2 st.global.u32 [%rd3+4], %r6; @!%p2 st.global.u16 [%rd3+8], %h1; @%p3 st.global.u32 [%rd3+12], %r6;"
    )
    text = LOOP.format("mov.u16 %h1, 3; " + body + "bar.sync 0; ")
    seen = [events_of(text, joins=True, seed=seed) for seed in range(4)]
    made = [each for found in remembering[0].stretches.values() for each in found if each.left_full]
    assert made and all(len(each.left_full) == 1 for each in made)
    nothing_remembered(monkeypatch)
    assert seen == [events_of(text, joins=True, seed=seed) for seed in range(4)]


@pytest.mark.parametrize(
    ("body", "register"),
    [
        ("cvt.u64.u32 %rd2, %r4; add.u64 %rd3, %rd1, %rd2; ld.global.u32 %r6, [%rd3]; add.u32 %r7, %r6, %r8;"
         "st.global.u32 [%rd3+512], %r7;", "%r8"),
        ("add.u32 %r5, %r8, 4; cvt.u64.u32 %rd2, %r4; add.u64 %rd3, %rd1, %rd9; st.global.u32 [%rd3], %r4;"
         "st.global.u32 [%rd3+512], %r5;", "%r8"),
        ("cvt.u64.u32 %rd2, %r4; add.u64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r4; st.global.u32 [%rd9], %r4;"
         "add.u32 %r5, %r8, 4; add.u32 %r5, %r5, 4; setp.eq.u32 %p2, %r5, 0; @%p2 bra TURN;", "%rd9"),
    ],
)  # fmt: skip
def test_the_first_register_that_nobody_wrote_is_named(
    body: str, register: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = LOOP.format("shl.b32 %r4, %r1, 2; " + body)
    with pytest.raises(MachineFault, match=f"reads {register}, which") as found:
        events_of(text, 32, joins=True)
    nothing_remembered(monkeypatch)
    with pytest.raises(MachineFault) as apart:
        events_of(text, 32, joins=True)
    assert str(found.value) == str(apart.value)
