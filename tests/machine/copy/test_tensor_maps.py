"""Tensor maps that the kernel makes: built from zeros, changed copies of a parameter, and what goes wrong with them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.machine.small_kernels import as_bytes, launch, module

from tilewright.base.element import Element
from tilewright.base.plan import PointerParam, TensorMap, TensorMapParam, UnknownTensorMapParam
from tilewright.machine.core.event import Access, CopyIssue, Event, TensorMapFence
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.memory import VirtualBuffer
from tilewright.machine.core.run import run_launch

PARAMETERS = ".param .align 64 .b8 map[128], .param .u64 source, .param .u64 target, .param .u64 scratch"
ZEROS = """
mov.u32 %r2, 0;
shl.b32 %r3, %r1, 2;
add.u32 %r3, %r3, %r5;
st.shared.u32 [%r3], %r2;
bar.warp.sync -1;
"""
FROM_PARAMETER = """
mov.b64 %rd5, map; cvta.param.u64 %rd5, %rd5;
shl.b32 %r3, %r1, 2;
cvt.u64.u32 %rd6, %r3;
add.u64 %rd5, %rd5, %rd6;
ld.u32 %r2, [%rd5];
add.u32 %r3, %r3, %r5;
st.shared.u32 [%r3], %r2;
bar.warp.sync -1;
"""
REPLACE = "tensormap.replace.tile"
ALL_FIELDS = f"""
mov.u32 %r6, 64; mov.u32 %r7, 8; mov.u32 %r8, 1; mov.u64 %rd7, 128;
{REPLACE}.global_address.shared::cta.b1024.b64 [%r5], %rd1;
{REPLACE}.rank.shared::cta.b1024.b32 [%r5], 1;
{REPLACE}.box_dim.shared::cta.b1024.b32 [%r5], 0, %r6;
{REPLACE}.box_dim.shared::cta.b1024.b32 [%r5], 1, %r7;
{REPLACE}.global_dim.shared::cta.b1024.b32 [%r5], 0, %r6;
{REPLACE}.global_dim.shared::cta.b1024.b32 [%r5], 1, %r7;
{REPLACE}.global_stride.shared::cta.b1024.b64 [%r5], 0, %rd7;
{REPLACE}.element_stride.shared::cta.b1024.b32 [%r5], 0, %r8;
{REPLACE}.element_stride.shared::cta.b1024.b32 [%r5], 1, %r8;
{REPLACE}.elemtype.shared::cta.b1024.b32 [%r5], 1;
{REPLACE}.swizzle_mode.shared::cta.b1024.b32 [%r5], 3;
"""
ADDRESS = f"{REPLACE}.global_address.shared::cta.b1024.b64 [%r5], %rd1;\n"
PUBLISH = """
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd3], [%r5], 128;
fence.proxy.tensormap::generic.acquire.gpu [%rd3], 128;
"""


def kernel(start: str, fields: str, publish: str = PUBLISH) -> str:
    return f"""
