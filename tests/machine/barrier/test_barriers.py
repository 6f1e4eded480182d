"""Named barriers, mbarriers, cluster barriers and register budgets."""

from __future__ import annotations

import numpy as np
import pytest
from tests.machine.small_kernels import run_into

from tilewright.machine.core.event import (
    BarrierArrive,
    BarrierWait,
    ClusterBarrier,
    ClusterWait,
    Event,
    MemoryFence,
    NamedBarrier,
    NamedBarrierArrive,
)
from tilewright.machine.core.fault import MachineFault, MachineHang
from tilewright.machine.core.run import RunReport

TRANSPOSE = """
.shared .align 16 .b8 tile[4096];
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x;
mov.u32 %r2, tile;
mad.lo.u32 %r3, %r1, 4, %r2;
mad.wide.u32 %rd2, %r1, 4, %rd1;
ld.global.u32 %r4, [%rd2];
st.shared.u32 [%r3], %r4;
bar.sync 0;
shr.u32 %r5, %r1, 5;
and.b32 %r6, %r1, 31;
mad.lo.u32 %r7, %r6, 32, %r5;
mad.lo.u32 %r7, %r7, 4, %r2;
ld.shared.u32 %r8, [%r7];
st.global.u32 [%rd2], %r8;
ret;
"""


def test_transpose_through_shared_memory() -> None:
    for seed in range(5):
        out = np.arange(1024, dtype=np.uint32).reshape(32, 32)
        run_into(TRANSPOSE, out, threads=1024, seed=seed)
        assert np.array_equal(out, np.arange(1024).reshape(32, 32).T)


def test_a_missing_barrier_shows_in_some_interleaving() -> None:
    wrong = 0
    for seed in range(5):
        out = np.arange(1024, dtype=np.uint32).reshape(32, 32)
        run_into(TRANSPOSE.replace("bar.sync 0;\n", ""), out, threads=1024, seed=seed)
        wrong += not np.array_equal(out, np.arange(1024).reshape(32, 32).T)
    assert wrong


HAND_OVER = """
.shared .align 16 .b8 cell[128];
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x;
mov.u32 %r2, cell;
and.b32 %r3, %r1, 31;
mad.lo.u32 %r4, %r3, 4, %r2;
setp.ge.u32 %p1, %r1, 32;
@%p1 bra READER;
st.shared.u32 [%r4], 77;
bar.arrive 5, 64;
bra DONE;
READER:
bar.sync 5, 64;
ld.shared.u32 %r5, [%r4];
mad.wide.u32 %rd2, %r3, 4, %rd1;
st.global.u32 [%rd2], %r5;
DONE:
ret;
"""


def test_arrive_and_sync_on_a_named_barrier() -> None:
    events: list[Event] = []
    for seed in range(5):
        out = np.zeros(32, np.uint32)
        events.clear()
        run_into(HAND_OVER, out, threads=64, seed=seed, observe=events.append)
        assert (out == 77).all()
    arrivals = {event.actor.warp: event.waits for event in events if isinstance(event, NamedBarrierArrive)}
    assert arrivals == {0: False, 1: True}
    (done,) = [event for event in events if isinstance(event, NamedBarrier)]
    assert [actor.warp for actor in done.synchronized] == [1] and [actor.warp for actor in done.arrived] == [0]


def test_a_named_barrier_that_lacks_threads_hangs() -> None:
    with pytest.raises(MachineHang) as caught:
        run_into(HAND_OVER.replace("bar.arrive 5, 64;", ""), np.zeros(32, np.uint32), threads=64)
    (waiter,) = caught.value.waiters
    assert "named barrier 5: 32 of 64 threads are there (waiting: warp 1; arrived: none)" in waiter.reason


def test_named_barrier_counts_must_agree() -> None:
    with pytest.raises(MachineFault, match="NB202"):
        run_into(HAND_OVER.replace("bar.sync 5, 64", "bar.sync 5, 96"), np.zeros(32, np.uint32), threads=64)
    with pytest.raises(MachineFault, match="NB201"):
        run_into("bar.sync 16;\nret;", np.zeros(1, np.uint32))
    with pytest.raises(MachineFault, match="NB201"):
        run_into("bar.sync 1, 33;\nret;", np.zeros(1, np.uint32))


def test_barrier_without_count_ignores_exited_warps() -> None:
    run_into(
        "mov.u32 %r1, %tid.x;\nsetp.ge.u32 %p1, %r1, 32;\n@%p1 exit;\nbar.sync 0;\nret;",
        np.zeros(1, np.uint32),
        threads=96,
    )


