# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""The second proof of a walk whose length the launch says: wrong counts and wrong ends are refuted at some length."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from tests.driver.reproof.run_time_edits import Edit, changed_size, emitted, once, without
from xdsl.dialects.builtin import ModuleOp

import tilewright as tw
from tilewright.base.element import Element
from tilewright.base.plan import RunTimeSizes
from tilewright.base.run_time import plan_at
from tilewright.base.size import Computed, Extent, Range, Size, ceil_div, computed, parse_size
from tilewright.base.verdict import Proven, Refuted
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

FACTS = target("sm_90a")
TILE = 128


@tw.kernel
def attended(q: tw.Tensor["M", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "N"], o: tw.Tensor["M", "N"]):
    i, t, e, j = tw.axes("M T E N")
    s = tw.dot(q[i, e], k[t, e], over=e) * 0.2
    o[i, j] = tw.dot(tw.softmax(s, over=t), v[t, j], over=t)


@cache
def decided(rows: Range | int = 200) -> ModuleOp:
    dims = {"M": rows, "T": tw.dynamic(1, 1000), "E": 64, "N": 64}
    (part,) = uncut(trace(attended, dims, dict.fromkeys("qkvo", Element.BF16)), FACTS, Wanted())
    assert part.decisions.tile_streamed == TILE
    return part.module


@tw.kernel
def of_one_head(
    q: tw.Tensor["B", "H", "M", "E"],
    k: tw.Tensor["B", "H", "T", "E"],
    v: tw.Tensor["B", "H", "T", "N"],
    o: tw.Tensor["B", "H", "M", "N"],
):
    b, h, i, t, e, j = tw.axes("B H M T E N")
    s = tw.where(t <= i, tw.dot(q[b, h, i, e], k[b, h, t, e], over=e) * 0.2, -math.inf)
    o[b, h, i, j] = tw.dot(tw.softmax(s, over=t), v[b, h, t, j], over=t)


@tw.kernel
def product(a: tw.Tensor["M", "T"], b: tw.Tensor["T", "N"], c: tw.Tensor["M", "N"]):
    i, j, t = tw.axes("M N T")
    c[i, j] = tw.dot(a[i, t], b[t, j], over=t)


@cache
def sum_of(target_name: str) -> ModuleOp:
    dims = {"M": 200, "N": 136, "T": tw.dynamic(8, 2000, multiple_of=8)}
    facts = target(target_name)
    (part,) = uncut(trace(product, dims, dict.fromkeys("abc", Element.BF16)), facts, Wanted(tile=(64, 64)))
    return part.module


@cache
def text() -> str:
    return emitted(lower_program(the_program(decided())))


Sizes = Callable[[RunTimeSizes], RunTimeSizes]


def judged(
    edit: Edit = lambda text: text,
    sizes: Sizes = lambda sizes: sizes,
    program: ModuleOp | None = None,
    target_name: str = "sm_90a",
) -> list[str]:
    """The verdicts on an edited text of the small instances, at each length that they have; sizes: what the plan
    computes."""
    found: list[str] = []
    program, facts = program or decided(), target(target_name)
    for extents in run_time_instances(the_program(program)):
        instance = small_instance(program, extents)
        lowered = lower_program(the_program(instance))
        claims = {each.name: protocol_claims(each.module, facts, boundaries=False)[0] for each in lowered.kernels}
        plan = launch_plan(lowered)
        assert plan.run_time is not None
        plan = plan_at(replace(plan, run_time=sizes(plan.run_time)), {"T": extents["T"]})
        changed = read(edit(emitted(lowered, target_name)))
        whole, sums = whole_results(the_program(instance)), program_sums(the_program(instance), {})
        verdict = replay_plan(changed, plan, claims, (0,), whole=whole, sums=sums)
        if isinstance(verdict, Proven) and misnumbered_results(instance, changed, plan, {}):
            verdict = Refuted(())
        found.append(type(verdict).__name__)
        if found[-1] == "Refuted":
            break
    return found


