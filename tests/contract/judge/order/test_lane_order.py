"""Lanes of one warp are threads: what they hand to each other through memory needs bar.warp.sync, or more."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contract.event_stream import at
from tests.contract.judged_stream import ONE
from tests.contract.replay_kernels import copy_buffers, copy_launch, copy_text

from tilewright.base.diagnostic import Level
from tilewright.base.element import Element
from tilewright.base.plan import Launch, PointerParam
from tilewright.base.verdict import Proven, Refuted, Verdict
from tilewright.contract.judge.happens_before import HappensBefore
from tilewright.contract.replay.replay import replay
from tilewright.contract.rules.interpretations import tolerant
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.compile.sequence import uncut
from tilewright.driver.reproof.reproof import replay_plan
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import to_attribute
from tilewright.ir.tile.facts import the_program
from tilewright.lower.plan import launch_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program
from tilewright.machine.core import event as ev
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

# ---------------------------------------------------------------- texts

OPEN = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry pass(.param .u64 source, .param .u64 target) {
.reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<8>;
.shared .align 1024 .b8 mine[1024];
.shared .align 8 .b8 bar[8];
mov.u32 %r1, %tid.x;
mov.u32 %r10, 0;
mov.u32 %r2, mine;
mov.u32 %r3, bar;
ld.param.u64 %rd1, [source];
ld.param.u64 %rd2, [target];
shl.b32 %r4, %r1, 2;
add.u32 %r5, %r2, %r4;
xor.b32 %r6, %r4, 4;
add.u32 %r7, %r2, %r6;
xor.b32 %r8, %r4, 64;
add.u32 %r9, %r2, %r8;
mul.wide.u32 %rd3, %r1, 4;
add.u64 %rd4, %rd1, %rd3;
add.u64 %rd5, %rd2, %rd3;
setp.ne.u32 %p1, %r1, 0;
setp.lt.u32 %p2, %r1, 16;
@!%p1 mbarrier.init.shared::cta.b64 [%r3], 32;
bar.sync 0;
"""
CLOSE = "st.global.u32 [%rd5], %r10;\nret;\n}\n"
STORE = "st.shared.u32 [%r5], %r1;\n"
OWN, NEXT, FAR = (f"ld.shared.u32 %r10, [{register}];\n" for register in ("%r5", "%r7", "%r9"))
SYNC = "bar.warp.sync -1;\n"
HALVES = "@%p2 bar.warp.sync 0xffff;\n@!%p2 bar.warp.sync 0xffff0000;\n"
COPY = "cp.async.ca.shared.global [%r5], [%rd4], 4;\ncp.async.wait_all;\n"
MEET = """mbarrier.arrive.shared::cta.b64 _, [%r3];
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3], 0;
@!%p3 bra WAIT;
"""
ELECTED = MEET.replace("mbarrier.arrive", "@!%p1 mbarrier.arrive")
MATRIX = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r12];\n"
ROWS = "and.b32 %r11, %r1, 7;\nshl.b32 %r11, %r11, 4;\nadd.u32 %r12, %r2, %r11;\n"

IN_ORDER = {
    "a lane's own bytes": STORE + OWN,
    "bar.warp.sync": STORE + SYNC + NEXT,
    "a barrier of the CTA": STORE + "bar.sync 0;\n" + NEXT,
    "an mbarrier for all lanes": STORE + MEET + NEXT,
    "half a warp each": STORE + HALVES + NEXT,
    "halves, then all": STORE + HALVES + SYNC + FAR,
    "strong accesses": STORE.replace("st", "st.volatile") + NEXT.replace("ld", "ld.volatile"),
    "a copy and a warp barrier": COPY + SYNC + NEXT,
    "a lane's own copy": COPY + OWN,
    "a matrix after a warp barrier": STORE + ROWS + SYNC + MATRIX,
    "one matrix twice": STORE + ROWS + SYNC + MATRIX + MATRIX,
}
IN_STEP = {
    "nothing": STORE + NEXT,
    "shfl.sync": STORE + "shfl.sync.bfly.b32 %r11, %r1, 1, 31, -1;\n" + NEXT,
    "vote.sync": STORE + "vote.sync.any.pred %p4, %p1, -1;\n" + NEXT,
    "elect.sync": STORE + "elect.sync _|%p4, -1;\n" + NEXT,
    "a fence": STORE + "fence.acq_rel.cta;\n" + NEXT,
    "a proxy fence": STORE + "fence.proxy.async.shared::cta;\n" + NEXT,
    "the other half": STORE + HALVES + FAR,
    "a write after a read": STORE + SYNC + NEXT + STORE,
    "a write behind two reads": STORE + SYNC + NEXT + OWN + STORE,
    "two writes": STORE + "st.shared.u32 [%r7], %r1;\n",
    "a copy": COPY + NEXT,
    "a copy over what was read": STORE + SYNC + NEXT + COPY,
    "a matrix": STORE + ROWS + MATRIX,
    "a store over a matrix": STORE + ROWS + SYNC + MATRIX + STORE,
}


