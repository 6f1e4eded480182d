"""Loops that leave out a step of the protocol in iterations that a launch chooses: one does no harm, two together do.

What is left out shows in no register: groups of copies, fences, barriers. Each twin does the step in every iteration,
or leaves it out near the end alone, which follows how often the loop iterates.
"""

from __future__ import annotations

import pytest

from tests.guarded.text import launch_json
from tests.hostile.kernel import MEET, Pair

_NEXT = "add.u32 {0}, {0}, 1024;\nsetp.eq.u32 %p_wraps, {0}, 4096;\nselp.b32 {0}, 0, {0}, %p_wraps;\n"
_LOOP = (
    "mov.u32 %r_write, 0;\nmov.u32 %r_read, 2048;\nmov.u32 %r_slot, slots;\nshl.b32 %r_own, %r_lane, 2;\n"
    "mov.u32 %r_i, 0;\nLOOP:\nsetp.ge.u32 %p_over, %r_i, %r_n;\n@%p_over bra OVER;\nadd.u32 %r_to, %r_slot, %r_write;\n"
    "add.u32 %r_from, %r_slot, %r_read;\nBODY"
    + _NEXT.format("%r_write") + _NEXT.format("%r_read") + "add.u32 %r_i, %r_i, 1;\nbra LOOP;\nOVER:\n"
)  # fmt: skip
_COPY = (
    "mul.lo.u32 %r_place, %r_tid, 16;\nadd.u32 %r_to, %r_to, %r_place;\nmul.wide.u32 %rd_place, %r_tid, 16;\n"
    "add.u64 %rd_place, %rd_place, %rd_SOURCE;\nxor.b32 %r_place, %r_place, 512;\nadd.u32 %r_from, %r_from, %r_place;\n"
    "cp.async.cg.shared.global [%r_to], [%rd_place], 16;\nDECIDE@%p_skip bra NOT;\ncp.async.commit_group;\nNOT:\n"
    "cp.async.wait_group 1;\nbar.sync 0;\nsetp.lt.u32 %p_early, %r_i, 2;\n@%p_early bra READ;\n"
    "ld.shared.b32 %r_value, [%r_from];\nREAD:\n"
)
_SHARE = (
    "add.u32 %r_to, %r_to, %r_own;\nadd.u32 %r_from, %r_from, %r_own;\n@%p_w0 st.shared.b32 [%r_to], %r_i;\n"
    "DECIDE@%p_skip bra NOT;\nbar.sync 0;\nNOT:\nsetp.lt.u32 %p_early, %r_i, 2;\n@%p_early bra READ;\n"
    "@!%p_w0 ld.shared.b32 %r_value, [%r_from];\nREAD:\n"
)
_FENCE = (
    "@!%p_t0 bra READ;\nst.shared.b32 [%r_to], %r_i;\nDECIDE@%p_skip bra NOT;\nfence.proxy.async.shared::cta;\nNOT:\n"
    "setp.lt.u32 %p_early, %r_i, 1;\n@%p_early bra READ;\nsub.u32 %r_from, %r_write, 1024;\n"
    "and.b32 %r_from, %r_from, 4095;\nadd.u32 %r_from, %r_from, %r_slot;\nmul.wide.u32 %rd_place, %r_i, 256;\n"
    "add.u64 %rd_place, %rd_place, %rd_RESULT;\n"
    "cp.async.bulk.global.shared::cta.bulk_group [%rd_place], [%r_from], 16;\ncp.async.bulk.commit_group;\n"
    "cp.async.bulk.wait_group.read 0;\nREAD:\n"
)
_STEPS = {"a group is not committed": _COPY, "warps do not meet": _SHARE, "a fence is missing": _FENCE}
_SKIPS = {
    "at two numbers": "setp.eq.u32 %p_skip, %r_i, %r_m;\nsetp.eq.or.u32 %p_skip, %r_i, %r_k, %p_skip;\n",
    "in a range": (
        "sub.u32 %r_apart, %r_i, %r_m;\nsub.u32 %r_most, %r_k, %r_m;\nsetp.le.u32 %p_skip, %r_apart, %r_most;\n"
    ),
    "by words": (
        "mul.wide.u32 %rd_word, %r_i, 4;\nadd.u64 %rd_word, %rd_word, %rd_SOURCE;\nld.global.b32 %r_word, [%rd_word];\n"
        "setp.ne.u32 %p_skip, %r_word, 0;\n"
    ),
}
_NEVER = "setp.ne.u32 %p_skip, %r_n, %r_n;\n"


def _pair(body: str, buggy: str, fixed: str, numbers: dict[str, int] | None = None) -> Pair:
    return _of(_LOOP.replace("BODY", body.replace("DECIDE", "@@")), buggy, fixed, numbers)


