"""Forms of asynchronous copies: reductions, distributed shared memory, byte masks, rows by index, pairs of CTAs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.machine.small_kernels import REGISTERS, as_bytes, launch, run_into

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import Launch, Param, PointerParam, TensorMap, TensorMapParam
from tilewright.frontends.ptx.ast import Module
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core.event import Access, BarrierComplete, CopyIssue, Event
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.run import run_launch
from tilewright.machine.numbers.reduction import reduction

ONE_THREAD = "mov.u32 %r1, %tid.x;\nsetp.ne.u32 %p1, %r1, 0;\n"


def blackwell(body: str, parameters: str = ".param .u64 out", directives: str = "") -> Module:
    head = ".version 9.0\n.target sm_100a\n.address_size 64\n"
    return read(f"{head}.visible .entry k({parameters}) {directives} {{\n{REGISTERS}\n{body}\n}}\n", "kernel.ptx")


def run_blackwell(
    body: str, buffers: dict[str, NDArray[np.uint8]], *params: Param, parameters: str = ".param .u64 out",
    cluster: int = 1, events: list[Event] | None = None,
) -> None:  # fmt: skip
    given: Launch = launch(*params, cluster=cluster, grid=cluster)
    run_launch(blackwell(body, parameters), given, buffers, observe=None if events is None else events.append)


@pytest.mark.parametrize("operation", ["add", "min", "max", "inc", "dec", "and", "or", "xor"])
def test_reductions_of_words_in_global_memory(operation: str) -> None:
    old = np.arange(64, dtype=np.uint32) * 3
    out = old.copy()
    new = (np.arange(64, dtype=np.uint32) ^ 21).astype(np.uint32)
    kind = "b32" if operation in ("and", "or", "xor") else "u32"
    body = f"""