UNORDERED_INIT = OPEN.replace("bar.sync 0;\n", "")
ONCE = MEET.replace("[%r3];", "[%r3], 32;").replace("mbarrier.arrive", "@!%p1 mbarrier.arrive")
BY_ONE = "@%p1 bra DONE;\n" + MEET.replace("[%r3];", "[%r3], 32;") + "DONE:\n"


def judged(body: str, begin: str = OPEN) -> Verdict:
    module = read(begin + body + CLOSE, "pass.ptx")
    launch = Launch("pass", (1, 1, 1), (32, 1, 1), (PointerParam("source"), PointerParam("target")))
    return replay(module, launch, {name: np.zeros(128, np.uint8) for name in ("source", "target")}, seeds=(0, 1))


@pytest.mark.parametrize("name", IN_ORDER)
def test_synchronized_lanes_are_in_order(name: str) -> None:
    verdict = judged(IN_ORDER[name])
    assert isinstance(verdict, Proven), verdict
    assert not any("NB106" in line for line in verdict.assumptions)


@pytest.mark.parametrize("name", IN_STEP)
def test_lanes_that_only_run_in_step_are_not(name: str) -> None:
    verdict = judged(IN_STEP[name])
    assert isinstance(verdict, Refuted) and {finding.code for finding in verdict.findings} == {"NB106"}


def test_lanes_do_not_know_what_another_one_has_initialised() -> None:
    """One lane initialises an mbarrier and arrives there; the others wait, for all that is known before that."""
    verdict = judged(ONCE, UNORDERED_INIT)
    assert isinstance(verdict, Refuted) and {finding.code for finding in verdict.findings} == {"NB106"}
    assert "initialises" in verdict.findings[0].message


@pytest.mark.parametrize("body", [SYNC + ONCE, "bar.sync 0;\n" + ONCE, BY_ONE], ids=["warp", "CTA", "one lane"])
def test_lanes_that_wait_for_the_init_may_use_the_barrier(body: str) -> None:
    assert isinstance(judged(body, UNORDERED_INIT), Proven)


def test_half_a_warp_may_know_of_an_init() -> None:
    """Lane 0 initialises: the lower half waits for it, the upper half for itself."""
    verdict = judged(HALVES + ONCE, UNORDERED_INIT)
    assert isinstance(verdict, Refuted) and {finding.code for finding in verdict.findings} == {"NB106"}
    lower = HALVES + "@!%p2 bra DONE;\n" + ONCE + "DONE:\n"
    assert isinstance(judged(lower, UNORDERED_INIT), Proven)


WORD, HALF = "st.shared.u32 [%r5], {};\n", "st.shared.u16 [%r7+2], {};\n"
PAIR = "st.shared.v2.u16 [%r7], {{{0}, {0}}};\n"


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (WORD.format(5), HALF.format(5), False),  # 5 0 0 0 and, over its second half, 5 0
        (WORD.format(5), HALF.format(0), False),  # the same there, but not wherever they might meet
        (WORD.format(0x50005), HALF.format(5), True),
        (WORD.format(0x50005), PAIR.format(5), True),
        (WORD.format(5), PAIR.format(5), False),
        (WORD.format(0), PAIR.format(0), True),
        (WORD.format(0xFFFF_FFFF), HALF.format(-1), True),
    ],
)
def test_constants_are_the_same_if_their_bytes_are(first: str, second: str, same: bool) -> None:
    assert isinstance(judged(first + second), Proven if same else Refuted)
    assert isinstance(judged(second + first), Proven if same else Refuted)


def test_an_arrival_of_one_lane_speaks_for_its_own_bytes() -> None:
    """All wait for the phase, but what the other lanes wrote was not published in it."""
    text = STORE + ELECTED.replace("arrive.shared::cta.b64 _, [%r3]", "arrive.shared::cta.b64 _, [%r3], 32") + NEXT
    verdict = judged(text)
    assert isinstance(verdict, Refuted) and "NB106" in {finding.code for finding in verdict.findings}


