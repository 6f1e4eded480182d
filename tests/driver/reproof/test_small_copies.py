# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""The kernel that copies operands first in an instance of its own: every thread goes round, every element of a
workspace must be written, and the product may read no other bytes."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

import pytest
from tests.end_to_end import kernels
from xdsl.dialects.builtin import ModuleOp

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.plan import Buffer, LaunchPlan, TensorMapParam
from tilewright.base.verdict import Proven, Refuted, Verdict
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.reproof.reproof import replay_plan, reprove
from tilewright.driver.reproof.small import small_instance
from tilewright.driver.reproof.small_copies import (
    copied_workspaces,
    copies_apart,
    copies_instance,
    outside_elements,
    small_copies,
)
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.decisions import RUN_BYTES, PipelineDecisions, decisions_of
from tilewright.ir.tile.facts import the_program
from tilewright.lower.plan import launch_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_copies, lower_program
from tilewright.synth.decide import decide
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target


@tw.kernel
def batched(a: tw.Tensor["B", "M", "K"], b: tw.Tensor["B", "N", "K"], c: tw.Tensor["B", "M", "N"]):
    p, i, j = tw.grid("B", "M", "N")
    acc = tw.zeros(p, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[p, i, k], b[p, j, k].T)
    c[p, i, j] = acc


@dataclass(frozen=True)
class Kind:
    kernel: Kernel
    dims: Mapping[str, int]
    wanted: Wanted = field(default_factory=lambda: Wanted(tile=(64, 64), stages=2))
    elements: Mapping[str, Element] = field(default_factory=dict[str, Element])
    strides: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])


E4M3 = {"a": Element.F8E4M3, "b": Element.F8E4M3, "c": Element.F32}
KINDS = {
    "rows": Kind(matmul_kernel, {"M": 14000, "N": 14400, "K": 643}, strides={"b": (1, 643)}),
    "few rows": Kind(matmul_kernel, {"M": 1024, "N": 1040, "K": 643}, strides={"b": (1, 643)}),
    "columns": Kind(matmul_kernel, {"M": 1024, "N": 8181, "K": 1280}),
    "whole pairs": Kind(matmul_kernel, {"M": 257, "N": 255, "K": 512}, Wanted()),
    "streamed": Kind(
        matmul_kernel, {"M": 4096, "N": 4096, "K": 4095}, Wanted(tile=(128, 128), stages=4, stream_k=True),
        strides={"b": (1, 4095)},
    ),
    "computed": Kind(
        kernels.operand_expression, {"M": 16384, "N": 1040, "K": 640},
        Wanted(tile=(64, 64), stages=2, computed="workspace"),
    ),
    "batch": Kind(batched, {"B": 3, "M": 8192, "N": 8320, "K": 643}),
    "turned": Kind(matmul_kernel, {"M": 256, "N": 1536, "K": 1040}, elements=E4M3),
}  # fmt: skip


@cache
def decided(name: str) -> ModuleOp:
    kind = KINDS[name]
    elements = {each.name: kind.elements.get(each.name, Element.BF16) for each in kind.kernel.parameters}
    module = trace(kind.kernel, dict(kind.dims), elements, dict(kind.strides))
    decide(the_program(module), target("sm_90a"), kind.wanted)
    return module


def decisions(name: str) -> PipelineDecisions:
    found = decisions_of(the_program(decided(name)).attributes["decisions"])
    assert isinstance(found, PipelineDecisions)
    return found


@cache
def copies(name: str) -> tuple[str, LaunchPlan]:
    lowered = lower_copies(the_program(copies_instance(decided(name))))
    return lower_to_ptx([each.module for each in lowered.kernels], "sm_90a"), launch_plan(lowered)


def judged(name: str, text: str) -> Verdict:
    whole = copied_workspaces(the_program(decided(name)))
    return replay_plan(read(text), copies(name)[1], {}, (0,), whole=whole)


def codes(verdict: Verdict) -> set[str]:
    return {finding.code for finding in verdict.findings} if isinstance(verdict, Refuted) else set()


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", KINDS)
def test_the_text_of_both_instances_is_proven(name: str) -> None:
    assert copies_apart(the_program(decided(name)))
    assert bool(decisions(name).turned_fill) == (name == "turned")
    text = lower_to_ptx([each.module for each in lower_program(the_program(decided(name))).kernels], "sm_90a")
    verdict = reprove(decided(name), text, "sm_90a", name)
    assert isinstance(verdict, Proven), verdict
    assert len(verdict.claims) >= 2


def test_rows_of_the_product_do_not_count() -> None:
    """Nine tiles of a streamed product have seven times as many points as threads need to go round."""
    together, apart = small_instance(decided("streamed")), copies_instance(decided("streamed"))
    sizes = [
        sum(math.prod(each.shape) for each in lower_copies(the_program(module)).buffers if each.role == "workspace")
        for module in (together, apart)
    ]
    assert 7 * sizes[1] < sizes[0]


