"""CTAs of a cluster that reach into one another: who must have begun, who must not have ended, who hears of what."""

from __future__ import annotations

import pytest

from tests.hostile.kernel import CLUSTER_MEET, MEET, Pair, wait

_INIT = "@%p_t0 mbarrier.init.shared::cta.b64 [bars], 1;\n@%p_t0 fence.mbarrier_init.release.cluster;\n" + CLUSTER_MEET
_PLACE = """
mov.u32 %r_slot, slots;
shl.b32 %r_offset, %r_tid, 4;
add.u32 %r_mine, %r_slot, %r_offset;
mov.u32 %r_bar, bars;
"""
_PEER = """
xor.b32 %r_peer, %r_rank, 1;
mapa.shared::cluster.u32 %r_theirs, %r_mine, %r_peer;
mapa.shared::cluster.u32 %r_their_bar, %r_bar, %r_peer;
"""
_OUT = """
mul.wide.u32 %rd_to, %r_tid, 4;
add.u64 %rd_to, %rd_to, %rd_RESULT;
@%p_c0 st.global.b32 [%rd_to], %r_value;
"""
_STORE = "st.shared.b32 [%r_mine], %r_tid;\n"
_READ = "ld.shared::cluster.b32 %r_value, [%r_theirs];\n" + _OUT
_RELAXED = CLUSTER_MEET.replace("arrive", "arrive.relaxed")
_EXPECT = "@%p_t0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bars], {};\n"
_ACQUIRED = wait(form=".acquire.cluster")
_FENCED = "st.shared.v4.b32 [%r_mine], {%r_tid, %r_tid, %r_tid, %r_tid};\nfence.proxy.async;\n" + MEET
_SEND = (
    "add.u32 %r_theirs, %r_theirs, 4096;\n"
    "@%p_t0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
    "[%r_theirs], [%r_slot], 1024, [%r_their_bar];\n"
)
_SENT = _INIT + _PLACE + _FENCED + _EXPECT.format(1024) + _PEER + _SEND + _ACQUIRED
_TAKE = "ld.shared.b32 %r_value, [%r_mine+4096];\n" + _OUT
_ASYNC = (
    _INIT + _PLACE + "@@" + _PEER
    + "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r_theirs], %r_rank, [%r_their_bar];\n"
    + _ACQUIRED + "ld.shared.b32 %r_value, [%r_mine];\n" + _OUT + CLUSTER_MEET
)  # fmt: skip
_REMOTE = (
    _INIT + _PLACE + _PEER + "@%p_t0 st.shared::cluster.b32 [%r_theirs], %r_rank;\n"
    "@%p_t0 mbarrier.arrive@@.shared::cluster.b64 _, [%r_their_bar];\n"
) + _ACQUIRED + "ld.shared.b32 %r_value, [%r_slot];\n" + _OUT + CLUSTER_MEET  # fmt: skip
_CAST = (
    _INIT + _EXPECT.format(1024) + "mov.u16 %rs_mask, @@;\n"
    "@%p_c0t0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
    "[slots], [%rd_SOURCE], 1024, [bars], %rs_mask;\n"
    + wait() + "ld.shared.b32 %r_value, [slots];\n" + _OUT + CLUSTER_MEET
)  # fmt: skip
PAIRS = (
    Pair("a source that is read may outlive its CTA", _SENT + _TAKE + "@@", "", CLUSTER_MEET, cluster=2),
    Pair("a source is reused when another copy has come", _SENT + "@@" + _STORE + _TAKE.replace("+4096", "") +
         CLUSTER_MEET, "", CLUSTER_MEET, cluster=2),
    Pair("a source without a proxy fence", _SENT.replace("fence.proxy.async;\n", "@@") + _TAKE + CLUSTER_MEET, "",
         "fence.proxy.async;\n", cluster=2),
    Pair("a peer ends while it is read", _PLACE + _PEER + _STORE + CLUSTER_MEET + _READ + "@@", "", CLUSTER_MEET,
         cluster=2),
    Pair("the last meeting releases nothing", _PLACE + _PEER + _STORE + CLUSTER_MEET + _READ + "@@", _RELAXED,
         CLUSTER_MEET, cluster=2),
    Pair("a relaxed meeting publishes nothing", _PLACE + _PEER + _STORE + "@@" + _READ + CLUSTER_MEET, _RELAXED,
         CLUSTER_MEET, cluster=2),
    Pair("fewer bytes are expected than stored", _ASYNC, _EXPECT.format(512), _EXPECT.format(256), cluster=2),
    Pair("an arrival of the CTA's scope", _REMOTE, ".release.cta", ".release.cluster", cluster=2),
    Pair("a relaxed arrival", _REMOTE, ".relaxed.cluster", ".release.cluster", cluster=2),
    Pair("a multicast that misses a CTA", _CAST, "1", "3", cluster=2),
    Pair("a multicast to a CTA that is not there", _CAST, "7", "3", cluster=2),
)  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_the_buggy_kernel_is_refuted_and_the_fixed_one_proven(pair: Pair) -> None:
    assert pair.verdicts() == ("refuted", "proven")
