"""Protocol runs: the events of full runs, and what unknown data does."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.machine.gemm_text import gemm_launch, gemm_text
from tests.machine.small_kernels import HEADER, REGISTERS, launch, module

from tilewright.base.plan import Launch, NullPointerParam, OpaqueParam, Param, PointerParam, ScalarParam
from tilewright.frontends.ptx.ast import Module
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core.event import (
    Access,
    CopyActor,
    Event,
    NamedBarrier,
    RegisterHazard,
    TensorCoreActor,
    TensorMemoryActor,
    WarpActor,
)
from tilewright.machine.core.fault import MachineFault, MachineHang
from tilewright.machine.core.memory import VirtualBuffer
from tilewright.machine.core.run import run_launch
from tilewright.machine.protocol.protocol_run import ProtocolReport, run_protocol
from tilewright.machine.protocol.slicing.slice import protocol_slice

Buffers = dict[str, NDArray[np.uint8]]


def plain(event: Event) -> Any:
    """An event without the numbers that depend on the order in which copies and operations began, and without who took
    sums from accumulators: a slice does without what takes them."""
    fields = {
        "copy": CopyActor(0), "copies": (), "operation": None, "operations": (), "group": 0, "commit": 0,
        "taken": False,
    }  # fmt: skip
    found = {name: value for name, value in fields.items() if hasattr(event, name)}
    changed: Any = replace
    return changed(event, **found)


def by_actor(events: list[Event]) -> tuple[dict[WarpActor, list[Any]], Counter[Any]]:
    """Each warp's events in order; what engines accessed, in any order."""
    warps: dict[WarpActor, list[Any]] = {}
    engines: Counter[Any] = Counter()
    for event in events:
        actor = getattr(event, "actor", None)
        if isinstance(actor, WarpActor):
            warps.setdefault(actor, []).append(plain(event))
        elif isinstance(event, Access):
            engines[event.space, event.cta, event.ranges, event.write, event.span] += 1
        elif not isinstance(actor, CopyActor | TensorCoreActor | TensorMemoryActor):
            engines[plain(event) if not hasattr(event, "synchronized") else type(event).__name__] += 1
    return warps, engines


def gemm_buffers() -> Buffers:
    return {name: np.zeros(count * 2, np.uint8) for name, count in (("a", 256 * 320), ("b", 128 * 320), ("c", 1 << 15))}


def both(text: Module, given: Launch, buffers: Buffers) -> tuple[list[Event], list[Event], ProtocolReport]:
    full: list[Event] = []
    sliced: list[Event] = []
    run_launch(text, given, {name: data.copy() for name, data in buffers.items()}, observe=full.append)
    report = run_protocol(text, given, buffers, observe=sliced.append)
    return full, sliced, report


def protocol(
    body: str,
    *params: Param,
    parameters: str = "",
    globals_: str = "",
    threads: int = 32,
    grid: int = 1,
    **options: Any,
) -> tuple[ProtocolReport, list[Event]]:
    events: list[Event] = []
    text = module(body, parameters=parameters, globals_=globals_)
    names = [param.buffer for param in params if isinstance(param, PointerParam)]
    buffers = {name: VirtualBuffer(1 << 20) for name in names} | options.pop("buffers", {})
    given = launch(*params, threads=threads, grid=grid)
    return run_protocol(text, given, buffers, observe=events.append, **options), events


def lines(report: ProtocolReport) -> list[tuple[int, str]]:
    return [(taint.span.line, taint.what) for taint in report.taints]


def test_a_matrix_products_events_are_those_of_the_full_run() -> None:
    full, sliced, report = both(
        read(gemm_text(64, 3), "gemm.ptx"), gemm_launch(256, 128, 320, 64, 3, 2), gemm_buffers()
    )
    assert report.certain and report.fault is None
    full_warps, full_engines = by_actor(full)
    sliced_warps, sliced_engines = by_actor(sliced)
    assert full_engines == sliced_engines
    assert full_warps == sliced_warps


