"""Warps that return before others meet: a barrier without a count does not wait for them, nor does it order them."""

from __future__ import annotations

import pytest

from tilewright.driver.check.check import check_text
from tilewright.driver.launch.launch_file import launch_from_json

_KERNEL = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 target) .reqntid 96
{{
    .reg .pred %p<3>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<2>;
    .shared .align 4 .b8 word[4];
    ld.param.u64 %rd1, [target];
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 64;
    @%p1 bra GO;
    {before}
    ret;
GO:
    {barrier}
    {after}
    ret;
}}
"""
_READ = "ld.shared.u32 %r2, [word]; setp.eq.u32 %p2, %r1, 0; @%p2 st.global.u32 [%rd1], %r2;"


@pytest.mark.parametrize(
    ("before", "barrier", "after", "verdict"),
    [
        ("", "bar.sync 0;", "", "proven"),
        ("", "bar.sync 0, 64;", "", "proven"),
        ("", "bar.sync 0, 96;", "", "refuted"),
        ("bar.arrive 1, 96;", "bar.sync 1, 96;", "", "proven"),
        ("st.shared.u32 [word], 1; bar.arrive 1, 96;", "bar.sync 1, 96;", _READ, "proven"),
        ("st.shared.u32 [word], 1;", "bar.sync 0;", _READ, "refuted"),
    ],
    ids=["no count", "the others counted", "all counted", "arrived first", "arrived after a write", "written, exited"],
)
def test_an_exit_lets_a_barrier_go_and_publishes_nothing(before: str, barrier: str, after: str, verdict: str) -> None:
    launch = launch_from_json({"params": [{"kind": "ptr", "bytes": 4}]}, "launch.json")
    text = _KERNEL.format(before=before, barrier=barrier, after=after)
    (kernel,) = check_text(text, "k.ptx", launch=launch).kernels
    assert kernel.verdict == verdict, kernel.reasons
