# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""The second proof of products whose columns have a range: rows that lie elsewhere, and strides of others, are
refuted."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from tests.driver.reproof.run_time_edits import Edit, emitted, once
from xdsl.dialects.builtin import ModuleOp

import tilewright as tw
from tilewright.base.element import Element
from tilewright.base.run_time import plan_at
from tilewright.base.size import Size, computed, parse_size
from tilewright.base.verdict import Proven
from tilewright.contract.typestate.typestate import protocol_claims
from tilewright.driver.compile.sequence import uncut
from tilewright.driver.reproof.drawn_numbers import misnumbered_results
from tilewright.driver.reproof.program_sums import placed_arrays, program_sums
from tilewright.driver.reproof.reproof import replay_plan, reprove
from tilewright.driver.reproof.small import small_instance
from tilewright.driver.reproof.small_run_time import run_time_instances
from tilewright.driver.reproof.tile_places import misplaced_at_run_time
from tilewright.driver.reproof.whole_results import whole_results
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import the_program
from tilewright.lower.plan import launch_plan
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target


@tw.kernel
def layer(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], r: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.dot(x[i, k], w[j, k], over=k) + r[i, j]


COLUMNS = {"odd": tw.dynamic(1, 299), "eights": tw.dynamic(8, 304, multiple_of=8)}


@cache
def decided(columns: str, name: str) -> ModuleOp:
    dims = {"M": tw.dynamic(1, 150), "N": COLUMNS[columns], "K": 64}
    wanted = Wanted(tile=(64, 64), swapped=False)
    (part,) = uncut(trace(layer, dims, dict.fromkeys("xwry", Element.BF16)), target(name), wanted)
    return part.module


CASES = [("odd", "sm_90a"), ("eights", "sm_90a"), ("odd", "sm_100a"), ("eights", "sm_100a")]


@pytest.mark.parametrize(("columns", "name"), CASES)
def test_what_is_emitted_is_proven(columns: str, name: str) -> None:
    module = decided(columns, name)
    verdict = reprove(module, emitted(lower_program(the_program(module)), name), name, "layer")
    assert isinstance(verdict, Proven), verdict


def holds(module: ModuleOp, name: str, edit: Edit) -> bool:
    """Whether an edited text is proven at every extent at which it is run."""
    facts = target(name)
    for extents in run_time_instances(the_program(module)):
        instance = small_instance(module, extents)
        lowered = lower_program(the_program(instance))
        at = {axis: extents[axis] for axis in the_program(module).run_time}
        claims = {
            each.name: protocol_claims(each.module, facts, boundaries=False, extents=at)[0] for each in lowered.kernels
        }
        text, plan = read(edit(emitted(lowered, name))), plan_at(launch_plan(lowered), at)
        whole, sums = whole_results(the_program(instance)), program_sums(the_program(instance), {})
        verdict = replay_plan(text, plan, claims, (0,), whole=whole, sums=sums)
        if not isinstance(verdict, Proven) or misnumbered_results(instance, text, plan, {}):
            return False
    return True


STRIDE = r"(ld\.param\.u32\s+(%r\d+), \[size_stride_N\];)"
EDITS: dict[str, Edit] = {
    "all rows lie further apart": once(STRIDE, r"\1\n\tadd.u32 \2, \2, 8;", 0),
    "rows of one array do": once(STRIDE, r"\1\n\tadd.u32 \2, \2, 8;"),
    "as far as there are rows": once(r"\[size_stride_N\]", "[size_extent_M]"),
    "a column more": once(r"(ld\.param\.u32\s+(%r\d+), \[size_extent_N\];)", r"\1\n\tadd.u32 \2, \2, 1;", 0),
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize(("columns", "name"), [("odd", "sm_90a"), ("eights", "sm_100a")])
def test_edited_texts_do_not_hold(columns: str, name: str, edit: str) -> None:
    module = decided(columns, name)
    text = emitted(lower_program(the_program(module)), name)
    assert EDITS[edit](text) != text
    if (columns, edit) != ("eights", "a column more"):  # of vectors of 8, none more begins before the end
        assert not holds(module, name, EDITS[edit])


PASSED: dict[str, Callable[[Size], Size]] = {
    "size_stride_N": lambda size: computed("+", size, parse_size("N // 290")),
    "size_extent_N": lambda size: computed("-", size, parse_size("N // 290")),
    "size_tiles": lambda size: computed("+", size, parse_size("(N // 290) * (M // 140)")),
}


@pytest.mark.parametrize("name", ["as it is", *PASSED])
def test_what_a_launch_passes_at_large_extents_alone(name: str) -> None:
    module = decided("odd", "sm_90a")
    lowered = lower_program(the_program(module))
    text, plan = read(emitted(lowered)), launch_plan(lowered)
    instance = small_instance(module, run_time_instances(the_program(module))[0])
    at = {axis: the_program(instance).extents[axis] for axis in "MN"}
    (launch,) = plan_at(launch_plan(lower_program(the_program(instance))), at).launches
    arrays = placed_arrays(the_program(instance), program_sums(the_program(instance), {}))
    assert plan.run_time is not None
    (sizes,), (kernel,) = plan.run_time.launches, text.kernels
    names = [each.name for each in kernel.parameters]
    params = [(PASSED[name](each[0]),) if own == name else each for own, each in zip(names, sizes.params, strict=True)]
    edited = replace(plan, run_time=replace(plan.run_time, launches=(replace(sizes, params=tuple(params)),)))
    found = misplaced_at_run_time(text, the_program(module), edited, launch, arrays)
    assert isinstance(found, tuple) and bool(found) == (name in PASSED)
