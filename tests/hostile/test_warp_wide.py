"""Instructions that lanes of a warp execute together, where only some lanes come, or may come as data says."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging

_FRAGMENTS = "{%f_a,%f_b,%f_c,%f_d}, {%r_a,%r_a,%r_a,%r_a}, {%r_a,%r_a}, {%f_a,%f_b,%f_c,%f_d};"
_ALIGNED = {
    "mma": f"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {_FRAGMENTS}",
    "movmatrix": "movmatrix.sync.aligned.m8n8.trans.b16 %r_q, %r_tid;",
    "ldmatrix": "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r_q}, [%r_buf];",
    "stmatrix": "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r_buf], {%r_q};",
}
_NAMED = {
    "shfl": "shfl.sync.bfly.b32 %r_q, %r_tid, 1, 31, -1;",
    "vote": "vote.sync.any.pred %p_z, %p_q, -1;",
    "match": "match.any.sync.b32 %r_q, %r_tid, -1;",
    "redux": "redux.sync.add.u32 %r_q, %r_tid, -1;",
    "elect": "elect.sync _|%p_z, -1;",
}
_SYNC = {"bar.warp.sync": "bar.warp.sync -1;"}
_TOGETHER = _ALIGNED | _NAMED | _SYNC
_BEGIN = (
    "mov.pred %p_bug, 0; mov.u32 %r_q, 0; mov.u32 %r_a, 0; mov.f32 %f_a, 0f00000000; mov.f32 %f_b, 0f00000000; "
    "mov.f32 %f_c, 0f00000000; mov.f32 %f_d, 0f00000000; shr.u32 %r_w, %r_tid, 5; "
)
_WORD = "ld.global.u32 %r_v, [%rd_x]; setp.eq.u32 %p_q, %r_v, 3; "
_LANES_WORD = f"mul.wide.u32 %rd_x, %r_tid, 4; add.s64 %rd_x, %rd_x, %rd_source; {_WORD}"
_WARPS_WORD = f"mul.wide.u32 %rd_x, %r_w, 4; add.s64 %rd_x, %rd_x, %rd_source; {_WORD}"
_AROUND_VOTE = "@%p_e bra M; {} M: bar.warp.sync -1; "
_AROUND = "@%p_q bra M; {} M: bar.warp.sync -1; "


def _verdict(body: str) -> str:
    return checked(hanging(_BEGIN + body, ("n",))).verdict


def _of(kinds: dict[str, str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("together", kinds.values(), ids=kinds.keys())


@_of(_TOGETHER)
@pytest.mark.parametrize("first", ["setp.eq.u32 %p_q, %r_tid, 3; ", "setp.lt.u32 %p_q, %r_tid, 20; "])
def test_what_some_lanes_go_around_is_refuted(together: str, first: str) -> None:
    assert _verdict(first + _AROUND.format(together)) == "refuted"


@_of(_ALIGNED)
@pytest.mark.parametrize(
    "form", ["setp.lt.u32 %p_q, %r_tid, 8; @%p_q bra M; {} M: ", "setp.lt.u32 %p_q, %r_tid, 8; @%p_q {}"]
)
def test_what_waits_for_all_threads_is_not_proven_once_some_exit_without_it(together: str, form: str) -> None:
    assert _verdict(form.format(together)) != "proven"


@_of(_TOGETHER)
def test_what_data_of_each_lane_lead_around_is_not_proven(together: str) -> None:
    assert _verdict(_LANES_WORD + _AROUND.format(together)) == "unknown"


@_of(_TOGETHER)
def test_a_loop_as_often_as_data_of_each_lane_say_is_not_proven(together: str) -> None:
    loop = f"L: {together} add.u32 %r_v, %r_v, -1; setp.gt.s32 %p_q, %r_v, 0; @%p_q bra L; bar.sync 0; "
    assert _verdict(_LANES_WORD + loop) == "unknown"


@_of(_ALIGNED | _NAMED)
def test_what_a_number_of_the_launch_parts_is_not_proven(together: str) -> None:
    assert _verdict("setp.lt.u32 %p_q, %r_tid, %r_n; " + _AROUND.format(together)) != "proven"


_REGISTERS_ALONE = {name: _TOGETHER[name] for name in ("mma", "movmatrix")} | _NAMED


@_of(_REGISTERS_ALONE)
def test_what_the_data_of_a_warp_lead_all_its_lanes_around_is_proven(together: str) -> None:
    assert _verdict(_WARPS_WORD + _AROUND.format(together)) == "proven"


@_of(_REGISTERS_ALONE)
def test_what_a_vote_on_data_leads_all_lanes_around_is_proven(together: str) -> None:
    assert _verdict(f"{_LANES_WORD}vote.sync.any.pred %p_e, %p_q, -1; {_AROUND_VOTE.format(together)}") == "proven"


@_of(_TOGETHER)
def test_what_whole_warps_go_around_is_proven(together: str) -> None:
    assert _verdict("setp.lt.u32 %p_q, %r_tid, 32; " + _AROUND.format(together)) == "proven"
    assert _verdict("setp.eq.u32 %p_q, %r_w, 1; " + _AROUND.format(together)) == "proven"


_CONTROL = ("setmaxnreg.dec.sync.aligned.u32 40;", "griddepcontrol.wait;")


@pytest.mark.parametrize("control", _CONTROL)
def test_registers_and_waits_for_grids_that_data_decide_about_are_not_proven(control: str) -> None:
    assert _verdict(_LANES_WORD + _AROUND.format(control)) == "unknown"
