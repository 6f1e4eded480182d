"""Branches that matter only together, by what they do to memory or barriers, and lanes that part by inputs."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging

_NAMES = "abcdef"
_PARTED = (
    "shl.b32 %r_o, %r_tid, 2; add.s32 %r_a, %r_buf, %r_o; st.shared.u32 [%r_a], 0; bar.sync 0; "
    "setp.lt.s32 %p_l, %r_tid, %r_n; @!%p_l bra S; st.shared.u32 [%r_a], 1; S: bar.sync 0; "
    "ld.shared.u32 %r_q, [%r_buf+148]; ld.shared.u32 %r_w, [%r_buf+152]; sub.s32 %r_q, %r_q, %r_w; "
    "setp.eq.s32 %p_bug, %r_q, 1;"
)
"""Lane 37 stores and lane 38 does not: 38 lanes do."""


def _together(count: int, bug: int) -> str:
    """Each of so many numbers sets a bit where it has a certain value; the kernel hangs where all bits are `bug`."""
    parts = ["mov.u32 %r_x, 0;"]
    for place, name in enumerate(_NAMES[:count]):
        parts.append(
            f"setp.eq.s32 %p_{name}, %r_{name}, {3 + place}; @!%p_{name} bra L{place}; "
            f"add.s32 %r_x, %r_x, {1 << place}; L{place}: "
        )
    return hanging(f"{' '.join(parts)} setp.eq.s32 %p_bug, %r_x, {bug};", tuple(_NAMES[:count]))


@pytest.mark.parametrize(("count", "bug"), [(2, 3), (3, 7), (4, 15)])
def test_a_hang_after_several_decisions_is_found(count: int, bug: int) -> None:
    report = checked(_together(count, bug))
    assert report.verdict == "refuted", report.reasons


@pytest.mark.parametrize(("count", "bug"), [(3, 5), (4, 11), (5, 22), (6, 45)])
def test_nothing_is_proven_where_some_decisions_hold_and_others_do_not(count: int, bug: int) -> None:
    assert checked(_together(count, bug)).verdict != "proven"


_NEAR = (
    "xor.b32 %r_q, %r_n, {}; {} popc.b32 %r_q, %r_q; setp.le.u32 %p_{}, %r_q, 1; @!%p_{} bra L{}; "
    "add.s32 %r_x, %r_x, {}; L{}: "
)


# A solver has no term of the second: both say the same of these numbers.
@pytest.mark.parametrize(("more", "verdict"), [("", "refuted"), ("mul24.lo.u32 %r_q, %r_q, 1;", "unknown")])
def test_nothing_is_proven_where_two_decisions_are_rarely_taken_together(more: str, verdict: str) -> None:
    # 8192 and 131072 apart from one another: both hold for a number that is one bit apart from either.
    first, second = 0x5A5A5A5A, 0x5A5A5A5A ^ 0x22000
    parts = [_NEAR.format(first, more, "a", "a", 0, 1, 0), _NEAR.format(second, more, "b", "b", 1, 2, 1)]
    report = checked(hanging(f"mov.u32 %r_x, 0; {' '.join(parts)} setp.eq.s32 %p_bug, %r_x, 3;"))
    assert report.verdict == verdict, report.reasons


def test_decisions_that_meet_only_where_a_sum_overflows_are_assumed_not_to() -> None:
    body = (
        "mov.u32 %r_x, 0; add.s32 %r_y, %r_n, 63; setp.lt.s32 %p_a, %r_y, 64; @!%p_a bra A; add.s32 %r_x, %r_x, 1; "
        "A: setp.lt.s32 %p_b, %r_n, 65; @%p_b bra B; add.s32 %r_x, %r_x, 2; B: setp.eq.s32 %p_bug, %r_x, 3;"
    )
    report = checked(hanging(body))
    assert report.verdict == "proven", report.reasons
    assert any("at least 0 and below 2^30" in each for each in report.assumptions)


def test_a_cluster_beyond_the_grid_is_no_launch() -> None:
    body = (
        "mov.u32 %r_c, %ctaid.x; mov.u32 %r_g, %nctaid.x; mov.u32 %r_x, 0; setp.ge.u32 %p_a, %r_c, %r_g; "
        "@!%p_a bra A; mov.u32 %r_x, 1; A: setp.eq.s32 %p_bug, %r_x, 1;"
    )
    report = checked(hanging(body))
    assert report.verdict == "proven", report.reasons


def test_decisions_that_never_come_to_the_bug_are_proven() -> None:
    report = checked(_together(3, 8))
    assert report.verdict == "proven", report.reasons


def test_nothing_is_proven_of_lanes_that_part_in_ways_that_were_not_tried() -> None:
    report = checked(hanging(_PARTED))
    assert report.verdict == "unknown"
    assert any("more ways at this place" in each for each in report.reasons)


def _stored(count: int, bug: int) -> str:
    """Each of so many bits of a number is stored as a flag; the kernel hangs where the flags are `bug`."""
    parts = "".join(
        f"and.b32 %r_b, %r_n, {1 << place}; setp.ne.u32 %p_{place}, %r_b, 0; @!%p_{place} bra L{place}; "
        f"st.local.u32 [frame+{4 * place}], {1 << place}; L{place}: "
        for place in range(count)
    )
    zeros = "".join(f"st.local.u32 [frame+{4 * place}], 0; " for place in range(count))
    loads = "".join(f"ld.local.u32 %r_b, [frame+{4 * place}]; add.s32 %r_x, %r_x, %r_b; " for place in range(count))
    return hanging(f"{zeros} {parts} mov.u32 %r_x, 0; {loads} setp.eq.s32 %p_bug, %r_x, {bug};")


@pytest.mark.sample(1)
@pytest.mark.parametrize(("count", "bug"), [(4, 11), (5, 22), (6, 45)])
def test_a_hang_after_several_stores_is_found(count: int, bug: int) -> None:
    assert checked(_stored(count, bug)).verdict == "refuted"


def test_stores_that_never_come_to_the_bug_are_proven() -> None:
    report = checked(_stored(5, 32))
    assert report.verdict == "proven", report.reasons


@pytest.mark.full
def test_nothing_is_proven_of_more_decisions_than_launches_can_be_made_for() -> None:
    report = checked(_stored(8, 181))
    assert report.verdict != "proven"


def _chain(count: int, bug: int) -> str:
    """One of so many ways is taken, each with a barrier of its own; one of them hangs."""
    parts = "".join(
        f"setp.eq.s32 %p_{place}, %r_n, {100 * place}; @!%p_{place} bra L{place}; bar.sync {place + 1}; "
        f"mov.u32 %r_x, {place}; bra.uni OUT; L{place}: "
        for place in range(count)
    )
    return hanging(f"mov.u32 %r_x, 99; {parts} OUT: setp.eq.s32 %p_bug, %r_x, {bug};")


def test_ways_that_exclude_one_another_are_not_taken_together() -> None:
    report = checked(_chain(9, 50))
    assert report.verdict == "proven", report.reasons
    assert checked(_chain(9, 7)).verdict == "refuted"


def _barriers(bug: str) -> str:
    """One of two warps leaves out barriers by the bits of a number; so does the other, but for one combination."""
    return hanging(
        "setp.lt.u32 %p_w, %r_tid, 32; and.b32 %r_a, %r_n, 3; and.b32 %r_b, %r_m, 3; @!%p_w bra OTHER; "
        "setp.eq.u32 %p_a, %r_a, 1; @%p_a bra A; bar.sync 1, 64; A: setp.eq.u32 %p_b, %r_b, 2; @%p_b bra B; "
        f"bar.sync 2, 64; B: bra.uni OUT; OTHER: setp.eq.u32 %p_a, %r_a, 1; @%p_a bra C; bar.sync 1, 64; C: {bug} "
        "@%p_b bra D; bar.sync 2, 64; D: OUT: setp.eq.u32 %p_bug, %r_tid, 999;",
        ("n", "m"),
    )


def test_decisions_of_two_warps_about_barriers() -> None:
    assert checked(_barriers("setp.eq.u32 %p_b, %r_b, 2;")).verdict == "proven"
    wrong = "setp.eq.u32 %p_b, %r_b, 2; setp.eq.u32 %p_c, %r_a, 1; setp.eq.u32 %p_d, %r_b, 3; "
    report = checked(_barriers(wrong + "and.pred %p_c, %p_c, %p_d; or.pred %p_b, %p_b, %p_c;"))
    assert report.verdict == "refuted", report.reasons


_IN_A_LOOP = (
    "mov.u32 %r_k, 0; LOOP: shr.u32 %r_b, %r_n, %r_k; and.b32 %r_b, %r_b, 1; setp.ne.u32 %p_b, %r_b, 0; "
    "@!%p_b bra L; mov.u32 %r_c, 1; shl.b32 %r_c, %r_c, %r_k; shl.b32 %r_a, %r_k, 2; cvt.u64.u32 %rd_a, %r_a; "
    "mov.u64 %rd_f, frame; add.u64 %rd_a, %rd_a, %rd_f; st.local.u32 [%rd_a], %r_c; L: add.s32 %r_k, %r_k, 1; "
    "setp.lt.s32 %p_e, %r_k, {}; @%p_e bra LOOP; "
)
"""A loop that stores a flag for each bit of a number."""


def _flags(begin: str, loop: str, bug: int, names: tuple[str, ...] = ("n",)) -> str:
    zeros = "".join(f"st.local.u32 [frame+{4 * place}], 0; " for place in range(8))
    loads = "".join(f"ld.local.u32 %r_b, [frame+{4 * place}]; add.s32 %r_x, %r_x, %r_b; " for place in range(8))
    return hanging(f"{zeros} {begin} {loop} mov.u32 %r_x, 0; {loads} setp.eq.s32 %p_bug, %r_x, {bug};", names)


@pytest.mark.parametrize(("bug", "verdict"), [(22, "refuted"), (32, "proven")])
def test_what_each_iteration_decides_counts_together(bug: int, verdict: str) -> None:
    report = checked(_flags("", _IN_A_LOOP.format(5), bug))
    assert report.verdict == verdict, report.reasons


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("mask", "bug", "verdicts"), [(3, 5, {"refuted"}), (3, 16, {"proven"}), (7, 85, {"unknown", "refuted"})]
)
def test_iterations_that_inputs_bound_count_together(mask: int, bug: int, verdicts: set[str]) -> None:
    text = _flags(f"and.b32 %r_q, %r_m, {mask};", _IN_A_LOOP.format("%r_q"), bug, ("n", "m"))
    report = checked(text)
    assert report.verdict in verdicts, report.reasons


def _skipping(count: int, change: str) -> str:
    """Two warps leave out barriers by the bits of two numbers, which are one but for a change."""

    def role(number: str, place: int) -> str:
        return (
            f"mov.u32 %r_k, 0; LOOP{place}: shr.u32 %r_b, {number}, %r_k; and.b32 %r_b, %r_b, 1; "
            f"setp.ne.u32 %p_b, %r_b, 0; @!%p_b bra S{place}; bar.sync 1, 64; S{place}: add.s32 %r_k, %r_k, 1; "
            f"setp.lt.s32 %p_e, %r_k, {count}; @%p_e bra LOOP{place}; "
        )

    return hanging(
        f"setp.lt.u32 %p_w, %r_tid, 32; mov.u32 %r_v, %r_n; {change} @!%p_w bra OTHER; {role('%r_n', 1)} bra.uni OUT; "
        f"OTHER: {role('%r_v', 2)} OUT: setp.eq.u32 %p_bug, %r_tid, 999;"
    )


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ("", "proven"),
        ("and.b32 %r_c, %r_n, 15; setp.eq.u32 %p_c, %r_c, 11; @%p_c add.u32 %r_v, %r_n, 4;", "refuted"),
        ("and.b32 %r_c, %r_n, 15; setp.eq.u32 %p_c, %r_c, 11; @%p_c xor.b32 %r_v, %r_n, 8;", "refuted"),
    ],
)
def test_barriers_that_two_warps_leave_out_in_loops(change: str, verdict: str) -> None:
    report = checked(_skipping(4, change))
    assert report.verdict == verdict, report.reasons


def _meeting(first: str, second: str) -> str:
    """Two warps store without order, at places that inputs choose."""
    store = (
        "mad.lo.u32 %r_a, %r_a, 128, %r_buf; and.b32 %r_l, %r_tid, 31; mad.lo.u32 %r_a, %r_l, 4, %r_a; "
        "st.shared.u32 [%r_a], %r_tid; "
    )
    return hanging(
        f"setp.lt.u32 %p_w, %r_tid, 32; @!%p_w bra OTHER; {first} {store} bra.uni OUT; OTHER: {second} {store} "
        "OUT: setp.eq.u32 %p_bug, %r_tid, 999;",
        ("n", "m"),
    )


@pytest.mark.parametrize(
    ("second", "verdict"),
    [
        ("and.b32 %r_a, %r_m, 3; xor.b32 %r_a, %r_a, 2; add.u32 %r_a, %r_a, 3;", "refuted"),
        ("and.b32 %r_a, %r_m, 3; add.u32 %r_a, %r_a, 4;", "proven"),
    ],
)
def test_places_that_meet_for_one_pair_of_values(second: str, verdict: str) -> None:
    report = checked(_meeting("and.b32 %r_a, %r_n, 3;", second))
    assert report.verdict == verdict, report.reasons


def _in_all_lanes(count: int, bug: int) -> str:
    """Predicates that are made of the lane's number, and in all lanes the same."""
    parts = "".join(
        f"and.b32 %r_b, %r_n, {1 << place}; mad.lo.u32 %r_b, %r_b, 1000, %r_tid; setp.gt.u32 %p_{place}, %r_b, 500; "
        f"@!%p_{place} bra L{place}; st.local.u32 [frame+{4 * place}], {1 << place}; L{place}: "
        for place in range(count)
    )
    return _flags("", parts, bug)


