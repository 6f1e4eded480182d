"""What an input decides in the one iteration that another input chooses."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging

_LOOP = (
    "mov.u32 %r_i, 0; mov.u32 %r_b, 0; mov.u32 %r_s, 0; mov.pred %p_bug, 0; @%p_other bra M; "
    "L: setp.ge.u32 %p_e, %r_i, %r_n; @%p_e bra K; INSIDE mbarrier.arrive.shared::cta.b64 _, [%r_bar+8]; "
    "W: mbarrier.try_wait.parity.shared::cta.b64 %p_w, [%r_bar+8], %r_b; @!%p_w bra W; xor.b32 %r_b, %r_b, 1; "
    "add.u32 %r_i, %r_i, {step}; bra L; K: BEHIND bra M; "
    "H: mbarrier.try_wait.parity.shared::cta.b64 %p_w, [%r_bar], 0; @!%p_w bra H; M: "
)


def _kernel(inside: str, behind: str = "", step: int = 1) -> str:
    return hanging(_LOOP.format(step=step).replace("INSIDE", inside).replace("BEHIND", behind), ("n", "m"))


_CHOSEN = {
    "by how many are left": (
        "sub.u32 %r_x, %r_n, %r_i; setp.ne.u32 %p_a, %r_x, 8; @%p_a bra C; setp.eq.u32 %p_c, %r_n, 10; "
        "@%p_c bra H; C: ",
        "", 2,
    ),
    "by another number": (
        "setp.ne.u32 %p_a, %r_i, %r_m; @%p_a bra C; setp.eq.u32 %p_c, %r_m, 20; @%p_c bra H; C: ", "", 1
    ),
    "and leaves a register": (
        "setp.ne.u32 %p_a, %r_i, %r_m; @%p_a bra C; setp.ne.u32 %p_c, %r_m, 300; @%p_c bra C; mov.u32 %r_s, 1; C: ",
        "setp.eq.u32 %p_c, %r_s, 1; @%p_c bra H; ", 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _CHOSEN)
def test_a_bug_in_iterations_that_a_launch_chooses_is_never_passed_over(name: str) -> None:
    assert checked(_kernel(*_CHOSEN[name])).verdict != "proven"


def test_what_no_iteration_decides_is_proven() -> None:
    inside = (
        "setp.ne.u32 %p_a, %r_i, %r_m; @%p_a bra C; and.b32 %r_x, %r_m, 3; setp.eq.u32 %p_c, %r_x, 4; @%p_c bra H; C: "
    )
    report = checked(_kernel(inside))
    assert report.verdict == "proven", report.reasons


_EXPECTING = (
    "mov.u32 %r_i, 0; mov.u32 %r_b, 0; mov.pred %p_bug, 0; mov.u32 %r_z, 0; @%p_other bra M; "
    "L: setp.ge.u32 %p_e, %r_i, %r_n; @%p_e bra K; "
    "CALC mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r_bar+8], %r_z; "
    "W: mbarrier.try_wait.parity.shared::cta.b64 %p_w, [%r_bar+8], %r_b; @!%p_w bra W; xor.b32 %r_b, %r_b, 1; "
    "add.u32 %r_i, %r_i, 1; bra L; K: M: mov.u32 %r_y, 0;"
)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "bytes_of_iteration",
    [
        "setp.eq.u32 %p_a, %r_i, %r_m; setp.eq.and.u32 %p_t, %r_m, 300, %p_a; selp.u32 %r_z, 16, 0, %p_t;",
        "mov.u32 %r_z, 0; setp.ne.u32 %p_a, %r_i, %r_m; @%p_a bra S; setp.ne.u32 %p_t, %r_m, 300; @%p_t bra S; "
        "mov.u32 %r_z, 16; S: mov.u32 %r_y, 1;",
        "add.u32 %r_x, %r_i, %r_m; setp.eq.u32 %p_a, %r_x, 3; setp.eq.and.u32 %p_t, %r_i, 9, %p_a; "
        "selp.u32 %r_z, 16, 0, %p_t;",
        "rem.u32 %r_x, %r_i, 7; setp.eq.u32 %p_a, %r_x, %r_m; setp.eq.and.u32 %p_t, %r_i, 41, %p_a; "
        "selp.u32 %r_z, 16, 0, %p_t;",
    ],
)
def test_an_operand_that_is_another_in_each_iteration_is_not_covered_by_some(bytes_of_iteration: str) -> None:
    """Bytes are expected in one iteration, of one launch, which nobody copies."""
    assert checked(hanging(_EXPECTING.replace("CALC", bytes_of_iteration), ("n", "m"))).verdict != "proven"


_BY_THE_WAY = {
    "what such an iteration left in a register": (
        "setp.ne.u32 %p_a, %r_i, %r_m; @%p_a bra C; mov.u32 %r_s, 1; C: setp.ne.u32 %p_c, %r_s, 1; @%p_c bra D; "
        "setp.eq.u32 %p_c, %r_i, 7; @%p_c bra H; D: "
    ),
    "what such an iteration left in a copy": (
        "setp.ne.u32 %p_a, %r_i, %r_m; @%p_a bra C; mov.u32 %r_s, 1; C: add.u32 %r_x, %r_s, 4; "
        "setp.ne.u32 %p_c, %r_x, 5; @%p_c bra D; setp.eq.u32 %p_c, %r_i, 7; @%p_c bra H; D: "
    ),
    "what such an iteration stored": (
        "setp.ne.u32 %p_a, %r_i, %r_m; @%p_a bra C; mov.u32 %r_y, 1; st.shared.u32 [%r_buf], %r_y; "
        "C: ld.shared.u32 %r_x, [%r_buf]; setp.ne.u32 %p_c, %r_x, 1; @%p_c bra D; setp.eq.u32 %p_c, %r_i, 7; "
        "@%p_c bra H; D: "
    ),
    "how often a loop in it iterated": (
        "mov.u32 %r_x, 0; A: setp.ge.u32 %p_a, %r_x, %r_m; @%p_a bra C; add.u32 %r_x, %r_x, 1; bra A; "
        "C: setp.ne.u32 %p_c, %r_x, 3; @%p_c bra D; setp.eq.u32 %p_c, %r_i, 7; @%p_c bra H; D: "
    ),
}  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", _BY_THE_WAY)
def test_a_count_that_is_compared_by_the_way_of_a_launch_is_never_passed_over(name: str) -> None:
    """The seventh iteration hangs, if one before it was chosen."""
    assert checked(_kernel(_BY_THE_WAY[name])).verdict != "proven"


def test_what_one_warp_compares_in_every_iteration_is_proven() -> None:
    """That a launch chooses how often the loop iterates does not choose in which iterations the block is executed."""
    inside = (
        "setp.ne.u32 %p_c, %r_tid, 0; @%p_c bra D; setp.eq.u32 %p_c, %r_i, 0; @%p_c st.shared.u32 [%r_buf], %r_b; D: "
    )
    report = checked(_kernel(inside))
    assert report.verdict == "proven", report.reasons
