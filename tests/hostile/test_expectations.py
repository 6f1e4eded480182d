"""Who expects how many bytes, when and where; what test_wait and an elected lane are worth; slots that are staged,
halved or handed over. Buggy kernels are refuted, their twins proven."""

from __future__ import annotations

import pytest

from tests.hostile.kernel import CLUSTER_MEET, MEET, Pair, wait

_PLACES = """
mov.u32 %r_slot, slots; mov.u32 %r_bar, bars; shl.b32 %r_offset, %r_tid, 4; add.u32 %r_mine, %r_slot, %r_offset;
mul.wide.u32 %rd_to, %r_tid, 4; add.u64 %rd_to, %rd_to, %rd_RESULT;
"""
_LOAD = (
    "@%p_t0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [slots], [%rd_SOURCE], 1024, [bars];\n"
)
_READ = "ld.shared.b32 %r_value, [%r_mine]; st.global.b32 [%rd_to], %r_value;\n"
_EXPECT = "@{} mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bars], 1024;\n"
_ARRIVE = "@%p_t0 mbarrier.arrive.shared::cta.b64 _, [bars];\n"
_ARRIVE_EXPECTING = "@%p_t0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bars], {};\n"
_COUNTED = ("SOURCE", "RESULT", "count")


def _init(*counts: int, meet: str = MEET) -> str:
    inits = [f"@%p_t0 mbarrier.init.shared::cta.b64 [bars+{8 * at}], {count};\n" for at, count in enumerate(counts)]
    return "".join(inits) + "@%p_t0 fence.mbarrier_init.release.cluster;\n" + meet


_ONE = _init(1) + _PLACES
_HALVES = (
    _init(1, meet=CLUSTER_MEET) + _PLACES + _ARRIVE_EXPECTING.format("@@")
    + "shl.b32 %r_half, %r_rank, 9; add.u32 %r_to, %r_slot, %r_half; cvt.u64.u32 %rd_half, %r_half;\n"
    "add.u64 %rd_from, %rd_SOURCE, %rd_half; mov.u16 %rs_both, 3;\n"
    "@%p_t0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
    "[%r_to], [%rd_from], 512, [bars], %rs_both;\n" + wait() + _READ + CLUSTER_MEET
)  # fmt: skip
_STAGED = (
    _PLACES + "mov.u32 %r_i, 0;\nL: setp.ge.u32 %p_end, %r_i, %r_count; @%p_end bra END;\n"
    "and.b32 %r_odd, %r_i, 1; shl.b32 %r_odd, %r_odd, 10; add.u32 %r_to, %r_mine, %r_odd;\n"
    "add.u32 %r_at, %r_slot, %r_odd;\n@@st.shared.v4.b32 [%r_to], {%r_i, %r_i, %r_i, %r_i};\nfence.proxy.async;\n"
    + MEET + "@%p_t0 cp.async.bulk.global.shared::cta.bulk_group [%rd_RESULT], [%r_at], 1024;\n"
    "@%p_t0 cp.async.bulk.commit_group;\nadd.u32 %r_i, %r_i, 1; bra L;\nEND: @%p_t0 cp.async.bulk.wait_group 0;\n"
)  # fmt: skip
_FREE = "@%p_t0 cp.async.bulk.wait_group.read 1;\n"
_ALTERNATING = (
    _PLACES
    + """
mov.u32 %r_i, 0;
L: setp.ge.u32 %p_end, %r_i, %r_count; @%p_end bra END;
and.b32 %r_id, %r_i, 1; add.u32 %r_id, %r_id, 1;
@%p_w0 bra FILL;
@@bar.sync %r_id, 64; ld.shared.b32 %r_value, [slots]; bar.arrive 3, 64;
bra N;
FILL: setp.eq.u32 %p_first, %r_i, 0; @%p_first bra FILLED; bar.sync 3, 64;
FILLED: @%p_t0 st.shared.b32 [slots], %r_i; bar.arrive %r_id, 64;
N: add.u32 %r_i, %r_i, 1; bra L;
END: @%p_w0 bar.sync 3, 64;
"""
)
_TO_PEER = (
    _init(1, meet=CLUSTER_MEET) + _PLACES + _ARRIVE_EXPECTING.format(256)
    + "xor.b32 %r_peer, %r_rank, 1; mapa.shared::cluster.u32 %r_theirs, %r_mine, %r_peer;\n"
    "mapa.shared::cluster.u32 %r_signal, %r_bar, @@;\n"
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r_theirs], %r_tid, [%r_signal];\n"
    + wait(form=".acquire.cluster") + _READ + CLUSTER_MEET
)  # fmt: skip
_ELECTED = (
    _ONE + "setp.lt.u32 %p_few, %r_lane, 8;\n@%p_few bra L;\nbra M;\nL: elect.sync _|%p_one, @@;\n"
    "and.pred %p_one, %p_one, %p_w0; @%p_one mbarrier.arrive.shared::cta.b64 _, [bars];\nM: " + wait()
)  # fmt: skip
_RING_OF_RANKS = (
    _init(1, meet=CLUSTER_MEET) + _PLACES + "add.u32 %r_next, %r_rank, 1;\n"
    "@@mapa.shared::cluster.u32 %r_theirs, %r_bar, %r_next;\n"
    "@%p_t0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r_theirs];\n"
    + wait(form=".acquire.cluster") + CLUSTER_MEET
)  # fmt: skip
PAIRS = (
    Pair("another thread expects", _ONE + "@@" + wait() + _READ, _EXPECT.format("%p_t32") + _LOAD + _ARRIVE,
         _EXPECT.format("%p_t0") + _LOAD + _ARRIVE),
    Pair("expected after the arrival", _ONE + "@@" + wait() + _READ, _ARRIVE + _EXPECT.format("%p_t0") + _LOAD,
         _LOAD + _ARRIVE_EXPECTING.format(1024)),
    Pair("a half of what two CTAs bring", _HALVES, "512", "1024", cluster=2),
    Pair("test_wait does not wait", _ONE + _ARRIVE_EXPECTING.format(1024) + _LOAD + "@@" + _READ,
         "mbarrier.test_wait.parity.shared::cta.b64 %p_done, [bars], 0;\n", wait()),
    Pair("slots are free before the meeting", _STAGED, MEET + _FREE, _FREE + MEET, parameters=_COUNTED),
    Pair("named barriers alternate apart", _ALTERNATING, "xor.b32 %r_id, %r_id, 3;\n", "", parameters=_COUNTED),
    Pair("a store signals its own CTA", _TO_PEER, "%r_rank", "%r_peer", cluster=2),
    Pair("all lanes are named where eight are", _ELECTED, "-1", "255"),
    Pair("the last CTA signals one that is not there", _RING_OF_RANKS, "",
         "setp.eq.u32 %p_last, %r_next, 4; @%p_last mov.u32 %r_next, 0;\n", cluster=4),
)  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_the_buggy_kernel_is_refuted_and_the_fixed_one_proven(pair: Pair) -> None:
    assert pair.verdicts() == ("refuted", "proven")
