"""A small pipeline for tests of the protocol route: a producer thread loads slots that a warp reads, `steps` times."""

from __future__ import annotations

from tilewright.frontends.ptx.ast import Kernel, Module
from tilewright.frontends.ptx.reader import read

_TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry pipe(.param .u64 source, .param .u64 out, .param .u32 steps, .param .u32 stride)
.reqntid 64
{
    .reg .pred %p<10>;
    .reg .b32 %r<40>;
    .reg .b64 %rd<10>;
    .shared .align 128 .b8 slots[2048];
    .shared .align 8 .b8 bars[32];
    ld.param.u64 %rd1, [source];
    ld.param.u64 %rd2, [out];
    ld.param.u32 %r1, [steps];
    ld.param.u32 %r2, [stride];
    mov.u32 %r3, %tid.x;
    setp.eq.u32 %p1, %r3, 0;
    @%p1 mbarrier.init.shared::cta.b64 [bars], 1;
    @%p1 mbarrier.init.shared::cta.b64 [bars+8], 1;
    @%p1 mbarrier.init.shared::cta.b64 [bars+16], 32;
    @%p1 mbarrier.init.shared::cta.b64 [bars+24], 32;
    @%p1 fence.mbarrier_init.release.cluster;
    bar.sync 0;
    mov.u32 %r4, 0;
    setp.ge.u32 %p2, %r3, 32;
    @%p2 bra READ;
    @!%p1 bra DONE;
LOAD:
    setp.ge.u32 %p3, %r4, %r1;
    @%p3 bra DONE;
    and.b32 %r5, %r4, 1;
    shr.u32 %r6, %r4, 1;
    and.b32 %r6, %r6, 1;
    xor.b32 %r7, %r6, 1;
    mov.u32 %r8, bars;
    shl.b32 %r9, %r5, 3;
    add.u32 %r8, %r8, %r9;
    mov.u32 %r10, slots;
    shl.b32 %r11, %r5, 10;
    add.u32 %r10, %r10, %r11;
EMPTY:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r8+16], %r7;
    @!%p4 bra EMPTY;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], 1024;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r10], [%rd1], 1024, [%r8];
    add.u32 %r4, %r4, 1;
    bra LOAD;
READ:
    setp.ge.u32 %p3, %r4, %r1;
    @%p3 bra DONE;
    and.b32 %r5, %r4, 1;
    shr.u32 %r6, %r4, 1;
    and.b32 %r6, %r6, 1;
    mov.u32 %r8, bars;
    shl.b32 %r9, %r5, 3;
    add.u32 %r8, %r8, %r9;
    mov.u32 %r10, slots;
    shl.b32 %r11, %r5, 10;
    add.u32 %r10, %r10, %r11;
FULL:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r8], %r6;
    @!%p4 bra FULL;
    ld.shared.b32 %r12, [%r10];
    mad.lo.u32 %r13, %r4, %r2, %r3;
    mul.wide.u32 %rd3, %r13, 4;
    add.u64 %rd4, %rd2, %rd3;
    st.global.b32 [%rd4], %r12;
    fence.proxy.async.shared::cta;
    mbarrier.arrive.shared::cta.b64 _, [%r8+16];
    add.u32 %r4, %r4, 1;
    bra READ;
DONE:
    ret;
}
"""


def pipe_text(old: str = "", new: str = "") -> str:
    """As `pipe`, as text."""
    assert not old or _TEXT.count(old) == 1, old
    return _TEXT.replace(old, new) if old else _TEXT


def pipe(old: str = "", new: str = "") -> tuple[Module, Kernel]:
    """The pipeline, with one piece of its text replaced."""
    module = read(pipe_text(old, new), "pipe.ptx")
    return module, module.kernels[0]
