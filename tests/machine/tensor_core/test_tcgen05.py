"""Tensor memory: allocation, loads and stores, waits, commits, and the events they yield."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.machine.tcgen05_kernels import OPENING, allocate, free, module, registers, run, wait

from tilewright.base.plan import Launch, PointerParam
from tilewright.ir.ac.tensor_memory import COLUMN_STEP, LEAST_COLUMNS, MOST_COLUMNS
from tilewright.machine.core.event import (
    Access,
    CommitArrive,
    Event,
    TensorMemoryActor,
    TensorMemoryAllocate,
    TensorMemoryCommit,
    TensorMemoryDeallocate,
    TensorMemoryFence,
    TensorMemoryIssue,
    TensorMemoryRegisterUse,
    TensorMemoryRelinquish,
    TensorMemoryWait,
)
from tilewright.machine.core.fault import MachineFault, MachineHang
from tilewright.machine.core.run import run_launch
from tilewright.machine.instruction.tensor_core.tcgen05_move import fragment
from tilewright.machine.tensor_core.tensor_memory import COLUMNS, LANES
from tilewright.targets import target

NOTHING = np.zeros(4, np.uint32)


def kinds(events: list[Event], *wanted: type) -> list[Any]:
    return [event for event in events if isinstance(event, wanted)]


# Allocation


def test_sizes_are_those_of_the_target() -> None:
    """What the machine and the dialect count by; each stands once more in the table."""
    facts = target("sm_100a")
    assert (facts.limit("tensor_memory.lanes"), facts.limit("tensor_memory.columns")) == (LANES, COLUMNS)
    ends = facts.limit("tensor_memory.allocation_columns_min"), facts.limit("tensor_memory.allocation_columns_max")
    assert ends == (LEAST_COLUMNS, MOST_COLUMNS) and facts.limit("product.columns_step") == COLUMN_STEP


def test_an_allocation_writes_its_address_and_is_told() -> None:
    events: list[Event] = []
    out = np.full(4, 99, np.uint32)
    body = f"""{OPENING}{allocate(64)}
@%p0 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
@%p1 st.global.b32 [%rd1], %r5;
{free(64)}"""
    run(body, NOTHING, out, observe=events.append)
    assert out[0] == 0
    (allocation,) = kinds(events, TensorMemoryAllocate)
    assert (allocation.cta, allocation.column, allocation.columns, allocation.cta_group) == (0, 0, 64, 1)
    written = events[events.index(allocation) + 1]
    assert isinstance(written, Access) and written.write and written.space == "shared" and not written.atomic
    assert written.ranges[0][1] - written.ranges[0][0] == 4
    (freed,) = kinds(events, TensorMemoryDeallocate)
    assert (freed.column, freed.columns) == (0, 64)
    assert len(kinds(events, TensorMemoryRelinquish)) == 1


def test_a_second_block_is_another_one() -> None:
    out = np.zeros(4, np.uint32)
    body = f"""{OPENING}{allocate(256)}
@!%p0 bra END;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3], 128;
ld.shared.b32 %r7, [%r3];
tcgen05.alloc.cta_group::1.sync.aligned.b32 [%rd4], 128;
ld.shared.b32 %r8, [%r3];
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r7, 128;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r8, 128;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r5, 256;
@%p1 st.global.b32 [%rd1], %r7;
@%p1 st.global.b32 [%rd1+4], %r8;
END: ret;"""
    generic = "mov.u64 %rd4, slot;\ncvta.shared.u64 %rd4, %rd4;\n"
    run(body.replace(OPENING, OPENING + generic), NOTHING, out)
    assert sorted(out[:2].tolist()) == [256, 384]


@pytest.mark.parametrize("seed", range(6))
def test_an_allocation_waits_for_free_columns(seed: int) -> None:
    out = np.zeros(4, np.uint32)
    body = f"""{OPENING}
