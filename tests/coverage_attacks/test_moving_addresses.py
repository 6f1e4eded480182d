"""A loop whose copies move on in shared memory with each iteration leaves it, or overwrites a barrier, some time."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked

MOVING = """\
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n, .param .u64 data) .reqntid 32
{{
    .reg .pred %p<9>; .reg .b32 %r<12>; .reg .b64 %d<4>;
    .shared .align 128 .b8 tile[65536];
    .shared .align 8 .b8 bar[8];
    ld.param.u32 %r1, [n];
    ld.param.u64 %d1, [data];
    mov.u32 %r3, %tid.x;
    setp.ne.u32 %p8, %r3, 0;
    @%p8 bra DONE;
    mbarrier.init.shared::cta.b64 [bar], 1;
    fence.mbarrier_init.release.cluster;
    mov.u32 %r4, 0;
    mov.u32 %r5, tile;
    mov.u32 %r7, 0;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra DONE;
LOOP:
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%d1], 16, [bar];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], %r7;
    @!%p2 bra WAIT;
    xor.b32 %r7, %r7, 1;
    add.u32 %r4, %r4, 1;
    {next}
    setp.lt.u32 %p3, %r4, %r1;
    @%p3 bra LOOP;
DONE:
    ret;
}}
"""
BY_COUNT = "and.b32 %r6, %r4, {mask}; shl.b32 %r6, %r6, 4; mov.u32 %r5, tile; add.u32 %r5, %r5, %r6;"


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "step",
    [
        "add.u32 %r5, %r5, 16;",
        "shl.b32 %r6, %r4, 4; mov.u32 %r5, tile; add.u32 %r5, %r5, %r6;",
        "mad.lo.u32 %r5, %r4, 16, 128;",
        BY_COUNT.format(mask=8191),
    ],
)
def test_addresses_that_never_come_back_are_not_proven(step: str) -> None:
    assert checked(MOVING.format(next=step)).verdict == "unknown"


def test_addresses_of_a_ring_are_proven() -> None:
    assert checked(MOVING.format(next=BY_COUNT.format(mask=3))).verdict == "proven"