.shared .align 1024 .b8 tile[1024];
.shared .align 128 .b8 staged[128];
.shared .align 8 .b8 bar[8];
ld.param.u64 %rd1, [source];
ld.param.u64 %rd2, [target];
ld.param.u64 %rd3, [scratch];
mov.u32 %r1, %tid.x;
setp.ne.u32 %p1, %r1, 0;
mov.u32 %r4, tile;
mov.u32 %r5, staged;
mov.u32 %r9, bar;
{start}
@%p1 bra COPY;
{fields}
COPY:
bar.warp.sync -1;
{publish}
@%p1 bra WAIT;
mbarrier.init.shared::cta.b64 [%r9], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r9], 1024;
mov.u32 %r10, 0;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r4], [%rd3, {{%r10, %r10}}], [%r9];
WAIT:
bar.warp.sync -1;
AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r9], 0;
@!%p2 bra AGAIN;
shl.b32 %r11, %r1, 5;
add.u32 %r12, %r11, %r4;
cvt.u64.u32 %rd8, %r11;
add.u64 %rd8, %rd8, %rd2;
ld.shared.v4.u32 {{%r13, %r14, %r15, %r16}}, [%r12];
st.global.v4.u32 [%rd8], {{%r13, %r14, %r15, %r16}};
ld.shared.v4.u32 {{%r13, %r14, %r15, %r16}}, [%r12+16];
st.global.v4.u32 [%rd8+16], {{%r13, %r14, %r15, %r16}};
ret;
"""


Run = tuple[NDArray[np.uint16], NDArray[np.uint16], list[Event]]


def run(body: str, given: TensorMapParam | UnknownTensorMapParam | None = None, *, virtual: bool = False) -> Run:
    source = np.random.default_rng(5).integers(0, 1 << 16, (8, 64), np.uint16)
    target = np.zeros_like(source)
    other = np.zeros(1024, np.uint8)
    scratch = VirtualBuffer(1 << 30) if virtual else np.zeros(256, np.uint8)
    buffers = {"source": as_bytes(source), "target": as_bytes(target), "scratch": scratch, "other": other}
    tensor_map = given or TensorMapParam("other", TensorMap(Element.U16, (64, 8), (128,), (64, 8), swizzle="128B"))
    pointers = (PointerParam("source"), PointerParam("target"), PointerParam("scratch"))
    events: list[Event] = []
    text = module(body, parameters=PARAMETERS)
    run_launch(text, launch(tensor_map, *pointers), buffers, observe=events.append)
    return source, target, events


def swizzled(rows: NDArray[np.uint16]) -> NDArray[np.uint16]:
    chunks = rows.reshape(8, 8, 8)
    return np.stack([chunks[row][np.arange(8) ^ row] for row in range(8)]).reshape(8, 64)


@pytest.mark.parametrize("virtual", [False, True])
@pytest.mark.parametrize(("start", "fields"), [(ZEROS, ALL_FIELDS), (FROM_PARAMETER, ADDRESS)])
def test_a_map_made_by_the_kernel(start: str, fields: str, virtual: bool) -> None:
    source, target, events = run(kernel(start, fields), virtual=virtual)
    assert np.array_equal(target, swizzled(source))
    fences = [event for event in events if isinstance(event, TensorMapFence)]
    assert [event.kind for event in fences] == ["release", "acquire"]
    issue = next(event for event in events if isinstance(event, CopyIssue))
    assert issue.tensor_map == fences[0].address == fences[1].address
    wrote = [
        event
        for event in events
        if isinstance(event, Access) and event.write and event.ranges[0][0] == issue.tensor_map
    ]
    assert len(wrote) == 1 and wrote[0].proxy == "generic"


def test_a_map_whose_bytes_were_changed_is_none() -> None:
    spoiled = ADDRESS + "mov.u32 %r2, 77;\nst.shared.u32 [%r5+4], %r2;\n"
    with pytest.raises(MachineFault) as caught:
        run(kernel(FROM_PARAMETER, spoiled))
    assert caught.value.code == "TM201" and caught.value.span is not None
    assert "cp.async.bulk.tensor" in caught.value.span.text


def test_an_address_outside_every_buffer() -> None:
    with pytest.raises(MachineFault) as caught:
        run(kernel(FROM_PARAMETER, f"mov.u64 %rd7, 4096;\n{ADDRESS.replace('%rd1', '%rd7')}"))
    assert caught.value.code == "TM203"


def test_the_rank_of_the_map_is_the_instructions() -> None:
    lower = f"{ADDRESS}{REPLACE}.rank.shared::cta.b1024.b32 [%r5], 2;\n"
    with pytest.raises(MachineFault) as caught:
        run(kernel(FROM_PARAMETER, lower))
    assert caught.value.code == "TM202" and "this one has rank 3" in caught.value.message


def test_a_map_in_global_memory_that_nobody_wrote() -> None:
    # Zeros are a map of rank 1.
    with pytest.raises(MachineFault) as caught:
        run(kernel(ZEROS, ALL_FIELDS, publish=""))
    assert caught.value.code == "TM202"


def test_a_changed_unknown_map_moves_what_its_parameter_does() -> None:
    _, _, events = run(kernel(FROM_PARAMETER, ADDRESS), UnknownTensorMapParam(1024), virtual=True)
    issue = next(event for event in events if isinstance(event, CopyIssue))
    assert issue.bytes == 1024 and issue.shared == ((0, 1024),)
