"""Tiles cut among two CTAs: what is lowered is proved for all counts, and is not without any one thing that the
argument rests on; of its text each spoiled line of the exchange is refuted."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from tests.contract.typestate.steps.stream_edits import (
    MUTATIONS,
    SPOILED,
)
from xdsl.dialects.builtin import ModuleOp

from tilewright.base.element import Element
from tilewright.base.plan import LaunchPlan
from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.contract.typestate.claims import StreamClaim
from tilewright.contract.typestate.typestate import protocol_claims, verify
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.compile.sequence import uncut
from tilewright.driver.reproof.reproof import replay_plan
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import to_attribute
from tilewright.ir.tile.facts import the_program
from tilewright.ir.tile_stream import TileStream
from tilewright.lower.plan import launch_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")

TOGETHER = Wanted(tile=(128, 128), stages=3, turns=False)
IN_TURN = Wanted(tile=(128, 64), stages=3, turns=True, consumers=2)


@cache
def lowered(wanted: Wanted, ctas: int = 3, streamed: int = 2, heads: int = 2) -> tuple[ModuleOp, LaunchPlan]:
    """A product of four tiles, the first `streamed` of which are cut behind slice `heads` of four."""
    assert wanted.tile is not None
    elements: dict[str, Element] = {name: Element.BF16 for name in "abc"}
    module = trace(matmul_kernel, {"M": 128, "N": 4 * wanted.tile[1], "K": 4 * 64}, elements, None)
    (part,) = uncut(module, HOPPER, wanted)
    decisions, program = part.decisions, the_program(part.module)
    assert isinstance(decisions, CascadeDecisions)
    cut = TileStream(streamed, ctas - streamed, heads)
    program.attributes["decisions"] = to_attribute(replace(decisions, cut=(cut,), ctas=ctas))
    result = lower_program(program)
    (kernel,) = result.kernels
    return kernel.module, launch_plan(result)


@pytest.mark.sample(1)
@pytest.mark.parametrize("wanted", [TOGETHER, IN_TURN], ids=["together", "in turn"])
def test_it_is_proved_and_its_text_does_what_is_claimed(wanted: Wanted) -> None:
    module, plan = lowered(wanted)
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Proven), verdict
    assert any("can run at once" in line for line in verdict.assumptions)
    (claims,) = protocol_claims(module, HOPPER)
    assert claims.stream == StreamClaim("heads", "tails", 2, 1)
    text = read(lower_to_ptx([module], "sm_90a"))
    (launch,) = plan.launches
    assert isinstance(replay_plan(text, plan, {launch.entry: claims}, (0, 1)), Proven)
    less = replace(claims, stream=StreamClaim("heads", "tails", 1, 2))
    other = replay_plan(text, plan, {launch.entry: less}, (0,))
    assert isinstance(other, Refuted) and {finding.code for finding in other.findings} == {"LV101"}
    free = replace(plan, launches=(replace(launch, resident=False),))
    assert isinstance(replay_plan(text, free, {launch.entry: claims}, (0,)), Unknown)


def test_what_ctas_have() -> None:
    claim = StreamClaim("heads", "tails", 5, 2)
    assert [tuple(claim.symbols(cta).values()) for cta in range(7)] == [(3, 0), (2, 0), *[(0, 1)] * 5]
    assert [tuple(StreamClaim("h", "t", 1, 3).symbols(cta).values()) for cta in range(4)] == [
        (1, 0), (0, 0), (0, 0), (0, 1)
    ]  # fmt: skip


# ---------------------------------------------------------------- the program


@pytest.mark.sample(8)
@pytest.mark.parametrize("number", range(len(MUTATIONS)), ids=[each.__name__ for each in MUTATIONS])
def test_what_the_argument_rests_on_may_not_be_missing(number: int) -> None:
    module = lowered((TOGETHER, IN_TURN)[number % 2])[0].clone()
    MUTATIONS[number](module)
    assert not isinstance(verify(module, HOPPER), Proven)


# ---------------------------------------------------------------- the text


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", SPOILED)
def test_spoiled_text_is_refuted(name: str) -> None:
    old, new, codes = SPOILED[name]
    module, plan = lowered(TOGETHER)
    text = lower_to_ptx([module], "sm_90a")
    assert old in text
    if name == "the flag not set back":
        text = "\n".join(line for line in text.splitlines() if old not in line)
    verdict = replay_plan(read(text.replace(old, new)), plan, {}, (0,))
    assert isinstance(verdict, Refuted), verdict
    assert {finding.code for finding in verdict.findings} & codes


@pytest.mark.sample(2)
@pytest.mark.parametrize("wanted", [TOGETHER, IN_TURN], ids=["together", "in turn"])
@pytest.mark.parametrize("kept", [0, 1], ids=["all", "one"])
def test_a_partial_sum_that_is_not_stored_is_refuted(wanted: Wanted, kept: int) -> None:
    module, plan = lowered(wanted)
    lines = lower_to_ptx([module], "sm_90a").splitlines()
    stores = [number for number, line in enumerate(lines) if "st.global.v4.f32" in line]
    dropped = stores[-1:] if kept else stores
    text = "\n".join(line for number, line in enumerate(lines) if number not in dropped)
    verdict = replay_plan(read(text), plan, {}, (0,))
    assert isinstance(verdict, Refuted) and {finding.code for finding in verdict.findings} == {"UM102"}
    assert "partial_sums" in verdict.findings[0].message


@pytest.mark.parametrize("which", ["before the release", "after the acquire"])
def test_a_missing_barrier_of_the_exchange_is_refuted(which: str) -> None:
    module, plan = lowered(TOGETHER)
    lines = lower_to_ptx([module], "sm_90a").splitlines()
    mark = "st.release.gpu" if which == "before the release" else "ld.acquire.gpu"
    at = next(number for number, line in enumerate(lines) if mark in line)
    steps = range(at, 0, -1) if which == "before the release" else range(at, len(lines))
    barrier = next(number for number in steps if "bar.sync" in lines[number])
    del lines[barrier]
    verdict = replay_plan(read("\n".join(lines)), plan, {}, (0,))
    assert isinstance(verdict, Refuted) and "CL101" in {finding.code for finding in verdict.findings}
