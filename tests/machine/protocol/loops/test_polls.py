"""Loops that wait for a word of global memory: which are recognised, and how CTAs that wait for others run."""

from __future__ import annotations

import numpy as np
import pytest
from tests.machine.small_kernels import module, run_into

from tilewright.machine.core.fault import MachineHang
from tilewright.machine.core.inline import inlined
from tilewright.machine.protocol.loops.polls import Poll, polls_of

WAIT = "WAIT: ld.acquire.gpu.global.u32 %r1, [%rd1]; setp.ne.u32 %p1, %r1, 7; @%p1 bra WAIT;"


def polls(body: str) -> list[Poll]:
    read = module(f"ld.param.u64 %rd1, [out];\n{body}\nret;", parameters=".param .u64 out")
    return list(polls_of(inlined(read, read.kernels[0])).values())


@pytest.mark.parametrize(
    ("body", "accepted"),
    [
        (WAIT, {7}),
        ("W: ld.relaxed.sys.global.b32 %r1, [%rd1+4]; setp.eq.s32 %p1, 7, %r1; @!%p1 bra W;", {7}),
        ("W: ld.volatile.global.u32 %r1, [%rd1]; setp.lo.u32 %p1, %r1, 7; @%p1 bra W;", {7, 8, 2**32 - 1}),
        ("W: ld.acquire.gpu.global.s32 %r1, [%rd1]; setp.gt.s32 %p1, 7, %r1; @%p1 bra W;", {7, 8}),
        ("W: ld.acquire.gpu.b32 %r1, [%rd1]; setp.eq.u32 %p1, %r1, 7; @%p1 bra OUT; nanosleep.u32 40; bra W; OUT:",
         {7}),
        (f"{WAIT} mov.u32 %r1, 4; setp.eq.u32 %p1, %r1, 3; @%p1 bra OUT; bar.sync 0; OUT:", {7}),
    ],
)  # fmt: skip
def test_loops_that_only_wait(body: str, accepted: set[int]) -> None:
    (poll,) = polls(body)
    assert {word for word in (0, 6, 7, 8, 2**32 - 1) if poll.accepts(word)} == accepted


@pytest.mark.parametrize(
    "body",
    [
        f"{WAIT} st.global.u32 [%rd1+8], %r1;",
        f"{WAIT} @%p1 bra OUT; bar.sync 0; OUT:",
        "W: ld.global.u32 %r1, [%rd1]; setp.ne.u32 %p1, %r1, 7; @%p1 bra W;",
        "W: ld.acquire.cta.shared.u32 %r1, [%rd1]; setp.ne.u32 %p1, %r1, 7; @%p1 bra W;",
        "mov.u32 %r2, 7; W: ld.acquire.gpu.global.u32 %r1, [%rd1]; setp.ne.u32 %p1, %r1, %r2; @%p1 bra W;",
        "W: ld.acquire.gpu.global.u32 %r1, [%rd1]; add.u64 %rd1, %rd1, 4; setp.ne.u32 %p1, %r1, 7; @%p1 bra W;",
        "W: ld.acquire.gpu.global.u32 %r1, [%rd1]; st.global.u32 [%rd1+4], 1; setp.ne.u32 %p1, %r1, 7; @%p1 bra W;",
        "W: setp.ne.u32 %p1, %r1, 7; ld.acquire.gpu.global.u32 %r1, [%rd1]; setp.eq.u32 %p2, %r1, 7; @%p1 bra W;",
        "mov.u32 %r3, 0; W: add.u32 %r3, %r3, 1; setp.eq.u32 %p2, %r3, 9; @%p2 bra O;"
        "ld.acquire.gpu.global.u32 %r1, [%rd1]; setp.ne.u32 %p1, %r1, 7; @%p1 bra W; O:",
    ],
)
def test_loops_that_do_more(body: str) -> None:
    assert polls(body) == []


CHAIN = """
ld.param.u64 %rd1, [out];
mov.u32 %r2, %ctaid.x;
mov.u32 %r3, %tid.x;
mul.wide.u32 %rd2, %r2, 4;
add.u64 %rd2, %rd1, %rd2;
setp.ne.u32 %p2, %r3, 0;
setp.eq.u32 %p3, %r2, FIRST;
@%p2 bra DONE;
@%p3 bra SET;
WAIT:
ld.acquire.gpu.global.u32 %r1, [%rd2FROM];
setp.eq.u32 %p1, %r1, 0;
@%p1 bra WAIT;
ld.relaxed.gpu.global.u32 %r4, [%rd2FROM];
SET:
@%p3 mov.u32 %r4, 0;
add.u32 %r4, %r4, 1;
st.release.gpu.global.u32 [%rd2], %r4;
DONE:
ret;
"""


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("first", "back"), [("0", "-4"), ("5", "+4")])
def test_ctas_wait_for_their_neighbours(seed: int, first: str, back: str) -> None:
    out = np.zeros(6, np.uint32)
    run_into(CHAIN.replace("FIRST", first).replace("FROM", back), out, grid=6, threads=64, seed=seed)
    assert out.tolist() == (list(range(1, 7)) if first == "0" else list(range(6, 0, -1)))


def test_waits_that_never_end_are_hangs() -> None:
    out = np.zeros(4, np.uint32)
    circle = CHAIN.replace("FIRST", "9").replace("%rd2FROM", "%rd3").replace(
        "WAIT:", "add.u32 %r5, %r2, 1; and.b32 %r5, %r5, 3; mul.wide.u32 %rd3, %r5, 4; add.u64 %rd3, %rd1, %rd3; WAIT:"
    )  # fmt: skip
    with pytest.raises(MachineHang) as caught:
        run_into(circle, out, grid=4)
    assert caught.value.code == "LV201"
    assert {waiter.cta for waiter in caught.value.waiters} == {0, 1, 2, 3}
    assert {waiter.awaited.kind for waiter in caught.value.waiters} >= {"global word"}


def test_a_loop_that_is_not_understood_is_given_up() -> None:
    body = CHAIN.replace("FIRST", "9").replace("FROM", "").replace("%r1, 0;", "%r1, %r3;")
    with pytest.raises(MachineHang) as caught:
        run_into(body, np.zeros(2, np.uint32), grid=2)
    assert caught.value.code == "LV202"


def test_a_flag_is_waited_for_twice() -> None:
    body = """
    ld.param.u64 %rd1, [out];
    mov.u32 %r2, %tid.x;
    setp.ge.u32 %p2, %r2, 32;
    mov.u32 %r5, 0;
    @%p2 bra OTHER;
    AGAIN:
    WAIT: ld.acquire.gpu.global.u32 %r1, [%rd1]; setp.ne.u32 %p1, %r1, 1; @%p1 bra WAIT;
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p3, %r5, 3;
    @%p3 bra AGAIN;
    st.global.u32 [%rd1+4], %r5;
    ret;
    OTHER: st.release.gpu.global.u32 [%rd1], 1;
    ret;
    """
    out = np.zeros(2, np.uint32)
    run_into(body, out, threads=64)
    assert out.tolist() == [1, 3]