@pytest.mark.parametrize("schedule", ["canonical", "seeded"])
def test_loops_count_their_turns(schedule: Any) -> None:
    text, given = read(gemm_text(64, 3), "gemm.ptx"), gemm_launch(256, 128, 320, 64, 3, 2)
    report = run_protocol(text, given, gemm_buffers(), schedule=schedule)
    turns = sorted((loop.least, loop.most) for loop in report.loops if loop.most is not None and not loop.waits)
    assert turns == [(2, 2), (2, 2), (4, 4), (4, 4)]
    assert all(loop.protocol for loop in report.loops) and sum(loop.waits for loop in report.loops) == 2


def test_the_canonical_order_repeats_itself() -> None:
    text, given = read(gemm_text(64, 2), "gemm.ptx"), gemm_launch(256, 128, 640, 64, 2, 1)
    buffers = {name: VirtualBuffer(1 << 20) for name in "abc"}
    runs: list[list[Event]] = [[], []]
    for events in runs:
        run_protocol(text, given, buffers, observe=events.append)
    assert runs[0] == runs[1]


def test_a_hook_sees_back_edges_and_may_stop_the_run() -> None:
    text, given = read(gemm_text(64, 3), "gemm.ptx"), gemm_launch(256, 128, 320, 64, 3, 2)
    seen: list[tuple[int, int]] = []

    def hook(_cluster: object, warp: Any, loop: int) -> bool:
        seen.append((warp.index, loop))
        return len(seen) == 5

    report = run_protocol(text, given, gemm_buffers(), at_back_edge=hook)
    assert report.stopped and len(seen) == 5 and report.fault is None


def test_chosen_clusters_run() -> None:
    _, events = protocol("bar.sync 0;\nret;", grid=4, clusters=[2])
    actors = {getattr(event, "actor", None) for event in events} - {None}
    assert actors == {WarpActor(2, 0)}


def test_an_accumulator_touched_too_early_is_seen_although_it_is_not_computed() -> None:
    text = gemm_text(64, 3).replace("    wgmma.wait_group.sync.aligned 0;\n", "    mov.b32 %acc5, %acc4;\n")
    full, sliced, _ = both(read(text, "gemm.ptx"), gemm_launch(256, 128, 320, 64, 3, 2), gemm_buffers())
    hazards = [
        Counter((event.span.line, event.register, event.write) for event in events if isinstance(event, RegisterHazard))
        for events in (full, sliced)
    ]
    assert hazards[0] == hazards[1] and {"%acc4", "%acc5"} <= {register for _, register, _ in hazards[0]}


OUT = ".param .u64 out"


def test_a_branch_on_data_around_the_protocol_is_reported_with_its_source() -> None:
    report, _ = protocol(
        """ld.param.u64 %rd0, [out];
ld.global.u32 %r0, [%rd0];
add.u32 %r1, %r0, 1;
setp.eq.u32 %p0, %r1, 0;
@%p0 bra END;
bar.sync 0;
END:
ret;""",
        PointerParam("out"),
        parameters=OUT,
    )
    assert lines(report) == [(11, "branch")] and not report.certain
    ((span, kind),) = report.taints[0].sources
    assert span.line == 8 and kind == "data in global memory"


def test_data_in_a_known_buffer_is_known() -> None:
    body = """ld.param.u64 %rd0, [out];
ld.global.u32 %r0, [%rd0];
setp.eq.u32 %p0, %r0, 7;
@%p0 bra END;
bar.sync 0;
END:
ret;"""
    given = {"out": np.array([7, 0], np.uint32).view(np.uint8)}
    report, events = protocol(
        body, PointerParam("out"), parameters=OUT, buffers=given, known_buffers=frozenset({"out"})
    )
    assert report.certain and not any(isinstance(event, NamedBarrier) for event in events)