.shared .align 128 .b8 tile[256];
{ONE_THREAD}
ld.param.u64 %rd1, [out];
xor.b32 %r2, %r1, 21;
mov.u32 %r3, tile;
shl.b32 %r4, %r1, 2;
add.u32 %r4, %r4, %r3;
st.shared.u32 [%r4], %r2;
add.u32 %r5, %r1, 32;
xor.b32 %r5, %r5, 21;
st.shared.u32 [%r4+128], %r5;
fence.proxy.async.shared::cta;
bar.sync 0;
@%p1 bra DONE;
cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation}.{kind} [%rd1], [%r3], 256;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
DONE: ret;
"""
    events: list[Event] = []
    run_into(body, out, observe=events.append)
    function = reduction(operation, "u32")
    assert function is not None
    assert np.array_equal(out, function(as_bytes(old), as_bytes(new)).view(np.uint32))
    expected = {
        "add": old + new, "min": np.minimum(old, new), "max": np.maximum(old, new), "and": old & new, "or": old | new,
        "xor": old ^ new, "inc": np.where(old >= new, 0, old + 1),
        "dec": np.where((old == 0) | (old > new), new, old - 1),
    }[operation]  # fmt: skip
    assert np.array_equal(out, expected)
    atomic = [event for event in events if isinstance(event, Access) and event.atomic]
    assert len(atomic) == 1 and atomic[0].write and atomic[0].space == "global" and atomic[0].order == "relaxed"


def test_sums_of_halves_and_signed_extrema() -> None:
    add, most = reduction("add", "f16"), reduction("max", "s32")
    assert add is not None and most is not None and reduction("xor", "f32") is None
    old, new = np.array([1.5, -2], np.float16), np.array([0.25, 5], np.float16)
    assert np.array_equal(add(as_bytes(old), as_bytes(new)).view(np.float16), old + new)
    left, right = np.array([-5, 7], np.int32), np.array([3, -9], np.int32)
    assert np.array_equal(most(as_bytes(left), as_bytes(right)).view(np.int32), [3, 7])


TO_PEER = """
.shared .align 16 .b8 mine[512];
.shared .align 8 .b64 bar;
mov.u32 %r1, %tid.x;
setp.ne.u32 %p1, %r1, 0;
mov.u32 %r2, %cluster_ctarank;
xor.b32 %r3, %r2, 1;
mov.u32 %r4, mine;
mov.u32 %r5, bar;
mad.lo.u32 %r6, %r2, 100, %r1;
shl.b32 %r7, %r1, 2;
add.u32 %r7, %r7, %r4;
st.shared.u32 [%r7], %r6;
st.shared.u32 [%r7+256], %r6;
@%p1 bra READY;
mbarrier.init.shared::cta.b64 [%r5], 1;
fence.mbarrier_init.release.cluster;
fence.proxy.async.shared::cta;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], EXPECTED;
READY:
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
mapa.shared::cluster.u32 %r8, %r4, %r3;
mapa.shared::cluster.u32 %r9, %r5, %r3;
COPY
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r5], 0;
@!%p2 bra WAIT;
ld.shared.u32 %r10, [%r7+256];
ld.param.u64 %rd1, [out];
mad.lo.u32 %r11, %r2, 32, %r1;
mad.wide.u32 %rd1, %r11, 4, %rd1;
st.global.u32 [%rd1], %r10;
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
ret;
"""
TX = "mbarrier::complete_tx::bytes"
LANES = np.arange(32, dtype=np.uint32)


@pytest.mark.parametrize(
    ("copy", "expected", "mine", "theirs"),
    [
        (f"@!%p1 cp.async.bulk.shared::cluster.shared::cta.{TX} [%r8+256], [%r4], 128, [%r9];", 128, 0, 1),
        (f"@!%p1 cp.reduce.async.bulk.shared::cluster.shared::cta.{TX}.add.u32 [%r8+256], [%r4], 128, [%r9];",
         128, 1, 1),
        (f"add.u32 %r12, %r8, 256; sub.u32 %r13, %r7, %r4; add.u32 %r12, %r12, %r13;"
         f"st.async.weak.shared::cluster.{TX}.u32 [%r12], %r6, [%r9];", 128, 0, 1),
        (f"add.u32 %r12, %r8, 256; sub.u32 %r13, %r7, %r4; add.u32 %r12, %r12, %r13;"
         f"red.async.relaxed.cluster.shared::cluster.{TX}.add.u32 [%r12], %r6, [%r9];", 128, 1, 1),
    ],
)  # fmt: skip
def test_copies_into_a_peer(copy: str, expected: int, mine: int, theirs: int) -> None:
    body = TO_PEER.replace("EXPECTED", str(expected)).replace("COPY", copy)
    for seed in range(3):
        out = np.zeros((2, 32), np.uint32)
        run_into(body, out, cluster=2, grid=2, seed=seed)
        for rank in range(2):
            own, peer = 100 * rank + LANES, 100 * (1 - rank) + LANES
            assert np.array_equal(out[rank], mine * own + theirs * peer)


def test_a_vector_sent_to_a_peer() -> None:
    copy = (
        "mov.u32 %r14, 7; shl.b32 %r13, %r1, 3; add.u32 %r12, %r8, 256; add.u32 %r12, %r12, %r13;"
        f"setp.lt.u32 %p3, %r1, 16; @%p3 st.async.weak.shared::cluster.{TX}.v2.u32 [%r12], {{%r6, %r14}}, [%r9];"
    )
    out = np.zeros((2, 32), np.uint32)
    run_into(TO_PEER.replace("EXPECTED", "128").replace("COPY", copy), out, cluster=2, grid=2)
    assert np.array_equal(out[0, 0::2], 100 + np.arange(16)) and (out[:, 1::2] == 7).all()


@pytest.mark.parametrize(
    ("spoiled", "code"),
    [
        ("@%p3 add.u32 %r12, %r12, 2;", "MF002"),  # one lane's address alone
        ("@%p3 mov.u32 %r9, %r5;", "TX202"),  # one lane's barrier alone
        ("mov.u32 %r9, %r5;", "TX202"),
    ],
)
def test_one_lane_that_sends_to_the_wrong_place(spoiled: str, code: str) -> None:
    copy = (
        "shl.b32 %r13, %r1, 2; add.u32 %r12, %r8, 256; add.u32 %r12, %r12, %r13; setp.eq.u32 %p3, %r1, 31;"
        f"{spoiled} st.async.weak.shared::cluster.{TX}.u32 [%r12], %r6, [%r9];"
    )
    with pytest.raises(MachineFault) as caught:
        run_into(TO_PEER.replace("EXPECTED", "128").replace("COPY", copy), np.zeros(64, np.uint32), cluster=2, grid=2)
    assert caught.value.code == code


def test_the_barrier_must_be_where_the_bytes_go() -> None:
    copy = f"@!%p1 cp.async.bulk.shared::cluster.shared::cta.{TX} [%r8+256], [%r4], 128, [%r5];"
    with pytest.raises(MachineFault) as caught:
        run_into(TO_PEER.replace("EXPECTED", "128").replace("COPY", copy), np.zeros(64, np.uint32), cluster=2, grid=2)
    assert caught.value.code == "TX202"


@pytest.mark.parametrize(
    ("size", "offset", "code"),
    [("120", "0", "AL203"), ("128", "8", "AL201"), ("128", "0x100000", "MF001"), ("0xFFFFFFF0", "0", "MF001")],
)
def test_sizes_and_addresses_of_bulk_copies(size: str, offset: str, code: str) -> None:
    body = f"""
