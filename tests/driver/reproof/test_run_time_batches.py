# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""The second proof where the launch says the extent of a batch, of rows inside of it, or of both: other places, counts
and strides are refuted."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from tests.driver.reproof.run_time_edits import Edit, changed_size, emitted, once
from xdsl.dialects.builtin import ModuleOp

import tilewright as tw
from tilewright.base.element import Element
from tilewright.base.plan import RunTimeSizes
from tilewright.base.run_time import plan_at
from tilewright.base.size import Size, computed, parse_size
from tilewright.base.verdict import Proven, Refuted
from tilewright.driver.compile.kernels import batched_kernel
from tilewright.driver.compile.sequence import uncut
from tilewright.driver.compile.walked import walked
from tilewright.driver.reproof.program_sums import placed_arrays, program_sums
from tilewright.driver.reproof.reproof import reprove
from tilewright.driver.reproof.small import small_instance
from tilewright.driver.reproof.small_run_time import run_time_instances
from tilewright.driver.reproof.tile_places import misplaced_at_run_time
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import the_program
from tilewright.lower.plan import launch_plan
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import decide
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

BATCH = tw.dynamic(1, 40)
TILES = 12
"""Of a matrix: 4 x 3."""


@cache
def decided(target_name: str) -> ModuleOp:
    dims, wanted, facts = {"B": BATCH, "M": 200, "N": 136, "K": 64}, Wanted(tile=(64, 64)), target(target_name)
    module = walked(trace(batched_kernel("none"), dims, dict.fromkeys("abc", Element.BF16)), facts, wanted)
    decide(the_program(module), facts, wanted)
    return module


def text_of(target_name: str) -> str:
    return emitted(lower_program(the_program(decided(target_name))), target_name)


@pytest.mark.parametrize("target_name", ["sm_90a", "sm_100a"])
def test_what_is_emitted_is_proven(target_name: str) -> None:
    verdict = reprove(decided(target_name), text_of(target_name), target_name, "batched")
    assert isinstance(verdict, Proven), verdict
    assert {1, 2} <= {extents["B"] for extents in run_time_instances(the_program(decided(target_name)))}


TEXTS: dict[str, Edit] = {
    "a tile less in each matrix": once(rf"(mov\.u32\s+%r\d+), {TILES};", rf"\1, {TILES - 1};", 0),
    "a tile less in each matrix of one role": once(rf"(mov\.u32\s+%r\d+), {TILES};", rf"\1, {TILES - 1};"),
    "a tile of all left out": once(r"(ld\.param\.u32\s+(%r\d+), \[size_tiles\];)", r"\1\n\tsub.u32 \2, \2, 1;", 0),
}


@pytest.mark.parametrize("name", TEXTS)
def test_edited_texts_are_refuted(name: str) -> None:
    text = text_of("sm_90a")
    assert TEXTS[name](text) != text
    assert isinstance(reprove(decided("sm_90a"), TEXTS[name](text), "sm_90a", "batched"), Refuted)


def placed(sizes: Callable[[RunTimeSizes], RunTimeSizes] = lambda sizes: sizes) -> object:
    """What is found of places, and of what a launch passes, at every batch."""
    program = decided("sm_90a")
    plan = launch_plan(lower_program(the_program(program)))
    assert plan.run_time is not None
    instance = small_instance(program, run_time_instances(the_program(program))[0])
    small = launch_plan(lower_program(the_program(instance)))
    changed = replace(plan, run_time=sizes(plan.run_time))
    arrays = placed_arrays(the_program(instance), program_sums(the_program(instance), {}))
    return misplaced_at_run_time(read(text_of("sm_90a")), the_program(program), changed, small.launches[0], arrays)


COUNTS: dict[str, Callable[[Size], Size]] = {
    "a matrix less at most": lambda size: computed("-", size, computed("*", parse_size("B // 40"), TILES)),
    "a tile more from 32 on": lambda size: computed("+", size, parse_size("B // 32")),
}


def test_places_are_right_at_every_batch() -> None:
    assert placed() == ()


@pytest.mark.parametrize("name", COUNTS)
def test_counts_that_are_wrong_at_large_batches_alone(name: str) -> None:
    found = placed(changed_size(0, COUNTS[name]))
    assert isinstance(found, tuple) and found


@tw.kernel
def prompts(
    q: tw.Tensor["B", "M", "E"],
    k: tw.Tensor["B", "T", "E"],
    v: tw.Tensor["B", "T", "N"],
    o: tw.Tensor["B", "M", "N"],
):
    b, i, t, e, j = tw.axes("B M T E N")
    s = tw.where(t <= i, tw.dot(q[b, i, e], k[b, t, e], over=e) * 0.2, -math.inf)
    o[b, i, j] = tw.dot(tw.softmax(s, over=t), v[b, t, j], over=t)


