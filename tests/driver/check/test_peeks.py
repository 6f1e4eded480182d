"""Tries whose outcome only spares a wait: proven where the wait is for what they asked, and never otherwise."""

from __future__ import annotations

import pytest

from tilewright.driver.check.check import check_text
from tilewright.driver.launch.launch_file import launch_from_json

_HEAD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 source, .param .u64 target) .reqntid 64
{
    .reg .pred %p<24>;
    .reg .b32 %r<24>;
    .reg .b64 %rd<8>;
    .shared .align 128 .b8 tile[2048];
    .shared .align 8 .b8 early[8];
    .shared .align 8 .b8 full[8];
    .shared .align 8 .b8 empty[8];
    ld.param.u64 %rd1, [source];
    ld.param.u64 %rd2, [target];
    mov.u32 %r1, %tid.x;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [early], 1;
    mbarrier.init.shared::cta.b64 [full], 1;
    mbarrier.init.shared::cta.b64 [empty], 32;
    fence.mbarrier_init.release.cluster;
READY:
    bar.sync 0;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, tile;
    add.u32 %r3, %r3, %r2;
    setp.ge.u32 %p2, %r1, 32;
"""
_LOAD = """
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 1024;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 1024, [full];
"""
# Which warp consumes: in one of the two it comes to its peeks before the producer has done anything.
_ORDERS = {"consumer first": "@%p2 bra PRODUCER;", "producer first": "@!%p2 bra PRODUCER;"}
_LAUNCH = {"params": [{"kind": "ptr", "bytes": 1024}, {"kind": "ptr", "bytes": 1024}]}
_PEEK = "mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], 0;"
_WAIT = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p4, [full], 0;  @!%p4 bra WAIT;"
_USE = "ld.shared.u32 %r4, [%r3];"


def _verdict(consumer: str, order: str, producer: str = f"mbarrier.arrive.shared::cta.b64 _, [early]; {_LOAD}") -> str:
    first = "mov.u32 %r5, 0;" if order == "consumer first" else "add.u32 %r3, %r3, -128;"
    body = f"""{_HEAD} {_ORDERS[order]}
    {first}
    {consumer}
    bra DONE;
PRODUCER:
    elect.sync %r6|%p9, 0xffffffff;
    @!%p9 bra DONE;
    {producer}
DONE:
    ret;
}}
"""
    launch = launch_from_json(_LAUNCH, "launch.json")
    (kernel,) = check_text(body, "k.ptx", launch=launch).kernels
    return kernel.verdict


_RING = f"""
    mov.u32 %r10, 0;
FILL:
    and.b32 %r11, %r10, 1;  xor.b32 %r12, %r11, 1;
FREE: mbarrier.try_wait.parity.shared::cta.b64 %p10, [empty], %r12;  @!%p10 bra FREE;
    {_LOAD}
    add.u32 %r10, %r10, 1;
    setp.lt.u32 %p11, %r10, 4;
    @%p11 bra FILL;
"""


def _ring(peeked: str) -> str:
    """A consumer of four phases, which looks at the next one before it releases the slot, or instead of that at
    `peeked`."""
    return f"""
    mov.u32 %r10, 0;  mov.u32 %r13, 0;
TAKE:
    and.b32 %r11, %r10, 1;
    setp.ne.u32 %p5, %r13, 0;
    @%p5 bra GO;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p4, [full], %r11;  @!%p4 bra WAIT;
GO: {_USE}
    mbarrier.arrive.shared::cta.b64 _, [empty];
    {peeked}
    selp.u32 %r13, 1, 0, %p3;
    add.u32 %r10, %r10, 1;
    setp.lt.u32 %p6, %r10, 4;
    @%p6 bra TAKE;
"""


_SPIN = f"""
    mov.u32 %r7, 0;
AGAIN: {_PEEK}  @%p3 bra GO;
    add.u32 %r7, %r7, 1;  setp.lt.u32 %p5, %r7, 5;  @%p5 bra AGAIN;
    nanosleep.u32 20;
    {_WAIT}
GO: {_USE}"""
_TRIES = f"""
    {_PEEK}  @%p3 bra GO;
    mbarrier.try_wait.parity.shared::cta.b64 %p5, [full], 0;  @%p5 bra GO;
    {_WAIT}
GO: {_USE}"""
_SECOND_TRY = f"""
    {_PEEK}  @%p3 bra LATER;
    mbarrier.test_wait.parity.shared::cta.b64 %p3, [full], 0;
LATER: add.u32 %r8, %r2, 1;
    @%p3 bra GO;
    {_WAIT}