setp.eq.u32 %p3, %r1, 1;
@%p0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3], 512;
bar.sync 0;
@%p3 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r4], 512;
@%p0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 0, 512;
@%p3 tcgen05.dealloc.cta_group::1.sync.aligned.b32 0, 512;
@%p1 st.global.b32 [%rd1], 7;
"""
    run(body, NOTHING, out, threads=64, seed=seed)
    assert out[0] == 7


def test_columns_that_nobody_frees_are_waited_for_in_vain() -> None:
    body = f"""{OPENING}
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3], 512;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3], 32;
"""
    with pytest.raises(MachineHang, match="waits for 32 free columns"):
        run(body, NOTHING, NOTHING.copy(), threads=32)


A32 = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3], 32;\n"
D32 = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 0, 32;\n"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (A32.replace("32;", "48;"), "TC201"),
        (A32.replace("32;", "16;"), "TC201"),
        (A32.replace("32;", "1024;"), "TC201"),
        (A32 + A32.replace("32;", "64;"), "TC202"),
        ("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n" + A32, "TC203"),
        (D32, "TC204"),
        (A32 + D32 + D32, "TC204"),
        (A32 + D32.replace("32;", "64;"), "TC204"),
        (A32 + D32.replace(" 0,", " 32,"), "TC204"),
        (A32 + "ret;", "TC205"),
        (A32 + "tcgen05.ld.sync.aligned.32x32b.x32.b32 " + registers(40, 32) + ", [1];\n" + D32, "TC206"),
        (D32 + A32, "TC204"),
        (A32 + "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r9}, [0x200000];\n" + D32, "TC207"),
        (A32 + "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r9}, [0x100000];\n" + D32, "TC207"),
        (A32 + "tcgen05.ld.sync.aligned.16x64b.x1.b32 {%r9}, [0x80000];\n" + D32, "TC207"),
        (A32.replace("group::1", "group::2"), "TC211"),
        (A32 + D32.replace("group::1", "group::2"), "TC210"),
        ("@%p1 " + A32 + D32, "MF005"),
        (A32 + "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r4];\n" + D32, "TC213"),
        (A32 + "@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r4];\n" + D32, "MB202"),
    ],
)
def test_faults(body: str, code: str) -> None:
    with pytest.raises(MachineFault) as caught:
        run(OPENING + body, NOTHING, NOTHING.copy(), threads=32)
    assert caught.value.code == code
    assert caught.value.span is not None and caught.value.span.line >= 8


# Pairs of CTAs

PAIR = """
tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r3], COLUMNS;
tcgen05.dealloc.cta_group::2.sync.aligned.b32 0, COLUMNS;
"""


@pytest.mark.parametrize("seed", range(6))
def test_a_pair_allocates_as_one(seed: int) -> None:
    events: list[Event] = []
    body = OPENING + PAIR.replace("COLUMNS", "128")
    run(body, NOTHING, NOTHING.copy(), threads=32, grid=4, cluster=4, seed=seed, observe=events.append)
    assert sorted(event.cta for event in kinds(events, TensorMemoryAllocate)) == [0, 1, 2, 3]


def test_a_peer_that_does_not_allocate_is_waited_for_in_vain() -> None:
    body = f"{OPENING}mov.u32 %r7, %cluster_ctarank;\nsetp.eq.u32 %p3, %r7, 0;\n@%p3 bra END;\n"
    body += PAIR.replace("COLUMNS", "128") + "END: ret;"
    with pytest.raises(MachineHang, match="waits for CTA rank 0"):
        run(body, NOTHING, NOTHING.copy(), threads=32, grid=2, cluster=2)


def test_a_pair_that_disagrees() -> None:
    body = f"{OPENING}mov.u32 %r7, %cluster_ctarank;\nadd.u32 %r7, %r7, 1;\nmul.lo.u32 %r7, %r7, 32;\n"
    with pytest.raises(MachineFault) as caught:
        run(body + PAIR.replace("COLUMNS", "%r7"), NOTHING, NOTHING.copy(), threads=32, grid=2, cluster=2)
    assert caught.value.code == "TC212"


# Loads and stores

Digits = tuple[tuple[int, int], ...]
MOST_REGISTERS = 128
SHAPES = {"32x32b": (1, 1), "16x64b": (1, 2), "16x128b": (2, 4), "16x256b": (4, 8), "16x32bx2": (1, 1)}
"""Of each shape, the registers and the columns of .x1 (PTX ISA, tcgen05.ld)."""
WIDTHS = [
    (shape, times) for shape, (registers_, _) in SHAPES.items() for times in (1, 2, 4, 8, 16, 32, 64, 128)
    if registers_ * times <= MOST_REGISTERS
]  # fmt: skip


def as_compilers_have_it(shape: str, times: int) -> tuple[int, tuple[Digits, Digits]]:
    """Bits of a row, and the bit of a tile of lanes x (bits of a lane) from thread and register: strides of the
    thread's digits, as (extent, stride), then of the registers'. CUTLASS, copy_traits_sm100.hpp: TMEM_LOAD_16dp64b4x,
    _16dp128b2x, _16dp256b2x, _32dp32b4x, _16dp32b2x, and what their other widths have in common with them."""
    match shape:
        case "16x64b":
            row = 64 * times
            return row, (((2, 8 * row), (2, 32), (8, row)), ((times, 64),))
        case "16x128b":
            row = 128 * times
            return row, (((4, 32), (8, row)), ((2, 8 * row), (times, 128)))
        case "16x256b":
            row = 256 * times
            return row, (((4, 64), (8, row)), ((2, 32), (2, 8 * row), (times, 256)))
        case "32x32b":
            return 32 * times, (((32, 32 * times),), ((times, 32),))
        case _:
            return 64 * times, (((16, 64 * times), (2, 32 * times)), ((times, 32),))


@pytest.mark.parametrize(("shape", "times"), WIDTHS)
def test_fragments_are_those_that_compilers_assume(shape: str, times: int) -> None:
    row_bits, (thread_digits, register_digits) = as_compilers_have_it(shape, times)
    count = int(np.prod([extent for extent, _ in register_digits]))
    lanes, columns = fragment(shape, count, times)
    for thread in range(32):
        for register in range(count):
            bit, rest = 0, thread
            for extent, stride in thread_digits:
                bit += rest % extent * stride
                rest //= extent
            rest = register
            for extent, stride in register_digits:
                bit += rest % extent * stride
                rest //= extent
            assert (lanes[register, thread], columns[register, thread]) == (bit // row_bits, bit % row_bits // 32)


def move(form: str, count: int, *, halves: bool = False, split: str = "", lane: int = 0) -> tuple[str, str]:
    """A store of %r40.. and a load to %r180.. of the same cells."""
    pack, unpack = (".pack::16b", ".unpack::16b") if halves else ("", "")
    at = f"[%r6+{lane << 16}]"
    store = f"tcgen05.st.sync.aligned.{form}{unpack}.b32 {at}{split}, {registers(40, count)};\n"
    load = f"tcgen05.ld.sync.aligned.{form}{pack}.b32 {registers(180, count)}, {at}{split};\n"
    return store, load


def test_these_are_all_shapes_and_widths() -> None:
    assert len(WIDTHS) == 8 + 8 + 7 + 6 + 8


@pytest.mark.parametrize(("shape", "times"), WIDTHS)
@pytest.mark.parametrize("halves", [False, True])
def test_what_is_stored_is_loaded(shape: str, times: int, halves: bool) -> None:
    """Of every shape and width, by lanes of the upper half for every second one of those that have 16."""
    count, form = SHAPES[shape][0] * times, f"{shape}.x{times}"
    lane = 16 * (times.bit_length() % 2) if shape in ("16x64b", "16x128b", "16x256b") else 0
    split = f", {2 * times}" if shape == "16x32bx2" else ""
    values = np.random.default_rng(times).integers(0, 1 << 32, (128, count), dtype=np.uint32)
    out = np.zeros_like(values)
    store, load = move(form, count, halves=halves, split=split, lane=lane)
    body = f"""{OPENING}{allocate()}