PING = """
.shared .align 8 .b64 bar;
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra READY;
mbarrier.init.shared::cta.b64 [bar], 64;
READY:
bar.sync 0;
mov.u32 %r2, 0;
mov.u32 %r3, 0;
ROUND:
mbarrier.arrive.shared::cta.b64 %rd3, [bar];
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], %r3;
@!%p2 bra WAIT;
xor.b32 %r3, %r3, 1;
add.u32 %r2, %r2, 1;
setp.lt.u32 %p3, %r2, 7;
@%p3 bra ROUND;
mad.wide.u32 %rd2, %r1, 4, %rd1;
st.global.u32 [%rd2], %r2;
ret;
"""


def test_mbarrier_rounds_by_parity_and_by_state() -> None:
    by_state = PING.replace(
        "try_wait.parity.shared::cta.b64 %p2, [bar], %r3", "try_wait.shared::cta.b64 %p2, [bar], %rd3"
    )
    for text in (PING, by_state, PING.replace("try_wait", "test_wait")):
        for seed in range(4):
            events: list[Event] = []
            out = np.zeros(64, np.uint32)
            report = run_into(text, out, threads=64, seed=seed, observe=events.append)
            assert (out == 7).all() and report.phases == 7
            waits = [event for event in events if isinstance(event, BarrierWait)]
            assert sorted({event.phase for event in waits}) == list(range(7))
            arrivals = [event for event in events if isinstance(event, BarrierArrive)]
            assert sum(event.count for event in arrivals) == 64 * 7


INIT_BY_ALL = """\
mov.u32 %r1, %tid.x;
add.u32 %r2, %r1, 1;
setp.lt.u32 %p1, %r1, {threads};
@%p1 mbarrier.init.shared::cta.b64 [bar], {count};
bar.sync 0;
mbarrier.arrive.shared::cta.b64 _, [bar];
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
@!%p2 bra WAIT;
mad.wide.u32 %rd2, %r1, 4, %rd1;
st.global.b32 [%rd2], 7;
"""


def initialised_by(threads: int, count: str = "64", again: str = "") -> RunReport:
    text = INIT_BY_ALL.format(threads=threads, count=count).replace("bar.sync 0;", f"bar.sync 0;{again}")
    return run_into(
        "ld.param.u64 %rd1, [out];\n" + text, np.zeros(64, np.uint32), threads=64,
        globals_=".shared .align 8 .b8 bar[8];",
    )  # fmt: skip


@pytest.mark.parametrize("threads", [1, 32, 33, 64])
def test_threads_may_execute_one_init_alike(threads: int) -> None:
    assert initialised_by(threads).phases == 1


def test_an_init_may_be_repeated_before_any_use() -> None:
    again = "@%p1 mbarrier.init.shared::cta.b64 [bar], 64; bar.sync 0;"
    assert initialised_by(32, again=again).phases == 1


@pytest.mark.parametrize(
    ("threads", "count", "again"),
    [
        (32, "%r2", ""),
        (1, "64", "@%p1 mbarrier.init.shared::cta.b64 [bar], 63;"),
        (64, "64", "mbarrier.arrive.shared::cta.b64 _, [bar]; mbarrier.init.shared::cta.b64 [bar], 64;"),
    ],
)
def test_other_repeated_inits_are_faults(threads: int, count: str, again: str) -> None:
    with pytest.raises(MachineFault) as caught:
        initialised_by(threads, count, again)
    assert caught.value.code == "MB203"


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("mbarrier.init.shared::cta.b64 [bar], 64;", "", "MB202"),
        ("[bar], 64;", "[bar], 64;\nmbarrier.init.shared::cta.b64 [bar], 63;", "MB203"),
        ("[bar], 64;", "[bar], 0;", "MB201"),
        ("ROUND:", "ROUND:\nmbarrier.arrive.shared::cta.b64 _, [bar], 70;", "MB209"),
        ("[bar], %r3;", "[bar], 2;", "MB212"),
        ("bar.sync 0;", "bar.sync 0;\nmbarrier.test_wait.parity.shared::cta.b64 %p2, [bar+4], 0;", "MF002"),
    ],
)
def test_mbarrier_misuse(old: str, new: str, code: str) -> None:
    with pytest.raises(MachineFault) as caught:
        run_into(PING.replace(old, new, 1), np.zeros(64, np.uint32), threads=64)
    assert caught.value.code == code
    assert caught.value.span is not None and "mbarrier" in caught.value.span.text


