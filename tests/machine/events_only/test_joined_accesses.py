"""Stretches of loads and stores that are told as one: a text is proven so if, and only if, it is proven with each told
by itself; and what orders or exchanges anything ends a stretch."""

from __future__ import annotations

from functools import cache
from random import Random

import numpy as np
import pytest
from tests.end_to_end.text_edits import Edit, drop, number, places, rewrite
from tests.end_to_end.text_fuzz import mutate_text
from tests.machine.small_kernels import launch, module

from tilewright.base.diagnostic import Level
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import Launch, LaunchPlan, PointerParam
from tilewright.base.verdict import Proven, Refuted, Verdict
from tilewright.contract.replay.replay import replay
from tilewright.contract.replay.unwritten import unwritten_buffers
from tilewright.contract.rules.interpretations import Interpretations
from tilewright.contract.typestate.claims import ProtocolClaims
from tilewright.contract.typestate.typestate import protocol_claims
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.compile.sequence import uncut
from tilewright.driver.reproof.reproof import replay_plan
from tilewright.driver.reproof.small import small_instance
from tilewright.frontends.ptx.ast import Module
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import the_program
from tilewright.lower.plan import launch_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program
from tilewright.machine.core.event import Access, Event, WarpActor
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.run import run_launch
from tilewright.machine.events_only.dropped_values import DroppedValues, ValueNeeded
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")

# ---------------------------------------------------------------- a product's plain stores


@cache
def emitted() -> tuple[str, LaunchPlan, ProtocolClaims]:
    """The small instance of a product with rows of odd length, which warps store along rows, through shared memory."""
    source = trace(matmul_kernel, {"M": 64, "N": 131, "K": 64}, dict.fromkeys("abc", Element.BF16), {"b": (1, 64)})
    (part,) = uncut(source, HOPPER, Wanted(tile=(64, 64), stages=2, swapped=False))
    lowered = lower_program(the_program(small_instance(part.module)))
    (kernel,) = lowered.kernels
    text = lower_to_ptx([kernel.module], "sm_90a")
    return text, launch_plan(lowered), protocol_claims(kernel.module, HOPPER, boundaries=False)[0]


def judged(text: str, *, joins: bool, claimed: bool = True) -> Verdict | str:
    _, plan, claims = emitted()
    dropped = DroppedValues({each.name for each in plan.buffers}, joins=joins)
    buffers = {each.name: np.zeros(each.span_bytes, np.uint8) for each in plan.buffers}
    try:
        return replay(
            read(text, "k.ptx"), plan.launches[0], buffers, claims=claims if claimed else None,
            unwritten=unwritten_buffers(plan), dropped=dropped, interpretations=Interpretations(grid_wait=Level.ERROR),
            step_limit=200_000,
        )  # fmt: skip
    except ValueNeeded:
        return "values"
    except TilewrightError:
        return "not run"


def test_a_right_text_is_proven_with_few_events() -> None:
    text, plan, _ = emitted()
    counts: list[int] = []
    stored: list[set[int]] = []
    for joins in (False, True):
        assert isinstance(judged(text, joins=joins), Proven)
        events: list[Event] = []
        dropped = DroppedValues({each.name for each in plan.buffers}, joins=joins)
        buffers = {each.name: np.zeros(each.span_bytes, np.uint8) for each in plan.buffers}
        run_launch(read(text, "k.ptx"), plan.launches[0], buffers, observe=events.append, dropped=dropped)
        assert dropped.joined == joins
        accesses = [each for each in events if isinstance(each, Access) and isinstance(each.actor, WarpActor)]
        counts.append(len(accesses))
        stored.append(
            {byte for each in accesses if each.space == "global" and each.write
             for begin, end in each.ranges for byte in range(begin, end)}
        )  # fmt: skip
    assert stored[0] == stored[1] and len(stored[0]) == 64 * 131 * 2
    assert 5 * counts[1] < counts[0]


