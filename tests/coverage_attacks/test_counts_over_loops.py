"""Counts that go on from loop to loop and say which slot of a ring is next: read modulo its stages, or not quite.

One thread arrives at a slot of three and waits for it, `n` times in each of `m` tiles. Where a count and what was done
come apart, it hangs. Launches may be long here, so that no proof fails for want of these.
"""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging
from tests.guarded.text import launch_json
from tilewright.driver.check.check import check_text
from tilewright.driver.explore.search import exploration
from tilewright.driver.launch.launch_file import launch_from_json

_TILES = (
    "mov.pred %p_bug, 0; @%p_other bra M; mbarrier.init.shared::cta.b64 [%r_bar+16], 1; "
    "fence.mbarrier_init.release.cluster; mov.u32 %r_c, 0; mov.u32 %r_t, 0; "
    "T: setp.ge.u32 %p_e, %r_t, %r_m; @%p_e bra M; setp.eq.u32 %p_z, %r_n, 0; @%p_z bra D; mov.u32 %r_k, 0; "
    "L: add.u32 %r_x, %r_c, %r_k; div.u32 %r_q, %r_x, 3; rem.u32 %r_s, %r_x, 3; and.b32 %r_p, %r_q, 1; "
    "setp.ne.u32 %p_a, %r_tid, 99; INNER mad.lo.u32 %r_a, %r_s, 8, %r_bar; "
    "@%p_a mbarrier.arrive.shared::cta.b64 _, [%r_a]; "
    "W: mbarrier.try_wait.parity.shared::cta.b64 %p_w, [%r_a], %r_p; @!%p_w bra W; "
    "add.u32 %r_k, %r_k, 1; setp.ne.u32 %p_k, %r_k, %r_n; @%p_k bra L; STEP "
    "D: BEHIND add.u32 %r_t, %r_t, 1; bra T; M: mov.u32 %r_y, 0; "
)
_STEP = "add.u32 %r_c, %r_c, %r_n; "
_WRONG_PHASE = "selp.u32 %r_y, 1, 0, %p_q; xor.b32 %r_p, %r_p, %r_y; "
_HANGING = {
    "one more at a number": (f"{_STEP}setp.eq.u32 %p_q, %r_n, 7; @%p_q add.u32 %r_c, %r_c, 1; ", "", "", 7, 2),
    "no more than a number": ("min.u32 %r_y, %r_n, 16; add.u32 %r_c, %r_c, %r_y; ", "", "", 17, 2),
    "twice for many": (f"{_STEP}setp.gt.u32 %p_q, %r_n, 16; @%p_q add.u32 %r_c, %r_c, %r_n; ", "", "", 17, 2),
    "another number": ("add.u32 %r_c, %r_c, %r_m; ", "", "", 3, 2),
    "the bound has moved": ("add.u32 %r_y, %r_n, 1; add.u32 %r_c, %r_c, %r_y; ", "", "", 3, 2),
    "a place in the count": (_STEP, f"setp.eq.u32 %p_q, %r_x, 90; {_WRONG_PHASE}", "", 31, 4),
    "beyond a place": (_STEP, f"setp.ge.u32 %p_q, %r_x, 90; {_WRONG_PHASE}", "", 31, 4),
    "a high bit of the count": (_STEP, "shr.u32 %r_y, %r_c, 6; and.b32 %r_y, %r_y, 1; xor.b32 %r_p, %r_p, %r_y; ", "",
        31, 4),
    "modulo a large number": (_STEP, f"rem.u32 %r_y, %r_x, 97; setp.eq.u32 %p_q, %r_y, 96; {_WRONG_PHASE}", "", 31, 4),
    "its square": (_STEP, "mul.lo.u32 %r_y, %r_x, %r_x; shr.u32 %r_y, %r_y, 12; and.b32 %r_y, %r_y, 1; "
        "xor.b32 %r_p, %r_p, %r_y; ", "", 31, 4),
    "one that is no arrival": (_STEP, "setp.ne.u32 %p_a, %r_c, 60; ", "", 30, 3),
    "begun anew in a tile": (_STEP, "", "setp.eq.u32 %p_q, %r_t, 40; @%p_q mov.u32 %r_c, 0; ", 1, 60),
    "begun anew after a number": (_STEP, "", "setp.eq.u32 %p_q, %r_n, 31; @%p_q mov.u32 %r_c, 0; ", 31, 2),
}  # fmt: skip


