"""cp.async and its arrivals: what holds a phase open until they count, and what a wait for them covers."""

from __future__ import annotations

import pytest

from tests.hostile.kernel import MEET, Pair, wait

_PLACES = """
mul.lo.u32 %r_offset, %r_tid, 16;
mov.u32 %r_slot, slots;
add.u32 %r_slot, %r_slot, %r_offset;
mul.wide.u32 %rd_from, %r_tid, 16;
add.u64 %rd_from, %rd_from, %rd_SOURCE;
"""
_COPY = "cp.async.cg.shared.global [%r_slot], [%rd_from], 16;\n"
_USE = """
xor.b32 %r_other, %r_tid, 32;
mul.lo.u32 %r_other, %r_other, 16;
mov.u32 %r_read, slots;
add.u32 %r_read, %r_read, %r_other;
ld.shared.b32 %r_value, [%r_read];
mul.wide.u32 %rd_to, %r_tid, 4;
add.u64 %rd_to, %rd_to, %rd_RESULT;
st.global.b32 [%rd_to], %r_value;
"""
_ARRIVE = "cp.async.mbarrier.arrive{}.shared::cta.b64 [bars];\n"
_ONE = "@%p_t0 mbarrier.arrive.shared::cta.b64 _, [bars];\n"


def _init(count: int) -> str:
    return f"@%p_t0 mbarrier.init.shared::cta.b64 [bars], {count};\n{MEET}"


_ADDED = _init(1) + _PLACES + _COPY + _ARRIVE.format("") + "@@" + _ONE + wait() + _USE
_NOT_ADDED = _PLACES + _COPY + _ARRIVE.format(".noinc") + wait() + _USE
_GROUPS = _PLACES + _COPY + "@@" + MEET + _USE
PAIRS = (
    Pair("one thread arrives before the others have added theirs", _ADDED, "", MEET),
    Pair("the count is one thread's", "@@" + _NOT_ADDED, _init(1), _init(64)),
    Pair("the count is that of two", "@@" + _NOT_ADDED, _init(128), _init(64)),
    Pair("only one lane asks for an arrival", _init(1) + _PLACES + _COPY + "@@" + wait() + _USE,
         "@%p_t0 " + _ARRIVE.format(".noinc"), _ARRIVE.format("") + MEET + _ONE),
    Pair("the arrival is asked for before the copy", _init(64) + _PLACES + "@@" + wait() + _USE,
         _ARRIVE.format(".noinc") + _COPY, _COPY + _ARRIVE.format(".noinc")),
    Pair("groups: none was committed", _GROUPS, "cp.async.wait_group 0;\n", "cp.async.wait_all;\n"),
    Pair("groups: committed after the wait", _GROUPS, "cp.async.wait_group 0;\ncp.async.commit_group;\n",
         "cp.async.commit_group;\ncp.async.wait_group 0;\n"),
    Pair("groups: one lane commits", _GROUPS, "@%p_t0 cp.async.commit_group;\ncp.async.wait_group 0;\n",
         "cp.async.commit_group;\ncp.async.wait_group 0;\n"),
    Pair("groups: one warp waits", _GROUPS, "cp.async.commit_group;\n@%p_w0 cp.async.wait_group 0;\n",
         "cp.async.commit_group;\ncp.async.wait_group 0;\n"),
)  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_the_buggy_kernel_is_refuted_and_the_fixed_one_proven(pair: Pair) -> None:
    assert pair.verdicts() == ("refuted", "proven")
