"""Runs that leave values out and join accesses: a text is proven so if, and only if, it is proven with all values and
events. The texts: products by wgmma, and one whose operands threads copy, as they are and with edits."""

from __future__ import annotations

from functools import cache
from random import Random

import numpy as np
import pytest
from tests.end_to_end.compiled_programs import emitted
from tests.end_to_end.text_edits import Edit, drop, move, number, repeat, rewrite
from tests.end_to_end.text_fuzz import mutate_text

from tilewright.base.diagnostic import Level
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import LaunchPlan
from tilewright.contract.replay.replay import replay
from tilewright.contract.replay.unwritten import unwritten_buffers
from tilewright.contract.rules.interpretations import Interpretations
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.compile.sequence import uncut
from tilewright.driver.reproof.small import small_instance
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import the_program
from tilewright.lower.plan import launch_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program
from tilewright.machine.events_only.dropped_values import DroppedValues, ValueNeeded
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

Text = tuple[str, LaunchPlan]


@cache
def copied_by_threads() -> Text:
    """The small instance of a product of which threads copy both operands, the last slice being short."""
    module = trace(matmul_kernel, {"M": 64, "N": 192, "K": 130}, dict.fromkeys("abc", Element.BF16), {"b": (1, 130)})
    (part,) = uncut(module, target("sm_90a"), Wanted(tile=(64, 64), stages=2, unmapped="threads"))
    lowered = lower_program(the_program(small_instance(part.module)))
    (kernel,) = lowered.kernels
    return lower_to_ptx([kernel.module], "sm_90a"), launch_plan(lowered)


def by_wgmma(name: str = "one-group") -> Text:
    program = emitted(name)
    return program.text, program.plan


def kind(text: str, plan: LaunchPlan, dropped: DroppedValues | None) -> str:
    buffers = {each.name: np.zeros(max(1, each.span_bytes), np.uint8) for each in plan.buffers}
    try:
        verdict = replay(
            read(text, "k.ptx"), plan.launches[-1], buffers, unwritten=unwritten_buffers(plan), dropped=dropped,
            interpretations=Interpretations(grid_wait=Level.ERROR), step_limit=200_000,
        )  # fmt: skip
    except ValueNeeded:
        return "values"
    except TilewrightError:
        return "not run"
    return type(verdict).__name__


def three_ways(text: str, plan: LaunchPlan) -> str:
    """The kind of verdict with joined accesses, which is proven if and only if it is so each access by itself, and with
    all values."""
    arrays = {each.name for each in plan.buffers}
    ways = (DroppedValues(set(arrays), joins=True), DroppedValues(set(arrays)), None)
    kinds = [kind(text, plan, dropped) for dropped in ways]
    assert len({each == "Proven" for each in kinds if each != "values"}) <= 1, kinds
    return kinds[0]


def edited(text: str, edits: tuple[Edit, ...]) -> str:
    lines = text.split("\n")
    for edit in edits:
        lines = edit(lines)
    return "\n".join(lines)


MMA, RELEASE = r"wgmma\.mma_async", r"mbarrier\.arrive\.release\.cta"
BY_HALF_OF_THE_WARPS = (
    rewrite(r"(\.reg \.pred .*)", r"\1 .reg .pred %half; .reg .b32 %own;"),
    rewrite(
        r"(wgmma\.fence\.sync\.aligned;)",
        r"\1 and.b32 %own, %r2, 32; setp.eq.u32 %half, %own, 0; @%half mov.f32 %f3, 0f00000000;",
    ),
)
WGMMA: dict[str, tuple[Edit, ...]] = {
    "right": (),
    "a wgmma twice": (repeat(MMA, 2),),
    "a slot is released before its reads are done": (rewrite(r"(wait_group\.sync\.aligned) 1", r"\1 2"),),
    "a slot is released between wgmmas": (move(RELEASE, 0, MMA, 6),),
    "a slot is read that nobody waited for": (drop(r"mbarrier\.try_wait\.parity", 2),),
    "a wgmma reads another slot": (rewrite(r"(add\.s64 %rd\d+, %rd\d+), 2;", r"\1, 514;", 0),),
    "a wgmma reads bytes that nobody writes": (rewrite(r"(add\.s64 %rd\d+, %rd\d+), 4;", r"\1, 9000;", 0),),
    "a wgmma behind the commit": (move(MMA, 3, r"wgmma\.commit", 0),),
    "a wgmma behind the wait": (move(r"wgmma\.commit", 1, r"wgmma\.wait", 0),),
    "no commit": (drop(r"wgmma\.commit", 1),),
    "no fence": (drop(r"wgmma\.fence", 0), drop(r"wgmma\.fence", 0)),
    "an accumulator that is written between wgmmas": (
        rewrite(r"add\.s64 (%rd\d+), (%rd\d+), 6;", r"add.s64 \1, \2, 6; mov.f32 %f3, 0f00000000;", 1),
    ),
    "an accumulator that half of the warps write behind the fence": BY_HALF_OF_THE_WARPS,
    "the same, and no commit": (*BY_HALF_OF_THE_WARPS, drop(r"wgmma\.commit", 1)),
}  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", WGMMA)
def test_edited_wgmmas(name: str) -> None:
    text, plan = by_wgmma()
    assert (three_ways(edited(text, WGMMA[name]), plan) == "Proven") == (name in ("right", "a wgmma twice"))


COPY, ARRIVE, FENCE = r"cp\.async\.ca\.", r"cp\.async\.mbarrier\.arrive", r"fence\.proxy\.async"
COPIES: dict[str, tuple[Edit, ...]] = {
    "right": (),
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
    "a copy of a part": (rewrite(r", (?P<size>\d+), %p\d+;", r", \g<size>, 8;", 2),),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", COPIES)
def test_edited_copies_by_threads(name: str) -> None:
    text, plan = copied_by_threads()
    assert (three_ways(edited(text, COPIES[name]), plan) == "Proven") == (name == "right")


def random_edits(text: str, plan: LaunchPlan, seeds: range) -> set[str]:
    """The kinds of verdicts of a text with one or two random edits for each of `seeds`."""
    found: set[str] = set()
    for seed in seeds:
        changed, done = mutate_text(text, Random(seed), 1 + seed % 2)
        try:
            found.add(three_ways(changed, plan))
        except AssertionError as error:
            raise AssertionError((seed, done)) from error
    return found


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["one-group", "cluster-2x1"])
def test_random_edits(name: str) -> None:
    assert {"Proven", "Refuted"} <= random_edits(*by_wgmma(name), range(12))


@pytest.mark.full
def test_many_random_edits() -> None:
    assert {"Proven", "Refuted"} <= random_edits(*copied_by_threads(), range(1000, 1150))
    assert {"Proven", "Refuted"} <= random_edits(*by_wgmma(), range(2000, 2150))
