"""A register that counts in a loop; behind it, others are made of it, and one of these is asked for."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked
from tests.coverage_attacks.stepping import held, looping
from tests.guarded.text import launch_json
from tilewright.driver.check.check import check_text
from tilewright.driver.launch.launch_file import launch_from_json

_STEP = "add.u32 %r_y, %r_y, 1; "
_BEHIND = {
    "summed": f"add.u32 %r_z, %r_y, 1; {held(401, '%r_z')}",
    "shifted": f"shl.b32 %r_z, %r_y, 1; {held(800, '%r_z')}",
    "summed twice": f"add.u32 %r_z, %r_y, 1; add.u32 %r_x, %r_z, 1; {held(402, '%r_x')}",
    "a bit": f"and.b32 %r_z, %r_y, 256; {held(256, '%r_z')}",
    "stored": f"add.u32 %r_z, %r_y, 1; st.shared.u32 [%r_buf], %r_z; ld.shared.u32 %r_x, [%r_buf]; {held(401, '%r_x')}",
    "moved": f"mov.u32 %r_z, %r_y; {held(400, '%r_z')}",
    "of another lane": f"shfl.sync.idx.b32 %r_z, %r_y, 0, 31, 1; {held(400, '%r_z')}",
    "overwritten on one way": f"setp.ne.u32 %p_k, %r_m, 776; @%p_k bra U; mov.u32 %r_y, 0; U: {held(400)}",
    "overwritten under a guard": f"setp.eq.u32 %p_k, %r_m, 776; @%p_k mov.u32 %r_y, 0; {held(400)}",
}


@pytest.mark.parametrize("behind", _BEHIND.values(), ids=_BEHIND)
def test_what_is_made_of_a_counter_behind_its_loop_is_followed(behind: str) -> None:
    """What follows loops by the registers that steer in them alone proves these."""
    text = looping(_STEP, behind)
    launch = launch_from_json(launch_json({"n": 400, "m": 777}, grid=1), "launch.json")
    (known,) = check_text(text, "attack.ptx", launch=launch).kernels
    assert known.verdict == "refuted"
    assert checked(text).verdict != "proven"
