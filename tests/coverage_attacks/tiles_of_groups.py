"""Kernels that walk tiles of groups, whose sizes are read from memory, as compilers write grouped products.

Two warps. Each tile sums over `k` slices that threads copy, keeps its result in shared memory, and has each thread read
what one of the other warp stored. Parts of the text can be replaced: an attack puts a bug there that shows in some
sequences of groups, tiles and slices alone.
Checked by: tests/coverage_attacks/test_segments.py.
"""

from __future__ import annotations

from tests.coverage_attacks.kernel_parts import with_parts

PARTS = {
    "FIRST": "",
    "GROUP": "",
    "EMPTY": "",
    "TILE": "bar.sync 0; ",
    "SLICES": "mov.u32 %r_b, %r_k; ",
    "COPY": "cp.async.ca.shared.global [%r_own], [%rd_data], 16; cp.async.commit_group; ",
    "ARRIVED": "cp.async.wait_group 0; bar.sync 0; ",
    "USE": "ld.shared.v4.b32 {%r_v0, %r_v1, %r_v2, %r_v3}, [%r_their]; bar.sync 0; ",
    "BEHIND": "",
    "STORE": "st.shared.v4.b32 [%r_own+4096], {%r_v0, %r_v1, %r_v2, %r_v3}; cp.async.wait_group 0; bar.sync 0; ",
    "LOAD": "ld.shared.v4.b32 {%r_v0, %r_v1, %r_v2, %r_v3}, [%r_their+4096]; ",
    "OUT": "st.global.v4.b32 [%rd_out], {%r_v0, %r_v1, %r_v2, %r_v3}; ",
    "AGAIN": "",
    "LAST": "",
}
"""The parts of the text, as they are right. FIRST: before all groups; GROUP: as a group begins; EMPTY: of a group
without tiles; TILE: as a tile begins; SLICES: how many slices it sums, `%r_b`; COPY, ARRIVED, USE: of a slice; BEHIND:
the sum; STORE, LOAD, OUT: of the result; AGAIN: as a tile ends; LAST: behind all groups."""

_BODY = (
    "mov.u32 %r_tid, %tid.x; mov.u32 %r_tile, %ctaid.x; mov.u32 %r_ctas, %nctaid.x; mov.u32 %r_base, buf; "
    "shl.b32 %r_own, %r_tid, 4; add.u32 %r_own, %r_own, %r_base; xor.b32 %r_their, %r_tid, 32; "
    "shl.b32 %r_their, %r_their, 4; add.u32 %r_their, %r_their, %r_base; shr.u32 %r_warp, %r_tid, 5; "
    "mov.u32 %r_v0, 0; mov.u32 %r_v1, 0; mov.u32 %r_v2, 0; mov.u32 %r_v3, 0; "
    "mov.u32 %r_c0, 0; mov.u32 %r_c1, 0; mov.u32 %r_c2, 0; mov.u32 %r_begin, 0; mov.u32 %r_g, 0; "
    "ld.param.u64 %rd_sizes, [sizes]; ld.param.u64 %rd_data, [data]; ld.param.u64 %rd_out, [out]; "
    "ld.param.u64 %rd_more, [more]; ld.param.u32 %r_groups, [groups]; cvta.to.global.u64 %rd_sizes, %rd_sizes; "
    "cvta.to.global.u64 %rd_data, %rd_data; cvta.to.global.u64 %rd_out, %rd_out; "
    "cvta.to.global.u64 %rd_more, %rd_more; FIRST setp.lt.s32 %p_none, %r_groups, 1; @%p_none bra END; "
    "HEAD: mul.wide.u32 %rd_at, %r_g, 8; add.u64 %rd_at, %rd_at, %rd_sizes; ld.global.u32 %r_m, [%rd_at]; "
    "ld.global.u32 %r_k, [%rd_at+4]; add.u32 %r_end, %r_begin, %r_m; GROUP setp.ge.u32 %p_past, %r_tile, %r_end; "
    "@%p_past bra NONE; "
    "NEXT: TILE SLICES mov.u32 %r_i, 0; setp.eq.u32 %p_empty, %r_b, 0; @%p_empty bra SUMMED; "
    "SLICE: COPY ARRIVED USE add.u32 %r_i, %r_i, 1; setp.lt.u32 %p_more, %r_i, %r_b; @%p_more bra SLICE; "
    "SUMMED: BEHIND STORE LOAD OUT AGAIN add.u32 %r_tile, %r_tile, %r_ctas; setp.lt.u32 %p_tile, %r_tile, %r_end; "
    "@%p_tile bra NEXT; bra.uni DONE; "
    "NONE: EMPTY DONE: mov.u32 %r_begin, %r_end; add.u32 %r_g, %r_g, 1; setp.lt.s32 %p_group, %r_g, %r_groups; "
    "@%p_group bra HEAD; END: LAST ret; "
)
_PARAMETERS = ".param .u64 sizes, .param .u64 data, .param .u64 out, .param .u64 more, .param .u32 groups"


def kernel(**parts: str) -> str:
    """The text with some of its parts replaced."""
    return (
        ".version 8.0\n.target sm_90a\n.address_size 64\n.shared .align 16 .b8 buf[8192];\n"
        f".visible .entry grouped({_PARAMETERS})\n.reqntid 64, 1, 1\n{{\n{with_parts(_BODY, PARTS | parts)}}}\n"
    )
