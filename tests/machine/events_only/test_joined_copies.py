"""Rows of cp.asyncs that are told as one: a text is proven so if, and only if, it is proven with each by itself; and
rows that are no plain ones are told one by one."""

from __future__ import annotations

import re
from functools import cache
from random import Random

import numpy as np
import pytest
from small_kernels import launch, module
from tests.end_to_end.text_edits import Edit, drop, move, number, places, repeat, rewrite
from tests.end_to_end.text_fuzz import mutate_text

from tilewright.base.diagnostic import Level
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import LaunchPlan, PointerParam
from tilewright.base.verdict import Proven, Refuted, Verdict
from tilewright.contract.replay.replay import replay
from tilewright.contract.replay.unwritten import unwritten_buffers
from tilewright.contract.rules.readings import Readings
from tilewright.contract.typestate.claims import ProtocolClaims
from tilewright.contract.typestate.typestate import protocol_claims
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.reproof.reproof import replay_plan
from tilewright.driver.reproof.small import small_instance
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile_facts import the_program
from tilewright.lower.ac_to_ptx import lower_to_ptx
from tilewright.lower.plan import launch_plan
from tilewright.lower.tile_to_ac import lower_program
from tilewright.machine.core.event import Access, AsyncCopyIssue, Event
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.run import run_launch
from tilewright.machine.events_only.copy_rows import followed_copies
from tilewright.machine.events_only.dropped_values import DroppedValues, ValueNeeded
from tilewright.synth.decide import decide
from tilewright.synth.wanted import Wanted
from tilewright.targets import target

COPY, ARRIVE, FENCE = r"cp\.async\.ca\.", r"cp\.async\.mbarrier\.arrive", r"fence\.proxy\.async"
IGNORED = r", (?P<size>\d+), %p\d+;"


@cache
def emitted() -> tuple[str, LaunchPlan, ProtocolClaims]:
    """The small instance of a product of which threads copy both operands, the last slice being short."""
    module = trace(matmul_kernel, {"M": 64, "N": 192, "K": 130}, dict.fromkeys("abc", Element.BF16), {"b": (1, 130)})
    decide(the_program(module), target("sm_90a"), Wanted(tile=(64, 64), stages=2, unmapped="threads"))
    lowered = lower_program(the_program(small_instance(module)))
    (kernel,) = lowered.kernels
    text = lower_to_ptx([kernel.module], "sm_90a")
    return text, launch_plan(lowered), protocol_claims(kernel.module, boundaries=False)[0]


def judged(text: str, *, joins: bool, claimed: bool = True) -> tuple[Verdict | str, bool]:
    """What is found of a text, and whether copies were joined."""
    _, plan, claims = emitted()
    dropped = DroppedValues({each.name for each in plan.buffers}, joins=joins)
    buffers = {each.name: np.zeros(each.span_bytes, np.uint8) for each in plan.buffers}
    try:
        verdict = replay(
            read(text, "k.ptx"), plan.launches[0], buffers, claims=claims if claimed else None,
            unwritten=unwritten_buffers(plan), dropped=dropped, readings=Readings(grid_wait=Level.ERROR),
            step_limit=200_000,
        )  # fmt: skip
    except ValueNeeded:
        return "values", dropped.joined
    except TilewrightError:
        return "not run", dropped.joined
    return verdict, dropped.joined


def edited(*edits: Edit) -> str:
    lines = emitted()[0].split("\n")
    for edit in edits:
        lines = edit(lines)
    text = "\n".join(lines)
    assert text != emitted()[0], "the edits change nothing"
    return text


def test_a_right_text_is_proven_with_few_events() -> None:
    text, plan, _ = emitted()
    counts: list[int] = []
    for joins in (False, True):
        assert isinstance(judged(text, joins=joins)[0], Proven)
        events: list[Event] = []
        dropped = DroppedValues({each.name for each in plan.buffers}, joins=joins)
        buffers = {each.name: np.zeros(each.span_bytes, np.uint8) for each in plan.buffers}
        run_launch(read(text, "k.ptx"), plan.launches[0], buffers, observe=events.append, dropped=dropped)
        assert dropped.joined == joins
        counts.append(sum(isinstance(event, AsyncCopyIssue) for event in events))
        shared = sum(
            end - begin for event in events if isinstance(event, AsyncCopyIssue) for begin, end in event.shared
        )
        from_global = sum(
            end - begin for event in events if isinstance(event, Access) and event.space == "global" and not event.write
            for begin, end in event.ranges
        )  # fmt: skip
        counts += [shared, from_global]
    # The same bytes, in a tenth of the copies.
    assert counts[1:3] == counts[4:6] and 10 * counts[3] <= counts[0]


