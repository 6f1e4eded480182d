"""Values that reach a branch around what follows them most easily: memory, lanes, narrow and indexed loads."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging

_IS = "setp.eq.s32 %p_bug, %r_m, 1234567;"
_GENERIC = "mov.u64 %rd_l, frame; cvta.local.u64 %rd_g, %rd_l; "
_BLOCK = "mov.b64 %rd_b, k_param_2; "
FOLLOWED = {
    "local memory": f"st.local.u32 [frame], %r_n; ld.local.u32 %r_m, [frame]; {_IS}",
    "local memory, generic": f"{_GENERIC}st.u32 [%rd_g], %r_n; ld.u32 %r_m, [%rd_g]; {_IS}",
    "local memory, generic and not": f"{_GENERIC}st.u32 [%rd_g], %r_n; ld.local.u32 %r_m, [%rd_l]; {_IS}",
    "parameters, generic": f"{_BLOCK}cvta.param.u64 %rd_b, %rd_b; ld.u32 %r_m, [%rd_b]; {_IS}",
    "one byte of a parameter": "ld.param.u8 %rs_q, [k_param_2+3]; setp.eq.s16 %p_bug, %rs_q, 77;",
    "a signed half of a parameter": "ld.param.s16 %r_m, [k_param_2]; setp.eq.s32 %p_bug, %r_m, -777;",
    "a parameter by lane": (
        f"{_BLOCK}and.b32 %r_i, %r_tid, 1; mul.wide.u32 %rd_o, %r_i, 4; add.s64 %rd_b, %rd_b, %rd_o; "
        f"ld.param.u32 %r_m, [%rd_b]; {_IS}"
    ),
}
"""The bug is found."""
MEMBERS = {
    "by an address in a register": f"mov.b64 %rd_b, k_param_2; ld.param.u32 %r_m, [%rd_b+40]; {_IS}",
    "by an address of several steps, in a vector": (
        "mov.b64 %rd_b, k_param_2; cvta.param.u64 %rd_c, %rd_b; add.s64 %rd_d, %rd_c, 32; "
        f"ld.param.v2.u64 {{%rd_q, %rd_m}}, [%rd_d]; cvt.u32.u64 %r_m, %rd_m; {_IS}"
    ),
}
"""The text loads these members of a structure through registers alone: none may be taken for a constant."""
OPAQUE = {
    "vectors of local memory": (
        f"st.local.v4.u32 [frame], {{%r_n, %r_n, %r_n, %r_n}}; ld.local.u32 %r_m, [frame+4]; {_IS}"
    ),
    "an atomic sum in shared memory": (
        "@%p_other bra S; st.shared.u32 [%r_buf], 0; atom.shared.add.u32 %r_q, [%r_buf], %r_n; S: bar.sync 0; "
        f"ld.shared.u32 %r_m, [%r_buf]; {_IS}"
    ),
    "half a word of shared memory": (
        "@%p_other bra S; st.shared.u16 [%r_buf], %r_n; S: bar.sync 0; ld.shared.u16 %rs_q, [%r_buf]; "
        "setp.eq.s16 %p_bug, %rs_q, 77;"
    ),
    "the lane that a shuffle reads": (
        "and.b32 %r_l, %r_n, 31; shfl.sync.idx.b32 %r_m, %r_tid, %r_l, 31, -1; setp.eq.s32 %p_bug, %r_m, 5;"
    ),
    "lanes that run together": (
        "setp.lt.s32 %p_g, %r_tid, %r_n; mov.u32 %r_m, 0; @!%p_g bra T; activemask.b32 %r_m; "
        "T: setp.eq.u32 %p_bug, %r_m, 1023;"
    ),
    "a parameter at an index": (
        f"{_BLOCK}cvta.param.u64 %rd_b, %rd_b; and.b32 %r_i, %r_n, 1; mul.wide.u32 %rd_o, %r_i, 4; "
        f"add.s64 %rd_b, %rd_b, %rd_o; ld.u32 %r_m, [%rd_b]; {_IS}"
    ),
    "a signed byte of memory": "ld.global.s8 %r_m, [%rd_source]; setp.eq.s32 %p_bug, %r_m, -7;",
}
"""Nothing is proven."""


@pytest.mark.parametrize("body", FOLLOWED.values(), ids=FOLLOWED)
def test_a_hang_is_found_behind_it(body: str) -> None:
    report = checked(hanging(body, ("n", "m")))
    assert report.verdict == "refuted", report.reasons
    assert report.errors[0].code == "MB113"


@pytest.mark.parametrize("body", MEMBERS.values(), ids=MEMBERS)
def test_a_hang_is_found_behind_a_member(body: str) -> None:
    report = checked(hanging(body, ("n",), structured=True))
    assert report.verdict == "refuted", report.reasons
    assert report.errors[0].code == "MB113"


def test_a_pointer_that_a_register_leads_to_may_be_null() -> None:
    body = (
        "mov.b64 %rd_b, k_param_2; ld.param.u64 %rd_m, [%rd_b+40]; cvta.to.global.u64 %rd_q, %rd_m; "
        "setp.eq.s64 %p_bug, %rd_m, 0; @%p_bug bra N; ld.global.u32 %r_m, [%rd_q]; N:"
    )
    report = checked(hanging(body, ("n",), structured=True))
    assert any("parameter 2 at byte 40 is not null" in each for each in report.assumptions), report.assumptions


@pytest.mark.parametrize("body", OPAQUE.values(), ids=OPAQUE)
def test_nothing_is_proven_behind_it(body: str) -> None:
    assert checked(hanging(body, ("n", "m"))).verdict != "proven"


def test_a_twin_that_keeps_a_number_in_local_memory_is_proven() -> None:
    body = "st.local.u32 [frame], %r_n; ld.local.u32 %r_m, [frame]; sub.s32 %r_m, %r_m, %r_n; setp.ne.s32 %p_bug, "
    assert checked(hanging(f"{body}%r_m, 0;")).verdict == "proven"
