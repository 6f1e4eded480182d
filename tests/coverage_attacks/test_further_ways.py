"""Ways by which a number reaches a branch or the protocol that conditions on two-way branches do not show."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging

_TABLE = (
    "ts: .branchtargets A, B, C, D; brx.idx %r_i, ts; A: bra E; B: bra E; C: bra E; D: {fourth} E: mov.u32 %r_q, 0;"
)
_NO_BUG = "setp.ne.s32 %p_bug, %r_tid, %r_tid;"
_BUG = "setp.eq.s32 %p_bug, %r_tid, %r_tid;"
_LOOP = "mov.u32 %r_i, 0; L: bar.sync 0; {inside} add.s32 %r_i, %r_i, 1; setp.lt.u32 %p_go, %r_i, %r_n; @%p_go bra L;"
_AFTER = _LOOP.format(inside="")
_OWN_WORD = "shl.b32 %r_o, %r_tid, 2; add.s32 %r_o, %r_buf, %r_o;"
_WAIT = "W: mbarrier.try_wait.parity.shared::cta.b64 %p_w, [%r_bar], {parity}; @!%p_w bra W;"
_ARRIVE = "@%p_other bra T; {guard}mbarrier.arrive.shared::cta.b64 _, [{barrier}]; T: "
_RARE = "setp.eq.s32 %p_a, %r_n, 1234567;"
BUGGY = {
    "a table of labels": f"min.u32 %r_i, %r_n, 3; {_NO_BUG} {_TABLE.format(fourth=_BUG)}",
    "a label that few numbers lead to": (
        f"div.u32 %r_i, %r_n, 100000; and.b32 %r_i, %r_i, 3; {_NO_BUG} {_TABLE.format(fourth=_BUG)}"
    ),
    "a label and a number": (
        f"div.u32 %r_i, %r_n, 100000; and.b32 %r_i, %r_i, 3; {_NO_BUG} "
        f"{_TABLE.format(fourth='setp.eq.s32 %p_bug, %r_m, 7777;')}"
    ),
    "iterations, through local memory": (
        f"{_AFTER} st.local.u32 [frame], %r_i; ld.local.u32 %r_x, [frame]; setp.eq.s32 %p_bug, %r_x, 157;"
    ),
    "iterations, through shared memory": (
        f"{_AFTER} {_OWN_WORD} st.shared.u32 [%r_o], %r_i; ld.shared.u32 %r_x, [%r_o]; setp.eq.s32 %p_bug, %r_x, 157;"
    ),
    "iterations, through a shuffle": (
        f"{_AFTER} shfl.sync.idx.b32 %r_x, %r_i, 0, 31, -1; setp.eq.s32 %p_bug, %r_x, 157;"
    ),
    "iterations, through a reduction": f"{_AFTER} redux.sync.max.u32 %r_x, %r_i, -1; setp.eq.s32 %p_bug, %r_x, 157;",
    "iterations, counted in local memory": (
        "st.local.u32 [frame], 0; "
        + _LOOP.format(inside="ld.local.u32 %r_x, [frame]; add.s32 %r_x, %r_x, 1; st.local.u32 [frame], %r_x;")
        + " ld.local.u32 %r_x, [frame]; setp.eq.s32 %p_bug, %r_x, 157;"
    ),
    "iterations, stored in the loop": (
        _LOOP.format(inside="st.local.u32 [frame], %r_i;")
        + " ld.local.u32 %r_x, [frame]; setp.eq.s32 %p_bug, %r_x, 157;"
    ),
    "iterations, stored in the loop for all": (
        _LOOP.format(inside="@!%p_other st.shared.u32 [%r_buf], %r_i;")
        + " bar.sync 0; ld.shared.u32 %r_x, [%r_buf]; setp.eq.s32 %p_bug, %r_x, 157;"
    ),
    "a guarded store to local memory": (
        f"{_RARE} st.local.u32 [frame], 0; @%p_a st.local.u32 [frame], 1; ld.local.u32 %r_q, [frame]; "
        "setp.eq.s32 %p_k, %r_m, 77; setp.eq.and.s32 %p_bug, %r_q, 1, %p_k;"
    ),
    "a store to local memory at a chosen place": (
        "st.local.u32 [frame+4], 0; and.b32 %r_i, %r_n, 1; mul.wide.u32 %rd_i, %r_i, 4; mov.u64 %rd_l, frame; "
        "add.s64 %rd_l, %rd_l, %rd_i; st.local.u32 [%rd_l], 1; ld.local.u32 %r_q, [frame+4]; "
        "setp.eq.s32 %p_k, %r_m, 77; setp.eq.and.s32 %p_bug, %r_q, 1, %p_k;"
    ),
    "an arrival that is left out": f"{_RARE} {_ARRIVE.format(guard='@!%p_a ', barrier='%r_bar')} "
    f"{_WAIT.format(parity=0)} {_NO_BUG}",
    "another barrier": (
        f"{_RARE} selp.b32 %r_c, 8, 0, %p_a; add.s32 %r_c, %r_bar, %r_c; "
        f"{_ARRIVE.format(guard='', barrier='%r_c')} {_WAIT.format(parity=0)} {_NO_BUG}"
    ),
    "another parity": (
        f"{_RARE} selp.b32 %r_c, 1, 0, %p_a; {_ARRIVE.format(guard='', barrier='%r_bar')} "
        f"{_WAIT.format(parity='%r_c')} {_NO_BUG}"
    ),
    "a count of threads": f"setp.gt.s32 %p_q, %r_n, 123456; selp.b32 %r_c, 96, 64, %p_q; bar.sync 1, %r_c; {_NO_BUG}",
    "a number of a barrier": (
        "setp.gt.s32 %p_q, %r_n, 123456; setp.gt.and.u32 %p_q, %r_tid, 31, %p_q; selp.b32 %r_c, 2, 1, %p_q; "
        f"bar.sync %r_c, 64; {_NO_BUG}"
    ),
    "space of an address": "isspacep.shared %p_bug, %rd_source;",
    "a clock": "mov.u32 %r_x, %clock; add.s32 %r_x, %r_x, %r_n; setp.eq.s32 %p_bug, %r_x, 1234;",
}
_LANES = {
    "down": "add.s32 %r_y, %r_n, %r_tid; shfl.sync.down.b32 %r_x, %r_y, 3, 31, -1; sub.s32 %r_x, %r_x, %r_tid;",
    "ballot": "setp.lt.u32 %p_l, %r_tid, %r_n; vote.sync.ballot.b32 %r_y, %p_l, -1; popc.b32 %r_x, %r_y;",
    "sum": "redux.sync.add.s32 %r_x, %r_n, -1;",
    "least": "add.s32 %r_y, %r_n, %r_tid; redux.sync.min.s32 %r_x, %r_y, -1;",
    "match": "and.b32 %r_i, %r_tid, %r_n; match.any.sync.b32 %r_x, %r_i, -1;",
}
BUGGY |= {f"lanes: {name}": f"{body} setp.eq.s32 %p_bug, %r_x, 17;" for name, body in _LANES.items()}
_COMPUTED = {
    "prmt": "prmt.b32 %r_x, %r_n, %r_m, 0x1604;", "lop3": "lop3.b32 %r_x, %r_n, %r_m, 0x5555, 0x96;",
    "bfe": "bfe.u32 %r_x, %r_n, 3, 25;", "bfi": "bfi.b32 %r_x, %r_n, 7, 1, 24;", "brev": "brev.b32 %r_x, %r_n;",
    "shf": "shf.l.wrap.b32 %r_x, %r_n, %r_m, 13;", "dp4a": "dp4a.u32.u32 %r_x, %r_n, %r_m, 5;",
    "sad": "sad.s32 %r_x, %r_n, %r_m, 5;", "mul24": "mul24.lo.s32 %r_x, %r_n, %r_m;",
    "carry": "add.cc.u32 %r_y, %r_n, %r_m; addc.u32 %r_x, %r_n, 0;",
    "halves": "mov.b64 %rd_x, {%r_n, %r_m}; shr.u64 %rd_x, %rd_x, 17; cvt.u32.u64 %r_x, %rd_x;",
    "high product": "mul.hi.u32 %r_x, %r_n, 1431655766;", "remainder": "rem.u32 %r_x, %r_n, 1234577;",
    "quotient": "max.u32 %r_y, %r_m, 1; div.u32 %r_x, %r_n, %r_y;", "packed": "add.f16x2 %r_x, %r_n, %r_n;",
    "float": "cvt.rn.f32.s32 %f_x, %r_n; mul.f32 %f_x, %f_x, 0f40400000; cvt.rzi.s32.f32 %r_x, %f_x;",
    "square root": "cvt.rn.f32.s32 %f_x, %r_n; sqrt.rn.f32 %f_x, %f_x; cvt.rzi.s32.f32 %r_x, %f_x; "
    "mul.lo.s32 %r_x, %r_x, 100; add.s32 %r_x, %r_x, 67;",
    "choice by sign": "sub.s32 %r_y, %r_n, 77777; slct.s32.s32 %r_x, %r_m, %r_n, %r_y;",
}  # fmt: skip
BUGGY |= {f"{name} of numbers": f"{body} setp.eq.s32 %p_bug, %r_x, 1234567;" for name, body in _COMPUTED.items()}
TWINS = {
    "a table of labels": f"and.b32 %r_i, %r_n, 3; {_NO_BUG} {_TABLE.format(fourth='bra E;')}",
    "iterations that are stored and not read": f"{_AFTER} st.global.u32 [%rd_target], %r_i; {_NO_BUG}",
    "an arrival": f"{_ARRIVE.format(guard='', barrier='%r_bar')} {_WAIT.format(parity=0)} {_NO_BUG}",
    "bits that are masked": "bfe.u32 %r_x, %r_n, 13, 9; setp.gt.u32 %p_bug, %r_x, 511;",
    "a shuffle of one number": "shfl.sync.idx.b32 %r_x, %r_n, 0, 31, -1; setp.ne.s32 %p_bug, %r_x, %r_n;",
}


@pytest.mark.sample(14)
@pytest.mark.parametrize("body", BUGGY.values(), ids=BUGGY)
def test_nothing_is_proven_behind_it(body: str) -> None:
    assert checked(hanging(body, ("n", "m"))).verdict != "proven"


@pytest.mark.parametrize("body", TWINS.values(), ids=TWINS)
def test_a_twin_is_proven(body: str) -> None:
    report = checked(hanging(body, ("n", "m")))
    assert report.verdict == "proven", report.reasons


_UNROLLED = (
    "and.b32 %r_n, %r_n, 4095; mov.u32 %r_k, 0; mov.pred %p_bug, 0; setp.lt.u32 %p_a, %r_n, 4; @%p_a bra M; "
    "and.b32 %r_k, %r_n, -4; @!%p_other mbarrier.arrive.shared::cta.b64 _, [%r_bar+8]; "
    "M: setp.eq.u32 %p_b, %r_k, 0; @%p_b bra S; @!%p_other st.shared.u32 [%r_buf], 1; bra T; "
    "S: FIRST T: mov.u32 %r_y, 0;"
)


def test_a_way_that_is_gone_where_nothing_decides_has_been_seen() -> None:
    report = checked(hanging(_UNROLLED.replace("FIRST ", "")))
    assert report.verdict == "proven", report.reasons


def test_a_hang_on_such_a_way_is_found() -> None:
    assert checked(hanging(_UNROLLED.replace("FIRST ", "mov.pred %p_bug, 1; "))).verdict == "refuted"
    # The way is gone by lanes that come elsewhere from, at no number that is the same.
    later = "setp.eq.u32 %p_bug, %r_n, 2; "
    assert checked(hanging(_UNROLLED.replace("FIRST ", later))).verdict == "refuted"