def test_a_buffer_that_the_kernel_writes_is_no_longer_known_and_the_callers_bytes_stay() -> None:
    given = np.array([7, 0], np.uint32).view(np.uint8)
    report, _ = protocol(
        """ld.param.u64 %rd0, [out];
mov.u32 %r1, %tid.x;
st.global.u32 [%rd0+4], %r1;
ld.global.u32 %r0, [%rd0+4];
setp.eq.u32 %p0, %r0, 7;
@%p0 bra END;
bar.sync 0;
END:
ret;""",
        PointerParam("out"),
        parameters=OUT,
        buffers={"out": given},
        known_buffers=frozenset({"out"}),
    )
    assert lines(report) == [(12, "branch")] and given.view(np.uint32).tolist() == [7, 0]


def test_a_slice_of_an_earlier_report_saves_the_rehearsal() -> None:
    body = """mov.u32 %r0, %ntid.x;
cvt.rn.f32.u32 %f0, %r0;
st.shared.f32 [cell], %f0;
ld.shared.u32 %r2, [cell];
setp.eq.u32 %p0, %r2, 0;
@%p0 bra END;
bar.sync 0;
END:
ret;"""
    text = module(body, globals_=".shared .align 8 .b8 cell[8];")
    first = run_protocol(text, launch(), {})
    assert first.certain and len(first.sliced.stores) == 1
    assert run_protocol(text, launch(), {}, sliced=first.sliced).certain
    lean = protocol_slice(first.sliced.text.kernel, text=first.sliced.text, stores=())
    report = run_protocol(text, launch(), {}, sliced=lean)
    assert lines(report) == [(12, "branch")] and "leaves out" in report.taints[0].sources[0][1]


@pytest.mark.parametrize("other", ["", "st.shared.f32 [cell+4], %f0;\n"])
def test_who_can_forget_observes_the_rehearsal(other: str) -> None:
    body = f"""mov.u32 %r0, %ntid.x;
cvt.rn.f32.u32 %f0, %r0;
{other}st.shared.f32 [cell], %f0;
ld.shared.u32 %r2, [cell];
setp.eq.u32 %p0, %r2, 0;
@%p0 bra END;
bar.sync 0;
END:
ret;"""
    text = module(body, globals_=".shared .align 8 .b8 cell[8];")
    apart: list[Event] = []
    alone = run_protocol(text, launch(grid=2), {}, observe=apart.append)
    seen: list[Event] = []
    forgotten: list[int] = []

    def forget() -> None:
        forgotten.append(len(seen))
        seen.clear()

    report = run_protocol(text, launch(grid=2), {}, observe=seen.append, forget=forget)
    assert len(forgotten) == 1 and forgotten[0] > 0
    assert seen == apart and any(isinstance(event, NamedBarrier) for event in seen)
    assert report.certain and report.sliced.stores == alone.sliced.stores and report.counts == alone.counts


def test_data_that_only_addresses_global_memory_makes_accesses_uncertain() -> None:
    report, events = protocol(
        """ld.param.u64 %rd0, [out];
ld.global.u32 %r0, [%rd0];
mul.wide.u32 %rd1, %r0, 4;
add.s64 %rd1, %rd1, %rd0;
st.global.u32 [%rd1+8], %r0;
st.global.u32 [%rd0], %r0;
ret;""",
        PointerParam("out"),
        parameters=OUT,
    )
    assert report.certain
    assert [(e.span.line, e.uncertain) for e in events if isinstance(e, Access)] == [
        (8, False),
        (11, True),
        (12, False),
    ]


