"""Two warps store to the same bytes in each CTA of a launch of many; what the first one shows is not taken for all."""

from __future__ import annotations

import pytest

from tilewright.driver.check.check import check_text
from tilewright.driver.launch.launch_file import launch_from_json

_TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n) .reqntid 64
{
    .reg .pred %p<8>;
    .reg .b32 %r<16>;
    .shared .align 8 .b8 bar[8];
    .shared .align 8 .b8 word[64];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    shr.u32 %r3, %r1, 5;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra BEGUN;
    mbarrier.init.shared::cta.b64 [bar], 1;
BEGUN:
    bar.sync 0;
    and.b32 %r5, %r1, 31;
    setp.ne.u32 %p4, %r5, 0;
    setp.eq.u32 %p2, %r2, 65;
    mov.u32 %r4, 5;
    BODY
DONE:
    bar.sync 0;
    ret;
}
"""
_SAME = "@%p4 bra DONE; st.shared.u32 [word], %r4;"
_BODIES = {
    "the same": (_SAME, True),
    "another value in one": (f"@%p2 add.u32 %r4, %r3, 7; {_SAME}", False),
    "in one alone, another value": ("@!%p2 bra DONE; @%p4 bra DONE; st.shared.u32 [word], %r3;", False),
    "in one alone, elsewhere another value": (f"{_SAME} @!%p2 bra DONE; st.shared.u32 [word+8], %r3;", False),
}


@pytest.mark.parametrize(("body", "proven"), _BODIES.values(), ids=_BODIES)
def test_each_cluster_is_compared(body: str, proven: bool) -> None:
    launch = launch_from_json({"grid": [100], "params": [{"kind": "i32", "value": 1}]}, "launch.json")
    (report,) = check_text(_TEXT.replace("BODY", body), "k.ptx", launch=launch).kernels
    assert (report.verdict == "proven") == proven, report.reasons