EDITS: dict[str, Edit] = {
    "no bar.warp.sync before rows are read": drop(r"bar\.warp\.sync", 0),
    "a store where another one goes": rewrite(r"st\.global\.b32 \[(%rd\d+)\+262\]", r"st.global.b32 [\1+524]", 0),
    "a store where another lane's goes": rewrite(r"st\.global\.b32 \[(%rd\d+)\+262\]", r"st.global.b32 [\1+266]", 0),
    "a store behind the array": rewrite(
        r"(st\.global\.b32 \[%rd\d+)\+(?P<n>524)\]", number(lambda n: n + (1 << 22)), 0
    ),
    "a load of what nobody has written": rewrite(r"(ld\.shared\.b16 %h\d+, \[%r\d+)\+128\]", r"\1+32768]", 0),
    "a load of what another warp writes": rewrite(r"(ld\.shared\.b16 %h\d+, \[%r\d+)\+128\]", r"\1+4096]", 0),
    "a store is missing": drop(r"st\.global\.b32", 3),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", EDITS)
def test_what_is_wrong_with_one_access_of_a_stretch_is_found(name: str) -> None:
    text = "\n".join(EDITS[name](emitted()[0].split("\n")))
    assert text != emitted()[0]
    alone, joined = (judged(text, joins=joins) for joins in (False, True))
    if name == "a store is missing":
        # That all is written is asked of the whole run.
        assert isinstance(alone, Proven) and isinstance(joined, Proven)
        whole = replay_plan(read(text), emitted()[1], {}, (0,), whole=frozenset("c"))
        assert isinstance(whole, Refuted) and {each.code for each in whole.findings} == {"UM103"}
        return
    assert isinstance(alone, Refuted) and isinstance(joined, Refuted), (alone, joined)
    verdict = replay_plan(read(text, "k.ptx"), emitted()[1], {}, (0,))
    assert isinstance(verdict, Refuted)
    assert [each.primary for each in verdict.findings] == [each.primary for each in alone.findings]


def compared(seed: int, edits: int) -> str:
    """Both ways of running a text with random edits of the part that stores; the verdict's kind."""
    lines = emitted()[0].split("\n")
    begin, end = places(lines, "stmatrix|st.shared")[0] - 40, places(lines, r"st\.global")[-1] + 3
    part, done = mutate_text("\n".join([*lines[begin:end], "// end"]), Random(seed), edits)
    text = "\n".join([*lines[:begin], part, *lines[end:]])
    alone, joined = (judged(text, joins=joins, claimed=False) for joins in (False, True))
    kinds = [each if isinstance(each, str) else type(each).__name__ for each in (alone, joined)]
    assert (kinds[0] == "Proven") == (kinds[1] == "Proven"), (seed, done, alone, joined)
    return kinds[0]


def test_random_edits_are_judged_alike() -> None:
    kinds = [compared(seed, 2) for seed in range(10)]
    assert "Refuted" in kinds and "Proven" in kinds, kinds


def test_a_part_of_accesses_that_was_told_before_as_part_of_others_is_judged_alike() -> None:
    assert compared(3054, 3) == "Proven"


@pytest.mark.full
def test_many_random_edits_are_judged_alike() -> None:
    for edits in (1, 2, 3):
        for seed in range(1000 * edits, 1000 * edits + 300):
            compared(seed, edits)


# ---------------------------------------------------------------- small texts

OPENING = """
    mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, buffer; add.u32 %r3, %r3, %r2; xor.b32 %r4, %r3, 4;
    add.u32 %r20, %r1, 5; add.u32 %r21, %r1, 6;
    ld.param.u64 %rd1, [out]; cvt.u64.u32 %rd2, %r2; add.u64 %rd1, %rd1, %rd2;
    ld.param.u64 %rd3, [other]; add.u64 %rd3, %rd3, %rd2;
"""
SHARED = ".shared .align 16 .b8 buffer[4096];"
STORE, NEXT = "st.global.u32 [%rd1], %r20;", "st.global.u32 [%rd1+128], %r21;"
KEEP, FETCH = "st.shared.u32 [%r3], %r20;", "ld.shared.u32 %r8, [%r3+128];"


def text_of(body: str) -> Module:
    return module(f"{OPENING} {body} ret;", parameters=".param .u64 out, .param .u64 other", globals_=SHARED)


def arrays() -> dict[str, np.ndarray[tuple[int], np.dtype[np.uint8]]]:
    return {"out": np.zeros(1024, np.uint8), "other": np.zeros(1024, np.uint8)}


def one_launch(threads: int = 32) -> Launch:
    return launch(PointerParam("out"), PointerParam("other"), threads=threads)


def told(body: str) -> list[Access]:
    events: list[Event] = []
    dropped = DroppedValues({"out"}, joins=True)
    run_launch(text_of(body), one_launch(), arrays(), observe=events.append, dropped=dropped)
    return [each for each in events if isinstance(each, Access)]


def verdict_of(body: str, *, joins: bool, threads: int = 32) -> Verdict:
    dropped = DroppedValues({"out", "other"}, joins=joins)
    return replay(text_of(body), one_launch(threads), arrays(), dropped=dropped)


def test_two_stores_are_told_as_one() -> None:
    (both,) = told(STORE + "add.u32 %r5, %r1, 1;" + NEXT)
    assert both.write and sum(end - begin for begin, end in both.ranges) == 256
    assert both.places is not None and both.places.rows[0].begins.shape == (2, 32)
    (loads,) = told(FETCH + "ld.shared.u32 %r9, [%r4+128];")
    assert not loads.write and loads.places is not None and loads.places.rows[0].begins.shape == (2, 32)


@pytest.mark.parametrize(
    "between",
    [
        "bar.warp.sync -1;", "bar.sync 0;", "membar.cta;", "fence.proxy.async;", "fence.acq_rel.gpu;",
        "shfl.sync.idx.b32 %r9, %r1, 0, 31, -1;", "st.relaxed.gpu.global.u32 [%rd3], %r20;",
        "ld.volatile.global.u32 %r9, [%rd3];", "red.relaxed.gpu.global.add.u32 [%rd3], 1;", "bra on; on:",
    ],
)  # fmt: skip
def test_what_may_order_ends_a_stretch(between: str) -> None:
    stores = [each for each in told(STORE + between + NEXT) if each.write and not each.atomic]
    assert [sum(end - begin for begin, end in each.ranges) for each in stores] == [128, 128]


def test_kinds_are_told_apart() -> None:
    masked = "setp.lt.u32 %p1, %r1, 8; @%p1 st.global.u32 [%rd1+256], %r20; @%p1 st.global.u32 [%rd1+384], %r20;"
    found = told(STORE + KEEP + masked + NEXT + "st.shared.u32 [%r3+256], %r20;")
    assert [(each.space, each.lanes, sum(end - begin for begin, end in each.ranges)) for each in found] == [
        ("global", 0xFFFF_FFFF, 320),
        ("shared", 0xFFFF_FFFF, 256),
    ]
    # Values that are known anyhow are stored, each by itself.
    constants = told("st.global.u32 [%rd1], 7; st.global.u32 [%rd1+128], 7; st.global.u32 [%rd1+256], %r1;")
    assert [each.constant for each in constants] == [(7, 0, 0, 0), (7, 0, 0, 0), ()]
    apart = told("st.global.u32 [%rd3], %r20;" + STORE + "st.global.u32 [%rd3+128], %r20;" + NEXT)
    assert [sum(end - begin for begin, end in each.ranges) for each in apart] == [256, 256]


def test_the_last_one_is_told_though_no_lane_runs_it() -> None:
    never = "setp.gt.u32 %p1, %r1, 99; @%p1 st.global.u32 [%rd1+256], %r20;"
    (both,) = told(STORE + NEXT + never + "bar.warp.sync -1;")
    assert sum(end - begin for begin, end in both.ranges) == 256


def test_lanes_that_come_apart_tell_their_own() -> None:
    halves = f"setp.lt.u32 %p1, %r1, 16; @%p1 bra low; {STORE} {NEXT} bra past; low: {STORE} {NEXT} past:"
    found = told(halves)
    assert sorted(each.lanes for each in found) == [0xFFFF, 0xFFFF_0000]
    assert all(sum(end - begin for begin, end in each.ranges) == 128 for each in found)


def test_loads_and_stores_of_one_space_keep_their_order() -> None:
    found = told(FETCH + "ld.shared.u32 %r9, [%r3+256];" + KEEP + "st.shared.u32 [%r3+384], %r20;" + FETCH)
    assert [each.write for each in found] == [False, True, False]


EXCHANGES = {
    "written, then read by another lane": KEEP + "st.shared.u32 [%r3+128], %r20; ld.shared.u32 %r8, [%r4];",
    "read, then written by another lane": (
        KEEP + "bar.warp.sync -1; ld.shared.u32 %r8, [%r3]; ld.shared.u32 %r9, [%r4]; st.shared.u32 [%r3], %r21;"
    ),
    "written by two lanes": KEEP + "st.shared.u32 [%r4], %r21;",
    "written by two lanes, in global memory": STORE + "xor.b64 %rd5, %rd1, 4; st.global.u32 [%rd5], %r21;",
    "written by single lanes": (
        "setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r1, 1; @%p1 st.shared.u32 [%r3], %r20;"
        "@%p1 st.shared.u32 [%r3+8], %r20;"
        "@%p2 st.shared.u32 [%r3-4], %r21; @%p2 st.shared.u32 [%r3+16], %r21;"
    ),
}


@pytest.mark.parametrize("name", EXCHANGES)
def test_what_lanes_exchange_in_a_stretch_is_found(name: str) -> None:
    for joins in (False, True):
        verdict = verdict_of(EXCHANGES[name], joins=joins)
        assert isinstance(verdict, Refuted) and {each.code for each in verdict.findings} == {"NB106"}, verdict


def test_what_a_lane_keeps_for_itself_is_right() -> None:
    own = KEEP + "st.shared.u32 [%r3+128], %r20; ld.shared.u32 %r8, [%r3]; ld.shared.u32 %r9, [%r3+128];" + KEEP
    for joins in (False, True):
        assert isinstance(verdict_of(own, joins=joins), Proven)


def test_warps_race_in_a_stretch() -> None:
    # Each warp reads what its neighbour writes, before a barrier and after one.
    body = "and.b32 %r5, %r2, 127; mov.u32 %r6, buffer; add.u32 %r6, %r6, %r5;"
    body += KEEP + "st.shared.u32 [%r3+1024], %r20; {} ld.shared.u32 %r8, [%r6]; ld.shared.u32 %r9, [%r6+1024];"
    for joins in (False, True):
        assert isinstance(verdict_of(body.format("bar.sync 0;"), joins=joins, threads=64), Proven)
        racing = verdict_of(body.format(""), joins=joins, threads=64)
        assert isinstance(racing, Refuted) and "NB101" in {each.code for each in racing.findings}


@pytest.mark.parametrize(
    "body", [STORE + "st.global.u32 [%rd1+8192], %r20;", STORE + "st.global.u32 [%rd1+130], %r20;"]
)
def test_the_access_at_fault_says_so(body: str) -> None:
    faults: list[str] = []
    for joins in (False, True):
        with pytest.raises(MachineFault) as caught:
            dropped = DroppedValues({"out", "other"}, joins=joins)
            run_launch(text_of(body), one_launch(), arrays(), observe=lambda _event: None, dropped=dropped)
        faults.append(str(caught.value.diagnostic))
    assert faults[0] == faults[1]


def test_registers_that_nobody_wrote_are_refused() -> None:
    for body in (STORE + "st.global.u32 [%rd1+128], %r40;", STORE + "st.global.u32 [%rd20], %r20;"):
        with pytest.raises(MachineFault) as caught:
            told(body)
        assert caught.value.diagnostic.code == "MF003"
