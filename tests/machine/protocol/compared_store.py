"""A kernel in which two warps store a value to the same words, which a test computes."""

KERNEL = """\
.version 8.6
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 data, .param .u32 count) .reqntid 64
{{
    .reg .pred %p<10>;
    .reg .b32 %r<24>;
    .reg .b64 %rd<8>;
    .shared .align 16 .b8 words[512];
    .shared .align 16 .b8 table[512];
    ld.param.u64 %rd1, [data];
    ld.param.u32 %r1, [count];
    mov.u32 %r2, %tid.x;
    and.b32 %r3, %r2, 31;           // lane
    shr.u32 %r4, %r2, 5;            // warp
    mov.u32 %r5, words;
    mad.lo.u32 %r6, %r3, 4, %r5;
    mov.u32 %r7, table;
    mad.lo.u32 %r8, %r2, 4, %r7;
    st.shared.u32 [%r8], %r2;
    st.shared.u32 [%r8+256], %r1;
    setp.eq.u32 %p1, %r4, 0;
    mov.u32 %r10, 0;
    bar.sync 0;
{body}
    st.shared.u32 [%r6], %r10;
    bar.sync 0;
    ld.shared.u32 %r20, [%r6];
    ret;
}}
"""
