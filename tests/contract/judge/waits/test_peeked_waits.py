"""Waits that only look ahead: what makes one, and what does not."""

from __future__ import annotations

import pytest

from tilewright.contract.judge.waits.peeked_waits import peeked_waits
from tilewright.frontends.ptx.reader import read

_HEAD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k()
{
    .reg .b32 %r<20>;
    .reg .pred %p<10>;
    .shared .align 8 .b8 bars[64];
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [bars], 0;
"""
_TAIL = """
    ret;
}
"""
_WAIT = "LATER: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bars], 0; @!%p2 bra LATER;"


def _peeks(body: str) -> bool:
    """Is the first wait, of the head, a peek?"""
    (kernel,) = read(_HEAD + body + _TAIL, "k.ptx").kernels
    return any(span.line == _HEAD.count("\n") for span in peeked_waits(kernel))


@pytest.mark.parametrize(
    "body",
    [
        f"@%p1 bra DONE; {_WAIT} DONE:",
        f"selp.b32 %r1, 1, 0, %p1; setp.ne.b32 %p3, %r1, 0; @%p3 bra DONE; {_WAIT} DONE:",
        f"@%p1 bra DONE; mov.u32 %r2, 7; add.u32 %r2, %r2, 1; {_WAIT} DONE:",
        "@%p1 bra DONE; DONE:",
        "@%p1 bra DONE; mbarrier.try_wait.parity.shared::cta.b64 %p2, [bars], 0; DONE:",
        f"@%p1 bra DONE; mbarrier.try_wait.parity.shared::cta.b64 %p3, [bars], 0; @%p3 bra DONE; {_WAIT} DONE:",
        f"@%p1 bra DONE; mov.u32 %r2, 7; {_WAIT} DONE: mov.u32 %r2, 8; st.shared.b32 [bars+16], %r2;",
    ],
)
def test_an_outcome_that_only_skips_a_wait_makes_a_peek(body: str) -> None:
    assert _peeks(body)


@pytest.mark.parametrize(
    "body",
    [
        f"@%p1 bra DONE; {_WAIT} mbarrier.arrive.shared::cta.b64 _, [bars+8]; DONE:",
        f"@%p1 bra DONE; {_WAIT} st.shared.b32 [bars+16], 1; DONE:",
        "selp.b32 %r1, 1, 0, %p1; st.shared.b32 [bars+16], %r1;",
        f"@%p1 bra DONE; mov.u32 %r2, 7; {_WAIT} DONE: st.shared.b32 [bars+16], %r2;",
        "@%p1 st.shared.b32 [bars+16], 1;",
        f"@%p1 bra DONE; {_WAIT} DONE: selp.b32 %r3, 1, 0, %p2; st.shared.b32 [bars+16], %r3;",
        "@%p1 bra DONE; mbarrier.try_wait.parity.shared::cta.b64 %p3, [bars], 0; @%p3 trap; DONE:",
    ],
)
def test_an_outcome_that_shows_elsewhere_makes_none(body: str) -> None:
    assert not _peeks(body)


def test_a_wait_that_is_tried_again_is_no_peek() -> None:
    (kernel,) = read(_HEAD + _WAIT + _TAIL, "k.ptx").kernels
    assert {span.line for span in peeked_waits(kernel)} == {_HEAD.count("\n")}
