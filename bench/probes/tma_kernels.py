"""PTX text of kernels that make one tensor copy each CTA and leave everything that it changed for the host to read.

A CTA finds its 128-byte map and its arguments at its index. Loads fill a window of shared memory with 0xCC, copy into
it, wait with a limit, and write the window out; stores and reductions fill the window from global memory first.
Arguments are 16 words of 32 bits: five coordinates, three im2col offsets, the place in the window, the bytes that the
barrier is told to expect.

A load's barrier awaits two arrivals: one with the expected bytes before the copy, one when the copy has surely
landed. Its phase then ends if and only if exactly those bytes were told. If not, the barrier is told of 16 more at a
time, or of 16 fewer, until the phase ends. A load leaves three words of 64 bits: did the phase end by itself, how many
bytes more than expected the copy told the barrier of, and whether that could be found.

Source: PTX ISA 9.7.9.27 (cp.async.bulk.tensor), 9.7.13.15 (mbarrier).
"""

from __future__ import annotations

ARGUMENT_WORDS = 16
RESULT_WORDS = 3
POISON = 0xCC
THREADS = 128
PLACE, EXPECTED = 8, 9
"""Index among the arguments of the place in the window, and of the bytes expected."""

_HEADER = """\
.version 8.3
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 window[];
"""

_PROLOGUE = """\
    .reg .pred %p<4>;
    .reg .b16 %h<4>;
    .reg .b32 %r<32>;
    .reg .b64 %rd<32>;
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ctaid.x;
    ld.param.u64 %rd0, [maps];
    ld.param.u64 %rd1, [arguments];
    ld.param.u32 %r2, [window_bytes];
    mul.wide.u32 %rd2, %r1, 128;
    add.s64 %rd0, %rd0, %rd2;
    mul.wide.u32 %rd2, %r1, 64;
    add.s64 %rd1, %rd1, %rd2;
    ld.global.u32 %r3, [%rd1];
    ld.global.u32 %r4, [%rd1+4];
    ld.global.u32 %r5, [%rd1+8];
    ld.global.u32 %r6, [%rd1+12];
    ld.global.u32 %r7, [%rd1+16];
    ld.global.u16 %h0, [%rd1+20];
    ld.global.u16 %h1, [%rd1+24];
    ld.global.u16 %h2, [%rd1+28];
    ld.global.u32 %r8, [%rd1+32];
    ld.global.u32 %r9, [%rd1+36];
    mov.u32 %r10, window;
    add.u32 %r10, %r10, 1023;
    and.b32 %r10, %r10, 0xFFFFFC00;
    add.u32 %r11, %r10, %r8;
    mul.wide.u32 %rd3, %r1, %r2;
    fence.proxy.tensormap::generic.acquire.gpu [%rd0], 128;
"""

