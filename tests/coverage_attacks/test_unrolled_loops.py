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
