"""Fences, waits and ends of barriers that the wrong thread executes, or that reach less than they must.

What a lane fences, or waits for, is nothing that other lanes of its warp have done or waited for, before they
synchronize. Hardware is more generous to warps that have converged, so tolerant interpretations ask for a review there;
that a fence of `shared::cta` leaves a peer's memory out, and that half of a one-way fence is none, they do not forgive:
ptxas makes `MEMBAR.ALL.CTA` of the first, and nothing of the acquiring half.
Source: PTX ISA 9.7.13.4 (fence.proxy), 9.7.13.13 (griddepcontrol), 9.7.13.15 (mbarrier.init, mbarrier.inval).
"""

from __future__ import annotations

import pytest

from tests.coverage_attacks.protocols import CLUSTER_BARRIER, Pair, assert_told_apart, looped, wait
from tilewright.base.diagnostic import Level

_FENCE = "fence.proxy.async.shared::cta; "
_RELEASE = "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster; "
_ACQUIRE = "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster; "
_STORE = (
    "cp.async.bulk.global.shared::cta.bulk_group [%rd_target], [%r_buf], 256; cp.async.bulk.commit_group; "
    "cp.async.bulk.wait_group.read 0; "
)
_PLACE = "shl.b32 %r_o, %r_tid, 2; add.u32 %r_my, %r_buf, %r_o; "
_WRITE = f"{_PLACE}st.shared.b32 [%r_my], %r_tid; "
_STAGED = looped(f"{_WRITE}{_FENCE}bar.sync 0; @!%p_t0 bra S; {_STORE}S: bar.sync 0; ")
_ONE_WAY = looped(f"{_WRITE}{_RELEASE}bar.sync 0; @!%p_t0 bra S; {_ACQUIRE}{_STORE}S: bar.sync 0; ")
_COPIED = looped(
    "shl.b32 %r_o, %r_tid, 4; add.u32 %r_my, %r_buf, %r_o; cvt.u64.u32 %rd_o, %r_o; add.s64 %rd_s, %rd_source, %rd_o; "
    "cp.async.cg.shared.global [%r_my], [%rd_s], 16; cp.async.commit_group; cp.async.wait_group 0; "
    f"{_FENCE}bar.sync 0; @!%p_t0 bra S; {_STORE}S: bar.sync 0; "
)
_PEERS = f"{CLUSTER_BARRIER}xor.b32 %r_peer, %r_rank, 1; mapa.shared::cluster.u32 %r_far, %r_buf, %r_peer; " + looped(
    "shl.b32 %r_o, %r_tid, 2; add.u32 %r_my, %r_far, %r_o; st.shared::cluster.b32 [%r_my], %r_tid; "
    f"fence.proxy.async.shared::cluster; {CLUSTER_BARRIER}@!%p_t0 bra S; {_STORE}S: {CLUSTER_BARRIER}"
)
_GRID = (
    "griddepcontrol.wait; shl.b32 %r_o, %r_tid, 2; cvt.u64.u32 %rd_o, %r_o; add.s64 %rd_s, %rd_source, %rd_o; "
    "ld.global.b32 %r_v, [%rd_s]; add.s64 %rd_t, %rd_target, %rd_o; st.global.b32 [%rd_t], %r_v; "
)
_GRID_OF_ONE = _GRID.replace("griddepcontrol.wait; ", "@%p_t0 griddepcontrol.wait; bar.sync 0; ")
_INIT = (
    "@%p_t0 mbarrier.init.shared::cta.b64 [%r_bar], 1; @%p_t0 fence.mbarrier_init.release.cluster; "
    "barrier.cluster.arrive.relaxed; barrier.cluster.wait; xor.b32 %r_peer, %r_rank, 1; "
    "mapa.shared::cluster.u32 %r_far, %r_bar, %r_peer; "
    "@%p_t0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r_far]; "
    f"{wait('%r_bar', '0', form='acquire.cluster.shared::cta')}{CLUSTER_BARRIER}"
)
_ENDED = looped(
    "@%p_t0 mbarrier.init.shared::cta.b64 [%r_bar], 32; bar.warp.sync -1; mbarrier.arrive.shared::cta.b64 _, [%r_bar]; "
    f"{wait('%r_bar', '0')}bar.warp.sync -1; @%p_t0 mbarrier.inval.shared::cta.b64 [%r_bar]; "
)
_ANOTHER = "setp.eq.u32 %p_q, %r_tid, 1; @%p_q "

PAIRS = {
    "a lane leaves its own store to the fences of others": Pair(
        _STAGED, _FENCE, f"setp.ne.u32 %p_q, %r_tid, 37; @%p_q {_FENCE}", ("PX101",), Level.REVIEW
    ),
    "the first lane of each warp releases for all": Pair(_ONE_WAY, _RELEASE, f"@%p_l0 {_RELEASE}", ("PX101",)),
    "nobody acquires": Pair(_ONE_WAY, _ACQUIRE, "", ("PX101",)),
    "an acquire alone, after cp.async": Pair(_COPIED, _FENCE, _ACQUIRE, ("PX103",)),
    "a release alone, after cp.async": Pair(_COPIED, _FENCE, _RELEASE, ("PX103",)),
    "a fence of the own CTA, after stores to a peer": Pair(
        _PEERS, "fence.proxy.async.shared::cluster; ", _FENCE, ("PX101",), cluster=2
    ),
    "one lane waits for the grids before": Pair(
        _GRID, "griddepcontrol.wait; ", "@%p_t0 griddepcontrol.wait; ", ("GD101",), Level.REVIEW, threads=32
    ),
    "one thread waits for the grids before, and nobody for it": Pair(
        _GRID_OF_ONE, "bar.sync 0; ", "", ("GD101",), Level.REVIEW
    ),
    "a lane invalidates what others wait for": Pair(
        _ENDED,
        "bar.warp.sync -1; @%p_t0 mbarrier.inval",
        "@%p_t0 mbarrier.inval",
        ("NB106",),
        Level.REVIEW,
        threads=32,
    ),
    "another lane fences an init": Pair(
        _INIT, "@%p_t0 fence.mbarrier_init", f"{_ANOTHER}fence.mbarrier_init", ("NB106",), Level.REVIEW, cluster=2
    ),
}


@pytest.mark.sample(5)
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_fences_of_the_wrong_thread_or_reach_prove_nothing(pair: Pair) -> None:
    assert_told_apart(pair)


_RIGHT = {
    "both halves, after cp.async": Pair(
        _COPIED.replace(_FENCE, _RELEASE).replace(_STORE, _ACQUIRE + _STORE), _ACQUIRE, "", ("PX103",)
    ),
    "a lane that has synchronized with who initialised fences": Pair(
        _INIT.replace("@%p_t0 fence", f"bar.warp.sync -1; {_ANOTHER}fence"), "bar.warp.sync -1; ", "", ("NB106",),
        Level.REVIEW, cluster=2,
    ),
    "a lane that has synchronized with the writer fences for it": Pair(
        _STAGED.replace(_FENCE, f"bar.warp.sync -1; @%p_l0 {_FENCE}"), "bar.warp.sync -1; ", "", ("PX101",),
        Level.REVIEW,
    ),
}  # fmt: skip


@pytest.mark.parametrize("pair", _RIGHT.values(), ids=_RIGHT)
def test_what_synchronizes_in_another_way_is_told_from_what_does_not(pair: Pair) -> None:
    assert_told_apart(pair)