@pytest.mark.parametrize("piece", ["fence", "staging wait"])
def test_one_lane_copies_for_its_warp(piece: str) -> None:
    """What all lanes stage, one lane stores in bulk; what it has waited for, all of them overwrite."""
    pieces = {"fence": "fence.proxy.async.shared::cta;\n", "staging wait": "@!%p1 cp.async.bulk.wait_group.read 0;\n"}
    text = copy_text(**{piece.replace(" ", "_"): pieces[piece]})
    verdict = replay(read(text, "double.ptx"), copy_launch(4), copy_buffers(4))
    assert isinstance(verdict, Refuted) and {finding.code for finding in verdict.findings} == {"NB106"}
    milder = replay(read(text, "double.ptx"), copy_launch(4), copy_buffers(4), interpretations=tolerant())
    assert isinstance(milder, Proven) and any("NB106" in line for line in milder.assumptions)


def test_every_warp_barrier_of_stores_along_rows_is_needed() -> None:
    elements: dict[str, Element] = {name: Element.BF16 for name in "abc"}
    module = trace(matmul_kernel, {"M": 70, "N": 72, "K": 192}, elements, {"b": (1, 192), "c": (77, 1)})
    wanted = Wanted(tile=(64, 64), misaligned=("c",))
    (part,) = uncut(module, target("sm_90a"), wanted)
    decisions = part.decisions
    assert isinstance(decisions, CascadeDecisions) and decisions.stores == () and decisions.rows_bytes > 0
    program = the_program(part.module)
    program.attributes["decisions"] = to_attribute(replace(decisions, ctas=1))
    lowered = lower_program(program)
    plan = launch_plan(lowered)
    lines = lower_to_ptx([kernel.module for kernel in lowered.kernels], "sm_90a").splitlines()
    assert isinstance(replay_plan(read("\n".join(lines)), plan, {}, (0,)), Proven)
    barriers = [number for number, line in enumerate(lines) if "bar.warp.sync" in line]
    assert len(barriers) == 2
    for number in barriers:
        spoiled = "\n".join(lines[:number] + lines[number + 1 :])
        verdict = replay_plan(read(spoiled), plan, {}, (0,))
        assert isinstance(verdict, Refuted) and {finding.code for finding in verdict.findings} == {"NB106"}


# ---------------------------------------------------------------- events

LANES = 4


@dataclass
class Lanes:
    """Which accesses each lane knows, by the ISA's words: its own, and those of whoever it met."""

    known: list[set[int]] = field(default_factory=lambda: [set() for _ in range(LANES)])
    made: list[tuple[int, bool, int]] = field(default_factory=list[tuple[int, bool, int]])

    def meet(self, lanes: set[int]) -> None:
        together = {number for lane in lanes for number in self.known[lane]}
        for lane in lanes:
            self.known[lane] = set(together)

    def access(self, write: bool, cells: dict[int, int]) -> bool:
        """Each lane's cell; whether that conflicts with what it does not know."""
        raced = any(
            cell == other and (write or wrote) and number not in self.known[lane]
            for lane, cell in cells.items()
            for number, (_, wrote, other) in enumerate(self.made)
        )
        for lane, cell in cells.items():
            self.known[lane].add(len(self.made))
            self.made.append((lane, write, cell))
        return raced


@st.composite
def steps(draw: st.DrawFn) -> list[set[int] | tuple[bool, dict[int, int]]]:
    found: list[set[int] | tuple[bool, dict[int, int]]] = []
    for _ in range(draw(st.integers(2, 10))):
        lanes = draw(st.sets(st.integers(0, LANES - 1), min_size=1))
        if draw(st.booleans()):
            found.append(lanes)
            continue
        write = draw(st.booleans())
        cells = draw(st.lists(st.integers(0, 3), min_size=len(lanes), max_size=len(lanes), unique=write))
        found.append((write, dict(zip(sorted(lanes), cells, strict=True))))
    return found


@given(steps())
def test_lanes_know_what_they_were_told(sequence: list[set[int] | tuple[bool, dict[int, int]]]) -> None:
    warp = ev.WarpActor(0, 0)
    judge, model, raced = HappensBefore(ONE), Lanes(), False
    for line, step in enumerate(sequence, start=1):
        if isinstance(step, set):
            bits = sum(1 << lane for lane in step) if len(step) < LANES else 0xFFFF_FFFF
            judge.feed(ev.MemoryFence(warp, "fence", "warp", at(line), lanes=bits))
            model.meet(step)
            continue
        write, cells = step
        raced |= model.access(write, cells)
        begins = np.array([4 * cell for cell in cells.values()])
        ranges = tuple((begin, begin + 4) for begin in sorted({int(begin) for begin in begins}))
        bits = sum(1 << lane for lane in cells)
        places = ev.Places((ev.LaneRows(bits, begins, 4),))
        judge.feed(ev.Access(warp, "shared", 0, ranges, write, "generic", at(line), lanes=bits, places=places))
    findings = judge.finish()
    assert {finding.code for finding in findings} == ({"NB106"} if raced else set())
    assert all(finding.level is Level.ERROR for finding in findings)