@pytest.mark.parametrize(
    ("threads", "scatter", "met"),
    [
        (32, "st.global.u32 [%rd1+64], %r0;", False),
        (64, "st.global.u32 [%rd1+64], %r0;", True),
        (64, "ld.global.u32 %r1, [%rd1+64];", False),
        (64, "red.global.add.u32 [%rd1+64], 1;", False),
        (64, "red.global.add.u32 [%rd1+64], 1;\nst.global.u32 [%rd2], 1;", True),
    ],
)
def test_accesses_at_unknown_addresses_may_meet_others_of_the_buffer(threads: int, scatter: str, met: bool) -> None:
    report, _ = protocol(
        f"""ld.param.u64 %rd0, [out];
ld.param.u64 %rd2, [target];
ld.global.u32 %r0, [%rd0];
mul.wide.u32 %rd1, %r0, 4;
add.s64 %rd1, %rd1, %rd2;
{scatter}
ret;""",
        PointerParam("out"),
        PointerParam("target"),
        parameters=f"{OUT}, .param .u64 target",
        threads=threads,
    )
    assert lines(report) == ([(12, "global address")] if met else [])


def test_a_guard_on_data_lets_global_accesses_happen() -> None:
    report, events = protocol(
        """ld.param.u64 %rd0, [out];
ld.global.u32 %r0, [%rd0];
setp.ne.u32 %p0, %r0, 0;
@%p0 st.global.u32 [%rd0], %r0;
@%p0 bra SOME;
bra END;
SOME:
END:
setp.eq.u32 %p1, %r0, 0;
@%p1 bra LAST;
st.global.u32 [%rd0+128], %r0;
LAST:
ret;""",
        PointerParam("out"),
        parameters=OUT,
    )
    assert report.certain
    stores = [(e.span.line, e.uncertain, e.lanes) for e in events if isinstance(e, Access) and e.write]
    assert stores == [(10, True, 0xFFFF_FFFF), (17, True, 0xFFFF_FFFF)]


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("@%p0 st.shared.u32 [cell], %r0;", "guard"),
        ("st.shared.u32 [%r1], %r0;", "shared address"),
        ("mbarrier.arrive.shared::cta.b64 _, [%r1];", "synchronization"),
        ("bar.sync %r2, 32;", "synchronization"),
        ("@%p0 bar.sync 0;", "guard"),
    ],
)
def test_data_that_steers_the_protocol_is_reported(use: str, expected: str) -> None:
    report, _ = protocol(
        f"""ld.param.u64 %rd0, [out];
ld.global.u32 %r0, [%rd0];
and.b32 %r0, %r0, 3;
setp.ne.u32 %p0, %r0, 5;
mov.u32 %r1, cell;
mad.lo.u32 %r1, %r0, 8, %r1;
add.u32 %r2, %r0, 1;
{use}
ret;""",
        PointerParam("out"),
        parameters=OUT,
        globals_=".shared .align 8 .b8 cell[64];",
    )
    assert lines(report) == [(14, expected)]


def test_state_in_shared_memory_is_known_and_copied_data_is_not() -> None:
    body = """ld.param.u64 %rd0, [out];
mov.u32 %r0, %ntid.x;
cvt.rn.f32.u32 %f0, %r0;
mov.b32 %r1, %f0;
st.shared.u32 [cell], %r1;
bar.sync 0;
ld.shared.u32 %r2, [cell];
setp.gt.u32 %p0, %r2, 5;
@%p0 bra NEXT;
bar.sync 1;
NEXT:
{copy}
ld.shared.u32 %r3, [cell+4];
setp.eq.u32 %p1, %r3, 0;
@%p1 bra END;
bar.sync 2;
END:
ret;"""
    cells = ".shared .align 16 .b8 cell[16];"
    written = body.format(copy="st.shared.u32 [cell+4], 0;")
    report, events = protocol(written, PointerParam("out"), parameters=OUT, globals_=cells)
    assert report.certain
    assert [event.barrier for event in events if isinstance(event, NamedBarrier)] == [0]
    copied = body.format(copy="cp.async.ca.shared.global [cell], [%rd0], 16;\ncp.async.wait_all;")
    report, _ = protocol(copied, PointerParam("out"), parameters=OUT, globals_=cells)
    assert lines(report) == [(22, "branch")]
    assert report.taints[0].sources[0][1] == "data that a copy brought"


