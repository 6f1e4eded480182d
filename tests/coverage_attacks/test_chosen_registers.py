"""Branches that only choose what registers hold: many together, with numbers of iterations, one after another."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging

_LOOP = (
    "mov.u32 %r_k, 0; setp.ge.s32 %p_e, %r_k, %r_q; @%p_e bra DONE; LOOP: {} add.s32 %r_k, %r_k, 1; "
    "setp.lt.s32 %p_e, %r_k, %r_q; @%p_e bra LOOP; DONE: "
)
"""A loop of `%r_q` iterations."""


def _bit(place: int, number: str = "n", result: str = "x") -> str:
    """Add one bit of a number to a register, by a branch."""
    label, predicate = f"L{number}{place}", f"%p_{number}{place}"
    return (
        f"and.b32 %r_b, %r_{number}, {1 << place}; setp.ne.u32 {predicate}, %r_b, 0; @!{predicate} bra {label}; "
        f"add.s32 %r_{result}, %r_{result}, {1 << place}; {label}: "
    )


def _bits(count: int, bug: int) -> str:
    parts = "".join(_bit(place) for place in range(count))
    return hanging(f"mov.u32 %r_x, 0; {parts} setp.eq.s32 %p_bug, %r_x, {bug};")


@pytest.mark.parametrize(("count", "bug"), [(7, 93), (9, 358), (12, 2741)])
def test_a_hang_at_one_of_many_combinations_is_found(count: int, bug: int) -> None:
    assert checked(_bits(count, bug)).verdict == "refuted"


def test_many_that_never_come_to_the_bug_are_proven() -> None:
    report = checked(_bits(9, 512))
    assert report.verdict == "proven", report.reasons


@pytest.mark.parametrize(("bug", "verdicts"), [(13, {"refuted"}), (16, {"proven", "unknown"})])
def test_three_branches_and_the_parity_of_a_loop(bug: int, verdicts: set[str]) -> None:
    parts = "".join(_bit(place) for place in (1, 2, 3))
    loop = _LOOP.format("xor.b32 %r_x, %r_x, 1; bar.sync 1;")
    body = f"mov.u32 %r_x, 0; {parts} {loop} setp.eq.s32 %p_bug, %r_x, {bug};"
    assert checked(hanging(body, ("n", "q"))).verdict in verdicts


@pytest.mark.parametrize(("bug", "verdict"), [(15, "refuted"), (16, "proven")])
def test_a_step_that_a_branch_before_the_loop_chooses(bug: int, verdict: str) -> None:
    body = (
        "mov.u32 %r_s, 1; setp.eq.s32 %p_a, %r_m, 7; @!%p_a bra A; mov.u32 %r_s, 3; A: mov.u32 %r_x, 0; "
        f"and.b32 %r_q, %r_n, 7; {_LOOP.format('add.s32 %r_x, %r_x, %r_s;')} setp.eq.s32 %p_bug, %r_x, {bug};"
    )
    report = checked(hanging(body, ("n", "m")))
    assert report.verdict == verdict, report.reasons


@pytest.mark.parametrize(("bug", "verdict"), [(15, "refuted"), (18, "proven")])
def test_a_branch_behind_a_loop_adds_to_its_counter(bug: int, verdict: str) -> None:
    body = (
        f"and.b32 %r_q, %r_n, 7; {_LOOP.format('')} setp.eq.s32 %p_a, %r_m, 7; @!%p_a bra A; "
        f"add.s32 %r_k, %r_k, 10; A: setp.eq.s32 %p_bug, %r_k, {bug};"
    )
    report = checked(hanging(body, ("n", "m")))
    assert report.verdict == verdict, report.reasons


def test_a_branch_before_a_loop_chooses_the_bound_of_one_behind_it() -> None:
    # The second loop iterates as often as the first one, but once more where the parameter is 77.
    body = (
        "mov.u32 %r_y, 0; setp.eq.s32 %p_a, %r_m, 77; @!%p_a bra A; mov.u32 %r_y, 1; A: and.b32 %r_q, %r_n, 3; "
        f"{_LOOP.format('')} add.s32 %r_y, %r_y, %r_q; mov.u32 %r_z, 0; setp.ge.s32 %p_f, %r_z, %r_y; @%p_f bra END2; "
        "AGAIN: add.s32 %r_z, %r_z, 1; setp.lt.s32 %p_f, %r_z, %r_y; @%p_f bra AGAIN; END2: "
        "setp.eq.s32 %p_bug, %r_z, 4;"
    )
    assert checked(hanging(body, ("n", "m"))).verdict == "refuted"


@pytest.mark.parametrize(("bug", "verdict"), [(31, "refuted"), (32, "proven")])
def test_two_families_of_branches_that_have_nothing_to_do_with_one_another(bug: int, verdict: str) -> None:
    parts = "".join(_bit(place, number, result) for number, result in (("n", "x"), ("q", "y")) for place in range(5))
    body = (
        f"mov.u32 %r_x, 0; mov.u32 %r_y, 0; {parts} setp.eq.s32 %p_a, %r_x, 32; setp.eq.s32 %p_b, %r_y, {bug}; "
        "or.pred %p_bug, %p_a, %p_b;"
    )
    report = checked(hanging(body, ("n", "q")))
    assert report.verdict == verdict, report.reasons


def test_a_branch_by_what_another_one_has_chosen() -> None:
    # On one way the second branch looks at `m`, on the other at `n`, which both ways of it fit.
    body = (
        "mov.u32 %r_x, %r_n; mov.u32 %r_z, 0; setp.lt.s32 %p_a, %r_n, 3; @!%p_a bra A; mov.u32 %r_x, %r_m; "
        "mov.u32 %r_z, 1; A: setp.eq.s32 %p_b, %r_x, 77777; @!%p_b bra B; add.s32 %r_z, %r_z, 1; "
        "B: setp.eq.s32 %p_bug, %r_z, 2;"
    )
    assert checked(hanging(body, ("n", "m"))).verdict == "refuted"


def test_a_register_that_one_way_leaves_undefined_is_not_zero() -> None:
    body = (
        "setp.eq.s32 %p_a, %r_n, 77; @%p_a bra A; mov.u32 %r_u, 0; A: setp.ne.u32 %p_bug, %r_u, 0; "
        "@%p_bug bra B; bar.sync 0; B: "
    )
    assert checked(hanging(body)).verdict != "proven"


def test_a_loop_in_a_way_counts_together_with_others() -> None:
    # A loop of three iterations in a way stays a branch.
    parts = "".join(
        f"and.b32 %r_b, %r_n, {1 << place}; setp.ne.u32 %p_{place}, %r_b, 0; @!%p_{place} bra L{place}; "
        f"mov.u32 %r_i, 0; K{place}: add.s32 %r_x, %r_x, {1 << (2 * place)}; add.s32 %r_i, %r_i, 1; "
        f"setp.lt.s32 %p_k, %r_i, 3; @%p_k bra K{place}; L{place}: "
        for place in range(3)
    )
    body = f"mov.u32 %r_x, 0; {parts} setp.eq.s32 %p_bug, %r_x, {{}};"
    assert checked(hanging(body.format(3 + 48))).verdict == "refuted"
    assert checked(hanging(body.format(13))).verdict == "proven"
