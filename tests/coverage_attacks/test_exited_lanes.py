"""Instructions for all threads of a warp, executed once some have exited."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging

_ALIGNED = (
    "bar.sync 0;",
    "barrier.sync.aligned 1, 64;",
    "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
    "setmaxnreg.dec.sync.aligned.u32 40;",
    "setp.eq.u32 %p_z, %r_tid, 3; bar.red.popc.u32 %r_q, 1, %p_z;",
)
_EXIT = "setp.ge.u32 %p_q, %r_tid, {}; mov.pred %p_bug, 0; @%p_q exit; "


@pytest.mark.parametrize("aligned", _ALIGNED)
def test_a_warp_of_which_some_lanes_exited_is_never_proven(aligned: str) -> None:
    assert checked(hanging(f"{_EXIT.format(40)}{aligned}")).verdict != "proven"


@pytest.mark.parametrize("aligned", _ALIGNED)
def test_whole_warps_may_exit_but_where_a_count_waits_for_them(aligned: str) -> None:
    assert checked(hanging(f"{_EXIT.format(64)}{aligned}")).verdict == "proven"
