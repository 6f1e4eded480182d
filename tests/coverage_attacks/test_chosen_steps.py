"""Counters of which a launch chooses the steps, and what else it leaves behind a loop in no small number of iterations.

Each kernel hangs at numbers that no run is long enough for; its twin never does.
"""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked
from tests.coverage_attacks.stepping import GATE, LARGE, held, looping
from tests.guarded.text import launch_json
from tilewright.driver.check.check import check_text
from tilewright.driver.launch.launch_file import launch_from_json

_SHARED = "@!%p_other st.shared.u32 [%r_buf], 0; "
_TWO = f"{LARGE}@%p_a add.u32 %r_y, %r_y, 2; "
_STEPS = {
    "under a branch": (
        "setp.lt.u32 %p_a, %r_m, 100; @%p_a bra C; add.u32 %r_y, %r_y, 2; C: ", "", "", 604, 605, 302
    ),
    "under a predicate": (_TWO, "", "", 604, 605, 302),
    "by a selected number": (
        f"{LARGE}selp.u32 %r_x, 2, 0, %p_a; add.u32 %r_y, %r_y, %r_x; ", "", "", 604, 605, 302
    ),
    "selected": (f"{LARGE}add.u32 %r_x, %r_y, 2; selp.u32 %r_y, %r_x, %r_y, %p_a; ", "", "", 604, 605, 302),
    "up to a number": ("add.u32 %r_x, %r_y, 1; min.u32 %r_y, %r_x, %r_m; ", "", "", 300, 778, 300),
    "up to a small constant": ("add.u32 %r_x, %r_y, 1; min.u32 %r_y, %r_x, 40; ", "", "", 40, 41, 300),
    "by a number": ("add.u32 %r_y, %r_y, %r_m; ", "", "", 777 * 200, 777 * 200 + 1, 200),
    "by a part of a number": ("shr.u32 %r_x, %r_m, 8; add.u32 %r_y, %r_y, %r_x; ", "", "", 900, 901, 300),
    "and reset": (
        f"setp.eq.u32 %p_q, %r_i, 3; selp.u32 %r_y, 0, %r_y, %p_q; {_TWO}", "", "", 604, 605, 305
    ),
    "and swapped": (f"{_TWO}mov.u32 %r_x, %r_y; mov.u32 %r_y, %r_z; mov.u32 %r_z, %r_x; ", "", "", 604, 605, 604),
    "multiplied by a number": (
        "mul.lo.u32 %r_y, %r_y, %r_m; ", "", "mov.u32 %r_y, 1; ", pow(777, 50, 1 << 32), 2, 50
    ),
    "of 64 bits": (
        f"{LARGE}@%p_a add.u64 %rd_y, %rd_y, 2; ", "cvt.u32.u64 %r_y, %rd_y; ", "mov.u64 %rd_y, 0; ", 604, 605, 302
    ),
    "in shared memory": (
        f"{LARGE}ld.shared.u32 %r_x, [%r_buf]; @%p_a add.u32 %r_x, %r_x, 2; st.shared.u32 [%r_buf], %r_x; ",
        "ld.shared.u32 %r_y, [%r_buf]; ", _SHARED, 604, 605, 302,
    ),
    "in local memory": (
        f"{LARGE}ld.local.u32 %r_x, [frame]; @%p_a add.u32 %r_x, %r_x, 2; st.local.u32 [frame], %r_x; ",
        "ld.local.u32 %r_y, [frame]; ", "st.local.u32 [frame], 0; ", 604, 605, 302,
    ),
    "by a reduction": (
        f"{LARGE}selp.u32 %r_x, 2, 0, %p_a; red.shared.add.u32 [%r_buf], %r_x; ", "ld.shared.u32 %r_y, [%r_buf]; ",
        _SHARED, 604, 605, 302,
    ),
    "by a constant reduction": (
        "red.shared.add.u32 [%r_buf], 2; ", "ld.shared.u32 %r_y, [%r_buf]; ", _SHARED, 604, 605, 302
    ),
    "through bits": (
        f"{LARGE}@%p_a add.u32 %r_z, %r_z, 2; lop3.b32 %r_y, %r_z, 0, 0, 0xF0; ", "", "", 604, 605, 302
    ),
    "of two registers": (f"{LARGE}selp.u32 %r_x, 2, 0, %p_a; add.u32 %r_z, %r_y, %r_x; mov.u32 %r_y, %r_z; ", "", "",
        604, 605, 302),
    "of which an iteration leaves a number": (
        "setp.eq.u32 %p_a, %r_i, %r_m; selp.u32 %r_y, 604, 3, %p_a; ", "", "", 604, 605, 778
    ),
    "of which the last but one leaves a number": (
        "mov.u32 %r_z, %r_x; setp.eq.u32 %p_a, %r_i, %r_m; selp.u32 %r_x, 604, 3, %p_a; mov.u32 %r_y, %r_z; ", "", "",
        604, 605, 779,
    ),
    "of which an iteration stores a number": (
        "setp.eq.u32 %p_a, %r_i, %r_m; selp.u32 %r_x, 604, 3, %p_a; st.shared.u32 [%r_buf], %r_x; ",
        "ld.shared.u32 %r_y, [%r_buf]; ", _SHARED, 604, 605, 778,
    ),
}  # fmt: skip
_QUICK = frozenset({"by a selected number", "by a number", "in shared memory", "of which an iteration leaves a number"})


