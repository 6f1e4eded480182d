"""The parameter block: null pointers, structures with members, narrow numbers, tensor maps at an offset.

Also local, constant and virtual memory."""

from __future__ import annotations

import numpy as np
import pytest
from tests.machine.small_kernels import as_bytes, launch, module, run_into

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import NullPointerParam, OpaqueParam, PointerParam, ScalarParam, TensorMap, TensorMapParam
from tilewright.machine.core.event import Access, Event
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.memory import VirtualBuffer
from tilewright.machine.core.run import run_launch

LANES = np.arange(32, dtype=np.uint32)


def store(value: str) -> str:
    return (
        "ld.param.u64 %rd30, [out]; mov.u32 %r63, %tid.x; mad.wide.u32 %rd30, %r63, 4, %rd30;"
        f"st.global.u32 [%rd30], {value}; ret;"
    )


def test_null_pointers_and_narrow_numbers() -> None:
    out = np.zeros(32, np.uint32)
    body = f"""
ld.param.u64 %rd1, [none];
setp.eq.u64 %p1, %rd1, 0;
ld.param.u8 %r1, [small];
selp.u32 %r2, %r1, 0, %p1;
{store("%r2")}
"""
    kernel = module(body, parameters=".param .u64 out, .param .u64 none, .param .u8 small")
    given = launch(PointerParam("out"), NullPointerParam(), ScalarParam("i32", 200))
    run_launch(kernel, given, {"out": as_bytes(out)})
    assert (out == 200).all()


def test_a_structure_with_a_pointer() -> None:
    out, source = np.zeros(32, np.uint32), LANES * 7
    body = f"""
ld.param.v2.u32 {{%r1, %r2}}, [both];
ld.param.u64 %rd1, [both+8];
mov.u32 %r3, %tid.x;
mad.wide.u32 %rd1, %r3, 4, %rd1;
ld.global.u32 %r4, [%rd1];
add.u32 %r4, %r4, %r2;
{store("%r4")}
"""
    kernel = module(body, parameters=".param .u64 out, .param .align 8 .b8 both[24]")
    structure = OpaqueParam(24, (1).to_bytes(4, "little") + (50).to_bytes(4, "little"), ((8, PointerParam("source")),))
    run_launch(kernel, launch(PointerParam("out"), structure), {"out": as_bytes(out), "source": as_bytes(source)})
    assert np.array_equal(out, LANES * 7 + 50)


def test_a_member_past_the_structure_is_refused() -> None:
    kernel = module("ret;", parameters=".param .align 8 .b8 both[8]")
    with pytest.raises(TilewrightError, match="a member stands at 4"):
        run_launch(kernel, launch(OpaqueParam(8, b"", ((4, PointerParam("a")),))), {"a": np.zeros(4, np.uint8)})


def test_a_tensor_map_inside_a_structure() -> None:
    source = np.arange(8 * 64, dtype=np.uint16).reshape(8, 64)
    out = np.zeros(32, np.uint32)
    body = f"""
.shared .align 128 .b8 tile[1024];
.shared .align 8 .b8 bar[8];
mov.b64 %rd1, both;
cvta.param.u64 %rd1, %rd1;
add.u64 %rd1, %rd1, 64;
mov.u32 %r1, tile;
mov.u32 %r2, bar;
mov.u32 %r3, %tid.x;
setp.ne.u32 %p1, %r3, 0;
@%p1 bra WAIT;
mbarrier.init.shared::cta.b64 [%r2], 1;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 1024;
mov.u32 %r4, 0;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd1, {{%r4, %r4}}], [%r2];
WAIT:
bar.sync 0;
RETRY:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
@!%p2 bra RETRY;
shl.b32 %r5, %r3, 1;
add.u32 %r5, %r5, %r1;
ld.shared.u16 %r6, [%r5];
{store("%r6")}
"""
    kernel = module(body, parameters=".param .u64 out, .param .align 64 .b8 both[192]")
    tensor_map = TensorMapParam("source", TensorMap(Element.U16, (64, 8), (128,), (64, 8)))
    buffers = {"out": as_bytes(out), "source": as_bytes(source)}
    run_launch(kernel, launch(PointerParam("out"), OpaqueParam(192, b"", ((64, tensor_map),))), buffers)
    assert np.array_equal(out, source.reshape(-1)[:32])