def _of(body: str, buggy: str, fixed: str, numbers: dict[str, int] | None) -> Pair:
    names = ("SOURCE", "RESULT", "n", "m", "k")
    launch = None if numbers is None else launch_json(numbers, grid=1, words=[0] * 4 + [1] * 2 + [0] * 20)
    if launch is not None:
        source, target, *rest = launch["params"]  # type: ignore[misc]
        launch["params"] = [{**target, "buffer": "source"}, {**source, "buffer": "target"}, *rest]
    return Pair("", body, buggy, fixed, 64, 1, "sm_90a", names, launch)


@pytest.mark.sample(1)
@pytest.mark.parametrize("body", _STEPS.values(), ids=_STEPS)
@pytest.mark.parametrize("skip", _SKIPS.values(), ids=_SKIPS)
def test_what_two_iterations_leave_out_together_is_never_proven_away(body: str, skip: str) -> None:
    known = _pair(body, skip, _NEVER, {"n": 12, "m": 4, "k": 5})
    assert known.verdicts() == ("refuted", "proven")
    open_numbers = _pair(body, skip, _NEVER)
    assert open_numbers.report(skip).verdict != "proven"


@pytest.mark.parametrize("body", _STEPS.values(), ids=_STEPS)
def test_what_no_iteration_leaves_out_is_proven(body: str) -> None:
    report = _pair(body, _NEVER, _NEVER).report(_NEVER)
    assert (report.verdict, report.scope) == ("proven", "all trip counts"), report.reasons


def test_what_the_last_iteration_leaves_out_shows_behind_the_loop() -> None:
    """At zero the number looks degenerate, and is excused; at any other it may be that of the last iteration."""
    body = (
        "add.u32 %r_to, %r_slot, %r_own;\n@%p_w0 st.shared.b32 [%r_to+1024], %r_i;\nbar.sync 0;\n"
        "@%p_w0 st.shared.b32 [%r_to], %r_i;\nsetp.eq.u32 %p_skip, %r_i, %r_m;\n@%p_skip bra NOT;\nbar.sync 0;\nNOT:\n"
    )
    behind = (
        "setp.eq.u32 %p_none, %r_n, 0;\n@%p_none bra END;\nadd.u32 %r_to, %r_slot, %r_own;\n"
        "@!%p_w0 ld.shared.b32 %r_value, [%r_to];\nEND:\n"
    )
    text = _LOOP.replace("BODY", body) + "@@" + behind
    report = Pair("", text, "", MEET, parameters=("SOURCE", "RESULT", "n", "m", "k")).report("")
    assert report.verdict != "proven"


def test_what_follows_the_end_of_the_loop_is_proven() -> None:
    """Groups are committed until two iterations before the end; all are waited for there."""
    decide = "add.u32 %r_last, %r_i, 2;\nsetp.ge.u32 %p_skip, %r_last, %r_n;\n"
    body = _COPY.replace("cp.async.wait_group 1;", "cp.async.commit_group;\ncp.async.wait_group 1;")
    report = _pair(body, decide, decide).report(decide)
    assert (report.verdict, report.scope) == ("proven", "all trip counts"), report.reasons


_ROWS = (
    "shl.b32 %r_own, %r_tid, 4;\nmov.u32 %r_slot, slots;\nadd.u32 %r_to, %r_slot, %r_own;\n"
    "xor.b32 %r_own, %r_own, 512;\nadd.u32 %r_from, %r_slot, %r_own;\nmov.u32 %r_zero, 0;\nmov.u32 %r_i, 0;\nLOOP:\n"
    "setp.ge.u32 %p_over, %r_i, %r_n;\n@%p_over bra OVER;\nadd.u32 %r_row, %r_tid, %r_i;\n"
    "setp.lt.u32 %p_in, %r_row, %r_m;\n@%p_in bra IN;\nst.shared.b32 [%r_to], %r_zero;\nbra.uni DONE;\nIN:\n@@DONE:\n"
    "bar.sync 0;\nld.shared.b32 %r_value, [%r_from];\nbar.sync 0;\nadd.u32 %r_i, %r_i, 1;\nbra LOOP;\nOVER:\n"
)
_STORES = "st.shared.b32 [%r_to], %r_i;\n"
_OTHERWISE = {
    "to another place": "st.shared.b32 [%r_from], %r_i;\n",
    "to one more place": _STORES + "st.shared.b32 [%r_from], %r_i;\n",
    "where its register has moved": "xor.b32 %r_to, %r_to, 512;\n" + _STORES,
    "and reads another place": "ld.shared.b32 %r_value, [%r_from];\n" + _STORES,
}


def _rows(inside: str, numbers: dict[str, int] | None = None) -> str:
    return _of(_ROWS, inside, inside, numbers).report(inside).verdict


def test_rows_beyond_an_array_that_are_stored_as_zero_are_proven() -> None:
    assert _rows(_STORES) == "proven"


@pytest.mark.parametrize("inside", _OTHERWISE.values(), ids=_OTHERWISE)
def test_ways_that_do_not_store_alike_are_never_proven(inside: str) -> None:
    assert _rows(inside, {"n": 4, "m": 33, "k": 0}) == "refuted"
    assert _rows(inside) != "proven"
