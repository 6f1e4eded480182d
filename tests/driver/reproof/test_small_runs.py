"""Kernels that copy arrays by runs of points, in instances of their own: every thread goes round, and every element of
what they store must be written."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

import pytest
from xdsl.dialects.builtin import ModuleOp

from tilewright.base.plan import LaunchPlan
from tilewright.base.verdict import Proven, Refuted, Verdict
from tilewright.driver.compile.compile import elements_of
from tilewright.driver.compile.kernels import batched_kernel, matmul_kernel
from tilewright.driver.compile.sequence import sequence
from tilewright.driver.reproof.reproof import replay_plan, reprove
from tilewright.driver.reproof.small import small_instance
from tilewright.driver.reproof.small_runs import runs_instance
from tilewright.driver.reproof.whole_results import whole_results
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.decisions import ElementwiseDecisions
from tilewright.ir.tile.facts import run_axes, stores, the_program
from tilewright.lower.plan import launch_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target


@dataclass(frozen=True)
class Kind:
    dims: Mapping[str, int]
    strides: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    kernel: Kernel = matmul_kernel


KINDS = {
    "rows": Kind({"M": 14000, "N": 14400, "K": 643}, {"b": (1, 643)}),
    "few rows": Kind({"M": 1024, "N": 1040, "K": 643}, {"b": (1, 643)}),
    "columns": Kind({"M": 1024, "N": 8181, "K": 1280}),
    "rows and columns": Kind({"M": 4095, "N": 4093, "K": 4097}),
    "columns of both": Kind({"M": 4095, "N": 4093, "K": 4096}, {"a": (1, 4095)}),
    "batch": Kind({"B": 3, "M": 2051, "N": 2053, "K": 643}, kernel=batched_kernel("none")),
    "tiny": Kind({"M": 3, "N": 5, "K": 7}),
}


@cache
def copying(name: str) -> tuple[ModuleOp, ElementwiseDecisions]:
    kind = KINDS[name]
    module = trace(kind.kernel, dict(kind.dims), elements_of(kind.kernel, "bf16"), dict(kind.strides))
    part = sequence(module, target("sm_90a"), Wanted(unmapped="workspace"))[0]
    assert isinstance(part.decisions, ElementwiseDecisions) and part.decisions.run == 8
    return part.module, part.decisions


@cache
def small(name: str) -> tuple[str, LaunchPlan]:
    lowered = lower_program(the_program(small_instance(copying(name)[0])))
    return lower_to_ptx([each.module for each in lowered.kernels], "sm_90a"), launch_plan(lowered)


def judged(name: str, text: str) -> Verdict:
    return replay_plan(read(text), small(name)[1], {}, (0,), whole=whole_results(the_program(copying(name)[0])))


def codes(verdict: Verdict) -> set[str]:
    return {finding.code for finding in verdict.findings} if isinstance(verdict, Refuted) else set()


@pytest.mark.parametrize("name", KINDS)
def test_the_text_is_proven(name: str) -> None:
    module, _ = copying(name)
    text = lower_to_ptx([each.module for each in lower_program(the_program(module)).kernels], "sm_90a")
    verdict = reprove(module, text, "sm_90a", name)
    assert isinstance(verdict, Proven), verdict


@pytest.mark.parametrize("name", KINDS)
def test_threads_go_round_and_remainders_are_the_programs(name: str) -> None:
    module, d = copying(name)
    program = the_program(module)
    large, results = program.extents, [run_axes(program, store) for store in stores(program)]
    found, ctas = runs_instance(d, results, large)
    threads = ctas * d.threads
    for axes in results:
        runs, all_runs = (
            -(-sizes[axes[-1]] // d.run) * math.prod(sizes[axis] for axis in axes[:-1]) for sizes in (found, large)
        )
        assert (found[axes[-1]] - large[axes[-1]]) % d.run == 0
        rounds, rest = divmod(all_runs, 2 * d.ctas * d.threads)
        # As many rounds of pairs as in the program, but two at most; then single runs or pairs, as there.
        assert runs // (2 * threads) == min(2, rounds)
        assert (runs % (2 * threads) > threads) == (rest > d.ctas * d.threads)
    assert all(found[one] != found[other] for one in large for other in large if large[one] != large[other])


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
    "a thread steps too far": replaced(r"mul\.lo\.u32 (%r\d+), (%r\d+), 2;", r"mul.lo.u32 \1, \2, 3;"),
    "both runs of a pair are the same": replaced(
        r"(@%p\d+ bra runs_end_\d+;\n\tadd\.u32 %r\d+, )(%r\d+), %r\d+;", r"\1\2, 0;"
    ),
    "every CTA takes the first one's": everywhere(r"%ctaid\.x", "0"),
    "there is one CTA": everywhere(r"%nctaid\.x", "1"),
    "a row has fewer runs": everywhere(r"(rem|div)\.u32 (%r\d+), (%r\d+), (\d+);", r"\1.u32 \2, \3, 3;"),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", ["rows", "rows and columns"])
@pytest.mark.parametrize("edit", EDITS)
def test_what_copies_otherwise_is_refuted(name: str, edit: str) -> None:
    text = small(name)[0]
    assert isinstance(judged(name, text), Proven)
    changed = EDITS[edit](text)
    assert changed != text, "the edit changes nothing"
    assert isinstance(judged(name, changed), Refuted)


def test_a_text_that_copies_something_else_is_another_text() -> None:
    module, _ = copying("rows")
    text = lower_to_ptx([each.module for each in lower_program(the_program(module)).kernels], "sm_90a")
    edits = (
        (r"setp\.lt\.u32 (%p\d+), (%r\d+), 643;", r"setp.lt.u32 \1, \2, 642;"),
        (r"rem\.u32 (%r\d+), (%r\d+), 81;", r"rem.u32 \1, \2, 80;"),
        (r"setp\.ge\.u32 (%p\d+), (%r\d+), 1134000;", r"setp.ge.u32 \1, \2, 1166400;"),  # the other array's
    )
    for pattern, by in edits:
        assert codes(reprove(module, replaced(pattern, by)(text), "sm_90a", "rows")) == {"LV090"}


def test_extents_of_any_size_are_no_work() -> None:
    """Of a trillion rows not each is looked at."""
    extents = {"M": 1 << 40, "N": 24}
    found, ctas = runs_instance(ElementwiseDecisions(660, 256, (), run=8), [("M", "N")], extents)
    runs = found["M"] * 3
    assert found["N"] == 24 and found["M"] > 0 and runs < 4 * 2 * 2 * ctas * 256
