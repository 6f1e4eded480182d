"""A count that goes on from tile to tile, compared in the loop over a tile's steps."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging
from tests.coverage_attacks.stepping import looping
from tests.guarded.text import launch_json
from tilewright.driver.check.check import check_text
from tilewright.driver.launch.launch_file import launch_from_json

_TILES = (
    "mov.u32 %r_t, 0; mov.u32 %r_c, 0; mov.pred %p_bug, 0; @%p_other bra M; "
    "O: setp.ge.u32 %p_e, %r_t, %r_n; @%p_e bra M; mov.u32 %r_u, 0; "
    "L: setp.ge.u32 %p_f, %r_u, %r_m; @%p_f bra P; add.u32 %r_x, %r_c, %r_u; st.shared.u32 [%r_buf], %r_u; ASKS "
    "@%p_d bra H; add.u32 %r_u, %r_u, 1; bra L; P: add.u32 %r_c, %r_c, STEP; add.u32 %r_t, %r_t, 1; bra O; "
    "H: mbarrier.try_wait.parity.shared::cta.b64 %p_w, [%r_bar], 0; @!%p_w bra H; M: mov.u32 %r_y, 0; "
)
_ASKS = {
    "a bit": "and.b32 %r_z, %r_x, 512; setp.ne.u32 %p_d, %r_z, 0;",
    "equal": "setp.eq.u32 %p_d, %r_x, 777;",
    "as large": "setp.ge.u32 %p_d, %r_x, 777;",
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("step", ["%r_m", "3"])
@pytest.mark.parametrize("asks", _ASKS.values(), ids=_ASKS)
def test_a_count_over_all_tiles_is_never_proven_away(asks: str, step: str) -> None:
    text = hanging(_TILES.replace("ASKS", asks).replace("STEP", step), ("n", "m"))
    launch = launch_from_json(launch_json({"n": 400, "m": 3}, grid=1), "launch.json")
    (known,) = check_text(text, "attack.ptx", launch=launch).kernels
    assert known.verdict == "refuted"
    assert checked(text).verdict != "proven"


def test_a_loop_inside_that_compares_no_count_is_proven() -> None:
    text = hanging(_TILES.replace("ASKS", "setp.eq.u32 %p_d, %r_tid, 9;").replace("STEP", "%r_m"), ("n", "m"))
    report = checked(text)
    assert report.verdict == "proven", report.reasons


_TWO_RINGS = (
    "FIRST mov.u32 %r_u, 0; I: setp.ge.u32 %p_f, %r_u, %r_t; @%p_f bra J; add.u32 %r_s, %r_s, 1; "
    "setp.eq.u32 %p_q, %r_s, 7; selp.u32 %r_s, 0, %r_s, %p_q; add.u32 %r_u, %r_u, 1; bra I; "
    "J: SECOND mov.u32 %r_u, 0; P: setp.ge.u32 %p_f, %r_u, %r_t; @%p_f bra Q; add.u32 %r_y, %r_y, 1; "
    "setp.eq.u32 %p_q, %r_y, 5; selp.u32 %r_y, 0, %r_y, %p_q; add.u32 %r_u, %r_u, 1; bra P; "
    "Q: setp.eq.u32 %p_c, %r_s, 6; setp.eq.and.u32 %p_c, %r_y, 4, %p_c; @%p_c bra H; NEXT "
)
_OF_TILE = ("and.b32 %r_t, %r_x, 3;", "shr.u32 %r_t, %r_x, 2; and.b32 %r_t, %r_t, 3;")
_RINGS = {
    "of numbers": ("mov.u32 %r_t, %r_m;", "mov.u32 %r_t, %r_k;", "", 1),
    "of a tile that is handed over": (*_OF_TILE, "mov.u32 %r_x, %r_k;", 5),
    "of a tile that is counted on": (*_OF_TILE, "add.u32 %r_x, %r_x, 16;", 5),
}


@pytest.mark.parametrize(("first", "second", "following", "number"), _RINGS.values(), ids=_RINGS)
def test_two_rings_that_meet_late_are_never_proven_away(first: str, second: str, following: str, number: int) -> None:
    """Each ring alone comes back soon; the kernel hangs where both are at their last stages, if both are stepped."""
    inside = _TWO_RINGS.replace("FIRST", first).replace("SECOND", second).replace("NEXT", following)
    text = looping(inside, "", "mov.u32 %r_x, %r_m; ", ("n", "m", "k"))
    launch = launch_from_json(launch_json({"n": 40, "m": number, "k": number}, grid=1), "launch.json")
    (known,) = check_text(text, "attack.ptx", launch=launch).kernels
    assert known.verdict == "refuted"
    assert checked(text).verdict != "proven"