REFUTED: dict[str, tuple[Edit, ...]] = {
    "a copy is missing": (drop(COPY, 3),),
    "the last copy is missing": (drop(COPY, -1),),
    "a copy twice": (repeat(COPY, 3),),
    "a copy where another one goes": (rewrite(r"\[(%r\d+)\+512\]", r"[\1+1536]", 0),),
    "a copy where another one's lane goes": (rewrite(r"\[(%r\d+)\+1536\]", r"[\1+1540]", 0),),
    "a copy into the next slot": (rewrite(r"\[(%r\d+)\+1024\]", r"[\1+9216]", 0),),
    "a copy far outside": (rewrite(r"\[(%r\d+)\+1024\]", r"[\1+1048576]", 0),),
    "a copy from outside": (rewrite(r"\[(%rd\d+)\+(?P<n>\d+)\]", number(lambda n: n + (1 << 24)), 2),),
    "a copy at an odd place": (rewrite(r"\[(%r\d+)\+1024\]", r"[\1+1026]", 0),),
    "the arrival before the last copies": (move(ARRIVE, 0, COPY, 5),),
    "no arrival": (drop(ARRIVE),),
    "no proxy fence": (drop(FENCE),),
    "a copy after the arrival": (move(COPY, 4, ARRIVE, 0),),
    "copies before the slot is free": (drop(r"mbarrier\.try_wait\.parity", 0),),
    "a copy of a part": (rewrite(IGNORED, r", \g<size>, 8;", 2),),
}
"""Edits of the row, and whatever a row that is told as one might hide."""


@pytest.mark.parametrize("name", REFUTED)
def test_what_is_wrong_with_one_copy_of_a_row_is_found(name: str) -> None:
    text = edited(*REFUTED[name])
    alone, joined = judged(text, joins=False), judged(text, joins=True)
    assert isinstance(alone[0], Refuted) or (name == "a copy of a part" and alone[0] == "not run"), alone
    assert type(joined[0]) is type(alone[0])


def test_a_finding_names_the_copy_itself() -> None:
    _, plan, claims = emitted()
    text = edited(REFUTED["a copy into the next slot"][0])
    verdict = replay_plan(read(text, "k.ptx"), plan, {plan.launches[0].entry: claims}, (0,))
    alone, _ = judged(text, joins=False)
    assert isinstance(verdict, Refuted) and isinstance(alone, Refuted)
    assert [each.primary for each in verdict.findings] == [each.primary for each in alone.findings]


def compared(seed: int, edits: int) -> str:
    """Both ways of running a text with random edits of the role that copies; the verdict's kind."""
    random = Random(seed)
    lines = emitted()[0].split("\n")
    begin, end = places(lines, "// role producer")[0], places(lines, ARRIVE)[-1] + 12
    part, done = mutate_text("\n".join([*lines[begin:end], "// end"]), random, edits)
    text = "\n".join([*lines[:begin], part, *lines[end:]])
    # Without claims, so that the judge itself is asked.
    alone, joined = (judged(text, joins=joins, claimed=False)[0] for joins in (False, True))
    kinds = [each if isinstance(each, str) else type(each).__name__ for each in (alone, joined)]
    assert (kinds[0] == "Proven") == (kinds[1] == "Proven"), (seed, done, alone, joined)
    return kinds[0]


def test_random_edits_are_judged_alike() -> None:
    kinds = [compared(seed, 1) for seed in range(8)]
    assert kinds.count("Refuted") > 2 and "Proven" in kinds, kinds


@pytest.mark.full
def test_many_random_edits_are_judged_alike() -> None:
    for edits in (1, 2, 3):
        for seed in range(1000 * edits, 1000 * edits + 300):
            compared(seed, edits)


# ---------------------------------------------------------------- small texts

ROW = """
    mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, buffer; add.u32 %r3, %r3, %r2;
    ld.param.u64 %rd1, [out]; cvt.u64.u32 %rd2, %r2; add.u64 %rd1, %rd1, %rd2;
    {}
    cp.async.wait_all; ret;
"""
FIRST, SECOND = "cp.async.ca.shared.global [%r3], [%rd1], 4;", "cp.async.ca.shared.global [%r3+128], [%rd1+128], 4;"