@cache
def of_prompts() -> tuple[ModuleOp, str]:
    """Of a kernel whose batch, rows and keys are all ranges, and which leaves out what its mask does, for tiles and
    for each consumer's own rows."""
    dims = {"B": tw.dynamic(1, 34), "M": tw.dynamic(1, 1200), "T": tw.dynamic(1, 1200), "E": 32, "N": 32}
    wanted = Wanted(consumers=3, depth=64)
    (part,) = uncut(trace(prompts, dims, dict.fromkeys("qkvo", Element.BF16)), target("sm_90a"), wanted)
    assert part.decisions.walked and part.decisions.unit_end is not None and part.decisions.together_at
    return part.module, emitted(lower_program(the_program(part.module)))


PROMPTS: dict[str, Edit] = {
    "another place of the batch": once(
        r"(ld\.param\.u32\s+(%r\d+), \[size_stride_M_32\];)", r"\1\n\tadd.u32 \2, \2, 8;", 0
    ),
    "a tile less to walk in both": once(
        r"(ld\.param\.u32\s+(%r\d+), \[size_count_K\];)", r"\1\n\tsub.u32 \2, \2, 1;\n\tmax.u32 \2, \2, 1;", 0
    ),
    "a tile less of each matrix": once(
        r"(ld\.param\.u32\s+(%r\d+), \[size_tiles_of_matrix\];)", r"\1\n\tsub.u32 \2, \2, 1;", 0
    ),
    "a unit with rows less": once(r"(ld\.param\.u32\s+(%r\d+), \[size_units\];)", r"\1\n\tsub.u32 \2, \2, 1;"),
    "each consumer ends a tile early": once(r"(sub\.s32\s+(%r\d+), %r\d+, %r\d+;)", r"\1\n\tsub.s32 \2, \2, 1;"),
    "units of one consumer": once(r"(mad\.lo\.s32\s+%r\d+, %r\d+), 3,", r"\1, 1,"),
}


@pytest.mark.parametrize("name", ["as it is", *PROMPTS])
def test_prompts_of_any_number_and_length(name: str) -> None:
    module, text = of_prompts()
    edited = PROMPTS.get(name, lambda text: text)(text)
    assert (edited == text) == (name == "as it is")
    verdict = reprove(module, edited, "sm_90a", "prompts")
    assert isinstance(verdict, Proven if name == "as it is" else Refuted), verdict


MOST = "(ceil_div(M, 192) // 7) * (B // 34)"
"""1 where there are most tiles, else 0;"""
SOME = "((ceil_div(M, 192) % 5) // 4) * ((B % 14) // 13)"
"""1 of 4 tiles of rows and 13 places, or a few others, else 0."""
PASSED: dict[str, Callable[[Size], Size]] = {
    "size_stride_M_32": lambda size: computed("+", size, parse_size("M // 1200")),
    "size_tiles": lambda size: computed("+", size, parse_size(MOST)),
    "size_count_K": lambda size: computed("max", computed("-", size, parse_size("ceil_div(T, 64) // 19")), 1),
    "size_together": lambda size: computed("+", size, parse_size(SOME)),
    "size_together_reciprocal": lambda size: computed("-", size, computed("*", parse_size(SOME), 1 << 31)),
    "size_whole_groups": lambda size: computed("-", size, parse_size(MOST)),
    "size_last_together": lambda size: computed("+", size, parse_size(MOST)),
    "size_tiles_of_group": lambda size: computed("+", size, parse_size(SOME)),
    "size_units": lambda size: computed("-", size, parse_size("M // 1200")),
}


@pytest.mark.parametrize("name", ["as it is", *PASSED])
def test_what_is_wrong_at_a_few_extents_alone(name: str) -> None:
    """What the launch passes, where several axes are large."""
    module, text = of_prompts()
    plan = launch_plan(lower_program(the_program(module)))
    extents = run_time_instances(the_program(module))[0]
    instance = small_instance(module, extents)
    small = plan_at(launch_plan(lower_program(the_program(instance))), {axis: extents[axis] for axis in "BMT"})
    (launch,) = small.launches
    arrays = placed_arrays(the_program(instance), program_sums(the_program(instance), {}))
    assert plan.run_time is not None
    (sizes,) = plan.run_time.launches
    (kernel,) = read(text).kernels
    at = [each.name for each in kernel.parameters].index(name) if name in PASSED else 0
    change = PASSED.get(name, lambda size: size)
    changed = [
        (change(each[0]),) if number == at and name in PASSED else each for number, each in enumerate(sizes.params)
    ]
    edited = replace(plan, run_time=replace(plan.run_time, launches=(replace(sizes, params=tuple(changed)),)))
    found = misplaced_at_run_time(read(text), the_program(module), edited, launch, arrays)
    assert isinstance(found, tuple) and bool(found) == (name in PASSED)
