"""Which lanes of a warp run together is chance, and lanes may come to a barrier apart."""

from __future__ import annotations

import pytest

from tests.hostile.kernel import MEET, Pair, wait

_INIT = "@%p_t0 mbarrier.init.shared::cta.b64 [bars], {};\n" + MEET
_HALVES = "@!%p_w0 bra S;\nsetp.lt.u32 %p_low, %r_lane, 16;\n@%p_low bra A;\nadd.u32 %r_x, %r_tid, 1;\nA: @@\nS:\n"
_ARRIVE = "@%p_one mbarrier.arrive.shared::cta.b64 _, [bars];\n"
_LEADER = "activemask.b32 %r_active;\nbfind.u32 %r_last, %r_active;\nsetp.eq.u32 %p_one, %r_last, %r_lane;\n" + _ARRIVE
_COUNT = "{}popc.b32 %r_many, %r_active;\n@%p_t0 mbarrier.arrive.shared::cta.b64 _, [bars], %r_many;\n"
_ELECT = "{}elect.sync _|%p_one, %r_active;\n" + _ARRIVE
_NOW, _ALL = "activemask.b32 %r_active;\n", "mov.u32 %r_active, -1;\n"
PAIRS = (
    Pair("the last active lane arrives", _INIT.format(1) + _HALVES + wait(), _LEADER, _ELECT.format(_ALL)),
    Pair("a lane is elected of the active ones", _INIT.format(1) + _HALVES + wait(), _ELECT.format(_NOW),
         _ELECT.format(_ALL)),
    Pair("as many arrivals as lanes are active", _INIT.format(32) + _HALVES + wait(), _COUNT.format(_NOW),
         _COUNT.format(_ALL)),
)  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_what_depends_on_active_lanes_is_not_proven(pair: Pair) -> None:
    assert pair.verdicts() == ("unknown", "proven")


def test_lanes_may_come_to_an_unaligned_barrier_apart() -> None:
    """PTX ISA 9.7.13.1: without .aligned, lanes of a warp may execute different barriers."""
    apart = "setp.lt.u32 %p_low, %r_lane, 16;\n@%p_low bra A;\n@@ 0;\nbra E;\nA: @@ 0;\nE:\n"
    pair = Pair("halves of a warp", apart, "bar.sync", "barrier.sync")
    assert pair.verdicts() == ("refuted", "unknown")
    assert "come to it apart" in pair.report(pair.fixed).reasons[0]
