"""Tiles cut among two CTAs: what is lowered is proved for all counts, and is not without any one thing that the
argument rests on; of its text each spoiled line of the exchange is refuted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from xdsl.dialects.builtin import ArrayAttr, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Block, Operation

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
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.stream import PartialAddOp, PartialStoreOp, StreamPartOp, TurnStreamPartOp
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

Parts = StreamPartOp | TurnStreamPartOp


def parts(module: ModuleOp, part: str) -> list[Parts]:
    return [op for op in module.walk() if isinstance(op, Parts) and op.part.data == part]


def summing(module: ModuleOp, part: str) -> Block:
    """The body of the consumer's loop over a part."""
    return parts(module, part)[-1].body.block


def found(module: ModuleOp, kind: type[Operation]) -> Operation:
    return next(op for op in module.walk() if isinstance(op, kind))


def no_store(module: ModuleOp) -> None:
    found(module, PartialStoreOp).detach()


def two_stores(module: ModuleOp) -> None:
    op = found(module, PartialStoreOp)
    summing(module, "head").insert_op_after(op.clone(), op)


def no_addition(module: ModuleOp) -> None:
    op = found(module, PartialAddOp)
    assert isinstance(op, PartialAddOp)
    op.sum.replace_all_uses_with(op.accumulator)
    op.detach()


def added_twice_and_never_stored(module: ModuleOp) -> None:
    found(module, PartialStoreOp).detach()
    op = found(module, PartialAddOp)
    assert isinstance(op, PartialAddOp)
    again = op.clone()
    summing(module, "tail").insert_op_after(again, op)
    op.sum.replace_all_uses_with(again.sum)
    again.operands[list(again.operands).index(op.accumulator)] = op.sum


def half_sum_used(module: ModuleOp) -> None:
    op = found(module, PartialAddOp)
    assert isinstance(op, PartialAddOp)
    use = next(iter(op.sum.uses))
    use.operation.operands[use.index] = op.accumulator


def slot_of_a_row(module: ModuleOp) -> None:
    op = found(module, PartialStoreOp)
    op.operands[3] = summing(module, "head").args[0]


def slot_of_the_first_slice(module: ModuleOp) -> None:
    op = found(module, PartialAddOp)
    op.operands[3] = summing(module, "tail").args[3]


def no_unit(module: ModuleOp) -> None:
    op = found(module, PartialAddOp)
    op.operands[4] = op.operands[3]


def arrays_swapped(module: ModuleOp) -> None:
    op = found(module, PartialStoreOp)
    op.operands[1], op.operands[2] = op.operands[2], op.operands[1]


def too_few_slots(module: ModuleOp) -> None:
    op = found(module, PartialStoreOp)
    array = op.operands[2].owner
    assert isinstance(array, ac.GlobalOp)
    array.properties["shape"] = ArrayAttr([IntAttr(1)])


def flags_also_results(module: ModuleOp) -> None:
    array = found(module, PartialStoreOp).operands[2].owner
    assert isinstance(array, ac.GlobalOp)
    array.properties["buffer"] = StringAttr("c")


def more_helpers(module: ModuleOp) -> None:
    for op in (*parts(module, "head"), *parts(module, "tail")):
        op.properties["helpers"] = IntAttr(2)


def more_tiles_cut(module: ModuleOp) -> None:
    for op in (*parts(module, "head"), *parts(module, "tail")):
        op.properties["streamed"] = IntAttr(3)


def one_role_cuts_more(module: ModuleOp) -> None:
    parts(module, "head")[0].properties["streamed"] = IntAttr(1)


def whole_tiles_from_the_first(module: ModuleOp) -> None:
    for op in module.walk():
        if isinstance(op, ac.TilesOp | ac.TurnTilesOp):
            op.properties["first_tile"] = IntAttr(0)


def another_order(module: ModuleOp) -> None:
    parts(module, "tail")[0].properties["raster_group"] = IntAttr(9)


def a_slice_left_out(module: ModuleOp) -> None:
    for op in parts(module, "tail"):
        op.properties["first_slice"] = IntAttr(op.first_slice.data + 1)


def parts_change_places(module: ModuleOp) -> None:
    for head, tail in zip(parts(module, "head"), parts(module, "tail"), strict=True):
        head.properties["part"], tail.properties["part"] = tail.part, head.part


def parts_of_one_length(module: ModuleOp) -> None:
    for op in parts(module, "tail"):
        op.properties["slices"] = StringAttr("head")


def a_role_without_tails(module: ModuleOp) -> None:
    op = parts(module, "tail")[0]
    for result, value in zip(op.outputs, op.carried, strict=True):
        result.replace_all_uses_with(value)
    op.detach()


def counts_change_places(module: ModuleOp) -> None:
    for part, other in (("head", "tails"), ("tail", "heads")):
        for op in parts(module, part):
            op.properties["symbol"] = StringAttr(other)


def tail_before_heads(module: ModuleOp) -> None:
    """Waits for another CTA come before what others wait for."""
    for head, tail in zip(parts(module, "head"), parts(module, "tail"), strict=True):
        block = head.parent_block()
        assert block is not None
        for result, value in zip(tail.outputs, head.outputs, strict=True):
            result.replace_all_uses_with(value)
        first, second = list(head.carried), list(tail.outputs)
        tail.detach()
        block.insert_op_before(tail, head)
        begin = len(tail.operands) - len(first)
        for number, (value, result) in enumerate(zip(first, second, strict=True)):
            tail.operands[begin + number] = value
            head.operands[begin + number] = result


MUTATIONS: tuple[Callable[[ModuleOp], None], ...] = (
    no_store, two_stores, no_addition, half_sum_used, slot_of_a_row, slot_of_the_first_slice, no_unit, arrays_swapped,
    too_few_slots, flags_also_results, more_helpers, more_tiles_cut, one_role_cuts_more, whole_tiles_from_the_first,
    another_order, a_slice_left_out, parts_change_places, parts_of_one_length, a_role_without_tails,
    counts_change_places, tail_before_heads, added_twice_and_never_stored,
)  # fmt: skip


@pytest.mark.sample(8)
@pytest.mark.parametrize("number", range(len(MUTATIONS)), ids=[each.__name__ for each in MUTATIONS])
def test_what_the_argument_rests_on_may_not_be_missing(number: int) -> None:
    module = lowered((TOGETHER, IN_TURN)[number % 2])[0].clone()
    MUTATIONS[number](module)
    assert not isinstance(verify(module, HOPPER), Proven)


# ---------------------------------------------------------------- the text

SPOILED: dict[str, tuple[str, str, set[str]]] = {
    "the release relaxed": ("st.release.gpu", "st.relaxed.gpu", {"CL101"}),
    "the release weak": ("st.release.gpu.global", "st.global", {"CL101"}),
    "the release of CTA scope": ("st.release.gpu", "st.release.cta", {"CL104"}),
    "the acquire relaxed": ("ld.acquire.gpu", "ld.relaxed.gpu", {"CL101"}),
    "the acquire of CTA scope": ("ld.acquire.gpu", "ld.acquire.cta", {"CL104"}),
    "partial sums read by the other path": ("ld.global.v4.f32", "ld.global.nc.v4.f32", {"CL107"}),
    "no wait for the grid before": ("griddepcontrol.wait;", "", {"GD101"}),
    "the flag not set back": ("st.relaxed.gpu.global.u32", "", {"LV103"}),
}


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
