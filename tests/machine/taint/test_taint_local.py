"""Unknown data in local memory: by byte and thread, and where a store may not happen, or may go elsewhere."""

from __future__ import annotations

import pytest
from tests.machine.small_kernels import launch

from tilewright.base.plan import PointerParam
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core.memory import VirtualBuffer
from tilewright.machine.protocol.protocol_run import ProtocolReport, run_protocol

KERNEL = """\
.version 8.6
.target sm_90a
.address_size 64
.func (.param .b32 result) same(.param .b32 given)
{{
    .reg .b32 %r<3>;
    ld.param.b32 %r1, [given];
    add.u32 %r2, %r1, 0;
    st.param.b32 [result], %r2;
    ret;
}}
.visible .entry kernel(.param .u64 data) .reqntid 32
{{
    .local .align 16 .b8 frame[32];
    .reg .pred %p<4>;
    .reg .b32 %r<10>;
    .reg .b64 %rd<5>;
    .shared .align 8 .b8 full[8];
    ld.param.u64 %rd1, [data];
    ld.global.u32 %r3, [%rd1];      // unknown
    mov.u32 %r2, full;
    mov.b64 %rd2, frame;
    cvta.local.u64 %rd3, %rd2;      // generic
    mov.u32 %r1, %tid.x;
    mov.u32 %r9, 0;
    setp.eq.u32 %p1, %r1, 0;
    setp.eq.u32 %p3, %r3, 77;       // false in the run
    @%p1 mbarrier.init.shared.b64 [%r2], 32;
    bar.sync 0;
{body}
    mbarrier.arrive.shared.b64 _, [%r2];
WAIT:
    mbarrier.try_wait.parity.shared.b64 %p2, [%r2], %r9;
    @!%p2 bra WAIT;
    ret;
}}
"""


def run(body: str) -> ProtocolReport:
    text = read(KERNEL.format(body=body), "local.ptx")
    given = launch(PointerParam("data"), name="kernel")
    return run_protocol(text, given, {"data": VirtualBuffer(4096)})


KNOWN = {
    "beside unknown data": "st.local.u32 [%rd2], %r9; st.local.u32 [%rd2+4], %r3; ld.local.u32 %r9, [%rd2];",
    "beside unknown data, by generic addresses": "st.u32 [%rd3], %r9; st.u32 [%rd3+4], %r3; ld.u32 %r9, [%rd3];",
    "stored over unknown data": "st.local.u32 [%rd2], %r3; st.local.u32 [%rd2], %r9; ld.local.u32 %r9, [%rd2];",
    "at places of each lane's own": (
        "and.b32 %r4, %r1, 3; mul.wide.u32 %rd4, %r4, 4; add.u64 %rd4, %rd2, %rd4; st.local.u32 [%rd4], %r9; "
        "ld.local.u32 %r9, [%rd4];"
    ),
    "through a call": "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r9; call.uni (b), same, (a); "
    "ld.param.b32 %r9, [b]; }",
}
UNKNOWN = {
    "unknown data": "st.local.u32 [%rd2+4], %r3; ld.local.u32 %r9, [%rd2+4];",
    "unknown data, by generic addresses": "st.u32 [%rd3+4], %r3; ld.u32 %r9, [%rd3+4];",
    "unknown data, stored by a generic address": "st.u32 [%rd3], %r3; ld.local.u32 %r9, [%rd2];",
    "some lanes' unknown data": "st.local.u32 [%rd2], %r9; @%p1 st.local.u32 [%rd2], %r3; ld.local.u32 %r9, [%rd2];",
    "a guard": "st.local.u32 [%rd2], %r9; @%p3 st.local.u32 [%rd2], 1; ld.local.u32 %r9, [%rd2];",
    "a branch": "st.local.u32 [%rd2], %r9; @!%p3 bra SKIP; st.local.u32 [%rd2], 1; SKIP: ld.local.u32 %r9, [%rd2];",
    "an address": (
        "st.local.v4.u32 [%rd2], {%r9, %r9, %r9, %r9}; mul.wide.u32 %rd4, %r3, 4; add.u64 %rd4, %rd2, %rd4; "
        "st.local.u32 [%rd4+4], 1; ld.local.u32 %r9, [%rd2];"
    ),
    "nothing stored": "ld.local.u32 %r9, [%rd2];",
    "nothing stored there": "st.local.u32 [%rd2], %r9; ld.local.u32 %r9, [%rd2+4];",
    "a call's result": "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r3; call.uni (b), same, (a); "
    "ld.param.b32 %r9, [b]; }",
    "a call's argument behind a branch": (
        "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r9; @!%p3 bra SKIP; st.param.b32 [a], 1; "
        "SKIP: call.uni (b), same, (a); ld.param.b32 %r9, [b]; }"
    ),
}


@pytest.mark.parametrize("body", KNOWN.values(), ids=list(KNOWN))
def test_what_a_thread_keeps_in_local_memory_is_known(body: str) -> None:
    report = run(body)
    assert report.certain and report.fault is None


@pytest.mark.parametrize("body", UNKNOWN.values(), ids=list(UNKNOWN))
def test_a_parity_from_local_memory_is_unknown_where_it_depends_on(body: str) -> None:
    assert "synchronization" in {taint.what for taint in run(body).taints}


def test_bytes_that_nobody_stored_are_named() -> None:
    (taint,) = run(UNKNOWN["nothing stored"]).taints
    assert "local memory that nobody had written" in taint.describe()