def issues(body: str, words: int = 256) -> list[AsyncCopyIssue]:
    text = module(ROW.format(body), parameters=".param .u64 out", globals_=".shared .align 16 .b8 buffer[4096];")
    events: list[Event] = []
    dropped = DroppedValues({"out"}, joins=True)
    buffers = {"out": np.zeros(4 * words, np.uint8)}
    run_launch(text, launch(PointerParam("out")), buffers, observe=events.append, dropped=dropped)
    return [event for event in events if isinstance(event, AsyncCopyIssue)]


def test_two_copies_in_a_row_are_one() -> None:
    (both,) = issues(FIRST + SECOND)
    assert both.shared == ((0, 256),)
    assert both.places is not None and both.places.rows[0].begins.ravel().tolist() == [4 * lane for lane in range(64)]
    assert both.places.rows[0].begins.shape == (2, 32)
    assert len(issues(FIRST + "add.u32 %r4, %r1, 1; setp.eq.u32 %p1, %r4, 0;" + SECOND)) == 1


@pytest.mark.parametrize(
    "body",
    [
        FIRST + "cp.async.commit_group;" + SECOND,
        FIRST + "bar.warp.sync -1;" + SECOND,
        FIRST + "fence.proxy.async;" + SECOND,
        FIRST + "st.shared.u32 [%r3+1024], %r1;" + SECOND,
        FIRST + "ld.global.u32 %r4, [%rd1];" + SECOND,
        FIRST + "setp.lt.u32 %p1, %r1, 16; @%p1 " + SECOND,
        "setp.lt.u32 %p1, %r1, 32; @%p1 " + FIRST + SECOND,
        FIRST + "bra on; on: " + SECOND,
        "setp.lt.u32 %p1, %r1, 16; @%p1 bra past; " + FIRST + SECOND + "past:",  # half of the lanes
        FIRST + SECOND.replace("128]", "4]"),  # the same bytes twice
        FIRST + SECOND.replace(", 4;", ", 4, 2;"),  # a part of a piece
    ],
)
def test_what_is_no_row_is_told_one_by_one(body: str) -> None:
    assert len(issues(body)) == 2


def test_copies_of_other_sizes_or_sources_are_copies_of_their_own() -> None:
    wide = "shl.b32 %r5, %r1, 4; mov.u32 %r6, buffer; add.u32 %r6, %r6, %r5; and.b64 %rd3, %rd1, -256;"
    found = issues(wide + FIRST + SECOND + "cp.async.cg.shared.global [%r6+1024], [%rd3], 16;")
    assert [sum(end - begin for begin, end in each.shared) for each in found] == [256, 512]


def test_lanes_that_read_nothing_are_left_out() -> None:
    text = module(
        ROW.format(
            "setp.ge.u32 %p1, %r1, 8;"
            + FIRST.replace(", 4;", ", 4, %p1;")
            + SECOND.replace(", 4;", ", 4, %p1;")
        ),
        parameters=".param .u64 out", globals_=".shared .align 16 .b8 buffer[4096];",
    )  # fmt: skip
    events: list[Event] = []
    run_launch(
        text, launch(PointerParam("out")), {"out": np.zeros(160, np.uint8)}, observe=events.append,
        dropped=DroppedValues({"out"}, joins=True),
    )  # fmt: skip
    reads = [each for each in events if isinstance(each, Access) and each.space == "global"]
    assert [each.lanes for each in reads] == [0xFF, 0xFF]
    assert [end - begin for each in reads for begin, end in each.ranges] == [32, 32]


def test_the_copy_at_fault_says_so() -> None:
    with pytest.raises(MachineFault) as caught:
        issues(FIRST + SECOND.replace("[%rd1+128]", "[%rd1+8192]"))
    assert caught.value.diagnostic.code == "MF001"
    assert caught.value.diagnostic.primary is not None
    with pytest.raises(MachineFault) as caught:
        issues(FIRST + SECOND.replace("+128], [", "+130], ["))
    assert caught.value.diagnostic.code == "MF002"


def test_which_copies_stand_in_a_row() -> None:
    kernel = module(ROW.format(FIRST + "add.u32 %r4, %r1, 1;" + SECOND + FIRST), globals_=".shared .b8 buffer[4096];",
                    parameters=".param .u64 out").kernels[0]  # fmt: skip
    copies = [item for item in kernel.body if re.match(r"cp\.async$", getattr(item, "row", ""))]
    assert len(copies) == 3
    assert followed_copies(kernel) == {id(copies[0]), id(copies[1])}