GO: {_USE}"""


@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize(
    "consumer", [f"{_PEEK}  @%p3 bra GO;  {_WAIT}  GO: {_USE}", _SPIN, _TRIES, _SECOND_TRY],
    ids=["a peek", "tries that are counted", "tries in a row", "a second try"],
)  # fmt: skip
def test_a_try_that_spares_a_wait_for_the_same_phase_is_that_wait(consumer: str, order: str) -> None:
    assert _verdict(consumer, order) == "proven"


@pytest.mark.parametrize("order", _ORDERS)
def test_a_ring_may_be_looked_at_ahead(order: str) -> None:
    ahead = "xor.b32 %r14, %r11, 1;  mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], %r14;"
    assert _verdict(_ring(ahead), order, _RING) == "proven"


@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("peeked", ["[full], %r11", "[empty], %r11", "[early], 0"])
def test_a_ring_may_not_be_looked_at_amiss(peeked: str, order: str) -> None:
    """The same phase again, another barrier's: where the look succeeds, the wait is missing."""
    look = f"mbarrier.try_wait.parity.shared::cta.b64 %p3, {peeked};"
    assert _verdict(_ring(look), order, f"mbarrier.arrive.shared::cta.b64 _, [early]; {_RING}") != "proven"


_WRONG = {
    "another barrier": f"mbarrier.try_wait.parity.shared::cta.b64 %p3, [early], 0;  @%p3 bra GO;  {_WAIT}  GO: {_USE}",
    "another parity": f"mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], 1;  @%p3 bra GO;  {_WAIT}  GO: {_USE}",
    "one lane looks for all": f"""
    setp.eq.u32 %p7, %r1, 0;  setp.ne.u32 %p3, 0, 0;
    @%p7 {_PEEK}
    selp.u32 %r8, 1, 0, %p3;  shfl.sync.idx.b32 %r9, %r8, 0, 31, -1;  setp.ne.u32 %p8, %r9, 0;
    @%p8 bra GO;
    {_WAIT}
GO: {_USE}""",
    "nothing acquired": f"""
    mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 %p3, [full], 0;  @%p3 bra GO;  {_WAIT}  GO: {_USE}""",
    "one of two": f"""
    {_PEEK}
    mbarrier.try_wait.parity.shared::cta.b64 %p5, [early], 0;
    or.pred %p6, %p3, %p5;
    @%p6 bra GO;
    {_WAIT}
GO: {_USE}""",
    "a success of long ago": f"""
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [early], 0;
    @%p3 bra MORE;
    {_PEEK}
MORE:
    @%p3 bra GO;
    {_WAIT}
GO: {_USE}""",
    "chosen on the other way": f"""
    mov.u32 %r8, 0;
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [early], 0;
    @!%p3 bra MORE;
    mov.u32 %r8, 1;
MORE:
    setp.ne.u32 %p5, %r8, 0;
    @%p5 bra GO;
    {_WAIT}
GO: {_USE}""",
    "success waits for what never comes": f"""
    {_PEEK}
    @!%p3 bra GO;
NEVER: mbarrier.try_wait.parity.shared::cta.b64 %p6, [empty], 0;  @!%p6 bra NEVER;
GO: {_WAIT} {_USE}""",
    "success goes round": f"""
    {_PEEK}
    @!%p3 bra GO;
ROUND: setp.eq.u32 %p6, %r2, %r2;  @%p6 bra ROUND;
GO: {_WAIT} {_USE}""",
    "success goes round by the next try": f"AGAIN: {_PEEK}  @%p3 bra AGAIN;  {_WAIT} {_USE}",
    "failure skips": f"{_PEEK}  @!%p3 bra GO;  {_WAIT}  GO: {_USE}",
    "success stores": f"{_PEEK}  @%p3 st.shared.u32 [%r3+1024], %r1;  {_WAIT} {_USE}",
    "success is stored": f"""
    {_PEEK}
    selp.u32 %r8, 4, 8, %p3;  add.u32 %r8, %r8, %r3;  st.shared.u32 [%r8+1024], 1;
    {_WAIT}""",
    "less acquired": f"""
    {_PEEK}
    @%p3 bra GO;
WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p4, [full], 0;  @!%p4 bra WAIT;
GO: {_USE}""",
    "overwritten on the other way": f"""
    {_PEEK}
    selp.u32 %r8, 1, 0, %p3;
    mbarrier.try_wait.parity.shared::cta.b64 %p5, [early], 0;
    @!%p5 bra MORE;
    mov.u32 %r8, 1;
MORE:
    setp.ne.u32 %p6, %r8, 0;
    @%p6 bra GO;
    {_WAIT}
GO: {_USE}""",
    "what is counted is used": f"""
    mov.u32 %r7, 0;
AGAIN: {_PEEK}  @%p3 bra GO;
    add.u32 %r7, %r7, 4;  setp.lt.u32 %p5, %r7, 20;  @%p5 bra AGAIN;
    {_WAIT}
GO: {_USE}
    add.u32 %r8, %r3, %r7;
    st.shared.u32 [%r8+1024], 1;""",
}


@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("consumer", _WRONG.values(), ids=_WRONG.keys())
def test_a_try_that_is_not_the_wait_is_not_taken_for_it(consumer: str, order: str) -> None:
    assert _verdict(consumer, order) != "proven"


def test_a_fresh_barrier_may_be_looked_at_for_the_phase_before_its_first() -> None:
    text = f"""{_HEAD} @%p2 bra DONE;
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], 1;  @%p3 bra GO;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p4, [full], 1;  @!%p4 bra WAIT;
GO: DONE: ret;
}}"""
    (kernel,) = check_text(text, "k.ptx", launch=launch_from_json(_LAUNCH, "launch.json")).kernels
    assert kernel.verdict == "proven"
