# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""The second proof of texts with run-time extents: right ones are proven, wrong ones refuted at some extent."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import pytest
from tests.driver.reproof.run_time_edits import Edit, changed_size, emitted, once, without
from xdsl.dialects.builtin import ModuleOp

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.plan import LaunchPlan, RunTimeSizes
from tilewright.base.run_time import plan_at
from tilewright.base.size import Extent, Range, Size, ceil_div, computed, parse_size
from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.contract.typestate.typestate import protocol_claims
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.compile.walked import walked
from tilewright.driver.reproof.program_sums import placed_arrays, program_sums
from tilewright.driver.reproof.reproof import replay_plan, reprove
from tilewright.driver.reproof.small import small_instance
from tilewright.driver.reproof.small_run_time import is_of_tiles, nearest, run_time_instances
from tilewright.driver.reproof.tile_places import miscounted_points, misplaced_at_run_time
from tilewright.driver.reproof.whole_results import whole_results
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import the_program
from tilewright.lower.plan import launch_plan
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import decide
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

FACTS = target("sm_90a")
BLACKWELL = "sm_100a"


@tw.kernel
def transposed(a: tw.Tensor["K", "N"], b: tw.Tensor["M", "K"], c: tw.Tensor["M", "N"]):
    j, i = tw.grid("N", "M")
    acc = tw.zeros(j, i)
    for k in tw.loop("K"):
        acc += tw.dot(a[k, j].T, b[i, k].T)
    c[i, j] = acc.T


@dataclass(frozen=True)
class Kind:
    values: Range
    wanted: Wanted
    columns: int = 320
    target: str = "sm_90a"
    kernel: Kernel = matmul_kernel


KINDS = {
    "rows": Kind(tw.dynamic(1, 64 * 19), Wanted(tile=(64, 64), stages=2, tile_group=8, swapped=False)),
    "columns": Kind(tw.dynamic(1, 64 * 19), Wanted(tile=(64, 64), stages=2, tile_group=4, swapped=True)),
    "plain stores": Kind(tw.dynamic(1, 64 * 9), Wanted(tile=(64, 64), stages=2, swapped=False), columns=317),
    "ping-pong": Kind(
        tw.dynamic(0, 128 * 9, multiple_of=8), Wanted(tile=(128, 64), stages=2, turns=True, swapped=False)
    ),
    "sums in tensor memory": Kind(tw.dynamic(1, 128 * 19), Wanted(tile=(128, 64)), target=BLACKWELL),
    "columns in tensor memory": Kind(
        tw.dynamic(0, 64 * 19), Wanted(tile=(64, 64)), target=BLACKWELL, kernel=transposed
    ),
    "pairs": Kind(tw.dynamic(1, 64 * 9), Wanted(tile=(64, 128), stages=2, cluster=(2, 1), swapped=False)),
}


@cache
def decided(name: str) -> ModuleOp:
    kind = KINDS[name]
    dims = {"M": kind.values, "N": kind.columns, "K": 128}
    strides = {"b": (320, 1)} if kind.columns % 8 else {}
    facts = target(kind.target)
    module = walked(trace(kind.kernel, dims, dict.fromkeys("abc", Element.BF16), strides), facts, kind.wanted)
    decide(the_program(module), facts, kind.wanted)
    return module


def text_of(name: str) -> str:
    return emitted(lower_program(the_program(decided(name))), KINDS[name].target)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", KINDS)
def test_what_is_emitted_is_proven(name: str) -> None:
    text = text_of(name)
    verdict = reprove(decided(name), text, KINDS[name].target, name)
    assert isinstance(verdict, Proven), verdict
    assert any("as run" in line for line in verdict.claims)


def judged(name: str, edit: Edit, sizes: Callable[[RunTimeSizes], RunTimeSizes] | None = None) -> list[str]:
    """The verdicts on an edited text of the small instance, at each of its extents. sizes: what the plan computes."""
    program = decided(name)
    found: list[str] = []
    for extents in run_time_instances(the_program(program)):
        instance = small_instance(program, extents)
        lowered = lower_program(the_program(instance))
        facts = target(KINDS[name].target)
        claims = {each.name: protocol_claims(each.module, facts, boundaries=False)[0] for each in lowered.kernels}
        plan = launch_plan(lowered)
        assert plan.run_time is not None
        if sizes is not None:
            plan = replace(plan, run_time=sizes(plan.run_time))
        text = emitted(lowered, KINDS[name].target)
        changed = edit(text)
        assert sizes is not None or changed != text, "the edit changes nothing"
        at = plan_at(plan, {"M": extents["M"]})
        whole, sums = whole_results(the_program(instance)), program_sums(the_program(instance), {})
        verdict = replay_plan(read(changed), at, claims, (0,), whole=whole, sums=sums)
        found.append(type(verdict).__name__)
    return found