def test_shared_memory_that_nobody_wrote_is_unknown() -> None:
    report, _ = protocol(
        "ld.shared.u32 %r0, [cell];\nsetp.eq.u32 %p0, %r0, 0;\n@%p0 bra END;\nbar.sync 0;\nEND:\nret;",
        globals_=".shared .align 8 .b8 cell[8];",
    )
    assert lines(report) == [(9, "branch")]


def test_a_choice_taints_what_it_decides() -> None:
    """%r1 holds a constant on either way, and which one depends on data."""
    report, _ = protocol(
        """ld.param.u64 %rd0, [out];
ld.global.u32 %r0, [%rd0];
mov.u32 %r1, 1;
setp.eq.u32 %p0, %r0, 0;
@%p0 bra JOIN;
mov.u32 %r1, 2;
JOIN:
setp.eq.u32 %p1, %r1, 1;
@%p1 bra END;
bar.sync 0;
END:
ret;""",
        PointerParam("out"),
        parameters=OUT,
    )
    assert lines(report) == [(15, "branch")]


@pytest.mark.parametrize(
    ("choice", "at"),
    [
        ("@%p0 bra ELSE;\nst.global.u32 [%rd0], %r0;\nbra END;\nELSE:\nst.global.u32 [%rd0+4], %r0;", 10),
        (
            "MORE:\nsetp.eq.u32 %p1, %r0, 0;\n@%p1 bra END;\nst.global.u32 [%rd0+4], %r0;\n"
            "add.u32 %r0, %r0, 1;\nbra MORE;",
            12,
        ),
    ],
)
def test_a_choice_between_accesses_of_which_one_is_not_seen_is_reported(choice: str, at: int) -> None:
    report, _ = protocol(
        f"ld.param.u64 %rd0, [out];\nld.global.u32 %r0, [%rd0];\nsetp.eq.u32 %p0, %r0, 0;\n{choice}\nEND:\nret;",
        PointerParam("out"),
        parameters=OUT,
    )
    assert (at, "branch") in lines(report)


def test_a_poll_on_a_flag_is_left_and_reported() -> None:
    report, events = protocol(
        """ld.param.u64 %rd0, [out];
POLL:
ld.acquire.gpu.global.u32 %r0, [%rd0];
setp.eq.u32 %p0, %r0, 0;
@%p0 bra POLL;
bar.sync 0;
ret;""",
        PointerParam("out"),
        parameters=OUT,
        step_limit=10_000,
    )
    assert report.fault is None and lines(report) == [(11, "branch"), (11, "spin")]
    assert any(isinstance(event, NamedBarrier) for event in events)


def test_a_lock_taken_by_an_atomic_is_left_and_reported() -> None:
    report, _ = protocol(
        """ld.param.u64 %rd0, [out];
LOCK:
atom.acquire.gpu.global.cas.b32 %r0, [%rd0], 1, 2;
setp.ne.u32 %p0, %r0, 1;
@%p0 bra LOCK;
bar.sync 0;
ret;""",
        PointerParam("out"),
        parameters=OUT,
        step_limit=10_000,
    )
    assert report.fault is None and (11, "spin") in lines(report)


def test_where_a_cta_runs_is_unknown() -> None:
    report, _ = protocol("mov.u32 %r0, %smid;\nsetp.eq.u32 %p0, %r0, 0;\n@%p0 bra END;\nbar.sync 0;\nEND:\nret;")
    assert lines(report) == [(9, "branch")] and "%smid" in report.taints[0].sources[0][1]


def test_a_parameter_that_nobody_gave_is_unknown() -> None:
    body = """ld.param.u32 %r0, [count];
setp.eq.u32 %p0, %r0, 0;
@%p0 bra END;
bar.sync 0;
END:
ret;"""
    given, declared = ScalarParam("i32", 3), ".param .u32 count"
    report, _ = protocol(body, given, parameters=declared)
    assert report.certain
    report, _ = protocol(body, given, parameters=declared, unknown_parameters={"count": ((0, 4),)})
    assert lines(report) == [(9, "branch")]


