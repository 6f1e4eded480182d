"""Bulk copies: tensor loads and stores, plain bulk copies, multicast, bulk groups, and what goes wrong with them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.machine.small_kernels import COPY_PARAMETERS, COPY_TILE, as_bytes, launch, module, run_into

from tilewright.base.element import Element
from tilewright.base.plan import Launch, PointerParam, TensorMap, TensorMapParam
from tilewright.machine.core.event import Access, BarrierComplete, BulkWait, CopyIssue, Event
from tilewright.machine.core.fault import MachineFault, MachineHang
from tilewright.machine.core.run import run_launch

MAP = TensorMap(Element.BF16, (256, 64), (512,), (64, 64), swizzle="128B")


def copy_launch() -> Launch:
    return launch(TensorMapParam("source", MAP), TensorMapParam("target", MAP), threads=64, grid=4)


def tile_buffers() -> tuple[NDArray[np.uint16], NDArray[np.uint16], dict[str, NDArray[np.uint8]]]:
    source = np.random.default_rng(2).integers(0, 1 << 16, (64, 256), np.uint16)
    target = np.zeros_like(source)
    return source, target, {"source": as_bytes(source), "target": as_bytes(target)}


def test_tensor_copy_through_shared_memory_for_ten_seeds() -> None:
    kernel = module(COPY_TILE, parameters=COPY_PARAMETERS)
    for seed in range(10):
        source, target, buffers = tile_buffers()
        report = run_launch(kernel, copy_launch(), buffers, seed=seed)
        assert np.array_equal(source, target)
        assert (report.copies, report.phases) == (8, 4)


def test_events_of_a_tensor_copy() -> None:
    events: list[Event] = []
    source, target, buffers = tile_buffers()
    run_launch(module(COPY_TILE, parameters=COPY_PARAMETERS), copy_launch(), buffers, observe=events.append)
    assert np.array_equal(source, target)
    issues = [event for event in events if isinstance(event, CopyIssue)]
    loads = [event for event in issues if event.direction == "load"]
    assert len(loads) == 4 and all(event.bytes == 8192 and event.shared == ((0, 8192),) for event in loads)
    assert all(event.barrier_address == 8192 and event.lane == 0 for event in loads)
    completions = [event for event in events if isinstance(event, BarrierComplete)]
    assert [event.bytes for event in completions] == [8192] * 4
    writes = [event for event in events if isinstance(event, Access) and event.space == "shared" and event.write]
    assert all(event.ranges == ((0, 8192),) and event.proxy == "async" for event in writes)
    order = {type(event).__name__: index for index, event in enumerate(events)}
    assert order["BulkWait"] > order["CopyIssue"]
    assert sum(isinstance(event, BulkWait) for event in events) == 4


@pytest.mark.parametrize(
    ("old", "new", "lacks"),
    [
        ("expect_tx.shared::cta.b64 _, [%r3], 8192", "expect_tx.shared::cta.b64 _, [%r3], 8208", "lacks 16 bytes"),
        (
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 8192;\n",
            "",
            "lacks 1 of 1 arrival and an expect_tx of 8192 bytes that have already arrived",
        ),
        ("init.shared::cta.b64 [%r3], 1;", "init.shared::cta.b64 [%r3], 2;", "lacks 1 of 2 arrivals"),
        (
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
            "[%r2], [%rd1, {%r4, 0}], [%r3];\n",
            "",
            "lacks 8192 bytes",
        ),
    ],
)
def test_broken_protocols_hang_and_say_why(old: str, new: str, lacks: str) -> None:
    assert old in COPY_TILE
    kernel = module(COPY_TILE.replace(old, new), parameters=COPY_PARAMETERS)
    for seed in range(3):
        _, _, buffers = tile_buffers()
        with pytest.raises(MachineHang) as caught:
            run_launch(kernel, copy_launch(), buffers, seed=seed)
        assert caught.value.code == "LV201"
        assert len(caught.value.waiters) == 2
        for waiter in caught.value.waiters:
            assert "waits on mbarrier" in waiter.reason and "+0x2000, parity 0: phase 0" in waiter.reason
            assert lacks in waiter.reason
            assert waiter.span.text.strip().startswith("mbarrier.try_wait")


def test_a_missing_wait_shows_in_some_interleaving() -> None:
    text = COPY_TILE.replace("@!%p2 bra WAIT;\n", "")
    kernel = module(text, parameters=COPY_PARAMETERS)
    differs = 0
    for seed in range(10):
        source, target, buffers = tile_buffers()
        run_launch(kernel, copy_launch(), buffers, seed=seed)
        differs += not np.array_equal(source, target)
    assert differs > 0


def test_reading_past_the_tensor_fills_zeros() -> None:
    shifted = COPY_TILE.replace("[%rd1, {%r4, 0}]", "[%rd1, {%r4, 8}]")
    source, target, buffers = tile_buffers()
    run_launch(module(shifted, parameters=COPY_PARAMETERS), copy_launch(), buffers)
    assert np.array_equal(target[:56], source[8:]) and not target[56:].any()


def test_a_buffer_smaller_than_its_tensor_is_a_fault() -> None:
    _, _, buffers = tile_buffers()
    buffers["source"] = buffers["source"][:-512]
    with pytest.raises(MachineFault) as caught:
        run_launch(module(COPY_TILE, parameters=COPY_PARAMETERS), copy_launch(), buffers)
    assert caught.value.code == "MF001"
    assert caught.value.span is not None and "cp.async.bulk.tensor" in caught.value.span.text


def test_an_address_without_a_tensor_map_is_a_fault() -> None:
    text = COPY_TILE.replace("[%rd1, {%r4, 0}]", "[%rd1+64, {%r4, 0}]")
    _, _, buffers = tile_buffers()
    with pytest.raises(MachineFault, match="no tensor map"):
        run_launch(module(text, parameters=COPY_PARAMETERS), copy_launch(), buffers)


BULK = """
.shared .align 16 .b8 tile[1024];
.shared .align 8 .b64 bar;
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra READY;
mbarrier.init.shared::cta.b64 [bar], 1;
READY:
bar.sync 0;
@%p1 bra WAIT;
mbarrier.arrive.expect_tx.shared::cta.b64 %rd5, [bar], 1024;
mov.u32 %r2, tile;
mov.u32 %r3, bar;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1], 1024, [%r3];
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
@!%p2 bra WAIT;
mov.u32 %r2, tile;
mad.lo.u32 %r4, %r1, 4, %r2;
ld.shared.u32 %r5, [%r4];
add.u32 %r5, %r5, 1;
st.shared.u32 [%r4], %r5;
fence.proxy.async.shared::cta;
bar.sync 0;
@%p1 bra DONE;
add.s64 %rd2, %rd1, 1024;
cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r2], 1024;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0;
DONE:
ret;
"""


def test_plain_bulk_copies_both_ways() -> None:
    for seed in range(5):
        out = np.zeros(512, np.uint32)
        out[:256] = np.arange(256) * 3
        run_into(BULK, out, threads=256, seed=seed)
        assert np.array_equal(out[256:], np.arange(256) * 3 + 1)


def test_bulk_copy_size_must_be_a_multiple_of_16() -> None:
    text = BULK.replace("[%rd1], 1024, [%r3]", "[%rd1], 1000, [%r3]")
    with pytest.raises(MachineFault, match="multiple of 16"):
        run_into(text, np.zeros(512, np.uint32), threads=256)


MULTICAST = """
.shared .align 128 .b8 tile[1024];
.shared .align 8 .b64 bar;
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x;
mov.u32 %r9, %cluster_ctarank;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra READY;
mbarrier.init.shared::cta.b64 [bar], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024;
READY:
barrier.cluster.arrive.release.aligned;
barrier.cluster.wait.acquire.aligned;
setp.ne.u32 %p3, %r9, 0;
@%p1 bra WAIT;
@%p3 bra WAIT;
mov.u32 %r2, tile;
mov.u32 %r3, bar;
mov.b16 %h1, 3;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r2], [%rd1], 1024, [%r3], %h1;
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
@!%p2 bra WAIT;
mov.u32 %r2, tile;
mad.lo.u32 %r4, %r1, 4, %r2;
ld.shared.u32 %r5, [%r4];
mov.u32 %r6, %ctaid.x;
mad.lo.u32 %r7, %r6, 256, %r1;
mad.wide.u32 %rd2, %r7, 4, %rd1;
st.global.u32 [%rd2+1024], %r5;
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
ret;
"""


def test_multicast_writes_every_cta_of_the_mask() -> None:
    for seed in range(5):
        out = np.zeros(768, np.uint32)
        out[:256] = np.arange(256) + 5
        run_into(MULTICAST, out, threads=256, grid=2, cluster=2, seed=seed)
        assert np.array_equal(out[256:512], out[:256]) and np.array_equal(out[512:], out[:256])


def test_multicast_mask_outside_the_cluster_is_a_fault() -> None:
    with pytest.raises(MachineFault, match="multicast mask"):
        run_into(MULTICAST.replace("%h1, 3", "%h1, 7"), np.zeros(768, np.uint32), threads=256, grid=2, cluster=2)


REDUCE = """
.shared .align 128 .b8 tile[128];
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x;
mov.u32 %r2, tile;
mad.lo.u32 %r4, %r1, 4, %r2;
st.shared.f32 [%r4], 0f40000000;
fence.proxy.async.shared::cta;
bar.sync 0;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra DONE;
cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd1], [%r2], 128;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
DONE:
ret;
"""


def test_bulk_reduction_adds() -> None:
    out = np.arange(32, dtype=np.float32)
    run_into(REDUCE, out, grid=3)
    assert np.array_equal(out, np.arange(32) + 6)


def test_pointer_into_a_buffer() -> None:
    out = np.zeros(16, np.uint32)
    body = "ld.param.u64 %rd1, [out];\nst.global.u32 [%rd1], 9;\nret;"
    run_launch(module(body, parameters=".param .u64 out"), launch(PointerParam("out", 8)), {"out": as_bytes(out)})
    assert out[2] == 9 and out.sum() == 9