def test_polling_for_ever_is_given_up() -> None:
    text = PING.replace("try_wait", "test_wait").replace("[bar], 64;", "[bar], 65;")
    with pytest.raises(MachineHang) as caught:
        run_into(text, np.zeros(64, np.uint32), threads=64)
    assert caught.value.code == "LV202" and "waits in a row failed" in caught.value.message


def test_invalidate_and_reinitialise() -> None:
    run_into(
        PING.replace(
            "[bar], 64;", "[bar], 3;\nmbarrier.inval.shared::cta.b64 [bar];\nmbarrier.init.shared::cta.b64 [bar], 64;"
        ),
        np.zeros(64, np.uint32),
        threads=64,
    )


REMOTE = """
.shared .align 8 .b64 bar;
.shared .align 16 .b8 cell[128];
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x;
mov.u32 %r2, %cluster_ctarank;
mov.u32 %r3, cell;
mov.u32 %r4, bar;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra READY;
mbarrier.init.shared::cta.b64 [%r4], 32;
fence.mbarrier_init.release.cluster;
READY:
barrier.cluster.arrive.release.aligned;
barrier.cluster.wait.acquire.aligned;
xor.b32 %r5, %r2, 1;
mapa.shared::cluster.u32 %r6, %r3, %r5;
mapa.shared::cluster.u32 %r7, %r4, %r5;
mad.lo.u32 %r8, %r1, 4, %r6;
mad.lo.u32 %r9, %r2, 100, %r1;
st.shared::cluster.u32 [%r8], %r9;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];
WAIT:
mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r4], 0;
@!%p2 bra WAIT;
mad.lo.u32 %r10, %r1, 4, %r3;
ld.shared.u32 %r11, [%r10];
mov.u32 %r12, %ctaid.x;
mad.lo.u32 %r13, %r12, 32, %r1;
mad.wide.u32 %rd2, %r13, 4, %rd1;
st.global.u32 [%rd2], %r11;
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
ret;
"""


def test_remote_arrivals_and_stores_in_a_cluster() -> None:
    events: list[Event] = []
    for seed in range(6):
        events.clear()
        out = np.zeros((4, 32), np.uint32)
        run_into(REMOTE, out, grid=4, cluster=2, seed=seed, observe=events.append)
        lanes = np.arange(32)
        assert np.array_equal(out, [100 + lanes, lanes, 100 + lanes, lanes])
    arrivals = [event for event in events if isinstance(event, BarrierArrive)]
    assert all(event.cta == event.actor.cta ^ 1 and event.count == 32 for event in arrivals)
    assert sum(isinstance(event, ClusterBarrier) for event in events) == 4
    assert sum(isinstance(event, ClusterWait) for event in events) == 8


def test_waiting_on_a_remote_barrier_is_a_fault() -> None:
    with pytest.raises(MachineFault, match="MB211"):
        run_into(REMOTE.replace("%p2, [%r4], 0", "%p2, [%r7], 0"), np.zeros((2, 32), np.uint32), grid=2, cluster=2)


def test_cluster_barrier_misuse() -> None:
    with pytest.raises(MachineFault, match="CL201"):
        run_into("barrier.cluster.wait.aligned;\nret;", np.zeros(1, np.uint32))
    with pytest.raises(MachineFault, match="CL201"):
        run_into("barrier.cluster.arrive.aligned;\nbarrier.cluster.arrive.aligned;\nret;", np.zeros(1, np.uint32))


BUDGET = """
mov.u32 %r1, %tid.x;
setp.ge.u32 %p1, %r1, 128;
@%p1 bra SECOND;
setmaxnreg.dec.sync.aligned.u32 40;
bra DONE;
SECOND:
setmaxnreg.inc.sync.aligned.u32 200;
DONE:
ret;
"""


def test_register_budget() -> None:
    for seed in range(4):
        run_into(BUDGET, np.zeros(1, np.uint32), threads=256, directives=".maxnreg 120", seed=seed)
    with pytest.raises(MachineHang, match=r"waits for 2816 registers \(setmaxnreg.inc 208\)"):
        run_into(BUDGET.replace("200", "208"), np.zeros(1, np.uint32), threads=256, directives=".maxnreg 120")
    with pytest.raises(MachineFault, match="SR201"):
        run_into(BUDGET.replace("200", "104"), np.zeros(1, np.uint32), threads=256, directives=".maxnreg 120")


