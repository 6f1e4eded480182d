"""Bounds that a loop computes anew in each iteration, of what it does not change: they are one number all along, and
each iteration's comparison with them is a condition of its own. Others look like them, and are not. And where a gate
lets few launches come to a comparison at all, these must have iterated for long.

Each attack hangs in one iteration that a number of the launch names; its twin never does.
"""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked
from tests.coverage_attacks.stepping import looping
from tests.guarded.text import launch_json
from tilewright.driver.check.check import check_text
from tilewright.driver.launch.launch_file import launch_from_json

_ONCE_MORE = (
    "mbarrier.arrive.shared::cta.b64 _, [%r_bar+8]; "
    "V: mbarrier.try_wait.parity.shared::cta.b64 %p_w, [%r_bar+8], %r_b; @!%p_w bra V; xor.b32 %r_b, %r_b, 1; "
)
_BOUNDS = {
    "one sum": "add.u32 %r_x, %r_n, -1; ",
    "a sum of a sum": "add.u32 %r_z, %r_n, 3; add.u32 %r_x, %r_z, -4; ",
}


def _ahead(bound: str) -> str:
    """All iterations but the last take one phase more, as those that prefetch for the next one."""
    return f"{bound}setp.ge.u32 %p_a, %r_i, %r_x; @%p_a bra C; {_ONCE_MORE}C: "


@pytest.mark.parametrize("bound", _BOUNDS.values(), ids=_BOUNDS)
def test_a_bound_that_is_the_same_all_along_is_one_number(bound: str) -> None:
    report = checked(looping(_ahead(bound), ""))
    assert report.verdict == "proven", report.reasons


_HANGS = "setp.eq.u32 %p_a, %r_i, %r_x; @%p_a bra H; "
_ARRIVES = "mbarrier.arrive.shared::cta.b64 _, [%r_x+8]; bra W; "
_NAMED = {
    "a sum": f"add.u32 %r_x, %r_m, 500; {_HANGS}",
    "a sum made too late": "setp.eq.u32 %p_a, %r_i, %r_t; @%p_a bra H; add.u32 %r_t, %r_m, 500; ",
    "a sum under a guard": f"setp.gt.u32 %p_q, %r_i, 3; @%p_q add.u32 %r_x, %r_m, 500; {_HANGS}",
    "a sum in some iterations": f"setp.gt.u32 %p_q, %r_i, 3; @%p_q bra Q; add.u32 %r_x, %r_m, 500; Q: {_HANGS}",
    "a sum of what moves": f"add.u32 %r_z, %r_z, 2; sub.u32 %r_x, 5000, %r_z; {_HANGS}",
    "a sum of what another iteration left": f"add.u32 %r_x, %r_y, 500; {_HANGS}mov.u32 %r_y, %r_m; ",
    "a number": "setp.eq.u32 %p_a, %r_i, %r_m; @%p_a bra H; ",
    "a number at which another barrier is arrived at": (
        "setp.eq.u32 %p_a, %r_i, %r_m; selp.u32 %r_x, 8, 0, %p_a; sub.u32 %r_x, %r_bar, %r_x; " + _ARRIVES
    ),
    "a number at which nobody arrives": "setp.eq.u32 %p_a, %r_i, %r_m; @%p_a bra W; ",
}


@pytest.mark.parametrize("inside", _NAMED.values(), ids=_NAMED)
def test_the_iteration_that_a_bound_names_is_not_proven_away(inside: str) -> None:
    """One launch in four billion comes there, and none that is short shows it."""
    first = "mov.u32 %r_x, 100000; mov.u32 %r_t, 100000; mov.u32 %r_y, 100000; "
    gate = "setp.ne.u32 %p_g, %r_m, 777; @%p_g bra G; "
    assert checked(looping(f"{gate}{inside}G: ", "", first)).verdict != "proven"


@pytest.mark.parametrize(("n", "verdict"), [(700, "proven"), (800, "refuted")])
def test_the_launch_that_comes_there_hangs(n: int, verdict: str) -> None:
    text = looping(f"setp.ne.u32 %p_g, %r_m, 777; @%p_g bra G; {_NAMED['a number']}G: ", "")
    launch = launch_from_json(launch_json({"n": n, "m": 777}, grid=4), "launch.json")
    (report,) = check_text(text, "attack.ptx", launch=launch).kernels
    assert report.verdict == verdict


@pytest.mark.parametrize("bound", _BOUNDS.values(), ids=_BOUNDS)
def test_a_phase_that_an_iteration_lacks_is_found(bound: str) -> None:
    """It waits for the phase that only the iterations before the bound take."""
    again = _ONCE_MORE.replace("V: ", "U: ").replace("bra V", "bra U")
    lacking = again.partition("; ")[2]
    inside = f"{bound}setp.ge.u32 %p_a, %r_i, %r_x; @%p_a bra C; {_ONCE_MORE}bra D; C: {lacking}D: "
    assert checked(looping(inside, "")).verdict == "refuted"
