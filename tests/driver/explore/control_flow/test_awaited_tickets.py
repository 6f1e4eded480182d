"""Loops that end where an atomic operation lets them: a counter of tiles does, a lock is others' to free."""

from __future__ import annotations

import pytest

from tilewright.driver.check.check import check_text
from tilewright.driver.launch.launch_file import launch_from_json

_KERNEL = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 word, .param .u32 tiles) .reqntid 64
{{
    .reg .pred %p<6>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<3>;
    .shared .align 8 .b8 full[8];
    .shared .align 4 .b8 shared_ticket[4];
    ld.param.u64 %rd1, [word];
    ld.param.u32 %r6, [tiles];
    mov.u32 %r1, %tid.x;
    setp.ne.u32 %p1, %r1, 0;
    @!%p1 mbarrier.init.shared::cta.b64 [full], 64;
    mov.u32 %r5, 0;
    bar.sync 0;
AGAIN:
    @%p1 bra SHARE;
    {atomic}
    st.shared.u32 [shared_ticket], %r2;
SHARE:
    bar.sync 0;
    ld.shared.u32 %r3, [shared_ticket];
    bar.sync 0;
    {decision}
    mbarrier.arrive.shared::cta.b64 _, [full];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], %r5;
    @!%p3 bra WAIT;
    xor.b32 %r5, %r5, 1;
    {turn}
DONE:
    ret;
}}
"""
_LAUNCH = {"grid": [2], "params": [{"kind": "ptr", "bytes": 4}, {"kind": "i32", "value": 5}]}
_ADD = "atom.global.add.u32 %r2, [%rd1], 1;"
_LEAVES = "setp.ge.u32 %p2, %r3, %r6; @%p2 bra DONE;"
_LOCK = "setp.ne.u32 %p2, %r3, 0; @%p2 bra AGAIN;"

_OTHERS_DECIDE = {
    "a lock by cas": ("atom.global.acquire.gpu.cas.b32 %r2, [%rd1], 0, 1;", _LOCK, ""),
    "a lock by exch": ("atom.global.acquire.gpu.exch.b32 %r2, [%rd1], 1;", _LOCK, ""),
    "a look by adding nothing": ("atom.global.acquire.gpu.add.u32 %r2, [%rd1], 0;", _LOCK, ""),
    "counting down": ("atom.global.add.u32 %r2, [%rd1], -1;", _LEAVES, "bra AGAIN;"),
    "a counter that begins anew": ("atom.global.inc.u32 %r2, [%rd1], 7;", _LEAVES, "bra AGAIN;"),
    "the largest so far": ("atom.global.max.u32 %r2, [%rd1], 9;", _LEAVES, "bra AGAIN;"),
    "one ticket alone": (_ADD, "setp.eq.u32 %p2, %r3, %r6; @%p2 bra DONE;", "bra AGAIN;"),
    "tickets above": (_ADD, "setp.lt.u32 %p2, %r3, %r6; @%p2 bra DONE;", "bra AGAIN;"),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("parts", _OTHERS_DECIDE.values(), ids=_OTHERS_DECIDE.keys())
def test_a_loop_that_others_end_is_not_proven(parts: tuple[str, str, str]) -> None:
    text = _KERNEL.format(atomic=parts[0], decision=parts[1], turn=parts[2])
    (kernel,) = check_text(text, "k.ptx").kernels
    assert kernel.verdict == "unknown"
    assert any("on other threads" in reason for reason in kernel.reasons), kernel.reasons


def test_a_launch_does_not_say_that_a_lock_is_freed() -> None:
    atomic, decision, _ = _OTHERS_DECIDE["a lock by exch"]
    text = _KERNEL.format(atomic=atomic, decision=decision, turn="")
    (kernel,) = check_text(text, "k.ptx", launch=launch_from_json(_LAUNCH, "launch.json")).kernels
    assert kernel.verdict == "unknown"


def test_tiles_that_are_taken_by_ticket_are_proven() -> None:
    text = _KERNEL.format(atomic=_ADD, decision=_LEAVES, turn="bra AGAIN;")
    (kernel,) = check_text(text, "k.ptx", launch=launch_from_json(_LAUNCH, "launch.json")).kernels
    assert kernel.verdict == "proven", kernel.reasons
    assert any("what buffers hold decides" in each for each in kernel.assumptions)
