"""What a proof may leave out: ways that an assumption excludes, and no others; what no launch does on any way."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging

_ROOT = "mul.lo.s32 %r_x, %r_n, 3; sub.s32 %r_x, %r_x, 300000021;"
"""0 where n is 100000007, which no pool of launches holds."""
HIDDEN = {
    "by a number that is not 0": f"{_ROOT} mul.lo.s32 %r_x, %r_x, %r_n; setp.eq.s32 %p_bug, %r_x, 0;",
    "by one of two numbers that are not 0": (
        f"{_ROOT} mul.lo.s32 %r_x, %r_x, %r_m; mul.lo.s32 %r_x, %r_x, %r_n; setp.eq.s32 %p_bug, %r_x, 0;"
    ),
    "by a loop that is entered": (
        f"{_ROOT} setp.le.s32 %p_none, %r_m, 0; mov.u32 %r_i, 0; mov.pred %p_bug, %p_none; @%p_none bra S; "
        "L: bar.sync 0; add.s32 %r_i, %r_i, 1; setp.lt.s32 %p_more, %r_i, %r_m; @%p_more bra L; "
        "setp.eq.s32 %p_bug, %r_x, 0; S: mov.u32 %r_y, 0;"
    ),
    "by an assertion": (
        f"{_ROOT} setp.ne.s32 %p_root, %r_x, 0; @%p_root bra A; setp.gt.s32 %p_fine, %r_m, 5; @%p_fine bra B; trap; "
        "B: setp.eq.s32 %p_bug, %r_tid, %r_tid; bra C; A: setp.ne.s32 %p_bug, %r_tid, %r_tid; C: mov.u32 %r_y, 0;"
    ),
    "by another way to the branch": (
        "setp.gt.s32 %p_g, %r_m, 5; @%p_g bra A; and.b32 %r_x, %r_n, 7; add.s32 %r_x, %r_x, 1; bra B; "
        f"A: {_ROOT} B: setp.eq.s32 %p_bug, %r_x, 0;"
    ),
    "by a way that forbids it": (
        f"{_ROOT} mov.u32 %r_y, 0; setp.lt.u32 %p_g, %r_n, 50; @%p_g bra B; setp.lt.u32 %p_h, %r_m, 50; @%p_h bra B; "
        "mov.u32 %r_y, 1; B: setp.eq.s32 %p_bug, %r_x, 0;"
    ),
}
_PLACES = "mul.wide.u32 %rd_i, %r_i, 4; add.s64 %rd_i, %rd_source, %rd_i;"
_WORDS = (
    "mul.wide.u32 %rd_j, %r_n, 4; add.s64 %rd_j, %rd_source, %rd_j; ld.global.u32 %r_a, [%rd_j]; "
    "ld.global.u32 %r_b, [%rd_i]; setp.ne.s32 %p_bug, %r_a, %r_b;"
)
WORDS = {
    "at n and at n & 1023": f"and.b32 %r_i, %r_n, 1023; {_PLACES} {_WORDS}",
    "at n and at n, rounded": f"mul.lo.s32 %r_i, %r_n, 1048577; shr.u32 %r_i, %r_i, 20; {_PLACES} {_WORDS}",
    "before and after a store elsewhere": (
        f"mad.lo.s32 %r_i, %r_n, 3, 5; {_PLACES} mul.wide.u32 %rd_j, %r_m, 4; add.s64 %rd_j, %rd_source, %rd_j; "
        "ld.global.u32 %r_a, [%rd_j]; st.global.u32 [%rd_i], 7; ld.global.u32 %r_b, [%rd_j]; "
        "setp.ne.s32 %p_bug, %r_a, %r_b;"
    ),
    "before and after a store, at a fixed place": (
        f"mad.lo.s32 %r_i, %r_n, 3, 5; {_PLACES} ld.global.u32 %r_a, [%rd_source]; st.global.u32 [%rd_i], 7; "
        "ld.global.u32 %r_b, [%rd_source]; setp.ne.s32 %p_bug, %r_a, %r_b;"
    ),
    "behind a pointer that takes its own place": (
        "mov.u64 %rd_a, %rd_source; ld.global.u64 %rd_a, [%rd_a]; add.s64 %rd_b, %rd_source, 8; "
        "ld.global.u64 %rd_b, [%rd_b]; setp.ne.s64 %p_bug, %rd_a, %rd_b;"
    ),
}
_COUNTING = (
    "mov.u32 %r_i, 0; mov.u32 %r_h, 0; setp.gt.s32 %p_long, %r_n, 128; @%p_long bra Z; setp.le.s32 %p_no, %r_n, 0; "
    "@%p_no bra Z; {fill} L: mul.wide.u32 %rd_i, %r_i, 4; {look} bar.sync 0; setp.eq.s32 %p_b, %r_v, 2; @!%p_b bra O; "
    "mov.u32 %r_h, 1; O: add.s32 %r_i, %r_i, 1; setp.lt.s32 %p_go, %r_i, %r_n; @%p_go bra L; "
    "Z: setp.eq.s32 %p_bug, %r_h, {bug};"
)
_TABLE = f".const .align 4 .u32 tab[128] = {{{', '.join(['1'] * 100 + ['2'] * 28)}}};"
_FROM_TABLE = "mov.u64 %rd_t, tab; add.s64 %rd_t, %rd_t, %rd_i; ld.const.u32 %r_v, [%rd_t];"
_FILL = (
    "shl.b32 %r_o, %r_tid, 3; add.s32 %r_a, %r_buf, %r_o; setp.gt.u32 %p_hi, %r_tid, 49; selp.b32 %r_f, 2, 1, %p_hi; "
    "st.shared.u32 [%r_a], %r_f; st.shared.u32 [%r_a+4], %r_f; bar.sync 0;"
)
_FROM_SHARED = "shl.b32 %r_o, %r_i, 2; add.s32 %r_a, %r_buf, %r_o; ld.shared.u32 %r_v, [%r_a];"
TABLES = {"constants": ("", _FROM_TABLE), "shared memory": (_FILL, _FROM_SHARED)}
"""The hundredth iteration finds another word than those before."""


@pytest.mark.sample(3)
@pytest.mark.parametrize("body", HIDDEN.values(), ids=HIDDEN)
def test_a_hang_is_not_hidden(body: str) -> None:
    assert checked(hanging(body, ("n", "m"))).verdict != "proven"


@pytest.mark.parametrize("body", WORDS.values(), ids=WORDS)
def test_words_of_memory_at_places_that_depend_on_inputs_may_differ(body: str) -> None:
    assert checked(hanging(body, ("n", "m"))).verdict != "proven"


def test_words_at_one_place_are_one_word() -> None:
    body = f"add.s32 %r_i, %r_n, 0; {_PLACES} {_WORDS}".replace("[%rd_j]", "[%rd_i]")
    report = checked(hanging(body))
    assert report.verdict == "proven", report.reasons


@pytest.mark.parametrize(("fill", "look"), TABLES.values(), ids=TABLES)
def test_a_table_that_a_counter_leads_through_is_not_taken_to_go_on_as_it_begins(fill: str, look: str) -> None:
    report = checked(hanging(_COUNTING.format(fill=fill, look=look, bug=1), module=_TABLE))
    assert report.verdict == "unknown"
    assert any("is not shown to repeat itself" in each for each in report.reasons)


@pytest.mark.parametrize("zero", ["setp.eq.s32 %p_bug, %r_n, 0;", "setp.lt.u32 %p_bug, %r_n, 1;"])
def test_a_number_that_is_not_zero_is_assumed(zero: str) -> None:
    report = checked(hanging(zero))
    assert report.verdict == "proven", report.reasons
    assert any("parameter 2 is not 0" in each for each in report.assumptions)


def test_two_ways_to_a_branch_that_never_comes_out_otherwise_are_proven() -> None:
    body = (
        "setp.gt.s32 %p_g, %r_m, 5; @%p_g bra A; and.b32 %r_x, %r_n, 7; add.s32 %r_x, %r_x, 1; bra B; "
        "A: or.b32 %r_x, %r_n, 4; B: setp.eq.s32 %p_bug, %r_x, 0;"
    )
    report = checked(hanging(body, ("n", "m")))
    assert report.verdict == "proven", report.reasons
