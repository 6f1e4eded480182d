"""cp.async: what lands, when a wait lets a thread pass, and what an mbarrier is told."""

from __future__ import annotations

import numpy as np
import pytest
from tests.machine.small_kernels import run_into

from tilewright.machine.core.event import Access, AsyncCopyArrive, AsyncCopyIssue, AsyncCopyWait, Event, PhaseEnd
from tilewright.machine.core.fault import MachineFault, MachineHang

SEEDS = range(12)

START = """
.shared .align 128 .b8 tile[2048];
.shared .align 8 .b8 bar[8];
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x;
mov.u32 %r2, tile;
mad.lo.u32 %r3, %r1, 16, %r2;
mad.wide.u32 %rd2, %r1, 16, %rd1;
"""
FINISH = """
ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r3];
add.s64 %rd3, %rd2, 512;
st.global.v4.u32 [%rd3], {%r10, %r11, %r12, %r13};
ret;
"""


def source() -> np.ndarray[tuple[int, ...], np.dtype[np.uint32]]:
    out = np.zeros((2, 32, 4), np.uint32)
    out[0] = np.arange(128, dtype=np.uint32).reshape(32, 4) + 1
    return out


@pytest.mark.parametrize("wait", ["cp.async.commit_group; cp.async.wait_group 0;", "cp.async.wait_all;"])
def test_what_was_waited_for_has_landed(wait: str) -> None:
    for seed in SEEDS:
        out = source()
        run_into(START + "cp.async.cg.shared.global [%r3], [%rd2], 16;" + wait + FINISH, out, seed=seed)
        assert np.array_equal(out[0], out[1])


def test_without_a_wait_some_run_reads_too_early() -> None:
    early = 0
    for seed in SEEDS:
        out = source()
        run_into(START + "cp.async.cg.shared.global [%r3], [%rd2], 16; cp.async.commit_group;" + FINISH, out, seed=seed)
        early += not np.array_equal(out[0], out[1])
    assert early


def test_groups_are_counted_from_the_newest() -> None:
    """wait_group 1 covers the first of two groups; the second may still be in flight."""
    body = (
        START
        + """
        cp.async.ca.shared.global [%r3], [%rd2], 16;
        cp.async.commit_group;
        cp.async.ca.shared.global [%r3+512], [%rd2], 16;
        cp.async.commit_group;
        cp.async.wait_group 1;
        """
        + FINISH
    )
    pending = 0
    for seed in SEEDS:
        out = source()
        events: list[Event] = []
        run_into(body, out, seed=seed, observe=events.append)
        assert np.array_equal(out[0], out[1])
        at = next(index for index, event in enumerate(events) if isinstance(event, AsyncCopyWait))
        landed = [event for event in events[:at] if isinstance(event, Access) and event.space == "shared"]
        pending += len(landed) < 2
    assert pending


def test_groups_of_diverged_lanes_are_their_own() -> None:
    """Odd lanes commit a second group: for them wait_group 1 covers the first; for even lanes that is the newest."""
    early = {"": 0, "!": 0}
    for negated in early:
        body = f"""
            and.b32 %r4, %r1, 1;
            setp.eq.u32 %p1, %r4, 1;
            cp.async.ca.shared.global [%r3], [%rd2], 16;
            cp.async.commit_group;
            @%p1 cp.async.commit_group;
            @{negated}%p1 cp.async.wait_group 1;
            """
        for seed in range(20):
            out = source()
            run_into(START + body + FINISH, out, seed=seed)
            early[negated] += not np.array_equal(out[0], out[1])
    assert early[""] == 0
    assert early["!"] > 0


@pytest.mark.parametrize(("copied", "read"), [(16, 16), (16, 5), (16, 0), (8, 3), (4, 4), (4, 0)])
def test_what_the_source_size_leaves_out_becomes_zero(copied: int, read: int) -> None:
    out = source()
    kind = "cg" if copied == 16 else "ca"
    text = f"cp.async.{kind}.shared.global [%r3], [%rd2], {copied}, {read}; cp.async.wait_all;"
    clear = "mov.u32 %r9, -1; st.shared.v4.u32 [%r3], {%r9, %r9, %r9, %r9};"
    run_into(START + clear + text + FINISH, out)
    wanted = np.full((32, 16), 0xFF, np.uint8)
    wanted[:, :copied] = 0
    wanted[:, :read] = out[0].view(np.uint8)[:, :read]
    assert np.array_equal(out[1].view(np.uint8), wanted)


