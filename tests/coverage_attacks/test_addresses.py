"""Where a buffer lies is nobody's promise: bits and differences of addresses decide nothing that counts as covered."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging

_LOW = "and.b64 %rd_m, %rd_x, 15; setp.ne.s64 %p_bug, %rd_m, 0;"
OF_ADDRESSES = {
    "low bits": "and.b64 %rd_m, %rd_source0, 15; setp.ne.s64 %p_bug, %rd_m, 0;",
    "low bits after cvta": "and.b64 %rd_m, %rd_source, 15; setp.ne.s64 %p_bug, %rd_m, 0;",
    "low half": "cvt.u32.u64 %r_w, %rd_source0; and.b32 %r_w, %r_w, 127; setp.eq.s32 %p_bug, %r_w, 16;",
    "high half": "mov.b64 {%r_q, %r_w}, %rd_source0; setp.eq.s32 %p_bug, %r_w, 77;",
    "low word is 0": "cvt.u32.u64 %r_w, %rd_source0; setp.eq.s32 %p_bug, %r_w, 0;",
    "shifted": "shr.u64 %rd_m, %rd_source0, 20; setp.eq.s64 %p_bug, %rd_m, 77;",
    "order of two": "setp.lt.u64 %p_bug, %rd_target0, %rd_source0;",
    "two are one": "setp.eq.u64 %p_bug, %rd_target0, %rd_source0;",
    "difference of two": "sub.s64 %rd_m, %rd_source0, %rd_target0; setp.eq.s64 %p_bug, %rd_m, 4096;",
    "a constant": "setp.eq.s64 %p_bug, %rd_source0, 4096;",
    "less than a constant": "setp.lt.u64 %p_bug, %rd_source0, 4096;",
    "low bits with an offset": f"cvt.s64.s32 %rd_n, %r_n; add.s64 %rd_x, %rd_source, %rd_n; {_LOW}",
    "an offset and null": "add.s64 %rd_x, %rd_source, -4096; setp.eq.s64 %p_bug, %rd_x, 0;",
    "a choice": (f"setp.eq.s64 %p_z, %rd_source0, 0; selp.b64 %rd_x, %rd_target0, %rd_source0, %p_z; {_LOW}"),
    "a guarded move": (
        f"setp.gt.s32 %p_z, %r_n, 4; mov.u64 %rd_x, %rd_target0; @%p_z mov.u64 %rd_x, %rd_source0; {_LOW}"
    ),
    "a multiplexed offset": f"setp.eq.s64 %p_z, %rd_source0, 0; selp.b64 %rd_x, 0, %rd_source0, %p_z; {_LOW}",
    "through memory": (
        "shl.b32 %r_o, %r_tid, 3; add.s32 %r_o, %r_buf, %r_o; st.shared.u64 [%r_o], %rd_source0; "
        f"ld.shared.u64 %rd_x, [%r_o]; {_LOW}"
    ),
    "space": "isspacep.const %p_bug, %rd_source0;",
    "products": f"mul.lo.s64 %rd_x, %rd_source0, 3; {_LOW}",
    "bit fields": "bfe.u64 %rd_m, %rd_source0, 2, 5; setp.eq.s64 %p_bug, %rd_m, 9;",
    "minimum": "min.u64 %rd_m, %rd_source0, %rd_target0; setp.eq.s64 %p_bug, %rd_m, %rd_target0;",
    "a number of 64 bits that is added": (
        "ld.global.u32 %r_q, [%rd_source]; sub.s64 %rd_x, %rd_source0, %rd_target0; setp.gt.s64 %p_bug, %rd_x, 77;"
    ),
}
TWINS = {
    "null": "setp.eq.s64 %p_z, %rd_source0, 0; selp.b32 %r_x, 3, 4, %p_z; setp.eq.s32 %p_bug, %r_x, 5;",
    "an address rounded down": (
        "and.b64 %rd_x, %rd_source, -16; ld.global.u32 %r_x, [%rd_x]; setp.ne.s32 %p_bug, %r_tid, %r_tid;"
    ),
    "distance in one buffer": (
        "mul.wide.u32 %rd_n, %r_n, 4; add.s64 %rd_x, %rd_source, %rd_n; add.s64 %rd_y, %rd_x, 16; "
        "sub.s64 %rd_m, %rd_y, %rd_x; setp.ne.s64 %p_bug, %rd_m, 16;"
    ),
    "a loop to the end of a buffer": (
        "mov.u64 %rd_x, %rd_source; mul.wide.u32 %rd_n, %r_n, 16; add.s64 %rd_y, %rd_source, %rd_n; "
        "setp.eq.s32 %p_none, %r_n, 0; @%p_none bra S; L: bar.sync 0; add.s64 %rd_x, %rd_x, 16; "
        "setp.ne.s64 %p_more, %rd_x, %rd_y; @%p_more bra L; S: setp.ne.s32 %p_bug, %r_tid, %r_tid;"
    ),
}


@pytest.mark.parametrize("body", OF_ADDRESSES.values(), ids=OF_ADDRESSES)
def test_what_looks_at_an_address_is_not_proven(body: str) -> None:
    assert checked(hanging(body)).verdict != "proven"


@pytest.mark.parametrize("body", TWINS.values(), ids=TWINS)
def test_a_twin_that_does_not_is(body: str) -> None:
    report = checked(hanging(body))
    assert report.verdict == "proven", report.reasons