def _kernels() -> list[object]:
    return [
        pytest.param(*parts, id=name, marks=() if name in _QUICK else pytest.mark.full)
        for name, parts in _STEPS.items()
    ]


def _launched(text: str, n: int) -> str:
    """The verdict of the launch in which the bug shows."""
    launch = launch_from_json(launch_json({"n": n, "m": 777}, grid=4), "launch.json")
    (report,) = check_text(text, "attack.ptx", launch=launch).kernels
    return report.verdict


@pytest.mark.sample(2)
@pytest.mark.parametrize(("inside", "behind", "first", "number", "never", "n"), _kernels())
def test_a_counter_that_a_launch_steps_is_never_proven_away(
    inside: str, behind: str, first: str, number: int, never: int, n: int
) -> None:
    buggy, fixed = (looping(inside, behind + held(each), first) for each in (number, never))
    assert (_launched(buggy, n), _launched(fixed, n)) == ("refuted", "proven")
    assert checked(buggy).verdict != "proven"
    assert checked(fixed).verdict != "refuted"


@pytest.mark.parametrize(
    "inside",
    [
        f"{_TWO}setp.ne.u32 %p_c, %r_m, 777; @%p_c bra C; setp.eq.u32 %p_c, %r_y, 604; @%p_c bra H; C: ",
        "add.u32 %r_y, %r_y, %r_m; setp.ne.u32 %p_c, %r_m, 777; @%p_c bra C; setp.eq.u32 %p_c, %r_y, 155400; "
        "@%p_c bra H; C: ",
    ],
)
def test_nor_where_the_loop_itself_asks(inside: str) -> None:
    assert checked(looping(inside, "")).verdict != "proven"


_STAGE = "add.u32 %r_s, %r_s, 1; setp.eq.u32 %p_a, %r_s, 5; selp.u32 %r_s, 0, %r_s, %p_a; "
_BYTES = (
    "selp.u32 %r_x, 16, 0, %p_c; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r_bar], %r_x; "
    "V: mbarrier.try_wait.parity.shared::cta.b64 %p_v, [%r_bar], 0; @!%p_v bra V; "
)
_LEFT = {
    "as an operand": f"setp.eq.u32 %p_c, %r_s, STAGE; {_BYTES}",
    "through shared memory": (
        "st.shared.u32 [%r_buf+16], %r_s; ld.shared.u32 %r_x, [%r_buf+16]; setp.eq.u32 %p_c, %r_x, STAGE; @%p_c bra H; "
    ),
    "through local memory": (
        "st.local.u32 [frame], %r_s; ld.local.u32 %r_x, [frame]; setp.eq.u32 %p_c, %r_x, STAGE; @%p_c bra H; "
    ),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("behind", _LEFT.values(), ids=_LEFT)
def test_a_stage_that_matters_where_another_number_asks_is_found(behind: str) -> None:
    """Of each number of iterations that stands for others a launch is made with the other number."""
    buggy, fixed = (checked(looping(_STAGE, GATE + behind.replace("STAGE", each))) for each in "35")
    assert (buggy.verdict, fixed.verdict) == ("refuted", "proven"), fixed.reasons
