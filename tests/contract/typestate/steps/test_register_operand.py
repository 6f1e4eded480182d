# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Operands computed in registers: the correct kernel is proved, each edit of it refuted by its rule or doubted."""

import pytest
from xdsl.dialects.builtin import IntAttr, StringAttr

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.register_operand import ComputedIssueOp, OperandReadOp, VectorLoadOp
from tilewright.ir.tier import int_array
from tilewright.ir.tile.facts import the_program
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import decide
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")


@tw.kernel
def scaled(
    a: tw.Tensor["M", "K"], s: tw.Tensor["M"], g: tw.Tensor["K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot((a[i, k] * s[i] * g[k]).to(tw.bf16), b[k, j])
    c[i, j] = acc


def module():
    kinds = dict.fromkeys("asgbc", Element.BF16)
    wanted = Wanted(computed="registers", tile=(128, 128), stages=3)
    program = walked(trace(scaled, {"M": 1024, "N": 1024, "K": 1024}, kinds, None), HOPPER, wanted)
    decide(the_program(program), HOPPER, wanted)
    (kernel,) = lower_program(the_program(program)).kernels
    return kernel.module


def every(program, kind):
    return [op for op in program.walk() if isinstance(op, kind)]


def test_it_is_proved():
    assert isinstance(verify(module(), HOPPER), Proven)


def _pending(program):
    # The wait before the loop's product, which frees A's registers.
    loop = every(program, ac.LoopOp)[-1]
    (wait,) = (op for op in loop.body.block.ops if isinstance(op, ac.WgmmaWaitOp))
    wait.properties["pending"] = IntAttr(1)


def _late_wait(program):
    loop = every(program, ac.LoopOp)[-1]
    (wait,) = (op for op in loop.body.block.ops if isinstance(op, ac.WgmmaWaitOp))
    (release,) = (op for op in loop.body.block.ops if isinstance(op, ac.ArriveOp))
    last = loop.body.block.last_op
    for op in (wait, release):
        op.detach()
        loop.body.block.insert_op_before(op, last)


def _released_unread(program):
    read = every(program, OperandReadOp)[-1]
    release = ac.ArriveOp.create(operands=[read.phase], properties={"peers": IntAttr(1)})
    read.parent_block().insert_op_before(release, read)


def put(kind, name, attribute):
    def edit(program):
        every(program, kind)[-1].properties[name] = attribute

    return edit


EDITS = {
    "a group pending": (_pending, {"WG011"}),
    "wait after the product": (_late_wait, {"WG011"}),
    "released before it is read": (_released_unread, {"LV002", "MB012"}),
    "rows of another instance": (put(OperandReadOp, "instance_bytes", IntAttr(16384)), {"WG006"}),
    "rows outside": (put(OperandReadOp, "step_bytes", int_array([0, 32, 64, 1 << 20])), {"WG006"}),
    "no such barrier": (put(OperandReadOp, "first_barrier", IntAttr(15)), {"NB001"}),
    "columns": (put(ComputedIssueOp, "n", IntAttr(260)), {"WG010", "WG005", "LV006"}),
    "other accumulator": (put(ComputedIssueOp, "n", IntAttr(120)), {"WG005", "LV006"}),
    "b outside": (put(ComputedIssueOp, "b_stride_bytes", IntAttr(8192)), {"WG006"}),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_refuted(name):
    edit, codes = EDITS[name]
    program = module()
    edit(program)
    verdict = verify(program, HOPPER)
    assert isinstance(verdict, Refuted) and {finding.code for finding in verdict.findings} & codes, verdict


DOUBTS = {
    "off the swizzle": put(OperandReadOp, "instance_bytes", IntAttr(4096 + 128)),
    "released to others": put(ac.ArriveOp, "peers", IntAttr(2)),
    "within a row": put(OperandReadOp, "step_bytes", int_array([0, 32, 64, 112])),
    "fewer steps": put(OperandReadOp, "step_bytes", int_array([0, 32])),
    "element": put(ComputedIssueOp, "element", StringAttr("f16")),
    "steps": put(ComputedIssueOp, "steps", IntAttr(3)),
}


@pytest.mark.parametrize("name", DOUBTS)
def test_an_edit_that_is_not_understood_is_never_proved(name):
    program = module()
    DOUBTS[name](program)
    assert isinstance(verify(program, HOPPER), Unknown | Refuted)


def test_a_slice_that_is_no_index_is_doubted():
    program = module()
    load = every(program, VectorLoadOp)[-1]
    load.operands[0] = next(op.result for op in program.walk() if isinstance(op, ac.GlobalOp) and op.buffer.data == "s")
    assert isinstance(verify(program, HOPPER), Proven)  # another vector of the same length is as good
    load.operands[1] = every(program, ac.RingOp)[0].result
    assert isinstance(verify(program, HOPPER), Unknown | Refuted)
