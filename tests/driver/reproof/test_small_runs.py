"""Kernels that copy and compute arrays by runs of points, and those that turn tiles, in instances of their own: every
thread goes round, and every element of what they store must be written."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

import pytest
from tests.driver.reproof.decided_parts import decided_parts
from tests.end_to_end import kernels
from xdsl.dialects.builtin import ModuleOp

from tilewright.base.element import Element
from tilewright.base.plan import LaunchPlan
from tilewright.base.verdict import Proven, Refuted, Verdict
from tilewright.driver.compile.kernels import batched_kernel, matmul_kernel
from tilewright.driver.reproof.reproof import replay_plan, reprove
from tilewright.driver.reproof.small import small_instance
from tilewright.driver.reproof.small_runs import runs_instance
from tilewright.driver.reproof.whole_results import whole_results
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.kernel import Kernel
from tilewright.ir.decisions import ElementwiseDecisions
from tilewright.ir.tile.facts import run_axes, stores, the_program
from tilewright.lower.plan import launch_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.tile.wanted import Wanted


@dataclass(frozen=True)
class Kind:
    dims: Mapping[str, int]
    strides: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    kernel: Kernel = matmul_kernel
    wanted: Wanted = field(default_factory=lambda: Wanted(unmapped="workspace"))


KINDS = {
    "rows": Kind({"M": 14000, "N": 14400, "K": 643}, {"b": (1, 643)}),
    "few rows": Kind({"M": 1024, "N": 1040, "K": 643}, {"b": (1, 643)}),
    "columns": Kind({"M": 1024, "N": 8181, "K": 1280}),
    "rows and columns": Kind({"M": 4095, "N": 4093, "K": 4097}),
    "columns of both": Kind({"M": 4095, "N": 4093, "K": 4096}, {"a": (1, 4095)}),
    "batch": Kind({"B": 3, "M": 2051, "N": 2053, "K": 643}, kernel=batched_kernel("none")),
    "tiny": Kind({"M": 3, "N": 5, "K": 7}),
    "whole pairs": Kind({"M": 257, "N": 255, "K": 512}),
    "computed": Kind(
        {"M": 16384, "N": 1040, "K": 640}, kernel=kernels.operand_expression, wanted=Wanted(computed="workspace")
    ),
}


@cache
def copying(name: str) -> tuple[ModuleOp, ElementwiseDecisions]:
    kind = KINDS[name]
    part = decided_parts(kind.kernel, dict(kind.dims), kind.wanted, strides=kind.strides)[0]
    assert isinstance(part.decisions, ElementwiseDecisions) and part.decisions.run == 8
    return part.module, part.decisions


@cache
def small(name: str) -> tuple[str, LaunchPlan]:
    return small_text(copying(name)[0])


def small_text(module: ModuleOp) -> tuple[str, LaunchPlan]:
    lowered = lower_program(the_program(small_instance(module)))
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
        assert name != "whole pairs" or (rounds, rest) == (1, 0)
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


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["columns", "computed", "batch", "tiny"])
def test_every_store_of_every_kind_counts(name: str) -> None:
    text = small(name)[0]
    assert isinstance(judged(name, text), Proven)
    # Of the loop over pairs, the second; of the loop over single runs, the only one. Of tiny arrays there are no pairs.
    stores = len(re.findall(STORE, text))
    if name == "tiny":
        assert isinstance(judged(name, replaced(STORE, "", 1)(text)), Proven)
    for number in (1, stores - 1)[name == "tiny" :]:
        assert codes(judged(name, replaced(STORE, "", number)(text))) == {"UM103"}
    if name != "tiny":
        assert isinstance(judged(name, EDITS["every CTA takes the first one's"](text)), Refuted)


def test_threads_that_have_nothing_left_after_their_pairs() -> None:
    """So it is with all of the program."""
    text, _ = small("whole pairs")
    assert isinstance(judged("whole pairs", text), Proven)
    other = replaced(r"bra runs_end_2;", "bra run_loaded_7;")(text)
    assert not isinstance(judged("whole pairs", other), Proven)


TURNED_EDITS: dict[str, Edit] = {
    "a store is missing": replaced(r"\n.*st\.global.*", ""),
    "the last store is missing": replaced(r"\n.*st\.global.*", "", -1),
    "lanes read before others have written": replaced(r"\n\tbar\.warp\.sync .*", "", 1),
    "a warp takes one tile": everywhere(r"\n\tbra tiles_\d+;", ""),
    "every CTA takes the first one's": everywhere(r"%ctaid\.x", "0"),
    "there is one CTA": everywhere(r"%nctaid\.x", "1"),
}


@cache
def turning() -> ModuleOp:
    """What lays an operand of 8 bits out along the contracted axis."""
    of_bytes = {"a": Element.F8E4M3, "b": Element.F8E4M3, "c": Element.F32}
    part = decided_parts(matmul_kernel, {"M": 256, "N": 1536, "K": 1040}, elements=of_bytes)[0]
    assert isinstance(part.decisions, ElementwiseDecisions) and part.decisions.transpose
    return part.module


@pytest.mark.sample(2)
@pytest.mark.parametrize("edit", TURNED_EDITS)
def test_what_turns_tiles_otherwise_is_refuted(edit: str) -> None:
    (text, plan), whole = small_text(turning()), whole_results(the_program(turning()))
    assert whole and isinstance(replay_plan(read(text), plan, {}, (0,), whole=whole), Proven)
    changed = TURNED_EDITS[edit](text)
    assert changed != text, "the edit changes nothing"
    assert isinstance(replay_plan(read(changed), plan, {}, (0,), whole=whole), Refuted)


def test_extents_of_any_size_are_no_work() -> None:
    """Of a trillion rows not each is looked at."""
    extents = {"M": 1 << 40, "N": 24}
    found, ctas = runs_instance(ElementwiseDecisions(660, 256, (), run=8), [("M", "N")], extents)
    runs = found["M"] * 3
    assert found["N"] == 24 and found["M"] > 0 and runs < 4 * 2 * 2 * ctas * 256