def test_the_text_as_it_is_holds_at_every_extent() -> None:
    assert set(judged("rows", lambda text: text, lambda sizes: sizes)) == {"Proven"}


TEXTS: dict[str, Edit] = {
    "no wait for a full slot": once(
        r"(setmaxnreg\.inc[\s\S]*?)mbarrier\.try_wait[^\n]*\n\t@%p\d+ (bra wait_done_\d+;)\n\tbra wait_\d+;", r"\1\2"
    ),
    "a release left out": without(r"mbarrier\.arrive\.release"),
    "bytes halved": once(r"(expect_tx.*), 16384;", r"\1, 8192;"),
    "one tile less in one role": once(r"(ld\.param\.u32 (%r\d+), \[size_tiles\];)", r"\1\n\tsub.u32 \2, \2, 1;"),
    "one tile more in both roles": once(r"(ld\.param\.u32 (%r\d+), \[size_tiles\];)", r"\1\n\tadd.u32 \2, \2, 1;", 0),
    "the grid's step taken for the number of tiles": once(r"\[size_clusters\]", "[size_tiles]", 0),
    "a fence left out": without(r"fence\.proxy\.async"),
    "a wait for staging left out": without(r"cp\.async\.bulk\.wait_group\.read"),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", TEXTS)
def test_edited_texts_are_refuted(name: str) -> None:
    found = judged("rows", TEXTS[name])
    assert "Refuted" in found, found


OF_TENSOR_MEMORY: dict[str, Edit] = {
    "nobody waits": once(r"\tmbarrier\.try_wait[^\n]*\n\t@%p\d+ (bra wait_done)", r"\t\1", 0),
    "sums are never handed over": without(r"tcgen05\.commit", -1),
    "one tile less in one role": once(r"(ld\.param\.u32 (%r\d+), \[size_tiles\];)", r"\1\n\tsub.u32 \2, \2, 1;"),
    "one tile more in all roles": once(r"(ld\.param\.u32 (%r\d+), \[size_tiles\];)", r"\1\n\tadd.u32 \2, \2, 1;", 0),
    "the grid's step taken for the number of tiles": once(r"\[size_clusters\]", "[size_tiles]", 0),
    "rows past the end are stored": once(r"\[size_extent_M\]", "[size_tiles_m]", 0),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", OF_TENSOR_MEMORY)
def test_edited_texts_whose_sums_are_in_tensor_memory_are_refuted(name: str) -> None:
    found = judged("sums in tensor memory", OF_TENSOR_MEMORY[name])
    assert "Refuted" in found, found


def changed_grid(sizes: RunTimeSizes) -> RunTimeSizes:
    (launch,) = sizes.launches
    return replace(sizes, launches=(replace(launch, grid=(computed("+", launch.grid[0], 1), 1, 1)),))


PLANS: dict[str, Callable[[RunTimeSizes], RunTimeSizes]] = {
    "tiles rounded down": changed_size(0, lambda size: computed("max", computed("-", size, 1), 1)),
    "one tile more": changed_size(0, lambda size: computed("+", size, 1)),
    "clusters of another grid": changed_size(1, lambda size: computed("+", size, 1)),
    "a CTA more than is stepped by": changed_grid,
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", PLANS)
def test_other_numbers_that_a_launch_passes_are_refuted(name: str) -> None:
    found = judged("rows", lambda text: text, PLANS[name])
    assert "Refuted" in found, found


def places(name: str, text: str, plan: LaunchPlan | None = None) -> set[str] | str:
    program = decided(name)
    instance = small_instance(program, run_time_instances(the_program(program))[0])
    launch = launch_plan(lower_program(the_program(instance))).launches[-1]
    arrays = placed_arrays(the_program(instance), program_sums(the_program(instance), {}))
    found = misplaced_at_run_time(
        read(text), the_program(program), plan or launch_plan(lower_program(the_program(program))), launch, arrays
    )
    return found if isinstance(found, str) else {each.code for each in found}


@pytest.mark.parametrize("name", KINDS)
def test_places_are_right_for_every_number_of_tiles(name: str) -> None:
    assert places(name, text_of(name)) == set()


@pytest.mark.parametrize("name", ["rows", "columns", "sums in tensor memory"])
def test_places_that_are_wrong_for_some_numbers_of_tiles_alone(name: str) -> None:
    """The last band is taken to be as high as the others: right where their number is a multiple of its height."""
    text = text_of(name)
    heights = re.findall(r"min\.u32 (%r\d+), %r\d+, \d;", text)
    assert len(heights) == (3 if KINDS[name].target == BLACKWELL else 2)
    changed = re.sub(r"(min\.u32 %r\d+, %r\d+), (\d);", lambda found: f"{found[1]}, {int(found[2]) - 1};", text)
    assert places(name, changed) == {"UM107"}


def test_a_reciprocal_of_another_number_of_tiles() -> None:
    """What the plan passes is held against the text too: here the reciprocal is that of half a band."""
    plan = launch_plan(lower_program(the_program(decided("columns"))))
    assert plan.run_time is not None
    (launch,) = plan.run_time.launches
    bands = [at for at, each in enumerate(launch.params) if len(each) == 1 and "4294967296" in str(each[0])]
    params = list(launch.params)
    params[bands[0]] = (parse_size("min(4294967296 // (2 * ceil_div(M, 64)), 4294967295)"),)
    wrong = replace(plan, run_time=replace(plan.run_time, launches=(replace(launch, params=tuple(params)),)))
    text = emitted(lower_program(the_program(decided("columns"))))
    assert places("columns", text, wrong) == {"UM107"}


@pytest.mark.parametrize(("name", "at"), [*((name, at) for name in KINDS for at in (0, 1)), ("plain stores", 2)])
def test_counts_that_are_wrong_at_large_extents_alone(name: str, at: int) -> None:
    """One tile, cluster or row more than there are, where no small instance has as many rows."""
    plan = launch_plan(lower_program(the_program(decided(name))))
    assert plan.run_time is not None

    def more(size: Size) -> Size:
        return computed("+", size, computed("//", Extent("M"), 500))

    text = text_of(name)
    assert places(name, text, replace(plan, run_time=changed_size(at, more)(plan.run_time))) == {"UM107"}


def test_maps_of_other_extents_at_large_ones_alone() -> None:
    plan = launch_plan(lower_program(the_program(decided("rows"))))
    assert plan.run_time is not None
    (launch,) = plan.run_time.launches
    rows = parse_size("M - M // 500")
    params = tuple(tuple(rows if each == Extent("M") else each for each in dims) for dims in launch.params)
    wrong = replace(plan, run_time=replace(plan.run_time, launches=(replace(launch, params=params),)))
    assert places("rows", emitted(lower_program(the_program(decided("rows")))), wrong) == {"UM107"}


@tw.kernel
def softmax(x: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    y[i, j] = tw.softmax(x[i, j], over=j)


@tw.kernel
def doubled(x: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] * 2


@pytest.mark.parametrize("kernel", [softmax, doubled])
def test_points_that_are_miscounted_at_large_extents_alone(kernel: Kernel) -> None:
    module = trace(kernel, {"M": tw.dynamic(1, 5000), "N": 64}, dict.fromkeys("xy", Element.F32))
    decide(the_program(module), FACTS)
    lowered = lower_program(the_program(module))
    text, plan = read(emitted(lowered)), launch_plan(lowered)
    assert plan.run_time is not None
    assert miscounted_points(text, the_program(module), plan) == ()

    def fewer(size: Size) -> Size:
        return computed("-", size, computed("//", Extent("M"), 4000))

    (launch,) = plan.run_time.launches
    scalars = [at for at, each in enumerate(launch.params) if len(each) == 1]
    params = list(launch.params)
    params[scalars[-1]] = (fewer(params[scalars[-1]][0]),)
    wrong = replace(plan, run_time=replace(plan.run_time, launches=(replace(launch, params=tuple(params)),)))
    assert [each.code for each in miscounted_points(text, the_program(module), wrong)] == ["UM107"]
    assert isinstance(reprove(module, emitted(lowered), "sm_90a", kernel.name), Proven)


def test_too_many_places_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.driver.reproof.tile_places._MOST_AT_RUN_TIME", 100)
    text = emitted(lower_program(the_program(decided("rows"))))
    verdict = reprove(decided("rows"), text, "sm_90a", "rows")
    assert isinstance(verdict, Unknown) and "places of tiles" in verdict.reasons[0]


def test_a_text_of_another_program_is_refuted() -> None:
    text = emitted(lower_program(the_program(decided("rows"))))
    verdict = reprove(decided("rows"), text.replace("[size_clusters]", "[size_tiles]"), "sm_90a", "rows")
    assert isinstance(verdict, Refuted)


def test_instances_are_of_the_range() -> None:
    for name, kind in KINDS.items():
        found = [extents["M"] for extents in run_time_instances(the_program(decided(name)))]
        assert len(found) == len(set(found)) > 2 and all(extent in kind.values for extent in found)
        assert kind.values.least_launched in found
    values = tw.dynamic(0, 96, multiple_of=32)
    assert [nearest(values, extent) for extent in (1, 32, 33, 500)] == [32, 32, 64, 96]


def test_what_depends_on_tiles_alone() -> None:
    tiles = ceil_div(Extent("M"), 64)
    assert is_of_tiles(computed("min", computed("*", tiles, 5), 132), "M", 64)
    assert not is_of_tiles(ceil_div(Extent("M"), 32), "M", 64)
    assert not is_of_tiles(computed("+", tiles, Extent("M")), "M", 64)