WORK = """mov.u32 %r5, 0;
mbarrier.init.shared::cta.b64 [cell+16], 1;
fence.mbarrier_init.release.cluster;
NEXT:
mbarrier.arrive.expect_tx.shared::cta.b64 _, [cell+16], 16;
clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [cell], [cell+16];
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p0, [cell+16], %r5;
@!%p0 bra WAIT;
xor.b32 %r5, %r5, 1;
ld.shared.b128 %rq0, [cell];
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %rq0;
fence.proxy.async.shared::cta;
@%p1 bra NEXT;
ret;"""


@pytest.mark.parametrize(("taken", "turns"), [((), None), ((1,), 1), ((1, 3), 2)])
def test_work_that_a_cluster_takes_over_is_unknown_or_given(taken: tuple[int, ...], turns: int | None) -> None:
    opening = f".shared .align 16 .b8 cell[32];\n.visible .entry k() {{\n{REGISTERS}\n.reg .b128 %rq<2>;\n"
    text = read(f"{HEADER.replace('sm_90a', 'sm_100a')}{opening}{WORK}\n}}\n", "kernel.ptx")
    given = launch(threads=1, grid=4)
    report = run_protocol(text, given, {})
    assert report.takes_work and not report.certain
    report = run_protocol(text, given, {}, clusters=[0], taken=taken)
    assert report.certain and report.fault is None
    assert [loop.most for loop in report.loops if not loop.waits and loop.parent < 0] == [turns]


@pytest.mark.parametrize(
    ("given", "certain"),
    [
        (OpaqueParam(16, bytes(8)), True),
        (OpaqueParam(16, bytes(4)), False),
        (OpaqueParam(16, b"", ((4, PointerParam("out")),)), True),
        (OpaqueParam(16, b"", ((8, PointerParam("out")),)), False),
    ],
)
def test_what_a_launch_leaves_open_of_a_structure_is_unknown(given: OpaqueParam, certain: bool) -> None:
    body = "ld.param.u32 %r0, [all+4];\nsetp.eq.u32 %p0, %r0, 0;\n@%p0 bra END;\nbar.sync 0;\nEND:\nret;"
    report, _ = protocol(body, given, parameters=".param .align 8 .b8 all[16]", buffers={"out": VirtualBuffer(64)})
    assert report.certain == certain


def test_an_endless_kernel_is_given_up() -> None:
    report, _ = protocol("LOOP:\nbar.sync 0;\nbra LOOP;", step_limit=3000)
    assert isinstance(report.fault, MachineHang) and report.fault.code == "LV202"


def test_a_deadlock_is_a_fault_of_the_report() -> None:
    report, _ = protocol(
        """mbarrier.init.shared::cta.b64 [cell], 1;
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p0, [cell], 0;
@!%p0 bra WAIT;
ret;""",
        globals_=".shared .align 8 .b8 cell[8];",
        threads=1,
    )
    assert isinstance(report.fault, MachineHang) and report.fault.code == "LV201" and report.certain


def test_null_pointers_and_unused_parameters_do_no_harm() -> None:
    report, _ = protocol("ld.param.u64 %rd0, [out];\nret;", NullPointerParam(), parameters=OUT)
    assert report.certain and report.fault is None


def test_a_wgmma_operand_beyond_shared_memory_is_a_fault_where_nobody_asks_for_its_product() -> None:
    """64 rows of 128 bytes, of which the kernel has 8."""
    report, _ = protocol(
        """mov.u32 %r0, tile;
shr.u32 %r1, %r0, 4;
cvt.u64.u32 %rd0, %r1;
or.b64 %rd1, %rd0, 4611686293372403712;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd1, %rd1, 0, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
ret;""",
        globals_=".shared .align 1024 .b8 tile[1024];",
        threads=128,
    )
    assert isinstance(report.fault, MachineFault) and report.fault.diagnostic.code == "MF001"
    assert report.certain
