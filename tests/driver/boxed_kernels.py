"""A pipeline of two slots whose producer copies through tensor maps of which only the text is known.

One thread loads `a` and `b` into a slot each step and a warp reads them; the maps are parameters, or stand in memory
that a pointer leads to.
"""

from __future__ import annotations

from tilewright.frontends.ptx.ast import Kernel, Module
from tilewright.frontends.ptx.reader import read

BY_VALUE = ".param .align 64 .b8 a[128], .param .align 64 .b8 b[128]"
ADDRESSES = """    mov.b64 %rd1, a;
    cvta.param.u64 %rd1, %rd1;
    mov.b64 %rd2, b;
    cvta.param.u64 %rd2, %rd2;"""
COPY = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], 3072;"
COPY_A = f"{COPY} [%r10], [%rd1, {{%r4, %r4}}], [%r8];"
COPY_B = f"{COPY} [%r10+1024], [%rd2, {{%r4, %r4}}], [%r8];"
READ_A = "ld.shared.b32 %r12, [%r10];"
READ_B = "ld.shared.b32 %r13, [%r10+1024];"

_TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry pipe(@PARAMETERS@, .param .u32 steps)
.reqntid 64
{
    .reg .pred %p<10>;
    .reg .b32 %r<40>;
    .reg .b64 %rd<10>;
    .shared .align 128 .b8 slots[@SLOTS@];
    .shared .align 8 .b8 bars[32];
@ADDRESSES@
    ld.param.u32 %r1, [steps];
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
    mul.lo.u32 %r11, %r5, @STRIDE@;
    add.u32 %r10, %r10, %r11;
EMPTY:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r8+16], %r7;
    @!%p4 bra EMPTY;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], 3072;
    @COPY@ [%r10], [%rd1, {%r4, %r4}], [%r8];
    @COPY@ [%r10+@SECOND@], [%rd2, {%r4, %r4}], [%r8];
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
    mul.lo.u32 %r11, %r5, @STRIDE@;
    add.u32 %r10, %r10, %r11;
FULL:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r8], %r6;
    @!%p4 bra FULL;
    ld.shared.b32 %r12, [%r10];
    ld.shared.b32 %r13, [%r10+@SECOND@];
    fence.proxy.async.shared::cta;
    mbarrier.arrive.shared::cta.b64 _, [%r8+16];
    add.u32 %r4, %r4, 1;
    bra READ;
DONE:
    ret;
}
"""


def boxed_text(
    *edits: tuple[str, str],
    slots: int = 6144,
    stride: int = 3072,
    second: int = 1024,
    parameters: str = BY_VALUE,
    addresses: str = ADDRESSES,
) -> str:
    """The pipeline's text. edits: pieces of it that are replaced, in order; slots: bytes of both; stride: from one slot
    to the next; second: where `b` begins in a slot."""
    text = _TEXT
    for name, value in (("SLOTS", slots), ("STRIDE", stride), ("SECOND", second)):
        text = text.replace(f"@{name}@", str(value))
    text = text.replace("@COPY@", COPY).replace("@PARAMETERS@", parameters).replace("@ADDRESSES@", addresses)
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def boxed(*edits: tuple[str, str], **parts: int | str) -> tuple[Module, Kernel]:
    """The kernel of `boxed_text`."""
    module = read(boxed_text(*edits, **parts), "boxed.ptx")  # type: ignore[arg-type]
    return module, module.kernels[0]
