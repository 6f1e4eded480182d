"""Two roles of one ring whose numbers of iterations are apart by what a launch says: near each other they agree."""

from __future__ import annotations

import pytest

from tests.guarded.text import launch_json
from tests.hostile.kernel import MEET, Pair, wait

_STAGES = 3
_INITS = "".join(f"@%p_t0 mbarrier.init.shared::cta.b64 [bars+{8 * each}], 1;\n" for each in range(2 * _STAGES))


def _role(name: str, count: str, mine: int, flip: int, signals: int) -> str:
    """One thread's loop: it waits at barriers from `mine` on, and signals those from `signals` on."""
    return f"""
{name}: mov.u32 %r_i{name}, 0;
mov.u32 %r_s{name}, 0;
mov.u32 %r_p{name}, {flip};
{name}K: setp.ge.u32 %p_e{name}, %r_i{name}, {count};
@%p_e{name} bra END;
shl.b32 %r_a{name}, %r_s{name}, 3;
add.u32 %r_a{name}, %r_a{name}, %r_bars;
{wait(f"%r_a{name}+{mine}", f"%r_p{name}", name=f"W{name}")}mbarrier.arrive.shared::cta.b64 _, [%r_a{name}+{signals}];
add.u32 %r_s{name}, %r_s{name}, 1;
setp.eq.u32 %p_w{name}, %r_s{name}, {_STAGES};
selp.b32 %r_s{name}, 0, %r_s{name}, %p_w{name};
selp.b32 %r_x{name}, 1, 0, %p_w{name};
xor.b32 %r_p{name}, %r_p{name}, %r_x{name};
add.u32 %r_i{name}, %r_i{name}, 1;
bra {name}K;
"""


def _ring(fills: str, takes: str) -> str:
    begin = f"mov.u32 %r_bars, bars;\n{_INITS}{MEET}@@@%p_t0 bra FILL;\n@%p_t32 bra TAKE;\nbra END;\n"
    full, empty = 0, 8 * _STAGES
    return begin + _role("FILL", fills, empty, 1, full) + _role("TAKE", takes, full, 0, empty) + "END:\n"


_FEWER = {
    "by a quotient": "shr.u32 %r_z, %r_m, 6;\nsub.u32 %r_c, %r_n, %r_z;\n",
    "by a product": "mul.lo.u32 %r_z, %r_m, %r_m;\nshr.u32 %r_z, %r_z, 7;\nsub.u32 %r_c, %r_n, %r_z;\n",
    "by bits": "and.b32 %r_z, %r_m, 48;\nshr.u32 %r_z, %r_z, 1;\nsub.u32 %r_c, %r_n, %r_z;\n",
}
_SAME = "mov.u32 %r_c, %r_n;\n"
_NAMES = ("SOURCE", "RESULT", "n", "m")


@pytest.mark.parametrize("fewer", _FEWER.values(), ids=_FEWER)
def test_a_role_that_ends_early_by_more_than_the_ring_is_never_proven_away(fewer: str) -> None:
    pair = Pair("", _ring("%r_n", "%r_c"), fewer, _SAME, parameters=_NAMES)
    known = Pair("", pair.body, fewer, _SAME, parameters=_NAMES, launch=launch_json({"n": 90, "m": 1000}, grid=1))
    assert known.report(fewer).verdict == "refuted"
    assert pair.report(fewer).verdict != "proven"
    assert pair.report(_SAME).verdict == "proven"


def test_loops_that_have_nothing_to_do_with_each_other_are_proven() -> None:
    """Each goes round a barrier of its own, as often as a number of its own says."""
    begin = f"mov.u32 %r_bars, bars;\n{_INITS}{MEET}@@@%p_t0 bra FILL;\n@%p_t32 bra TAKE;\nbra END;\n"
    roles = _role("FILL", "%r_n", 0, 1, 0) + _role("TAKE", "%r_m", 8 * _STAGES, 1, 8 * _STAGES)
    report = Pair("", begin + roles + "END:\n", "", "", parameters=_NAMES).report("")
    assert (report.verdict, report.scope) == ("proven", "all trip counts"), report.reasons
