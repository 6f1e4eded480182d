"""Which waits lead back to themselves when they fail: the ways compilers write it, and ways that leave a trace."""

from __future__ import annotations

import pytest

from tilewright.contract.judge.waits.retried_waits import waits_not_retried
from tilewright.frontends.ptx.reader import read

HEAD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k() {
.reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<4>;
.shared .align 8 .b8 bars[32];
mov.u32 %r0, bars;
mov.u32 %r1, 0;
"""
TRY = "mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r0], %r1;\n"
TAIL = "st.shared.u32 [%r0+16], %r2;\nret;\n}\n"


def spans(text: str) -> int:
    return len(waits_not_retried(read(HEAD + text + TAIL, "<waits.ptx>"), "k"))


RETRIED = {
    "branch back if it failed": f"again:\n{TRY}@!%p0 bra again;\n",
    "branch out, or back": f"again:\n{TRY}@%p0 bra done;\nbra again;\ndone:\n",
    "back through another block": f"again:\n{TRY}@%p0 bra done;\nbra.uni later;\ndone:\nst.shared.u32 [%r0+8], %r1;\n"
    "bra out;\nlater:\nnanosleep.u32 20;\nbra again;\nout:\n",
    "the predicate as a number": f"again:\n{TRY}selp.b32 %r3, 1, 0, %p0;\nsetp.eq.s32 %p1, %r3, 0;\n@%p1 bra again;\n",
    "the address computed anew": "again:\nadd.u32 %r4, %r0, 8;\nmov.u32 %r5, %r4;\n"
    "mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r5], %r1;\n@!%p0 bra again;\n",
    "sleep between": f"again:\n{TRY}@%p0 bra done;\nnanosleep.u32 64;\nbra again;\ndone:\n",
    "a store for who got through": f"again:\n{TRY}@%p0 st.shared.u32 [%r0+8], %r1;\n@!%p0 bra again;\n",
}
NOT_RETRIED = {
    "goes on": TRY,
    "goes on, past a branch": f"again:\n{TRY}@%p0 bra done;\ndone:\n",
    "a peek": f"{TRY}selp.b32 %r2, 1, 0, %p0;\n",
    "a count of failures": f"again:\n{TRY}@%p0 bra done;\nadd.u32 %r2, %r2, 1;\nbra again;\ndone:\n",
    "a count of tries": f"again:\nadd.u32 %r2, %r2, 1;\n{TRY}@!%p0 bra again;\n",
    "a count of tries after": f"again:\n{TRY}add.u32 %r2, %r2, 1;\n@!%p0 bra again;\n",
    "a mark of failure": f"again:\n{TRY}@%p0 bra done;\nmov.u32 %r2, 1;\nbra again;\ndone:\n",
    "a store by who failed": f"again:\n{TRY}@!%p0 st.shared.u32 [%r0+8], %r1;\n@!%p0 bra again;\n",
    "the other parity next": f"again:\nxor.b32 %r1, %r1, 1;\n{TRY}@!%p0 bra again;\n",
    "the other way round": f"again:\n{TRY}@%p0 bra again;\n",
    "a time": f"again:\nmov.u32 %r2, %clock;\n{TRY}@!%p0 bra again;\n",
    "tries as long as something else holds": f"again:\n{TRY}@%p3 bra again;\n",
    "leaves": f"{TRY}@!%p0 ret;\n",
    "back to before a store": f"again:\nst.shared.u32 [%r0+8], %r1;\n{TRY}@!%p0 bra again;\n",
    "back to before what is entered later": f"bra middle;\nagain:\nmov.u32 %r2, 1;\nmiddle:\n{TRY}@!%p0 bra again;\n",
}


@pytest.mark.parametrize("name", RETRIED)
def test_a_wait_that_is_tried_again(name: str) -> None:
    assert spans(RETRIED[name]) == 0


@pytest.mark.parametrize("name", NOT_RETRIED)
def test_a_wait_whose_failure_may_be_noticed(name: str) -> None:
    assert spans(NOT_RETRIED[name]) == 1
