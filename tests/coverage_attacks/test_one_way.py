"""Branches, calls and returns that are `.uni`, though lanes which come to them together go different ways.

The ISA promises compilers that they do not, so what follows is undefined. Twins do so without `.uni`, or let the lanes
of a warp agree. Cluster arrivals that are relaxed stand here, too: a fence before one publishes what its threads know.
"""

from __future__ import annotations

import pytest

from tests.coverage_attacks.protocols import CLUSTER_BARRIER, Pair, assert_told_apart, report_of

_MATH = "add.u32 %r_q, %r_n, 1; "
_BY_LANE = "setp.eq.u32 %p_w, %r_lane, 0; "
_BY_WARP = "setp.eq.u32 %p_w, %r_warp, 0; "
_OTHERS = "setp.ne.u32 %p_w, %r_warp, 0; "
_TARGETS = "ways: .branchtargets A, B; "
_ARMS = "A: add.u32 %r_q, %r_q, 1; bra LAST; B: add.u32 %r_q, %r_q, 2; LAST: bar.sync 0; "
_COUNTS = "L: add.u32 %r_q, %r_q, 1; setp.lt.u32 %p_w, %r_q, {}; @%p_w bra.uni L; bar.sync 0; "

PAIRS = {
    "around arithmetic": (f"{_BY_WARP}@%p_w bra.uni X; {_MATH}X: bar.sync 0; ", _BY_WARP, _BY_LANE),
    "around a store": (
        "@%p_t0 bra X; st.global.u32 [%rd_target], %r_n; X: bar.sync 0; ", "@%p_t0 bra X", "@%p_t0 bra.uni X"
    ),
    "around an arrival": (
        "@%p_t0 mbarrier.init.shared::cta.b64 [%r_bar], 63; bar.sync 0; @%p_t0 bra X; "
        "mbarrier.arrive.shared::cta.b64 %rd_s, [%r_bar]; X: bar.sync 0; ", "@%p_t0 bra X", "@%p_t0 bra.uni X"
    ),
    "by a parameter": (
        f"setp.eq.u32 %p_w, %r_n, 5; @%p_w bra.uni X; {_MATH}X: bar.sync 0; ", "%r_n, 5", "%r_n, %r_tid"
    ),
    "a loop": ("mov.u32 %r_q, 0; " + _COUNTS.format(40), "mov.u32 %r_q, 0", "mov.u32 %r_q, %r_lane"),
    "a loop to a parameter": (
        "mov.u32 %r_q, 0; " + _COUNTS.format("%r_n"), "mov.u32 %r_q, 0", "mov.u32 %r_q, %r_lane"
    ),
    "a table": (
        f"{_TARGETS}and.b32 %r_q, %r_lane, 1; brx.idx %r_q, ways; {_ARMS}", "brx.idx %r_q", "brx.idx.uni %r_q"
    ),
    "a return": ("@%p_t0 ret; ", "ret", "ret.uni"),
    "a return of warps": (f"{_BY_WARP}@%p_w ret.uni; ", _BY_WARP, _BY_LANE),
}  # fmt: skip
DATA = {
    "around arithmetic": f"setp.eq.u32 %p_w, %r_d, 0; @%p_w bra.uni X; {_MATH}X: bar.sync 0; ",
    "a loop": "mov.u32 %r_q, 0; " + _COUNTS.format("%r_d"),
}
_STORED = "st.shared::cluster.u32 [%r_there], %r_tid; "
_RELAXED = (
    "xor.b32 %r_peer, %r_rank, 1; mapa.shared::cluster.u32 %r_there, %r_buf, %r_peer; shl.b32 %r_o, %r_tid, 2; "
    "add.u32 %r_there, %r_there, %r_o; @@barrier.cluster.arrive.relaxed; barrier.cluster.wait; "
    f"ld.shared.u32 %r_v, [%r_buf+4]; {CLUSTER_BARRIER}"
)
_CALLED = ".func called()\n{\n.reg .b32 %x;\nmov.u32 %x, 0;\nret;\n}\n.visible .entry"
_RETURNS = (
    ".func called(.param .b32 a)\n{\n.reg .b32 %x;\n.reg .pred %q;\nld.param.b32 %x, [a];\nsetp.eq.u32 %q, %x, 3;\n"
    "@%q ret.uni;\nadd.u32 %x, %x, 1;\nret;\n}\n.visible .entry"
)


@pytest.mark.parametrize("name", PAIRS)
def test_lanes_that_part_where_they_must_not_refute(name: str) -> None:
    assert_told_apart(Pair(*PAIRS[name], ("MF005",)))


@pytest.mark.parametrize("body", DATA.values(), ids=DATA)
def test_what_lanes_read_may_part_them(body: str) -> None:
    place = "mul.wide.u32 %rd_q, %r_q0, 4; add.u64 %rd_q, %rd_q, %rd_source; ld.global.u32 %r_d, [%rd_q]; "
    pair = Pair(f"mov.u32 %r_q0, %r_warp; {place}{body}", "%r_warp;", "%r_lane;", ())
    assert (report_of(pair.right).verdict, report_of(pair.wrong).verdict) == ("proven", "unknown")


@pytest.mark.parametrize(
    ("body", "before", "after", "function"),
    [
        ("@%p_t0 call called; bar.sync 0; ", "call called", "call.uni called", _CALLED),
        (
            "{ .param .b32 pa; st.param.b32 [pa], %r_n; call called, (pa); } bar.sync 0; ",
            "[pa], %r_n", "[pa], %r_lane", _RETURNS,
        ),
    ],
    ids=["a call", "a return of a function"],
)  # fmt: skip
def test_calls_keep_their_promise(body: str, before: str, after: str, function: str) -> None:
    pair = Pair(body, before, after, ())
    right, wrong = (report_of(each.replace(".visible .entry", function)) for each in (pair.right, pair.wrong))
    assert right.verdict == "proven" and [each.code for each in wrong.errors] == ["MF005"]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (_STORED + "fence.acq_rel.cluster; ", _STORED),
        (_STORED + "fence.acq_rel.gpu; ", _STORED + "fence.acq_rel.cta; "),
        (_STORED + "fence.sc.cluster; ", "fence.sc.cluster; " + _STORED),
        (_STORED + "fence.acq_rel.cluster; ", _STORED + "fence.acquire.cluster; "),
        (_STORED + "membar.gl; ", _STORED + "fence.mbarrier_init.release.cluster; "),
        (_STORED + "fence.acq_rel.cluster; ", f"{_STORED}{_OTHERS}@%p_w fence.acq_rel.cluster; "),
    ],
    ids=["none", "too narrow", "too early", "acquires", "of inits", "of a warp"],
)
def test_a_fence_before_a_relaxed_arrival_publishes(right: str, wrong: str) -> None:
    start = CLUSTER_BARRIER
    assert_told_apart(Pair(start + _RELAXED.replace("@@", right), right, wrong, ("NB101",), cluster=2))
