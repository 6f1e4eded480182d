"""Two roles of a ring whose numbers of iterations agree as long as numbers are small, and no bound says so plainly.

One loop that both warps run with bounds of their own; comparisons of which both sides, or the step, depend on inputs;
bounds of later visits; a role that does nothing where that does no harm yet.
"""

from __future__ import annotations

import pytest

from tests.hostile.kernel import MEET, Pair, wait

_INIT = (
    "".join(f"@%p_t0 mbarrier.init.shared::cta.b64 [bars+{8 * slot}], 1;\n" for slot in range(6))
    + "@%p_t0 fence.mbarrier_init.release.cluster;\n"
    + MEET
    + "mov.u32 %r_it, 0;\nmov.u32 %r_i, 0;\nmov.u32 %r_t, 0;\n"
)
_PLACE = """rem.u32 %r_slot, %r_it, 3;
div.u32 %r_round, %r_it, 3;
and.b32 %r_phase, %r_round, 1;
shl.b32 %r_offset, %r_slot, 3;
mov.u32 %r_bars, bars;
add.u32 %r_full, %r_bars, %r_offset;
add.u32 %r_empty, %r_full, 24;
"""
_PRODUCE = (
    _PLACE + "xor.b32 %r_other, %r_phase, 1;\n" + wait("%r_empty", "%r_other", name="P")
    + "mbarrier.arrive.shared::cta.b64 _, [%r_full];\n"
)  # fmt: skip
_CONSUME = (
    _PLACE + wait("%r_full", "%r_phase", name="C")
    + "bar.warp.sync -1;\n@%p_t0 mbarrier.arrive.shared::cta.b64 _, [%r_empty];\n"
)  # fmt: skip
_NEXT = "add.u32 %r_it, %r_it, 1;\n"
_ONE_LOOP = (
    _INIT + "@@setp.ge.u32 %p_one, %r_tid, 33;\n@%p_one bra END;\nL: setp.ge.u32 %p_e, %r_it, %r_c;\n@%p_e bra END;\n"
    + "@%p_w0 bra CONSUME;\n" + _PRODUCE + "bra NEXT;\nCONSUME:\n" + _CONSUME + "NEXT:\n" + _NEXT + "bra L;\nEND:\n"
)  # fmt: skip


def _roles(first: str, produces: str, consumes: str, step: str, other_step: str) -> str:
    """A producer and a consumer that go on until their comparison makes `%p_e`."""
    return (
        _INIT + first + "@%p_w0 bra CONSUMER;\n@!%p_t32 bra END;\nL: " + produces + "@%p_e bra END;\n" + _PRODUCE + step
        + _NEXT + "bra L;\nCONSUMER: " + consumes + "@%p_e bra END;\n" + _CONSUME + other_step + _NEXT
        + "bra CONSUMER;\nEND:\n"
    )  # fmt: skip


_ALL = "setp.ge.u32 %p_e, %r_it, %r_n;\n"
_OWN = "setp.ge.u32 %p_e, %r_it, %r_c;\n"
_PLAIN = "mov.b32 %r_c, %r_n;\n"
_TWO_SIDED = _roles(
    "sub.u32 %r_c, %r_n, %r_m;\nsetp.lt.u32 %p_lt, %r_n, %r_m;\nselp.b32 %r_c, 0, %r_c, %p_lt;\n"
    "@@mov.b32 %r_i, %r_m;\n",
    "setp.ge.u32 %p_e, %r_i, %r_n;\n", _OWN, "add.u32 %r_i, %r_i, 1;\n", "",
)  # fmt: skip
_STEPPED = _roles(
    "max.u32 %r_m, %r_m, 1;\n@@", "setp.ge.u32 %p_e, %r_i, %r_n;\n", "setp.ge.u32 %p_e, %r_i, %r_n;\n",
    "add.u32 %r_i, %r_i, %r_m;\n", "add.u32 %r_i, %r_i, %r_c;\n",
)  # fmt: skip
_IDLE = _roles("@@", _ALL, _OWN, "", "")
_PASSED = (
    _roles("@@" + _PLAIN, _ALL, _OWN, "", "")
    .replace("bra CONSUMER;\n@!", "bra GUARD;\n@!")
    .replace("CONSUMER: ", "GUARD: @%p_a bra END;\nCONSUMER: ")
)
_TILES = (
    _INIT + "@%p_w0 bra TAKEN;\n@!%p_t32 bra END;\nTILE: setp.ge.u32 %p_e, %r_t, %r_m;\n@%p_e bra END;\n"
    "mov.u32 %r_i, 0;\nL: setp.ge.u32 %p_e, %r_i, %r_n;\n@%p_e bra MADE;\n" + _PRODUCE + "add.u32 %r_i, %r_i, 1;\n"
    + _NEXT + "bra L;\nMADE: add.u32 %r_t, %r_t, 1;\nbra TILE;\nTAKEN: setp.ge.u32 %p_e, %r_t, %r_m;\n@%p_e bra END;\n"
    "mov.u32 %r_i, 0;\n@@CONSUMER: setp.ge.u32 %p_e, %r_i, %r_c;\n@%p_e bra DONE;\n" + _CONSUME
    + "add.u32 %r_i, %r_i, 1;\n" + _NEXT + "bra CONSUMER;\nDONE: add.u32 %r_t, %r_t, 1;\nbra TAKEN;\nEND:\n"
)  # fmt: skip
_LATER = "min.u32 %r_c, %r_n, 4096;\nsetp.eq.u32 %p_z, %r_t, 0;\nselp.b32 %r_c, %r_n, %r_c, %p_z;\n"
_FAR = "setp.gt.u32 %p_a, %r_n, 5000;\nsetp.{} %p_b, %r_n, {};\nor.pred %p_a, %p_a, %p_b;\n"
_NONE = "selp.b32 %r_c, 0, %r_n, %p_a;\n"


def _pair(name: str, body: str, buggy: str, fixed: str) -> Pair:
    return Pair(name, body, buggy, fixed, parameters=("n", "m"))


PAIRS = (
    _pair("one loop", _ONE_LOOP, "min.u32 %r_c, %r_n, 4096;\nselp.b32 %r_c, %r_c, %r_n, %p_w0;\n", _PLAIN),
    _pair("both sides of a comparison", _TWO_SIDED, "min.u32 %r_c, %r_c, 4096;\n", ""),
    _pair("the step", _STEPPED, "min.u32 %r_c, %r_m, 4096;\n", "mov.b32 %r_c, %r_m;\n"),
    _pair("later visits", _TILES, _LATER, _PLAIN),
    _pair("no iteration at 3", _IDLE, _FAR.format("eq.u32", 3) + _NONE, _PLAIN),
    _pair("no iteration below 4", _IDLE, _FAR.format("lt.u32", 4) + _NONE, _PLAIN),
    _pair("passed by at 3", _PASSED, _FAR.format("eq.u32", 3), "setp.eq.u32 %p_a, %r_n, 0;\n"),
)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_roles_that_part_at_large_numbers_are_not_proven(pair: Pair) -> None:
    assert pair.report(pair.buggy).verdict != "proven"


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_roles_that_go_together_are_proven(pair: Pair) -> None:
    assert pair.report(pair.fixed).verdict == "proven"
