"""Special registers that no launch fixes: nothing is proven of a kernel that decides by one."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging

_NARROW = (
    "%warpid", "%nwarpid", "%smid", "%nsmid", "%clock", "%clock_hi", "%globaltimer_lo", "%envreg3", "%pm0",
    "%total_smem_size", "%aggr_smem_size", "%dynamic_smem_size", "%reserved_smem_offset_begin",
    "%reserved_smem_offset_end", "%reserved_smem_offset_cap",
)  # fmt: skip
_WIDE = ("%gridid", "%clock64", "%globaltimer", "%pm0_64", "%current_graph_exec")
FREE = {
    **{name: f"mov.u32 %r_x, {name}; setp.eq.s32 %p_bug, %r_x, 1234;" for name in _NARROW},
    **{name: f"mov.u64 %rd_x, {name}; setp.eq.s64 %p_bug, %rd_x, 1234;" for name in _WIDE},
    "%is_explicit_cluster": "mov.pred %p_bug, %is_explicit_cluster;",
    "%warpid and the thread": ("mov.u32 %r_x, %warpid; shr.u32 %r_y, %r_tid, 5; setp.ne.s32 %p_bug, %r_x, %r_y;"),
}
FIXED = {
    "%laneid": "mov.u32 %r_x, %laneid; setp.gt.u32 %p_bug, %r_x, 31;",
    "%lanemask_lt": "mov.u32 %r_x, %lanemask_lt; setp.eq.u32 %p_bug, %r_x, 2;",
    "%ntid.x": "mov.u32 %r_x, %ntid.x; setp.ne.u32 %p_bug, %r_x, 64;",
    "%warpid that is stored": (
        "mov.u32 %r_x, %warpid; st.global.u32 [%rd_target], %r_x; setp.ne.s32 %p_bug, %r_tid, %r_tid;"
    ),
}


@pytest.mark.parametrize("body", FREE.values(), ids=FREE)
def test_nothing_is_proven_behind_it(body: str) -> None:
    assert checked(hanging(body)).verdict == "unknown"


@pytest.mark.parametrize("body", FIXED.values(), ids=FIXED)
def test_what_is_fixed_or_decides_nothing_is_proven(body: str) -> None:
    report = checked(hanging(body))
    assert report.verdict == "proven", report.reasons


@pytest.mark.parametrize("name", ["%dynamic_smem_size", "%total_smem_size"])
def test_the_reason_names_the_size_of_shared_memory(name: str) -> None:
    report = checked(hanging(FREE[name]))
    assert name in report.reasons[0]