mad.wide.u32 %rd4, %r0, {4 * count}, %rd0;
mad.wide.u32 %rd5, %r0, {4 * count}, %rd1;
{"".join(f"ld.global.b32 %r{40 + i}, [%rd4+{4 * i}];" for i in range(count))}
{store}tcgen05.wait::st.sync.aligned;
{load}tcgen05.wait::ld.sync.aligned;
{"".join(f"st.global.b32 [%rd5+{4 * i}], %r{180 + i};" for i in range(count))}
{free()}"""
    run(body, values, out, seed=times)
    assert np.array_equal(out, values)


def test_the_second_half_begins_at_its_column_whatever_a_register_holds() -> None:
    out = np.zeros((128, 4), np.uint32)
    body = f"""{OPENING}{allocate()}
mov.b32 %r40, 0x11112222;
tcgen05.st.sync.aligned.16x32bx2.x1.unpack::16b.b32 [%r6], 2, {{%r40}};
tcgen05.wait::st.sync.aligned;
tcgen05.ld.sync.aligned.32x32b.x4.b32 {{%r50, %r51, %r52, %r53}}, [%r6];
tcgen05.wait::ld.sync.aligned;
mad.wide.u32 %rd5, %r0, 16, %rd1;
setp.lt.u32 %p2, %r2, 16;
@%p2 st.global.v4.b32 [%rd5], {{%r50, %r51, %r52, %r53}};
{free()}"""
    run(body, NOTHING, out)
    lanes = out.reshape(4, 32, 4)[:, :16]
    assert (lanes & 0xFFFF == [0x2222, 0x1111, 0x2222, 0x1111]).all()


def test_halves_stand_in_the_low_half_of_two_columns() -> None:
    out = np.zeros((128, 2), np.uint32)
    body = f"""{OPENING}{allocate()}
