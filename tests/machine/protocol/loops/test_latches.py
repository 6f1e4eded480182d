"""Latches of loops: which are found, and where the counter is less than its bound."""

from __future__ import annotations

import pytest

from tilewright.frontends.ptx.reader import read
from tilewright.machine.protocol.loops.latches import Latch, latch_of
from tilewright.machine.protocol.slicing.slice_flow import Flow, flow_of

_TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n)
{{
    .reg .b32 %r<20>;
    .reg .pred %p<9>;
    ld.param.u32 %r2, [n];
    mov.u32 %r1, 0;
{code}
OUT:
    ret;
}}
"""
_ROTATED = """    bra HEAD;
NEXT:
    add.s32 %r1, %r1, 148;
    setp.lt.s32 %p1, %r1, %r2;
    @!%p1 bra OUT;
HEAD:
    div.s32 %r3, %r1, %r2;
    setp.eq.s32 %p2, %r3, 1;
    @%p2 bra NEXT;
    add.s32 %r4, %r4, 1;
    bra NEXT;
"""
_PLAIN = """HEAD:
    rem.u32 %r3, %r1, %r2;
    add.u32 %r1, %r1, 1;
    div.u32 %r5, %r1, %r2;
    setp.lo.u32 %p1, %r1, %r2;
    @%p1 bra HEAD;
"""


def latch(code: str) -> tuple[Flow, Latch | None]:
    flow = flow_of(read(_TEXT.format(code=code), "k.ptx").kernels[0])
    return flow, latch_of(flow, flow.loops[0])


def below(code: str) -> list[str]:
    """The divisions that a latch answers."""
    flow, found = latch(code)
    inside = flow.positions(flow.loops[0].blocks)
    return [flow.instructions[at].opcode for at in inside if found is not None and found.is_below(flow, at)]


def test_a_counter_is_less_than_its_bound_before_it_is_stepped() -> None:
    assert below(_ROTATED) == ["div.s32"]
    # Between the step and the comparison the counter may have come to the bound.
    assert below(_PLAIN) == ["rem.u32"]
    mirrored = _ROTATED.replace("setp.lt.s32 %p1, %r1, %r2", "setp.le.s32 %p1, %r2, %r1").replace("@!%p1", "@%p1")
    assert below(mirrored) == ["div.s32"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("setp.lt.s32 %p1, %r1, %r2", "setp.le.s32 %p1, %r1, %r2"),  # it may be the bound
        ("setp.lt.s32 %p1, %r1, %r2", "setp.lt.u32 %p1, %r1, %r2"),  # it may be negative as a signed number
        ("setp.lt.s32 %p1, %r1, %r2", "setp.lt.s32 %p1, %r1, %r6"),  # another bound
        ("setp.lt.s32 %p1, %r1, %r2", "@%p3 setp.lt.s32 %p1, %r1, %r2"),
        ("@!%p1 bra OUT", "@%p1 bra OUT"),  # it goes on once the counter is beyond
        ("add.s32 %r4, %r4, 1", "add.s32 %r1, %r1, 1"),  # a second step
        ("add.s32 %r4, %r4, 1", "add.s32 %r2, %r2, -1"),  # the bound moves
        ("add.s32 %r4, %r4, 1", "setp.eq.s32 %p1, %r4, 1"),
        ("@%p2 bra NEXT;", "@%p2 bra HEAD;"),  # another way back
        # It is compared before it is stepped.
        (
            "add.s32 %r1, %r1, 148;\n    setp.lt.s32 %p1, %r1, %r2;",
            "setp.lt.s32 %p1, %r1, %r2;\nadd.s32 %r1, %r1, 148;",
        ),
    ],
)
def test_what_does_not_keep_a_counter_below_its_bound(old: str, new: str) -> None:
    assert old in _ROTATED
    assert below(_ROTATED.replace(old, new)) == []


def test_a_loop_that_goes_on_while_they_differ_says_nothing() -> None:
    assert latch(_PLAIN)[1] is not None
    assert latch(_PLAIN.replace("setp.lo.u32", "setp.ne.u32"))[1] is None
    assert latch(_PLAIN.replace("@%p1 bra HEAD", "@!%p1 bra HEAD"))[1] is None
