"""Barriers at which a loop arrives where a launch says so: what they have counted differs from launch to launch."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked
from tests.coverage_attacks.stepping import GATE, LARGE, looping
from tests.guarded.text import launch_json
from tilewright.driver.check.check import check_text
from tilewright.driver.launch.launch_file import launch_from_json

_INIT = "@!%p_other mbarrier.init.shared::cta.b64 [%r_bar+16], {}; "
_ARRIVE = "@%p_a mbarrier.arrive.shared::cta.b64 _, [%r_bar+16]; "
_WAIT = "V: mbarrier.try_wait.parity.shared::cta.b64 %p_v, [%r_bar+16], 1; @!%p_v bra V; "
_KERNELS = {
    "a phase of many arrivals": (LARGE + _ARRIVE, 300),
    "a phase of few arrivals": (LARGE + _ARRIVE, 3),
    "arrivals that drop": (f"{LARGE}@%p_a mbarrier.arrive_drop.shared::cta.b64 _, [%r_bar+16]; ", 300),
    "arrivals that announce": (f"{LARGE}@%p_a mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r_bar+16], 0; ", 300),
}


@pytest.mark.parametrize(("inside", "count"), _KERNELS.values(), ids=_KERNELS)
def test_a_phase_that_ends_in_some_launches_is_never_proven_away(inside: str, count: int) -> None:
    assert checked(looping(inside, GATE + _WAIT, _INIT.format(count))).verdict != "proven"


def test_an_arrival_in_an_iteration_that_a_launch_chooses() -> None:
    behind = f"setp.ne.u32 %p_g, %r_k, 55; @%p_g bra M; {_WAIT}"
    text = looping(f"setp.eq.u32 %p_a, %r_i, %r_m; {_ARRIVE}", behind, _INIT.format(1), ("n", "m", "k"))
    assert checked(text).verdict != "proven"


_AT_CHOICE = "U: mbarrier.try_wait.parity.shared::cta.b64 %p_v, [%r_bar+16], 1; @!%p_v bra U; "
_PARTS = {
    "in an iteration": ("setp.ne.u32 %p_g, %r_i, %r_k; ", 3),
    "before the end by a number": ("sub.u32 %r_x, %r_n, %r_i; setp.ne.u32 %p_g, %r_x, %r_k; ", 3),
    "where the iteration has bits of a number": ("and.b32 %r_x, %r_i, %r_k; setp.ne.u32 %p_g, %r_x, 4; ", 55),
}


@pytest.mark.parametrize(("asks", "number"), _PARTS.values(), ids=_PARTS)
def test_a_wait_in_an_iteration_that_a_launch_chooses_sees_any_phase(asks: str, number: int) -> None:
    """Another number says whether the loop arrives: in the phase that this leaves behind, the wait hangs."""
    arrives = "and.b32 %r_x, %r_m, 8; setp.ne.u32 %p_a, %r_x, 0; and.b32 %r_y, %r_i, 1; " + (
        "setp.eq.and.u32 %p_a, %r_y, 0, %p_a; " + _ARRIVE
    )
    text = looping(f"{arrives}{asks}@%p_g bra N; {_AT_CHOICE}N: ", "", _INIT.format(2), ("n", "m", "k"))
    launch = launch_from_json(launch_json({"n": 6, "m": 8, "k": number}, grid=2), "launch.json")
    (known,) = check_text(text, "attack.ptx", launch=launch).kernels
    assert known.verdict == "refuted"
    assert checked(text).verdict != "proven"


_COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r_bar+16]; "
_COPIED = "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r_bar+16]; "
_LATER = "V: mbarrier.try_wait.parity.shared::cta.b64 %p_v, [%r_bar+16], {}; @!%p_v bra V; "


@pytest.mark.parametrize("arrives", [_COMMIT, _COPIED], ids=["commits", "cp.async"])
@pytest.mark.parametrize("parity", [0, 1])
def test_arrivals_of_engines_that_nobody_waits_for_end_a_phase_at_last(arrives: str, parity: int) -> None:
    text = looping(arrives, _LATER.format(parity), _INIT.format(300)).replace(".target sm_90a", ".target sm_100a")
    assert checked(text).verdict != "proven"


_DECIDED = {
    "commits under a number": f"{LARGE}@%p_a {_COMMIT}",
    "cp.async under a number": f"{LARGE}@%p_a {_COPIED}",
    "commits in an iteration": f"setp.eq.u32 %p_a, %r_i, %r_m; @%p_a {_COMMIT}",
    "commits at one of two barriers": f"{LARGE}selp.u32 %r_x, 16, 24, %p_a; add.u32 %r_x, %r_x, %r_bar; "
    + _COMMIT.replace("%r_bar+16", "%r_x"),
    "as many as a number says": f"{LARGE}selp.u32 %r_x, 2, 1, %p_a; "
    "mbarrier.arrive.shared::cta.b64 _, [%r_bar+16], %r_x; ",
}


@pytest.mark.sample(5)
@pytest.mark.parametrize("inside", _DECIDED.values(), ids=_DECIDED)
@pytest.mark.parametrize("count", [3, 300])
def test_counts_of_engines_that_a_launch_decides_are_never_proven_away(inside: str, count: int) -> None:
    first = _INIT.format(count) + _INIT.format(count).replace("+16", "+24")
    text = looping(inside, GATE + _WAIT, first).replace(".target sm_90a", ".target sm_100a")
    assert checked(text).verdict != "proven"
