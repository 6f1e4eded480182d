"""Loops that hang in an iteration that no launch comes to: what counts them wraps, is cut, or is looked at amiss."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging

_LOOP = (
    "mov.u32 %r_i, 0; mov.u32 %r_b, 0; mov.u32 %r_x, 0; mov.pred %p_bug, 0; @%p_other bra M; BEFORE "
    "L: setp.ge.u32 %p_e, %r_i, %r_n; @%p_e bra M; mbarrier.arrive.shared::cta.b64 _, [%r_bar+8]; "
    "W: mbarrier.try_wait.parity.shared::cta.b64 %p_w, [%r_bar+8], %r_b; @!%p_w bra W; xor.b32 %r_b, %r_b, 1; "
    "REST add.u32 %r_i, %r_i, 1; bra L; H: mov.pred %p_bug, 1; M: mov.u32 %r_y, 0;"
)


def _loop(rest: str, before: str = "", names: tuple[str, ...] = ("n",)) -> str:
    """A loop that one thread goes round as often as `n` says. rest: what else it does; H: where it hangs."""
    return hanging(_LOOP.replace("REST", rest).replace("BEFORE", before), names)


_COUNTS_ON = "mbarrier.init.shared::cta.b64 [%r_bar+16], 100; fence.mbarrier_init.release.cluster;"
_PHASE_OF_HUNDRED = (
    "mbarrier.arrive.shared::cta.b64 _, [%r_bar+16]; "
    "V: mbarrier.try_wait.parity.shared::cta.b64 %p_v, [%r_bar+16], 1; @!%p_v bra V; "
)
_BUGGY = {
    "low byte": "cvt.u32.u8 %r_x, %r_i; setp.ne.u32 %p_a, %r_x, %r_i; @%p_a bra H; ",
    "low half": "cvt.u32.u16 %r_x, %r_i; setp.ne.u32 %p_a, %r_x, %r_i; @%p_a bra H; ",
    "sign of a byte": "cvt.s32.s8 %r_x, %r_i; setp.lt.s32 %p_a, %r_x, 0; @%p_a bra H; ",
    "shifted out": "shl.b32 %r_x, %r_i, 24; shr.u32 %r_y, %r_x, 24; setp.ne.u32 %p_a, %r_y, %r_i; @%p_a bra H; ",
    "shifted out of 64 bits": (
        "cvt.u64.u32 %rd_i, %r_i; shl.b64 %rd_x, %rd_i, 56; shr.u64 %rd_x, %rd_x, 56; setp.ne.u64 %p_a, %rd_x, %rd_i; "
        "@%p_a bra H; "
    ),
    "halves": "mov.b32 {%rs_l, %rs_h}, %r_i; cvt.u32.u16 %r_x, %rs_l; setp.ne.u32 %p_a, %r_x, %r_i; @%p_a bra H; ",
    "short product": (
        "cvt.u16.u32 %rs_l, %r_i; mul.wide.u16 %r_x, %rs_l, 1; setp.ne.u32 %p_a, %r_x, %r_i; @%p_a bra H; "
    ),
    "overflow by a bias": "add.u32 %r_x, %r_i, 0x7FFFFF00; setp.lt.s32 %p_a, %r_x, 0; @%p_a bra H; ",
    "sign of a bias": (
        "add.u32 %r_x, %r_i, 0x7FFFFF00; shr.u32 %r_y, %r_x, 31; setp.ne.u32 %p_a, %r_y, 0; @%p_a bra H; "
    ),
    "predicate of two comparisons": (
        "setp.eq.u32 %p_a, %r_i, 1000; @%p_a bra H; setp.eq.u32 %p_a, %r_b, 0; @%p_a st.shared.u32 [%r_buf], %r_i; "
    ),
    "register of two counters": (
        "mov.u32 %r_x, %r_i; setp.ge.u32 %p_a, %r_x, 5000; @%p_a bra H; add.u32 %r_x, %r_i, 100000; "
    ),
    "counter on one way": (
        "setp.eq.u32 %p_a, %r_b, 0; @%p_a bra E; mov.u32 %r_x, %r_i; bra F; E: mov.u32 %r_x, 0; "
        "F: setp.gt.u32 %p_c, %r_x, 1000; @%p_c bra H; mov.u32 %r_x, 0; "
    ),
    "inner loop up to a counter": (
        "mov.u32 %r_x, 0; N: setp.ge.u32 %p_a, %r_x, %r_i; @%p_a bra O; add.u32 %r_x, %r_x, 1; "
        "setp.eq.u32 %p_c, %r_x, 3000; @%p_c bra H; bra N; O: mov.u32 %r_x, 0; "
    ),
    "threshold of a stage": (
        "and.b32 %r_x, %r_i, 3; mul.lo.u32 %r_y, %r_x, 1000; setp.gt.u32 %p_a, %r_i, %r_y; "
        "setp.eq.and.u32 %p_c, %r_x, 3, %p_a; @%p_c bra H; "
    ),
    "a bit that is set at last": "or.b32 %r_x, %r_i, 1024; setp.eq.u32 %p_a, %r_x, %r_i; @%p_a bra H; ",
    "a multiple that overflows": (
        "mul.lo.u32 %r_x, %r_i, 65536; shr.u32 %r_y, %r_x, 16; setp.ne.u32 %p_a, %r_y, %r_i; @%p_a bra H; "
    ),
    "at the end of loops of one length": (
        "add.u32 %r_x, %r_i, 5; setp.lt.u32 %p_a, %r_x, %r_n; @%p_a bra F; setp.eq.u32 %p_c, %r_i, 40; @%p_c bra H; "
        "F: mov.u32 %r_y, 0; "
    ),
    "where the longest run ended": "setp.eq.u32 %p_a, %r_i, 64; @%p_a bra H; ",
}


_QUICK = frozenset(
    {"shifted out", "predicate of two comparisons", "counter on one way", "threshold of a stage", "the last but one"}
)


def _of(kernels: dict[str, str]) -> list[object]:
    """The rest is quick to ask of `objections` itself."""
    return [
        pytest.param(rest, id=name, marks=() if name in _QUICK else pytest.mark.full) for name, rest in kernels.items()
    ]


@pytest.mark.sample(2)
@pytest.mark.parametrize("rest", _of(_BUGGY))
def test_a_hang_in_a_later_iteration_is_never_proven(rest: str) -> None:
    assert checked(_loop(rest)).verdict != "proven"


def test_a_barrier_that_counts_on_is_never_proven() -> None:
    # Phase 0 ends with the hundredth arrival: then parity 1 names a phase that does not.
    assert checked(_loop(_PHASE_OF_HUNDRED, _COUNTS_ON)).verdict != "proven"


_EXITS = {
    "alone": "setp.ge.u32 %p_a, %r_i, %r_x; @%p_a bra H; ",
    "with the other": "setp.ge.u32 %p_a, %r_i, %r_x; or.pred %p_c, %p_a, %p_e; @%p_c bra K; ",
}


@pytest.mark.full
@pytest.mark.parametrize("rest", _EXITS.values(), ids=_EXITS)
def test_a_way_out_that_no_launch_takes_is_never_proven(rest: str) -> None:
    body = _LOOP.replace("REST", rest).replace("BEFORE", "and.b32 %r_x, %r_m, 1; add.u32 %r_x, %r_x, 1000; ")
    body = body.replace("H: mov", "K: @%p_a bra H; bra M; H: mov") if "bra K" in rest else body
    assert checked(hanging(body, ("n", "m"))).verdict != "proven"


_FIXED = {
    "low byte": "cvt.u32.u8 %r_x, %r_i; ",
    "a bias": "add.u32 %r_x, %r_i, 0x100; setp.lt.s32 %p_a, %r_x, 0; @%p_a bra H; ",
    "predicate of two comparisons": (
        "setp.eq.u32 %p_a, %r_b, 7; @%p_a bra H; setp.eq.u32 %p_a, %r_b, 0; @%p_a st.shared.u32 [%r_buf], %r_i; "
    ),
    "a register that is written twice": "add.u32 %r_x, %r_i, 7; and.b32 %r_x, %r_x, 1; setp.eq.u32 %p_a, %r_x, 2; ",
    "a bit below a multiple": (
        "shl.b32 %r_x, %r_i, 3; or.b32 %r_c, %r_x, 5; shr.s32 %r_y, %r_c, 31; and.b32 %r_d, %r_c, 3; "
        "add.u32 %r_e, %r_d, %r_y; setp.ne.u32 %p_a, %r_e, 1; @%p_a bra H; "
    ),
    "the last but one": (
        "add.u32 %r_x, %r_i, 1; setp.ge.u32 %p_a, %r_x, %r_n; @%p_a bra F; st.shared.u32 [%r_buf], %r_b; "
        "F: mov.u32 %r_y, 0; "
    ),
    "at the end of all loops": (
        "add.u32 %r_x, %r_i, 5; setp.lt.u32 %p_a, %r_x, %r_n; @%p_a bra F; setp.eq.u32 %p_c, %r_b, 40; @%p_c bra H; "
        "F: mov.u32 %r_y, 0; "
    ),
    "left behind": "setp.gt.u32 %p_a, %r_i, 9; setp.eq.and.u32 %p_c, %r_b, 2, %p_a; @%p_c bra H; ",
}


@pytest.mark.parametrize("rest", _of(_FIXED))
def test_a_twin_is_proven(rest: str) -> None:
    report = checked(_loop(rest))
    assert report.verdict == "proven", report.reasons