def test_local_memory_belongs_to_each_thread() -> None:
    out = np.zeros(64, np.uint32)
    events: list[Event] = []
    body = """
.local .align 16 .b8 frame[48];
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x;
mov.u64 %rd2, frame;
st.local.u32 [frame+16], %r1;
cvta.local.u64 %rd3, %rd2;
add.u64 %rd4, %rd3, 20;
add.u32 %r2, %r1, 1000;
st.u32 [%rd4], %r2;
bar.sync 0;
ld.local.v2.u32 {%r3, %r4}, [%rd2+16];
sub.u32 %r5, %r4, %r3;
isspacep.local %p1, %rd4;
selp.u32 %r5, %r5, 0, %p1;
add.u32 %r5, %r5, %r3;
mad.wide.u32 %rd1, %r1, 4, %rd1;
st.global.u32 [%rd1], %r5;
ret;
"""
    run_into(body, out, threads=64, observe=events.append)
    assert np.array_equal(out, np.arange(64) + 1000)
    accesses = [event for event in events if isinstance(event, Access)]
    assert {event.space for event in accesses} == {"global"} and len(accesses) == 2


def test_a_local_address_beyond_all_frames_is_a_fault() -> None:
    with pytest.raises(MachineFault) as caught:
        run_into(".local .b8 frame[16];\nmov.u64 %rd2, frame;\nld.local.u32 %r1, [%rd2+4096];\nret;", np.zeros(1))
    assert caught.value.code == "MF001"


def test_constants_and_addresses_in_initial_values() -> None:
    out = np.zeros(32, np.uint32)
    globals_ = ".global .align 4 .u32 data[2] = {5, 6};\n.const .align 8 .u64 where[1] = {data};"
    body = f"""
mov.u64 %rd2, where;
isspacep.const %p1, %rd2;
ld.const.u64 %rd3, [where];
ld.global.u32 %r1, [%rd3+4];
selp.u32 %r1, %r1, 0, %p1;
{store("%r1")}
"""
    run_into(body, out, globals_=globals_)
    assert (out == 6).all()


def test_a_virtual_buffer_reads_as_zeros_and_drops_what_is_written() -> None:
    out = np.full(32, 9, np.uint32)
    events: list[Event] = []
    body = f"""
ld.param.u64 %rd1, [huge];
mov.u32 %r1, %tid.x;
mad.wide.u32 %rd2, %r1, 4, %rd1;
add.u64 %rd2, %rd2, 0x100000000;
st.global.u32 [%rd2], %r1;
ld.global.v2.u32 {{%r2, %r3}}, [%rd1+8];
atom.global.add.u32 %r5, [%rd2], 3;
ld.global.u32 %r4, [%rd2];
add.u32 %r2, %r2, %r4;
{store("%r2")}
"""
    kernel = module(body, parameters=".param .u64 out, .param .u64 huge")
    given = launch(PointerParam("out"), PointerParam("huge"))
    buffers = {"out": as_bytes(out), "huge": VirtualBuffer(1 << 36)}
    run_launch(kernel, given, buffers, observe=events.append)
    assert not out.any()
    written = [event for event in events if isinstance(event, Access) and event.write]
    assert len(written) == 3 and written[0].ranges[0][1] - written[0].ranges[0][0] == 128
    with pytest.raises(MachineFault, match="outside huge"):
        far = body.replace("0x100000000", "0x1000000000")
        run_launch(module(far, parameters=".param .u64 out, .param .u64 huge"), given, buffers)


def test_special_registers_of_shared_memory() -> None:
    out = np.zeros(32, np.uint32)
    body = f"""
.shared .align 4 .b8 some[100];
mov.u32 %r1, some;
mov.u32 %r2, %total_smem_size;
mov.u32 %r3, %aggr_smem_size;
sub.u32 %r3, %r3, %r2;
mov.u32 %r4, %reserved_smem_offset_end;
sub.u32 %r4, %r4, %r2;
sub.u32 %r3, %r4, %r3;
add.u32 %r2, %r2, %r3;
{store("%r2")}
"""
    run_into(body, out)
    assert (out == 100).all()
