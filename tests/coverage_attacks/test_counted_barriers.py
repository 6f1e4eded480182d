"""Barriers at which a loop arrives where a launch says so: what they have counted differs from launch to launch."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked
from tests.coverage_attacks.stepping import GATE, LARGE, looping

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