.shared .align 128 .b8 tile[256];
{ONE_THREAD}
ld.param.u64 %rd1, [out];
mov.u32 %r3, tile;
@%p1 bra DONE;
cp.async.bulk.global.shared::cta.bulk_group [%rd1+{offset}], [%r3], {size};
DONE: ret;
"""
    with pytest.raises(MachineFault) as caught:
        run_into(body, np.zeros(256, np.uint8))
    assert caught.value.code == code


def test_no_bytes_to_a_peer_are_not_known() -> None:
    copy = f"@!%p1 cp.async.bulk.shared::cluster.shared::cta.{TX} [%r8+256], [%r4], 0, [%r9];"
    with pytest.raises(TilewrightError, match="0 bytes in this form is neither documented nor measured"):
        run_into(TO_PEER.replace("EXPECTED", "0").replace("COPY", copy), np.zeros(64, np.uint32), cluster=2, grid=2)


def test_zeros_in_bulk_and_a_byte_mask() -> None:
    out = np.full(64, 0xEE, np.uint8)
    body = f"""
.shared .align 16 .b8 tile[64];
{ONE_THREAD}
ld.param.u64 %rd1, [out];
mov.u32 %r3, tile;
@%p1 bra DONE;
st.bulk.weak.shared::cta [%r3], 64, 0;
mov.u32 %r4, 0x05060708;
st.shared.u32 [%r3+16], %r4;
mov.u16 %h1, 0x8005;
fence.proxy.async.shared::cta;
cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd1], [%r3], 64, %h1;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
DONE: ret;
"""
    events: list[Event] = []
    run_blackwell(body, {"out": out}, PointerParam("out"), events=events)
    rows = out.reshape(4, 16)
    assert (rows[:, [1, *range(3, 15)]] == 0xEE).all()
    assert rows[1, [0, 2, 15]].tolist() == [8, 6, 0] and not rows[[0, 2, 3]][:, [0, 2, 15]].any()
    written = [event for event in events if isinstance(event, Access) and event.space == "global" and event.write]
    assert len(written) == 1 and len(written[0].ranges) == 9  # bytes 15 and 16 touch
    zeros = [event for event in events if isinstance(event, Access) and event.proxy == "generic" and event.lanes == 1]
    assert zeros[0].ranges == ((0, 64),)


ROWS = """
.shared .align 128 .b8 tile[512];
.shared .align 8 .b8 bar[8];
mov.u32 %r1, %tid.x;
setp.ne.u32 %p1, %r1, 0;
mov.b64 %rd1, source; cvta.param.u64 %rd1, %rd1;
mov.b64 %rd2, target; cvta.param.u64 %rd2, %rd2;
mov.u32 %r2, tile;
mov.u32 %r3, bar;
@%p1 bra DONE;
mbarrier.init.shared::cta.b64 [%r3], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 512;
mov.u32 %r4, 0; mov.u32 %r5, 6; mov.u32 %r6, 1; mov.u32 %r7, 99; mov.u32 %r8, 2;
cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes
    [%r2], [%rd1, {%r4, %r5, %r6, %r7, %r8}], [%r3];
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
@!%p2 bra WAIT;
mov.u32 %r5, 3; mov.u32 %r6, 0; mov.u32 %r7, 5; mov.u32 %r8, 7;
cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%rd2, {%r4, %r5, %r6, %r7, %r8}], [%r2];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
DONE: ret;
"""


@pytest.mark.parametrize("swizzle", ["none", "128B"])
def test_rows_by_index(swizzle: str) -> None:
    source = np.random.default_rng(0).integers(0, 1 << 16, (8, 64), np.uint16)
    target = np.zeros_like(source)
    rows = TensorMap(Element.U16, (64, 8), (128,), (64, 1), swizzle="128B" if swizzle == "128B" else "none")
    parameters = ".param .align 64 .b8 source[128], .param .align 64 .b8 target[128]"
    buffers = {"source": as_bytes(source), "target": as_bytes(target)}
    run_blackwell(ROWS, buffers, TensorMapParam("source", rows), TensorMapParam("target", rows), parameters=parameters)
    expected = np.zeros_like(source)
    expected[[3, 0, 7]] = source[[6, 1, 2]]  # row 99 is outside: zeros, to row 5
    assert np.array_equal(target, expected)


def test_rows_by_index_need_a_box_of_one_row() -> None:
    tall = TensorMap(Element.U16, (64, 8), (128,), (64, 4))
    parameters = ".param .align 64 .b8 source[128], .param .align 64 .b8 target[128]"
    buffers = {"source": np.zeros(1024, np.uint8), "target": np.zeros(1024, np.uint8)}
    with pytest.raises(MachineFault) as caught:
        run_blackwell(
            ROWS, buffers, TensorMapParam("source", tall), TensorMapParam("target", tall), parameters=parameters
        )
    assert caught.value.code == "TM202" and caught.value.span is not None and "gather4" in caught.value.span.text


PAIR = """
.shared .align 128 .b8 tile[256];
.shared .align 8 .b8 bar[8];
mov.u32 %r1, %tid.x;
setp.ne.u32 %p1, %r1, 0;
mov.b64 %rd1, source; cvta.param.u64 %rd1, %rd1;
mov.u32 %r2, tile;
mov.u32 %r3, bar;
mov.u32 %r9, %cluster_ctarank;
setp.ne.u32 %p3, %r9, 0;
@%p1 bra READY;
mbarrier.init.shared::cta.b64 [%r3], 1;
fence.mbarrier_init.release.cluster;
@!%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 512;
READY:
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
@%p1 bra DONE;
and.b32 %r4, %r3, 0xFEFFFFFF;
shl.b32 %r5, %r9, 1;
mov.u32 %r6, 0;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.cta_group::GROUP
    [%r2], [%rd1, {%r6, %r5}], [%r4];
