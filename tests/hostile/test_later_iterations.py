"""Loops that decide in some iteration, which inputs name, whether to arrive or to leave, while others go on."""

from __future__ import annotations

import pytest

from tests.hostile.kernel import MEET, Pair, wait

_BEGIN = (
    "@%p_t0 mbarrier.init.shared::cta.b64 [bars], 1;\n@%p_t0 mbarrier.init.shared::cta.b64 [bars+8], 1;\n"
    + MEET + "@%p_t0 bra FILL;\n@%p_t32 bra TAKE;\nbra END;\n"
)  # fmt: skip
_FILL = f"""
FILL: mov.u32 %r_i, 0;
mov.u32 %r_phase, 1;
FILLING: setp.ge.u32 %p_filled, %r_i, %r_count;
@%p_filled bra END;
{wait("bars+8", "%r_phase", name="F")}
mbarrier.arrive.shared::cta.b64 _, [bars];
xor.b32 %r_phase, %r_phase, 1;
add.u32 %r_i, %r_i, 1;
bra FILLING;
"""
_TAKE = f"""
TAKE: mov.u32 %r_j, 0;
mov.u32 %r_turn, 0;
TAKING: setp.ge.u32 %p_taken, %r_j, %r_count;
@%p_taken bra END;
{wait("bars", "%r_turn", name="T")}
@@mbarrier.arrive.shared::cta.b64 _, [bars+8];
xor.b32 %r_turn, %r_turn, 1;
add.u32 %r_j, %r_j, 1;
bra TAKING;
END:
"""
_RING = _BEGIN + _FILL + _TAKE
_AT = "mul.lo.u32 %r_at, %r_j, 3;\nsetp.eq.u32 %p_at, %r_at, %r_where;\n"
_NAMES = ("SOURCE", "RESULT", "count", "where")
PAIRS = (
    Pair("an arrival is left out", _RING, _AT + "@!%p_at ", "", parameters=_NAMES),
    Pair("one role leaves", _RING, _AT + "@%p_at bra END;\n", "", parameters=_NAMES),
)
_ONCE = f"""
@%p_t0 mbarrier.init.shared::cta.b64 [bars], 64;
@%p_t0 mbarrier.init.shared::cta.b64 [bars+8], 1;
{MEET}mov.u32 %r_i, 0;
mov.u32 %r_phase, 0;
setp.eq.u32 %p_none, %r_count, 0;
@%p_none bra END;
AGAIN: mbarrier.arrive.shared::cta.b64 _, [bars];
{wait("bars", "%r_phase")}
xor.b32 %r_phase, %r_phase, 1;
add.u32 %r_i, %r_i, 1;
setp.lt.u32 %p_more, %r_i, %r_count;
@%p_more bra AGAIN;
setp.@@
@!%p_hangs bra END;
{wait("bars+8", "0", name="V")}
END:
"""


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_what_a_later_iteration_decides_is_seen_with_others_to_come(pair: Pair) -> None:
    assert pair.verdicts() == ("refuted", "proven")


def test_one_iteration_of_a_rotated_loop_is_not_none() -> None:
    """A kernel that fails after exactly one iteration was proven "if the loop iterates at least once"."""
    pair = Pair("once", _ONCE, "eq.u32 %p_hangs, %r_count, 1;", "gt.u32 %p_hangs, %r_tid, 64;", parameters=_NAMES)
    assert pair.verdicts() == ("refuted", "proven")
