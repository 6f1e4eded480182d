"""Loops that leave something that only some launches, or some numbers of iterations, make of it.

One thread of a warp goes round as often as `n` says. Behind the loop, or in it, the kernel hangs where `m` is 777 and a
register holds one number: its twin asks for a number that the register never holds.
Checked by: tests/coverage_attacks/test_chosen_steps.py, test_counted_barriers.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.coverage_attacks.hanging import hanging

_LOOP = (
    "mov.u32 %r_i, 0; mov.u32 %r_b, 0; mov.u32 %r_s, 0; mov.u32 %r_y, 0; mov.u32 %r_z, 0; mov.u32 %r_x, 0; "
    "mov.u32 %r_t, 0; mov.pred %p_bug, 0; FIRST @%p_other bra M; "
    "L: END INSIDE mbarrier.arrive.shared::cta.b64 _, [%r_bar+8]; "
    "W: mbarrier.try_wait.parity.shared::cta.b64 %p_w, [%r_bar+8], %r_b; @!%p_w bra W; xor.b32 %r_b, %r_b, 1; "
    "add.u32 %r_i, %r_i, 1; bra L; K: BEHIND bra M; "
    "H: mbarrier.try_wait.parity.shared::cta.b64 %p_w, [%r_bar], 0; @!%p_w bra H; M: mov.u32 %r_y, 0; "
)
ENDS = "setp.ge.u32 %p_e, %r_i, %r_n; @%p_e bra K; "
"""The loop ends after `n` iterations."""
GATE = "setp.ne.u32 %p_g, %r_m, 777; @%p_g bra M; "
"""Nothing happens behind it but where the launch says so."""
LARGE = "setp.ge.u32 %p_a, %r_m, 100; "
"""`%p_a`: what launches with small numbers do not do."""


def looping(
    inside: str, behind: str, first: str = "", names: Sequence[str] = ("n", "m"), end: str = ENDS
) -> str:  # fmt: skip
    """A kernel of such a loop. first: what all threads do before it; end: by what an iteration begins, and may leave
    the loop."""
    parts = {"END": end, "INSIDE": inside, "BEHIND": behind, "FIRST": first}
    body = _LOOP
    for name, part in parts.items():
        body = body.replace(name, part)
    return hanging(body, names)


def held(number: int, register: str = "%r_y") -> str:
    """Behind the loop: it hangs where a register holds a number."""
    return f"{GATE}setp.eq.u32 %p_c, {register}, {number}; @%p_c bra H; "
