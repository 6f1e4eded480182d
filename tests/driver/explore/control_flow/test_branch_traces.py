"""Which ways of branches need not be seen."""

from __future__ import annotations

import pytest

from tilewright.driver.explore.control_flow.branch_traces import idle_choices, lasting_choices
from tilewright.frontends.ptx.reader import read
from tilewright.machine.protocol.slicing.slice import protocol_slice, text_of
from tilewright.machine.protocol.slicing.steering import steering

_TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 n)
.reqntid 128
{
    .reg .pred %p<4>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<8>;
    .reg .f32 %f<9>;
    .shared .align 1024 .b8 buf[4096];
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [n];
    mov.b64 %rd2, 0;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16
        {%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8}, %rd2, %rd2, 1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    setp.eq.u32 %p1, %r1, 0;
    BRANCH
    INSIDE
M:
    wgmma.wait_group.sync.aligned 0;
    ret;
}
"""


def _ways(branch: str, inside: str) -> tuple[list[frozenset[bool]], int]:
    (kernel,) = read(_TEXT.replace("BRANCH", branch).replace("INSIDE", inside), "k.ptx").kernels
    text = text_of(kernel)
    sliced = protocol_slice(kernel, text=text)
    steers = steering(sliced).registers
    return list(idle_choices(sliced, steers).values()), len(lasting_choices(sliced, steers))


@pytest.mark.parametrize(
    ("branch", "inside", "ways"),
    [
        ("@%p1 bra M;", "st.global.u32 [%rd1], %r1;", [{False, True}]),
        ("@%p1 bra M;", "st.global.f32 [%rd1], %f1;", [{True}]),
        ("@%p1 bra M;", "red.global.add.f32 [%rd1], %f0;", [{False, True}]),
        ("@%p1 bra M;", "add.f32 %f0, %f1, %f2; st.global.f32 [%rd1], %f0;", [{True}]),
        ("@%p1 bra T; st.global.f32 [%rd1], %f1; bra.uni M; T:", "st.global.f32 [%rd1], %f2;", []),
        ("@%p1 bra M;", "st.shared.u32 [buf], %r1;", []),
        ("@%p1 bra M;", "st.release.gpu.global.u32 [%rd1], %r1;", []),
        ("@%p1 bra M;", "st.u32 [%rd1], %r1;", []),
    ],
)
def test_a_branch_around_global_memory_is_idle(branch: str, inside: str, ways: list[set[bool]]) -> None:
    assert _ways(branch, inside)[0] == ways


def test_stores_to_shared_memory_alike_leave_no_trace() -> None:
    arms = "@%p1 bra T; st.shared.u32 [buf], %r1; bra.uni M; T:"
    assert _ways(arms, "st.shared.u32 [buf], 0;")[1] == 0
    assert _ways(arms, "st.shared.u32 [buf+4], 0;")[1] == 1