mov.b32 %r40, 0x11112222;
tcgen05.st.sync.aligned.32x32b.x1.unpack::16b.b32 [%r6], {{%r40}};
tcgen05.wait::st.sync.aligned;
tcgen05.ld.sync.aligned.32x32b.x2.b32 {{%r50, %r51}}, [%r6];
tcgen05.wait::ld.sync.aligned;
mad.wide.u32 %rd5, %r0, 8, %rd1;
st.global.v2.b32 [%rd5], {{%r50, %r51}};
{free()}"""
    run(body, NOTHING, out)
    assert (out & 0xFFFF == [0x2222, 0x1111]).all()


def test_a_store_that_is_not_waited_for_may_come_late() -> None:
    def found(waits: bool, seed: int) -> bool:
        out = np.zeros(128, np.uint32)
        body = f"""{OPENING}{allocate()}
mov.b32 %r40, 5; mov.b32 %r41, 6;
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r6], {{%r40}};
tcgen05.wait::st.sync.aligned;
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r6], {{%r41}};
{"tcgen05.wait::st.sync.aligned;" if waits else ""}
tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r42}}, [%r6];
tcgen05.wait::ld.sync.aligned;
mad.wide.u32 %rd5, %r0, 4, %rd1;
st.global.b32 [%rd5], %r42;
{free()}"""
        run(body, NOTHING, out, seed=seed)
        return bool((out == 6).all())

    assert all(found(True, seed) for seed in range(4))
    assert not all(found(False, seed) for seed in range(4))


def test_registers_before_their_wait_are_told() -> None:
    events: list[Event] = []
    body = f"""{OPENING}{allocate()}
mov.b32 %r40, 5;
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r6], {{%r40}};
add.u32 %r50, %r40, 1;
mov.b32 %r40, 6;
tcgen05.wait::st.sync.aligned;
mov.b32 %r40, 7;
tcgen05.ld.sync.aligned.32x32b.x2.b32 {{%r41, %r42}}, [%r6];
add.u32 %r43, %r41, 1;
mov.b32 %r42, 0;
tcgen05.wait::ld.sync.aligned;
add.u32 %r44, %r41, 1;
{free()}"""
    run(body, NOTHING, NOTHING.copy(), observe=events.append)
    uses = [(use.register, use.write) for use in kinds(events, TensorMemoryRegisterUse) if use.actor.warp == 2]
    assert uses == [("%r40", True), ("%r41", False), ("%r42", True)]
    issues = [issue for issue in kinds(events, TensorMemoryIssue) if issue.actor.warp == 2]
    assert [issue.kind for issue in issues] == ["st", "ld"]
    assert issues[0].registers == ("%r40",) and issues[1].registers == ("%r41", "%r42")
    (block,) = issues[1].reads
    assert (block.lane_begin, block.lane_end, block.column_begin, block.column_end) == (64, 96, 0, 2)
    assert [event.kind for event in kinds(events, TensorMemoryWait) if event.actor.warp == 2] == ["st", "ld"]


# Commits


@pytest.mark.parametrize("seed", range(4))
def test_a_commit_arrives_once_what_was_issued_is_done(seed: int) -> None:
    events: list[Event] = []
    body = f"""{OPENING}{allocate()}
mov.b64 %rd8, 0x0000400800100000;
tcgen05.fence::before_thread_sync;
@!%p1 bra WAIT;
tcgen05.cp.cta_group::1.32x128b.warpx4 [%r5], %rd8;
tcgen05.cp.cta_group::1.32x128b.warpx4 [%r5+4], %rd8;
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r4];
WAIT: {wait()}
{free()}"""
    run(body, NOTHING, NOTHING.copy(), shared=".shared .align 1024 .b8 data[4096];", seed=seed, observe=events.append)
    issues = kinds(events, TensorMemoryIssue)
    (commit,) = kinds(events, TensorMemoryCommit)
    (arrival,) = kinds(events, CommitArrive)
    assert commit.operations == tuple(issue.operation for issue in issues) and len(issues) == 2
    assert arrival.commit == commit.commit and (arrival.cta, arrival.address) == commit.barriers[0]
    reads = [e for e in kinds(events, Access) if isinstance(e.actor, TensorMemoryActor)]
    assert [(read.proxy, read.write, read.space) for read in reads] == [("async", False, "shared")] * 2
    assert max(events.index(read) for read in reads) < events.index(arrival)
    assert {fence.side for fence in kinds(events, TensorMemoryFence)} == {"before", "after"}


def test_a_multicast_commit_arrives_in_every_chosen_cta() -> None:
    events: list[Event] = []
    body = f"""{OPENING}mov.u32 %r7, %cluster_ctarank;