def _text(step: str, inner: str, behind: str) -> str:
    return hanging(_TILES.replace("STEP ", step).replace("INNER ", inner).replace("BEHIND ", behind), ("n", "m"))


def _enough(_: exploration.Exploration) -> int:
    return 600


@pytest.fixture(autouse=True)
def _long_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploration, "ITERATIONS_MOST", 600)
    monkeypatch.setattr(exploration.Exploration, "_enough_iterations", _enough)


@pytest.mark.sample(4)
@pytest.mark.parametrize("kernel", _HANGING.values(), ids=_HANGING)
def test_a_count_that_does_not_follow_its_loops_is_never_proven(kernel: tuple[str, str, str, int, int]) -> None:
    step, inner, behind, trips, tiles = kernel
    text = _text(step, inner, behind)
    launch = launch_from_json(launch_json({"n": trips, "m": tiles}, grid=1), "launch.json")
    (known,) = check_text(text, "attack.ptx", launch=launch).kernels
    assert known.verdict == "refuted"
    assert checked(text).verdict != "proven"


def test_a_count_that_follows_its_loops_is_proven() -> None:
    report = checked(_text(_STEP, "", ""))
    assert (report.verdict, report.scope) == ("proven", "all trip counts"), report.reasons


_AHEAD = (
    "mov.pred %p_bug, 0; @%p_other bra M; add.u32 %r_e, %r_n, -2; MOST mov.u32 %r_t, 0; "
    "T: setp.ge.u32 %p_e, %r_t, %r_m; @%p_e bra M; mbarrier.init.shared::cta.b64 [%r_bar+16], 1; "
    "mbarrier.init.shared::cta.b64 [%r_bar+24], 1; setp.gt.s32 %p_u, %r_n, 0; setp.gt.s32 %p_v, %r_n, 1; "
    "@%p_u mbarrier.arrive.shared::cta.b64 _, [%r_bar+16]; @%p_v mbarrier.arrive.shared::cta.b64 _, [%r_bar+24]; "
    "setp.lt.s32 %p_z, %r_n, 1; @%p_z bra D; mov.u32 %r_k, 0; "
    "L: and.b32 %r_s, %r_k, 1; shr.u32 %r_q, %r_k, 1; and.b32 %r_p, %r_q, 1; mad.lo.u32 %r_a, %r_s, 8, %r_bar; "
    "W: mbarrier.try_wait.parity.shared::cta.b64 %p_w, [%r_a+16], %r_p; @!%p_w bra W; "
    "setp.lt.s32 %p_a, %r_k, %r_e; ASKS @%p_a mbarrier.arrive.shared::cta.b64 _, [%r_a+16]; "
    "add.u32 %r_k, %r_k, 1; setp.ne.u32 %p_k, %r_k, %r_n; @%p_k bra L; "
    "D: mbarrier.inval.shared::cta.b64 [%r_bar+16]; mbarrier.inval.shared::cta.b64 [%r_bar+24]; "
    "add.u32 %r_t, %r_t, 1; bra T; M: mov.u32 %r_y, 0; "
)
_NOT_AHEAD = {
    "no more than a number": ("min.s32 %r_e, %r_e, 100; ", "", {"n": 103, "m": 1, "o": 1}),
    "but for a number": ("", "setp.ne.u32 %p_q, %r_n, 70; and.pred %p_a, %p_a, %p_q; ", {"n": 70, "m": 1, "o": 1}),
    "where a flag says so": ("", "setp.ne.u32 %p_q, %r_o, 5; and.pred %p_a, %p_a, %p_q; ", {"n": 3, "m": 1, "o": 5}),
}


def _ahead(most: str, asks: str) -> str:
    return hanging(_AHEAD.replace("MOST ", most).replace("ASKS ", asks), ("n", "m", "o"))


@pytest.mark.sample(1)
@pytest.mark.parametrize(("most", "asks", "numbers"), _NOT_AHEAD.values(), ids=_NOT_AHEAD)
def test_slots_that_are_not_always_filled_ahead_are_never_proven(most: str, asks: str, numbers: dict[str, int]) -> None:
    launch = launch_from_json(launch_json(numbers, grid=1), "launch.json")
    (known,) = check_text(_ahead(most, asks), "attack.ptx", launch=launch).kernels
    assert known.verdict == "refuted"
    assert checked(_ahead(most, asks)).verdict != "proven"


def test_slots_that_are_filled_ahead_are_proven() -> None:
    report = checked(_ahead("", ""))
    assert report.verdict == "proven", report.reasons