def test_lengths_are_next_to_a_tile_and_go_round_every_ring() -> None:
    lengths = [extents["T"] for extents in run_time_instances(the_program(decided()))]
    assert {1, TILE - 1, TILE, TILE + 1} <= set(lengths) and -(-lengths[0] // TILE) >= 7 and lengths[0] % TILE == 1


def test_the_text_as_it_is_is_proven() -> None:
    assert set(judged()) == {"Proven"}
    assert isinstance(reprove(decided(), text(), "sm_90a", "attended"), Proven)


COUNT = r"(ld\.param\.u32 (%r\d+), \[size_count_K\];)"
END = r"(ld\.param\.u32 (%r\d+), \[size_extent_T\];)"
TEXTS: dict[str, Edit] = {
    "an iteration less in one role": once(COUNT, r"\1\n\tsub.u32 \2, \2, 1;"),
    "an iteration less in both": once(COUNT, r"\1\n\tsub.u32 \2, \2, 1;", 0),
    "an iteration more in both": once(COUNT, r"\1\n\tadd.u32 \2, \2, 1;", 0),
    "the count taken for the end": once(r"\[size_extent_T\]", "[size_count_K]", 0),
    "a key past the end": once(END, r"\1\n\tadd.u32 \2, \2, 1;", 0),
    "the last key left out": once(END, r"\1\n\tsub.u32 \2, \2, 1;", 0),
    "no end": once(END, r"\1\n\tadd.u32 \2, \2, 4096;", 0),
    "a release left out": without(r"mbarrier\.arrive\.release"),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", TEXTS)
def test_edited_texts_are_refuted(name: str) -> None:
    assert TEXTS[name](text()) != text()
    assert "Refuted" in judged(TEXTS[name])
    assert isinstance(reprove(decided(), TEXTS[name](text()), "sm_90a", "attended"), Refuted)


SUMS: dict[str, Edit] = {
    "an iteration less in one role": once(COUNT, r"\1\n\tsub.u32 \2, \2, 1;"),
    "an iteration less in all": once(COUNT, r"\1\n\tsub.u32 \2, \2, 1;", 0),
    "an iteration more in all": once(COUNT, r"\1\n\tadd.u32 \2, \2, 1;", 0),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("target_name", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("name", ["as it is", *SUMS])
def test_sums_of_another_length_are_refuted(name: str, target_name: str) -> None:
    """Boxes past the end of both operands are zeros: that as many are multiplied is asked of events."""
    edit = SUMS.get(name, lambda text: text)
    found = judged(edit, program=sum_of(target_name), target_name=target_name)
    assert set(found) == {"Proven"} if name == "as it is" else "Refuted" in found, found


def more(by: int) -> Callable[[Size], Size]:
    return lambda size: computed("+", size, by)


def less(size: Size) -> Size:
    return computed("max", computed("-", size, 1), 1)


PLANS: dict[str, Sizes] = {
    "an iteration more": changed_size(0, more(1)),
    "an iteration less": changed_size(0, less),
    "whole tiles alone": changed_size(0, lambda size: computed("max", computed("//", Extent("T"), TILE), 1)),
    "an end behind the last key": changed_size(1, more(1)),
    "an end before the last key": changed_size(1, less),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", PLANS)
def test_other_numbers_that_a_launch_passes_are_refuted(name: str) -> None:
    assert "Refuted" in judged(sizes=PLANS[name])


def places(sizes: Sizes = lambda sizes: sizes, rows: Range | int = 200) -> set[str] | str:
    program = decided(rows)
    instance = small_instance(program, run_time_instances(the_program(program))[0])
    launch = launch_plan(lower_program(the_program(instance))).launches[-1]
    arrays = placed_arrays(the_program(instance), program_sums(the_program(instance), {}))
    lowered = lower_program(the_program(program))
    plan = launch_plan(lowered)
    assert plan.run_time is not None
    plan = replace(plan, run_time=sizes(plan.run_time))
    found = misplaced_at_run_time(read(emitted(lowered)), the_program(program), plan, launch, arrays)
    return found if isinstance(found, str) else {each.code for each in found}


@pytest.mark.parametrize("rows", [200, tw.dynamic(1, 700)])
@pytest.mark.parametrize("at", [0, 1])
def test_numbers_that_are_wrong_at_large_lengths_alone(rows: Range | int, at: int) -> None:
    """One more than there are, where no small instance is as long."""
    assert places(rows=rows) == set()

    def longer(size: Size) -> Size:
        tiles = ceil_div(Extent("T"), TILE)
        return computed("+", size, computed("//", tiles if size == tiles else Extent("T"), 8 if size == tiles else 999))

    def edit(sizes: RunTimeSizes) -> RunTimeSizes:
        (launch,) = sizes.launches
        wanted = ceil_div(Extent("T"), TILE) if at == 0 else Extent("T")
        scalars = [place for place, each in enumerate(launch.params) if each == (wanted,)]
        params = list(launch.params)
        params[scalars[0]] = (longer(wanted),)
        return replace(sizes, launches=(replace(launch, params=tuple(params)),))

    assert places(edit, rows) == {"UM107"}


@tw.kernel
def of_many(
    q: tw.Tensor["B", "M", "E"], k: tw.Tensor["B", "T", "E"], v: tw.Tensor["B", "T", "N"], o: tw.Tensor["B", "M", "N"]
):
    b, i, t, e, j = tw.axes("B M T E N")
    s = tw.dot(q[b, i, e], k[b, t, e], over=e) * 0.2
    o[b, i, j] = tw.dot(tw.softmax(s, over=t), v[b, t, j], over=t)


@pytest.mark.parametrize("stride", ["T * 128 - T // 999", "T * 128 * 2"])
def test_maps_of_other_strides(stride: str) -> None:
    dims = {"B": 3, "M": 200, "T": tw.dynamic(1, 1000), "E": 64, "N": 64}
    (part,) = uncut(trace(of_many, dims, dict.fromkeys("qkvo", Element.BF16)), FACTS, Wanted())
    program = part.module
    lowered, extents = lower_program(the_program(program)), run_time_instances(the_program(program))[0]
    instance = small_instance(program, extents)
    launch = launch_plan(lower_program(the_program(instance))).launches[-1]
    arrays = placed_arrays(the_program(instance), program_sums(the_program(instance), {}))
    text, plan = read(emitted(lowered)), launch_plan(lowered)
    assert misplaced_at_run_time(text, the_program(program), plan, launch, arrays) == ()
    assert plan.run_time is not None
    (sizes,) = plan.run_time.launches
    params = tuple(
        (*each[:4], parse_size(stride)) if len(each) == 5 and number == 1 else each
        for number, each in enumerate(sizes.params)
    )
    assert params != sizes.params
    wrong = replace(plan, run_time=replace(plan.run_time, launches=(replace(sizes, params=params),)))
    found = misplaced_at_run_time(text, the_program(program), wrong, launch, arrays)
    assert not isinstance(found, str) and [each.code for each in found] == ["UM107"]


def test_axes_of_one_place_are_told_apart_by_nothing() -> None:
    """A batch of one and a head of one lie equally far apart: where tiles lie is followed all the same."""
    dims = {"B": 1, "H": 1, "M": 200, "T": tw.dynamic(1, 1000), "E": 64, "N": 64}
    (part,) = uncut(trace(of_one_head, dims, dict.fromkeys("qkvo", Element.BF16)), FACTS, Wanted())
    emitted_text = emitted(lower_program(the_program(part.module)))
    assert isinstance(reprove(part.module, emitted_text, "sm_90a", "of_one_head"), Proven)
    assert "Refuted" in judged(TEXTS["an iteration less in one role"], program=part.module)


def test_a_count_of_other_tiles_is_not_known() -> None:
    counted = changed_size(0, lambda size: Computed("ceil_div", Extent("T"), 2 * TILE))
    found = places(counted)
    assert isinstance(found, str) and "the walk of T" in found


def test_instances_of_two_ranges_have_the_ends_of_both() -> None:
    found = run_time_instances(the_program(decided(tw.dynamic(1, 700))))
    for axis, tile in (("T", TILE), ("M", 64)):
        assert {1, tile - 1, tile, tile + 1} <= {extents[axis] for extents in found}, axis
    assert len(found) == 7 and {"M": 1, "T": 1}.items() <= found[-1].items()
    assert all(extents["M"] != extents["T"] for extents in found[:-1])


def test_the_end_stands_in_the_text_where_it_is_a_number() -> None:
    exact = trace(attended, {"M": 200, "T": 1000, "E": 64, "N": 64}, dict.fromkeys("qkvo", Element.BF16))
    (part,) = uncut(exact, FACTS, Wanted())
    other = emitted(lower_program(the_program(part.module)))
    assert ".param .u32" not in other and len(re.findall(r"\[size_(?:count_K|extent_T)\]", text())) == 4
    # Tiles that the end does not cut pass over what bounds them.
    assert len(re.findall(r"bra everywhere_\d+;", text())) == 2


@pytest.mark.sample(1)
@pytest.mark.parametrize(("element", "result"), [(Element.F8E4M3, Element.F32), (Element.BF16, Element.F32)])
def test_values_that_products_round_are_not_taken_for_others(element: Element, result: Element) -> None:
    """A result of float32 differs by what its weights of fewer bits are rounded by; a wrong end shows beside that."""
    dims = {"M": 70, "T": tw.dynamic(16, 304, multiple_of=16), "E": 64, "N": 64}
    (part,) = uncut(trace(attended, dims, {**dict.fromkeys("qkv", element), "o": result}), FACTS, Wanted())
    text = emitted(lower_program(the_program(part.module)))
    assert isinstance(reprove(part.module, text, "sm_90a", "attended"), Proven)
    assert "Refuted" in judged(once(END, r"\1\n\tsub.u32 \2, \2, 1;", 0), program=part.module)
    assert "Refuted" in judged(once(END, r"\1\n\tadd.u32 \2, \2, 1;", 0), program=part.module)
