"""Copies through unknown tensor maps: with known bytes they run; without, each phase tells what it expected of them."""

from __future__ import annotations

import pytest
from tests.machine.small_kernels import launch, module

from tilewright.base.plan import UnknownTensorMapParam
from tilewright.machine.core.event import Access, BarrierComplete, CopyIssue, Event
from tilewright.machine.core.fault import MachineHang
from tilewright.machine.core.memory import PARAM_WINDOW
from tilewright.machine.core.run import RunReport, run_launch

RING = """
.shared .align 128 .b8 tile[8192];
.shared .align 8 .b8 full[16];
.shared .align 8 .b8 empty[16];
mov.u32 %r1, %tid.x;
mov.u32 %r20, %warpid;
mov.u32 %r2, tile;
mov.u32 %r3, full;
mov.u32 %r4, empty;
mov.b64 %rd1, a; cvta.param.u64 %rd1, %rd1;
mov.b64 %rd2, b; cvta.param.u64 %rd2, %rd2;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra READY;
mbarrier.init.shared::cta.b64 [%r3], 1;
mbarrier.init.shared::cta.b64 [%r3+8], 1;
mbarrier.init.shared::cta.b64 [%r4], 1;
mbarrier.init.shared::cta.b64 [%r4+8], 1;
fence.mbarrier_init.release.cluster;
READY:
bar.sync 0;
mov.u32 %r5, 0;
setp.ne.u32 %p2, %r20, 0;
@%p2 bra CONSUME;
@%p1 bra DONE;
PRODUCE:
and.b32 %r6, %r5, 1;
shr.u32 %r7, %r5, 1;
and.b32 %r7, %r7, 1;
xor.b32 %r8, %r7, 1;
shl.b32 %r9, %r6, 3;
add.u32 %r10, %r4, %r9;
add.u32 %r11, %r3, %r9;
shl.b32 %r12, %r6, 12;
add.u32 %r12, %r12, %r2;
W1: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r10], %r8;
@!%p3 bra W1;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r11], 3072;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r12], [%rd1, {%r5, %r5}], [%r11];
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
    [%r12+2048], [%rd2, {%r5, %r5}], [%r11];
add.u32 %r5, %r5, 1;
setp.lt.u32 %p4, %r5, 5;
@%p4 bra PRODUCE;
bra DONE;
CONSUME:
and.b32 %r6, %r5, 1;
shr.u32 %r7, %r5, 1;
and.b32 %r7, %r7, 1;
shl.b32 %r9, %r6, 3;
add.u32 %r10, %r4, %r9;
add.u32 %r11, %r3, %r9;
W2: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r11], %r7;
@!%p3 bra W2;
bar.warp.sync -1;
setp.ne.u32 %p5, %r1, 32;
@!%p5 mbarrier.arrive.shared::cta.b64 _, [%r10];
add.u32 %r5, %r5, 1;
setp.lt.u32 %p4, %r5, 5;
@%p4 bra CONSUME;
DONE: ret;
"""
PARAMETERS = ".param .align 64 .b8 a[128], .param .align 64 .b8 b[128]"


def run(a: int | None, b: int | None, *, seed: int = 0, events: list[Event] | None = None) -> RunReport:
    given = launch(UnknownTensorMapParam(a), UnknownTensorMapParam(b), threads=64)
    kernel = module(RING, parameters=PARAMETERS)
    return run_launch(kernel, given, {}, seed=seed, observe=None if events is None else events.append)


@pytest.mark.parametrize("seed", range(4))
def test_known_bytes_move_and_unknown_ones_are_told_by_each_phase(seed: int) -> None:
    report = run(2048, 1024, seed=seed)
    assert report.unknown_phases == () and report.phases == 10
    report = run(None, None, seed=seed)
    assert report.phases == 10 and len(report.unknown_phases) == 5
    assert [phase.expected_bytes for phase in report.unknown_phases] == [3072] * 5
    for index, phase in enumerate(sorted(report.unknown_phases, key=lambda each: (each.phase, each.address))):
        base = 4096 * (index & 1)
        shares = [(share.origin, share.offset) for share in phase.shares]
        assert shares == [(PARAM_WINDOW, base), (PARAM_WINDOW + 128, base + 2048)]
        assert phase.phase == index >> 1


def test_one_unknown_map_gets_the_rest() -> None:
    report = run(2048, None)
    assert [phase.expected_bytes for phase in report.unknown_phases] == [1024] * 5
    assert all(len(phase.shares) == 1 for phase in report.unknown_phases)


def test_events_of_copies_with_and_without_bytes() -> None:
    events: list[Event] = []
    run(2048, None, events=events)
    issues = [event for event in events if isinstance(event, CopyIssue)]
    assert {(event.bytes, len(event.shared)) for event in issues} == {(2048, 1), (0, 1)}
    assert sum(event.bytes for event in events if isinstance(event, BarrierComplete)) == 5 * 3072
    written = [event for event in events if isinstance(event, Access) and event.proxy == "async"]
    assert sorted(event.ranges[0][1] - event.ranges[0][0] for event in written) == [16] * 5 + [2048] * 5


def test_wrong_bytes_hang() -> None:
    with pytest.raises(MachineHang, match="lacks 512 bytes"):
        run(2048, 512)


def test_a_copy_that_no_phase_waits_for_is_recorded() -> None:
    body = """
.shared .align 128 .b8 tile[128];
.shared .align 8 .b8 bar[8];
mov.u32 %r1, %tid.x;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra DONE;
mov.u32 %r2, tile;
mov.u32 %r3, bar;
mov.b64 %rd1, a; cvta.param.u64 %rd1, %rd1;
mbarrier.init.shared::cta.b64 [%r3], 1;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%rd1, {%r1, %r1}], [%r3];
DONE: ret;
"""
    kernel = module(body, parameters=".param .align 64 .b8 a[128]")
    (phase,) = run_launch(kernel, launch(UnknownTensorMapParam()), {}).unknown_phases
    assert phase.expected_bytes == 0 and phase.shares[0].origin == PARAM_WINDOW