@pytest.mark.parametrize("name", KINDS)
def test_threads_go_round_and_remainders_are_the_programs(name: str) -> None:
    d, large = decisions(name), the_program(decided(name)).extents
    found = small_copies(the_program(decided(name))).extents
    instance = the_program(copies_instance(decided(name)))
    for buffer in lower_copies(instance).buffers:
        if buffer.name not in copied_workspaces(instance):
            continue
        points = 1
        for extent in buffer.shape:
            points *= extent
        if d.turned_fill:
            assert points > 2 * 2 * d.turned_fill[0].warps * d.turned_fill[0].side ** 2
        else:
            runs = points * buffer.element.bytes // RUN_BYTES
            threads = small_copies(the_program(decided(name))).ctas * d.fill_threads
            copied = next(each for each in lower_copies(the_program(decided(name))).buffers if each.name == buffer.name)
            all_runs = math.prod(copied.shape) * copied.element.bytes // RUN_BYTES
            rounds, rest = divmod(all_runs, 2 * d.fill_ctas * d.fill_threads)
            # As many rounds of pairs as in the program, but two at most; then single runs or pairs, as there.
            assert runs // (2 * threads) == min(2, rounds)
            assert runs % (2 * threads) and (runs % (2 * threads) > threads) == (rest > d.fill_ctas * d.fill_threads)
            assert name not in ("rows", "batch") or rounds >= 2
            assert name != "few rows" or not rounds
            assert name != "whole pairs" or (rounds, rest) == (1, 0)
        run = RUN_BYTES // buffer.element.bytes
        inner = d.contracted if d.a.buffer == buffer.name or d.b.major == "K" else d.columns
        assert (found[inner] - large[inner]) % run == 0
        if not d.turned_fill:
            continue
        assert all((found[axis] - large[axis]) % d.turned_fill[0].side == 0 for axis in (d.columns, d.contracted))
    if large[d.rows] != large[d.columns]:
        assert found[d.rows] != found[d.columns]


Edit = Callable[[str], str]


def replaced(pattern: str, by: str, number: int = 0) -> Edit:
    def edit(text: str) -> str:
        match = list(re.finditer(pattern, text))[number]
        return text[: match.start()] + match.expand(by) + text[match.end() :]

    return edit


def everywhere(pattern: str, by: str) -> Edit:
    return lambda text: re.sub(pattern, by, text)


STORE = r"\n.*st\.global(\.L2::cache_hint)?\.v4\.b32 .*"
EDITS: dict[str, Edit] = {
    "a store of the loop over pairs is missing": replaced(STORE, "", 1),
    "the last store is missing": replaced(STORE, "", -1),
    "the last loop is left out": lambda text: re.sub(r"(\n(runs_\d+):.*\n.*\n)(?!.*sub)", r"\1\tbra out;\n", text[::1]),
    "a thread steps too far": replaced(r"mul\.lo\.u32 (%r\d+), (%r\d+), 2;", r"mul.lo.u32 \1, \2, 3;"),
    "both runs of a pair are the same": replaced(
        r"(@%p\d+ bra runs_end_\d+;\n\tadd\.u32 %r\d+, )(%r\d+), %r\d+;", r"\1\2, 0;"
    ),
    "every CTA takes the first one's": everywhere(r"%ctaid\.x", "0"),
    "there is one CTA": everywhere(r"%nctaid\.x", "1"),
    "the end comes a run too soon": replaced(
        r"setp\.ge\.u32 (%p\d+), (%r\d+), (\d+);(\n\t@%p\d+ bra runs_end_\d+;\n\trem)", r"setp.gt.u32 \1, \2, \3-2;\4"
    ),
    "rows are too far apart": replaced(
        r"mad\.wide\.s32 (%rd\d+), (%r\d+), (\d+), (%rd5|%rd7);", r"mad.wide.s32 \1, \2, 16, \4;"
    ),
    "a row has one run less": everywhere(r"(rem|div)\.u32 (%r\d+), (%r\d+), (\d+);", r"\1.u32 \2, \3, 3;"),
}
"""Of texts in which runs are copied."""


def spoiled(text: str, edit: Edit) -> str:
    changed = edit(text)
    assert changed != text, "the edit changes nothing"
    # An offset of an immediate is counted by the reader's grammar only as a number.
    return re.sub(r"(\d+)-2;", lambda found: f"{int(found[1]) - 2};", changed).replace("\tbra out;\n", "\tret;\n")


@pytest.mark.sample(4)
@pytest.mark.parametrize("edit", EDITS)
def test_what_copies_runs_otherwise_is_refuted(edit: str) -> None:
    text = copies("rows")[0]
    assert isinstance(judged("rows", text), Proven)
    verdict = judged("rows", spoiled(text, EDITS[edit]))
    assert isinstance(verdict, Refuted), verdict


