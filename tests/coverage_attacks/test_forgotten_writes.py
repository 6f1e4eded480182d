"""Accesses to one word that race with one another in no order: whoever comes later must come after each of them.

They are atomic, or store the same, so none of them is wrong; but the newest does not stand for the others. The twin of
each kernel waits for one of two threads, or at one of two barriers, and what the other one does may come later.
Source: PTX ISA 8.9 (races), 9.7.9.25 (cp.reduce.async.bulk: each operation is relaxed, at the scope of the GPU).
"""

from __future__ import annotations

import pytest

from tests.coverage_attacks.protocols import CLUSTER_BARRIER, Pair, assert_told_apart, looped, wait

_ALL = "bar.arrive 1, 96; bra F; R: bar.sync 1, 96; "
_BEGIN = "@%p_t0 st.shared.b32 [%r_slot], 0; bar.sync 0; setp.eq.u32 %p_w2, %r_warp, 2; @%p_w2 bra R; "


def _one(warp: int) -> str:
    return f"setp.eq.u32 %p_q, %r_warp, {warp}; @%p_q bar.arrive 1, 64; bra F; R: bar.sync 1, 64; "


_READ = "ld.shared.b32 %r_v, [%r_slot]; F: bar.sync 0; "
_ADD = "red.shared.add.u32 [%r_slot], 1; "
_OVERWRITE = "@%p_l0 st.shared.b32 [%r_slot], 5; F: bar.sync 0; "
_STRONG = "@%p_l0 st.relaxed.cta.shared.b32 [%r_slot], %r_warp; "
_SAME = "@%p_l0 st.shared.b32 [%r_slot], 7; "
_LOOK = "setp.eq.u32 %p_w1, %r_warp, 1; @%p_w1 bra A; ld.relaxed.cta.shared.b32 %r_v, [%r_slot]; A: @%p_w1 " + _ADD
_INIT = (
    "@!%p_t0 bra I; mbarrier.init.shared::cta.b64 [%r_bar], 1; mbarrier.init.shared::cta.b64 [%r_bar+8], 1; "
    "fence.mbarrier_init.release.cluster; I: bar.sync 0; mov.u32 %r_phase, 0; "
)
_REDUCE = (
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [{0}], 256; "
    "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 "
    "[%r_sums], [%r_buf], 256, [{0}]; "
)
_FIRST, _SECOND = wait("%r_bar", "%r_phase", "V"), wait("%r_bar+8", "%r_phase", "W")
_LOAD = "ld.shared.b32 %r_v, [%r_sum]; "
_REDUCED = _INIT + looped(
    "shl.b32 %r_o, %r_tid, 2; add.u32 %r_my, %r_buf, %r_o; add.u32 %r_sums, %r_buf, 8192; add.u32 %r_sum, %r_sums, "
    "%r_o; st.shared.b32 [%r_my], %r_tid; st.shared.b32 [%r_sum], 0; fence.proxy.async.shared::cta; bar.sync 0; "
    f"@!%p_t0 bra S; {_REDUCE.format('%r_bar')}{_REDUCE.format('%r_bar+8')}S: {_FIRST}{_SECOND}{_LOAD}bar.sync 0; "
    "xor.b32 %r_phase, %r_phase, 1; "
)

PAIRS = {
    "the other warp has not added": Pair(_BEGIN + _ADD + _ALL + _READ, _ALL, _one(1), ("NB101",), threads=96),
    "what another warp adds is overwritten": Pair(
        _BEGIN + _ADD + _ALL + _OVERWRITE, _ALL, _one(1), ("NB101",), threads=96
    ),
    "the other warp has not stored": Pair(_BEGIN + _STRONG + _ALL + _READ, _ALL, _one(1), ("NB101",), threads=96),
    "another warp has not stored the same value": Pair(
        _BEGIN + _SAME + _ALL + _OVERWRITE, _ALL, _one(1), ("NB101",), threads=96
    ),
    "another warp has not looked": Pair(_BEGIN + _LOOK + _ALL + _OVERWRITE, _ALL, _one(1), ("NB101",), threads=96),
    "a thread has looked by an ordinary load before": Pair(
        "@%p_t0 st.shared.b32 [%r_slot], 0; bar.sync 0; setp.eq.u32 %p_q, %r_warp, 0; @%p_q bra A; "
        f"ld.relaxed.cta.shared.b32 %r_v, [%r_slot]; bra F; A: {_ADD}F: bar.sync 0; ",
        "ld.relaxed",
        "ld.shared.b32 %r_u, [%r_slot]; ld.relaxed",
        ("NB101",),
    ),
    "the first of two reductions": Pair(
        _REDUCED, _FIRST + _SECOND + _LOAD, _SECOND + _LOAD + _FIRST, ("MB111",), cluster=2
    ),
    "the second of two reductions": Pair(
        _REDUCED, _FIRST + _SECOND + _LOAD, _FIRST + _LOAD + _SECOND, ("MB111",), cluster=2
    ),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_one_access_does_not_stand_for_others(pair: Pair) -> None:
    assert_told_apart(pair)


def test_reductions_of_several_ctas_are_no_race_with_one_another_but_with_stores_they_are() -> None:
    add = (
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r_count], %r_one, [%r_told]; "
    )
    store = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r_count], %r_one, [%r_told]; "
    wide = wait("%r_bar", "%r_phase", form="acquire.cluster.shared::cta")
    body = (
        _INIT
        + (
            f"{CLUSTER_BARRIER}mapa.shared::cluster.u32 %r_told, %r_bar, 0; "
            "mapa.shared::cluster.u32 %r_count, %r_slot, 0; setp.eq.u32 %p_r0, %r_rank, 0; "
            "mov.u32 %r_one, 1; and.pred %p_z, %p_r0, %p_t0; "
        )
        + looped(
            "@%p_z st.shared.b32 [%r_slot], 0; @%p_z fence.proxy.async.shared::cta; "
            "@%p_z mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r_bar], 512; "
            f"{CLUSTER_BARRIER}{add}@!%p_r0 bra S; {wide}ld.shared.b32 %r_v, [%r_slot]; "
            f"S: xor.b32 %r_phase, %r_phase, 1; {CLUSTER_BARRIER}"
        )
    )
    one = f"setp.eq.u32 %p_q, %r_tid, 9; @%p_q {store}@!%p_q {add}"
    assert_told_apart(Pair(body, add, one, ("TM102",), cluster=2))
