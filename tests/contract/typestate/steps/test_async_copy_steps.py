# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Slots that threads fill: the correct kernel is proved, each edit of it refuted by its rule or doubted."""

import pytest
from xdsl.dialects.builtin import IntAttr

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.contract.typestate.steps.async_copy import ALIGNED_SOURCE
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.compile.sequence import uncut
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.async_copy import AsyncCopyArriveOp, AsyncCopyFenceOp, AsyncCopyIssueOp
from tilewright.ir.tier import int_array
from tilewright.ir.tile.facts import the_program
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")


@tw.kernel
def matmul(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    c[i, j] = acc


def module(n=1024):
    """Threads copy a; the copy engine b, or threads that as well, where its rows begin at odd multiples of 4 bytes."""
    program = trace(matmul, {"M": 1024, "N": n, "K": 1026}, dict.fromkeys("abc", Element.BF16), None)
    (part,) = uncut(program, HOPPER, Wanted(unmapped="threads", tile=(128, 128), stages=3))
    (kernel,) = lower_program(the_program(part.module)).kernels
    return kernel.module


def every(program, kind):
    return [op for op in program.walk() if isinstance(op, kind)]


@pytest.mark.parametrize("n", (1024, 1030), ids=["beside the copy engine", "alone"])
def test_it_is_proved(n):
    verdict = verify(module(n), HOPPER)
    assert isinstance(verdict, Proven)
    assert ALIGNED_SOURCE in verdict.assumptions
    engine = 16384 if n == 1024 else 0
    assert any(f"{engine} bytes and 129 arrivals per full phase" in line for line in verdict.claims)


def put(kind, name, attribute, number=-1):
    def edit(program):
        every(program, kind)[number].properties[name] = attribute

    return edit


def _unfenced(number):
    def edit(program):
        fence = every(program, AsyncCopyFenceOp)[number]
        fence.result.replace_all_uses_with(fence.phase)
        fence.detach()
        fence.erase()

    return edit


def _closed(program):
    (arrive,) = every(program, AsyncCopyArriveOp)
    arrive.parent_block().insert_op_before(ac.TransactionCloseOp.create(operands=[arrive.tx]), arrive)
    arrive.detach()
    arrive.erase()


def _twice(program):
    copy = every(program, AsyncCopyIssueOp)[0]
    again = copy.clone()
    copy.parent_block().insert_op_after(again, copy)
    copy.result.replace_all_uses_with(again.result)
    again.operands[2] = copy.result


def _by_the_filler(program):
    # The filler fences what it has not copied yet.
    _unfenced(0)(program)
    wait = every(program, ac.BarrierWaitOp)[0]
    fence = AsyncCopyFenceOp.create(operands=[wait.result], result_types=[wait.result.type])
    wait.parent_block().insert_op_after(fence, wait)
    wait.result.replace_all_uses_with(fence.result)
    fence.operands[0] = wait.result


def _strides(program):
    every(program, ac.GlobalOp)[0].properties["strides"] = int_array((1027, 1))


EDITS = {
    "the first product is not fenced": (_unfenced(0), {"PX002"}),
    "the loop's products are not fenced": (_unfenced(-1), {"PX002"}),
    "the filler fences": (_by_the_filler, {"PX002", "MB012"}),
    "closed without an arrival": (_closed, {"CA003", "MB008"}),
    "one arrival fewer": (put(ac.RingOp, "full_arrivals", IntAttr(128)), {"MB008"}),
    "one arrival more": (put(ac.RingOp, "full_arrivals", IntAttr(130)), {"MB008"}),
    "only the elected thread": (put(ac.RingOp, "full_arrivals", IntAttr(1)), {"MB008"}),
    "every thread announces": (put(ac.ArriveExpectOp, "elected", IntAttr(0)), {"TX007"}),
    "every thread asks the engine": (put(ac.CopyIssueOp, "elected", IntAttr(0)), {"TX007"}),
    "pieces of 2 bytes": (put(AsyncCopyIssueOp, "piece_bytes", IntAttr(2)), {"CA001"}),
    "pieces of 8 bytes": (put(AsyncCopyIssueOp, "piece_bytes", IntAttr(8)), {"CA002"}),
    "rows an odd number of elements apart": (_strides, {"CA002"}),
    "fewer rows": (put(AsyncCopyIssueOp, "box", int_array((64, 120))), {"WG007"}),
    "half a row": (put(AsyncCopyIssueOp, "box", int_array((32, 128))), {"WG007"}),
    "more rows than the slot has": (put(AsyncCopyIssueOp, "box", int_array((64, 136))), {"TX004"}),
    "rows off the swizzle's period": (put(AsyncCopyIssueOp, "offset_bytes", IntAttr(128)), {"TX004", "AL002"}),
    "the same box twice": (_twice, {"TX005"}),
    "dimensions of another array": (put(AsyncCopyIssueOp, "dimensions", int_array((0, 0))), {"TX008"}),
    "along the other dimension": (put(AsyncCopyIssueOp, "dimensions", int_array((0, 1))), {"CA002"}),
}


@pytest.mark.sample(7)
@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_refuted_by_its_rule(name):
    edit, codes = EDITS[name]
    program = module()
    edit(program)
    verdict = verify(program, HOPPER)
    assert isinstance(verdict, Refuted), verdict
    assert codes & {finding.code for finding in verdict.findings}, [finding.message for finding in verdict.findings]


def test_rows_before_the_array_are_doubted():
    program = module()
    (copy, *_) = every(program, AsyncCopyIssueOp)
    copy.coordinates[1].owner.properties["constant"] = IntAttr(-8)
    assert isinstance(verify(program, HOPPER), Unknown)