def test_a_barrier_reduces_predicates() -> None:
    """Threads below 40 of 96 vote yes; the second round is of two warps only, and of other votes."""
    out = np.zeros((96, 4), np.uint32)
    for seed in range(10):
        out[:] = 0
        run_into(
            """
            ld.param.u64 %rd1, [out];
            mov.u32 %r1, %tid.x;
            mad.wide.u32 %rd1, %r1, 16, %rd1;
            setp.lt.u32 %p1, %r1, 40;
            barrier.red.popc.u32 %r2, 1, %p1;
            bar.red.and.pred %p2, 1, 96, %p1;
            bar.red.or.pred %p3, 2, !%p1;
            selp.u32 %r3, 1, 0, %p2;
            selp.u32 %r4, 1, 0, %p3;
            mov.u32 %r5, 0;
            setp.ge.u32 %p4, %r1, 64;
            @%p4 bra DONE;
            setp.ge.u32 %p5, %r1, 1;
            bar.red.popc.u32 %r5, 3, 64, %p5;
            DONE:
            st.global.v4.u32 [%rd1], {%r2, %r3, %r4, %r5};
            ret;
            """,
            out,
            threads=96,
            seed=seed,
        )
        assert (out[:, :3] == [40, 0, 1]).all()
        assert (out[:64, 3] == 63).all() and (out[64:, 3] == 0).all()


@pytest.mark.parametrize("count", [100, 16, 264])
def test_register_counts_that_do_not_exist(count: int) -> None:
    with pytest.raises(MachineFault, match="SR202"):
        run_into(f"setmaxnreg.dec.sync.aligned.u32 {count}; ret;", np.zeros(1, np.uint32), threads=128)


ONE_INSTRUCTION_MANY_BARRIERS = """
.shared .align 16 .b8 bars[16];
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x;
mov.u32 %r2, bars;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra READY;
mbarrier.init.shared.b64 [%r2], 64;
mbarrier.init.shared.b64 [%r2+8], 64;
READY:
bar.sync 0;
mov.u32 %r3, 0;
NEXT:
and.b32 %r4, %r3, 1;
shr.u32 %r5, %r3, 1;
and.b32 %r5, %r5, 1;
mad.lo.u32 %r6, %r4, 8, %r2;
mbarrier.arrive.shared.b64 _, [%r6], 1;
WAIT:
mbarrier.try_wait.parity.shared.b64 %p3, [%r6], %r5;
@!%p3 bra WAIT;
add.u32 %r3, %r3, 1;
setp.lt.u32 %p4, %r3, 8;
@%p4 bra NEXT;
ret;
"""


def test_one_instruction_uses_many_barriers_in_many_phases() -> None:
    for seed in range(3):
        events: list[Event] = []
        run_into(ONE_INSTRUCTION_MANY_BARRIERS, np.zeros(1, np.uint32), threads=64, seed=seed, observe=events.append)
        expected = [(8 * (turn & 1), turn >> 1 & 1, turn >> 1) for turn in range(8)]
        for warp in range(2):
            waits = [event for event in events if isinstance(event, BarrierWait) and event.actor.warp == warp]
            assert [(wait.address - waits[0].address, wait.parity, wait.phase) for wait in waits] == expected
        arrivals = [event for event in events if isinstance(event, BarrierArrive)]
        assert sorted((each.phase, each.count) for each in arrivals) == [(turn >> 2, 32) for turn in range(16)]


def test_who_is_woken_comes_to_the_barrier_again_in_the_next_turn() -> None:
    body = "mov.u32 %r3, 0;\nNEXT: bar.sync 1, 64;\nadd.u32 %r3, %r3, 1;\nsetp.lt.u32 %p1, %r3, 5;\n@%p1 bra NEXT; ret;"
    for seed in range(3):
        events: list[Event] = []
        run_into(body, np.zeros(1, np.uint32), threads=64, seed=seed, observe=events.append)
        kinds = [type(event) for event in events if isinstance(event, NamedBarrier | NamedBarrierArrive)]
        assert kinds == [NamedBarrierArrive, NamedBarrierArrive, NamedBarrier] * 5


def test_lanes_that_have_exited_count_as_members_of_a_warp_barrier() -> None:
    events: list[Event] = []
    body = "mov.u32 %r1, %tid.x;\nsetp.ge.u32 %p1, %r1, 8;\n@%p1 exit;\nbar.warp.sync {};\nret;"
    for members in ("-1", "0xff", "%r2"):
        text = f"mov.u32 %r2, -1;\n{body.format(members)}"
        run_into(text, np.zeros(1, np.uint32), observe=events.append)
    assert [event.lanes for event in events if isinstance(event, MemoryFence)] == [0xFFFF_FFFF] * 3
