"""A loop that is unrolled by two leaves a rest of one, which compares what the loop has counted with its bound."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging

_STEP = (
    "mbarrier.arrive.shared::cta.b64 _, [%r_bar+8]; "
    "{label}: mbarrier.try_wait.parity.shared::cta.b64 %p_w, [%r_bar+8], %r_b; @!%p_w bra {label}; "
    "xor.b32 %r_b, %r_b, 1; "
)
_KERNEL = (
    "mov.u32 %r_i, 0; mov.u32 %r_b, 0; mov.pred %p_bug, 0; @%p_other bra M; setp.eq.u32 %p_a, %r_n, 0; @%p_a bra M; "
    "and.b32 %r_e, %r_n, {even}; neg.s32 %r_k, %r_e; setp.lt.u32 %p_a, %r_n, 2; @%p_a bra R; "
    "L: ONE TWO add.u32 %r_i, %r_i, 2; add.s32 %r_k, %r_k, 2; setp.ne.u32 %p_c, %r_k, 0; @%p_c bra L; "
    "and.b32 %r_e, %r_n, 1; setp.eq.u32 %p_a, %r_e, 0; @%p_a bra M; "
    "R: add.u32 %r_x, %r_i, {ahead}; setp.ge.u32 %p_a, %r_x, %r_n; @%p_a bra F; "
    "V: mbarrier.try_wait.parity.shared::cta.b64 %p_w, [%r_bar], 0; @!%p_w bra V; F: THREE M: "
)


def _kernel(ahead: int, even: int = -2) -> str:
    """The rest hangs where it is further than `ahead` from the bound. even: which bits of that the loop does."""
    steps = {name: _STEP.format(label=label) for name, label in (("ONE", "A"), ("TWO", "B"), ("THREE", "C"))}
    body = _KERNEL.format(ahead=ahead, even=even)
    for name, step in steps.items():
        body = body.replace(name, step)
    return hanging(body)


def test_what_every_number_of_iterations_decides_alike_is_proven() -> None:
    report = checked(_kernel(1))
    assert report.verdict == "proven", report.reasons


@pytest.mark.parametrize(("ahead", "even"), [(0, -2), (1, -258), (1, 0x7FFFFFFE), (5, -2)])
def test_what_some_number_of_iterations_decides_otherwise_is_not(ahead: int, even: int) -> None:
    # The last two by a number of more than 31 bits, and by a sum that overflows.
    assert checked(_kernel(ahead, even)).verdict != "proven"


_REST = (
    "mov.u32 %r_b, 0; mov.u32 %r_i, 0; mov.u32 %r_j, 0; mov.pred %p_bug, 0; @%p_other bra M; "
    "setp.eq.u32 %p_a, %r_n, 0; @%p_a bra M; and.b32 %r_x, %r_n, {rest}; and.b32 %r_e, %r_n, -4; "
    "setp.lt.u32 %p_a, %r_n, 4; @%p_a bra R; "
    "L: ONE add.u32 %r_i, %r_i, 4; setp.ne.u32 %p_c, %r_i, %r_e; @%p_c bra L; setp.eq.u32 %p_a, %r_x, 0; @%p_a bra M; "
    "R: TWO add.u32 %r_j, %r_j, 1; setp.eq.u32 %p_a, %r_j, {hang}; @%p_a bra H; "
    "setp.ne.u32 %p_c, %r_j, %r_x; @%p_c bra R; bra M; "
    "H: mbarrier.try_wait.parity.shared::cta.b64 %p_w, [%r_bar], 0; @!%p_w bra H; M: "
)


def _rest(rest: int, hang: int) -> str:
    """A loop by four and one that does the rest, which hangs in one of its iterations."""
    body = _REST.format(rest=rest, hang=hang)
    return hanging(body.replace("ONE", _STEP.format(label="A")).replace("TWO", _STEP.format(label="B")))


def test_a_rest_that_two_ways_lead_to_iterates_few_times() -> None:
    report = checked(_rest(3, 4))
    assert report.verdict == "proven", report.reasons


@pytest.mark.parametrize(("rest", "hang"), [(3, 3), (7, 4), (31, 29)])
def test_a_rest_that_hangs_in_an_iteration_is_refuted(rest: int, hang: int) -> None:
    assert checked(_rest(rest, hang)).verdict == "refuted"


_AHEAD = (
    "mov.u32 %r_i, 0; mov.u32 %r_b, 0; mov.pred %p_bug, 0; @%p_other bra M; and.b32 %r_n, %r_n, 1023; "
    "setp.eq.u32 %p_a, %r_n, 0; @%p_a bra M; and.b32 %r_k, %r_n, -2; setp.lt.u32 %p_a, %r_n, 2; @%p_a bra R; "
    "L: ONE add.u32 %r_x, %r_i, 3; setp.ge.u32 %p_a, %r_x, %r_n; @%p_a bra P; INSIDE st.shared.u32 [%r_buf], %r_b; "
    "P: add.u32 %r_i, %r_i, 2; setp.ne.u32 %p_c, %r_i, %r_k; @%p_c bra L; "
    "and.b32 %r_e, %r_n, 1; setp.eq.u32 %p_a, %r_e, 0; @%p_a bra M; "
    "R: add.u32 %r_x, %r_i, 5; setp.ge.u32 %p_a, %r_x, %r_n; @%p_a bra F; bra H; F: TWO bra M; "
    "H: mbarrier.try_wait.parity.shared::cta.b64 %p_w, [%r_bar], 0; @!%p_w bra H; M: "
)


def _ahead(inside: str) -> str:
    """A loop that does more where it is far from its bound, and a rest that looks ahead in vain."""
    body = _AHEAD.replace("INSIDE", inside)
    return hanging(body.replace("ONE", _STEP.format(label="A")).replace("TWO", _STEP.format(label="B")), ("n", "m"))


def test_what_iterations_decide_before_the_last_ones_is_not_refuted() -> None:
    # It never hangs. Each number of iterations is asked for with each other decision, and not all are answered.
    report = checked(_ahead("setp.gt.u32 %p_d, %r_m, 5; @%p_d st.shared.u32 [%r_buf], %r_b;"))
    assert report.verdict != "refuted", report.reasons


@pytest.mark.parametrize(
    "inside",
    [
        "add.u32 %r_y, %r_i, %r_m; setp.eq.u32 %p_d, %r_y, 30; setp.eq.and.u32 %p_d, %r_i, 6, %p_d; @%p_d bra H;",
        "setp.lt.u32 %p_d, %r_i, %r_m; @%p_d bra P; add.u32 %r_y, %r_m, %r_n; setp.eq.u32 %p_d, %r_y, 9; @%p_d bra H;",
    ],
    ids=["in one iteration", "from an iteration on that a launch chooses"],
)
def test_what_hangs_in_a_later_iteration_is_never_proven(inside: str) -> None:
    assert checked(_ahead(inside)).verdict != "proven"
