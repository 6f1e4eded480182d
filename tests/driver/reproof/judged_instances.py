"""Small instances of compiled products, judged with edits of their texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from tests.driver.reproof.decided_parts import decided_alone
from tests.driver.reproof.product_kinds import KINDS, Kind

import tilewright as tw
from tilewright.base.element import Element
from tilewright.base.verdict import Refuted, Verdict
from tilewright.contract.typestate.typestate import protocol_claims
from tilewright.driver.compile.kernels import gated_kernel, masked_kernel, matmul_kernel
from tilewright.driver.reproof.program_sums import program_sums
from tilewright.driver.reproof.reproof import replay_plan
from tilewright.driver.reproof.small import small_instance
from tilewright.driver.reproof.small_groups import at_these_sizes, limits_of
from tilewright.frontends.ptx.reader import read
from tilewright.ir.tile.facts import the_program
from tilewright.lower.plan import launch_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target, target

HOPPER = target("sm_90a")


LOAD = re.compile(r"cp\.async\.bulk\.tensor\.\dd\.shared::cluster.*\[%rd\d+, \{([^}]*)\}\]")


PLACE = re.compile(r"%(?:ctaid|clusterid)\.x\b")


PAIRS = Kind(KINDS["cluster"].kernel, KINDS["cluster"].dims, Wanted(tile=(64, 64), stages=2, cluster=(1, 2)))


APART = Kind(
    masked_kernel("none"),
    {"G": 8, "M": 512, "N": 512, "K": 256},
    Wanted(tile=(128, 192), stages=2, turns=False),
    {"counts": Element.S32},
)


SHORT_APART = Kind(
    APART.kernel, {**APART.dims, "M": 32}, Wanted(tile=(128, 128), stages=2, turns=False), APART.elements
)
"""A tile reaches over several groups of the line."""


TWO_LEVELS = replace(
    KINDS["scaled"], dims={**KINDS["scaled"].dims, "K": 1024}, wanted=Wanted(tile=(64, 64), stages=3), strides=None
)


STAGED_AGAIN = replace(KINDS["plain"], dims={"M": 1024, "N": 1536, "K": 512}, wanted=Wanted(tile=(128, 96), stages=2))


ONE_DEEP = Kind(matmul_kernel, {"M": 512, "N": 512, "K": 1}, Wanted(tile=(64, 64)), strides={"a": (64, 1)})


@tw.kernel
def of_grouped_heads(
    q: tw.Tensor["H", "M", "E"],  # noqa: F821, UP037
    k: tw.Tensor["H/4", "T", "E"],  # noqa: F821, UP037
    y: tw.Tensor["H", "M", "T"],  # noqa: F821, UP037
):
    h, i, t, e = tw.axes("H M T E")
    y[h, i, t] = tw.dot(q[h, i, e], k[h // 4, t, e], over=e)


GROUPED_HEADS = Kind(of_grouped_heads, {"H": 8, "M": 20, "T": 16, "E": 16}, Wanted())


SPECIAL = {
    "split of four": replace(KINDS["plain"], wanted=Wanted(tile=(64, 64), stages=3, split=4)),
    "teams": replace(
        KINDS["plain"],
        dims={"M": 128, "N": 256, "K": 4096},
        wanted=Wanted(tile=(64, 64), stages=3, teams=4),
    ),
    "gated": Kind(gated_kernel("silu"), {"M": 512, "N": 512, "K": 1024}, Wanted(tile=(64, 64), stages=3)),
    "two levels": TWO_LEVELS,
    "grouped heads": GROUPED_HEADS, "one deep": ONE_DEEP, "pairs": PAIRS,
    "apart": APART, "short apart": SHORT_APART, "staged again": STAGED_AGAIN,
}  # fmt: skip


@dataclass(frozen=True)
class Instance:
    """The small instance of a kind: its text, and what judges a text in its place."""

    text: str
    judge: Callable[[str], Verdict]


@cache
def instance(name: str) -> Instance:
    return instance_of(SPECIAL.get(name) or KINDS[name], HOPPER)


def instance_of(kind: Kind, facts: Target) -> Instance:
    small = small_instance(decided_alone(kind.kernel, dict(kind.dims), kind.wanted, kind.elements, kind.strides, facts))
    lowered = lower_program(the_program(small))
    modules = {item.name: item.module for item in lowered.kernels}
    claims = {entry: protocol_claims(each, facts, boundaries=False)[0] for entry, each in modules.items()}
    claims, limits, plan = at_these_sizes(small, claims), limits_of(small), launch_plan(lowered)
    sums = program_sums(the_program(small), limits)
    assert sums is not None

    def judge(text: str) -> Verdict:
        return replay_plan(read(text, "small.ptx"), plan, claims, (0,), limits, sums=sums)

    return Instance(lower_to_ptx(list(modules.values()), facts.name), judge)


def codes(verdict: Verdict) -> set[str]:
    assert isinstance(verdict, Refuted), verdict
    return {finding.code for finding in verdict.findings}


def moved(text: str, form: re.Pattern[str], number: int, dimension: int, by: int) -> str:
    """The text with the number-th copy of a form starting `by` further along a dimension."""
    lines = re.sub(r"\.b32 %r<(\d+)>", lambda found: f".b32 %r<{int(found[1]) + 1}>", text).split("\n")
    fresh = next(int(found[1]) for line in lines if (found := re.search(r"\.b32 %r<(\d+)>", line))) - 1
    at = [place for place, line in enumerate(lines) if form.search(line)][number]
    match = form.search(lines[at])
    assert match is not None
    registers = match[1].split(", ")
    added = f"\tadd.s32 %r{fresh}, {registers[dimension]}, {by};"
    registers[dimension] = f"%r{fresh}"
    begin, end = match.span(1)
    return "\n".join([*lines[:at], added, lines[at][:begin] + ", ".join(registers) + lines[at][end:], *lines[at + 1 :]])