TURNED_EDITS: dict[str, Edit] = {
    "a store is missing": replaced(r"\n.*st\.global.*", ""),
    "the last store is missing": replaced(r"\n.*st\.global.*", "", -1),
    "lanes read before others have written": replaced(r"\n\tbar\.warp\.sync .*", "", 1),
    "a warp takes one tile": everywhere(r"\n\tbra tiles_\d+;", ""),
    "every CTA takes the first one's": everywhere(r"%ctaid\.x", "0"),
    "there is one CTA": everywhere(r"%nctaid\.x", "1"),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("edit", TURNED_EDITS)
def test_what_turns_tiles_otherwise_is_refuted(edit: str) -> None:
    text = copies("turned")[0]
    assert isinstance(judged("turned", text), Proven)
    verdict = judged("turned", spoiled(text, TURNED_EDITS[edit]))
    assert isinstance(verdict, Refuted), verdict


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["columns", "computed", "batch", "few rows"])
def test_every_store_of_every_kind_counts(name: str) -> None:
    text = copies(name)[0]
    assert isinstance(judged(name, text), Proven)
    # Of the loop over pairs, the second; of the loop over single runs, the only one. Of few rows there are no pairs.
    stores = len(re.findall(STORE, text))
    if name == "few rows":
        assert isinstance(judged(name, replaced(STORE, "", 1)(text)), Proven)
    for number in (1, stores - 1)[name == "few rows" :]:
        assert codes(judged(name, replaced(STORE, "", number)(text))) == {"UM103"}
    assert isinstance(judged(name, EDITS["every CTA takes the first one's"](text)), Refuted)


def test_threads_that_have_nothing_left_after_their_pairs() -> None:
    """So it is with all of the program. A row of the workspace has as many runs as two CTAs have threads, each of which
    would have a single run left."""
    text = copies("whole pairs")[0]
    assert copies("whole pairs")[1].launches[0].grid[0] > 2
    assert isinstance(judged("whole pairs", text), Proven)
    other = replaced(r"bra runs_end_2;", "bra run_loaded_7;")(text)
    assert not isinstance(judged("whole pairs", other), Proven)


def test_a_text_that_copies_something_else_is_another_text() -> None:
    text = lower_to_ptx([each.module for each in lower_program(the_program(decided("rows"))).kernels], "sm_90a")
    edits = (
        (r"setp\.lt\.u32 (%p\d+), (%r\d+), 643;", r"setp.lt.u32 \1, \2, 642;"),
        (r"rem\.u32 (%r\d+), (%r\d+), 81;", r"rem.u32 \1, \2, 80;"),
        (r"setp\.ge\.u32 (%p\d+), (%r\d+), 1134000;", r"setp.ge.u32 \1, \2, 1166400;"),  # the other operand's
    )
    for pattern, by in edits:
        verdict = reprove(decided("rows"), replaced(pattern, by)(text), "sm_90a", "rows")
        assert codes(verdict) == {"LV090"}


def product(name: str) -> tuple[str, LaunchPlan]:
    lowered = lower_program(the_program(small_instance(decided(name))))
    plan = launch_plan(lowered)
    return lower_to_ptx([each.module for each in lowered.kernels], "sm_90a"), replace(plan, launches=plan.launches[1:])


@pytest.mark.parametrize("name", ["rows", "columns"])
def test_the_product_reads_elements_of_workspaces_alone(name: str) -> None:
    text, plan = product(name)
    held = copied_workspaces(the_program(decided(name)))
    assert isinstance(replay_plan(read(text), plan, {}, (0,), held=held), Proven)
    assert codes(replay_plan(read(text), plan, {}, (0,))) == {"UM102"}
    (launch,) = plan.launches
    # A map that reaches what lies between two rows.
    (name, *_) = held
    params = tuple(
        replace(each, map=replace(each.map, dims=(each.map.strides_bytes[0] // 2, each.map.dims[1] - 1)))
        if isinstance(each, TensorMapParam) and each.buffer == name
        else each
        for each in launch.params
    )  # fmt: skip
    verdict = replay_plan(read(text), replace(plan, launches=(replace(launch, params=params),)), {}, (0,), held=held)
    assert codes(verdict) == {"UM102"}


@pytest.mark.parametrize(
    ("shape", "strides", "outside"),
    [
        ((2, 3), (4, 1), ((6, 8),)),
        ((2, 3), (3, 1), ()),
        ((5,), (1,), ()),
        ((2, 2, 3), (20, 4, 1), ((6, 8), (14, 40), (46, 48))),
        ((3, 2), (1, 4), ((6, 8),)),
        ((3, 2, 2), (1, 20, 4), ((6, 8), (14, 40), (46, 48))),
        ((1, 3), (1, 2), ((2, 4), (6, 8))),
    ],
)
def test_bytes_of_no_element(shape: tuple[int, ...], strides: tuple[int, ...], outside: object) -> None:
    assert outside_elements(Buffer("x", Element.BF16, shape, strides, "workspace")) == outside