_LOAD = """\
.visible .entry {name}(.param .u64 maps, .param .u64 arguments, .param .u64 images, .param .u64 results,
    .param .u32 window_bytes)
.reqntid 128
{{
    .shared .align 8 .b64 barrier;
{prologue}
    ld.param.u64 %rd4, [images];
    add.s64 %rd4, %rd4, %rd3;
    ld.param.u64 %rd5, [results];
    mul.wide.u32 %rd2, %r1, 24;
    add.s64 %rd5, %rd5, %rd2;
    shl.b32 %r12, %r0, 2;
    mov.u32 %r14, 0xCCCCCCCC;
fill:
    setp.ge.u32 %p0, %r12, %r2;
    @%p0 bra filled;
    add.u32 %r13, %r10, %r12;
    st.shared.u32 [%r13], %r14;
    add.u32 %r12, %r12, 512;
    bra fill;
filled:
    fence.proxy.async.shared::cta;
    bar.sync 0;
    setp.ne.u32 %p1, %r0, 0;
    @%p1 bra waited;
    mov.u32 %r15, barrier;
    mbarrier.init.shared::cta.b64 [%r15], 2;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 %rd7, [%r15], %r9;
    {copy}
    mov.u32 %r16, 0;
land:
    nanosleep.u32 1000;
    add.u32 %r16, %r16, 1;
    setp.lt.u32 %p3, %r16, 60;
    @%p3 bra land;
    mbarrier.arrive.shared::cta.b64 %rd7, [%r15];
    mov.s64 %rd6, 0;
    mov.u32 %r16, 0;
    mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r15], 0;
    selp.u64 %rd8, 1, 0, %p2;
    st.global.u64 [%rd5], %rd8;
fewer:
    @%p2 bra counted;
    mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r15], 16;
    sub.s64 %rd6, %rd6, 16;
    mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r15], 0;
    add.u32 %r16, %r16, 1;
    setp.lt.u32 %p3, %r16, 3000;
    @%p3 bra fewer;
    @%p2 bra counted;
    mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r15], 48000;
    mov.s64 %rd6, 0;
    mov.u32 %r16, 0;
more:
    mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r15], 16;
    add.s64 %rd6, %rd6, 16;
    mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r15], 0;
    @%p2 bra counted;
    add.u32 %r16, %r16, 1;
    setp.lt.u32 %p3, %r16, 3000;
    @%p3 bra more;
counted:
    st.global.u64 [%rd5+8], %rd6;
    selp.u64 %rd8, 1, 0, %p2;
    st.global.u64 [%rd5+16], %rd8;
waited:
    bar.sync 0;
    shl.b32 %r12, %r0, 2;
drain:
    setp.ge.u32 %p0, %r12, %r2;
    @%p0 bra drained;
    add.u32 %r13, %r10, %r12;
    ld.shared.u32 %r14, [%r13];
    cvt.u64.u32 %rd8, %r12;
    add.s64 %rd8, %rd4, %rd8;
    st.global.u32 [%rd8], %r14;
    add.u32 %r12, %r12, 512;
    bra drain;
drained:
    ret;
}}
"""

_STORE = """\
.visible .entry {name}(.param .u64 maps, .param .u64 arguments, .param .u64 images, .param .u64 results,
    .param .u32 window_bytes)
.reqntid 128
{{
{prologue}
    ld.param.u64 %rd4, [images];
    shl.b32 %r12, %r0, 2;
fill:
    setp.ge.u32 %p0, %r12, %r2;
    @%p0 bra filled;
    cvt.u64.u32 %rd8, %r12;
    add.s64 %rd8, %rd4, %rd8;
    ld.global.u32 %r14, [%rd8];
    add.u32 %r13, %r10, %r12;
    st.shared.u32 [%r13], %r14;
    add.u32 %r12, %r12, 512;
    bra fill;
filled:
    fence.proxy.async.shared::cta;
    bar.sync 0;
    setp.ne.u32 %p1, %r0, 0;
    @%p1 bra done;
    {copy}
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
done:
    ret;
}}
"""


def _coordinates(rank: int) -> str:
    return ", ".join(f"%r{3 + dimension}" for dimension in range(rank))


def _kernel(template: str, name: str, copy: str) -> str:
    return template.format(name=name, prologue=_PROLOGUE, copy=copy)


OPERATIONS = ("add", "min", "max", "and", "or", "xor", "inc", "dec")


def module_text() -> str:
    """All kernels: `load_N`, `store_N`, `reduce_add_N` for rank N, `reduce_OPERATION_2`, and with `_im2col_N`."""
    parts = [_HEADER]
    for rank in range(1, 6):
        at = _coordinates(rank)
        taps = ", ".join(f"%h{axis}" for axis in range(rank - 2))
        for mode, name, back in (("tile", "", "tile"), ("im2col", "im2col_", "im2col_no_offs")):
            if mode == "im2col" and rank < 3:
                continue
            load = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes "
            load += f"[%r11], [%rd0, {{{at}}}], [%r15]" + (f", {{{taps}}};" if mode == "im2col" else ";")
            parts.append(_kernel(_LOAD, f"load_{name}{rank}", load))
            store = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.{back}.bulk_group [%rd0, {{{at}}}], [%r11];"
            parts.append(_kernel(_STORE, f"store_{name}{rank}", store))
            for operation in OPERATIONS if rank == 2 else ("add",):
                reduce = f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{operation}.{back}.bulk_group "
                reduce += f"[%rd0, {{{at}}}], [%r11];"
                parts.append(_kernel(_STORE, f"reduce_{operation}_{name}{rank}", reduce))
    return "\n".join(parts)
