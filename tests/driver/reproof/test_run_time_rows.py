# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""The second proof of rows and points whose lengths the launch says: wrong texts, and wrong numbers, are refuted."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from tests.driver.reproof.run_time_edits import Edit, emitted, once
from xdsl.dialects.builtin import ModuleOp

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.run_time import plan_at
from tilewright.base.size import Size, computed, parse_size
from tilewright.base.verdict import Proven
from tilewright.contract.typestate.typestate import protocol_claims
from tilewright.driver.reproof.drawn_numbers import misnumbered_results
from tilewright.driver.reproof.reproof import replay_plan, reprove
from tilewright.driver.reproof.small import small_instance
from tilewright.driver.reproof.small_run_time import run_time_instances
from tilewright.driver.reproof.tile_places import miscounted_points
from tilewright.driver.reproof.whole_results import whole_results
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import the_program
from tilewright.lower.plan import launch_plan
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import decide
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

FACTS = target("sm_90a")


@tw.kernel
def softmax(x: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    y[i, j] = tw.softmax(x[i, j], over=j)


@tw.kernel
def sums(x: tw.Tensor["M", "N"], y: tw.Tensor["M", tw.f32], z: tw.Tensor["M", tw.f32], p: tw.Tensor["M", tw.i32]):
    i, j = tw.axes("M N")
    y[i] = tw.sum(x[i, j], over=j)
    z[i] = tw.min(x[i, j], over=j)
    p[i] = tw.argmax(x[i, j], over=j)


@tw.kernel
def added(x: tw.Tensor["M", "N"], t: tw.Tensor["N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] + t[j]


KINDS = {
    "vectors": (softmax, {"M": 3, "N": tw.dynamic(8, 592, multiple_of=8)}, Wanted()),
    "single": (sums, {"M": 3, "N": tw.dynamic(1, 90)}, Wanted()),
    "shifted": (softmax, {"M": tw.dynamic(1, 4), "N": tw.dynamic(64, 600)}, Wanted(row_run=8)),
    "streamed": (softmax, {"M": 2, "N": tw.dynamic(8, 5000, multiple_of=8)}, Wanted(row_kept=True)),
    "points": (added, {"M": tw.dynamic(1, 9), "N": tw.dynamic(1, 90)}, Wanted()),
}


@cache
def decided(name: str) -> ModuleOp:
    kernel, dims, wanted = KINDS[name]
    module = trace(kernel, dims, {each.name: each.element or Element.BF16 for each in kernel.parameters})
    decide(the_program(module), FACTS, wanted)
    return module


def holds(name: str, edit: Edit) -> bool:
    """Whether an edited text is proven at every extent at which it is run."""
    program = decided(name)
    for extents in run_time_instances(the_program(program)):
        instance = small_instance(program, extents)
        lowered = lower_program(the_program(instance))
        at = {axis: extents[axis] for axis in the_program(program).run_time}
        claims = {
            each.name: protocol_claims(each.module, FACTS, boundaries=False, extents=at)[0] for each in lowered.kernels
        }
        text = emitted(lowered)
        module, plan = read(edit(text)), plan_at(launch_plan(lowered), at)
        verdict = replay_plan(module, plan, claims, (0,), whole=whole_results(the_program(instance)))
        if not isinstance(verdict, Proven) or misnumbered_results(instance, module, plan, {}):
            return False
    return True


@pytest.mark.parametrize("name", KINDS)
def test_what_is_emitted_is_proven(name: str) -> None:
    assert isinstance(
        reprove(decided(name), emitted(lower_program(the_program(decided(name)))), "sm_90a", name), Proven
    )
    assert holds(name, lambda text: text)


LENGTH = r"(ld\.param\.u32\s+(%r\d+), \[size_extent_N\];)"
STRIDE = r"(ld\.param\.u32\s+(%r\d+), \[size_stride_N\];)"
EDITS: dict[str, Edit] = {
    "a point more": once(LENGTH, r"\1\n\tadd.u32 \2, \2, 1;", 0),
    "a point less": once(LENGTH, r"\1\n\tsub.u32 \2, \2, 1;", 0),
    "a run less": once(LENGTH, r"\1\n\tsub.u32 \2, \2, 8;", 0),
    "rows lie further apart": once(STRIDE, r"\1\n\tadd.u32 \2, \2, 8;", 0),
}
WRONG = [
    ("vectors", "a point more"), ("vectors", "a run less"), ("vectors", "rows lie further apart"),
    ("single", "a point more"), ("single", "a point less"), ("single", "rows lie further apart"),
    ("shifted", "a point more"), ("shifted", "a point less"), ("shifted", "rows lie further apart"),
    ("streamed", "a run less"), ("streamed", "rows lie further apart"),
    ("points", "a point less"), ("points", "rows lie further apart"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "edit"), WRONG)
def test_edited_texts_do_not_hold(name: str, edit: str) -> None:
    text = emitted(lower_program(the_program(decided(name))))
    assert EDITS[edit](text) != text
    assert not holds(name, EDITS[edit])


def test_what_lies_past_the_end_counts_nowhere() -> None:
    """No event says so: numbers do. Every choice of a neutral number other than 0 past the end is left out."""
    text = emitted(lower_program(the_program(decided("single"))))
    pattern = r"selp\.f32\s+(%f\d+), (%f\d+), 0f(?!00000000)[^,]+, %p\d+;"
    edits = [
        text.replace(found, f"mov.f32 {register}, {value};", 1)
        for found, register, value in re.findall(rf"({pattern})", text)
    ]
    assert len(edits) >= 2
    for each in edits:
        assert not holds("single", lambda _, each=each: each)


PASSED: dict[str, Callable[[Size], Size]] = {
    "size_extent_N": lambda size: computed("-", size, parse_size("N // 500")),
    "size_stride_N": lambda size: computed("+", size, parse_size("N // 590 * 8")),
}


@pytest.mark.parametrize("name", PASSED)
def test_what_is_passed_at_large_lengths_alone(name: str) -> None:
    module = decided("vectors")
    lowered = lower_program(the_program(module))
    text, plan = read(emitted(lowered)), launch_plan(lowered)
    assert plan.run_time is not None and miscounted_points(text, the_program(module), plan) == ()
    (launch,), (kernel,) = plan.run_time.launches, text.kernels
    at = [each.name for each in kernel.parameters].index(name)
    params = [(PASSED[name](each[0]),) if number == at else each for number, each in enumerate(launch.params)]
    wrong = replace(plan, run_time=replace(plan.run_time, launches=(replace(launch, params=tuple(params)),)))
    assert [each.code for each in miscounted_points(text, the_program(module), wrong)] == ["UM107"]
