"""A step of a counter that each iteration reads anew, as compilers do that read the grid's size where it is used."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging

_LOOP = (
    "mov.u32 %r_b, 0; mov.pred %p_bug, 0; @%p_other bra M; mov.u32 %r_x, 1; mov.u32 %r_i, %ctaid.x; "
    "setp.ge.u32 %p_a, %r_i, %r_n; @%p_a bra M; L: mbarrier.arrive.shared::cta.b64 _, [%r_bar+8]; "
    "W: mbarrier.try_wait.parity.shared::cta.b64 %p_w, [%r_bar+8], %r_b; @!%p_w bra W; xor.b32 %r_b, %r_b, 1; "
    "STEP setp.lt.u32 %p_c, %r_i, %r_n; @%p_c bra L; M: "
)
_READ = "mov.u32 %r_x, %nctaid.x; add.u32 %r_i, %r_i, %r_x; "


def _kernel(step: str) -> str:
    declared = ".param .align 4 .b8 held[4]; " if "held" in step else ""
    return hanging(declared + _LOOP.replace("STEP", step), ("n", "m"))


def test_a_step_of_the_grids_size_is_proven() -> None:
    report = checked(_kernel(_READ))
    assert report.verdict == "proven", report.reasons


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "step",
    [
        # What is compared with a number beside the bound.
        f"{_READ}setp.eq.u32 %p_bug, %r_i, 10777; @%p_bug bra M; ",
        f"{_READ}and.b32 %r_y, %r_i, 1023; setp.eq.u32 %p_bug, %r_y, 777; @%p_bug bra M; ",
        # A step that is another one in some iterations.
        "add.u32 %r_i, %r_i, %r_x; mov.u32 %r_x, %nctaid.x; and.b32 %r_y, %r_i, 511; setp.eq.u32 %p_bug, %r_y, 500; "
        "@%p_bug bra M; ",
        "setp.gt.u32 %p_a, %r_i, 900; @%p_a bra C; mov.u32 %r_x, %nctaid.x; C: add.u32 %r_i, %r_i, %r_x; "
        "setp.eq.u32 %p_bug, %r_i, 1777; @%p_bug bra M; ",
        "mov.u32 %r_x, %clock; add.u32 %r_i, %r_i, %r_x; setp.eq.u32 %p_bug, %r_i, 1777; @%p_bug bra M; ",
        # What a variable in parameter space holds need not be what the launch gave.
        "st.param.u32 [held], %r_i; ld.param.u32 %r_x, [held]; add.u32 %r_i, %r_i, %r_x; add.u32 %r_i, %r_i, 1; "
        "setp.eq.u32 %p_bug, %r_i, 4095; @%p_bug bra M; ",
        "shl.b32 %r_x, %r_x, 1; add.u32 %r_i, %r_i, %r_x; setp.eq.u32 %p_bug, %r_x, 16384; @%p_bug bra M; ",
    ],
)
def test_what_some_iteration_decides_otherwise_is_not(step: str) -> None:
    assert checked(_kernel(step)).verdict != "proven"