@%p3 bra DONE;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
@!%p2 bra WAIT;
DONE:
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
ret;
"""


def run_pair(group: int, events: list[Event]) -> None:
    parameters = ".param .align 64 .b8 source[128]"
    rows = TensorMap(Element.U16, (64, 8), (128,), (64, 2))
    body = PAIR.replace("GROUP", str(group))
    source = {"source": np.zeros(1024, np.uint8)}
    run_blackwell(body, source, TensorMapParam("source", rows), parameters=parameters, cluster=2, events=events)


def test_a_pair_signals_the_even_cta() -> None:
    events: list[Event] = []
    run_pair(2, events)
    told = [event.cta for event in events if isinstance(event, BarrierComplete)]
    assert told == [0, 0]
    issues = [event for event in events if isinstance(event, CopyIssue)]
    assert {(event.destinations, event.barrier_ctas) for event in issues} == {((0,), ()), ((1,), (0,))}


def test_without_a_pair_the_peers_barrier_is_refused() -> None:
    with pytest.raises(MachineFault) as caught:
        run_pair(1, [])
    assert caught.value.code == "TX202"


def test_nothing_is_left_to_cancel() -> None:
    out = np.full(4, 7, np.uint32)
    body = """
.reg .b128 %q<2>;
.shared .align 16 .b8 response[16];
.shared .align 8 .b8 bar[8];
mov.u32 %r1, %tid.x;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra DONE;
mov.u32 %r2, response;
mov.u32 %r3, bar;
mbarrier.init.shared::cta.b64 [%r3], 1;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 16;
clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r2], [%r3];
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
@!%p2 bra WAIT;
ld.shared.b128 %q0, [%r2];
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q0;
selp.u32 %r4, 1, 0, %p3;
clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 %r5, %q0;
ld.param.u64 %rd1, [out];
st.global.v2.u32 [%rd1], {%r4, %r5};
mov.b128 {%rd2, %rd3}, %q0;
mov.b128 %q1, {%rd3, %rd2};
clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r6, %r7, %r8, _}, %q1;
st.global.v2.u32 [%rd1+8], {%r6, %r8};
DONE: ret;
"""
    run_blackwell(body, {"out": as_bytes(out)}, PointerParam("out"))
    # The halves are exchanged, so the number of the request, which is the machine's own, comes last.
    assert out.tolist() == [0, 0, 0, 1]
