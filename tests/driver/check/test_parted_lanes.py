"""Arrivals of one instruction that an mbarrier counts in two phases: which lanes come in time is chance."""

from __future__ import annotations

import pytest

from tilewright.base.check_report import KernelReport
from tilewright.driver.check.check import check_text
from tilewright.driver.launch.given_launch import LaunchFile
from tilewright.driver.launch.launch_file import launch_from_json

_TEXT = """
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k() .reqntid 64
{
.reg .pred %p<4>; .reg .b32 %r<8>;
.shared .align 8 .b64 bar;
.shared .align 16 .b8 tile[512];
mov.u32 %r1, %tid.x;
and.b32 %r2, %r1, 31;
shl.b32 %r2, %r2, 2;
mov.u32 %r3, tile;
add.u32 %r2, %r2, %r3;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra INITED;
mbarrier.init.shared::cta.b64 [bar], COUNT;
INITED:
bar.sync 0;
setp.ge.u32 %p2, %r1, 32;
@%p2 bra READ;
st.shared.u32 [%r2], %r1;
mbarrier.arrive.shared::cta.b64 _, [bar];
st.shared.u32 [%r2+256], %r1;
mbarrier.arrive.shared::cta.b64 _, [bar];
ret;
READ:
mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], 0;
@!%p3 bra READ;
ld.shared.u32 %r4, [%r2+256];
ret;
}
"""


def _checked(count: int, launch: LaunchFile | None) -> KernelReport:
    (report,) = check_text(_TEXT.replace("COUNT", str(count)), "k.ptx", launch=launch).kernels
    return report


@pytest.mark.parametrize(
    "launch", [None, launch_from_json({"grid": [1], "block": [64], "params": []}, "launch.json")], ids=["any", "given"]
)
def test_lanes_that_count_in_two_phases_are_refuted(launch: LaunchFile | None) -> None:
    # Half of the lanes end the phase by their second arrival: what the others stored may be read too early.
    report = _checked(48, launch)
    assert report.verdict == "refuted"
    assert {each.code for each in report.errors} == {"MB107"}
    assert _checked(64, launch).verdict == "proven"