def test_an_ignored_source_is_not_touched() -> None:
    out = source()
    body = (
        START
        + """
        setp.ge.u32 %p1, %r1, 16;
        selp.b64 %rd4, 16, %rd2, %p1;
        cp.async.cg.shared.global [%r3], [%rd4], 16, %p1;
        cp.async.wait_all;
        """
        + FINISH
    )
    events: list[Event] = []
    run_into(body, out, observe=events.append)
    assert np.array_equal(out[1][:16], out[0][:16])
    assert not out[1][16:].any()
    reads = [event for event in events if isinstance(event, Access) and event.space == "global" and not event.write]
    assert [event.lanes for event in reads] == [0xFFFF]


def test_a_copy_is_told_once_for_a_warp() -> None:
    out = source()
    events: list[Event] = []
    run_into(
        START + "cp.async.ca.shared.global [%r3], [%rd2], 8; cp.async.wait_all;" + FINISH, out, observe=events.append
    )
    (issue,) = [event for event in events if isinstance(event, AsyncCopyIssue)]
    assert issue.lanes == 0xFFFF_FFFF
    assert issue.shared == tuple((16 * lane, 16 * lane + 8) for lane in range(32))
    (landed,) = [event for event in events if isinstance(event, Access) and event.actor == issue.copy and event.write]
    assert landed.ranges == issue.shared and landed.proxy == "generic"


BARRIER = """
mov.u32 %r5, bar;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra READY;
mbarrier.init.shared::cta.b64 [%r5], COUNT;
READY:
bar.sync 0;
cp.async.cg.shared.global [%r3], [%rd2], 16;
"""
WAIT = """
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r5], 0;
@!%p2 bra WAIT;
"""


def test_arrivals_that_count_come_when_the_bytes_have_landed() -> None:
    for seed in SEEDS:
        out = source()
        events: list[Event] = []
        text = BARRIER.replace("COUNT", "32") + "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r5];" + WAIT
        run_into(START + text + FINISH, out, seed=seed, observe=events.append)
        assert np.array_equal(out[0], out[1])
        (arrive,) = [event for event in events if isinstance(event, AsyncCopyArrive)]
        assert (arrive.count, arrive.phase, arrive.no_increment, arrive.lanes) == (32, 0, True, 0xFFFF_FFFF)


def test_arrivals_that_raise_the_count_first_change_nothing_in_the_end() -> None:
    """The barrier takes one arrival, lane 0's own; the copies hold its phase open until they have landed."""
    for seed in SEEDS:
        out = source()
        text = (
            BARRIER.replace("COUNT", "1")
            + "cp.async.mbarrier.arrive.shared::cta.b64 [%r5]; bar.warp.sync -1;"
            + "@!%p1 mbarrier.arrive.shared::cta.b64 _, [%r5];"
            + WAIT
        )
        events: list[Event] = []
        run_into(START + text + FINISH, out, seed=seed, observe=events.append)
        assert np.array_equal(out[0], out[1])
        assert sum(isinstance(event, PhaseEnd) for event in events) == 1


def test_counting_arrivals_go_where_a_phase_takes_them() -> None:
    arrive = "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r5];"
    with pytest.raises(MachineHang, match="LV201"):
        run_into(START + BARRIER.replace("COUNT", "33") + arrive + WAIT + FINISH, source())
    twice = BARRIER.replace("COUNT", "33").replace("bar.sync 0;", "bar.sync 0;" + arrive) + arrive + WAIT
    events: list[Event] = []
    run_into(START + twice + FINISH, source(), observe=events.append)
    arrivals = [(event.phase, event.count) for event in events if isinstance(event, AsyncCopyArrive)]
    assert arrivals == [(0, 32), (0, 1), (1, 31)]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("cp.async.cg.shared.global [%r3+8], [%rd2], 16;", "MF002"),
        ("cp.async.cg.shared.global [%r3], [%rd2+8], 16;", "MF002"),
        ("cp.async.cg.shared.global [%r3], [%rd2+4096], 16;", "MF001"),
        ("cp.async.cg.shared.global [%r3], [%rd2], 16, %r5;", "MF007"),
        ("mov.u32 %r6, bar; cp.async.mbarrier.arrive.shared::cta.b64 [%r6];", "MB202"),
    ],
)
def test_what_the_isa_forbids_is_a_fault(text: str, code: str) -> None:
    with pytest.raises(MachineFault, match=code):
        run_into(START + "mov.u32 %r5, 17;" + text + FINISH, source())
