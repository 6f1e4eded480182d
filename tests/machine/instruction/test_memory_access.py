"""Loads and stores of every width, through every hint, and the single-register vectors that compilers write."""

from __future__ import annotations

import numpy as np
import pytest
from tests.machine.small_kernels import as_bytes, launch

from tilewright.base.plan import PointerParam
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core.event import Access, Event
from tilewright.machine.core.run import run_launch

HEADER = ".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out) {\n"
START = """
.reg .pred %p<4>; .reg .b16 %h<8>; .reg .b32 %r<40>; .reg .b64 %rd<20>; .reg .f32 %f<12>; .reg .b128 %q<4>;
ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x;
mad.wide.u32 %rd1, %r1, 32, %rd1; mad.wide.u32 %rd2, %r1, 32, %rd2;
createpolicy.fractional.L2::evict_last.b64 %rd15, 1.0;
"""
GIVEN = np.random.default_rng(71).integers(0, 256, (32, 32)).astype(np.uint8)
EIGHT = "{%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}"


def run(body: str, observe: list[Event] | None = None) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    out = np.zeros((32, 32), np.uint8)
    run_launch(
        read(HEADER + START + body + " ret; }", "k.ptx"),
        launch(PointerParam("in"), PointerParam("out")),
        {"in": GIVEN.reshape(-1).copy(), "out": as_bytes(out)},
        observe=None if observe is None else observe.append,
    )
    return out


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize(
    ("body", "size"),
    [
        (f"ld.global.v8.b32 {EIGHT}, [%rd1]; st.global.v8.b32 [%rd2], {EIGHT};", 32),
        ("ld.global.v4.b64 {%rd4, %rd5, %rd6, %rd7}, [%rd1]; st.global.v4.b64 [%rd2], {%rd4, %rd5, %rd6, %rd7};", 32),
        ("ld.global.b128 %q1, [%rd1]; st.global.b128 [%rd2], %q1;", 16),
        ("ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1]; st.global.v4.f32 [%rd2], {%f1, %f2, %f3, %f4};", 16),
        ("ld.global.b32 {%r10}, [%rd1]; st.global.b32 [%rd2], {%r10};", 4),
        ("ld.global.v2.u16 {%h1, %h2}, [%rd1]; st.global.v2.u16 [%rd2], {%h1, %h2};", 4),
        ("ld.global.u8 %r10, [%rd1]; st.global.u8 [%rd2], %r10;", 1),
        ("ldu.global.v2.u32 {%r10, %r11}, [%rd1]; st.global.v2.u32 [%rd2], {%r10, %r11};", 8),
        ("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%r10, %r11, %r12, %r13}, [%rd1];"
         "st.global.L1::no_allocate.v4.u32 [%rd2], {%r10, %r11, %r12, %r13};", 16),
        ("ld.global.L1::evict_last.L2::cache_hint.b64 %rd4, [%rd1], %rd15;"
         "st.global.L1::evict_first.L2::cache_hint.b64 [%rd2], %rd4, %rd15;", 8),
        ("ld.relaxed.gpu.global.b128 %q1, [%rd1]; st.release.sys.global.b128 [%rd2], %q1;", 16),
        ("ld.weak.global.cg.u32 %r10, [%rd1]; st.weak.global.wt.u32 [%rd2], %r10;", 4),
        ("ld.b128 %q1, [%rd1]; mov.b128 {%rd4, %rd5}, %q1; mov.b128 %q2, {%rd4, %rd5}; st.b128 [%rd2], %q2;", 16),
    ],
)  # fmt: skip
def test_bytes_go_through_unchanged(body: str, size: int, observed: bool) -> None:
    """With and without an observer, which takes another way through the machine."""
    events: list[Event] = []
    out = run(body, events if observed else None)
    assert np.array_equal(out[:, :size], GIVEN[:, :size])
    assert not out[:, size:].any()
    if observed:
        read_access, written = [event for event in events if isinstance(event, Access)]
        assert (read_access.write, written.write) == (False, True)
        assert sum(end - begin for begin, end in written.ranges) == 32 * size


def test_lanes_that_do_not_take_part_keep_their_registers() -> None:
    body = (
        f"mov.u32 %r17, 7; setp.lt.u32 %p1, %r1, 5; @%p1 ld.global.v8.b32 {EIGHT}, [%rd1];"
        "st.global.u32 [%rd2], %r17; setp.ge.u32 %p2, %r1, 30; @%p2 st.global.b128 [%rd2+16], %q1;"
    )
    out = run("ld.global.b128 %q1, [%rd1];" + body)
    assert np.array_equal(out[:5, :4], GIVEN[:5, 28:32])
    assert (out[5:, :4].view(np.uint32) == 7).all()
    assert np.array_equal(out[30:, 16:], GIVEN[30:, :16]) and not out[:30, 16:].any()


def test_a_lanes_own_memory_tells_no_events() -> None:
    body = (
        ".local .align 16 .b8 mine[64]; mov.u64 %rd4, mine; cvta.local.u64 %rd5, %rd4;"
        "ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd1]; st.local.v4.u32 [%rd4+16], {%r10, %r11, %r12, %r13};"
        "ld.v4.u32 {%r20, %r21, %r22, %r23}, [%rd5+16]; st.global.v4.u32 [%rd2], {%r20, %r21, %r22, %r23};"
    )
    events: list[Event] = []
    out = run(body, events)
    assert np.array_equal(out[:, :16], GIVEN[:, :16])
    assert len([event for event in events if isinstance(event, Access)]) == 2