@%p1 mbarrier.init.shared::cta.b64 [%r4], 1;
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
setp.eq.u32 %p3, %r7, 1;
and.pred %p3, %p3, %p1;
mov.b16 %h0, 3;
@%p3 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r4], %h0;
{wait()}"""
    run(body, NOTHING, NOTHING.copy(), threads=32, grid=2, cluster=2, observe=events.append)
    assert sorted(arrival.cta for arrival in kinds(events, CommitArrive)) == [0, 1]


def test_launches_count_operations_apart() -> None:
    events: list[Event] = []
    body = f"{OPENING}{allocate(32)}tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r9}}, [%r6];\n{free(32)}"
    launch = Launch("k", (2, 1, 1), (128, 1, 1), (PointerParam("a"), PointerParam("a")), (1, 1, 1), 0)
    run_launch(module(body), launch, {"a": np.zeros(16, np.uint8)}, observe=events.append)
    numbers = [issue.operation.operation for issue in kinds(events, TensorMemoryIssue)]
    assert sorted(numbers) == list(range(8))


# Loads that reduce (sm_103a)


REDUCTIONS: dict[str, tuple[Any, Any]] = {
    "max.f32": (np.float32, np.fmax.reduce),
    "min.f32": (np.float32, np.fmin.reduce),
    "max.NaN.f32": (np.float32, np.max),
    "min.s32": (np.int32, np.min),
    "max.u32": (np.uint32, np.max),
}


@pytest.mark.parametrize("form", [*REDUCTIONS, "min.abs.f32"])
def test_loads_that_reduce(form: str) -> None:
    dtype, reduction = REDUCTIONS[form.replace(".abs", "")]
    generator = np.random.default_rng(4)
    values = generator.integers(-1000, 1000, (128, 4)).astype(dtype)
    if dtype is np.float32:
        values[5, 2] = np.nan
    out = np.zeros(128, dtype)
    store, load = move("32x32b.x4", 4)
    reducing = load.replace("tcgen05.ld.", "tcgen05.ld.red.").replace(".x4.b32", f".x4.{form}")
    reducing = reducing.replace(", [", ", %r20, [")
    body = f"""{OPENING}{allocate()}
mad.wide.u32 %rd4, %r0, 16, %rd0;
ld.global.v4.b32 {registers(40, 4)}, [%rd4];
{store}tcgen05.wait::st.sync.aligned;
{reducing}tcgen05.wait::ld.sync.aligned;
mad.wide.u32 %rd5, %r0, 4, %rd1;
st.global.b32 [%rd5], %r20;
{free()}"""
    run(body, values, out, target="sm_103a")
    assert np.array_equal(out, reduction(np.abs(values) if ".abs" in form else values, axis=1), equal_nan=True)


def test_an_address_of_the_first_quarter_means_the_warps_own() -> None:
    """As DeepGEMM's epilogue has it; the event tells, for the ISA does not allow it."""
    events: list[Event] = []
    out = np.zeros(128, np.uint32)
    body = f"""{OPENING}{allocate()}
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r6], {{%r0}};
tcgen05.wait::st.sync.aligned;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r42}}, [%r5];
tcgen05.wait::ld.sync.aligned;
mad.wide.u32 %rd5, %r0, 4, %rd1;
st.global.b32 [%rd5], %r42;
{free()}"""
    run(body, NOTHING, out, observe=events.append)
    assert np.array_equal(out, np.arange(128))
    loads = [issue for issue in kinds(events, TensorMemoryIssue) if issue.kind == "ld"]
    assert {issue.actor.warp: issue.other_quarter for issue in loads} == {0: False, 1: True, 2: True, 3: True}
    assert {issue.actor.warp: issue.reads[0].lane_begin for issue in loads} == {0: 0, 1: 32, 2: 64, 3: 96}
