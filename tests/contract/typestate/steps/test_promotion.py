"""Two-level accumulation in the typestate proof: what our lowering makes is proven, and every mutation of it is not."""

# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import IntAttr, ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.verdict import Proven, Refuted
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.promotion import PromotedReadOp, PromotedStartOp, PromoteOp, ScalesLoadOp, ScalesType
from tilewright.ir.tier import int_array
from tilewright.ir.tile.facts import the_program
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import Wanted, decide
from tilewright.targets import target

HOPPER = target("sm_90a")


@tw.kernel
def by_blocks(
    a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], s: tw.Tensor["M", "K/128"], t: tw.Tensor["N/128", "K/128"],
    c: tw.Tensor["M", "N"],
):  # fmt: skip
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[j, k].T) * s[i, k // 128] * t[j // 128, k // 128]
    c[i, j] = acc


def lowered(tile: tuple[int, int] = (128, 128)) -> ModuleOp:
    """A consumer's registers hold two partial products of 128x128, one of 192x128."""
    elements = {"a": Element.F8E4M3, "b": Element.F8E4M3, "s": Element.F32, "t": Element.F32, "c": Element.BF16}
    wanted = Wanted(tile=tile)
    module = walked(trace(by_blocks, {"M": 512, "N": 512, "K": 1024}, elements), HOPPER, wanted)
    decide(the_program(module), HOPPER, wanted)
    (kernel,) = lower_program(the_program(module)).kernels
    return kernel.module


def moves_a_partial_product_round_the_loop(module: ModuleOp) -> None:
    """Yields what it settled, as if it were in flight."""
    loop = loop_around(the(module, PromoteOp))
    last = loop.body.block.last_op
    wait = next(op for op in loop.body.block.ops if isinstance(op, ac.WgmmaWaitOp))
    assert last is not None and wait.settled is not None
    last.operands[1] = wait.settled


def the(module: ModuleOp, kind: type[Operation]) -> Operation:
    return next(op for op in module.walk() if isinstance(op, kind))


def loop_around(op: Operation) -> ac.LoopOp:
    parent = op.parent_op()
    assert isinstance(parent, ac.LoopOp)
    return parent


@pytest.mark.parametrize("tile", [(128, 128), (192, 128)])
def test_what_is_lowered_is_proven(tile: tuple[int, int]):
    verdict = verify(lowered(tile), HOPPER)
    assert isinstance(verdict, Proven), verdict


def waits_for_one_less(module: ModuleOp) -> None:
    body = loop_around(the(module, PromoteOp)).body.block
    wait = next(op for op in body.ops if isinstance(op, ac.WgmmaWaitOp))
    wait.properties["pending"] = IntAttr(wait.pending.data + 1)


def promotes_what_is_in_flight(module: ModuleOp) -> None:
    promote, issue = the(module, PromoteOp), the(module, ac.WgmmaIssueOp)
    assert isinstance(promote, PromoteOp) and isinstance(issue, ac.WgmmaIssueOp)
    promote.operands[1] = issue.inflight


def uses_the_total_twice(module: ModuleOp) -> None:
    promote = the(module, PromoteOp)
    again = promote.clone()
    block = promote.parent_block()
    assert block is not None
    block.insert_op_after(again, promote)


def takes_the_total_from_outside(module: ModuleOp) -> None:
    promote, start = the(module, PromoteOp), the(module, PromotedStartOp)
    assert isinstance(promote, PromoteOp) and isinstance(start, PromotedStartOp)
    promote.operands[0] = start.result


def has_no_fence(module: ModuleOp) -> None:
    fence = next(op for op in loop_around(the(module, PromoteOp)).body.block.ops if isinstance(op, ac.WgmmaFenceOp))
    Rewriter.erase_op(fence)


def reads_the_total_early(module: ModuleOp) -> None:
    read, start = the(module, PromotedReadOp), the(module, PromotedStartOp)
    assert isinstance(read, PromotedReadOp) and isinstance(start, PromotedStartOp)
    read.operands[0] = start.result


REFUTED: dict[Callable[[ModuleOp], None], str] = {
    waits_for_one_less: "WG",
    promotes_what_is_in_flight: "WG003",
    uses_the_total_twice: "LV002",
    takes_the_total_from_outside: "LV",
    has_no_fence: "WG004",
    reads_the_total_early: "LV",
    moves_a_partial_product_round_the_loop: "LV",
}


@pytest.mark.parametrize("tile", [(128, 128), (192, 128)])
@pytest.mark.parametrize(("mutate", "code"), list(REFUTED.items()))
def test_a_mutation_of_the_protocol_is_refuted(mutate: Callable[[ModuleOp], None], code: str, tile: tuple[int, int]):
    module = lowered(tile)
    mutate(module)
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Refuted), verdict
    assert any(finding.code.startswith(code) for finding in verdict.findings)


def scales_of_other_size(module: ModuleOp) -> None:
    load = the(module, ScalesLoadOp)
    assert isinstance(load, ScalesLoadOp)
    Rewriter.replace_value_with_new_type(load.result, ScalesType(IntAttr(64), IntAttr(64)))


def set_property(name: str, value: IntAttr | StringAttr) -> Callable[[ModuleOp], None]:
    def mutate(module: ModuleOp) -> None:
        the(module, ScalesLoadOp).properties[name] = value

    return mutate


def blocks_of_none(module: ModuleOp) -> None:
    the(module, ScalesLoadOp).properties["blocks"] = int_array([0, 128])


def a_run_across_blocks(module: ModuleOp) -> None:
    second = [op for op in module.walk() if isinstance(op, ScalesLoadOp)][1]
    assert second.axes.data == "nk"
    second.properties["column_run"] = IntAttr(256)


def a_region_of_other_arguments(module: ModuleOp) -> None:
    promote = the(module, PromoteOp)
    assert isinstance(promote, PromoteOp)
    promote.operands = promote.operands[:3]


@pytest.mark.parametrize(
    "mutate",
    [
        scales_of_other_size,
        set_property("axes", StringAttr("mm")),
        set_property("axes", StringAttr("mkn")),
        set_property("depth", IntAttr(0)),
        set_property("column_run", IntAttr(0)),
        blocks_of_none,
        a_run_across_blocks,
        a_region_of_other_arguments,
    ],
)
def test_what_makes_no_sense_is_not_proven(mutate: Callable[[ModuleOp], None]):
    module = lowered()
    mutate(module)
    assert not isinstance(verify(module, HOPPER), Proven)