@pytest.mark.sample(1)
@pytest.mark.parametrize(("bug", "verdict"), [(11, "refuted"), (16, "proven")])
def test_decisions_in_which_all_lanes_agree(bug: int, verdict: str) -> None:
    report = checked(_in_all_lanes(4, bug))
    assert report.verdict == verdict, report.reasons


def _tables(bug: int) -> str:
    """Two branches by a table, each of four ways with a barrier."""

    def table(name: str, number: str, result: str, step: int) -> str:
        ways = "".join(
            f"{name}{way}: bar.sync {way + 1}; mov.u32 {result}, {step * (way + 1)}; bra.uni {name}END; "
            for way in range(4)
        )
        labels = ", ".join(f"{name}{way}" for way in range(4))
        return f"t{name}: .branchtargets {labels}; brx.idx {number}, t{name}; {ways} {name}END: "

    return hanging(
        f"and.b32 %r_a, %r_n, 3; and.b32 %r_b, %r_m, 3; {table('A', '%r_a', '%r_x', 1)} "
        f"{table('B', '%r_b', '%r_y', 5)} add.u32 %r_x, %r_x, %r_y; setp.eq.u32 %p_bug, %r_x, {bug};",
        ("n", "m"),
    )


@pytest.mark.parametrize(("bug", "verdict"), [(13, "refuted"), (19, "refuted"), (25, "proven")])
def test_ways_of_two_tables_count_together(bug: int, verdict: str) -> None:
    report = checked(_tables(bug))
    assert report.verdict == verdict, report.reasons
